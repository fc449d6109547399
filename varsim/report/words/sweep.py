"""What a sweep says, in sentences: the best point of each strategy, and of all."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from varsim.report.report import Table as Shown
from varsim.report.words.caution import STOPPED, of_points, spells_of_rows, to_the_ns
from varsim.report.words.cost import CHEAPEST, for_nothing, reaching
from varsim.report.words.memory import misfit, too_large
from varsim.report.words.phrases import (
    Wording,
    capital,
    joined,
    lasting,
    plus_minus,
    time,
    told,
)
from varsim.report.words.rates import rate
from varsim.report.words.targets import said as wanted
from varsim.report.words.work import short_rows
from varsim.scenario.targets import counted
from varsim.scenario.training import Scenario
from varsim.study.goodput import INTERVAL, INTERVALS, KEPT, metrics
from varsim.study.statistics import Estimate
from varsim.study.sweep.campaign import STEERING, TARGET
from varsim.study.sweep.table import Row, Table, short_names
from varsim.study.verdict import CLOSE, Ranking, ranked

SPEED: Final = "examples/s"
SPEED_KEPT: Final = "examples/s kept"
OPTIMAL: Final = "optimal interval"
_ROWS: Final = "rows that differ"
# What the columns of the table say: the metric, or the words.
_MEANINGS: Final = {
    SPEED: STEERING,
    "goodput": "goodput",
    SPEED_KEPT: KEPT,
    "interruptions": "interruptions",
    OPTIMAL: INTERVAL,
    "staleness mean": "staleness_mean",
    "staleness p99": "staleness_p99",
    "wasted": "wasted_compute",
    "to target": TARGET,
}
_SAID: Final = {
    "efficiency": "the speed-up over one worker, divided by the number of workers",
    "replications": "how often the point was run",
}
LONGEST_TABLE: Final = 40  # rows that are printed; of more, only the best of each strategy


def meanings(scenario: Scenario) -> dict[str, str]:
    """What the columns of the table of such scenarios say."""
    known = metrics(scenario) | INTERVALS
    said = {name: known[of].description for name, of in _MEANINGS.items() if of in known}
    return said | _SAID


def answer(table: Table) -> list[str]:
    """Where each strategy is at its best, and which of them is; plain sentences."""
    bests = [row for label in table.strategies if (row := best(table, label)) is not None]
    if not bests:
        if table.sweep.points[0].scenario.failures is not None:
            return ["No strategy keeps an update at any point."]
        return ["No strategy applied a gradient at any point."]
    bests = [row for row in bests if not row.done.too_short]
    if not bests:
        return ["Too short to say what is fastest: no run holds two rounds of each worker."]
    lines = [_of_all(table, bests)] if len(bests) > 1 else []
    lines += [_at_its_best(table, row) for row in bests]
    return [*lines, *_soonest(table), *_cheapest(table)]


def notes(table: Table) -> list[str]:
    """What a reader of the table must know besides."""
    found = []
    rows = [row for row in table.rows if not row.failure]
    found += [*_unjudged(table), *_ends_early(table, rows), *_short(table, rows)]
    ran = {
        _where(table, row): (
            table.sweep.points[row.point].scenario,
            row.strategy,
            row.done.gradients,
        )
        for row in _distinct(rows)
    }
    found += spells_of_rows(ran, _ROWS)
    if any(row.precise and row.replications > table.sweep.first_replications for row in rows):
        found.append(STOPPED)
    wide = [row for row in rows if not row.precise]
    if wide:
        share = f"{100 * table.sweep.precision:g} %"
        found.append(
            f"In {len(wide)} of {len(table.rows)} rows the interval of {_steered(wide)} is wider "
            f"than ± {share} after {table.sweep.most_replications} replications."
        )
    once = [row for row in rows if not row.random[1]]
    exact = [row for row in once if not table.replays(row)]
    if queued := [table.strategy(row.strategy).mention for row in once if table.replays(row)]:
        found.append(to_the_ns(list(dict.fromkeys(queued))))
    if exact:
        which = f"{len(exact)} rows are exact"
        if len(exact) in (1, len(table.rows)):
            which = "1 row is exact" if len(exact) == 1 else "All rows are exact"
        each = "it" if len(exact) == 1 else "each"
        found.append(f"{which}: nothing in these runs is random, so {each} was run once.")
    for row in table.failed[:3]:
        where = table.told(row)
        found.append(
            f"{capital(table.strategy(row.strategy).mention)} failed at {where}: "
            f"{row.failure.splitlines()[0]}"
        )
    if len(table.failed) > 3:
        found.append(f"{len(table.failed) - 3} more rows failed; see the column 'failure'.")
    return [*found, *of_points([point.scenario for point in table.sweep.points], misfit)]


def _unjudged(table: Table) -> Iterator[str]:
    """That a sweep asks for no targets."""
    targets = table.sweep.points[0].scenario.targets
    asked = [wanted(name, bound, targets.loss) for name, bound in targets.bounds.items()]
    if asked:
        yield (
            f"A sweep does not judge targets ({joined(asked)}): varsim run does for one point, "
            "varsim plan for a space."
        )


def _ends_early(table: Table, rows: Sequence[Row]) -> Iterator[str]:
    """That no step ends within the horizon of some jobs, though nothing interrupts them."""
    idle = [
        row
        for row in rows
        if row.mean(KEPT) == 0 == row.mean("interruptions") and row.mean("goodput") > 0
    ]
    for row in idle[:1]:
        often = f" (In {len(idle)} of {len(table.rows)} rows.)" if len(idle) > 1 else ""
        yield (
            f"At {table.told(row)} the horizon is shorter than a step of "
            f"{table.strategy(row.strategy).mention}: its goodput means nothing.{often}"
        )


def _short(table: Table, rows: Sequence[Row]) -> list[str]:
    """That some runs are short, and what makes them longer unless that is swept."""
    swept = any(quantity.place[0] == "stop" for quantity in table.sweep.quantities)
    stop = None if swept else table.sweep.points[0].scenario.stop
    done = {_where(table, row): row.done for row in _distinct(rows)}
    return short_rows(done, _ROWS, stop)


def _where(table: Table, row: Row) -> str:
    return f"{table.strategy(row.strategy).mention} at {table.told(row)}"


def _distinct(rows: Sequence[Row]) -> list[Row]:
    """The first of those rows of each strategy that are of the same runs."""
    found = {(row.strategy, row.case): row for row in reversed(rows)}
    return list(reversed(found.values()))


def _steered(rows: Sequence[Row]) -> str:
    """What is not known well enough of some rows."""
    target = any(math.isfinite(row.mean(TARGET)) for row in rows)
    return "the throughput or of the time to the target loss" if target else "the throughput"


def left_out(table: Table) -> list[str]:
    """What a reader of `shown` must know: that it has not all rows."""
    if len(table.rows) <= LONGEST_TABLE:
        return []
    return [f"Each strategy at its best point; all {len(table.rows):,} rows are in results.csv."]


def best(table: Table, strategy: str) -> Row | None:
    """The row of a strategy with the highest throughput; None where it applied no gradient.

    One that is too short only where all are.
    """
    rows = [row for row in table.rows if row.strategy == strategy and row.mean(_speed(row)) > 0]
    rows = [row for row in rows if not row.done.too_short] or rows
    return max(rows, key=lambda row: row.mean(_speed(row)), default=None)


def _speed(row: Row) -> str:
    """The metric of a row's throughput: of what is kept, where hosts fail at random."""
    return KEPT if KEPT in row.values else STEERING


