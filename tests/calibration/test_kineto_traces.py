"""Traces of PyTorch's profiler: steps, communication beside and alone, collectives, phases.

The fixtures are four steps of two ranks. Of 93 ms (93.5 ms on rank 1) 30 ms are kernels of the
forward pass, 50 ms of the backward pass, 5 ms of the optimizer; an all-reduce of 4 MB runs beside
the backward pass, one of 1 MB alone: 6 ms on rank 0, 5 ms on rank 1, which comes 1 ms late.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from varsim.calibration.forms import combine_ranks
from varsim.calibration.kineto import (
    KinetoTrace as Trace,
)
from varsim.calibration.kineto import (
    clipped,
    length,
    looks_like_kineto,
    read_kineto,
    union,
    without,
)
from varsim.calibration.measurement import UnreadableError
from varsim.cluster.description.cluster import Cluster

DATA = Path(__file__).parent.parent / "data" / "calibration"


def loaded(rank: int) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((DATA / f"kineto_rank{rank}.json").read_text())
    return data


def trace(rank: int) -> Trace:
    return read_kineto(loaded(rank), f"rank{rank}.json")


def step(number: int, start: float, duration: float, **changes: Any) -> dict[str, Any]:
    return {
        **{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}"},
        **{"ts": start, "dur": duration, "pid": 1, "tid": 1},
        **changes,
    }


def kernel(name: str, start: float, duration: float, **values: Any) -> dict[str, Any]:
    return {
        **{"ph": "X", "cat": "kernel", "name": name, "ts": start, "dur": duration},
        **{"pid": 0, "tid": 7, "args": values},
    }


class TestSteps:
    def test_communication_beside_and_alone(self) -> None:
        steps = trace(0).steps

        assert [one.number for one in steps] == [3, 4, 5, 6]
        for one in steps:
            assert one.whole == pytest.approx(0.093)
            assert one.computing == pytest.approx(0.085)
            assert one.communicating == pytest.approx(0.026)
            assert one.exposed == pytest.approx(0.006)

    def test_compute_is_the_step_without_communication_alone(self) -> None:
        found = combine_ranks([trace(1), trace(0)]).steps

        assert found.rows == {0: pytest.approx([0.087] * 4), 1: pytest.approx([0.0885] * 4)}
        assert found.source == "rank1.json, rank0.json"

    def test_shares_of_the_phases_are_those_of_the_kernels(self) -> None:
        assert trace(0).phases == pytest.approx((4 * 0.03, 4 * 0.05, 4 * 0.005))
        notes = "\n".join(combine_ranks([trace(0)]).notes)
        assert "forward 35.3 %, backward 58.8 %, optimizer 5.9 %" in notes
        assert "where gradients are sent meanwhile: backward_share: 0.588" in notes
        assert "backward_share" in Cluster.model_fields

    def test_a_trace_of_the_cpu_alone(self) -> None:
        events = [
            step(1, 0, 100_000),
            step(1, 50, 90_000, cat="gpu_user_annotation"),
            {**step(0, 20_000, 60_000), "name": "autograd::engine::evaluate_function: Mul"},
            {**step(0, 85_000, 10_000), "name": "Optimizer.step#Adam.step"},
        ]
        found = read_kineto({"traceEvents": events}, "t.json")
        notes = combine_ranks([found]).notes

        assert found.phases == pytest.approx((0.03, 0.06, 0.01))
        assert combine_ranks([found]).steps.rows == {0: pytest.approx([0.1])}
        assert "  no kernels of a GPU, no collectives of gloo: compute is the whole step" in notes

    def test_times_may_be_text(self) -> None:
        found = read_kineto({"traceEvents": [step(1, "0.5", "2e3")]}, "t.json")  # type: ignore[arg-type]

        assert found.steps[0].whole == pytest.approx(2e-3)


class TestCollectives:
    def test_sizes_and_times(self) -> None:
        found = [(one.name, one.size, one.ranks) for one in trace(0).collectives]

        # What was sent stands with the kernel itself, or with record_param_comms.
        assert found == [("all_reduce", 4e6, 2), ("all_reduce", 1e6, 2)] * 4
        assert [one.seconds for one in trace(0).collectives[:2]] == pytest.approx([0.02, 0.006])

    def test_the_rank_that_came_last_tells_how_long_it_takes(self) -> None:
        (table,) = combine_ranks([trace(0), trace(1)]).transfers

        assert [one.size for one in table.transfers] == [1e6, 4e6]
        assert [one.seconds for one in table.transfers] == pytest.approx([0.005, 0.016])
        assert table.notes == ("8 collectives seen; of each size the median",)

    def test_one_rank_of_two_says_that_it_may_have_waited(self) -> None:
        (table,) = combine_ranks([trace(0)]).transfers

        assert [one.seconds for one in table.transfers] == pytest.approx([0.006, 0.02])
        assert "waiting for late ranks" in table.notes[1]

    @pytest.mark.parametrize(
        ("name", "dtype", "values", "expected"),
        [
            ("_allgather_base", "BFloat16", {"Out msg nelems": 800}, ("all_gather", 1600.0)),
            ("_reduce_scatter_base", "Half", {"In msg nelems": 800}, ("reduce_scatter", 1600.0)),
            ("broadcast", "Double", {"In msg nelems": 10}, ("broadcast", 80.0)),
            ("all_to_allv", "torch.float32", {"In msg nelems": 10}, ("alltoall", 40.0)),
            ("send", "Byte", {"In msg nelems": 10}, ("sendrecv", 10.0)),
        ],
    )
    def test_names_of_torch(
        self, name: str, dtype: str, values: dict[str, int], expected: tuple[str, float]
    ) -> None:
        shown = {"Collective name": name, "dtype": dtype, "Group size": 4, **values}
        events = [step(1, 0, 100), kernel("ncclKernel_AllGather_RING_LL", 10, 20, **shown)]
        (found,) = read_kineto({"traceEvents": events}, "t.json").collectives

        assert (found.name, found.size) == expected
        assert found.seconds == pytest.approx(20e-6)

    def test_unknown_sizes_are_counted(self) -> None:
        events = [
            step(1, 0, 100),
            kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10, 20),
            kernel("ncclDevKernel_SendRecv", 40, 20, **{"Collective name": "barrier"}),
        ]
        found = read_kineto({"traceEvents": events}, "t.json")

        assert (found.collectives, found.unknown) == ((), 2)
        assert found.steps[0].exposed == pytest.approx(40e-6)
        assert any("2 kernels of NCCL" in note for note in combine_ranks([found]).notes)


class TestRefusals:
    def test_a_rank_twice(self) -> None:
        with pytest.raises(UnreadableError, match=r"rank0\.json: rank 0 again \(rank0\.json has"):
            combine_ranks([trace(0), trace(0)])

    def test_a_step_without_computation(self) -> None:
        events = [step(1, 0, 100), kernel("ncclDevKernel_AllReduce", 0, 100)]

        with pytest.raises(UnreadableError, match=r"t\.json: a step in which nothing is computed"):
            combine_ranks([read_kineto({"traceEvents": events}, "t.json")])

    def test_other_json(self) -> None:
        assert not looks_like_kineto([1, 2])
        assert not looks_like_kineto({"traceEvents": 3})


def test_intervals() -> None:
    joined = union([(5, 7), (0, 2), (1, 3), (3, 4)])

    assert joined == [(0, 4), (5, 7)]
    assert length(joined) == 6
    assert clipped(joined, 1, 6) == [(1, 4), (5, 6)]
    assert without(joined, [(3, 6), (6.5, 9)]) == [(0, 3), (6, 6.5)]
    assert without([], joined) == []
