"""What resources, workers, numbers and the activities of a step are called."""

import math
import re
from collections.abc import Sequence

from varsim.report.words.phrases import digits
from varsim.study.statistics import Estimate
from varsim.study.why.account import Account
from varsim.study.why.path import SERVER, Piece
from varsim.study.why.resources import Use
from varsim.units import span

_OF_HOSTS = re.compile(r"(worker|ps|rack) ([\d., ]+) (up|down|handling|applying)")
_DOES = {"handling": "handling requests", "applying": "applying gradients"}
_NUMBERS = re.compile(r"\d+(?:\.\.\d+)?(?:, \d+(?:\.\.\d+)?)+|\d+\.\.\d+")


def percent(share: float) -> str:
    """A share as text, `83 %`."""
    size = round(100 * share, 1) + 0.0
    return f"{size:.0f} %" if abs(size) >= 9.5 or size == 0 else f"{size:.1f} %"


def faster(found: Estimate) -> str:
    """`5.75 times (5.65 to 5.85)`."""
    if math.isnan(found.mean):
        return "-"
    low, high = digits(found.low), digits(found.high)
    sure = "" if math.isnan(found.low) or low == high else f" ({low} to {high})"
    return f"{digits(found.mean)}x{sure}"


def workers(ranks: Sequence[int]) -> str:
    """`worker 3`, or `workers 2 and 3`."""
    return f"worker{'s' * (len(ranks) > 1)} {numbers(', '.join(map(str, ranks)))}"


def numbers(ranks: str) -> str:
    """`0..3, 5` in words: `0 to 3 and 5`; `0..1`: `0 and 1`."""
    runs = [run.split("..") for run in ranks.split(", ")]
    *some, last = [span(int(run[0]), int(run[-1])) for run in runs]
    return f"{', '.join(some)} and {last}" if some else last


def link_name(link: str) -> tuple[bool, str]:
    """Whether it is several links, or what servers do, and what they are called."""
    found = _OF_HOSTS.fullmatch(link)
    if found is None:
        return False, link
    host, ranks, way = found.groups()
    several = not ranks.isdigit()
    s = "s" if several else ""
    noun = {"ps": "server"}.get(host, host)
    ranks = numbers(ranks).replace(" to ", "\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}")
    if way in _DOES:
        return several, f"{noun}{s} {ranks}, {_DOES[way]}"
    return several, f"{way}link{s} of {noun}{s} {ranks}"


def article(unit: str) -> str:
    """`a step`, `an iteration`."""
    return f"an {unit}" if unit[0] in "aeiou" else f"a {unit}"


def resource(use: Use) -> str:
    """`the server's port (ps 0, receiving)`, `worker 3's link, sending`, `worker 3 computing`."""
    if use.kind == "port":
        return f"{ports(use)} ({named(use)}, {_way(use)})"
    if use.kind == "compute":
        return named(use).replace("worker ", "workers ", 1 if _many(use) else 0)
    if use.kind == "link":
        rank = named(use).removeprefix("worker ")
        whose = f"the links of workers {rank}" if _many(use) else f"worker {rank}'s link"
        return f"{whose}, {_way(use)}"
    if use.kind == "shared" and use.name.endswith((" up", " down")):  # where hosts fail: not dead
        whose = (
            f"links of {named(use).replace(' ', 's ', 1)}"
            if _many(use)
            else f"link of {named(use)}"
        )
        return f"the {whose}, {_way(use)}"
    return use.name


def ports(use: Use) -> str:
    """`the server's port`, or several."""
    return "the servers' ports" if _many(use) else "the server's port"


def named(use: Use) -> str:
    """Without the direction, its numbers in words."""
    bare = use.name.removesuffix(" up").removesuffix(" down")
    return _NUMBERS.sub(lambda found: numbers(found[0]), bare)


def short(use: Use) -> str:
    """What one waits for, in few words."""
    return {"handling": "the server", "port": "the server's port"}.get(use.kind, "the network")


def busy(use: Use) -> str:
    """How much of it was used."""
    if use.kind in ("port", "link", "shared"):
        return f"{percent(use.share)} of the bandwidth used"
    return f"{percent(use.share)} of the time"


def _many(use: Use) -> bool:
    return any(mark in use.name for mark in (",", ".."))


def _way(use: Use) -> str:
    return "sending" if use.name.endswith(" up") else "receiving"


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
