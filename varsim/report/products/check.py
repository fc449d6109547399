"""What `check` tells: what a step takes and waits for, by how each alternative begins.

Of a sweep or a plan: which axes it has, and how many runs that takes. Nothing is run to its end.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from varsim.core.units import format_count, format_operations
from varsim.report.notes import plain, plain_rows
from varsim.report.products import cautions
from varsim.report.products.failures import optimum
from varsim.report.told import Cell, Column, Data, Note, Number, Report, Shares, Table, Value
from varsim.report.wording import names, target
from varsim.scenario.training import Scenario, runs_made
from varsim.scenario.writing import MADE_BY
from varsim.strategies.single import Single
from varsim.study import beginning
from varsim.study.beginning import Beginning, gradients, hopeless, overlap_gains, rates
from varsim.study.beginning import gradients_of_all as gradients_of

if TYPE_CHECKING:
    from varsim.scenario.plan import Question
    from varsim.scenario.variables import VariablesScenario
    from varsim.study.case import Case
    from varsim.study.experiment import Checked
    from varsim.study.grid import Grid
    from varsim.study.program import ProgramBeginning

Told: TypeAlias = tuple[tuple[Note, ...], Table, tuple[Note, ...]]  # headline, table, notes

_FEW: Final = 5  # updates: with fewer a beginning is mostly its first one
_WIDEST: Final = 50  # values of an axis that are listed, in columns


def report(checked: "Checked[Any]") -> Report:
    """What there is to tell of what was checked."""
    asked = checked.asked
    match asked.kind:
        case "training":
            told = _training(asked, checked)
        case "variables":
            told = _variables(asked, checked)
        case "sweep":
            from varsim.study.grid import Grid

            told = _sweep(Grid(asked))
        case _:
            told = _plan(asked)
    asks = any(note.code == "asks" for note in told[2])
    command = asked.kind if asked.kind in ("sweep", "plan") else "run"
    facts = {"made_by": MADE_BY, "name": asked.name, "kind": asked.kind}
    labels = [one.strategy.label for one in checked] if asked.kind == "training" else ()
    return Report(
        "check",
        asked.name,
        *told,
        next=f"varsim {command} FILE{' --yes' if asks else ''}",
        data=Data.of_table(told[1], labels),
        facts=partial(_facts, facts, told),
    )


def _facts(about: dict[str, Any], told: Told) -> dict[str, Any]:
    """All of it as plain data."""
    headline, table, notes = told
    return about | {
        "headline": [plain(note) for note in headline],
        "notes": [plain(note) for note in notes],
        "rows": plain_rows(table),
    }


# --- a scenario of training -----------------------------------------------------------------------


def _training(scenario: Scenario, begun: Sequence[Beginning]) -> Told:
    named = names(scenario)
    number = gradients(scenario, rates(begun))
    valid: dict[str, Value] = {
        "name": scenario.name,
        "strategies": len(scenario.strategies),
        "replications": _replications(scenario),
        "workers": scenario.cluster.workers,
        "gradients": format_count(number),
    }
    columns = [one for one in _columns(scenario, begun) if any(cell != "-" for cell in one.cells)]
    rows = tuple(named[one.strategy.label] for one in begun)
    sent = {one.strategy.label: one.shares.get("write", 0.0) for one in begun}
    notes = [*_of_beginnings(begun, named), *map(_unranked, cautions.of_scenario(scenario))]
    notes += cautions.after_backward(scenario, sent, partial(overlap_gains, scenario))
    notes += [*cautions.unsaid(scenario), *cautions.memory_counted(scenario)]
    notes += [*_failing(scenario), *cautions.equal_examples(scenario), *_asks(number, "run")]
    headline = (Note("valid", valid), _batch(scenario), _wire(scenario))
    return headline, Table(rows, tuple(columns)), tuple(notes)


def _replications(scenario: Scenario) -> int:
    """How many replications a run has: one where nothing is random, of steps or of lives."""
    if scenario.failures is not None and scenario.failures.is_random:
        return scenario.replications
    return max(runs_made(scenario, one) for one in (*scenario.strategies, Single()))


def _batch(scenario: Scenario) -> Note:
    """What computing a gradient takes, and where that comes from."""
    cluster, workload, device = scenario.cluster, scenario.workload, scenario.cluster.device
    law = cluster.compute_distribution(workload)
    of: dict[str, Value] = {"mean": Number(law.expectation(), unit="s")}
    if cluster.compute is not None:
        return Note("batch", {**of, "how": f"{cluster.compute.model_dump()['kind']} distribution"})
    assert device is not None, "a cluster computes by one of both"
    if (curve := device.step_time(workload).measured) is not None:
        where = f"{curve.model} on {curve.device} in {curve.precision}"
        return Note("batch", {**of, "how": f"measured: {where} ({curve.framework})"})
    work = format_operations(workload.flops_per_example() * workload.batch_size)
    peak = device.rate / device.share
    what = "measured" if device.measured else "peak"
    speed = f"{device.share:g} of {format_operations(peak)}/s ({what})"
    return Note("batch", {**of, "how": f"{work} at {speed}"})


def _wire(scenario: Scenario) -> Note:
    """What is sent over which network."""
    cluster, workload = scenario.cluster, scenario.workload
    size = Number(workload.size(), unit="B")
    model = workload.model or f"the {workload.problem.model_dump()['kind']} problem"
    return Note("wire", {"model": model, "size": size, "network": cluster.network.lines()[0]})


def _columns(scenario: Scenario, begun: Sequence[Beginning]) -> Iterator[Column]:
    def column(key: str, head: str, cells: Sequence[Cell], *, detail: bool = False) -> Column:
        return Column(key, head, tuple(cells), detail=detail)

    yield column("step_s", "a step", list(map(_step, begun)))
    alone = [one.per_iteration != 0 for one in begun]
    updates = [_seconds(one.update) if own else "-" for one, own in zip(begun, alone, strict=True)]
    yield column("update_s", "an update", updates)
    share = [_share(one.shares["compute"]) if one.shares else "-" for one in begun]
    yield column("compute", "computing", share)
    yield column("waits", "waits for", list(map(_waits, begun)))._replace(prose=True)
    yield column("dropped", "dropped", [_share(_dropped(one)) for one in begun])
    yield column("left_out", "micro-batches dropped", [_share(one.left_out) for one in begun])
    if any(one.traits.shards or scenario.too_large(one) for one in scenario.strategies) or (
        scenario.knows_memory
    ):
        kept = [scenario.memory_of(one.strategy).total for one in begun]
        yield column("memory", "on a device", [Number(each, unit="B") for each in kept])
        servers = [scenario.server_memory_of(one.strategy) for one in begun]
        held = [Number(one.total, unit="B") if one is not None else "-" for one in servers]
        yield column("server_memory", "on a server", held, detail=True)


def _step(one: Beginning) -> Cell:
    """What an update takes, or an iteration of a worker that waits for nobody."""
    if one.standstill is not None:
        return "deadlocked"
    if one.per_iteration == 0:
        return _seconds(one.update)
    seen = one.updates >= one.per_iteration
    return _seconds(one.update * one.per_iteration if seen else math.nan)


def _seconds(time: float) -> Cell:
    return "-" if math.isnan(time) else Number(time, unit="s")


def _share(share: float) -> Cell:
    return Number(share, unit="part") if share > 0 else "-"


def _waits(one: Beginning) -> Cell:
    """What its workers' time goes into besides computing."""
    parts = [(name, share) for name, share in one.shares.items() if name != "compute"]
    return Shares(tuple(parts)) if any(share >= 0.005 for _, share in parts) else "-"


