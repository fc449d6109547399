"""What a run of variables tells: the fastest mode, what each costs, what was seen of values."""

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from varsim.distribute.program import NormalElements
from varsim.report.charts.timeline import chart as timeline
from varsim.report.charts.timeline import content
from varsim.report.products.figures import FILES, bars, cut_bars, details
from varsim.report.products.story_rows import beside, of_arrays, text
from varsim.report.products.training import document as document_of_run
from varsim.report.told import (
    Cell,
    Column,
    Data,
    Note,
    Number,
    Report,
    Reproduction,
    Shares,
    Table,
)
from varsim.report.wording import headline, listed
from varsim.scenario.targets import EQUAL_WITHIN
from varsim.scenario.writing import dump_scenario
from varsim.study.program import of_program
from varsim.study.tables import COLUMNS
from varsim.study.verdict import CLOSE, EQUAL, SAME, Ranking, lead_of, ranked, verdict

if TYPE_CHECKING:
    from varsim.distribute.program_run import ValueSummary, VariableView
    from varsim.scenario.variables import VariablesScenario
    from varsim.study.result import Result

    Ran = Result[VariablesScenario]

TIME: Final = "step_time_mean"
_MOST_VARIABLES: Final = 8  # whose values are printed without --all
_MOST_TOLD: Final = 3  # variables that modes leave unlike
_OF_TRAINING: Final = ("updates.csv", "evaluations.csv")
_OWN_FILES: Final = {
    "acts.csv": "one row per act: who did what from when to when, and what the copies held then",
    "sent.csv": "one row per message: what for, from where to where, how many bytes, when",
}
_SPENT: Final = {
    "compute": ("share_compute",),
    "wait": ("share_barrier",),
    "network": ("share_read", "share_write"),
}


def report(result: "Ran") -> Report:
    """What there is to tell of a result."""
    scenario, ranking = result.scenario, ranking_of(result)
    table, named = _table(result, ranking), {one: one for one in result.strategies}
    played = cache(partial(content, result))
    return Report(
        "run",
        scenario.name,
        tuple(_headline(result, ranking)),
        table,
        tuple(_notes(result)),
        next="varsim explain FILE",
        pictures=lambda: (
            *(one._replace(x="time per step (s)") for one in bars(table, "step_time")),
            *cut_bars(table, "time_split"),
            timeline(result, played(), named),
        ),
        played=played,
        details=(seen(result),),
        always=len(scenario.variables) <= _MOST_VARIABLES,
        appendix=tuple(details(result, named)),
        source=Reproduction(dump_scenario(scenario), "varsim run scenario.yaml --out again"),
        provenance=result.provenance,
        families={one.label: one.traits.family for one in scenario.strategies},
        files={name: said for name, said in FILES.items() if name not in _OF_TRAINING} | _OWN_FILES,
        data=Data(list(COLUMNS["summary"]), result.summary_rows),
        facts=partial(document, result),
        meanings={name: about.description for name, about in result.metrics.items()},
    )


def ranking_of(result: "Ran") -> Ranking[str]:
    """The modes by their time per step.

    By differences: what both modes spend alike counts in neither.
    """
    found = ranked(
        {mode: result.values(mode, TIME) for mode in result.strategies},
        equal_within=EQUAL_WITHIN,
        exact=lambda mode: result.exact(mode, TIME),
        additive=True,
    )
    assert found is not None, "every step takes a time"
    return found


def views(result: "Ran", mode: str) -> "dict[str, VariableView]":
    """What could be seen of each variable at the end of the first replication."""
    return {view.variable: view for view in of_program(result.trace(mode)).views}


# --- the headline -------------------------------------------------------------------------------


def _headline(result: "Ran", ranking: Ranking[str]) -> Iterator[Note]:
    """Who is fastest, and what was seen from outside."""
    times = {mode: Number.of(result.estimate(mode, TIME), "s") for mode in result.strategies}
    free = tuple(mode for mode, time in times.items() if time.mean == 0)
    found = headline(ranking, {mode: mode for mode in times}, times, result.replications)
    code = found.code if found.code == "too-few" else f"step-{found.code}"
    yield Note("step-free", {"who": free}) if free else found._replace(code=code)
    if said := _read_outside(result):
        yield Note("read-outside", {"seen": said})


def _read_outside(result: "Ran") -> str:
    """`a 18 and b 2 in every mode; c 3 in on_read and on_write, 6 in none`."""
    alike, unlike = [], []
    for name in (one.name for one in result.scenario.variables):
        by: dict[str, list[str]] = {}
        for mode in result.strategies:
            by.setdefault(text(views(result, mode)[name].outside), []).append(mode)
        if len(by) > 1:
            each = ", ".join(f"{value} in {listed(modes)}" for value, modes in by.items())
            unlike.append(f"{name} {each}")
        elif "-" not in by:
            alike.append(f"{name} {next(iter(by))}")
    if alike:
        unlike.insert(0, listed(alike) + " in every mode" * (len(result.strategies) > 1))
    return "; ".join(unlike[:_MOST_TOLD])


