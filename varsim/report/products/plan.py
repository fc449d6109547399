"""What a plan tells: the cheapest that meets the targets, what is in its way, the best of each."""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from varsim.cluster.description.recovery import in_run
from varsim.report.products import candidates, cautions
from varsim.report.products.cautions import rate
from varsim.report.products.figures import scatter
from varsim.report.products.plan_cells import (
    SCENARIO,
    SHARES,
    amount,
    data,
    document,
    name_of,
    of_target,
    provenance_of,
    speed_named,
    table,
)
from varsim.report.products.plan_cells import verdict as verdict_of
from varsim.report.told import Chart, Note, Number, Report, Reproduction, Table, Value
from varsim.report.wording import busy, most_time, names, resource
from varsim.report.wording import target as said
from varsim.scenario.plan import OBJECTIVES
from varsim.scenario.targets import BOUNDS
from varsim.scenario.training import Scenario
from varsim.scenario.use import replays_in_queues
from varsim.study.judged import Judged, margin
from varsim.study.plan import trade, unpriced
from varsim.study.verdict import CLOSE, Judgement

if TYPE_CHECKING:
    from varsim.study.plan import Plan

_WIDE: Final = 30  # times the cheapest is the dearest where the axis of prices is logarithmic
MOST_ROWS: Final = 2000  # of the table on the page; configurations.csv has all
FILES: Final = {
    SCENARIO: "the answer as a scenario",
    "plan.md": "what was printed",
    "plan.json": "the same and more, as data",
    "configurations.csv": "every configuration run: settings, objective, cost, examples/s, and "
    "what is reached of each target with 95 % confidence",
    "runs.jsonl": "every run, kept as it ended, a line each",
}


def report(plan: "Plan") -> Report:
    """What there is to tell of a plan."""
    from varsim.scenario.writing import dump_scenario

    scenario, base, every = plan.scenario, plan.question.base, _every(plan)
    charts = tuple(filter(None, [_trade(plan, every)]))
    again = f"varsim run {SCENARIO} --out again" if scenario else "varsim plan scenario.yaml"
    families = plan.question.families
    return Report(
        "plan",
        plan.question.name,
        tuple(_headline(plan)),
        _best_of_each(plan),
        tuple(_notes(plan)),
        charts=charts,
        details=tuple(_front(plan)),
        appendix=(every,),
        source=Reproduction(dump_scenario(base if scenario is None else scenario), again),
        provenance=provenance_of(plan),
        families={name_of(one): families[one.strategy] for one in plan.outcomes.values()},
        files=FILES,
        data=data(plan),
        facts=partial(document, plan),
        pictures=lambda: tuple(one._replace(name="pareto") for one in charts),
    )


# --- the headline ---------------------------------------------------------------------------------


def _headline(plan: "Plan") -> Iterator[Note]:
    """The answer, what is in its way, whether it holds with fresh seeds; or why there is none."""
    best, check, nearest = plan.best, plan.check, plan.nearest
    of: dict[str, Value] = {
        "objective": plan.question.objective,
        "targets": len(plan.question.targets.bounds),
    }
    if best is None:
        yield from _none(plan, of)
        return
    where = best.candidate.scenario.misfits(best.candidate.strategy)
    large: dict[str, Value] = {"large": where[0].where} if where else {}
    yield Note("plan-answer", of | _of(plan, best) | large)
    if nearest is None:
        yield Note("nothing-lower", {"objective": plan.question.objective, "who": name_of(best)})
    elif nearest.missed:
        yield Note("in-its-way", _missing(plan, nearest))
    if check is not None:
        yield Note("holds", {"count": check.replications})


def _none(plan: "Plan", of: dict[str, Value]) -> Iterator[Note]:
    near = plan.closest()
    if near is None:
        short = any(one.verdict == "short" for one in plan.outcomes.values())
        yield Note("runs-too-short") if short else Note("no-numbers")
    elif not near.speed.mean:
        yield Note("no-work-kept")
    elif not near.missed:
        yield Note("no-numbers")
    else:
        yield Note("no-answer", of)
        yield Note("closest", _missing(plan, near))


def _of(plan: "Plan", one: Judged) -> dict[str, Value]:
    """A cell: its strategy, where it lies, and what is minimized."""
    value = amount(plan.question.objective, one.objective, plan.question.currency)
    of: dict[str, Value] = {"who": name_of(one), "value": value}
    where = plan.places.told(one.candidate)
    return of | ({"where": where} if where else {})


