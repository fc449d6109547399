"""What a run leaves behind, in words: the form in which two runs are compared."""

from typing import Any, NamedTuple


class Fate(NamedTuple):
    """A gradient from the read of its parameters to its end; times in ns, -1 = never."""

    worker: int
    iteration: int
    read: int
    read_step: int
    compute_start: int
    computed: int
    arrived: int = -1
    ended: int = -1
    ended_step: int = -1
    outcome: str = "pending"
    variables: int = 0  # that it was applied to


class Doing(NamedTuple):
    """A worker did one thing from `start` to `end` (ns)."""

    worker: int
    activity: str
    start: int
    end: int
    iteration: int


class Put(NamedTuple):
    """Tokens that were put into the queue."""

    time: int
    step: int
    copies: int


class Taken(NamedTuple):
    """A token that a worker got."""

    time: int
    worker: int
    step: int


class Measured(NamedTuple):
    """When the model was looked at from outside."""

    time: int
    step: int
    examples: int


class History(NamedTuple):
    """Everything that happened."""

    ended_by: str
    end: int
    steps: list[int]  # when global_step rose
    put: list[Put]
    taken: list[Taken]
    fates: list[Fate]  # in the order of their ends, then the pending ones
    doings: list[Doing]  # by worker and time
    measured: list[Measured]


def difference(expected: History, seen: History) -> str:
    """The first difference in every part of two runs, a line each; empty if they are equal."""
    lines = []
    for name in History._fields:
        one, other = getattr(expected, name), getattr(seen, name)
        if one != other:
            lines.append(f"{name}: {_first(one, other)}")
    return "\n".join(lines)


def _first(one: Any, other: Any) -> str:
    if not isinstance(one, list):
        return f"expected {one!r}, seen {other!r}"
    both = list(zip(one, other, strict=False))
    place = next((i for i, (a, b) in enumerate(both) if a != b), len(both))
    rows = [repr(rows[place]) if place < len(rows) else "nothing" for rows in (one, other)]
    return f"{len(one)} expected, {len(other)} seen; at {place} expected {rows[0]}, seen {rows[1]}"
