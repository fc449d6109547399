"""Creation of a variable: its options, their checks, and its initial value."""

from collections.abc import Callable
from dataclasses import dataclass

from varsim.distribute.tensor import Tensor, Values, array_of, kind_of
from varsim.values.optimizer import Optimizer
from varsim.values.refusal import RefusedValueError
from varsim.values.variable import Aggregation, Attributes, Synchronization


@dataclass(frozen=True, slots=True)
class VariableOptions:
    """Options of a new variable, unchecked; `trainable` None where it is not given."""

    synchronization: object = Synchronization.AUTO
    aggregation: object = Aggregation.NONE
    trainable: bool | None = None
    name: str = ""
    optimizer: Optimizer | None = None


def checked(options: VariableOptions) -> Attributes:
    """The attributes with the default of `trainable`: all but ON_READ variables are.

    ValueError for what is not a member of its enum; members may be given by name, as written
    (ops/variables.py, validate_synchronization_aggregation_trainable).
    """
    aggregation, synchronization = options.aggregation, options.synchronization
    if isinstance(aggregation, str):
        aggregation = Aggregation.__members__.get(aggregation)
    if not isinstance(aggregation, Aggregation):
        raise RefusedValueError(
            "invalid_aggregation",
            f"Invalid variable aggregation mode: {options.aggregation}; "
            f"use one of {', '.join(Aggregation.__members__)}",
        )
    if isinstance(synchronization, str):
        synchronization = Synchronization.__members__.get(synchronization)
    if not isinstance(synchronization, Synchronization):
        raise RefusedValueError(
            "invalid_synchronization",
            f"Invalid variable synchronization mode: {options.synchronization}; "
            f"use one of {', '.join(Synchronization.__members__)}",
        )
    trainable = options.trainable
    if trainable is None:
        trainable = synchronization is not Synchronization.ON_READ
    return Attributes(synchronization, aggregation, trainable, options.name)


def mirrored_attributes(attributes: Attributes) -> Attributes:
    """The mirrored family turns AUTO into ON_WRITE and refuses NONE (distribute_utils.py)."""
    if attributes.synchronization is Synchronization.NONE:
        raise RefusedValueError(
            "synchronization_none",
            "`NONE` variable synchronization mode is not supported with mirrored copies: use "
            "ON_READ for independent copies, or a strategy that keeps one copy",
        )
    if attributes.synchronization is Synchronization.AUTO:
        return attributes._replace(synchronization=Synchronization.ON_WRITE)
    return attributes


def check_mean(attributes: Attributes, value: Values) -> None:
    """The mirrored family refuses MEAN of anything but floats (values.DistributedVariable)."""
    if attributes.aggregation is Aggregation.MEAN and kind_of(value.dtype) != "f":
        raise RefusedValueError(
            "mean_of_non_float",
            f"creating distributed variables with aggregation=MEAN and a non-floating dtype is not "
            f"supported: {value.dtype}; use a float dtype, or SUM",
        )


def initial_value(initial: object) -> Values:
    """The array that a variable starts from; a function is called for it, once."""
    if isinstance(initial, Callable):  # type: ignore[arg-type]
        initial = initial()  # type: ignore[operator]
    if isinstance(initial, Tensor):
        return initial.array
    return array_of(initial)