# --- tables -------------------------------------------------------------------------------------


def _table(result: "Ran", ranking: Ranking[str]) -> Table:
    """What a step costs in each mode, a row per mode by rank."""
    order = [ranking.best, *(rival.key for rival in ranking.rivals)]

    def column(key: str, head: str, unit: str = "", *, bar: bool = False) -> Column:
        cells = tuple(Number.of(result.estimate(mode, key), unit) for mode in order)
        return Column(key, head, cells, bar=bar, about=key)

    columns = [column(TIME, "a step", "s", bar=True)]
    cells = tuple(_ratio(result, mode) for mode in order)
    if any(cell != "-" for mode, cell in zip(order, cells, strict=True) if mode != result.first):
        columns.append(Column("time_ratio", f"vs. {result.first}", cells))
    columns.append(column("bytes_per_step", "sent a step", "B"))
    columns.append(column("messages_per_step", "messages a step"))
    spent = tuple(_spent(result, mode) for mode in order)
    columns.append(Column("time", "workers' time", spent, detail=True))
    best = len(ranking.tied) if len(order) > 1 else 0
    return Table(tuple(order), tuple(columns), corner="mode", best=best)


def _ratio(result: "Ran", mode: str) -> Cell:
    """How many times as long as in the first mode a step takes."""
    if mode == result.first:
        return Number(1.0, verdict="baseline")
    own, first = (result.values(one, TIME) for one in (mode, result.first))
    if own == first:
        return Number(1.0, verdict="tie")  # also where both take no time
    comparisons, exact = len(result.strategies) - 1, result.exact(mode, TIME)
    found = lead_of(own, first, comparisons=comparisons, exact=exact, additive=True)
    if found.note or not any(own):
        return "-"  # one of them takes no time
    tie = verdict(found, "", "", EQUAL_WITHIN) in (CLOSE, EQUAL, SAME)
    return Number.of(found, verdict="tie" if tie else "")


def _spent(result: "Ran", mode: str) -> Shares:
    """Where the workers' time went."""
    parts = (
        (part, sum(result.estimate(mode, share).mean for share in shares))
        for part, shares in _SPENT.items()
    )
    return Shares(tuple((part, share) for part, share in parts if share > 0))


def seen(result: "Ran") -> Table:
    """What replicas and the outside read last of variables, and what copies hold at the end."""
    variables, workers = result.scenario.variables, result.scenario.cluster.workers
    pairs = [(one.name, mode) for one in variables for mode in result.strategies]
    found = [views(result, mode)[name] for name, mode in pairs]
    columns = {
        "outside": [text(view.outside) for view in found],
        "replicas": [beside(view.replicas) for view in found],
        "copies at the end": [
            beside(view.copies, workers if len(view.copies) > 1 else 1) for view in found
        ],
    }
    if all(read in ("-", own) for _, read, own in zip(*columns.values(), strict=True)):
        del columns["replicas"]  # they read what their copies hold
    single = len(result.strategies) == 1
    return Table(
        tuple(name if single else f"{name}, {mode}" for name, mode in pairs),
        tuple(
            Column(name, name, tuple(cells), prose=True)
            for name, cells in columns.items()
            if set(cells) != {"-"}
        ),
        corner="Read last: variable, mode",
    )


# --- notes, facts -------------------------------------------------------------------------------


def _notes(result: "Ran") -> Iterator[Note]:
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
    workers = scenario.cluster.workers
    if scenario.cross_device_ops == "hierarchical_copy" and workers > 1 and workers % 2:
        yield Note("odd-replica", {"last": str(workers - 1)})
    every = [view for mode in result.strategies for view in views(result, mode).values()]
    yield from of_arrays([one for view in every for one in (view.outside, *view.copies)])


def document(result: "Ran", remarks: Sequence[str] = ()) -> dict[str, Any]:
    """As of any run, with what was seen of the variables, and how much was done."""
    found = document_of_run(result, remarks)
    for facts, trace in zip(found["runs"], map(of_program, result.traces), strict=True):
        facts |= {"acts": trace.all_acts, "messages": trace.all_sent}
    seen = {
        mode: [_view(view) for view in views(result, mode).values()] for mode in result.strategies
    }
    return found | {"seen": seen}


def _view(view: "VariableView") -> dict[str, Any]:
    return {
        "variable": view.variable,
        "replicas": _glances(view.replicas),
        "outside": _glances([view.outside])[0],
        "copies": _glances(view.copies),
    }


def _glances(glances: "Sequence[ValueSummary | None]") -> list[dict[str, Any] | None]:
    return [one and one._asdict() for one in glances]
