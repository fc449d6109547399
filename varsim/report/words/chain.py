"""The typical step of a strategy, piece by piece."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from varsim.report.words.phrases import joined
from varsim.report.words.resources import noun, verb
from varsim.study.measure import NANOSECONDS
from varsim.study.why.account import Account
from varsim.study.why.path import SERVER, Path, Piece
from varsim.units import format_seconds

# What repeats so often is told at once.
_OFTEN: Final = 4


def chain(account: Account) -> str:
    """The typical step, piece by piece: who did what for how long."""
    path = account.typical
    length = format_seconds(path.length / NANOSECONDS)
    if account.asynchronous:
        who = f"worker {path.pieces[0].worker}'s iteration {path.number}"
        begin = f"A typical iteration ({who}, {length}):"
    else:
        begin = f"What a typical step waits for (step {path.number}, {length}):"
    return f"{begin} {' -> '.join(_links_of(account, path))}."


def _links_of(account: Account, path: Path) -> Iterator[str]:
    """The pieces in words; a worker is named where it changes, what all do is told once."""
    pieces = path.pieces
    worker = pieces[0].worker if account.asynchronous else None
    index = 0
    while index < len(pieces):
        if count := _folded(pieces[index:]):
            yield _at_once(account, pieces[index : index + count])
            index, worker = index + count, None
            continue
        piece = pieces[index]
        index += 1
        end = piece.end
        moved = ("read", "write") if account.shards else () if account.servers else ("write",)
        by_all = piece.activity in (SERVER, *moved)
        while by_all and index < len(pieces) and pieces[index].activity == piece.activity:
            end = pieces[index].end
            index += 1
        later = pieces[index].activity if index < len(pieces) else ""
        said = verb(account, piece, later)
        if piece.worker != worker and not by_all:
            said = f"worker {piece.worker} {said}"
            worker = piece.worker
        yield f"{said} {format_seconds((end - piece.start) / NANOSECONDS)}"


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


def _at_once(account: Account, pieces: Sequence[Piece]) -> str:
    """`94 x all-gather (50.5 ms in all) and 93 x computing (33 ms in all)`."""
    total: dict[str, list[int]] = {}
    for piece in pieces:
        total.setdefault(noun(account, piece.activity), []).append(piece.end - piece.start)
    return joined(
        [
            f"{len(times)} x {name} ({format_seconds(sum(times) / NANOSECONDS)} in all)"
            for name, times in total.items()
        ]
    )
