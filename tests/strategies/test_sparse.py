"""Sparse gradients in a run: what is averaged over whom, and which bytes they move."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.building import example, gradient_rows, run, scenario
from tests.seams import STRATEGIES, Run, run_one, trained
from varsim import Scenario

EMBEDDING = {"kind": "embedding", "users": 6, "items": 4, "dimension": 3, "ratings": 60}
RATE = 2.0


def described(kind: str, **changes: Any) -> Scenario:
    strategy = {**example(kind), **changes.pop("strategy", {})}
    parts = {
        "problem": EMBEDDING,
        "optimizer": {"kind": "sgd", "learning_rate": RATE},
        "workload": {"batch_size": 2},
        "stop": {"global_steps": 1},
        **changes,
    }
    return scenario(strategy, **parts)


def first_gradients(what: Scenario) -> list[Sequence[Any]]:
    """Of each variable those of the workers' first batches, at the start."""
    task = what.workload.problem.task(what.seed, 0)
    batches = np.concatenate(
        [task.batches(worker, 0, 2)[:1] for worker in range(what.cluster.workers)]
    )
    stacks = task.gradients(task.initial(), batches)
    return [stack for stack in stacks if isinstance(stack, list)]


def by_hand(gradients: Sequence[Any], initial: Any, *, by_row: bool) -> Any:
    """One step of SGD, row by row."""
    value = initial.copy()
    for row in range(len(initial)):
        parts = [
            part
            for gradient in gradients
            for index, part in zip(gradient.indices, gradient.values, strict=True)
            if index == row
        ]
        if parts:
            value[row] -= RATE * sum(parts) / (len(parts) if by_row else len(gradients))
    return value


ALL_THREE = {"replicas_to_aggregate": 3}


@pytest.mark.parametrize(
    ("kind", "settings", "by_row"), [("sync_replicas", ALL_THREE, True), ("on_write", {}, False)]
)
def test_an_accumulator_averages_a_row_over_those_that_held_it_a_mirror_over_all(
    kind: str, settings: dict[str, Any], by_row: bool
) -> None:
    what = described(kind, strategy=settings)
    _, model = trained(Run(what, 0, 0))
    initial = what.workload.problem.task(what.seed, 0).initial()
    differs = []
    for found, gradients, start in zip(model, first_gradients(what), initial, strict=True):
        np.testing.assert_allclose(found, by_hand(gradients, start, by_row=by_row), rtol=1e-12)
        differs.append(not np.allclose(found, by_hand(gradients, start, by_row=not by_row)))
    assert any(differs), "both rules give the same here"


@pytest.mark.parametrize("kind", STRATEGIES)
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_no_result_depends_on_working_gradients_out_together(kind: str, optimizer: str) -> None:
    what = described(
        kind,
        optimizer={"kind": optimizer, "learning_rate": 0.05},
        cluster={"compute": {"kind": "exponential", "mean": 0.1}},
        stop={"global_steps": 30},
    )
    one, other = (run_one(Run(what, 0, 0), lazy=lazy) for lazy in (True, False))
    assert repr(one.evaluations) == repr(other.evaluations)  # an accuracy of nan equals nothing
    assert one.gradients.tolist() == other.gradients.tolist()
    assert one.evaluations[-1].loss < one.evaluations[0].loss


class TestBytes:
    """A row of 3 numbers of 4 bytes travels with its own number of 8: 20 bytes.

    Of a batch of 2 at most 2 rows of each variable are read and sent: 80 bytes; all would be 120.
    """

    def test_only_rows_of_the_batch_travel_to_and_from_servers(self) -> None:
        trace = run(
            "none",
            problem=EMBEDDING,
            workload={"batch_size": 2},
            network={"bandwidth": 1e3, "latency": 0.0, "sharing": "first_come"},
            cluster={"workers": 1},
            stop={"global_steps": 10},
        )
        moved = {link.name: link.moved for link in trace.links}
        assert moved["ps 0 down"] == 10 * 80
        assert 10 * 80 <= moved["ps 0 up"] <= 11 * 80
        rows = gradient_rows(trace)
        assert [row.arrived - row.computed for row in rows[:10]] == [80_000_000] * 10

    def test_a_batch_has_no_more_rows_than_the_variable(self) -> None:
        def share(batch_size: int) -> list[float]:
            workload = {"batch_size": batch_size}
            return scenario(
                {"kind": "none"}, problem=EMBEDDING, workload=workload
            ).workload.sent_shares()

        assert share(1) == [20 / (6 * 12), 20 / (4 * 12)]
        assert share(5) == [5 * 20 / (6 * 12), 4 * 20 / (4 * 12)]
        assert share(100) == [20 / 12, 20 / 12]

    @pytest.mark.parametrize("placement", ["partitioned", "round_robin", "by_bytes"])
    def test_every_server_moves_its_share_of_them(self, placement: str) -> None:
        trace = run(
            "none",
            problem=EMBEDDING,
            workload={"batch_size": 2},
            cluster={"workers": 1, "parameter_servers": 2, "placement": placement},
            stop={"global_steps": 10},
        )
        down = [link.moved for link in trace.links if "ps" in link.name and "down" in link.name]
        assert sum(down) == pytest.approx(10 * 80)
        if placement != "partitioned":
            assert down == pytest.approx([10 * 40] * 2)

    def test_mirrored_copies_exchange_all_rows(self) -> None:
        trace = run(
            "on_write",
            problem=EMBEDDING,
            workload={"batch_size": 2},
            cluster={"workers": 2},
            stop={"global_steps": 10},
        )
        # A ring of two sends the whole once, in two halves.
        assert [link.moved for link in trace.links] == pytest.approx([10 * 120] * 4)
