"""Buckets: by hand, as PyTorch assigns them, as TensorFlow packs; nothing is lost."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.building import run

MIB = 2**20
# As what is said of torch's reads: of the last layer first.
TENSORS = (60, 20, 30, 40, 10)


def buckets(workload: dict[str, Any], **strategy: Any) -> list[int]:
    """The bytes of each bucket: two workers send so many ns, and compute for ages between."""
    trace = run(
        {"kind": "on_write", "overlap": True, **strategy},
        network={"bandwidth": 1e9, "latency": 0.0},
        cluster={"workers": 2, "compute": {"kind": "phases", "forward": 1.0, "backward": 1e4}},
        problem={"kind": "timing"},
        workload={"optimizer": None, **workload},
        stop={"global_steps": 1},
    )
    rows = trace.send_rows.array().tolist()
    found = [end - begin for worker, _, begin, end, step in rows if worker == step == 0]
    return found or [int(trace.steps[0]) - 10_001 * 10**9]  # one alone overlaps with nothing


def by_hand(*tensors: int, **strategy: Any) -> list[int]:
    """Of layers of so many kB, in kB."""
    layers = tuple({"backward": 1.0, "size": 1e3 * size} for size in tensors or TENSORS)
    kb = {key: 1e3 * one if key.endswith("size") else one for key, one in strategy.items()}
    return [size // 1000 for size in buckets({"layers": layers}, **kb)]


# What torch.distributed._compute_bucket_assignment_by_size (torch 2.13) makes of the parameters in
# reverse order, 1 MiB for the first bucket: the limit in MiB, the number of buckets, the bytes of
# the first, of the largest, of the last.
OF_TORCH = [
    ("resnet50", 25, 5, 8196000, 31502336, 9724160),
    ("resnet50", 5, 13, 8196000, 13651968, 1033472),
    ("resnet50", 100, 2, 8196000, 94032128, 94032128),
    ("vgg16", 25, 6, 16388000, 411058176, 2221312),
    ("vgg16", 100, 3, 16388000, 478183424, 58858752),
    ("alexnet", 25, 4, 16388000, 151011328, 9878784),
    ("alexnet", 5, 5, 16388000, 151011328, 3978496),
    ("mobilenet_v2", 25, 2, 5124000, 8895488, 8895488),
    ("mobilenet_v2", 5, 3, 5124000, 5440000, 3455488),
]


@pytest.mark.parametrize(("model", "limit", "number", "first", "largest", "last"), OF_TORCH)
def test_as_torch_assigns_them(
    model: str, limit: int, number: int, first: int, largest: int, last: int
) -> None:
    sizes = buckets({"model": model}, bucketing="ddp", bucket_size=limit * MIB)
    assert (len(sizes), sizes[0], max(sizes), sizes[-1]) == (number, first, largest, last)


@pytest.mark.parametrize(
    ("strategy", "sizes"),
    [
        # One is closed that reaches the limit.
        ({"bucketing": "ddp", "bucket_size": 50, "first_bucket_size": 10}, [10, 70, 80]),
        ({"bucketing": "ddp", "bucket_size": 50, "first_bucket_size": 11}, [50, 50, 60]),
        ({"bucketing": "ddp", "bucket_size": 71, "first_bucket_size": 10}, [10, 90, 60]),
        ({"bucketing": "ddp", "bucket_size": 1, "first_bucket_size": 1}, [10, 40, 30, 20, 60]),
        ({"bucketing": "ddp", "bucket_size": 1000, "first_bucket_size": 1000}, [160]),
        # Packs are closed once they exceed it: 50 is not more than 50, so that 30 still comes.
        ({"bucketing": "bytes_per_pack", "bucket_size": 50}, [80, 80]),
        ({"bucketing": "bytes_per_pack", "bucket_size": 49}, [50, 50, 60]),
        ({"bucketing": "layers"}, [10, 40, 30, 20, 60]),
        ({"bucketing": None}, [160]),
    ],
)
def test_by_hand(strategy: dict[str, Any], sizes: list[int]) -> None:
    assert by_hand(**strategy) == sizes


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 100), min_size=2, max_size=12),
    st.sampled_from(["ddp", "bytes_per_pack", "layers"]),
    st.integers(1, 200),
)
def test_every_tensor_is_in_one_bucket(tensors: list[int], rule: str, size: int) -> None:
    limit = {} if rule == "layers" else {"bucket_size": size}
    assert sum(by_hand(*tensors, bucketing=rule, **limit)) == sum(tensors)


def test_buckets_are_of_gradients_as_they_are_sent() -> None:
    half = buckets({"model": "resnet50", "gradient_precision": "fp16"}, bucketing="ddp")
    assert sum(half) == 2 * 25_557_032
    assert half[0] == 8196000 // 2


@pytest.mark.parametrize("sizes", [(1.0, 4000.0), (4000.0, 1.0)])
@pytest.mark.parametrize("kind", ["ring", "binomial_tree"])
def test_a_bucket_that_takes_no_time_to_be_added_goes_beside_others(
    kind: str, sizes: tuple[float, float]
) -> None:
    """A quarter of 1 B at 1 GB/s is rounded to 0 ns; message by message as by the recurrence."""
    layers = tuple({"backward": 1.0, "size": size} for size in sizes)
    strategy = {"kind": "on_write", "collective": kind, "bucketing": "layers"}
    changes: dict[str, Any] = {
        "cluster": {"workers": 4, "overheads": {"reduction": 1e9}},
        "network": {"kind": "star", "bandwidth": 1e6, "latency": 1e-3, "sharing": "first_come"},
        "workload": {"layers": layers},
    }
    without = run(strategy, **changes)
    changes["network"]["slow_links"] = ({"rank": 0, "factor": 1 + 1e-12},)
    one_by_one = run(strategy, **changes)

    assert one_by_one.steps.tolist() == without.steps.tolist()
    assert len(without.steps) == 3


class TestBlocks:
    """A transformer layer is a unit, as PyTorch's transformer_auto_wrap_policy makes them."""

    @pytest.mark.parametrize(
        ("model", "layers", "parameters"),
        [("llama2_7b", 32, 202_383_360), ("gpt2_xl", 48, 30_740_800)],
    )
    def test_of_transformers(self, model: str, layers: int, parameters: int) -> None:
        sizes = buckets({"model": model}, bucketing="blocks", sharding="gradients")
        # Half of an all-reduce of 4 bytes each to add them up, half to gather what is updated.
        assert sizes.count(2 * parameters) == 2 * layers

    @pytest.mark.parametrize("sharding", ["gradients", "parameters"])
    def test_they_are_the_default_of_shards(self, sharding: str) -> None:
        def moments(**settings: object) -> list[int]:
            trace = run(
                {"kind": "on_write", "overlap": True, "sharding": sharding, **settings},
                workload={"model": "gpt2_small", "optimizer": None},
                problem={"kind": "timing"},
                network={"bandwidth": 1e9, "latency": 1e-3},
                stop={"global_steps": 1},
            )
            return list(trace.steps)

        assert moments() == moments(bucketing="blocks") != moments(bucketing="ddp")

    def test_they_have_no_size(self) -> None:
        with pytest.raises(ValueError, match="bucketing blocks: it has a bucket for each block"):
            by_hand(bucketing="blocks", bucket_size=1, sharding="gradients")
