"""Loads of links and servers as they are shown: by name, busiest first, like ones together."""

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.loads import Load, mean_load
from varsim.report.words.resources import link_name
from varsim.study.loads import Watched
from varsim.study.why.resources import NUMBERED_LINK, joined_name

# Of more links than so many there is one track for all of a kind and direction.
MOST_SINGLE: Final = 40
SERVER: Final = "ps "


class Track(NamedTuple):
    """A load to be drawn: what it is called, and the share of the time, or of capacity, in use."""

    name: str
    share: float
    load: Load


def tracks(watched: Watched, *, by_kind: bool = False) -> list[Track]:
    """The tracks of a run, busiest first; those that are never apart are one.

    `by_kind`: of many links there is one for all of a kind, with their mean, besides those of
    servers.
    """
    found = watched.loads
    if by_kind and len(found) > MOST_SINGLE:
        kinds = _gathered(found, lambda name: name if name.startswith(SERVER) else _kind(name))
        found = {_joined(names): mean_load([found[one] for one in names]) for names in kinds}
    alike = _gathered(found, lambda name: (_kind(name), *map(_digest, found[name])))
    made = []
    for names in alike:
        load = found[names[0]]
        (share,) = load.within(np.array([0, watched.until])).tolist()
        name = link_name(_joined(names))[1].replace("\N{NO-BREAK SPACE}", " ")
        made.append(Track(name, share, load))
    return sorted(made, key=lambda track: -round(track.share, 3))


def _gathered(names: Iterable[str], key: Callable[[str], object]) -> list[list[str]]:
    """The names of each key, in order."""
    found: dict[object, list[str]] = {}
    for name in names:
        found.setdefault(key(name), []).append(name)
    return [*found.values()]


def _digest(column: NDArray[Any]) -> bytes:
    """What stands for a column that may be many megabytes."""
    return sha256(column.tobytes()).digest()


def _kind(name: str) -> object:
    numbered = NUMBERED_LINK.fullmatch(name)
    return name if numbered is None else numbered.group(1, 3)


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else joined_name(names, NUMBERED_LINK)
