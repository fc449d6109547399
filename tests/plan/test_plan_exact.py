"""Plans in which nothing is random, and what decides them without a price."""

import json
from pathlib import Path

from tests.plan.planning import BASE, BLOCK, codes, question, searched
from tests.seams import Number
from varsim.report.products.plan_cells import document
from varsim.study.plan import unpriced
from varsim.study.verdict import EQUAL

CONSTANT = BASE.replace(
    "{kind: uniform, low: 80 ms, high: 120 ms}", "{kind: constant, value: 0.1 s}"
)


def test_each_cell_is_run_once_where_nothing_is_random(tmp_path: Path) -> None:
    found, runs = searched(question(base=CONSTANT), tmp_path)
    assert found.best is not None
    assert {one.replications for one in found.outcomes.values()} == {1}
    assert runs.status.done == len(found.outcomes)
    assert found.check is None
    assert found.best.speed.half_width == 0
    told = codes(found)
    assert "exact" in told
    assert "holds" not in told


def test_what_has_no_price_and_decides_is_named(tmp_path: Path) -> None:
    """Servers cost nothing, nor does the faster network: the answer takes what it needs."""
    base = CONSTANT.replace(", server_hour: 0.7", "").replace("  - {kind: on_write}\n", "")
    base = base.replace("throughput: 150 ", "throughput: 173 ")
    block = BLOCK.replace("  cluster.parameter_servers: [1, 2]", (
        "  cluster.parameter_servers: [1, 2]\n  cluster.network.bandwidth: [1 Gbit/s, 10 Gbit/s]"
    ))  # fmt: skip
    found, _ = searched(question(block, base=base), tmp_path)
    assert found.best is not None
    assert found.best.candidate.machines.servers == 2
    names = {one.name: one.has for one in unpriced(found)}
    assert names == {"parameter servers": "2", "cluster.network.bandwidth": "10 Gbit/s"}
    named = [one.values for one in found.report.notes if one.code == "unpriced"]
    assert [(one["what"], one["has"]) for one in named] == list(names.items())
    assert named[1]["remedy"] == "zip it with prices.device_hour"
    facts = document(found)
    assert [one["name"] for one in json.loads(json.dumps(facts))["unpriced"]] == [*names]


def test_a_tie_goes_to_less_of_what_has_no_price(tmp_path: Path) -> None:
    """A faster network is faster for the same price, as nobody priced it; it is not needed."""
    base = CONSTANT.replace(", server_hour: 0.7", "").replace("  - {kind: on_write}\n", "")
    base = base.replace("throughput: 150 ", "throughput: 155 ")
    block = BLOCK.replace("[1, 2]", "[1, 2]\n  cluster.network.bandwidth: [40 Gbit/s, 80 Gbit/s]")
    found, _ = searched(question(block, base=base), tmp_path, exhaustive=True)
    best = found.best
    assert best is not None
    assert best.candidate.machines.servers == 1
    assert [value.text for value in best.candidate.point.values][-1] == "40 Gbit/s"
    alike = [one for one in found.feasible() if one.objective.mean == best.objective.mean]
    assert max(one.speed.mean for one in alike) > best.speed.mean
    assert unpriced(found) == []
    second = found.runner_up
    assert second is not None
    assert second.objective.mean == best.objective.mean


def test_workers_tie_with_fewer_servers(tmp_path: Path) -> None:
    """The number of workers takes no account of servers."""
    base = CONSTANT.replace("  - {kind: on_write}\n", "")
    block = BLOCK.replace("cost_per_hour", "workers")
    found, _ = searched(question(block, base=base), tmp_path)
    assert found.best is not None
    assert found.best.candidate.machines[:2] == (6, 1)


def test_what_is_zipped_with_a_price_has_one(tmp_path: Path) -> None:
    block = """\
minimize: cost_per_hour
space:
  cluster.workers: [4, 6, 8]
  zip:
    cluster.network.bandwidth: [1 Gbit/s, 10 Gbit/s]
    prices.device_hour: [1.0, 2.0]
"""
    found, _ = searched(question(block, base=CONSTANT), tmp_path)
    assert found.best is not None
    assert unpriced(found) == []


def test_cells_that_cost_practically_the_same_are_said_to(tmp_path: Path) -> None:
    base = CONSTANT.replace("server_hour: 0.7", "server_hour: 0.1")
    base = base.replace("throughput: 150 ", "throughput: 165 ")
    found, _ = searched(question(base=base), tmp_path, exhaustive=True)
    assert found.best is not None
    close = {one.key for one in found.compared.values() if one.said == EQUAL}
    second = found.runner_up
    assert second is not None
    assert second.candidate.number in close
    assert codes(found).count("close-to-answer") == 0, "equal is not open"


def test_every_target_that_is_missed_is_named(tmp_path: Path) -> None:
    sets = ["targets.staleness_p99=0", "targets.throughput=9000 examples/s"]
    found, _ = searched(question(sets=sets, base=CONSTANT), tmp_path)
    table = found.report.table
    row = table.rows.index("async PS")
    columns = {one.key: one.cells[row] for one in table.columns}
    assert str(columns["verdict"]).startswith("none of ")
    for target in ("staleness_p99", "throughput"):
        reached = columns[target]
        assert isinstance(reached, Number)
        assert reached.margin < 0
