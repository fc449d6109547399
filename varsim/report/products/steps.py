"""What a typical step of a strategy waits for, piece by piece."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from varsim.report.told import Column, Number, Table
from varsim.study.measure import NANOSECONDS
from varsim.study.why.path import SERVER, Path, Piece

if TYPE_CHECKING:
    from varsim.study.why.account import Account

_OFTEN: Final = 4  # what repeats so often is told at once
_WAITS: Final = {"handling": "the server", "port": "the server's port"}
# What sending is called, by whom it goes to; else by what replicas hold.
_SENDS: Final = {
    "servers": ("reading", "pushing"),
    "centre": ("reading", "pushing"),
    "neighbours": ("getting means", "exchanging copies"),
    "shards": ("all-gather", "reduce-scatter"),
    "copies": ("receiving", "all-reduce"),
}
_ACTIVITIES: Final = {
    "compute": "computing",
    "barrier": "waiting for others",
    "token": "waiting for a token",
    "lock": "waiting for the lock",
    "down": "not running",
    SERVER: "the server",
}


class _Row(NamedTuple):
    what: str
    nanoseconds: int


def chain(account: "Account", name: str) -> Table:
    """The typical step of a strategy, or iteration of a worker: who did what for how long."""
    path = account.typical
    rows = list(_rows(account, path))
    corner = f"{name}: step {path.number}"
    if account.asynchronous:
        corner = f"{name}: iteration {path.number} of worker {path.pieces[0].worker}"
    times = tuple(Number(row.nanoseconds / NANOSECONDS, unit="s") for row in rows)
    shares = tuple(Number(row.nanoseconds / path.length, unit="part") for row in rows)
    columns = (Column("seconds", "takes", times), Column("share", "share", shares))
    return Table(tuple(row.what for row in rows), columns, corner=corner)


def _rows(account: "Account", path: Path) -> Iterator[_Row]:
    """The pieces; a worker is named where it changes, what all do is told once."""
    pieces = path.pieces
    worker = pieces[0].worker if account.asynchronous else None
    moved = ("read", "write") if account.shards else () if account.servers else ("write",)
    index = 0
    while index < len(pieces):
        if count := _folded(pieces[index:]):
            yield from _at_once(account, pieces[index : index + count])
            index, worker = index + count, None
            continue
        piece, end = pieces[index], pieces[index].end
        index += 1
        by_all = piece.activity in (SERVER, *moved)
        while by_all and index < len(pieces) and pieces[index].activity == piece.activity:
            end = pieces[index].end
            index += 1
        what = _activity(account, piece.activity)
        if piece.activity == "queue" and index < len(pieces):
            what += {"read": " to read", "write": " to push"}.get(pieces[index].activity, "")
        if piece.worker != worker and not by_all:
            what, worker = f"worker {piece.worker}: {what}", piece.worker
        yield _Row(what, end - piece.start)


def _folded(pieces: Sequence[Piece]) -> int:
    """How many of the first pieces are told at once; 0 where nothing repeats often enough.

    The longest beginning of two activities, else of three, of which one occurs `_OFTEN` times.
    """
    for kinds in (2, 3):
        seen: Counter[str] = Counter()
        for piece in pieces:
            if piece.activity not in seen and len(seen) == kinds:
                break
            seen[piece.activity] += 1
        if seen.most_common(1)[0][1] >= _OFTEN:
            return seen.total()
    return 0


def _at_once(account: "Account", pieces: Sequence[Piece]) -> Iterator[_Row]:
    """`94 x all-gather`, and how long that takes in all."""
    total: dict[str, list[int]] = {}
    for piece in pieces:
        total.setdefault(_activity(account, piece.activity), []).append(piece.end - piece.start)
    for name, times in total.items():
        yield _Row(f"{len(times)} x {name}", sum(times))


def _activity(account: "Account", activity: str) -> str:
    """What it is called as a part of a step."""
    if activity in ("read", "write"):
        (strategy,) = account.scenario.strategies
        kept = "shards" if account.shards else "copies"
        to = strategy.sends.to if strategy.sends.to in _SENDS else kept
        return _SENDS[to][activity == "write"]
    if activity == "queue":
        jam = account.jam
        return f"waiting for {_WAITS.get(jam.kind, 'the network')}" if jam else "waiting"
    return _ACTIVITIES[activity]