def _missing(plan: "Plan", one: Judged) -> dict[str, Value]:
    """A cell, the target that it misses most, what it reaches of that, and how much is missing."""
    worst = max(one.missed, key=_gap)
    of = _of(plan, one) | {"target": said(worst.target, worst.bound, plan.question.loss)}
    if math.isnan(worst.mean):
        return of
    of["reached"] = of_target(worst, worst.mean)
    off = -margin(worst, mean=True)
    if off > 0:
        points = worst.target in SHARES and worst.bound
        size = (
            Number(100 * off * worst.bound, unit="points") if points else Number(off, unit="share")
        )
        of |= {"off": size, "side": "below" if BOUNDS[worst.target] else "above"}
    return of


def _gap(one: Judgement) -> float:
    gap = -margin(one)
    return math.inf if math.isnan(gap) else gap


# --- the tables -----------------------------------------------------------------------------------


def _best_of_each(plan: "Plan") -> Table:
    """The answer, the runner-up, the best of every other strategy; then those without any."""
    rows: dict[int, tuple[Judged, str]] = {}
    if plan.best is not None:
        rows[plan.best.candidate.number] = plan.best, "the answer"
        if (second := plan.runner_up) is not None:
            rows[second.candidate.number] = second, "runner-up"
    seen = {one.strategy for one, _ in rows.values()}
    others = [label for label in plan.question.strategies if label not in seen]
    firsts = [ranking[0] for label in others if (ranking := plan.feasible(label))]
    for one in sorted(firsts, key=lambda one: one.order):
        rows[one.candidate.number] = one, "met"
    fine = {one.strategy for one in firsts}
    nearest = [plan.closest(label) for label in others if label not in fine]
    for near in sorted(filter(None, nearest), key=lambda one: (one.shortfall, one.order)):
        count = sum(one.strategy == near.candidate.label for one in plan.outcomes.values())
        rows[near.candidate.number] = near, f"none of {count:,}"
    shown_rows, verdicts = [one for one, _ in rows.values()], [word for _, word in rows.values()]
    return table(plan, shown_rows, verdicts, "")


def _front(plan: "Plan") -> Iterator[Table]:
    """What more throughput costs, cheapest first, and the answer in its place among that."""
    front = list(trade(plan).shown(plan.best))
    if plan.best is not None and plan.best not in front:
        front.append(plan.best)
    if front:
        front.sort(key=lambda one: one.hourly)
        yield table(plan, front, [verdict_of(plan, one) for one in front], "more throughput")


def _every(plan: "Plan") -> Table:
    """Every cell that was run, cheapest first."""
    cells = trade(plan).every[:MOST_ROWS]
    return table(plan, cells, [verdict_of(plan, one) for one in cells], "all configurations")


def _trade(plan: "Plan", every: Table) -> Chart | None:
    """What is minimized, and throughput, or goodput where that is a target; hollow may miss some.

    Only along the cost of an hour is there a front.
    """
    cells, _, front = trade(plan)
    # While nothing fails all are as fast: then throughput says little.
    fast = plan.question.targets.goodput is None
    least = plan.question.objective
    hourly = least == "cost_per_hour"
    rows = list(enumerate(cells[:MOST_ROWS]))
    targets = plan.question.targets
    costs = [one.objective.mean for one in cells if one.objective.mean > 0]
    wide = bool(costs) and max(costs) >= _WIDE * min(costs)
    chart = scatter(
        every,
        least,
        "throughput" if fast else "goodput",
        [at for at, one in rows if fast and hourly and one in front],
        [at for at, one in rows if not one.feasible],
        [at for at, one in rows if one == plan.best],
        targets.throughput if fast else targets.goodput,
    )
    return chart._replace(log="x" if wide else "") if chart is not None else None


# --- the notes ------------------------------------------------------------------------------------


def _notes(plan: "Plan") -> Iterator[Note]:
    """What a reader must know besides, worst first."""
    best = plan.best
    asked = plan.question.base if best is None else best.candidate.scenario
    lucky = tuple(plan.places.full(one.candidate) for one, _ in plan.rejected)
    if lucky:
        yield Note("by-luck", {"who": lucky})
    yield from _uncertain(plan)
    yield from cautions.too_large(plan.too_large)
    for note in cautions.of_scenario(asked):
        if note.code == "memory":
            yield note._replace(code="memory-marked")
        elif note.code not in ("guess", "guess-measured", "heavy-tail"):
            yield note
    yield from _tails(plan)
    if plan.guess is not None:
        yield from _other_speeds(plan, plan.guess)
    close = sum(one.said == CLOSE for one in plan.compared.values())
    if close:
        yield Note("close-to-answer", {"count": close})
    for free in unpriced(plan):
        yield Note("unpriced", {"what": free.name, "has": free.has, "remedy": free.remedy})
    yield from _rates(plan)
    if plan.question.targets.bounds:
        yield Note("margin", {"guess": 1} if plan.guess is not None else {})
    if best is not None and best.exact():
        strategy = best.candidate.scenario.strategies[0]
        queued = replays_in_queues(strategy, best.candidate.scenario.cluster_of(strategy))
        yield Note("recorded-order", {"who": name_of(best)}) if queued else Note("exact")
    yield from _busiest(plan)
    if best is not None and not math.isnan(best.every.mean):
        yield Note("optimal-interval", {"best": Number.of(best.every, "days")})
    yield _effort(plan)


