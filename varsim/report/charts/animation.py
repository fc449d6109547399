"""A picture that moves: gradients on their way, in every strategy, on one clock; an SVG file.

Each gradient is a dot. It leaves its worker when it has been computed, waits where gradients are
collected, and goes into the model; a stale one turns red, one that is dropped falls. Squares are
tokens in their queue. The file needs no script: it moves by SVG's own animation, in browsers and
wherever a page shows a picture.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from varsim.report.charts.looks import PHASES
from varsim.strategies.sync_replicas import SyncReplicas

if TYPE_CHECKING:
    from varsim.study.result import Result

# A value at a moment of simulated time (ns).
Key: TypeAlias = tuple[float, float | str]

STEPS: Final = 6  # of the first strategy are shown
_LENGTH: Final = 14.0  # seconds that they take
_HELD: Final = 0.06  # of the whole, in which the end stands still
_MOST_DOTS: Final = 600  # of a panel: about 250 kB
_WIDTH, _HEAD, _ROW, _GAP = 470, 30, 19, 12
_WORKER, _LONG = 30, 96  # where the box of a worker begins, and how long it is
_GATE, _MODEL, _OWN = 338, 372, 180  # where gradients are collected, the model, own copies
_MOST_TOKENS: Final = 14
_FRESH, _STALE = "#2a78d6", "#e42536"
_IDLE: Final = "#c8cdd3"
_TOKEN: Final = "#c79a00"
# Text, lines and paper, on a light page and on a dark one.
_STYLE: Final = (
    ".ink{fill:#1f2328}.faint{fill:#59636e}.paper{fill:#fff}.line{stroke:#59636e}"
    "@media(prefers-color-scheme:dark){.ink{fill:#e4e8ee}.faint{fill:#a0a9b5}"
    ".paper{fill:#14181d}.line{stroke:#a0a9b5}}"
)
_KEY: Final = (
    (_FRESH, "a gradient"),
    (_STALE, "a stale one; a dropped one falls"),
    (_TOKEN, "a token"),
    (PHASES["compute"][0], "computing"),
    (PHASES["write"][0], "sending"),
    (PHASES["read"][0], "receiving"),
    (PHASES["queue"][0], "queueing"),
    (PHASES["barrier"][0], "waiting"),
    (PHASES["token"][0], "waiting for a token"),
    (PHASES["lock"][0], "waiting for a lock"),
    (PHASES["down"][0], "down"),
)
_LINE: Final = 18  # of the key
_COPIES: Final = ("its copy", "a copy each")


class TimeScale(NamedTuple):
    """Of simulated time (ns), what is shown; as shares of the whole."""

    end: float

    def at(self, moment: float) -> float:
        """Where a moment is, from 0 to 1."""
        return min(max(moment / self.end, 0.0), 1.0) * (1 - _HELD)


def animation(result: "Result", played: Mapping[str, Any]) -> str:
    """The first steps of all strategies, as SVG; `played`: the data of the timeline."""
    clock = TimeScale(_end(played))
    workers = max(len(one["workers"]) for one in played["strategies"])
    high = _HEAD + workers * _ROW + _GAP
    panels, across = played["strategies"], 2 if len(played["strategies"]) > 1 else 1
    rows = -(-len(panels) // across)
    width = across * _WIDTH
    workers_of = {one: result.trace(one).workers for one in result.strategies}
    tokens = {one.label: _tokens(one, workers_of[one.label]) for one in result.scenario.strategies}
    drawn = [
        f'<g transform="translate({index % across * _WIDTH},{index // across * high})">'
        + "".join(_panel(played, one, tokens[label], clock, high))
        + "</g>"
        for index, (label, one) in enumerate(zip(result.strategies, panels, strict=True))
    ]
    key = _key("".join(drawn), width)
    height = rows * high + 40 + _LINE * (1 + max(line for *_, line in key))
    said = f"The first {clock.end / 1e9:.3g} s of each strategy, on one clock"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12"><title>{said}</title>'
        f'<style>{_STYLE}</style><rect width="{width}" height="{height}" class="paper"/>'
        + "".join(drawn)
        + "".join(_bar(clock, width, rows * high + 14))
        + "".join(_keys(key, rows * high + 50))
        + "</svg>\n"
    )


def _end(played: Mapping[str, Any]) -> float:
    """Until most workers of the first strategy have ended so many iterations."""
    ends = []
    for worker in played["strategies"][0]["workers"]:
        spans = worker["spans"]
        own = [end for end, step in zip(spans[1::3], spans[2::3], strict=True) if step < STEPS]
        ends.append(max(own, default=0))
    return float(sorted(ends)[len(ends) // 2] or played["window"] or played["end"])


def _tokens(strategy: object, workers: int) -> tuple[int, int]:
    """How many tokens there are at first, and how many an update adds; 0 without a queue."""
    if not isinstance(strategy, SyncReplicas):
        return 0, 0
    needed, given = strategy.replicas_to_aggregate, strategy.initial_tokens
    at_first = needed if given in (None, -1) else max(given or 0, 0)
    return at_first, max(needed, strategy.total_num_replicas or workers)


def _panel(
    played: Mapping[str, Any],
    one: Mapping[str, Any],
    tokens: tuple[int, int],
    clock: TimeScale,
    high: int,
) -> Iterator[str]:
    bottom = high - _GAP
    rows = {worker["rank"]: row for row, worker in enumerate(one["workers"])}
    yield f'<g font-weight="600">{_text(_WORKER, 18, one["name"])}</g>'
    local = not any(row[6] > row[5] for row in one["gradients"])
    yield (
        f'<rect x="{_MODEL}" y="{_HEAD}" width="68" height="{bottom - _HEAD}" rx="6" '
        f'class="line" fill="none"/>'
        if not local
        else "".join(
            f'<rect x="{_OWN}" y="{_HEAD + row * _ROW}" width="34" height="{_ROW - 5}" rx="2" '
            'class="line" fill="none"/>'
            for row in rows.values()
        )
    )
    yield _text(
        _MODEL + 34 if not local else _OWN + 42,
        bottom - 6 if not local else _HEAD + (len(rows) - 1) * _ROW + 11,
        *(("model", "middle") if not local else (_COPIES[len(rows) > 1], "start")),
        faint=True,
    )
    yield from _updates(one["updates"], clock)
    for worker in one["workers"]:
        yield from _worker(worker, rows[worker["rank"]], played["phases"], clock)
    if tokens[1]:
        yield from _queue(one, tokens, clock)
    names = played["gradient"]
    gradients = [dict(zip(names, row, strict=True)) for row in one["gradients"]]
    begun = [each for each in gradients if each["computed"] < clock.end]
    for gradient in begun[:_MOST_DOTS]:
        outcome = played["outcomes"][gradient["outcome"]]
        yield _dot(gradient, outcome, rows[gradient["worker"]], clock, local, bottom)


def _worker(
    worker: Mapping[str, Any], row: int, phases: Sequence[Mapping[str, Any]], clock: TimeScale
) -> Iterator[str]:
    """A box with the colour of what its worker does, and how far its computation is."""
    y = _HEAD + row * _ROW
    yield _text(_WORKER - 6, y + 11, str(worker["rank"]), "end", faint=True)
    spans, start = worker["spans"], 0
    fills: list[Key] = []
    done: list[Key] = []
    for phase, end, _ in zip(spans[::3], spans[1::3], spans[2::3], strict=True):
        if start >= clock.end:
            break
        name = phases[phase]["name"]
        computes = name == "compute"
        fills.append((start, _IDLE if computes else PHASES[name][0]))
        if computes:
            done += [(start, 0), (end, _LONG), (end, 0)]
        start = end
    box = f'x="{_WORKER}" y="{y}" height="{_ROW - 5}" rx="2"'
    yield f'<rect {box} width="{_LONG}">{_moved("fill", fills, clock, jumps=True)}</rect>'
    compute = PHASES["compute"][0]
    yield f'<rect {box} width="0" fill="{compute}">{_moved("width", done, clock)}</rect>'


def _updates(updates: Sequence[int], clock: TimeScale) -> Iterator[str]:
    """How many updates there have been."""
    seen = [moment for moment in updates if moment <= clock.end]
    for count in range(len(seen) + 1):
        shown: list[Key] = [(0, "visible" if count == 0 else "hidden")]
        if count:
            shown.append((seen[count - 1], "visible"))
        if count < len(seen):
            shown.append((seen[count], "hidden"))
        said = f"{count} update{'s' * (count != 1)}"
        moves = _moved("visibility", shown, clock, jumps=True)
        yield f'<g visibility="hidden">{_text(_MODEL + 34, 18, said, "middle")}{moves}</g>'


def _queue(one: Mapping[str, Any], tokens: tuple[int, int], clock: TimeScale) -> Iterator[str]:
    """Squares, one for each token that waits: those that updates add, less those taken."""
    at_first, per_update = tokens
    changes = [(moment, per_update) for moment in one["updates"] if moment <= clock.end]
    for worker in one["workers"]:
        spans = worker["spans"]
        # A worker takes its token at the end of its iteration.
        ends: dict[int, int] = dict(zip(spans[2::3], spans[1::3], strict=True))
        changes += [(end, -1) for end in ends.values() if end <= clock.end]
    length = at_first
    lengths: list[tuple[int, int]] = [(0, at_first)]
    for moment, change in sorted(changes, key=lambda pair: (pair[0], -pair[1])):
        length += change
        lengths.append((moment, length))
    for place in range(min(_MOST_TOKENS, max(length for _, length in lengths))):
        shown: list[Key] = [
            (moment, "visible" if length > place else "hidden") for moment, length in lengths
        ]
        yield (
            f'<rect x="{_GATE - 26 - 10 * place}" y="9" width="7" height="7" fill="{_TOKEN}">'
            f"{_moved('visibility', shown, clock, jumps=True)}</rect>"
        )


def _dot(
    gradient: Mapping[str, int], outcome: str, row: int, clock: TimeScale, local: bool, bottom: int
) -> str:
    """A gradient on its way: from its worker to the gate, and then into the model, or down."""
    y = _HEAD + row * _ROW + (_ROW - 5) / 2
    left = _WORKER + _LONG + 5
    sent = gradient["computed"]
    arrived = max(gradient["arrived"], sent)
    ended = max(gradient["ended"], arrived) if outcome != "pending" else float("inf")
    stale = outcome in ("applied", "partly") and gradient["ended_step"] > gradient["read_step"]
    vain = outcome in ("dropped", "lost")
    there = _OWN + 17 if local else _GATE
    going = clock.end * 0.02  # how long the last way takes
    across: list[Key] = [(sent, left), (arrived, there)]
    down: list[Key] = []
    fade: list[Key] = [(sent, 0), (sent, 1)]
    fill: list[Key] = [(0, _FRESH)]
    if ended < clock.end:
        across += [(ended, there), (ended + going, there if vain or local else _MODEL + 34)]
        if vain:
            down = [(ended, y), (ended + 2 * going, bottom)]
        elif not local:
            down = [(ended, y), (ended + going, (_HEAD + bottom) / 2)]
        fade += [(ended + going, 1), (ended + 2 * going, 0)]
        if stale or vain:
            fill.append((ended - going / 2, _STALE))
    moves = (
        _moved("cx", across, clock)
        + (_moved("cy", down, clock) if down else "")
        + _moved("opacity", fade, clock)
        + (_moved("fill", fill, clock, jumps=True) if len(fill) > 1 else "")
    )
    return f'<circle cx="{left}" cy="{y:g}" r="4.5" fill="{_FRESH}" opacity="0">{moves}</circle>'


def _bar(clock: TimeScale, width: int, y: int) -> Iterator[str]:
    """The clock: a line that grows over its scale."""
    long = width - 2 * _WORKER
    yield f'<path d="M{_WORKER},{y}h{long}" stroke="{_IDLE}" stroke-width="3"/>'
    grown = _moved("width", [(0, 0), (clock.end, long)], clock)
    yield f'<rect x="{_WORKER}" y="{y - 1.5}" width="0" height="3" class="ink">{grown}</rect>'
    for part, anchor in enumerate(("start", "middle", "middle", "middle", "end")):
        said = f"{clock.end / 1e9 * part / 4:.3g} s"
        yield _text(_WORKER + long * part / 4, y + 15, said, anchor, faint=True)


def _key(drawn: str, width: int) -> list[tuple[str, str, float, int]]:
    """What the colours mean that are drawn: colour, words, and where (x, line)."""
    found, x, line = list[tuple[str, str, float, int]](), float(_WORKER), 0
    for color, said in _KEY:
        long = 26 + 6.1 * len(said)
        if color not in drawn:
            continue
        if x + long > width:
            x, line = float(_WORKER), line + 1
        found.append((color, said, x, line))
        x += long
    return found


def _keys(key: Sequence[tuple[str, str, float, int]], top: int) -> Iterator[str]:
    for color, said, x, line in key:
        y = top + line * _LINE
        yield f'<rect x="{x:g}" y="{y - 9}" width="9" height="9" rx="2" fill="{color}"/>'
        yield _text(x + 13, y, said, faint=True)


def _text(x: float, y: float, said: str, anchor: str = "start", *, faint: bool = False) -> str:
    look = "faint" if faint else "ink"
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{look}">{escape(said)}</text>'


def _moved(what: str, keys: Iterable[Key], clock: TimeScale, *, jumps: bool = False) -> str:
    """SVG's animation of one attribute, through these values; it jumps, or goes evenly."""
    known: list[tuple[float, float | str]] = []
    for moment, value in keys:
        known.append((clock.at(moment), value))
    if not known:
        return ""
    if known[0][0] > 0:
        known.insert(0, (0.0, known[0][1]))
    if not jumps:
        known.append((1.0, known[-1][1]))
    values = ";".join(f"{value:g}" if not isinstance(value, str) else value for _, value in known)
    times = ";".join(f"{at:.4f}".rstrip("0").rstrip(".") for at, _ in known)
    mode = ' calcMode="discrete"' if jumps else ""
    return (
        f'<animate attributeName="{what}" dur="{_LENGTH:g}s" repeatCount="indefinite"{mode} '
        f'values="{values}" keyTimes="{times}"/>'
    )
