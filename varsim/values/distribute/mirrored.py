"""Variables whose replica writes are merged: mirrored copies, or one copy behind a wrapper."""

from varsim.values.distribute.container import Mirrored, regroup
from varsim.values.distribute.context import Context
from varsim.values.distribute.refusal import RefusedValueError
from varsim.values.distribute.tensor import Tensor, Values
from varsim.values.distribute.variable import (
    DistributedVariable,
    Scatter,
    Write,
    refuse_scatter,
)
from varsim.values.operation import Merge, Operation
from varsim.values.variable import Aggregation, Copy


class MergingVariable(DistributedVariable):
    """Base: a write in a replica waits for all replicas, and writes the aggregated value."""

    def write_in_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        """Merge, aggregate the argument, write all copies (values._on_write_update_replica)."""

        def merged(context: Context, value: object) -> Operation[object]:
            assert self.strategy is not None
            total = yield from self.strategy.aggregate(context, self.aggregation, value, self)
            return (yield from self.write_outside(context, op, total))

        return (yield Merge(merged, (value,)))

    def write_outside(self, context: Context, op: Write, value: object) -> Operation[object]:
        """Write every copy with the same argument, or its own part of a container."""
        assert self.strategy is not None
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
    _last: tuple[Copy, Values, Copy] | None = None

    def apply(self, replica: int, gradient: Values) -> None:
        """One step of the optimizer on one replica's copy.

        Replicas that apply the same gradient to the same version share the result.
        """
        copy = self.copies[replica]
        if self._last is None or self._last[0] is not copy or self._last[1] is not gradient:
            super().apply(replica, gradient)
            self._last = (copy, gradient, self.copies[replica])
        self.copies[replica] = self._last[2]

    def copies_are_equal(self) -> bool:
        """Bit for bit, with the optimizer's slots."""
        first = self.copies[0]
        return all(
            copy is first
            or (
                _same(first.value, copy.value)
                and all(_same(a, b) for a, b in zip(first.state, copy.state, strict=True))
            )
            for copy in self.copies
        )

    def write_in_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        """Aggregated over the replicas; without aggregation the replica's own copy alone."""
        if self.aggregation is Aggregation.NONE:
            assert context.replica is not None
            return (yield from self.write_copy(context.replica, op, value))
        return (yield from super().write_in_replica(context, op, value))

    def read_outside(self, context: Context) -> Operation[object]:
        """The copy on the current device if there is one, else copy 0; never aggregated."""
        here = context.device in self.devices
        index = self.devices.index(context.device) if here else 0
        return (yield from self.read_copy(index, context.device))

    def check_scatter(self, method: Scatter) -> None:
        """`min`, `max` and `update` are refused under SUM and MEAN."""
        if method in ("min", "max", "update") and self.aggregation in (
            Aggregation.SUM,
            Aggregation.MEAN,
        ):
            raise refuse_scatter(
                f"scatter_{method} is only supported for mirrored variable with aggregation NONE "
                f"or ONLY_FIRST_REPLICA, not {self.aggregation.name}"
            )

    def group(self, values: list[Tensor]) -> object:
        """Copies that stand for one value."""
        return regroup(values, Mirrored)


class AggregatingVariable(MergingVariable):
    """One copy on the parameter device, written by several replicas (ps_values.py).

    Whatever its synchronization. Reading it needs no scope.
    """

    kind = "aggregating"

    def write_in_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        """Aggregated over the replicas; ValueError without aggregation."""
        if self.aggregation is Aggregation.NONE:
            raise RefusedValueError(
                "aggregation_required",
                "You must specify an aggregation method to update a variable in replica context: "
                "create it with SUM, MEAN or ONLY_FIRST_REPLICA, or update it from outside",
            )
        return (yield from super().write_in_replica(context, op, value))

    def read(self, context: Context) -> Operation[object]:
        """The one value, in every context."""
        return (yield from self.read_copy(0, context.device))


def _same(a: Values, b: Values) -> bool:
    return a is b or a.tobytes() == b.tobytes()
