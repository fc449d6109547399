"""What all strategies share: new variables, replicas, the extended API.

Every operation takes the context it happens in, and is called as `x = yield from f()`.
(distribute_lib.py)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from varsim.distribute.axis import count_along, sum_along
from varsim.distribute.component import Component, Unread
from varsim.distribute.container import Mirrored, is_per_replica, map_structure, regroup, select
from varsim.distribute.context import Context
from varsim.distribute.creation import Asked, checked
from varsim.distribute.destination import check_destination, check_reduce_op
from varsim.distribute.packing import Options
from varsim.distribute.running import call_for_each_replica, run_maybe
from varsim.distribute.scope import StrategyScope
from varsim.distribute.sync_on_read import reduce_op
from varsim.distribute.tensor import Tensor, divide, tensor_of
from varsim.distribute.variable import DistributedVariable
from varsim.values.operation import Device, Merge, Operation
from varsim.values.optimizer import Optimizer
from varsim.values.refusal import RefusedRuntimeError, RefusedTypeError, RefusedValueError
from varsim.values.variable import Aggregation, Attributes, ReduceOp, Variable


@dataclass(frozen=True, slots=True)
class _Shared:
    """A variable that all replicas get whole: out of a merge, each would get its copy."""

    variable: DistributedVariable


class Strategy(StrategyScope, ABC):
    """How variables are placed and values combined; subclasses fill in the `_do_*` methods."""

    def create(
        self,
        context: Context,
        initial: object,
        asked: Asked = Asked(),  # noqa: B008 - immutable
    ) -> Operation[DistributedVariable]:
        """A new variable; `initial` is a value or a function that is called once for it.

        In a replica all replicas get the same one. ValueError for attributes that are refused.
        """
        context = self.enter(context)
        if context.replica is not None:
            colocated = context.colocated

            def merged(context: Context) -> Operation[_Shared]:
                context = replace(context, colocated=colocated)
                return _Shared((yield from self.create(context, initial, asked)))

            shared: _Shared = yield Merge(merged)
            return shared.variable
        attributes = checked(asked)
        devices = context.colocated.devices if context.colocated else None
        return (yield from self._do_create(initial, attributes, asked.optimizer, devices))

    def value_container(self, value: object) -> object:
        """The variable that a copy belongs to; any other value itself."""
        return value.variable if isinstance(value, Component) else value

    # Running

    def run(
        self,
        context: Context,
        function: Callable[..., object],
        args: Sequence[object] = (),
        kwargs: dict[str, object] | None = None,
    ) -> Operation[object]:
        """Call `function(context, *args)` in every replica; ValueError unless args is a sequence.

        The function is a generator that waits for operations, or an ordinary one that does not.
        """
        if not isinstance(args, list | tuple):
            raise RefusedValueError(
                "args_not_a_sequence",
                f"positional args must be a list or tuple, not {type(args).__name__}: use (args,)",
            )
        context = self.crossing(context)
        return (
            yield from call_for_each_replica(self, context, function, tuple(args), kwargs or {})
        )

    def local_results(self, value: object) -> tuple[object, ...]:
        """The parts of a value that belong to this worker (experimental_local_results)."""
        if is_per_replica(value) or isinstance(value, list | tuple | dict):
            return tuple(select(index, value) for index in range(len(self.devices)))
        return (value,)

    def update(
        self,
        context: Context,
        variable: Variable,
        function: Callable[..., object],
        args: Sequence[object] = (),
        kwargs: dict[str, object] | None = None,
        *,
        group: bool = True,
    ) -> Operation[object]:
        """Call `function(context, copy, *args)` once per copy, with that copy's part of args.

        Returns the results grouped (Mirrored), or without `group` a tuple for each. In a replica
        it merges first. AssertionError if the strategy cannot update such a variable.
        """
        named = kwargs or {}
        if context.replica is not None:

            def merged(context: Context, *args: object, **named: object) -> Operation[object]:
                return self.update(context, variable, function, args, named, group=group)

            return (yield Merge(merged, tuple(args), named))
        context = self.enter(context)
        results = []
        for index, replica in enumerate(self._do_copies(variable)):
            own = [select(replica, value) for value in args]
            own_named = {key: select(replica, value) for key, value in named.items()}
            inside = Context(self, updating=replica, device=variable.devices[index])
            copy = Component(variable, index)
            results.append((yield from run_maybe(function(inside, copy, *own, **own_named))))
        if group and len(results) > 1:  # grouped, results of writes are read
            results = [
                map_structure(
                    lambda one: one.on(one.device) if isinstance(one, Unread) else one, result
                )
                for result in results
            ]
        result = regroup(results, Mirrored)
        return result if group else map_structure(self.local_results, result)

    # Reducing

    def reduce_to(
        self, context: Context, op: object, value: object, destination: object
    ) -> Operation[object]:
        """Reduce the parts of a value onto the devices of a variable, a value or a device.

        One tensor for one device, Mirrored for several. Lists item by item.
        """
        context = self.crossing(context)
        check_destination(destination)
        return (yield from self._reduce_item(context, check_reduce_op(op), value, destination))

    def batch_reduce_to(
        self,
        context: Context,
        op: object,
        pairs: Sequence[tuple[object, object]],
        options: Options = Options(),  # noqa: B008 - immutable
    ) -> Operation[list[object]]:
        """`reduce_to` of several values, each with its destination, packed as the options say."""
        context = self.crossing(context)
        return (yield from self._do_batch_reduce(context, check_reduce_op(op), pairs, options))

    def broadcast_to(
        self, context: Context, value: object, destination: object
    ) -> Operation[object]:
        """A value on all devices of a destination; numbers pass as they are."""
        context = self.crossing(context)
        check_destination(destination)
        return (yield from self._do_broadcast(context, value, destination))

    def reduce(
        self, context: Context, op: object, value: object, axis: int | Sequence[int] | None = None
    ) -> Operation[object]:
        """`strategy.reduce`: across replicas, and along an axis if one is given.

        Along an axis MEAN divides by the number of elements in all replicas. The result is on the
        current device.
        """
        context = self.crossing(context)
        op = check_reduce_op(op)
        if axis is None:
            reduced = yield from self._reduce_item(context, op, value, context.device)
            return self.local_results(reduced)[0]
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
        parts = yield from self.run(context, lambda _, part: sum_along(part, axes), (value,))
        total = yield from self.reduce(context, ReduceOp.SUM, parts)
        if op is ReduceOp.SUM:
            return total
        counts = yield from self.run(context, lambda _, part: count_along(part, axes), (value,))
        count = yield from self.reduce(context, ReduceOp.SUM, counts)
        assert isinstance(total, Tensor)
        assert isinstance(count, Tensor)
        return Tensor(divide(total.array, int(count.array)), total.device)

    def gather(self, context: Context, value: object, axis: int) -> Operation[object]:
        """`strategy.gather`: the parts of all replicas joined along an axis, in replica order."""
        context = self.crossing(context)
        return (yield from self._do_gather(context, value, context.device, axis))

    def all_reduce(self, context: Context, op: object, value: object) -> Operation[object]:
        """`ReplicaContext.all_reduce` of a tensor, or of a list of tensors, which is packed."""
        _check_replica(context, "all_reduce")
        op = check_reduce_op(op)

        def merged(context: Context, *values: object) -> Operation[object]:
            pairs = [(value, value) for value in values]
            return (yield from self.batch_reduce_to(context, op, pairs))

        values = tuple(value) if isinstance(value, list | tuple) else (value,)
        return (yield from _own(context, value, (yield Merge(merged, values))))

    def all_gather(self, context: Context, value: object, axis: int) -> Operation[object]:
        """`ReplicaContext.all_gather` of a tensor or a list: all parts joined, in every replica."""
        _check_replica(context, "all_gather")

        def merged(context: Context, *values: object) -> Operation[object]:
            joined = []
            for value in values:
                joined.append(  # noqa: PERF401
                    (yield from self._do_gather(context, value, value, axis))
                )
            return joined

        values = tuple(value) if isinstance(value, list | tuple) else (value,)
        return (yield from _own(context, value, (yield Merge(merged, values))))

    def aggregate(
        self, context: Context, aggregation: Aggregation, value: object, destination: object
    ) -> Operation[object]:
        """The argument of a write, aggregated for a variable (values_util.apply_aggregation)."""
        if aggregation is Aggregation.ONLY_FIRST_REPLICA:
            first = self.local_results(value)[0]
            return (yield from self.broadcast_to(context, first, destination))
        return (yield from self.reduce_to(context, reduce_op(aggregation), value, destination))

    def _reduce_item(
        self, context: Context, op: ReduceOp, value: object, destination: object
    ) -> Operation[object]:
        """Lists, tuples and dicts item by item."""
        if isinstance(value, list | tuple):
            items = []
            for item in value:
                items.append(  # noqa: PERF401
                    (yield from self._reduce_item(context, op, item, destination))
                )
            return items if isinstance(value, list) else tuple(items)
        return (yield from self._do_reduce(context, op, value, destination))

    # What a strategy is made of

    @abstractmethod
    def _do_create(
        self,
        initial: object,
        attributes: Attributes,
        optimizer: Optimizer | None,
        devices: tuple[Device, ...] | None,
    ) -> Operation[DistributedVariable]:
        """Create a variable, on given devices or on those of the strategy."""

    @abstractmethod
    def _do_copies(self, variable: Variable) -> Sequence[int]:
        """For each copy of a variable that `update` visits: the replica whose part it takes."""

    @abstractmethod
    def _do_reduce(
        self, context: Context, op: ReduceOp, value: object, destination: object
    ) -> Operation[object]:
        """One value onto a destination."""

    def _do_batch_reduce(
        self,
        context: Context,
        op: ReduceOp,
        pairs: Sequence[tuple[object, object]],
        options: Options,
    ) -> Operation[list[object]]:
        """Several values."""
        results = []
        for value, destination in pairs:
            results.append((yield from self._reduce_item(context, op, value, destination)))
        return results

    @abstractmethod
    def _do_broadcast(
        self, context: Context, value: object, destination: object
    ) -> Operation[object]:
        """One value to all devices of a destination."""

    @abstractmethod
    def _do_gather(
        self, context: Context, value: object, destination: object, axis: int
    ) -> Operation[object]:
        """Parts joined on the devices of a destination."""


def _own(context: Context, value: object, results: object) -> Operation[object]:
    """Tensors of a replica's own, out of a merge: one for a value, or one for each of a list.

    TypeError if another replica's function was called, and its result is no list.
    """
    if not isinstance(results, list | tuple):
        raise RefusedTypeError(
            "merge_call_mismatch",
            f"a merge gave a {type(results).__name__}, not a list with a result for each value: "
            "let all replicas make the same call",
        )
    own = []
    for item in results:
        if isinstance(item, DistributedVariable):
            item = yield from item.as_tensor(context)
        if isinstance(item, Component):
            item = item.tensor()
        own.append(
            item.on(item.device) if isinstance(item, Tensor) else tensor_of(item, context.device)
        )
    return own if isinstance(value, list | tuple) else own[0]


def _check_replica(context: Context, what: str) -> None:
    if context.replica is None:
        raise RefusedRuntimeError(
            "wrong_context", f"{what} needs a replica: use reduce or gather outside of replicas"
        )
