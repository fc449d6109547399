"""Layers: when gradients are ready, by hand; profiles and FLOPs against the tables of models."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from varsim.core import presets
from varsim.learning.layers import LayerPart as Part
from varsim.learning.layers import chosen, parts, ready_after


class TestByHand:
    def test_the_last_layer_is_ready_first(self) -> None:
        # A backward pass of 5 + 3 + 2: the third is ready after 2, the second after 5.
        layers = [Part(10, 5.0), Part(10, 3.0), Part(10, 2.0)]
        assert ready_after(layers, [10, 10, 10]) == [1.0, 0.5, 0.2]

    def test_tensors_of_one_layer_are_ready_together(self) -> None:
        layers = [Part(10, 1.0), Part(20, 3.0)]
        assert ready_after(layers, [10, 5, 15]) == [1.0, 0.75, 0.75]

    def test_a_tensor_of_several_layers_waits_for_the_first_of_them(self) -> None:
        assert ready_after([Part(10, 1.0), Part(10, 2.0), Part(10, 1.0)], [20, 10]) == [1.0, 0.25]

    def test_a_layer_without_parameters_comes_before_those_in_front_of_it(self) -> None:
        layers = [Part(10, 2.0), Part(0, 5.0), Part(10, 3.0)]
        assert ready_after(layers, [10, 10]) == [1.0, 0.3]

    def test_what_lies_before_the_first_tensor_is_not_waited_for(self) -> None:
        assert ready_after([Part(0, 5.0), Part(10, 5.0)], [10]) == [0.5]

    def test_layers_are_stretched_to_the_size_of_the_model(self) -> None:
        # Of 30 bytes the second half begins at 15: within the second of three equal layers.
        assert ready_after([Part(10, 1.0)] * 3, [100, 100]) == [1.0, 2 / 3]


sizes = st.lists(st.tuples(st.integers(0, 50), st.floats(0, 10)), min_size=1, max_size=12).filter(
    lambda layers: sum(s for s, _ in layers) > 0 and sum(b for _, b in layers) > 1e-3
)


@given(sizes, st.lists(st.integers(1, 50), min_size=1, max_size=12))
def test_readiness_rises_towards_the_front(
    layers: list[tuple[int, float]], tensors: list[int]
) -> None:
    ready = ready_after([Part(*layer) for layer in layers], tensors)

    assert all(0 <= share <= 1 for share in ready)
    assert all(one >= other for one, other in pairwise(ready))


class TestFlops:
    @pytest.mark.parametrize("model", presets.models())
    def test_they_add_up_to_those_of_the_model(self, model: str) -> None:
        profile = presets.model(model)
        flops = presets.tensor_flops(model)

        assert len(flops) == len(profile.tensors)
        assert 3 * sum(flops) == profile.train_flops_per_example

    def test_a_kernel_is_used_at_every_position(self) -> None:
        # The first convolution of ResNet-50: 64 x 3 x 7 x 7 at 112 x 112 positions.
        assert presets.tensor_flops("resnet50")[0] == 2 * 64 * 3 * 7 * 7 * 112 * 112


class TestProfiles:
    @pytest.mark.parametrize("name", ["alexnet", "vgg16", "resnet50"])
    def test_a_profile_has_the_bytes_of_its_model(self, name: str) -> None:
        layers = presets.layer_profile(name)
        assert sum(layer.parameter_bytes for layer in layers) == 4 * presets.model(name).parameters

    def test_tensors_of_a_profiled_layer_are_ready_together(self) -> None:
        tensors = [4 * size for size in presets.model("vgg16").tensors]
        ready = ready_after(parts(None, "vgg16", tensors), tensors)
        # Weights and biases of 16 layers.
        assert ready[0::2] == ready[1::2]
        assert len(set(ready)) == 16

    def test_relative_times_are_those_of_the_profile(self) -> None:
        tensors = [4 * size for size in presets.model("alexnet").tensors]
        ready = ready_after(parts("alexnet", "alexnet", tensors), tensors)
        whole = sum(layer.backward for layer in presets.layer_profile("alexnet"))
        assert ready[-1] == pytest.approx(0.474 / whole)  # the last layer

    def test_the_default(self) -> None:
        assert chosen(None, "resnet50") == "resnet50"
        assert chosen(None, "bert_base") == "by_flops"
        assert chosen(None, None) == "by_bytes"
        assert chosen("by_bytes", "resnet50") == "by_bytes"