def _dropped(one: Beginning) -> float:
    """The share of gradients that went into no update, where those are many."""
    return one.dropped / one.gradients if 2 * one.dropped > one.gradients else 0.0


def _of_beginnings(begun: Sequence[Beginning], named: dict[str, str]) -> Iterator[Note]:
    """Where a beginning says little, or nothing."""
    running = [one for one in begun if one.standstill is None]
    found = {
        "not-begun": [one for one in running if not one.begun],
        "no-update": [one for one in running if one.begun and not one.updates],
        "few-updates": [
            one
            for one in running
            if one.updates and one.limit is not None and one.updates < max(_FEW, one.per_iteration)
        ],
    }
    for code, those in found.items():
        if those:
            who = tuple(named[one.strategy.label] for one in those)
            yield Note(code, {"who": who, "count": max(one.updates for one in those)})
    for one in running:
        if 0 < one.updates < one.strategy.round.steps > 1:
            who = (named[one.strategy.label],)
            yield Note("meet-later", {"who": who, "steps": one.strategy.round.steps})


def _failing(scenario: Scenario) -> Iterator[Note]:
    """How often what fails, and the checkpoint interval that was worked out."""
    if scenario.failures is None:
        return
    for one in scenario.failures.of:
        every = Number(one.between.expectation(), unit="days")
        yield Note("failing", {"domain": one.domain, "every": every})
    if scenario.checkpoint is not None and scenario.checkpoint.every == "optimal":
        yield Note("optimal-interval", {"best": optimum(scenario, {})})


def _unranked(note: Note) -> Note:
    """Nothing is ranked here; what does not fit is marked."""
    return note._replace(code="memory-marked") if note.code == "memory" else note


def _asks(number: float, command: str) -> Iterator[Note]:
    if number > beginning.MOST_GRADIENTS:
        yield Note("asks", {"gradients": Number(beginning.MOST_GRADIENTS), "command": command})


# --- a scenario of variables ----------------------------------------------------------------------


