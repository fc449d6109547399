"""The remarks under the table: each where it belongs, and nowhere else."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from tests.building import scenario
from tests.handmade import a_result, a_scenario, a_trace, result_of
from varsim.cluster.trace import Outcome, Trace
from varsim.study.result import Result
from varsim.study.simulation import simulate


def losing(label: str, losses: Sequence[float], replication: int = 0) -> Trace:
    rows = a_trace().evaluations
    changed = [row._replace(loss=loss) for row, loss in zip(rows, losses, strict=True)]
    return a_trace(label, replication, evaluations=changed)


def said(result: Result, word: str) -> list[str]:
    return [note for note in result.notes if word in note]


def test_how_much_of_sending_is_hidden_is_said_of_those_who_overlap() -> None:
    some = [
        a_trace("one", sending=8, hidden=5),
        a_trace("other"),
        a_trace("all", sending=2, hidden=2),
    ]
    assert said(result_of(some), "hidden") == [
        "Share of the time gradients were in transit, hidden behind the backward pass: "
        "62.5 % in 'one', 100 % in 'all'."
    ]
    assert said(a_result(), "hidden") == []


def test_what_is_measured_of_copies_that_neighbours_mix_is_said() -> None:
    pairs = {"kind": "gossip", "mode": "asynchronous"}
    kinds = ({"kind": "gossip"}, {**pairs, "name": "pairs"}, {"kind": "none"})
    result = simulate(a_scenario(strategies=kinds, stop={"global_steps": 2}))
    assert said(result, "all copies") == [
        "What is measured is the mean of all copies, held by no replica: gossip averaging, 'pairs'."
    ]
    assert said(result, "Staleness") == [
        "Staleness in 'pairs' counts exchanges: how often others changed a worker's copy between "
        "its read and its own step, not the updates of all replicas."
    ]
    # And so it is called in the tables.
    units = {row[0]: row[2] for row in result.summary_rows if row[1] == "staleness_mean"}
    assert units == {"gossip": "updates", "pairs": "exchanges", "none": "updates"}
    unit, about = result.metrics["staleness_max"]
    assert unit == "updates or exchanges"
    assert about.startswith("updates between the read and the application of an applied gradient, ")
    assert about.endswith("read of it and its own step: largest of a replication")
    assert said(a_result(), "all copies") == said(a_result(), "Staleness") == []


class TestTarget:
    def test_what_a_time_to_a_loss_is_is_said(self) -> None:
        assert said(a_result(targets={"loss": 1.0}), "Time to loss") == [
            "Time to loss 1: the time of the first update whose loss is at or below it; "
            "every update was checked, at no cost in simulated time."
        ]
        assert said(a_result(), "Time to loss") == []

    def test_evaluations_are_as_often_as_is_said(self) -> None:
        kinds = ({"kind": "none"}, {"kind": "single"})
        result = simulate(
            a_scenario(strategies=kinds, stop={"global_steps": 60}, targets={"loss": 0.0})
        )
        # Ten batches of 10 examples of each worker.
        for label, every in (("none", 200), ("single", 100)):
            examples = [row.examples for row in result.trace(label).evaluations]
            assert examples[:3] == [0, every, 2 * every]


class TestGrowingLoss:
    def test_a_loss_that_explodes_but_stays_finite_is_said(self) -> None:
        runs = [losing("a", losses, n) for n, losses in enumerate(([2, 1, 0.5], [2, 9, 5e7]))]
        result = Result(a_scenario("a", replications=2), runs, [])
        assert said(result, "grew") == [
            "a: the loss grew in 1 of 2 replications, from 2 to 5e+07 in the worst, at learning "
            "rate 0.1; try a smaller one."
        ]

    @pytest.mark.parametrize("losses", [[2, 9, 0.5], [2, 2, 2], [2, 1, math.inf]])
    def test_any_other_loss_is_not(self, losses: list[float]) -> None:
        assert said(result_of([losing("a", losses)]), "grew") == []


class TestGradientsPerUpdate:
    @staticmethod
    def applying(label: str, gradients: int) -> Trace:
        """Three updates of so many whole gradients together."""
        rows = a_trace().gradients[[0] * gradients].copy()
        rows[:, 9] = Outcome.APPLIED
        return a_trace(label, gradients=rows)

    def test_very_different_ones_are_said(self) -> None:
        result = result_of([self.applying("many", 24), self.applying("one", 3)])
        (note,) = said(result, "learning rate")
        assert note.startswith("An update holds 1 gradient in 'one' and 8 in 'many', at the same")

    def test_similar_ones_are_not(self) -> None:
        result = result_of([self.applying("four", 12), self.applying("three", 9)])
        assert said(result, "learning rate") == []

    def test_without_values_there_is_no_loss_to_compare(self) -> None:
        timing = {"problem": {"kind": "timing"}, "model": "resnet50", "batch_size": 10}
        runs = [self.applying("many", 24), self.applying("one", 3)]
        assert said(result_of(runs, workload=timing), "learning rate") == []


class TestNetworkCards:
    """Nodes of 2 with 2 cards: rings leave by both, other messages by that of their worker."""

    def told(self, strategy: dict[str, Any], workers: int = 4, cards: int = 2) -> str:
        inside = {"bandwidth": 1e10, "latency": 1e-6}
        nodes = {"kind": "nodes", "workers_per_node": 2, "nics": cards, "inside": inside}
        made = scenario(
            strategy,
            network={**nodes, "bandwidth": 1e9, "latency": 1e-6},
            cluster={"workers": workers},
        )
        return " ".join(said(simulate(made), "network card"))

    def test_rings_leave_by_all(self) -> None:
        assert self.told({"kind": "on_write"}) == ""
        assert self.told({"kind": "on_write"}, cards=1) == ""
        by_groups = {"kind": "on_write", "collective": "hierarchical", "ranks_per_group": 2}
        assert self.told(by_groups) == ""

    def test_a_node_with_fewer_workers_than_cards_has_rings_for_these(self) -> None:
        assert "At most 1 of the 2" in self.told({"kind": "on_write"}, workers=3)

    def test_a_server_has_one(self) -> None:
        assert self.told({"kind": "none"}).startswith(
            "Nodes have 2 network cards, a parameter server one, with async PS (none): "
        )
