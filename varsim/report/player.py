"""The timeline to walk through: what the page's script draws, as plain data."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.trace import IN_VAIN, GradientRow, Outcome, Phase, Span
from varsim.inert import visible
from varsim.report.plots.figure import ACTIVITIES
from varsim.report.plots.looks import DASHES, looks
from varsim.report.plots.timeline import shown_workers, window
from varsim.report.tracks import Track, tracks
from varsim.report.words.names import mention, title
from varsim.strategies import families
from varsim.study.loads import Watched, loads
from varsim.units import format_seconds

if TYPE_CHECKING:
    from varsim.study.result import Result

# Spans, sends and gradients of all strategies; a page of about 1 MB.
MOST: Final = 30_000
# Links and servers of a strategy to choose from, and changes of the loads of all.
MOST_TRACKS: Final = 8
MOST_CHANGES: Final = 30_000

# What a worker is doing in each activity.
_SAID: Final = {
    Phase.COMPUTE: "computing",
    Phase.READ: "receiving",
    Phase.WRITE: "sending",
    Phase.QUEUE: "waiting for a turn on a link or at a server",
    Phase.BARRIER: "waiting for other workers",
    Phase.TOKEN: "waiting for a token",
    Phase.LOCK: "waiting for the lock",
    Phase.DOWN: "not running",
}
# And in a strategy, by what it sends, and where to (`Sends`): as it writes, and as it reads.
_SENT: Final = {
    ("gradients", "servers"): "sending gradients to {servers}",
    ("gradients", "sums"): "sending gradients to {servers} and receiving sums",
    ("gradients", "workers"): "all-reducing gradients with all other workers",
    ("parameters", "centre"): "sending changes to {servers}",
    ("parameters", "neighbours"): "exchanging copies with neighbours",
    ("parameters", "workers"): "averaging copies with all other workers",
    ("parameters", "copies"): "broadcasting the copy of worker 0",
}
_RECEIVED: Final = "receiving variables from {whom}"
_SHARING: Final = "sharing a link or a server with others"
# Strips below the workers of a strategy, over the same clock: what the key says of them, and what
# each of their numbers counts, from the bottom up.
_STRIPS: Final = {
    "links": (
        "how many workers send, receive, or wait for their turn on a link or at a server",
        "workers sending",
        "workers receiving",
        "workers waiting for their turn",
    ),
    "in use": (
        "share of the chosen link or server that is in use (%)",
        ", in use (%)",
    ),
    "held": (
        "how many gradients have arrived and are not yet applied",
        "gradients that have arrived and are not yet applied",
    ),
    "stale": (
        "how many updates stale each gradient was when it was applied",
        "staleness of the gradient applied last (updates)",
    ),
}
# Of a gradient: the names that the script knows, and the columns of its row.
_GRADIENT: Final = {
    "worker": "worker",
    "iteration": "iteration",
    "read": "read",
    "read_step": "read_step",
    "begun": "compute_start",
    "computed": "computed",
    "arrived": "arrived",
    "ended": "applied",
    "ended_step": "applied_step",
    "outcome": "outcome",
}
# Lengths of dashes and gaps (pixels), for those of `DASHES`.
_DASHES: Final[tuple[list[int], ...]] = (
    [],
    [7, 4],
    [7, 3, 2, 3],
    [2, 3],
    [7, 3, 2, 3, 2, 3],
    [14, 4],
)
_SPAN: Final = {name: index for index, name in enumerate(Span._fields)}
_ROW: Final = {name: index for index, name in enumerate(GradientRow._fields)}


def content(result: "Result") -> dict[str, Any]:
    """The first replication of every strategy, up to one moment; times in ns.

    Spans of a worker are (activity, end, iteration), each from the end of the one before; what it
    sends beside them (activity, start, end, iteration).
    """
    seen = {
        int(phase)
        for name in result.strategies
        for rows in _first(result, name)[:2]
        for phase in np.unique(rows[:, _SPAN["phase"]])
    }
    whole = max(result.trace(name).end for name in result.strategies)
    end = _end(result, whole)
    watched = loads(result)
    curves = _curves(watched, end)
    return {
        "end": end,
        "window": round(window(result) * 1e9),
        "cut": " ".join(filter(None, [_cut(end, whole), _known(result, watched, end)])),
        "phases": [
            {
                "name": phase.name.lower(),
                "said": _SAID[phase],
                "color": ACTIVITIES[phase.name.lower()].color,
                "hatch": ACTIVITIES[phase.name.lower()].mark,
                "seen": int(phase) in seen,
            }
            for phase in Phase
        ],
        "outcomes": [outcome.name.lower() for outcome in Outcome],
        "gradient": list(_GRADIENT),
        "strips": _STRIPS,
        "marks": _marks(result),
        "strategies": [
            _strategy(result, name, end) | {"loads": curves[name]} for name in result.strategies
        ],
    }


def _curves(watched: Mapping[str, Watched], end: int) -> dict[str, list[dict[str, Any]]]:
    """Loads of the busiest links and servers: changes so long apart (ns), to values (%).

    Where there are more changes than have room, those close together are one, with their mean.
    """
    every = {name: tracks(one) for name, one in watched.items()}
    names = {track.name for own in every.values() for track in own[:MOST_TRACKS]}
    shown = {name: [one for one in own if one.name in names] for name, own in every.items()}
    most = MOST_CHANGES // max(1, sum(map(len, shown.values())))
    return {
        name: [_curve(track, min(end, watched[name].until), end, most) for track in own]
        for name, own in shown.items()
    }


def _curve(track: Track, until: int, end: int, most: int) -> dict[str, Any]:
    load, window = track.load.before(until).at_most(most)
    means = f", means over {format_seconds(window / 1e9)}" if window else ""
    moments = [0, *load.times.tolist(), *[until] * (until < end)]  # from then on not known
    return {
        "name": track.name,
        "means": means,
        "share": round(100 * track.share, 1),
        "apart": np.diff(moments, prepend=0).tolist(),
        "values": [0, *(100 * load.shares).round(1).tolist(), None][: len(moments)],
    }


def _known(result: "Result", watched: Mapping[str, Watched], end: int) -> str:
    """Up to when the loads of links are known, where that is not all of what is shown."""
    missing, ends = [], []
    for name in result.strategies:
        until, called = watched[name].until, visible(mention(result.scenario, name))
        if not result.trace(name).links:
            continue
        if not until:
            missing.append(called)
        elif until < min(end, result.trace(name).end):
            ends.append(f"{until / 1e9:.4g} s of {called}")
    said = []
    if ends:
        said.append(f"What is in use is known up to {', '.join(ends)}.")
    if missing:
        said.append(f"What is in use is not known of {', '.join(missing)}.")
    return " ".join(said)


def _marks(result: "Result") -> list[str]:
    """What else the key explains, of what there is to see."""
    found = ["\N{BLACK DOWN-POINTING TRIANGLE} update"]
    rows = [_first(result, name) for name in result.strategies]
    if any(np.isin(one[:, _ROW["outcome"]], IN_VAIN).any() for _, _, one in rows):
        found.append("\N{BOX DRAWINGS LIGHT DIAGONAL CROSS} dropped or lost")
    return found + ["thin bars: communication"] * any(len(sends) for _, sends, _ in rows)


def _strategy(result: "Result", name: str, end: int) -> dict[str, Any]:
    trace, ranks = result.trace(name), shown_workers(result, name)
    spans, sends, gradients = _first(result, name)
    spans = spans[spans[:, _SPAN["start"]] < end]
    sends = sends[sends[:, _SPAN["start"]] < end]
    gradients = gradients[gradients[:, _ROW["read"]] < end]

    def of(rows: NDArray[np.int64], rank: int, *columns: str) -> list[int]:
        own = rows[rows[:, _SPAN["worker"]] == rank]
        flat: list[int] = own[:, [_SPAN[column] for column in columns]].ravel().tolist()
        return flat

    (strategy,) = (one for one in result.scenario.strategies if one.label == name)
    cluster = result.scenario.cluster_of(strategy)
    servers, shares = cluster.parameter_servers, cluster.network.sharing == "fair"
    to = "the server" if servers == 1 else f"the {servers} servers"
    with_servers = strategy.sends.to in ("servers", "centre")
    whom = to if with_servers else "other workers"
    sent = _SENT.get((strategy.sends.what, strategy.sends.to), _SAID[Phase.WRITE])
    return {
        "name": visible(title(result.scenario, name)),
        "said": {
            "write": sent.format(servers=to),
            "read": _RECEIVED.format(whom=whom),
            **({"queue": _SHARING} if shares else {}),
        },
        "shares": shares,
        "dash": _DASHES[DASHES.index(looks(families(result.scenario.strategies))[name].line)],
        "of": trace.workers,
        "workers": [
            {
                "rank": rank,
                "spans": of(spans, rank, "phase", "end", "iteration"),
                "sends": of(sends, rank, "phase", "start", "end", "iteration"),
            }
            for rank in ranks
        ],
        "gradients": gradients[:, [_ROW[column] for column in _GRADIENT.values()]].tolist(),
        "updates": trace.steps[trace.steps <= end].tolist(),
        "loss": [
            [row.time, row.loss if np.isfinite(row.loss) else None]
            for row in trace.evaluations
            if row.time <= end
        ],
    }


def _first(result: "Result", name: str) -> list[NDArray[np.int64]]:
    """The first spans, sends and gradients of the workers shown, one more of each than has room."""
    trace, ranks = result.trace(name), shown_workers(result, name)

    def chosen(column: int) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
        return lambda rows: np.isin(rows[:, column], ranks)

    return [
        rows.least(first, MOST + 1, chosen(worker))
        for rows, first, worker in (
            (trace.span_rows, _SPAN["start"], _SPAN["worker"]),
            (trace.send_rows, _SPAN["start"], _SPAN["worker"]),
            (trace.gradient_rows, _ROW["read"], _ROW["worker"]),
        )
    ]


def _end(result: "Result", whole: int) -> int:
    """Up to when all fits on the page (ns)."""
    begun = []
    for name in result.strategies:
        spans, sends, gradients = _first(result, name)
        begun += [spans[:, _SPAN["start"]], sends[:, _SPAN["start"]], gradients[:, _ROW["read"]]]
    moments = np.sort(np.concatenate(begun))
    return int(moments[MOST]) if len(moments) > MOST else whole


def _cut(end: int, whole: int) -> str:
    if end == whole:
        return ""
    return (
        f"The page holds the first {end / 1e9:.4g} s of {whole / 1e9:.4g} s of the first "
        "replication. All of it is in spans.csv and updates.csv, and in trace.json.gz for a trace "
        "viewer."
    )