def _variables(scenario: "VariablesScenario", begun: "Sequence[ProgramBeginning]") -> Told:
    def column(key: str, head: str, metric: str, unit: str = "") -> Column:
        cells = (Number(one.measured[metric], unit=unit) if one.steps else "-" for one in begun)
        return Column(key, head, tuple(cells))

    valid: dict[str, Value] = {
        "name": scenario.name,
        "variables": len(scenario.variables),
        "modes": len(scenario.labels),
        "replications": scenario.replications,
        "workers": scenario.cluster.workers,
    }
    columns = (
        column("step_s", "a step", "step_time_mean", "s"),
        column("messages", "messages a step", "messages_per_step"),
        column("bytes", "sent a step", "bytes_per_step", "B"),
    )
    notes = []
    if scenario.times_are_random and scenario.replications > 1:
        notes.append(Note("first-replication", {"of": scenario.replications}))
    if none := tuple(one.mode for one in begun if not one.steps):
        notes.append(Note("step-not-begun", {"who": none}))
    if any(one.beyond and one.steps for one in begun):
        notes.append(Note("beyond", {"steps": scenario.program.longest}))
    table = Table(tuple(one.mode for one in begun), columns, fold=False)
    return (Note("valid-variables", valid),), table, tuple(notes)


# --- sweeps and plans -----------------------------------------------------------------------------


def _sweep(grid: "Grid") -> Told:
    sweep, distinct = grid.sweep, grid.cases
    few, most = (len(distinct) * n for n in (sweep.first_replications, sweep.most_replications))
    number = gradients_of([case.scenario for case in distinct], sweep.first_replications)
    trained = isinstance(distinct[0].scenario, Scenario)
    valid: dict[str, Value] = {
        "name": sweep.name,
        "points": len(sweep.points),
        "rows": len(grid.candidates),
        "different": len(distinct),
        "low": few,
        "high": most,
        "runs": f"{few}" if few == most else f"{few} to {most}",
        "gradients": format_count(number),
        "what": "gradients" if trained else "reads, writes and messages",
    }
    values = [
        list(dict.fromkeys(point.values[index].text for point in sweep.points))
        for index in range(len(sweep.quantities))
    ]
    table = _axes([quantity.path for quantity in sweep.quantities], values)
    notes = [*cautions.of_points([point.scenario for point in sweep.points])]
    notes += [*_vain(distinct), *_asks(number, "sweep")]
    return (Note("valid-sweep", valid),), table, tuple(notes)


def _plan(question: "Question") -> Told:
    from varsim.scenario.plan import OBJECTIVES
    from varsim.study.candidate import distinct
    from varsim.study.cheapest import Cheapest

    study = Cheapest(question)
    cases = [one.case for one in distinct(study.candidates)]
    some = [case.scenario for case in study.cases]
    number = gradients_of(some, question.first_replications)
    of: dict[str, Value] = {
        "name": question.name,
        "low": question.first_replications,
        "high": question.most_replications,
        "gradients": format_count(number),
    }
    counts = {"configurations": len(study.candidates), "different": len(cases)}
    valid = Note("valid-plan", {**of, **counts})
    if not question.enumerated:
        tried = {"configurations": question.trials, "of": question.combinations}
        valid = Note("valid-search", {**of, **tried})
    targets = [target(*one, question.loss) for one in question.targets.bounds.items()]
    asked: dict[str, Value] = {"objective": OBJECTIVES[question.objective].about}
    if targets:
        asked["targets"] = tuple(targets)
    asked["who"] = tuple(names(question.base)[label] for label in question.strategies)
    table = _axes([quantity.path for quantity in question.quantities], question.texts)
    notes = [*cautions.of_scenario(question.base), *cautions.too_large(study.too_large)]
    notes += [*_vain(cases), *_asks(number, "plan")]
    return (valid, Note("asked", asked)), table, tuple(notes)


def _axes(paths: Sequence[str], values: Sequence[Sequence[str]]) -> Table:
    """The axes of a space, a row each."""
    counts = tuple(Number(len(texts)) for texts in values)
    every = [", ".join(texts) for texts in values]
    told = (
        text if len(text) <= _WIDEST else f"{texts[0]} to {texts[-1]}"
        for text, texts in zip(every, values, strict=True)
    )
    each = Column("values", "values", tuple(told), prose=True, main=True)
    return Table(tuple(paths), (Column("count", "count", counts), each), corner="axis", fold=False)


def _vain(cases: "Sequence[Case]") -> Iterator[Note]:
    """In how many cases more failures would strike than are followed."""
    if vain := [found for case in cases if (found := hopeless(case.scenario)) is not None]:
        of: dict[str, Value] = {"count": len(vain), "of": len(cases)}
        yield Note("failed-cases", {**of, "who": vain[0].strategy, "why": vain[0].reason})
