"""DistributedVariable, the base of all variables: reads, writes, sparse updates, checkpoints.

And the options that one is created with, their checks, and its initial value.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from varsim.core.operation import (
    DEFAULT_DEVICE,
    DeviceId,
    InvalidArgumentError,
    Operation,
    RefusedNotImplementedError,
    RefusedValueError,
    Transfer,
    movement,
)
from varsim.distribute.attributes import Aggregation, Attributes, Synchronization, Variable
from varsim.distribute.container import (
    ContainerPart,
    Mirrored,
    Unread,
    Write,
    is_per_replica,
    select,
)
from varsim.distribute.context import DEFAULT_CONTEXT, Context, StrategyInterface
from varsim.distribute.tensor import Tensor, Values, array_of, convert, kind_of, shown
from varsim.learning.optimizer import Optimizer

ScatterMethod: TypeAlias = Literal["add", "sub", "mul", "div", "min", "max", "update"]

_UFUNCS: Final = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}
# The methods that a kind of dtype has.
_METHODS: Final = {"b": ("update",), "c": ("add", "sub", "mul", "div", "update")}


def scatter_rows(method: ScatterMethod, value: Values, indices: Values, rows: Values) -> Values:
    """A value with rows `indices` updated by rows of its dtype, one for each index, or a scalar.

    Integers are divided towards zero. InvalidArgumentError for what does not fit.
    """
    _check(method, value, indices, rows)
    new = value.copy()
    with np.errstate(all="ignore"):
        if method == "update":
            new[indices] = rows
        elif method == "div" and value.dtype.kind in "iu":
            if not rows.all():
                raise InvalidArgumentError(
                    "dtype_unsupported",
                    "integers cannot be divided by 0: give updates that do not contain it",
                )
            each = np.broadcast_to(rows, indices.shape + value.shape[1:])
            for index, row in zip(indices, each, strict=True):
                new[index] = np.trunc(new[index] / row)
        else:
            _UFUNCS[method].at(new, indices, rows)
    return new


def _check(method: ScatterMethod, value: Values, indices: Values, rows: Values) -> None:
    if method not in _METHODS.get(value.dtype.kind, (method,)):
        raise InvalidArgumentError(
            "dtype_unsupported",
            f"rows of {value.dtype} have no scatter_{method}: use scatter_update, or assign",
        )
    count = len(value) if value.ndim else 0
    if rows.shape not in ((), indices.shape + value.shape[1:]):
        raise InvalidArgumentError(
            "shape_mismatch",
            f"a sparse update of rows {indices.shape} of {value.shape} cannot have shape "
            f"{rows.shape}; give one row for each index",
        )
    if not all(0 <= index < count for index in indices.ravel().tolist()):
        raise InvalidArgumentError(
            "axis_range",
            f"indices {shown(indices)} are not all in [0, {count}): name rows that there are",
        )


class DistributedVariable(Variable, ABC):
    """Variable of a strategy (tf.distribute's DistributedVariable).

    Subclasses define writes in replica and cross-replica context, and reads in the latter. Inside
    `update` a write touches only the copy that is being updated.
    """

    def __init__(
        self,
        initial: Values,
        devices: tuple[DeviceId, ...] = (DEFAULT_DEVICE,),
        attributes: Attributes = Attributes(),  # noqa: B008 - immutable
        optimizer: Optimizer | None = None,
        strategy: StrategyInterface | None = None,
    ) -> None:
        super().__init__(initial, devices, attributes, optimizer)
        self.strategy = strategy
        self._last_write: tuple[Write, Values, Values, Values] | None = None

    def assign(self, context: Context, value: object) -> Operation[object]:
        """Set the variable; in a replica the values of all replicas are aggregated first.

        ValueError for another shape or dtype.
        """
        return (yield from self.update(context, "assign", value))

    def assign_add(self, context: Context, value: object) -> Operation[object]:
        """Add to the variable; otherwise as `assign` (another shape: InvalidArgumentError)."""
        return (yield from self.update(context, "assign_add", value))

    def assign_sub(self, context: Context, value: object) -> Operation[object]:
        """Subtract from the variable; otherwise as `assign_add`."""
        return (yield from self.update(context, "assign_sub", value))

    def update(self, context: Context, op: Write, value: object) -> Operation[object]:
        """Write in the given context; returns the new value as that context sees it."""
        context = self.enter(context)
        if context.updating is not None:
            return (yield from self.write_copy(self.local(context.updating), op, value))
        if context.replica is not None:
            return (yield from self.write_in_replica(context, op, value))
        return (yield from self.write_cross_replica(context, op, value))

    def read(self, context: Context) -> Operation[object]:
        """The value as this context sees it, a new tensor (read_value, value)."""
        context = self.enter(context)
        if context.updating is not None:
            return ContainerPart(self, self.local(context.updating)).tensor()
        if context.replica is not None:
            return (yield from self.read_copy(self.local(context.replica), context.device))
        return (yield from self.read_cross_replica(context))

    def as_tensor(self, context: Context) -> Operation[object]:
        """Conversion to a tensor: the same as `read`, but for variable_sync_on_read_context."""
        return (yield from self.read(context))

    def scatter(
        self, context: Context, method: ScatterMethod, indices: Values, values: object
    ) -> Operation[object]:
        """Sparse update `scatter_<method>`: rows `indices` of every copy with the rows of `values`.

        In a replica the sparse updates of all replicas are aggregated first.
        """
        self.check_scatter(method)
        context = self.enter(context)
        if context.updating is not None:
            copies = [self.local(context.updating)]
        elif context.replica is not None:
            return (yield from self.scatter_in_replica(context, method, indices, values))
        else:
            copies = list(range(len(self.values)))
        new = yield from self.scatter_copies(copies, method, indices, values)
        return self.group(new)

    def scatter_copies(
        self, copies: list[int], method: ScatterMethod, indices: Values, values: object
    ) -> Operation[list[Unread]]:
        """A sparse update of some copies."""
        values = yield from move_to_copies(
            "scatter", values, tuple(self.devices[i] for i in copies)
        )
        new = []
        for place, index in enumerate(copies):
            rows = convert(select(place, values), self.dtype)
            self.write(index, scatter_rows(method, self.values[index], indices, rows))
            new.append(Unread(self, index))
        return new

    def scatter_in_replica(
        self, context: Context, method: ScatterMethod, indices: Values, values: object
    ) -> Operation[object]:
        """A sparse update by one replica; of a variable with one copy, that copy."""
        return (yield from self.scatter_copies([0], method, indices, values))[0]

    def restore(self, value: Values) -> Operation[None]:
        """Set every copy to its part of a value from a checkpoint (see `check_restored`)."""
        self.check_restored(value)
        parts = self.parts(value)
        source = self.strategy.current if self.strategy else DEFAULT_DEVICE
        yield from movement(
            "restore",
            [
                Transfer(source, device, part.nbytes)
                for device, part in zip(self.devices, parts, strict=True)
            ],
        )
        for index, part in enumerate(parts):
            self.write(index, part)

    def parts(self, value: Values) -> list[Values]:
        """What each copy gets of a value for the whole variable."""
        return [self.share(value)] * len(self.values)

    def check_restored(self, value: Values) -> None:
        """ValueError for another shape than the variable's, InvalidArgumentError for a dtype."""
        if value.dtype != self.dtype:
            raise InvalidArgumentError(
                "dtype_mismatch",
                f"expected dtype {self.dtype} does not equal original dtype {value.dtype} of the "
                "checkpoint; make the variable as it was saved",
            )
        if value.shape != self.shape:
            raise RefusedValueError(
                "shape_mismatch",
                f"Shape mismatch: a checkpoint of shape {value.shape} cannot be restored into a "
                f"variable of shape {self.shape}; make the variable as it was saved",
            )

    @abstractmethod
    def write_in_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        """A write by one replica."""

    @abstractmethod
    def write_cross_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        """A write in cross-replica context."""

    @abstractmethod
    def read_cross_replica(self, context: Context) -> Operation[object]:
        """A read in cross-replica context."""

    def check_scatter(self, method: ScatterMethod) -> None:
        """NotImplementedError for what TensorFlow does not offer."""

    def enter(self, context: Context) -> Context:
        """The scope of the variable's strategy, entered from outside; RuntimeError in another."""
        return self.strategy.enter(context) if self.strategy else context

    def local(self, replica: int) -> int:
        """Which copy belongs to a replica."""
        return replica if self.replicated else 0

    def group(self, values: list[Unread]) -> object:
        """What a write of these copies returns."""
        return values[0]

    def write_copy(self, index: int, op: Write, value: object) -> Operation[Unread]:
        """Write one copy: of a container or variable its part, else the value as it is."""
        value = select(index, value) if is_per_replica(value) else value
        value = yield from move_to_copies(op, value, self.devices[index : index + 1])
        if isinstance(value, Variable):
            value = Tensor(value.value, value.devices[0])
        self.write(index, self._new(op, self.values[index], convert(value, self.dtype)))
        return Unread(self, index)

    def _new(self, op: Write, old: Values, value: Values) -> Values:
        """What a copy holds after a write; copies that do the same share the result."""
        last = self._last_write
        if last is None or last[0] != op or last[1] is not old or last[2] is not value:
            self._last_write = last = (op, old, value, _written(op, old, value))
        return last[3]

    def read_copy(self, index: int, device: DeviceId) -> Operation[Tensor]:
        """One copy, brought to the device where it is read."""
        tensor = ContainerPart(self, index).tensor()
        yield from movement("read", [Transfer(tensor.device, device, tensor.size)])
        return tensor


def check_shape(op: Write, shape: tuple[int, ...], value: tuple[int, ...]) -> None:
    """Shapes must be equal, nothing is broadcast: ValueError (assign), InvalidArgumentError."""
    if value == shape:
        return
    if op == "assign":
        raise RefusedValueError(
            "shape_mismatch",
            f"Shape mismatch: a variable of shape {shape} cannot hold {value}; reshape the value",
        )
    raise InvalidArgumentError(
        "shape_mismatch",
        f"shapes must be equal: {op} of {value} to {shape}; reshape or repeat the value, nothing "
        "is broadcast",
    )


def _written(op: Write, old: Values, value: Values) -> Values:
    check_shape(op, old.shape, value.shape)
    if op == "assign":
        return value
    if old.dtype.kind == "b":
        raise InvalidArgumentError(
            "dtype_unsupported", f"{op} of bool is not allowed: use assign, or an integer variable"
        )
    with np.errstate(all="ignore"):
        return np.asarray(old + value if op == "assign_add" else old - value)


def move_to_copies(what: str, value: object, devices: tuple[DeviceId, ...]) -> Operation[object]:
    """A value moved to the devices of the copies, in parallel; numbers are free.

    Returns it with a part on each device if there are several, else the value.
    """
    parts = [select(index, value) for index in range(len(devices))]
    parts = [part.tensor() if isinstance(part, ContainerPart) else part for part in parts]
    yield from movement(
        what,
        [
            Transfer(part.device, device, part.size)
            for part, device in zip(parts, devices, strict=True)
            if isinstance(part, Tensor)
        ],
    )
    moved = [
        part.on(device) if isinstance(part, Tensor) else part
        for part, device in zip(parts, devices, strict=True)
    ]
    return Mirrored(moved) if len(moved) > 1 else moved[0]


def refuse_scatter(why: str) -> RefusedNotImplementedError:
    """Error of a sparse update that TensorFlow does not offer."""
    return RefusedNotImplementedError("scatter_unsupported", why)


def save(
    variables: Mapping[str, DistributedVariable], context: Context = DEFAULT_CONTEXT
) -> Operation[dict[str, Values]]:
    """Checkpoint: each variable as read in cross-replica context (values_util.py, saveables).

    ValueError for ON_READ without aggregation. All workers have to take part.
    """
    saved = {}
    for name, variable in variables.items():
        value = yield from variable.read(context)
        assert isinstance(value, Tensor)
        saved[name] = value.array
    return saved


def restore(
    checkpoint: Mapping[str, Values], variables: Mapping[str, DistributedVariable]
) -> Operation[None]:
    """Restore the variables that a checkpoint names; a sum is divided among the copies.

    ValueError for another shape.
    """
    for name, variable in variables.items():
        if name in checkpoint:
            yield from variable.restore(checkpoint[name])


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
