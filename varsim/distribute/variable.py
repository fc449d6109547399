"""Distributed variables: what the strategies create; reads and writes in every context."""

from abc import ABC, abstractmethod

import numpy as np

from varsim.distribute.component import Component, Unread, Write
from varsim.distribute.container import Mirrored, is_per_replica, select
from varsim.distribute.context import Context, StrategyInterface
from varsim.distribute.scatter import Scatter, scattered
from varsim.distribute.tensor import Tensor, Values, convert
from varsim.values.operation import HERE, Device, Operation, Transfer, movement
from varsim.values.optimizer import Optimizer
from varsim.values.refusal import (
    InvalidArgumentError,
    RefusedNotImplementedError,
    RefusedValueError,
)
from varsim.values.variable import Attributes, Variable


class DistributedVariable(Variable, ABC):
    """A variable that knows its strategy and the context in which it is read and written.

    Subclasses say what a write in a replica, a write from outside and a read from outside mean.
    Inside `update` a write touches the copy that is being updated, and nothing else.
    """

    def __init__(
        self,
        initial: Values,
        devices: tuple[Device, ...] = (HERE,),
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
        return (yield from self.write_outside(context, op, value))

    def read(self, context: Context) -> Operation[object]:
        """The value as this context sees it, a new tensor (read_value, value)."""
        context = self.enter(context)
        if context.updating is not None:
            return Component(self, self.local(context.updating)).tensor()
        if context.replica is not None:
            return (yield from self.read_copy(self.local(context.replica), context.device))
        return (yield from self.read_outside(context))

    def as_tensor(self, context: Context) -> Operation[object]:
        """Conversion to a tensor: the same as `read`, but for variable_sync_on_read_context."""
        return (yield from self.read(context))

    def scatter(
        self, context: Context, method: Scatter, indices: Values, values: object
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
        self, copies: list[int], method: Scatter, indices: Values, values: object
    ) -> Operation[list[Unread]]:
        """A sparse update of some copies."""
        values = yield from bring("scatter", values, tuple(self.devices[i] for i in copies))
        new = []
        for place, index in enumerate(copies):
            rows = convert(select(place, values), self.dtype)
            self.write(index, scattered(method, self.values[index], indices, rows))
            new.append(Unread(self, index))
        return new

    def scatter_in_replica(
        self, context: Context, method: Scatter, indices: Values, values: object
    ) -> Operation[object]:
        """A sparse update by one replica; of a variable with one copy, that copy."""
        return (yield from self.scatter_copies([0], method, indices, values))[0]

    def restore(self, value: Values) -> Operation[None]:
        """Set every copy to its part of a value from a checkpoint (see `check_restored`)."""
        self.check_restored(value)
        parts = self.parts(value)
        source = self.strategy.current if self.strategy else HERE
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
    def write_outside(self, context: Context, op: Write, value: object) -> Operation[object]:
        """A write in cross-replica context."""

    @abstractmethod
    def read_outside(self, context: Context) -> Operation[object]:
        """A read in cross-replica context."""

    def check_scatter(self, method: Scatter) -> None:
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
        value = yield from bring(op, value, self.devices[index : index + 1])
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

    def read_copy(self, index: int, device: Device) -> Operation[Tensor]:
        """One copy, brought to the device where it is read."""
        tensor = Component(self, index).tensor()
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
    """What a copy holds after a write."""
    check_shape(op, old.shape, value.shape)
    if op == "assign":
        return value
    if old.dtype.kind == "b":
        raise InvalidArgumentError(
            "dtype_unsupported", f"{op} of bool is not allowed: use assign, or an integer variable"
        )
    with np.errstate(all="ignore"):
        return np.asarray(old + value if op == "assign_add" else old - value)


def bring(what: str, value: object, devices: tuple[Device, ...]) -> Operation[object]:
    """A value on the devices of the copies, all moved side by side; numbers weigh nothing.

    Returns it with a part on each device if there are several, else the value.
    """
    parts = [select(index, value) for index in range(len(devices))]
    parts = [part.tensor() if isinstance(part, Component) else part for part in parts]
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
    """A sparse update that TensorFlow does not offer."""
    return RefusedNotImplementedError("scatter_unsupported", why)