def speed(rows: Sequence[Row]) -> str:
    """The column of the throughput by which rows are compared."""
    return SPEED_KEPT if any(_speed(row) == KEPT for row in rows) else SPEED


def shown(table: Table) -> Shown:
    """The table as text: all rows, or the best of each strategy where there are too many."""
    rows = list(table.rows)
    if len(rows) > LONGEST_TABLE:
        rows = [row for label in table.strategies if (row := best(table, label)) is not None]
    labels = [table.strategy(row.strategy).title + _mark(table, row) for row in rows]
    keys = len({name for row in rows for name in table.place(row)})
    return Shown.of(zip(labels, cells(table, rows), strict=True), "strategy", keys=keys)


def cells(table: Table, rows: Sequence[Row]) -> list[dict[str, str]]:
    """Rows as text, by column: where each lies, as far as that matters to it, and its numbers.

    What has the same short name in several strategies, as `replicas_to_aggregate`, is one column.
    """
    wants_target = any(row.mean("time_to_target") > 0 for row in table.rows)
    places = [table.place(row) for row in rows]
    numbers = [_numbers(table, row, wants_target) for row in rows]
    heads = dict.fromkeys(name for found in places for name in found)
    heads |= dict.fromkeys(name for found in numbers for name in found)
    return [
        dict.fromkeys(heads, "") | place | own for place, own in zip(places, numbers, strict=True)
    ]


