"""MirroredVariable, SyncOnReadVariable, AggregatingVariable: variables that replicas share."""

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import ClassVar, TypeVar

import numpy as np

from varsim.core.operation import (
    Merge,
    Operation,
    RefusedNotImplementedError,
    RefusedProgramError,
    RefusedTypeError,
    RefusedValueError,
)
from varsim.distribute.attributes import Aggregation, ReduceOp
from varsim.distribute.container import ContainerPart, Mirrored, PerReplica, Unread, Write, part_on
from varsim.distribute.context import Context
from varsim.distribute.tensor import Tensor, Values, convert, divide, share
from varsim.distribute.variable import (
    DistributedVariable,
    ScatterMethod,
    move_to_copies,
    refuse_scatter,
)
from varsim.learning.gradient_form import IndexedSlices
from varsim.learning.optimizer import State

T = TypeVar("T")


class MergingVariable(DistributedVariable):
    """Variable whose writes in replicas are merged: each waits for all and writes the aggregate.

    `write_options`, with TensorFlow's defaults, make a write incompatible with any other merge.
    """

    write_options: ClassVar[Mapping[str, object]] = {}

    def write_in_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        """Merge, aggregate the argument, write all copies (values._on_write_update_replica)."""

        def merged(context: Context, value: object, **options: object) -> Operation[object]:
            assert self.strategy is not None
            total = yield from self.strategy.aggregate(context, self.aggregation, value, self)
            return (yield from self.write_cross_replica(context, op, total))

        return (yield Merge(merged, (value,), dict(self.write_options)))

    def scatter_in_replica(
        self, context: Context, method: ScatterMethod, indices: Values, values: object
    ) -> Operation[object]:
        """Merge: rows of the first replica, or of all one after the other (MEAN: divided by n).

        Rows that several replicas name are not merged beforehand.
        """

        def merged(context: Context, indices: object, values: object) -> Operation[object]:
            strategy = self.strategy
            assert strategy is not None
            parts, places = strategy.local_results(values), strategy.local_results(indices)
            rows = [convert(part, self.dtype) for part in parts]
            if self.aggregation is Aggregation.ONLY_FIRST_REPLICA:
                rows = rows[:1]
            elif self.aggregation is Aggregation.MEAN:
                rows = [divide(row, len(parts)) for row in rows]
            where = [np.asarray(places[index % len(places)]) for index in range(len(rows))]
            sparse = Tensor(np.concatenate(rows), context.device)
            return self.scatter(context, method, np.concatenate(where), sparse)

        return (yield Merge(merged, (indices, values)))

    def write_cross_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        assert self.strategy is not None
        value = yield from move_to_copies(op, value, self.devices)
        return (
            yield from self.strategy.update(
                context, self, lambda context, copy, value: copy.write(context, op, value), (value,)
            )
        )


