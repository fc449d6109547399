"""A plan leaves out what does not fit into memory, and says so."""

from pathlib import Path

import pytest

from tests.plan.planning import BASE, BLOCK, note, question
from tests.seams import Number
from varsim import ScenarioError
from varsim.study.cheapest import Cheapest
from varsim.study.plan import Plan
from varsim.study.pool import Here
from varsim.study.runs import Runs
from varsim.study.store import Store

SERVERS = "memory: {server: 15 MB, exceeded: refuse}\n"


class TestPlan:
    """20 MB on servers: at least two of them, where 15 MB are on each."""

    def test_what_does_not_fit_is_no_answer(self, tmp_path: Path) -> None:
        block = "minimize: parameter_servers\nspace:\n  cluster.parameter_servers: [1, 2]\n"
        block += "  cluster.workers: [6, 8]\n"
        base = BASE.replace("  - {kind: on_write}\n", "")
        free, limited = (
            self.answer(tmp_path / name, block, base + more)
            for name, more in (("free", ""), ("limited", SERVERS))
        )
        for plan, servers in ((free, 1), (limited, 2)):
            best = plan.best
            assert best is not None
            assert best.candidate.machines.servers == servers
        assert [cell.machines.servers for cell in limited.too_large] == [1, 1]
        assert note(limited, "memory-left-out").values == {
            "who": ("2 of async PS",),
            "needs": Number(20e6, unit="B"),
            "has": Number(15e6, unit="B"),
            "where": "server",
        }
        marked = self.answer(
            tmp_path / "marked", block, base + SERVERS.replace("refuse", "mark")
        ).best
        assert marked is not None
        assert marked.candidate.machines.servers == 1

    def test_nothing_fits(self) -> None:
        asked = question(
            BLOCK, base=BASE + "memory: {server: 5 MB, device: 1 MB, exceeded: refuse}\n"
        )
        with pytest.raises(
            ScenarioError,
            match="no configuration of the space fits into memory: 'on_write' does",
        ):
            Cheapest(asked)

    def answer(self, directory: Path, block: str, base: str) -> Plan:
        with Store(directory) as store, Here() as maker:
            runs = Runs(store, maker)
            return Cheapest(question(block, base=base)).run(runs)
