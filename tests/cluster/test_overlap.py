"""All-reduces in buckets: by hand, against closed forms, message by message, and when some die."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.building import MS, gradient_rows, kill, life, losses, phase_time, restart, run, slow
from tests.living import at, job, play
from tests.seams import Phase, Trace
from varsim.cluster.collective import Collective, Vector
from varsim.cluster.collectives.choice import Choice

Case = dict[str, Any]

# Two workers in a ring: n bytes take n ns on 1 GB/s, without a latency.
WIRE = {"bandwidth": 1e9, "latency": 0.0, "sharing": "first_come"}
ALGORITHMS: list[Choice] = [
    Choice("ring"),
    Choice("recursive_doubling"),
    Choice("halving_doubling"),
    Choice("binomial_tree"),
    Choice("double_binary_tree", None, 2e3),
    Choice("hierarchical", 3),
]


def layers(backward: list[float], sizes: list[float]) -> tuple[Case, ...]:
    return tuple({"backward": b, "size": s} for b, s in zip(backward, sizes, strict=True))


def reduced(forward: float, backward: list[float], sizes: list[float], **changes: Any) -> Trace:
    """A run of two workers with these layers (s, bytes) and an all-reduce for each of them."""
    strategy = {"kind": "on_write", "bucketing": "layers", **changes.pop("strategy", {})}
    phases = {"kind": "phases", "forward": forward, "backward": sum(backward)}
    return run(
        strategy,
        **{
            "network": WIRE,
            "cluster": {"workers": 2, "compute": phases, **changes.pop("cluster", {})},
            "problem": {"kind": "timing"},
            "workload": {"optimizer": None, "layers": layers(backward, sizes)},
            **changes,
        },
    )


def wait_free(forward: float, backward: list[float], exchange: list[float]) -> float:
    """b_l = b_{l+1} + tb_l, c_l = max(c_{l+1}, b_l) + tc_l (Shi et al., 2018)."""
    ready = done = forward
    for tb, tc in zip(reversed(backward), reversed(exchange), strict=True):
        ready += tb
        done = max(done, ready) + tc
    return done


class TestByHand:
    # Forward until 40; layers 3, 2, 1 are ready at 50, 70, 100; they take 30, 10, 5 ms:
    # 50 - 80, 80 - 90, 100 - 105.
    BACKWARD = (0.03, 0.02, 0.01)
    SIZES = (5e6, 10e6, 30e6)

    def trace(self, **changes: Any) -> Trace:
        return reduced(0.04, list(self.BACKWARD), list(self.SIZES), **changes)

    def test_a_bucket_begins_when_it_is_ready_and_the_one_before_is_done(self) -> None:
        trace = self.trace(strategy={"overlap": True})
        assert [time / MS for time in trace.steps.tolist()] == [105, 210, 315]

    def test_only_what_is_left_after_the_backward_pass_is_written(self) -> None:
        trace = self.trace(strategy={"overlap": True})
        for worker in (0, 1):
            assert life(trace, worker)[:3] == [
                ("compute", 0, 100),
                ("write", 100, 105),
                ("compute", 105, 205),
            ]
        assert phase_time(trace, Phase.WRITE) == 2 * 3 * 5 * MS

    def test_what_is_hidden_is_counted(self) -> None:
        # 45 ms of each gradient's are moved, 40 before it is computed.
        trace = self.trace(strategy={"overlap": True})
        assert (trace.sending, trace.hidden) == (2 * 3 * 45 * MS, 2 * 3 * 40 * MS)
        first = [row for row in trace.send_rows.array().tolist() if row[0] == row[4] == 0]
        assert first == [
            [0, Phase.WRITE, begin * MS, end * MS, 0]
            for begin, end in ((50, 80), (80, 90), (100, 105))
        ]
        plain = self.trace()
        assert (plain.sending, plain.hidden) == (0, 0)

    def test_without_overlap_buckets_follow_the_backward_pass(self) -> None:
        trace = self.trace()
        assert [time / MS for time in trace.steps.tolist()] == [145, 290, 435]
        assert life(trace, 0)[:2] == [("compute", 0, 100), ("write", 100, 145)]

    def test_buckets_of_several_layers_wait_for_the_last_of_them(self) -> None:
        # 40 MB are ready at 70, the rest at 100: 70 - 110, 110 - 115.
        trace = self.trace(
            strategy={"overlap": True, "bucketing": "ddp", "bucket_size": 31e6}
            | {"first_bucket_size": 31e6}
        )
        assert trace.steps[0] == 115 * MS

    def test_a_slow_worker_stretches_its_backward_pass(self) -> None:
        # Worker 1 takes twice as long: it is ready at 100, 140, 200, so 100 - 130, 140 - 150,
        # 200 - 205. Worker 0 has computed at 100 and waits for the other again and again.
        trace = self.trace(strategy={"overlap": True}, cluster={"slow_workers": (slow(1, 2.0),)})
        assert trace.steps[0] == 205 * MS
        assert life(trace, 0)[:6] == [
            ("compute", 0, 100),
            ("write", 100, 130),
            ("barrier", 130, 140),
            ("write", 140, 150),
            ("barrier", 150, 200),
            ("write", 200, 205),
        ]
        assert life(trace, 1)[:2] == [("compute", 0, 200), ("write", 200, 205)]

    def test_a_worker_that_is_slow_for_a_while_is_so_within_its_step(self) -> None:
        # Twice as long from 60 ms on: ready at 50, then 60 + 2 x 10 = 80, then 140.
        trace = self.trace(
            strategy={"overlap": True},
            cluster={"slow_workers": (slow(1, 2.0, after=0.06),)},
            stop={"global_steps": 1},
        )
        # 50 - 80, 80 - 90, 140 - 145.
        assert trace.steps[0] == 145 * MS
        assert life(trace, 1) == [("compute", 0, 140), ("write", 140, 145)]

    def test_the_share_of_the_backward_pass(self) -> None:
        # 100 ms of compute, of which 60 or by default 66.67 are the backward pass.
        constant = {"kind": "constant", "value": 0.1}
        said = {"compute": constant, "backward_share": 0.6}
        trace = self.trace(strategy={"overlap": True}, cluster=said)
        assert trace.steps[0] == 105 * MS
        # Ready at 33.3 + 11.1 = 44.4, so 44.4 - 74.4; 66.7 - 84.4; 100 - 105.
        slower = reduced(
            0.04,
            list(self.BACKWARD),
            [5e6, 10e6, 40e6],
            strategy={"overlap": True},
            cluster={"compute": constant},
        )
        assert slower.steps[0] == 105 * MS
        most = reduced(
            0.04,
            list(self.BACKWARD),
            [5e6, 10e6, 60e6],
            strategy={"overlap": True},
            cluster={"compute": constant},
        )
        # 44.4 + 60 + 10 + 5, the rounding of 1/3 of a step to whole ns.
        assert most.steps[0] == round((100 / 3 + 100 / 9 + 75) * MS)

    @pytest.mark.parametrize("factor", [1.0, 1.0 + 1e-9])  # the other one goes by message
    def test_computing_slows_what_is_reduced_meanwhile(self, factor: float) -> None:
        # At half their pace until 100: of 30 ms, 25 are done by then; 105, 115, 120.
        # Worker 1 slow: from 100 to 160; 160 to 180; 200 to 205, at the usual pace again.
        network = {**WIRE, "slow_links": ({"rank": 1, "factor": factor},)}
        half = {"strategy": {"overlap": True}, "network": network}
        trace = self.trace(**half, cluster={"overlap_pace": 0.5})
        assert [time / MS for time in trace.steps.tolist()] == pytest.approx([120, 240, 360])
        late = self.trace(**half, cluster={"overlap_pace": 0.5, "slow_workers": (slow(1, 2.0),)})
        assert late.steps[0] / MS == pytest.approx(205)
        assert life(late, 0)[1] == ("write", 100, pytest.approx(180))

    def test_updating_a_copy_takes_its_time(self) -> None:
        for overlap in (False, True):
            trace = self.trace(strategy={"overlap": overlap}, cluster={"optimizer_time": 0.007})
            end = 105 if overlap else 145
            assert trace.steps[0] == (end + 7) * MS
            assert life(trace, 0)[2] == ("compute", end, end + 7)

    def test_a_slow_worker_updates_slowly(self) -> None:
        trace = self.trace(cluster={"optimizer_time": 0.007, "slow_workers": (slow(1, 2.0),)})
        assert trace.steps[0] == (200 + 45 + 14) * MS
        assert life(trace, 0)[3] == ("compute", 245, 252)

    def test_unequal_links_are_taken_message_by_message(self) -> None:
        # Worker 1 has half the bandwidth: 60, 20 and 10 ms: 50 - 110, 110 - 130, 130 - 140.
        slow_link = {**WIRE, "slow_links": (slow(1, 2.0),)}
        trace = self.trace(strategy={"overlap": True}, network=slow_link)
        assert [time / MS for time in trace.steps.tolist()] == [140, 280, 420]

    def test_a_first_iteration_that_begins_later(self) -> None:
        later = {"overheads": {"first_iteration": 0.02}}
        trace = self.trace(strategy={"overlap": True}, cluster=later)
        assert [time / MS for time in trace.steps.tolist()] == [125, 230, 335]

    def test_one_worker_reduces_nothing(self) -> None:
        trace = self.trace(strategy={"overlap": True}, cluster={"workers": 1})
        assert [time / MS for time in trace.steps.tolist()] == [100, 200, 300]


def test_others_update_their_own_copies_too() -> None:
    for strategy in ("single", "on_read"):
        trace = run(strategy, cluster={"optimizer_time": 0.007})
        assert [time / MS for time in trace.steps.tolist()] == [107, 214, 321]


# closed_forms.json, overlap-wfbp and overlap-uniform: forward, backward, exchange; expected.
CLOSED_FORMS = [
    (0.05, [0.01] * 8, [0.005] * 8, 0.135),
    (0.05, [0.01] * 8, [0.02] * 8, 0.22),
    (0.04, [0.03, 0.02, 0.02, 0.01], [0.001, 0.004, 0.01, 0.08], 0.145),
    (0.03, [0.02, 0.01, 0.01, 0.005, 0.002], [0.0002, 0.001, 0.003, 0.01, 0.04], 0.0862),
    (0.1, [0.01] * 20, [0.01] * 20, 0.31),
]


@pytest.mark.parametrize(("forward", "backward", "exchange", "expected"), CLOSED_FORMS)
def test_wait_free_back_propagation(
    forward: float, backward: list[float], exchange: list[float], expected: float
) -> None:
    assert wait_free(forward, backward, exchange) == pytest.approx(expected, rel=1e-12)
    trace = reduced(forward, backward, [1e9 * tc for tc in exchange], strategy={"overlap": True})
    assert trace.steps[0] == round(expected * 1e9)
    after = reduced(forward, backward, [1e9 * tc for tc in exchange])
    assert after.steps[0] == round((forward + sum(backward) + sum(exchange)) * 1e9)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 100),
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 80)), min_size=2, max_size=8),
)
def test_wait_free_anywhere(forward: int, steps: list[tuple[int, int]]) -> None:
    backward, exchange = [tb / 1e3 for tb, _ in steps], [tc / 1e3 for _, tc in steps]
    trace = reduced(
        forward / 1e3,
        backward,
        [1e9 * tc for tc in exchange],
        strategy={"overlap": True},
        stop={"global_steps": 1},
    )
    assert trace.steps[0] == round(wait_free(forward / 1e3, backward, exchange) * 1e9)


class TestSeveralVectors:
    """Rounds of unequal vectors: message by message as by recurrence."""

    @pytest.mark.parametrize("choice", ALGORITHMS, ids=lambda choice: choice.collective)
    def test_both_ways_give_the_same_times(self, choice: Choice) -> None:
        source = random.Random(7)
        ranks, sizes = 6, [9e3, 300.0, 60e3, 1.0]
        waits = [
            [source.randrange(spread) for _ in range(ranks)]
            for spread in (1, 50_000, 1_000_000, 10) * 3
        ]
        seen = []
        for by_message in (False, True):
            made = job(
                network={"bandwidth": 1e9, "latency": 5e-6, "sharing": "first_come"},
                cluster={"workers": ranks},
            )
            vectors = [Vector(choice.schedule(ranks, size), size) for size in sizes]
            collective = Collective(made, *vectors[0], by_message=by_message, more=vectors[1:])
            seen.append(ends(made, collective, waits))
        assert seen[0] == seen[1]

    def test_each_round_takes_what_its_vector_takes(self) -> None:
        made = job(network=WIRE, cluster={"workers": 2})
        sizes = [3e6, 1e6, 2e6]
        schedule = Choice().schedule(2, 1.0)
        collective = Collective(
            made, schedule, sizes[0], more=[Vector(schedule, s) for s in sizes[1:]]
        )
        done = ends(made, collective, [[0, 0]] * 6)
        assert [row[0] / MS for row in done] == [3, 4, 6, 9, 10, 12]


def ends(made: Any, collective: Collective, rounds: list[list[int]]) -> list[list[int]]:
    """When each rank is done with each round; rounds[i][r]: its wait after the one before."""
    done = [[0] * len(made.workers) for _ in rounds]

    def take_part(worker: Any) -> Any:
        for index, waits in enumerate(rounds):
            moment = made.clock.time + waits[worker.rank]
            yield from at(made, worker, moment, lambda: collective.take_part(worker))
            done[index][worker.rank] = made.clock.time

    play(made, *(take_part(worker) for worker in made.workers))
    return done


class TestValues:
    CHANGES: Case = {
        "problem": {"kind": "digits", "model": "softmax"},
        "workload": {"model": "resnet50", "batch_size": 8},
        "network": {"bandwidth": 1e9, "latency": 1e-5, "sharing": "fair"},
        "cluster": {"workers": 4, "compute": {"kind": "exponential", "mean": 0.1}},
        "stop": {"global_steps": 5},
    }
    SETTINGS: tuple[Case, ...] = (
        {"bucket_size": 5e6},
        {"bucketing": "bytes_per_pack", "bucket_size": 5e6},
        {"bucketing": "layers"},
        {"overlap": True},
        {"overlap": True, "bucketing": "layers"},
    )

    @pytest.mark.parametrize("choice", SETTINGS, ids=str)
    def test_buckets_change_no_value(self, choice: Case) -> None:
        plain = run("on_write", **self.CHANGES)
        bucketed = run({"kind": "on_write", **choice}, **self.CHANGES)

        assert losses(bucketed) == losses(plain)
        assert bucketed.steps.tolist() != plain.steps.tolist()

    def test_all_bytes_go_over_the_links(self) -> None:
        plain = run("on_write", **self.CHANGES)
        for choice in self.SETTINGS:
            bucketed = run({"kind": "on_write", **choice}, **self.CHANGES)
            for one, other in zip(plain.links, bucketed.links, strict=True):
                assert other.moved == pytest.approx(one.moved)

    def test_overlap_never_takes_longer(self) -> None:
        for collective in ("ring", "binomial_tree", "halving_doubling"):
            times = [
                run(
                    {"kind": "on_write", "collective": collective, "bucket_size": 5e6, **more},
                    **self.CHANGES,
                ).end
                for more in ({}, {"overlap": True})
            ]
            assert times[1] < times[0]


class TestOverheads:
    def test_they_are_those_of_every_bucket(self) -> None:
        # Two ranks: 4 messages of 1 ms in each of 3 all-reduces of 5, 10 and 30 ms.
        trace = reduced(
            0.04,
            [0.03, 0.02, 0.01],
            [5e6, 10e6, 30e6],
            cluster={"overheads": {"message": 0.001}},
        )
        assert trace.steps[0] == (100 + 45 + 3 * 4) * MS


class TestDeaths:
    """Three layers of 10, 10 and 30 ms after 100 ms of compute: 100 - 130, - 140, - 150."""

    def trace(self, *events: Case, **cluster: Any) -> Trace:
        return reduced(
            0.04,
            [0.03, 0.02, 0.01],
            [10e6, 10e6, 30e6],
            events=events,
            stop={"global_steps": 2},
            cluster=cluster,
        )

    def test_what_is_reduced_stays_reduced(self) -> None:
        # Worker 1 dies in the second bucket and is back at 200; the model, 50 MB, comes until 250.
        # Then the second bucket is sent once more, 250 - 260, and the third, 260 - 270.
        trace = self.trace(kill(0.135, 1), restart(0.2, 1))
        assert [time / MS for time in trace.steps.tolist()] == [270, 270 + 150]
        assert life(trace, 1)[:5] == [
            ("compute", 0, 100),
            ("write", 100, 135),
            ("down", 135, 200),
            ("read", 200, 250),
            ("write", 250, 270),
        ]

    def test_one_that_dies_computing_has_all_buckets_before_it(self) -> None:
        # Back at 80, the model until 130, 100 ms of compute, 50 ms of buckets.
        trace = self.trace(kill(0.05, 1), restart(0.08, 1))
        assert [time / MS for time in trace.steps.tolist()] == [280, 430]

    def test_one_that_dies_updating_updates_again(self) -> None:
        # The update takes 20 ms from 150 on; back at 200, the model until 250, the update again.
        trace = self.trace(kill(0.16, 1), restart(0.2, 1), optimizer_time=0.02)
        assert trace.steps[0] == 270 * MS
        assert life(trace, 1)[3:6] == [
            ("down", 160, 200),
            ("read", 200, 250),
            ("compute", 250, 270),
        ]


def test_the_time_of_a_worker_is_told_without_gaps() -> None:
    trace = run(
        {"kind": "on_write", "overlap": True, "bucket_size": 1e6},
        problem={"kind": "timing"},
        workload={"optimizer": None, "model": "resnet50"},
        network={"bandwidth": 1e9, "latency": 1e-5, "sharing": "fair"},
        cluster={"workers": 4, "compute": {"kind": "exponential", "mean": 0.1}},
        stop={"global_steps": 20},
    )
    computed = sum(row.computed - row.compute_start for row in gradient_rows(trace))
    # What the next gradients of fast workers had begun by the end comes on top.
    assert computed <= phase_time(trace, Phase.COMPUTE) < 1.1 * computed
    assert sum(phase_time(trace, phase) for phase in Phase) == 4 * trace.end
