"""Activities of a step, in words: what who waits, computes, sends or receives does."""

from varsim.report.words.resources import short
from varsim.study.why.account import Account
from varsim.study.why.path import SERVER, Piece


def verb(account: Account, piece: Piece, later: str) -> str:
    """What a worker does in a piece of a path; `later`: the activity after it."""
    jam = account.jam
    queue = "waits for its turn" if jam is None else f"waits for {short(jam)}"
    if later in ("read", "write"):
        queue += " to read" if later == "read" else " to push"
    return {
        "compute": "computes",
        "read": _by(
            account,
            servers="reads the variables",
            centre="reads the centre",
            neighbours="gets the mean",
            shards="all-gather",
            copies="receives",
        ),
        "write": _by(
            account,
            servers="pushes its gradient",
            centre="pushes the difference",
            neighbours="exchanges copies",
            shards="reduce-scatter",
            copies="all-reduce",
        ),
        "queue": queue,
        "barrier": "waits for the others",
        "token": "waits for a token",
        "lock": "waits for the lock",
        "down": "is not running",
        SERVER: "handled by the server",
    }[piece.activity]


def noun(account: Account, activity: str) -> str:
    """An activity, as part of a step's time."""
    jam = account.jam
    return {
        "compute": "computing",
        "read": _by(
            account,
            servers="reading",
            centre="reading",
            neighbours="getting means",
            shards="all-gather",
            copies="receiving",
        ),
        "write": _by(
            account,
            servers="pushing",
            centre="pushing",
            neighbours="exchanging copies",
            shards="reduce-scatter",
            copies="all-reduce",
        ),
        "queue": "waiting" if jam is None else f"waiting for {short(jam)}",
        "barrier": "waiting for others",
        "token": "waiting for a token",
        "lock": "waiting for the lock",
        "down": "not running",
        SERVER: "the server",
    }[activity]


def _by(account: Account, **words: str) -> str:
    """The word for whom it is sent to, or, if there is none, for what replicas hold."""
    (strategy,) = account.scenario.strategies
    return words.get(strategy.sends.to, words["shards" if account.shards else "copies"])
