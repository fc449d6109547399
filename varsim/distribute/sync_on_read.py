"""Variables whose copies are written alone, and aggregated when read from outside (ON_READ)."""

from types import NoneType

from varsim.distribute.component import Component, Write
from varsim.distribute.container import PerReplica, part_on
from varsim.distribute.context import Context
from varsim.distribute.scatter import Scatter
from varsim.distribute.tensor import Tensor, Values, share
from varsim.distribute.variable import DistributedVariable, bring, refuse_scatter
from varsim.values.operation import Operation
from varsim.values.refusal import (
    RefusedAttributeError,
    RefusedNotImplementedError,
    RefusedTypeError,
    RefusedValueError,
)
from varsim.values.variable import Aggregation, ReduceOp


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
        """The replica's own copy, at once."""
        assert context.replica is not None
        return (yield from self.write_copy(context.replica, op, value))

    def write_outside(self, context: Context, op: Write, value: object) -> Operation[object]:
        """Every copy with its share, then read back: without aggregation that fails, written.

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
            raise RefusedAttributeError(
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
            part = yield from bring(op, value, self.devices)
            for index in range(len(self.values)):
                yield from self.write_copy(index, op, part)
        return (yield from self.read_outside(context))

    def read_outside(self, context: Context) -> Operation[object]:
        """The copies reduced on the current device; copy 0 with ONLY_FIRST_REPLICA."""
        if self.aggregation is Aggregation.ONLY_FIRST_REPLICA:
            return (yield from self.read_copy(0, context.device))
        op = reduce_op(self.aggregation)
        assert self.strategy is not None
        value = yield from self.strategy.reduce(context, op, self)
        return value.tensor() if isinstance(value, Component) else value

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

    def check_scatter(self, method: Scatter) -> None:
        """None is offered."""
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
        if isinstance(value, Component):
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
