"""What a user holds: variables, single copies of them, and values of several replicas.

Each stands for an object of `varsim.distribute`, whose operations it carries out at once.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import DTypeLike

from varsim.core.operation import DeviceId, Operation
from varsim.distribute import container
from varsim.distribute.attributes import Aggregation, Synchronization
from varsim.distribute.central import create_without_scope
from varsim.distribute.container import Container, ContainerPart, PerReplica, part_on
from varsim.distribute.context import Context
from varsim.distribute.strategy import ReplicaStrategy
from varsim.distribute.tensor import Tensor, Values, tensor
from varsim.distribute.variable import DistributedVariable, ScatterMethod, VariableOptions
from varsim.tf.calls import CallLog, call, current

T = TypeVar("T")

# Where calls go that belong to no strategy: they move nothing.
NOWHERE = CallLog()

_LEDGERS: "WeakValueDictionary[ReplicaStrategy, CallLog]" = WeakValueDictionary()
_VARIABLES: "WeakValueDictionary[DistributedVariable, Variable]" = WeakValueDictionary()


def keep(strategy: ReplicaStrategy, ledger: CallLog) -> None:
    """Let what is done with a strategy and its variables be written to a ledger."""
    _LEDGERS[strategy] = ledger


def ledger_of(strategy: object) -> CallLog:
    """The ledger of a strategy; of none, or of one that has none, `NOWHERE`."""
    return _LEDGERS.get(cast(ReplicaStrategy, strategy), NOWHERE)


def convert_to_tensor(value: object, dtype: DTypeLike | None = None) -> Tensor:
    """A tensor of a number, a list, an array or a variable, on the current device.

    Python's numbers become float32, int32 or bool, arrays keep their dtype (tf.convert_to_tensor).
    """
    if isinstance(value, _Operand):
        value = value.as_tensor()
    if isinstance(value, Tensor):
        return value if dtype is None else value.cast(dtype)
    array = np.asarray(value)
    if dtype is None and not isinstance(value, np.ndarray | np.generic):
        dtype = {"f": np.float32, "i": np.int32}.get(array.dtype.kind)
    return tensor(array, dtype, current().device)


class _Operand:
    """Something that is read where it stands in arithmetic."""

    def as_tensor(self) -> Tensor:
        """Its value, as the context of this thread sees it."""
        raise NotImplementedError

    def __tensor__(self) -> Tensor:
        return self.as_tensor()

    def numpy(self) -> Values:
        """Its value as an array."""
        return self.as_tensor().array

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Values:
        return np.array(self.numpy(), dtype)

    def __float__(self) -> float:
        return float(self.numpy())

    def __add__(self, other: object) -> Tensor:
        return self.as_tensor() + _operand(other)

    def __radd__(self, other: object) -> Tensor:
        return self.as_tensor().__radd__(_operand(other))

    def __sub__(self, other: object) -> Tensor:
        return self.as_tensor() - _operand(other)

    def __rsub__(self, other: object) -> Tensor:
        return self.as_tensor().__rsub__(_operand(other))

    def __mul__(self, other: object) -> Tensor:
        return self.as_tensor() * _operand(other)

    def __rmul__(self, other: object) -> Tensor:
        return self.as_tensor().__rmul__(_operand(other))


def _operand(value: object) -> object:
    return value.as_tensor() if isinstance(value, _Operand) else value


class Mirrored(container.Mirrored, _Operand):
    """Copies that stand for one value; in arithmetic, the one on the current device."""

    def as_tensor(self) -> Tensor:
        return convert_to_tensor(part_on(current().device, self))


class Variable(_Operand):
    """A variable, distributed as the strategy in whose scope it is made does it (tf.Variable).

    `initial_value`: numbers, an array, a tensor, or a function that returns one. `synchronization`
    and `aggregation`: members of `VariableSynchronization` and `VariableAggregation`, or their
    names. ValueError for what the strategy refuses, such as ON_READ with `trainable`.
    """

    inner: DistributedVariable

    def __new__(
        cls,
        initial_value: object,
        trainable: bool | None = None,
        *,
        dtype: DTypeLike | None = None,
        name: str = "",
        synchronization: Synchronization | str = Synchronization.AUTO,
        aggregation: Aggregation | str = Aggregation.NONE,
    ) -> "Variable":
        initial = initial_value
        if not callable(initial):
            initial = convert_to_tensor(initial, dtype)
        elif dtype is not None:
            make = cast(Callable[[], object], initial_value)
            initial = lambda: convert_to_tensor(make(), dtype)  # noqa: E731
        options = VariableOptions(synchronization, aggregation, trainable, name)
        strategy = current().strategy

        def create(context: Context) -> Operation[DistributedVariable]:
            if isinstance(strategy, ReplicaStrategy):
                return (yield from strategy.create(context, initial, options))
            return create_without_scope(initial, options, context)

        return of_inner(call("Variable", ledger_of(strategy), create))

    # What it is

    @property
    def name(self) -> str:
        """As it was given."""
        return self.inner.attributes.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole variable."""
        return self.inner.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of its elements."""
        return self.inner.dtype

    @property
    def trainable(self) -> bool:
        """Whether an optimizer is to train it."""
        return self.inner.attributes.trainable

    @property
    def synchronization(self) -> Synchronization:
        """As the variable reports it; the mirrored family turns AUTO into ON_WRITE."""
        return self.inner.synchronization

    @property
    def aggregation(self) -> Aggregation:
        """As it was asked for."""
        return self.inner.aggregation

    @property
    def values(self) -> tuple["Copy", ...]:
        """Its copies, or shards, in order."""
        return tuple(Copy(self.inner, index) for index in range(len(self.inner.values)))

    # Reads and writes

    def read_value(self) -> Tensor:
        """Its value as this context sees it, with what a read costs."""
        return cast(Tensor, self._call("read_value", self.inner.read))

    value = read_value

    def as_tensor(self) -> Tensor:
        """Converted to a tensor: as `read_value`, but for `variable_sync_on_read_context`."""
        return cast(Tensor, self._call("convert_to_tensor", self.inner.as_tensor))

    def assign(self, value: object) -> object:
        """Set it; in a replica the values of all replicas are aggregated first (on_write)."""
        return self._call("assign", lambda at: self.inner.assign(at, own(value)))

    def assign_add(self, delta: object) -> object:
        """Add to it; otherwise as `assign`."""
        return self._call("assign_add", lambda at: self.inner.assign_add(at, own(delta)))

    def assign_sub(self, delta: object) -> object:
        """Subtract from it; otherwise as `assign`."""
        return self._call("assign_sub", lambda at: self.inner.assign_sub(at, own(delta)))

    def scatter(self, method: ScatterMethod, indices: object, updates: object) -> object:
        """`scatter_<method>` (add, sub, mul, div, min, max, update): rows `indices` of every copy.

        NotImplementedError for ON_READ variables, as in TensorFlow.
        """
        rows = np.asarray(indices)
        values = own(updates)
        return self._call(
            f"scatter_{method}", lambda at: self.inner.scatter(at, method, rows, values)
        )

    def _call(self, name: str, act: Callable[[Context], Operation[object]]) -> object:
        return shown(call(name, ledger_of(self.inner.strategy), act))

    def __repr__(self) -> str:
        copies = ", ".join(str(value.tolist()) for value in self.inner.values)
        return f"<tf.Variable {self.name or self.inner.kind} {self.dtype}: copies {copies}>"


class Copy(_Operand):
    """One copy of a variable, as `update` hands it to its function; equal by variable and index."""

    def __init__(self, variable: DistributedVariable, index: int) -> None:
        self.inner = ContainerPart(variable, index)

    @property
    def device(self) -> DeviceId:
        """Where it is."""
        return self.inner.device

    def as_tensor(self) -> Tensor:
        return self.inner.tensor()

    read_value = as_tensor

    def assign(self, value: object) -> object:
        """Set this copy alone."""
        return self._call("assign", lambda at: self.inner.assign(at, own(value)))

    def assign_add(self, delta: object) -> object:
        """Add to this copy alone."""
        return self._call("assign_add", lambda at: self.inner.assign_add(at, own(delta)))

    def assign_sub(self, delta: object) -> object:
        """Subtract from this copy alone."""
        return self._call("assign_sub", lambda at: self.inner.assign_sub(at, own(delta)))

    def _call(self, name: str, act: Callable[[Context], Operation[object]]) -> object:
        variable = cast(DistributedVariable, self.inner.variable)
        return shown(call(name, ledger_of(variable.strategy), act))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Copy) and other.inner == self.inner

    def __hash__(self) -> int:
        return hash(self.inner)

    def __repr__(self) -> str:
        return f"<copy {self.inner.index} of a variable: {self.inner.tensor().array.tolist()}>"


def of_inner(variable: DistributedVariable) -> Variable:
    """The variable that a user holds for one of `varsim.distribute`: always the same object."""
    held = _VARIABLES.get(variable)
    if held is None:
        held = object.__new__(Variable)
        held.inner = variable
        _VARIABLES[variable] = held
    return held


def shown(value: object) -> Any:
    """What a user gets for a value of `varsim.distribute`."""
    if isinstance(value, DistributedVariable):
        return of_inner(value)
    if isinstance(value, ContainerPart):
        return Copy(cast(DistributedVariable, value.variable), value.index)
    if isinstance(value, container.Mirrored) and not isinstance(value, Mirrored):
        return Mirrored([shown(part) for part in value.values])
    return _inside(value, shown)


def own(value: object) -> Any:
    """What `varsim.distribute` gets for a value of a user."""
    if isinstance(value, Variable | Copy):
        return value.inner
    return _inside(value, own)


def _inside(value: object, function: Callable[[object], object]) -> object:
    """A value with what it contains put in other form; where that changes nothing, the value."""
    if isinstance(value, DeviceId):
        return value
    if isinstance(value, list | tuple):
        items = [function(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: function(item) for key, item in value.items()}
    if isinstance(value, Container):
        parts = [function(part) for part in value.values]
        if all(new is old for new, old in zip(parts, value.values, strict=True)):
            return value
        kind = PerReplica if isinstance(value, PerReplica) else Mirrored
        return kind(parts)
    return value