class MirroredVariable(MergingVariable):
    """A copy on every replica, kept equal by writing all with the same value (ON_WRITE).

    With aggregation NONE a replica writes its own copy, and the copies drift apart: TensorFlow
    does not object (values.py, MirroredVariable).
    """

    kind = "mirrored"
    replicated = True
    write_options: ClassVar[Mapping[str, object]] = {
        "use_locking": False,
        "name": None,
        "read_value": True,
    }
    # The latest step of the optimizer: from which version, with which gradient, and to what.
    _old: Values | None = None
    _gradient: Values | IndexedSlices | None = None
    _step: tuple[Values, State]

    def apply(self, replica: int, gradient: Values | IndexedSlices) -> None:
        """One step of the optimizer on one replica's copy.

        Replicas that apply the same gradient to the same version share the result.
        """
        old = self.values[replica]
        if old is self._old and gradient is self._gradient:
            self.values[replica], self.states[replica] = self._step
        else:
            super().apply(replica, gradient)
            self._old, self._gradient = old, gradient
            self._step = self.values[replica], self.states[replica]

    def copies_are_equal(self) -> bool:
        """Bit for bit, with the optimizer's slots."""
        values, states = _distinct(self.values), _distinct(self.states)
        if len(values) == len(states) == 1:
            return True
        return all(_same(values[0], other) for other in values) and all(
            all(map(_same, states[0], other)) for other in states
        )

    def write_in_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        if self.aggregation is Aggregation.NONE:
            assert context.replica is not None
            return (yield from self.write_copy(context.replica, op, value))
        return (yield from super().write_in_replica(context, op, value))

    def scatter_in_replica(
        self, context: Context, method: ScatterMethod, indices: Values, values: object
    ) -> Operation[object]:
        if self.aggregation is Aggregation.NONE:
            assert context.replica is not None
            return (yield from self.scatter_copies([context.replica], method, indices, values))[0]
        return (yield from super().scatter_in_replica(context, method, indices, values))

    def read_cross_replica(self, context: Context) -> Operation[object]:
        """The copy on the current device if there is one, else copy 0; never aggregated."""
        here = context.device in self.devices
        index = self.devices.index(context.device) if here else 0
        return (yield from self.read_copy(index, context.device))

    def as_tensor(self, context: Context) -> Operation[object]:
        """The copy here, in the scope of another strategy, too (also `value()`)."""
        if context.updating is None and context.replica is None:
            return (yield from self.read_cross_replica(context))
        return (yield from self.read(context))

    def check_scatter(self, method: ScatterMethod) -> None:
        if method in ("min", "max", "update") and self.aggregation in (
            Aggregation.SUM,
            Aggregation.MEAN,
        ):
            raise refuse_scatter(
                f"scatter_{method} is only supported for mirrored variable with aggregation NONE "
                f"or ONLY_FIRST_REPLICA, not {self.aggregation.name}: use scatter_add, or assign "
                "the whole value"
            )

    def group(self, values: list[Unread]) -> object:
        return (
            values[0]
            if len(values) == 1
            else Mirrored([value.on(value.device) for value in values])
        )


class AggregatingVariable(MergingVariable):
    """One copy on the parameter device, written by several replicas (ps_values.py).

    Whatever its synchronization. Reading it needs no scope.
    """

    kind = "aggregating"

    def write_in_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        if self.aggregation is Aggregation.NONE:
            raise RefusedValueError(
                "aggregation_required",
                "You must specify an aggregation method to update a variable in replica context: "
                "create it with SUM, MEAN or ONLY_FIRST_REPLICA, or update it from outside",
            )
        return (yield from super().write_in_replica(context, op, value))

    def scatter(
        self, context: Context, method: ScatterMethod, indices: Values, values: object
    ) -> Operation[object]:
        return (yield from self.scatter_copies([0], method, indices, values))[0]

    def read(self, context: Context) -> Operation[object]:
        return (yield from self.read_cross_replica(context))

    def read_cross_replica(self, context: Context) -> Operation[object]:
        return (yield from self.read_copy(0, context.device))


def _distinct(copies: Sequence[T]) -> Sequence[T]:
    """Of copies that are one and the same the last."""
    if len(copies) == 1:
        return copies
    return list(dict(zip(map(id, copies), copies, strict=True)).values())


def _same(a: Values, b: Values) -> bool:
    return a is b or a.tobytes() == b.tobytes()


