"""All-reduces in buckets, against closed forms; by hand: see `by_hand/overlap.yaml`."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.building import MS, gradient_rows, losses, phase_time, run, slow
from tests.cluster.test_collectives import CHOICES, strategy
from tests.seams import Phase, Trace

Case = dict[str, Any]

# Two workers in a ring: n bytes take n ns on 1 GB/s, without a latency.
WIRE = {"bandwidth": 1e9, "latency": 0.0, "sharing": "first_come"}


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


BACKWARD, SIZES = [0.03, 0.02, 0.01], [5e6, 10e6, 30e6]


def test_what_is_sent_of_a_gradient_is_told() -> None:
    trace = reduced(0.04, BACKWARD, SIZES, strategy={"overlap": True})
    first = [row for row in trace.send_rows.array().tolist() if row[0] == row[4] == 0]
    assert first == [
        [0, Phase.WRITE, begin * MS, end * MS, 0] for begin, end in ((50, 80), (80, 90), (100, 105))
    ]


def test_by_default_two_thirds_of_a_step_are_the_backward_pass() -> None:
    # Ready at 33.3 + 11.1 = 44.4: 60 ms, then 10 and 5, the rounding of 1/3 of a step to whole ns.
    constant = {"compute": {"kind": "constant", "value": 0.1}}
    sizes = [5e6, 10e6, 60e6]
    trace = reduced(0.04, BACKWARD, sizes, strategy={"overlap": True}, cluster=constant)
    assert trace.steps[0] == round((100 / 3 + 100 / 9 + 75) * MS)


@pytest.mark.parametrize("more", [{}, {"overlap_pace": 0.5}])
@pytest.mark.parametrize("name", CHOICES)
def test_buckets_by_message_as_by_rounds(name: str, more: Case) -> None:
    segments = {"segment_size": 48e3} if name == "double_binary_tree" else {}

    def steps(factor: float) -> list[int]:
        cluster = {"workers": 6, "slow_workers": (slow(1, 1.3), slow(4, 1.1))}
        trace = reduced(
            0.04,
            [0.001, 0.002, 0.001],
            [48e6, 96e3, 960e3],
            strategy={**strategy(name, **segments), "bucketing": "layers", "overlap": True},
            network={**WIRE, "latency": 5e-6, "slow_links": (slow(2, factor),)},
            cluster={**cluster, **more},
        )
        return list(trace.steps.tolist())

    assert steps(1.0) == pytest.approx(steps(1 + 1e-12), abs=3)


def wait_free(forward: float, backward: list[float], exchange: list[float]) -> float:
    """b_l = b_{l+1} + tb_l, c_l = max(c_{l+1}, b_l) + tc_l (Shi et al., 2018)."""
    ready = done = forward
    for tb, tc in zip(reversed(backward), reversed(exchange), strict=True):
        ready += tb
        done = max(done, ready) + tc
    return done


def test_others_update_their_own_copies_too() -> None:
    for kind in ("single", "on_read"):
        trace = run(kind, cluster={"optimizer_time": 0.007})
        assert [time / MS for time in trace.steps.tolist()] == [107, 214, 321]


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
