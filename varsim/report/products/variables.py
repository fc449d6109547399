"""What a run of variables tells: the fastest mode, what each costs, what was seen of values."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from varsim.core.units import counted
from varsim.distribute.program import NormalElements
from varsim.distribute.program_run import CROSS_REPLICA, ActionRecord
from varsim.report.notes import plain
from varsim.report.products.figures import links
from varsim.report.products.story_rows import beside, of_arrays, text
from varsim.report.told import Cell, Chart, Column, Data, Note, Number, Report, Source, Table, Value
from varsim.report.wording import headline, listed, shown
from varsim.scenario.targets import EQUAL_WITHIN
from varsim.scenario.writing import MADE_BY
from varsim.study.program import COLUMNS, METRICS, actor, place
from varsim.study.verdict import CLOSE, EQUAL, SAME, Ranking, lead_of, ranked, verdict

if TYPE_CHECKING:
    from varsim.cluster.programs import ProgramTrace
    from varsim.distribute.program_run import ValueSummary, VariableView
    from varsim.study.program import VariablesResult


MOST_RATIOS: Final = 12  # rows of the table over reads per write
_MOST_VARIABLES: Final = 8  # whose values are printed without --all
_TIME: Final = "time_per_step"
_MOST_TOLD: Final = 3  # variables that modes leave unlike
_ALIKE: Final = 1 + 1e-9

FILES: Final = {
    "summary.csv": "every measure of every mode, with its interval; as written, then as varied",
    "result.json": "the answer, every measure, what was seen, with seed and versions",
    "runs.csv": "one row per run: mode, reads per write, replication; what it took and sent",
    "acts.csv": "one row per act: who did what from when to when, and what the copies held then",
    "sent.csv": "one row per message: what for, from where to where, how many bytes, when",
    "links.csv": "one row per link: what it carried, and that as a share of what it could",
    "scenario.yaml": "the scenario, defaults written out",
}


def report(result: "VariablesResult") -> Report:
    """What there is to tell of a result."""
    from varsim.scenario.writing import dump_scenario

    scenario, ranking, charts = result.scenario, ranking_of(result), tuple(_charts(result))
    over = [over_ratios(result)] if result.ratios else []
    return Report(
        "variables",
        scenario.name,
        tuple(_headline(result, ranking)),
        _table(result, ranking),
        tuple(_notes(result)),
        next="varsim explain FILE",
        charts=charts,
        pictures=lambda: (step_chart(result), *charts),
        embedded={"step": "What happens in a step"},
        details=(*over, seen(result), links(result.carried, {one: one for one in result.modes})),
        always=len(over) + (len(scenario.variables) <= _MOST_VARIABLES),
        source=Source(dump_scenario(scenario), "varsim run scenario.yaml --out again"),
        provenance=result.provenance,
        families=result.families,
        files=FILES,
        data=Data.of(result.summary),
        facts=partial(document, result),
        meanings={name: about.description for name, about in METRICS.items()},
    )


def ranking_of(result: "VariablesResult") -> Ranking[str]:
    """The modes by their time per step.

    By differences, as crossovers are where they are 0: what both modes spend alike counts in
    neither.
    """
    found = ranked(
        {mode: result.values(mode, _TIME) for mode in result.modes},
        equal_within=EQUAL_WITHIN,
        exact=lambda mode: not result.scenario.times_are_random,
        additive=True,
    )
    assert found is not None, "every step takes a time"
    return found


# --- the headline -------------------------------------------------------------------------------


def _headline(result: "VariablesResult", ranking: Ranking[str]) -> Iterator[Note]:
    """Who is fastest over reads per write, and as the program is written; what was seen of it."""
    if result.ratios and len(result.modes) > 1:
        yield _over(result)
    times = {mode: Number.of(result.estimate(mode, _TIME), "s") for mode in result.modes}
    free = tuple(mode for mode, time in times.items() if time.mean == 0)
    found = headline(ranking, {mode: mode for mode in times}, times, result.replications)
    as_written: dict[str, Value] = {"written": "yes"} if result.ratios else {}
    code = found.code if found.code == "too-few" else f"step-{found.code}"
    yield Note("step-free", {"who": free}) if free else Note(code, {**found.values, **as_written})
    if said := _read_outside(result):
        yield Note("read-outside", {"seen": said})


def _read_outside(result: "VariablesResult") -> str:
    """`a 18 and b 2 in every mode; c 3 in on_read and on_write, 6 in none`."""
    alike, unlike = [], []
    for name in (one.name for one in result.scenario.variables):
        by: dict[str, list[str]] = {}
        for mode in result.modes:
            by.setdefault(text(result.view(mode, name).outside), []).append(mode)
        if len(by) > 1:
            each = ", ".join(f"{value} in {listed(modes)}" for value, modes in by.items())
            unlike.append(f"{name} {each}")
        elif "-" not in by:
            alike.append(f"{name} {next(iter(by))}")
    if alike:
        unlike.insert(0, listed(alike) + " in every mode" * (len(result.modes) > 1))
    return "; ".join(unlike[:_MOST_TOLD])


class Range(NamedTuple):
    """Reads per write between which some modes are the fastest, all alike."""

    begin: float
    end: float
    modes: list[str]


def fastest(result: "VariablesResult") -> list[Range]:
    """Which modes are the fastest from where to where, by their mean times."""
    times = {
        mode: [result.estimate(mode, _TIME, ratio).mean for ratio in result.ratios]
        for mode in result.modes
    }
    crossed = [found.reads_per_write.mean for found in result.crossovers()]
    # Around a crossing two modes are always nearly equal: those that are at all ratios are told so.
    best = [min(at) for at in zip(*times.values(), strict=True)]
    alike = [
        mode
        for mode, own in times.items()
        if all(one <= least * (1 + EQUAL_WITHIN) for one, least in zip(own, best, strict=True))
    ]
    ranges: list[Range] = []
    for begin, end in pairwise(sorted({*result.ratios, *crossed})):
        middle = (begin + end) / 2
        there = {mode: float(np.interp(middle, result.ratios, own)) for mode, own in times.items()}
        least = min(there.values())
        modes = [mode for mode, time in there.items() if mode in alike or time <= least * _ALIKE]
        if ranges and ranges[-1].modes == modes:
            ranges[-1] = ranges[-1]._replace(end=end)
        else:
            ranges.append(Range(begin, end, modes))
    return ranges


def _over(result: "VariablesResult") -> Note:
    """Which mode is fastest from where on, as the outside reads more often."""
    crossings = {one.reads_per_write.mean: one.reads_per_write for one in result.crossovers()}
    of: dict[str, Value] = {"least": result.ratios[0], "most": result.ratios[-1]}
    if result.scenario.times_are_random and result.replications == 1:
        of["once"] = "yes"
    for number, one in enumerate(fastest(result), 1):
        of[f"best{number}"] = tuple(one.modes)
        at = crossings.get(one.end)
        of[f"until{number}"] = Number(one.end) if at is None else Number.of(at)
    return Note("fastest-over", of)


# --- tables -------------------------------------------------------------------------------------


def _table(result: "VariablesResult", ranking: Ranking[str]) -> Table:
    """What a step costs in each mode, a row per mode by rank."""
    order = [ranking.best, *(rival.key for rival in ranking.rivals)]

    def column(key: str, head: str, unit: str = "", *, bar: bool = False) -> Column:
        cells = tuple(Number.of(result.estimate(mode, key), unit) for mode in order)
        return Column(key, head, cells, bar=bar, about=key)

    columns = [column(_TIME, "a step", "s", bar=True)]
    cells = tuple(_ratio(result, mode) for mode in order)
    if any(cell != "-" for mode, cell in zip(order, cells, strict=True) if mode != result.modes[0]):
        columns.append(Column("time_ratio", f"vs. {result.modes[0]}", cells))
    columns.append(column("bytes_per_step", "sent a step", "B"))
    columns.append(column("messages_per_step", "messages a step"))
    best = len(ranking.tied) if len(order) > 1 else 0
    return Table(tuple(order), tuple(columns), corner="mode", best=best)


def _ratio(result: "VariablesResult", mode: str) -> Cell:
    """How many times as long as in the first mode a step takes."""
    if mode == result.modes[0]:
        return Number(1.0, verdict="baseline")
    if result.values(mode, _TIME) == result.values(result.modes[0], _TIME):
        return Number(1.0, verdict="tie")  # also where both take no time
    found = lead_of(
        *(result.values(one, _TIME) for one in (mode, result.modes[0])),
        comparisons=len(result.modes) - 1,
        exact=not result.scenario.times_are_random,
        additive=True,
    )
    if found.note or not any(result.values(mode, _TIME)):
        return "-"  # one of them takes no time
    tie = verdict(found, "", "", EQUAL_WITHIN) in (CLOSE, EQUAL, SAME)
    return Number.of(found, verdict="tie" if tie else "")


def seen(result: "VariablesResult") -> Table:
    """What replicas and the outside read last of variables, and what copies hold at the end."""
    variables, workers = result.scenario.variables, result.scenario.cluster.workers
    pairs = [(one.name, mode) for one in variables for mode in result.modes]
    views = [result.view(mode, name) for name, mode in pairs]
    columns = {
        "outside": [text(view.outside) for view in views],
        "replicas": [beside(view.replicas) for view in views],
        "copies at the end": [
            beside(view.copies, workers if len(view.copies) > 1 else 1) for view in views
        ],
    }
    if all(read in ("-", own) for _, read, own in zip(*columns.values(), strict=True)):
        del columns["replicas"]  # they read what their copies hold
    single = len(result.modes) == 1
    return Table(
        tuple(name if single else f"{name}, {mode}" for name, mode in pairs),
        tuple(
            Column(name, name, tuple(cells), prose=True)
            for name, cells in columns.items()
            if set(cells) != {"-"}
        ),
        corner="Read last: variable, mode",
    )


def over_ratios(result: "VariablesResult", most: int = MOST_RATIOS) -> Table:
    """The time per step over reads per write, a row per ratio; of many some."""
    count = len(result.ratios)
    most = min(count, most)
    chosen = [result.ratios[round(place * (count - 1) / (most - 1))] for place in range(most)]

    def cells(mode: str) -> tuple[Number, ...]:
        return tuple(Number.of(result.estimate(mode, _TIME, ratio), "s") for ratio in chosen)

    columns = tuple(Column(mode, mode, cells(mode)) for mode in result.modes)
    return Table(
        tuple(f"{ratio:g}" for ratio in chosen), columns, corner="Time per step: reads per write"
    )


# --- notes, charts, facts -----------------------------------------------------------------------


def _notes(result: "VariablesResult") -> Iterator[Note]:
    scenario, count = result.scenario, result.replications
    written = [getattr(action, "value", 0) for _, action in scenario.program.actions()]
    drawn = any(isinstance(value, NormalElements) for value in written)
    if count > 1:
        yield Note("interval", {"count": count})
    else:
        exact = "exact-steps" if drawn else "exact"
        yield Note("one-run" if scenario.times_are_random else exact)
    if count > 1 and drawn:
        yield Note("first-values")
    bounds = {one.end for one in fastest(result)} if result.ratios else set()
    for found in result.crossovers():
        where = found.reads_per_write
        of: dict[str, Value] = {"first": found.first, "second": found.second}
        if where.replications < count:
            often: dict[str, Value] = {"count": where.replications, "of": count}
            yield Note("some-cross", of | {"where": Number(where.mean)} | often)
        elif where.mean not in bounds:
            yield Note("others-cross", of | {"where": Number.of(where)})
    if result.crossovers():
        yield Note("between-ratios")
    workers = scenario.cluster.workers
    if scenario.cross_device_ops == "hierarchical_copy" and workers > 1 and workers % 2:
        yield Note("odd-replica", {"last": str(workers - 1)})
    views = [view for mode in result.modes for view in result.trace(mode).views]
    yield from of_arrays([one for view in views for one in (view.outside, *view.copies)])


def _charts(result: "VariablesResult") -> Iterator[Chart]:
    """The time per step over reads per write, with a ring where two modes take the same."""
    if not result.ratios:
        return
    rows = []
    for mode in result.modes:
        found = [result.estimate(mode, _TIME, ratio)[:3] for ratio in result.ratios]
        crossed = {one.reads_per_write.mean for one in result.crossovers() if one.first == mode}
        for x in sorted({*result.ratios, *crossed}):
            ends = [float(np.interp(x, result.ratios, own)) for own in zip(*found, strict=True)]
            own = dict(zip(("mean", "low", "high"), ends, strict=True))
            marks = {"ring": x in crossed, "between": x not in result.ratios}
            rows.append({"who": mode, "x": x, **own, **marks})
    yield Chart.of(
        "crossover",
        "lines",
        rows,
        "outside reads per write",
        "time per step (s)",
        by="who",
        ring="two modes take the same time",
    )


def document(result: "VariablesResult") -> dict[str, Any]:
    """Everything but the long tables, as plain data."""
    told = result.report
    points = [None, *result.ratios]
    per_point = len(result.modes) * result.replications
    return {
        "made_by": MADE_BY,
        "kind": "variables",
        "name": result.scenario.name,
        "provenance": result.provenance,
        "headline": [plain(note) for note in told.headline],
        "notes": [plain(note) for note in told.notes],
        "modes": list(result.modes),
        "summary": [
            {
                "mode": mode,
                "reads_per_write": ratio,
                "metric": metric,
                "unit": about.unit,
                **result.estimate(mode, metric, ratio)._asdict(),
                "values": result.values(mode, metric, ratio),
            }
            for ratio in points
            for mode in result.modes
            for metric, about in METRICS.items()
        ],
        "crossovers": [
            {
                "cheaper_below": found.first,
                "cheaper_above": found.second,
                "reads_per_write": found.reads_per_write._asdict(),
                "time_per_step_s": found.time_per_step,
            }
            for found in result.crossovers()
        ],
        "seen": {mode: [_view(view) for view in result.trace(mode).views] for mode in result.modes},
        "metrics": {
            name: {"unit": metric.unit, "description": metric.description}
            for name, metric in METRICS.items()
        },
        "columns": COLUMNS,
        "runs": [
            {
                "mode": result.modes[place % per_point // result.replications],
                "reads_per_write": points[place // per_point],
                **_facts(trace, whole=place < len(result.written)),
            }
            for place, trace in enumerate(result.traces)
        ],
        "scenario": result.scenario.model_dump(mode="json", exclude_none=True),
    }


def _facts(trace: "ProgramTrace", whole: bool) -> dict[str, Any]:
    """A run without its rows; of one whose rows are kept, how many there are."""
    rows = {"acts": len(trace.acts), "sent": len(trace.sent), "links": len(trace.links)}
    return {
        "replication": trace.replication,
        "began_ns": trace.began,
        "end_ns": trace.end,
        "moved_bytes": trace.moved,
        "messages": trace.messages,
        "all_acts": trace.all_acts,
        "all_sent": trace.all_sent,
        **({"rows": rows} if whole else {}),
    }


def _view(view: "VariableView") -> dict[str, Any]:
    return {
        "variable": view.variable,
        "replicas": _glances(view.replicas),
        "outside": _glances([view.outside])[0],
        "copies": _glances(view.copies),
    }


def _glances(glances: "Sequence[ValueSummary | None]") -> list[dict[str, Any] | None]:
    return [one and one._asdict() for one in glances]


WAITING: Final = "waiting for others"
MOST_STEPS: Final = 8  # shown where replicas are ahead of each other
MOST_REPLICAS: Final = 12
_MOST_SERVERS: Final = 4
MOST_MESSAGES: Final = 60  # drawn in one panel: more cannot be told apart
_SHORTEST: Final = 0.02  # of what is shown: shorter messages are upright lines


def step_chart(result: "VariablesResult") -> Chart:
    """The step in which most happens, a panel per mode, in the first replication.

    Rows: of `row` (who) the `activity`, from `start` to `end` (s), in `step`, `often` times;
    messages go `to` another row.
    """
    steps = shown_steps(result)
    spans = [_span(result.trace(mode), steps) for mode in result.modes]
    longest = max(end - begin for begin, end in spans)
    rows, remarks = [], {}
    for mode, span in zip(result.modes, spans, strict=True):
        own, remarks[mode] = _panel(result, mode, steps, span, longest)
        rows += [{"who": mode, **row} for row in own]
    since = f"time since step {steps[0]} began (s)"
    return Chart.of("step", "spans", rows, since, "", panel="who", remarks=remarks)


def shown_steps(result: "VariablesResult") -> range:
    """The step in which most happens, of those that are kept whole.

    Where replicas are ahead of each other in it, all since they last met, if these are few.
    """
    actions = [action for _, action in result.scenario.program.actions()]
    last = min(last_whole(result, mode) for mode in result.modes)
    first = min(action.every for action in actions)
    steps = range(first, max(first, min(last, result.scenario.program.steps)) + 1)
    number = max(steps, key=lambda step: sum(action.happens_in(step) for action in actions))
    block = next(block for block in result.scenario.program.blocks() if number in block)
    kept = range(block.start, max(number, min(last, block[-1])) + 1)
    ahead = any(_overlaps(result.trace(mode), number) for mode in result.modes)
    return kept if ahead and len(kept) <= MOST_STEPS else range(number, number + 1)


def last_whole(result: "VariablesResult", mode: str) -> int:
    """The last step of which every act and message is kept, or 0."""
    trace, program = result.trace(mode), result.scenario.program
    last = program.steps
    if len(trace.acts) < trace.all_acts:
        # Of every actor's last step more may be missing.
        reached = {act.replica: act.step for act in trace.acts}
        workers = range(result.scenario.cluster.workers)
        actors = workers if program.replicas else [CROSS_REPLICA]
        last = min(reached.get(replica, 0) for replica in actors) - 1
    if len(trace.sent) < trace.all_sent:
        known = trace.sent[-1].end - 1 if trace.sent else -1
        last = min([last, *(act.step - 1 for act in trace.acts if act.end > known)])
    return max(last, 0)


def _span(trace: "ProgramTrace", steps: range) -> tuple[int, int]:
    """When the first act in these steps begins, and the last ends, ns."""
    acts = [act for act in trace.acts if act.step in steps]
    return min(act.begin for act in acts), max(act.end for act in acts)


def _overlaps(trace: "ProgramTrace", number: int) -> bool:
    """Whether other steps go on during this one."""
    begin, end = _span(trace, range(number, number + 1))
    return any(act.step != number and act.begin < end and act.end > begin for act in trace.acts)


def _panel(
    result: "VariablesResult", mode: str, steps: range, span: tuple[int, int], longest: int
) -> tuple[list[dict[str, Any]], str]:
    """What is drawn of a mode, and what is said beside its name."""
    trace, (begin, end) = result.trace(mode), span
    acts = [
        act  # of these steps, or meanwhile of replicas that are ahead or behind
        for act in trace.acts
        if act.step in steps or (act.begin < end and act.end > begin)
    ]
    sent = [one for one in trace.sent if begin <= one.start and one.end <= end]
    lasting = sorted(one.end - one.start for one in sent)
    why = "too many to draw" if len(sent) > MOST_MESSAGES else ""
    if lasting and not why and lasting[len(lasting) // 2] < _SHORTEST * longest:
        why = "too short to draw"
    drawn = [] if why else sent
    busy = {place(device) for one in drawn for device in (one.source, one.target)}
    names = list(_names(result, acts, busy))

    def row(name: str, activity: str, start: int, stop: int, **more: Any) -> dict[str, Any]:
        start, stop = ((min(max(time, begin), end) - begin) for time in (start, stop))
        own = {"row": name, "activity": activity, "start": start / 1e9, "end": stop / 1e9}
        return {**own, "to": "", "step": 0, "often": 1, **more}

    rows = [row(name, "", begin, end) for name in names]
    first = {one.movement: one.start for one in reversed(trace.sent)}
    at_once: Counter[tuple[str, str, int, int]] = Counter()
    for act in acts:
        name = actor(act.replica)
        if name in names and act.end > act.begin:
            # What is sent for a write in which all meet is sent when the last of them has come.
            met = max(act.begin, min((first.get(m, 0) for m in act.moved), default=act.begin))
            for kind, since, until in ((WAITING, act.begin, met), (act.kind, met, act.end)):
                rows += [row(name, kind, since, until, step=act.step)] if until > since else []
        elif name in names:
            at_once[name, act.kind, act.end, act.step] += 1
    for (name, kind, time, step), often in at_once.items():
        rows.append(row(name, kind, time, time, step=step, often=often))
    for one in drawn:
        source, target = place(one.source), place(one.target)
        if {source, target} <= {*names}:
            rows.append(row(source, "message", one.start, one.end, to=target))
    return rows, _remark(result, mode, steps, span, len(sent), why)


def _names(result: "VariablesResult", acts: list[ActionRecord], busy: set[str]) -> Iterator[str]:
    """Replicas, the slow ones among them; the outside where it acts; servers that took part."""
    cluster = result.scenario.cluster
    slow = [one.rank for one in cluster.slow_workers]
    slow += [one.rank for one in cluster.network.slow_links]
    ranks = dict.fromkeys([*slow[: MOST_REPLICAS // 2], *range(min(cluster.workers, 12))])
    yield from map(actor, sorted(list(ranks)[:MOST_REPLICAS]))
    if any(act.replica == CROSS_REPLICA for act in acts):
        yield actor(CROSS_REPLICA)
    servers = [f"ps {task}" for task in range(cluster.parameter_servers)]
    yield from [name for name in servers if name in busy][:_MOST_SERVERS]


def _remark(
    result: "VariablesResult", mode: str, steps: range, span: tuple[int, int], sent: int, why: str
) -> str:
    """How long it took, and what is not drawn."""
    number = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
    said = [f"{number}: {shown(Number((span[1] - span[0]) / 1e9, unit='s'))}"]
    if steps[-1] > last_whole(result, mode):
        said = [f"{number}, not all is kept"]
    messages = counted(sent, "message") if sent else "nothing is sent"
    said.append(f"{messages}, {why}" if why else messages)
    workers = result.scenario.cluster.workers
    if workers > MOST_REPLICAS:
        said.append(f"{MOST_REPLICAS} of {workers:,} replicas")
    return "; ".join(said)
