"""A scenario in slow motion: every time so many times as long, every rate as much lower."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

from pydantic import BaseModel

from varsim.cluster.network.topology import Rate
from varsim.units import DIMENSIONS
from varsim.values import presets
from varsim.values.measured_times import MeasuredTimes

M = TypeVar("M", bound=BaseModel)

_RATES: Final = (DIMENSIONS["rate"], DIMENSIONS["flops"])


def stretched(model: M, factor: float) -> M:
    """The same, `factor` times as slow; exact where `factor` is a power of two.

    Goes by the units of the fields, so whatever has a time or a rate is stretched. Of a device the
    law has to stand there instead.
    """
    changes: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        units = [*field.metadata, *_metadata(field.annotation)]
        if isinstance(value, int | float) and not isinstance(value, bool):
            if DIMENSIONS["time"] in units:
                changes[name] = value * factor
            elif any(unit in _RATES for unit in units):
                changes[name] = value / factor
        else:
            changes[name] = _inside(value, factor)
    changes |= _of_a_preset(model, factor)
    if isinstance(model, MeasuredTimes):
        changes["seconds"] = tuple(tuple(value * factor for value in row) for row in model.seconds)
    return model.model_copy(update=changes)


def _inside(value: object, factor: float) -> object:
    if isinstance(value, BaseModel):
        return stretched(value, factor)
    if isinstance(value, tuple):
        return tuple(_inside(part, factor) for part in value)
    return value


def _of_a_preset(model: BaseModel, factor: float) -> dict[str, Any]:
    """What a preset says, said in numbers."""
    if getattr(model, "preset", None) is None:
        return {}
    assert isinstance(model, Rate)
    assert model.preset is not None
    rate = presets.link(model.preset).bandwidth
    return {"preset": None, "bandwidth": rate / factor, "latency": model.delay * factor}


def _metadata(annotation: object) -> Iterator[object]:
    """What is annotated anywhere in a type, as in `Seconds | None`."""
    if get_origin(annotation) is Annotated:
        yield from annotation.__metadata__  # type: ignore[attr-defined]
    for part in get_args(annotation):
        yield from _metadata(part)