def _numbers(table: Table, row: Row, wants_target: bool) -> dict[str, str]:
    of = row.estimates
    if not of:
        return {SPEED: "failed"}
    kept = {}
    if KEPT in of:
        kept = {
            "goodput": plus_minus(of["goodput"], 100, "%"),
            SPEED_KEPT: plus_minus(of[KEPT]),
            "interruptions": plus_minus(of["interruptions"]),
        }
    if INTERVAL in table.shown:
        kept[OPTIMAL] = lasting(of[INTERVAL]) if INTERVAL in of else "-"
    found = {
        SPEED: plus_minus(of[STEERING]),
        **kept,
        "staleness mean": plus_minus(of["staleness_mean"]),
        "staleness p99": plus_minus(of["staleness_p99"]),
        "wasted": plus_minus(of["wasted_compute"], 100, "%"),
    }
    if wants_target:
        found["to target"] = time(of["time_to_target"])
    if table.currency:
        found[f"{table.currency}/h"] = plus_minus(of["cost_per_hour"])
        million = f"{table.currency} per million examples"
        found[million] = plus_minus(of["cost_per_million_examples"])
    if row.scaling:
        found["efficiency"] = plus_minus(row.scaling["efficiency_fraction"], 100, "%")
    exact = not row.random[1] and not table.replays(row)
    found["replications"] = str(row.replications) + " (exact)" * exact
    return found


def _of_all(table: Table, bests: Sequence[Row]) -> str:
    """Which strategy is the fastest, each at its best point."""
    wording = Wording(
        "The fastest is {name}: {value}",
        "Which strategy is the fastest, each at its best point,",
        "throughput at their best points",
        next="",
        by="; {that} is {times} as fast as {name}, the next fastest",
        equal="are equally fast",
        more=_more(table),
    )
    runs = len({(row.strategy, row.case) for row in table.rows})
    ranking = _ranking(table, bests, _speed(bests[0]), chosen_from=runs)
    assert ranking is not None, "they all have a throughput"

    def name(index: int) -> str:
        row = bests[index]
        return _named(table, row, _speed(row))

    return capital(told(ranking, wording, name, lambda index: _rate(bests[index]))) + "."


def _named(table: Table, row: Row, metric: str) -> str:
    """A row in words: the strategy, and where it lies as far as that matters to a metric."""
    where = table.told_for(row, metric)
    who = table.strategy(row.strategy).mention + _mark(table, row)
    return f"{who} at {where}" if where else who


def _mark(table: Table, row: Row) -> str:
    """That it does not fit the memory there is at this point."""
    return too_large(table.sweep.points[row.point].scenario, row.strategy)


def _at_its_best(table: Table, row: Row) -> str:
    """Where a strategy is at its best; `row`: of its highest throughput."""
    label = row.strategy
    who = table.strategy(row.strategy).mention + _mark(table, row)
    if len(table.sweep.points) == 1:
        return f"{capital(who)} does {_rate(row)} at {table.told(row)}."
    if not table.mattering(label):
        return f"{capital(who)} does {_rate(row)}: nothing that is swept affects it."
    idle = table.idle(label, _speed(row))
    no_effect = _no_effect([table.sweep.quantities[index].path for index in idle])
    # Of points that differ in nothing else, one.
    rows = list(
        {
            table.told(one, idle): one
            for one in reversed(table.rows)
            if one.strategy == label and one.mean(_speed(row)) > 0 and not one.done.too_short
        }.values()
    )[::-1]
    ranking = _ranking(table, rows, _speed(row))
    assert ranking is not None, "one has the highest throughput"
    if len(ranking.same) == len(rows):
        if any(one.strategy == label for one in table.failed):
            return f"{capital(who)} does {_rate(row)} wherever it did not fail."
        why = no_effect or "what is swept has no effect on that"
        return f"{capital(who)} does {_rate(row)} at every point: {why}."
    only = len(table.strategies) == 1
    wording = Wording(
        "Throughput is highest at {name}: {value}"
        if only
        else f"{capital(who)} is fastest at {{name}}: {{value}}",
        "Where throughput is highest" if only else f"Where {who} is fastest",
        "throughput" if only else f"throughput with {table.strategy(row.strategy).mention}",
        next="; every other point is slower",
        by="",
        more=_more(table),
    )
    text = told(
        ranking,
        wording,
        lambda index: table.told(rows[index], idle),
        lambda index: _rate(rows[index]),
    )
    text = f"{text} ({no_effect})." if idle else f"{text}."
    return text + _by_few(rows, ranking)


