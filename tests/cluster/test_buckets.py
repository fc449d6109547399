"""Buckets: by hand, as PyTorch assigns them, as TensorFlow packs; nothing is lost."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.building import run
from varsim.cluster import collective
from varsim.cluster.buckets import Bucketing, Rule, check_settings, ready_buckets
from varsim.values import presets
from varsim.values.workload import Workload

MIB = 2**20

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
    tensors = [4 * size for size in presets.model(model).tensors]
    sizes = [bucket.size for bucket in Bucketing("ddp", limit * MIB, MIB).cut(tensors)]

    assert (len(sizes), sizes[0], max(sizes), sizes[-1]) == (number, first, largest, last)


class TestByHand:
    # In the order of the backward pass: 10, 40, 30, 20, 60.
    TENSORS = (60, 20, 30, 40, 10)

    def sizes(self, rule: Rule, size: float, first: float = 1.0) -> list[int]:
        return [bucket.size for bucket in Bucketing(rule, size, first).cut(self.TENSORS)]

    def test_ddp_closes_a_bucket_that_reaches_the_limit(self) -> None:
        assert self.sizes("ddp", 50, first=10) == [10, 40 + 30, 20 + 60]
        assert self.sizes("ddp", 50, first=11) == [10 + 40, 30 + 20, 60]
        assert self.sizes("ddp", 71, first=10) == [10, 40 + 30 + 20, 60]
        assert self.sizes("ddp", 1) == [10, 40, 30, 20, 60]
        assert self.sizes("ddp", 1000, first=1000) == [160]

    def test_packs_are_closed_once_they_exceed_the_limit(self) -> None:
        # 50 is not more than 50, so that 30 still comes to it.
        assert self.sizes("bytes_per_pack", 50) == [10 + 40 + 30, 20 + 60]
        assert self.sizes("bytes_per_pack", 49) == [10 + 40, 30 + 20, 60]

    def test_every_tensor_by_itself(self) -> None:
        assert self.sizes("layers", 50) == [10, 40, 30, 20, 60]

    def test_blocks_are_those_that_are_said(self) -> None:
        buckets = Bucketing("blocks").cut(self.TENSORS, [1, 3, 1])
        assert buckets == [((4,), 10), ((3, 2, 1), 40 + 30 + 20), ((0,), 60)]

    def test_tensors_are_told_by_their_place_in_the_model(self) -> None:
        buckets = Bucketing("ddp", 50, 10).cut(self.TENSORS)
        assert [bucket.tensors for bucket in buckets] == [(4,), (3, 2), (1, 0)]


@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=30),
    st.sampled_from(["ddp", "bytes_per_pack", "layers"]),
    st.integers(1, 200),
    st.integers(1, 200),
)
def test_every_tensor_is_in_one_bucket(
    tensors: list[int], rule: Rule, size: int, first: int
) -> None:
    buckets = Bucketing(rule, size, first).cut(tensors)

    assert [index for bucket in buckets for index in bucket.tensors] == list(
        reversed(range(len(tensors)))
    )
    for bucket in buckets:
        assert bucket.size == sum(tensors[index] for index in bucket.tensors)


class TestReadyBuckets:
    LAYERS = (
        {"backward": 2.0, "size": 60.0},
        {"backward": 1.0, "size": 30.0},
        {"backward": 1.0, "size": 10.0},
    )

    def workload(self, **settings: object) -> Workload:
        return Workload.model_validate(
            {"problem": {"kind": "timing"}, "layers": self.LAYERS, **settings}
        )

    def test_a_bucket_is_ready_with_the_last_of_its_tensors(self) -> None:
        made = ready_buckets(self.workload(), Bucketing("ddp", 40, 40))
        assert made == [(10 + 30, 0.5), (60, 1.0)]

    def test_without_buckets_all_is_ready_at_the_end(self) -> None:
        assert ready_buckets(self.workload(), None) == [(100, 1.0)]

    def test_buckets_are_of_gradients_as_they_are_sent(self) -> None:
        model = Workload.model_validate(
            {"problem": {"kind": "timing"}, "model": "resnet50", "gradient_precision": "fp16"}
        )
        sizes = [bucket.size for bucket in ready_buckets(model, Bucketing())]
        assert sum(sizes) == 2 * presets.model("resnet50").parameters
        assert sizes[0] == 8196000 // 2


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
    with patch.object(collective, "needs_messages", lambda *_: True):
        one_by_one = run(strategy, **changes)

    assert one_by_one.steps.tolist() == without.steps.tolist()
    assert len(without.steps) == 3


class TestBlocks:
    """A transformer layer is a unit, as PyTorch's transformer_auto_wrap_policy makes them."""

    @pytest.mark.parametrize(
        ("model", "layers", "tensors", "parameters"),
        [("llama2_7b", 32, 9, 202_383_360), ("gpt2_xl", 48, 12, 30_740_800)],
    )
    def test_of_transformers(self, model: str, layers: int, tensors: int, parameters: int) -> None:
        profile = presets.model(model)
        before, *inside, after = profile.blocks
        assert inside == [tensors] * layers
        assert before + sum(inside) + after == len(profile.tensors)
        assert sum(profile.tensors[before : before + tensors]) == parameters

    def test_of_layers_without_numbers(self) -> None:
        # Embedding, two layers of an LSTM with four tensors each, decoder.
        assert presets.model("lstm_lm_1500").blocks == (1, 4, 4, 2)

    def test_without_a_model_each_layer_is_one(self) -> None:
        workload = TestReadyBuckets().workload()
        assert [one.size for one in ready_buckets(workload, Bucketing("blocks"))] == [10, 30, 60]

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
        with pytest.raises(ValueError, match="bucketing blocks has a bucket for each block"):
            check_settings("blocks", 1e6, None)
