"""Layers of a model: when in the backward pass the gradient of each tensor is ready."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from pydantic import Field

from varsim.core import presets
from varsim.core.schema import Model
from varsim.core.units import Bytes


class Layer(Model):
    """One layer: `size`, the bytes of its parameters, which is one tensor, and its backward pass.

    `backward`: how long that takes in proportion to those of the other layers, a pure number.
    """

    name: str | None = None
    """Name of the layer."""
    backward: float = Field(ge=0, le=1e12)
    """Time of its backward pass, in proportion to the others'."""
    size: Bytes = Field(ge=1)
    """Bytes of its parameters."""


class LayerPart(NamedTuple):
    """Part of a model in forward order: its bytes, and the work of its backward pass."""

    size: int
    backward: float


# The name of a profile, `by_flops`, `by_bytes`, or the layers themselves.
Layers: TypeAlias = str | tuple[Layer, ...]


def check(layers: Layers, model: str | None) -> None:
    """Raise ValueError unless there is such a profile, or such layers."""
    if not isinstance(layers, str):
        if not layers:
            raise ValueError("layers: give at least one")
        if not any(layer.backward for layer in layers):
            raise ValueError("layers: the backward pass of one of them at least must be above 0")
        if model is not None:
            raise ValueError(
                f"layers: a list of layers says all sizes, and so does model {model}: leave one out"
            )
    elif layers == "by_flops":
        if model is None:
            raise ValueError("layers by_flops needs a model, which says how much work a tensor is")
    elif layers != "by_bytes":
        presets.layer_profile(layers)
        if model is None:
            raise ValueError(f"layers {layers} has no effect without a model, whose tensors it is")


def chosen(layers: Layers | None, model: str | None) -> Layers:
    """The layers, or their default: the model's profile, else by FLOPs or (no model) bytes."""
    if layers is not None:
        return layers
    if model is None:
        return "by_bytes"
    return model if model in presets.layer_profiles() else "by_flops"


def described(layers: Layers | None, model: str | None) -> str:
    """By what gradients are ready in a backward pass, in words."""
    layers = chosen(layers, model)
    if not isinstance(layers, str):
        return f"as its {len(layers)} layers say"
    plain = {"by_flops": "by the FLOPs of each tensor", "by_bytes": "by the bytes of each tensor"}
    return plain.get(layers) or f"as profiled of {layers} ({_number(layers)} layers)"


def _number(profile: str) -> int:
    return sum(layer.backward > 0 for layer in presets.layer_profile(profile))


def parts(layers: Layers | None, model: str | None, tensors: Sequence[int]) -> list[LayerPart]:
    """The model in parts, in forward order; `tensors`: their bytes.

    For the default see `chosen`.
    """
    layers = chosen(layers, model)
    if not isinstance(layers, str):
        return [LayerPart(round(layer.size), layer.backward) for layer in layers]
    if layers == "by_bytes":
        return [LayerPart(size, size) for size in tensors]
    if layers == "by_flops":
        assert model is not None
        return [LayerPart(*pair) for pair in zip(tensors, presets.tensor_flops(model), strict=True)]
    return [LayerPart(row.parameter_bytes, row.backward) for row in presets.layer_profile(layers)]


def ready_after(parts: Sequence[LayerPart], tensors: Sequence[int]) -> list[float]:
    """For every tensor the share of the backward pass after which its gradient is there.

    `tensors`: bytes in forward order. The parts lie along the model by bytes, in order, stretched
    to its size; the gradient of a tensor is there when the backward pass, which runs from the last
    part to the first, is through the one in which the tensor begins.
    """
    whole, work = sum(part.size for part in parts), sum(part.backward for part in parts)
    total = sum(tensors)
    ends = [end * total for end in accumulate(part.size for part in parts)]
    done = list(accumulate(part.backward for part in reversed(parts)))[::-1]
    starts = [end - size for end, size in zip(accumulate(tensors), tensors, strict=True)]
    return [min(1.0, done[bisect_right(ends, start * whole)] / work) for start in starts]
