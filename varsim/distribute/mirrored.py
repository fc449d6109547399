"""Variables whose replica writes are merged: mirrored copies, or one copy behind a wrapper."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from varsim.distribute.component import Unread, Write
from varsim.distribute.container import Mirrored
from varsim.distribute.context import Context
from varsim.distribute.scatter import Scatter
from varsim.distribute.tensor import Tensor, Values, convert, divide
from varsim.distribute.variable import DistributedVariable, bring, refuse_scatter
from varsim.values.gradient_form import IndexedSlices
from varsim.values.operation import Merge, Operation
from varsim.values.optimizer import State
from varsim.values.refusal import RefusedValueError
from varsim.values.variable import Aggregation


class MergingVariable(DistributedVariable):
    """Base: a write in a replica waits for all replicas, and writes the aggregated value.

    `write_options` are handed to the merge beside the value, at TensorFlow's defaults: so a write
    and another merge, in another replica, do not go together.
    """

    write_options: ClassVar[Mapping[str, object]] = {}

    def write_in_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        """Merge, aggregate the argument, write all copies (values._on_write_update_replica)."""

        def merged(context: Context, value: object, **options: object) -> Operation[object]:
            assert self.strategy is not None
            total = yield from self.strategy.aggregate(context, self.aggregation, value, self)
            return (yield from self.write_outside(context, op, total))

        return (yield Merge(merged, (value,), dict(self.write_options)))

    def scatter_in_replica(
        self, context: Context, method: Scatter, indices: Values, values: object
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

    def write_outside(self, context: Context, op: Write, value: object) -> Operation[object]:
        """Write every copy with the same argument, or its own part of a container."""
        assert self.strategy is not None
        value = yield from bring(op, value, self.devices)
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
    _last: tuple[Values, Values | IndexedSlices, Values, State] | None = None

    def apply(self, replica: int, gradient: Values | IndexedSlices) -> None:
        """One step of the optimizer on one replica's copy.

        Replicas that apply the same gradient to the same version share the result.
        """
        old, last = self.values[replica], self._last
        if last is None or last[0] is not old or last[1] is not gradient:
            super().apply(replica, gradient)
            self._last = (old, gradient, self.values[replica], self.states[replica])
        else:
            self.values[replica], self.states[replica] = last[2:]

    def copies_are_equal(self) -> bool:
        """Bit for bit, with the optimizer's slots."""
        value, state = self.values[0], self.states[0]
        return all(_same(value, other) for other in self.values) and all(
            state is other or all(map(_same, state, other)) for other in self.states
        )

    def write_in_replica(self, context: Context, op: Write, value: object) -> Operation[object]:
        """Aggregated over the replicas; without aggregation the replica's own copy alone."""
        if self.aggregation is Aggregation.NONE:
            assert context.replica is not None
            return (yield from self.write_copy(context.replica, op, value))
        return (yield from super().write_in_replica(context, op, value))

    def scatter_in_replica(
        self, context: Context, method: Scatter, indices: Values, values: object
    ) -> Operation[object]:
        """Aggregated over the replicas; without aggregation the replica's own copy alone."""
        if self.aggregation is Aggregation.NONE:
            assert context.replica is not None
            return (yield from self.scatter_copies([context.replica], method, indices, values))[0]
        return (yield from super().scatter_in_replica(context, method, indices, values))

    def read_outside(self, context: Context) -> Operation[object]:
        """The copy on the current device if there is one, else copy 0; never aggregated."""
        here = context.device in self.devices
        index = self.devices.index(context.device) if here else 0
        return (yield from self.read_copy(index, context.device))

    def as_tensor(self, context: Context) -> Operation[object]:
        """The copy here, in the scope of another strategy, too (also `value()`)."""
        if context.updating is None and context.replica is None:
            return (yield from self.read_outside(context))
        return (yield from self.read(context))

    def check_scatter(self, method: Scatter) -> None:
        """`min`, `max` and `update` are refused under SUM and MEAN."""
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
        """Copies that stand for one value."""
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
        """Aggregated over the replicas; ValueError without aggregation."""
        if self.aggregation is Aggregation.NONE:
            raise RefusedValueError(
                "aggregation_required",
                "You must specify an aggregation method to update a variable in replica context: "
                "create it with SUM, MEAN or ONLY_FIRST_REPLICA, or update it from outside",
            )
        return (yield from super().write_in_replica(context, op, value))

    def scatter(
        self, context: Context, method: Scatter, indices: Values, values: object
    ) -> Operation[object]:
        """Of the one copy, in every context: not aggregated, so once for each replica."""
        return (yield from self.scatter_copies([0], method, indices, values))[0]

    def read(self, context: Context) -> Operation[object]:
        """The one value, in every context."""
        return (yield from self.read_outside(context))

    def read_outside(self, context: Context) -> Operation[object]:
        """The one copy there is."""
        return (yield from self.read_copy(0, context.device))


def _same(a: Values, b: Values) -> bool:
    return a is b or a.tobytes() == b.tobytes()