def _uncertain(plan: "Plan") -> Iterator[Note]:
    """Configurations whose runs are short, fail, or leave open whether a target is met."""
    every = list(plan.outcomes.values())
    swept = any(quantity.place[0] == "stop" for quantity in plan.question.quantities)

    def who(one: Judged) -> str:
        return plan.places.full(one.candidate)

    fine = [one for one in every if not one.failure]
    code = "short-configurations"
    yield from candidates.short(fine, plan.question.base, who, code, swept=swept)
    undecided = [one.replications for one in every if one.verdict == "open"]
    if undecided:
        yield Note("undecided", {"count": len(undecided), "most": max(undecided)})
    yield from candidates.failed(every, who, "failed-configurations")


def _tails(plan: "Plan") -> Iterator[Note]:
    """That steps have no finite variance somewhere; that runs hold few spells, the fewest."""
    fine = [one for one in plan.outcomes.values() if not one.failure]
    heavy = (note for one in fine for note in cautions.heavy_tail(one.candidate.scenario))
    yield from candidates.worst(heavy, "index")
    yield from candidates.few_spells(fine)


def _other_speeds(plan: "Plan", guess: "Mapping[float, Judged]") -> Iterator[Note]:
    """That the step time is a guess, and what becomes of the answer where it is wrong."""
    one = plan.best or plan.closest()
    assert one is not None, "somebody's step time is a guess"
    scenario = one.candidate.scenario
    yield from cautions.guess(scenario)
    for speed, there in guess.items():
        of: dict[str, Value] = {"speed": f"{speed:g}"}
        if there.failure:
            of["failed"] = there.failure.splitlines()[0]
        elif there.missed:
            loss = plan.question.loss
            of["missed"] = tuple(said(one.target, one.bound, loss) for one in there.missed)
        elif not there.judgements:
            of["rate"] = Number.of(there.speed, speed_named(plan.question.base))
        else:
            of["met"] = len(there.judgements)
        again: dict[str, Value] = {"again": _at_speed(scenario, speed)}
        yield Note("other-speed", of | (again if speed == min(guess) else {}))


def _at_speed(scenario: Scenario, speed: float) -> str:
    """The device at so many times the speed that is guessed, as an option of the command line."""
    device, workload = scenario.cluster.device, scenario.workload
    assert device is not None
    flops = workload.flops_per_example() * workload.batch_size
    share = speed * device.share * flops / device.rate / device.step_time(workload).seconds
    described = device.model_copy(update={"efficiency": float(f"{share:.3g}")})
    keys = described.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    told = ", ".join(
        f"{key}: {str(value).lower() if isinstance(value, bool) else value}"
        for key, value in keys.items()
    )
    return f"--set 'cluster.device={{{told}}}'"


def _rates(plan: "Plan") -> Iterator[Note]:
    """At which learning rates the times to the loss are, where the space does not say so."""
    question = plan.question
    asked = OBJECTIVES[question.objective].needs_loss
    asked = asked or "time_to_target" in question.targets.bounds
    varied = any("learning_rate" in quantity.place for quantity in question.quantities)
    if asked and not varied:
        named = names(question.base)
        rates = tuple(
            f"{named[label]} {rate(question.base, label)}" for label in question.strategies
        )
        yield Note("file-rates", {"target": f"{question.loss:g}", "rates": rates})


def _busiest(plan: "Plan") -> Iterator[Note]:
    """What the answer uses most, and where its workers' time goes."""
    best = plan.best
    if best is None:
        return
    failures = best.candidate.scenario.failures
    of: dict[str, Value] = {"time": most_time(dict(plan.shares))}
    first = plan.busy[:1]
    most = first + [use for use in plan.busy if use.kind != first[0].kind][:1]
    if most:
        of["what"] = tuple(f"{resource(use)} ({busy(use)})" for use in most)
    followed = failures is not None and not in_run(failures)
    yield Note("busiest", of | ({"alive": 1} if followed else {}))


def _effort(plan: "Plan") -> Note:
    """How many cells were simulated, and why the rest needed none."""
    question = plan.question
    count = len(plan.outcomes)
    of: dict[str, Value] = {"count": count, "runs": plan.made}
    if not question.enumerated:
        return Note("configurations-chosen", of | {"of": question.combinations})
    left: dict[str, Value] = {}
    if count < plan.distinct:
        left = {"left": plan.distinct - count, "objective": question.objective}
    return Note("configurations-run", of | {"of": plan.distinct} | left)
