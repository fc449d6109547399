"""A plan that promises goodput among failures inside its runs, with the interval to be chosen."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.plan.planning import BASE, question, searched
from tests.seams import Note, Number
from varsim.study.candidate import Candidate
from varsim.study.lives import rules_of
from varsim.study.plan import unpriced

MORTAL = (
    BASE.replace("  - {kind: on_write}\n", "")
    .replace("low: 80 ms, high: 120 ms", "low: 400 ms, high: 600 ms")
    .replace("stop: {time: 2 s}\n", "stop: {time: 200 s}\n")
    .replace("targets: {throughput: 150 examples/s}", "targets: {goodput: 70 %}")
) + (
    "failures: {detection: 1 s, of: [{domain: server, mtbf: 60 s}]}\n"
    "checkpoint: {every: 1 s, write: 1 s, restore: 1 s}\n"
)
# Of steps in a rhythm, from which lives over a horizon are made.
LIVES = (
    BASE.replace("  - {kind: none}\n", "")
    .replace("kind: uniform, low: 80 ms, high: 120 ms", "kind: constant, value: 100 ms")
    .replace("stop: {time: 2 s}", "stop: {global_steps: 4}")
    .replace("targets: {throughput: 150 examples/s}\n", "")
    .replace(", server_hour: 0.7", "")
    .replace("  parameter_servers: 1\n", "")
)
BLOCK = """\
minimize: cost_per_million_examples
space:
  checkpoint.every: [1 s, 5 s, 100 s]
most_replications: 16
"""


def test_the_interval_is_chosen(tmp_path: Path) -> None:
    """Saved every second the chief does little else; every 100 s most is lost with the server."""
    found, _ = searched(question(BLOCK, base=MORTAL), tmp_path)
    assert found.best is not None
    of = {_interval(one.candidate): one for one in found.outcomes.values()}
    assert _interval(found.best.candidate) == 5.0
    assert not of[100.0].feasible


def test_the_answer_says_what_optimal_means(tmp_path: Path) -> None:
    """In every file, as a number; of a cell whose interval is a time there is none."""
    block = BLOCK.replace("[1 s, 5 s, 100 s]", "[optimal, 100 s]")
    base = MORTAL.replace("write: 1 s", "write: 100 ms")
    found, _ = searched(question(block, base=base), tmp_path)
    best = found.best
    assert best is not None
    every = best.every.mean
    strategy = best.candidate.scenario.strategies[0]
    rules = rules_of(best.candidate.scenario, strategy)
    assert rules is not None
    assert rules.checkpoint is not None
    assert every == rules.checkpoint.every

    (said,) = (one for one in found.report.notes if one.code == "optimal-interval")
    assert isinstance(said.values["best"], Number)
    assert said.values["best"].mean == every
    told = found.report
    place = told.data.columns.index("checkpoint_interval")
    first, second = told.data.rows
    assert first[place] == every
    assert math.isnan(float(str(second[place])))
    document = told.facts()
    assert document["answer"]["checkpoint_interval"]["mean"] == every
    (cells,), (chart,) = told.appendix, told.charts
    assert "optimal interval" in [one.head for one in cells.columns]
    assert (chart.x, chart.y) == ("cost of a million examples (USD)", "goodput >= 70 % (share)")
    assert chart.target == 0.7
    assert sum(chart.data["ring"]) == 1 < len(cells.rows)


def test_more_throughput_is_more_that_is_kept(tmp_path: Path) -> None:
    """Steps take as long with spares as without, but what is kept is what they are paid for."""
    base = LIVES + (
        "failures: {horizon: 10 d, of: [{domain: worker, mtbf: 2 d, repair: 12 h}]}\n"
        "recovery: {restart: 1 min}\n"
    )
    block = "minimize: cost_per_million_examples\nspace:\n  recovery.spares.hot: [1, 4]\n"
    found, _ = searched(question(block, base=base), tmp_path)
    few, many = (one for _, one in sorted(found.outcomes.items()))
    assert few.hourly < many.hourly
    assert few.speed.mean < 0.9 * many.speed.mean
    assert "examples/s kept" in [one.head for one in found.report.table.columns]


def _interval(one: Candidate) -> object:
    assert one.scenario.checkpoint is not None
    return one.scenario.checkpoint.every


def test_faster_storage_without_a_price_is_named(tmp_path: Path) -> None:
    """Of writes the shortest costs nothing here, and is named; the longest would not be."""
    base = MORTAL.replace("write: 1 s", "write: 100 ms").replace("every: 1 s", "every: 5 s")
    block = (
        "minimize: cost_per_million_examples\nspace:\n  checkpoint.write: [100 ms, 4 s]\n"
        "most_replications: 8"
    )
    found, _ = searched(question(block, base=base), tmp_path)
    assert found.best is not None
    (free,) = unpriced(found)
    assert (free.name, free.has) == ("checkpoint.write", "100 ms")
    (slow,) = (one for one in found.outcomes.values() if one != found.best)
    assert unpriced(replace(found, best=slow)) == []


def test_shares_are_apart_by_points(tmp_path: Path) -> None:
    """70 % of goodput asked for: what is to spare is told as the difference of both shares."""
    found, _ = searched(question(BLOCK, base=MORTAL), tmp_path)
    assert found.best is not None
    (one,) = found.best.judgements
    (column,) = (column for column in found.report.table.columns if column.key == "goodput")
    assert isinstance(column.cells[0], Number)
    assert column.cells[0].margin == pytest.approx(one.confidence_bound - 0.7)


def test_a_plan_of_which_nothing_is_kept_says_so(tmp_path: Path) -> None:
    """Struck every few seconds, with minutes until a checkpoint: there are no targets to blame."""
    base = LIVES + (
        "failures: {horizon: 1 h, of: [{domain: worker, mtbf: 30 s}]}\n"
        "checkpoint: {every: 10 min, write: 1 min}\nrecovery: {restart: 1 min}\n"
    )
    block = "minimize: cost_per_million_examples\nspace:\n  checkpoint.write: [1 min, 2 min]\n"
    found, _ = searched(question(block, base=base), tmp_path)
    assert found.best is None
    assert {one.speed.mean for one in found.outcomes.values()} == {0.0}
    assert found.report.headline == (Note("no-work-kept"),)