class SyncOnReadVariable(DistributedVariable):
    """A copy on every replica, written alone, aggregated when read from outside (ON_READ).

    (values.py, SyncOnReadVariable; values_util.py, on_read_assign_cross_replica.)
    """

    kind = "sync_on_read"
    replicated = True

    def share(self, value: Values) -> Values:
        """What each copy gets of a value from outside: under SUM its share, cut for integers."""
        if self.aggregation is not Aggregation.SUM:
            return value
        count = self.strategy.num_replicas_in_sync if self.strategy else len(self.values)
        return share(Tensor(value), count, self.dtype)

    def write_in_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        assert context.replica is not None
        return (yield from self.write_copy(context.replica, op, value))

    def write_cross_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        """Write every copy with its share, then read back: with aggregation NONE that fails.

        Under SUM only `assign`: ValueError for the others.
        """
        if op != "assign" and self.aggregation is Aggregation.SUM:
            raise RefusedValueError(
                "sum_cross_replica_add" if op == "assign_add" else "sum_cross_replica_sub",
                f"SyncOnReadVariable does not support `{op}` in cross-replica context when "
                "aggregation is SUM: do it in a replica, or assign the new total",
            )
        if self.aggregation is Aggregation.SUM:
            value = yield from self._shared(context, value)
        elif isinstance(value, PerReplica):
            raise RefusedProgramError(
                "literal_attribute",
                "a per-replica value has no dtype: reduce it first, or assign in the replicas",
            )
        if isinstance(value, DistributedVariable):
            # Each copy is written with what is read on its device then: of an ON_READ variable the
            # aggregate, which a copy that was just written may be part of.
            for index, device in enumerate(self.devices):
                read = yield from value.as_tensor(context.at(device))
                assert isinstance(read, Tensor)
                yield from self.write_copy(index, op, read.on(device))
        else:
            part = yield from move_to_copies(op, value, self.devices)
            for index in range(len(self.values)):
                yield from self.write_copy(index, op, part)
        return (yield from self.read_cross_replica(context))

    def read_cross_replica(self, context: Context) -> Operation[object]:
        """The copies reduced on the current device; copy 0 with ONLY_FIRST_REPLICA."""
        if self.aggregation is Aggregation.ONLY_FIRST_REPLICA:
            return (yield from self.read_copy(0, context.device))
        op = reduce_op(self.aggregation)
        assert self.strategy is not None
        value = yield from self.strategy.reduce(context, op, self)
        return value.tensor() if isinstance(value, ContainerPart) else value

    def read(self, context: Context) -> Operation[object]:
        """Local in a replica, aggregated outside; not inside variable_sync_on_read_context."""
        if context.aggregates:
            raise RefusedNotImplementedError(
                "aggregate_read_unsupported",
                "reading a value inside variable_sync_on_read_context is not supported: "
                "convert the variable to a tensor",
            )
        return (yield from super().read(context))

    def as_tensor(self, context: Context) -> Operation[object]:
        """As `read`; inside variable_sync_on_read_context aggregated in replicas as well."""
        if not context.aggregates or context.replica is None:
            return (yield from super().read(context))
        assert self.strategy is not None
        if self.aggregation is Aggregation.ONLY_FIRST_REPLICA:
            return (yield from self.read_copy(0, context.device))
        op = reduce_op(self.aggregation)
        local = yield from super().read(context)
        return (yield from self.strategy.all_reduce(context, op, local))

    def check_scatter(self, method: ScatterMethod) -> None:
        raise refuse_scatter(
            f"a variable with `synchronization=ON_READ` doesn't support scatter_{method}: "
            "assign the whole value"
        )

    def _shared(self, context: Context, value: object) -> Operation[object]:
        """A copy's share of a value, which is divided once, for all of them."""
        if isinstance(value, PerReplica | list | tuple | NoneType):
            raise RefusedTypeError(
                "per_replica_operand",
                f"unsupported operand type(s) for /: a {type(value).__name__} cannot be shared out;"
                " reduce a per-replica value first, or assign in the replicas",
            )
        if isinstance(value, DistributedVariable):
            value = yield from value.as_tensor(context)
        value = part_on(context.device, value)
        if isinstance(value, ContainerPart):
            value = value.tensor()
        device = value.device if isinstance(value, Tensor) else context.device
        assert self.strategy is not None
        return Tensor(share(value, self.strategy.num_replicas_in_sync, self.dtype), device)


def reduce_op(aggregation: Aggregation) -> ReduceOp:
    """SUM or MEAN (ReduceOp.from_variable_aggregation); ValueError for the others."""
    if aggregation is Aggregation.SUM:
        return ReduceOp.SUM
    if aggregation is Aggregation.MEAN:
        return ReduceOp.MEAN
    raise RefusedValueError(
        "no_reduce_op",
        f"Could not convert from `tf.VariableAggregation` {aggregation.name} to a reduce "
        "operation: an ON_READ variable with aggregation NONE cannot be read from outside; "
        "use MEAN, SUM or ONLY_FIRST_REPLICA",
    )
