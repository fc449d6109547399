"""Variables whose copies are written alone, and aggregated when read from outside (ON_READ)."""

from varsim.values.distribute.container import PerReplica, select
from varsim.values.distribute.context import Context
from varsim.values.distribute.refusal import (
    RefusedAttributeError,
    RefusedNotImplementedError,
    RefusedTypeError,
    RefusedValueError,
)
from varsim.values.distribute.tensor import Tensor, Values, add_in_order, divide, share
from varsim.values.distribute.variable import (
    DistributedVariable,
    Scatter,
    Write,
    bring,
    refuse_scatter,
)
from varsim.values.operation import Operation
from varsim.values.variable import Aggregation, ReduceOp


class SyncOnReadVariable(DistributedVariable):
    """A copy on every replica, written alone, aggregated when read from outside (ON_READ).

    (values.py, SyncOnReadVariable; values_util.py, on_read_assign_cross_replica.)
    """

    kind = "sync_on_read"
    replicated = True

    def aggregated(self) -> Values:
        """The value an outsider reads: the copies of this worker aggregated, first to last.

        ValueError without aggregation.
        """
        values = self.values
        if self.aggregation is Aggregation.ONLY_FIRST_REPLICA:
            return values[0]
        op = reduce_op(self.aggregation)
        total = add_in_order(values)
        return divide(total, len(values)) if op is ReduceOp.MEAN else total

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
        part = yield from self._part(context, value)
        part = yield from bring(op, part, self.devices)
        for index in range(len(self.values)):
            yield from self.write_copy(index, op, part)
        return (yield from self.read_outside(context))

    def read_outside(self, context: Context) -> Operation[object]:
        """The copies reduced on the current device; copy 0 with ONLY_FIRST_REPLICA."""
        if self.aggregation is Aggregation.ONLY_FIRST_REPLICA:
            return (yield from self.read_copy(0, context.device))
        op = reduce_op(self.aggregation)
        assert self.strategy is not None
        return (yield from self.strategy.reduce(context, op, self))

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

    def _part(self, context: Context, value: object) -> Operation[object]:
        """What each copy is written with."""
        if isinstance(value, PerReplica):
            if self.aggregation is Aggregation.SUM:
                raise RefusedTypeError(
                    "per_replica_operand",
                    "unsupported operand type(s) for /: a per-replica value cannot be shared out; "
                    "reduce it first, or assign in the replicas",
                )
            raise RefusedAttributeError(
                "literal_attribute",
                "a per-replica value has no dtype: reduce it first, or assign in the replicas",
            )
        if self.aggregation is not Aggregation.SUM:
            return value
        if isinstance(value, DistributedVariable):
            value = yield from value.read(context)
        value = select(0, value)
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
