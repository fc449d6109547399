"""Gossip by hand: 100 ms a step, 40 bytes of parameters that take 100 ms on a link."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import Model, gradient_rows, kill, life, mean, milliseconds, run, scenario, slow
from tests.seams import Run, Span, Trace
from varsim import simulate
from varsim.study.simulation import started
from varsim.values.mixing import one_peer, undirected_ring
from varsim.values.variable import divergence

WIRE = {"bandwidth": 400.0, "latency": 0.0, "sharing": "first_come"}
FAIR = {**WIRE, "sharing": "fair"}
BOTH = pytest.mark.parametrize("network", [WIRE, FAIR], ids=["first_come", "fair"])
EXPONENTIAL = {"kind": "exponential", "mean": 0.1}
HALVES = ((0.5, 0.0, 0.5), (0.5, 0.5, 0.0), (0.0, 0.5, 0.5))
UNEVEN = ((0.5, 0.0, 0.5), (0.25, 0.5, 0.0), (0.25, 0.5, 0.5))


def gossip(**settings: Any) -> dict[str, Any]:
    return {"kind": "gossip", **settings}


def sends(trace: Trace, rank: int) -> list[tuple[int, int, int]]:
    """From when to when (ms) a worker sent, and in which iteration that began."""
    spans = [Span(*row) for part in trace.send_rows.parts() for row in part.tolist()]
    return [
        (one.start // 1_000_000, one.end // 1_000_000, one.iteration)
        for one in spans
        if one.worker == rank
    ]


@BOTH
class TestTimes:
    def test_copies_are_sent_while_gradients_are_computed(self, network: dict[str, Any]) -> None:
        # A ring of four: to the next from 0 to 100 ms, to the one before from 100 to 200 ms.
        trace = run(gossip(), cluster={"workers": 4}, network=network, stop={"global_steps": 2})
        for rank in range(4):
            assert life(trace, rank) == [
                *(("compute", 0, 100), ("write", 100, 200)),
                *(("compute", 200, 300), ("write", 300, 400)),
            ]
        moved = {link.name: link.moved for link in trace.links if link.name.startswith("worker")}
        assert set(moved.values()) == {160}

    def test_what_hides_behind_computing_is_recorded(self, network: dict[str, Any]) -> None:
        # Of two messages of 100 ms the one goes while the gradient is computed, for 100 ms.
        trace = run(gossip(), cluster={"workers": 4}, network=network, stop={"global_steps": 2})
        assert sends(trace, 3) == [(0, 200, 0), (200, 400, 1)]
        assert (trace.sending, trace.hidden) == (4 * 400_000_000, 4 * 200_000_000)

    def test_only_what_is_sent_before_computing_is(self, network: dict[str, Any]) -> None:
        for mode in ("push_sum", "asynchronous"):
            trace = run(gossip(mode=mode), network=network, stop={"global_steps": 4})
            assert (trace.sending, len(trace.send_rows)) == (0, 0)

    def test_one_peer_a_step_is_half_of_that(self, network: dict[str, Any]) -> None:
        trace = run(
            gossip(graph="exponential"),
            cluster={"workers": 4},
            network=network,
            stop={"global_steps": 4},
        )
        assert milliseconds(trace.steps) == [100, 200, 300, 400]

    def test_push_sum_sends_what_came_of_the_gradient(self, network: dict[str, Any]) -> None:
        trace = run(
            gossip(mode="push_sum"),
            cluster={"workers": 4},
            network=network,
            stop={"global_steps": 3},
        )
        assert life(trace, 2) == [
            *(("compute", 0, 100), ("write", 100, 200), ("compute", 200, 300)),
            *(("write", 300, 400), ("compute", 400, 500)),
        ]
        assert milliseconds(trace.steps) == [100, 300, 500]

    def test_only_neighbours_wait_for_a_straggler(self, network: dict[str, Any]) -> None:
        # A ring of six: worker 0 takes 900 ms. What it sends as it begins with its second step
        # holds up its neighbours, and these hold up those next to them a step later. Side by side
        # both of its messages take 200 ms; else the first takes 100, and worker 5 sends to 0
        # before 4.
        cluster = {"workers": 6, "slow_workers": (slow(0, 9.0),)}
        trace = run(gossip(), cluster=cluster, network=network, stop={"global_steps": 2})
        assert life(trace, 1)[:4] == [
            *(("compute", 0, 100), ("write", 100, 200), ("compute", 200, 300)),
            ("barrier", 300, 900),
        ]
        begun = [
            [int(row.compute_start / 1e6) for row in gradient_rows(trace) if row.worker == rank]
            for rank in range(6)
        ]
        fair = network is FAIR
        assert begun[0] == [0, 900]
        assert [own[2] for own in begun[1:]] == [1100 if fair else 1000, 400, 400, 400, 1100]
        assert [own[3] for own in begun[2:5]] == ([1300, 600, 1300] if fair else [1100, 600, 1400])

    def test_nobody_waits_for_a_straggler_without_rounds(self, network: dict[str, Any]) -> None:
        # 100 ms to the partner, 100 ms back, of which the straggler notices nothing.
        cluster = {"workers": 2, "slow_workers": (slow(1, 10.0),)}
        trace = run(
            gossip(mode="asynchronous"),
            cluster=cluster,
            network=network,
            stop={"global_steps": 3},
        )
        assert life(trace, 0) == [
            *(("compute", 0, 100), ("write", 100, 200), ("read", 200, 300)),
            *(("compute", 300, 400), ("write", 400, 500), ("read", 500, 600)),
            *(("compute", 600, 700), ("write", 700, 800), ("read", 800, 900)),
        ]
        assert life(trace, 1) == [("compute", 0, 900)]


def test_a_copy_may_be_on_its_way_for_longer_than_a_step() -> None:
    # Worker 2 sends and receives at a quarter of the speed. Worker 1 computes until 200 ms, and
    # from 500 to 600 ms; else it waits.
    trace = run(
        gossip(matrices=(HALVES,)),
        cluster={"workers": 3},
        network=WIRE | {"slow_links": (slow(2, 4.0),)},
        stop={"time": 1.0},
    )
    assert sends(trace, 0) == [(0, 100, 0), (400, 500, 1), (800, 900, 2)]
    assert sends(trace, 1) == [(0, 400, 0), (400, 800, 1)]
    assert sends(trace, 2) == sends(trace, 1)
    assert trace.hidden == (3 * 100 + (200 + 100) + 2 * 100) * 1_000_000


def test_how_much_of_it_hides_is_said() -> None:
    made = scenario(gossip(), cluster={"workers": 4}, network=WIRE, stop={"global_steps": 2})
    assert simulate(made).table()["sending hidden"].tolist() == ["50 %"]


def test_partners_share_links() -> None:
    # 0 and 1 both send to 2 at 100 ms, and it to nobody yet.
    strategy = gossip(mode="asynchronous", partners=((2,), (2,), (0,)))
    changes: dict[str, Any] = {
        "cluster": {"slow_workers": (slow(2, 30.0),)},
        "stop": {"global_steps": 2},
    }
    assert milliseconds(run(strategy, network=FAIR, **changes).steps) == [500, 500]
    trace = run(strategy, network=WIRE, **changes)
    assert milliseconds(trace.steps) == [300, 400]
    assert life(trace, 1)[1:3] == [("queue", 100, 200), ("write", 200, 300)]


class TestValues:
    def model(self, made: Any) -> Any:
        job, strategy = started(Run(made, 0, 0))
        job.run(strategy.label)
        return job.model()[0]

    def test_the_rounds_of_d_psgd(self) -> None:
        made = scenario(
            gossip(),
            cluster={"workers": 4},
            problem={"noise": 1.0},
            network=FAIR,
            stop={"global_steps": 5},
        )
        model, weights = Model(made), undirected_ring(4)
        x = [model.start[0]] * 4
        for step in range(5):
            gradients = [model.gradient((x[rank],), rank, step)[0] for rank in range(4)]
            mixed = [sum(part * x[one] for one, part in weights[to].items()) for to in range(4)]
            x = [mixed[rank] - 0.1 * gradients[rank] for rank in range(4)]
        np.testing.assert_allclose(self.model(made), mean(x), rtol=1e-13, atol=1e-15)

    @pytest.mark.parametrize("mode", ["synchronous", "push_sum"])
    def test_all_averaged_with_all_is_on_write(self, mode: str) -> None:
        # Push-sum averages updated copies; D-PSGD the copies before: a step of gradients behind,
        # which does not matter to their mean as long as a gradient is linear.
        everybody = (((0.25,) * 4,) * 4,)
        changes: dict[str, Any] = {"cluster": {"workers": 4}, "stop": {"global_steps": 10}}
        one = self.model(scenario(gossip(mode=mode, matrices=everybody), **changes))
        other = self.model(scenario({"kind": "on_write"}, **changes))
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)

    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"graph": "exponential"},
            {"mode": "asynchronous"},
            {"mode": "asynchronous", "graph": "exponential"},
            {"mode": "push_sum"},
            {"mode": "push_sum", "graph": "exponential"},
        ],
        ids=str,
    )
    def test_without_gradients_copies_keep_their_mean_and_meet(
        self, settings: dict[str, Any]
    ) -> None:
        made = scenario(
            gossip(**settings),
            cluster={"workers": 5, "compute": EXPONENTIAL},
            network=FAIR,
            optimizer={"kind": "sgd", "learning_rate": 1e-300},
            stop={"time": 40.0},
        )
        job, strategy = started(Run(made, 0, 0))
        copies = job._divergence.__self__  # type: ignore[union-attr]
        apart = np.arange(50.0).reshape(5, 10) ** 2
        for rank in range(5):
            copies.variables[0].write(rank, apart[rank])
        before = divergence([[row] for row in apart])
        job.run(strategy.label)
        np.testing.assert_allclose(job.model()[0], apart.mean(axis=0), rtol=1e-11)
        assert copies.divergence() < 1e-3 * before

    def test_weights_of_push_sum_add_up_to_the_workers(self) -> None:
        made = scenario(
            gossip(mode="push_sum", matrices=(UNEVEN,)),
            cluster={"compute": EXPONENTIAL},
            network=FAIR,
            stop={"global_steps": 60},
        )
        job, strategy = started(Run(made, 0, 0))
        copies = job._divergence.__self__  # type: ignore[union-attr]
        mixed: dict[int, list[float]] = {}
        mix = copies.mix

        def seen(worker: Any) -> Any:
            yield from mix(worker)
            mixed.setdefault(copies._round[worker.rank], []).append(copies.weights[worker.rank])

        copies.mix = seen
        job.run(strategy.label)
        sums = [sum(weights) for weights in mixed.values() if len(weights) == 3]
        assert len(sums) > 50
        np.testing.assert_allclose(sums, 3.0, rtol=1e-13)
        assert len({round(weight, 9) for weight in copies.weights}) > 1

    def test_what_a_copy_lacks_is_what_has_not_come_around(self) -> None:
        # A ring of six: what the opposite worker has learnt comes three rounds later.
        made = scenario(gossip(), cluster={"workers": 6}, stop={"global_steps": 10})
        job, strategy = started(Run(made, 0, 0))
        trace = job.run(strategy.label)
        copies = job._divergence.__self__  # type: ignore[union-attr]
        assert copies.contained[0].tolist() == [10, 9, 8, 7, 8, 9]
        assert copies.missed(0) == 9
        assert trace.copy_staleness.reshape(-1, 6).tolist()[:5] == [
            [lacking] * 6 for lacking in (0, 5, 8, 9, 9)
        ]

    def test_a_gradient_is_as_stale_as_others_have_changed_the_copy(self) -> None:
        cluster = {"workers": 2, "slow_workers": (slow(1, 4.5),)}
        trace = run(gossip(mode="asynchronous"), cluster=cluster, stop={"time": 1.0})
        stale = {(row.worker, row.applied_step - row.read_step) for row in gradient_rows(trace)[:7]}
        assert stale == {(0, 0), (0, 1), (1, 4)}


class TestGraphs:
    def test_exponential(self) -> None:
        def receiver(shares: Any) -> list[int]:
            return [to for one in range(6) for to in range(6) if to != one and one in shares[to]]

        assert [receiver(shares) for shares in one_peer("exponential", 6)] == [
            [1, 2, 3, 4, 5, 0],
            [2, 3, 4, 5, 0, 1],
            [4, 5, 0, 1, 2, 3],
        ]

    def test_a_ring_of_two_has_one_neighbour(self) -> None:
        halves = [{0: 0.5, 1: 0.5}] * 2
        assert undirected_ring(2) == halves
        assert one_peer("exponential", 2) == one_peer("ring", 2) == [halves]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"matrices": (UNEVEN,)}, r"matrices: number 0 row 1 must add up to 1"),
        ({"matrices": (HALVES, HALVES[:2])}, "matrices: number 1 must have 3 rows of 3 numbers"),
        (
            {"mode": "push_sum", "matrices": (((0.5, 0.0, 0.5),) * 3,)},
            r"column 0 must add up to 1 \(what each worker hands out, \[to\]\[from\]\), not to 1.5",
        ),
        ({"matrices": (((1.5, -0.5, 0.0),) * 3,)}, "no weight below 0"),
        (
            {"mode": "push_sum", "matrices": (((1.0, 1.0, 1.0), (0.0,) * 3, (0.0,) * 3),)},
            "row 1 must not be all 0: worker 1 would be left nothing",
        ),
        (
            {"mode": "asynchronous", "partners": ((1,), (2,))},
            "must be 3 lists, one of every worker",
        ),
        (
            {"mode": "asynchronous", "partners": ((1,), (1,), (0,))},
            "1 of worker 1 is that worker itself; others are 0 to 2",
        ),
        ({"mode": "asynchronous", "partners": ((1,), (3,), (0,))}, "3 of worker 1 does not exist"),
        ({"mode": "asynchronous", "partners": ((1,), (), (0,))}, "at least 1 item"),
        ({"mode": "asynchronous", "matrices": (HALVES,)}, "matrices has no effect"),
        ({"partners": ((1,), (2,), (0,))}, "partners has no effect: mode synchronous"),
        ({"graph": "ring", "matrices": (HALVES,)}, "graph has no effect: matrices says"),
        ({"graph": "tree"}, "'ring' or 'exponential'"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        scenario(gossip(**settings))


def test_a_ring_of_one_and_deaths_are_refused() -> None:
    with pytest.raises(ValidationError, match="at least 2 workers: one alone has no neighbour"):
        scenario(gossip(), cluster={"workers": 1})
    with pytest.raises(ValidationError, match="gossip does not go with events"):
        scenario(gossip(), events=(kill(1.0, 1),))