def _more(table: Table) -> str:
    """How to run every point five times, which most_replications may forbid."""
    few = table.sweep.most_replications < 5
    return f"{'--most-replications 5 ' if few else ''}--set replications=5"


def _by_few(rows: Sequence[Row], ranking: Ranking[int]) -> str:
    """That rows are too close to call, though their intervals are apart: few runs are compared."""
    best = rows[ranking.best]
    own = best.estimates[_speed(best)]
    for rival in ranking.of(CLOSE):
        row = rows[rival.key]
        other = row.estimates[_speed(row)]
        apart = abs(own.mean - other.mean) > own.half_width + other.half_width
        if apart and row.replications != best.replications:
            few, many = sorted((row.replications, best.replications))
            return (
                f" Two points are compared over the replications that both have, here {few}; "
                f"--replications {many} runs every point that often."
            )
    return ""


def _no_effect(paths: Sequence[str]) -> str:
    """That some quantities change nothing, and why; empty where there are none."""
    if not paths:
        return ""
    names = joined(short_names(paths))
    learning = all("optimizer" in path.split(".") for path in paths)
    why = ", only on what is learnt" if learning else ""
    return f"{names} {'has' if len(paths) == 1 else 'have'} no effect on that{why}"


def _soonest(table: Table) -> list[str]:
    """At which point the target loss is reached first."""
    return _least(
        table,
        TARGET,
        reaching("the target loss"),
        time,
        "The target loss is reached after {value} by {name}, and in every replication nowhere else",
    )


def _cheapest(table: Table) -> list[str]:
    """Where a million examples cost least."""

    def price(found: Estimate) -> str:
        return plus_minus(found, unit=table.currency)

    alone = "A million examples cost {value} with {name}"
    lines = _least(table, "cost_per_million_examples", CHEAPEST, price, alone)
    prices = table.sweep.points[0].scenario.prices
    if not lines or prices is None:
        return lines
    counts: dict[str, list[tuple[int, int]]] = {}
    for row in table.rows:
        scenario = table.sweep.points[row.point].scenario
        strategy = scenario.strategy(row.strategy)
        own = counted(strategy, scenario.cluster_of(strategy))
        counts.setdefault(strategy.mention, []).append(own)
    return lines + for_nothing(prices, counts)


def _least(
    table: Table,
    metric: str,
    wording: Wording,
    value: Callable[[Estimate], str],
    alone: str,
) -> list[str]:
    """Which row has the least of something, among all that have it in every replication."""
    there = [
        row
        for row in _distinct(table.rows)
        if math.isfinite(row.mean(metric)) and not row.done.too_short
    ]
    # Of points that differ in nothing that this depends on, one.
    rows = list({_named(table, row, metric): row for row in reversed(there)}.values())[::-1]
    ranking = _ranking(table, rows, metric, highest=False)
    if ranking is None:
        return []

    def name(index: int) -> str:
        row = rows[index]
        name, trained = _named(table, row, metric), ""
        if metric == TARGET and "learning_rate" not in name:
            trained = f" at {rate(table.sweep.points[row.point].scenario, row.strategy)}"
        return f"{name}{trained}"

    def shown(index: int) -> str:
        return value(rows[index].estimates[metric])

    if not ranking.rivals:
        return [alone.format(name=name(ranking.best), value=shown(ranking.best)) + "."]
    wording = wording._replace(more=_more(table))
    return [capital(told(ranking, wording, name, shown)) + "."]


def _ranking(
    table: Table,
    rows: Sequence[Row],
    metric: str,
    *,
    highest: bool = True,
    chosen_from: int = 0,
) -> Ranking[int] | None:
    """Some rows, by their place among them."""
    return ranked(
        {index: row.values[metric] for index, row in enumerate(rows)},
        equal_within=table.equal_within,
        highest=highest,
        exact=lambda index: rows[index].exact(metric),
        chosen_from=chosen_from,
    )


def _rate(row: Row) -> str:
    return plus_minus(row.estimates[_speed(row)], unit=speed([row]))
