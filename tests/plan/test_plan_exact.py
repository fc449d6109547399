"""Plans in which nothing is random, and what decides them without a price."""

import json
from pathlib import Path

from tests.plan.planning import BASE, BLOCK, codes, plan_of, question, searched
from tests.seams import Number
from varsim.report.products.plan_cells import document
from varsim.study.cheapest import unpriced
from varsim.study.verdict import EQUAL

CONSTANT = BASE.replace(
    "{kind: uniform, low: 80 ms, high: 120 ms}", "{kind: constant, value: 0.1 s}"
)


def test_each_cell_is_run_once_where_nothing_is_random(tmp_path: Path) -> None:
    found, runs, cells = searched(question(base=CONSTANT), tmp_path)
    assert found.answer is not None
    assert {one.replications for one in found.looked_at.values()} == {1}
    assert runs.status.done == len(found.looked_at)
    assert found.check is None
    assert found.answer.speed.half_width == 0
    told = codes(plan_of(found, cells))
    assert "exact" in told
    assert "holds" not in told


def test_what_has_no_price_and_decides_is_named(tmp_path: Path) -> None:
    """Servers cost nothing, nor does the faster network: the answer takes what it needs."""
    base = CONSTANT.replace(", server_hour: 0.7", "").replace("  - {kind: on_write}\n", "")
    base = base.replace("throughput: 150 ", "throughput: 173 ")
    block = BLOCK.replace("  cluster.parameter_servers: [1, 2]", (
        "  cluster.parameter_servers: [1, 2]\n  cluster.network.bandwidth: [1 Gbit/s, 10 Gbit/s]"
    ))  # fmt: skip
    found, runs, cells = searched(question(block, base=base), tmp_path)
    assert found.answer is not None
    assert found.answer.cell.machines.servers == 2
    names = {one.name: one.has for one in unpriced(found)}
    assert names == {"parameter servers": "2", "cluster.network.bandwidth": "10 Gbit/s"}
    plan = plan_of(found, cells, runs.status.done)
    named = [one.values for one in plan.report.notes if one.code == "unpriced"]
    assert [(one["what"], one["has"]) for one in named] == list(names.items())
    assert named[1]["remedy"] == "zip it with prices.device_hour"
    facts = document(plan)
    assert [one["name"] for one in json.loads(json.dumps(facts))["unpriced"]] == [*names]


def test_a_tie_goes_to_less_of_what_has_no_price(tmp_path: Path) -> None:
    """A faster network is faster for the same price, as nobody priced it; it is not needed."""
    base = CONSTANT.replace(", server_hour: 0.7", "").replace("  - {kind: on_write}\n", "")
    base = base.replace("throughput: 150 ", "throughput: 155 ")
    block = BLOCK.replace("[1, 2]", "[1, 2]\n  cluster.network.bandwidth: [40 Gbit/s, 80 Gbit/s]")
    found, _, _ = searched(question(block, base=base), tmp_path, exhaustive=True)
    best = found.answer
    assert best is not None
    assert best.cell.machines.servers == 1
    assert [value.text for value in best.cell.point.values][-1] == "40 Gbit/s"
    alike = [one for one in found.ranking() if one.objective.mean == best.objective.mean]
    assert max(one.speed.mean for one in alike) > best.speed.mean
    assert unpriced(found) == []
    second = found.runner_up
    assert second is not None
    assert second.objective.mean == best.objective.mean


def test_workers_tie_with_fewer_servers(tmp_path: Path) -> None:
    """The number of workers takes no account of servers."""
    base = CONSTANT.replace("  - {kind: on_write}\n", "")
    block = BLOCK.replace("cost_per_hour", "workers")
    found, _, _ = searched(question(block, base=base), tmp_path)
    assert found.answer is not None
    assert found.answer.cell.machines[:2] == (6, 1)


def test_what_is_zipped_with_a_price_has_one(tmp_path: Path) -> None:
    block = """\
minimize: cost_per_hour
space:
  cluster.workers: [4, 6, 8]
  zip:
    cluster.network.bandwidth: [1 Gbit/s, 10 Gbit/s]
    prices.device_hour: [1.0, 2.0]
"""
    found, _, _ = searched(question(block, base=CONSTANT), tmp_path)
    assert found.answer is not None
    assert unpriced(found) == []


def test_cells_that_cost_practically_the_same_are_said_to(tmp_path: Path) -> None:
    base = CONSTANT.replace("server_hour: 0.7", "server_hour: 0.1")
    base = base.replace("throughput: 150 ", "throughput: 165 ")
    found, _, cells = searched(question(base=base), tmp_path, exhaustive=True)
    assert found.answer is not None
    close = {one.key for one in found.compared.values() if one.said == EQUAL}
    second = found.runner_up
    assert second is not None
    assert second.cell.number in close
    assert codes(plan_of(found, cells)).count("close-cells") == 0, "equal is not open"


def test_every_target_that_is_missed_is_named(tmp_path: Path) -> None:
    sets = ["targets.staleness_p99=0", "targets.throughput=9000 examples/s"]
    found, _, cells = searched(question(sets=sets, base=CONSTANT), tmp_path)
    table = plan_of(found, cells).report.table
    row = table.rows.index("async PS")
    columns = {one.key: one.cells[row] for one in table.columns}
    assert str(columns["verdict"]).startswith("none of ")
    for target in ("staleness_p99", "throughput"):
        reached = columns[target]
        assert isinstance(reached, Number)
        assert reached.margin < 0
