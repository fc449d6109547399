"""Strategy, the base of all: creation of variables, replicas, the extended API.

Every operation takes the context it happens in, and is called as `x = yield from f()`.
(distribute_lib.py)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from varsim.core.operation import (
    DeviceId,
    Merge,
    Operation,
    RefusedRuntimeError,
    RefusedTypeError,
    RefusedValueError,
)
from varsim.distribute.attributes import Aggregation, Attributes, ReduceOp, Variable
from varsim.distribute.container import (
    ContainerPart,
    Mirrored,
    Unread,
    is_per_replica,
    map_structure,
    regroup,
    select,
)
from varsim.distribute.context import Context
from varsim.distribute.cross_device_ops import Options
from varsim.distribute.mirrored import reduce_op
from varsim.distribute.reducing import (
    check_destination,
    check_reduce_op,
    count_along,
    reduce_one_value,
    sum_along,
)
from varsim.distribute.scope import StrategyScope, call_for_each_replica, run_if_operation
from varsim.distribute.tensor import Tensor, Values, divide, tensor_of
from varsim.distribute.variable import DistributedVariable, VariableOptions, checked, initial_value
from varsim.learning.optimizer import Optimizer


class NewVariable(NamedTuple):
    """A variable to be created; `devices` None: those of the strategy."""

    initial: object
    devices: tuple[DeviceId, ...] | None
    attributes: Attributes
    optimizer: Optimizer | None

    def at(
        self, default: tuple[DeviceId, ...]
    ) -> tuple[Values, tuple[DeviceId, ...], Attributes, Optimizer | None]:
        """Arguments of the variable, with its initial value computed."""
        value = initial_value(self.initial)
        return value, self.devices or default, self.attributes, self.optimizer


@dataclass(frozen=True, slots=True)
class _Shared:
    """A variable that all replicas get whole: out of a merge, each would get its copy."""

    variable: DistributedVariable


class ReplicaStrategy(StrategyScope, ABC):
    """Distribution strategy (tf.distribute.Strategy): placement of variables, reductions."""

    def create(
        self,
        context: Context,
        initial: object,
        options: VariableOptions = VariableOptions(),  # noqa: B008 - immutable
    ) -> Operation[DistributedVariable]:
        """A new variable; `initial` is a value or a function that is called once for it.

        In a replica all replicas get the same one. ValueError for attributes that are refused.
        """
        context = self.enter(context)
        if context.replica is not None:
            colocated = context.colocated

            def merged(context: Context) -> Operation[_Shared]:
                context = replace(context, colocated=colocated)
                return _Shared((yield from self.create(context, initial, options)))

            shared: _Shared = yield Merge(merged)
            return shared.variable
        devices = context.colocated.devices if context.colocated else None
        new = NewVariable(initial, devices, checked(options), options.optimizer)
        return (yield from self._create_variable(new))

    def value_container(self, value: object) -> object:
        """The variable that a copy belongs to; any other value itself."""
        return value.variable if isinstance(value, ContainerPart) else value

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
        context = self.enter_cross_replica(context)
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
        it merges first. RefusedProgramError if the strategy cannot update such a variable.
        """
        named = kwargs or {}
        if context.replica is not None:

            def merged(context: Context, *args: object, **named: object) -> Operation[object]:
                return self.update(context, variable, function, args, named, group=group)

            return (yield Merge(merged, tuple(args), named))
        context = self.enter(context)
        results = []
        for index, replica in enumerate(self._copies_of(variable)):
            own = [select(replica, value) for value in args]
            own_named = {key: select(replica, value) for key, value in named.items()}
            inside = Context(self, updating=replica, device=variable.devices[index])
            copy = ContainerPart(variable, index)
            results.append((yield from run_if_operation(function(inside, copy, *own, **own_named))))
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
        context = self.enter_cross_replica(context)
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
        context = self.enter_cross_replica(context)
        return (yield from self._batch_reduce_to(context, check_reduce_op(op), pairs, options))

    def broadcast_to(
        self, context: Context, value: object, destination: object
    ) -> Operation[object]:
        """A value on all devices of a destination; numbers pass as they are."""
        context = self.enter_cross_replica(context)
        check_destination(destination)
        return (yield from self._broadcast_to(context, value, destination))

    def reduce(
        self, context: Context, op: object, value: object, axis: int | Sequence[int] | None = None
    ) -> Operation[object]:
        """`strategy.reduce`: across replicas, and along an axis if one is given.

        Along an axis MEAN divides by the number of elements in all replicas. The result is on the
        current device.
        """
        context = self.enter_cross_replica(context)
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
        context = self.enter_cross_replica(context)
        return (yield from self._gather_to(context, value, context.device, axis))

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
                    (yield from self._gather_to(context, value, value, axis))
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
        if isinstance(value, list | tuple):
            items = []
            for item in value:
                items.append(  # noqa: PERF401
                    (yield from self._reduce_item(context, op, item, destination))
                )
            return items if isinstance(value, list) else tuple(items)
        return (yield from self._reduce_to(context, op, value, destination))

    # Implemented by each strategy

    @abstractmethod
    def _create_variable(self, new: NewVariable) -> Operation[DistributedVariable]:
        """Create a variable, on given devices or on those of the strategy."""

    @abstractmethod
    def _copies_of(self, variable: Variable) -> Sequence[int]:
        """For each copy of a variable that `update` visits: the replica whose part it takes."""

    def _reduce_equal(
        self, context: Context, op: ReduceOp, value: object, destination: object
    ) -> Operation[object]:
        """One value that is the same object in all replicas (see `reduce_one_value`)."""
        replicas = self.num_replicas_in_sync
        return (yield from reduce_one_value(context, op, value, destination, replicas))

    @abstractmethod
    def _reduce_to(
        self, context: Context, op: ReduceOp, value: object, destination: object
    ) -> Operation[object]:
        """One value onto a destination."""

    def _batch_reduce_to(
        self,
        context: Context,
        op: ReduceOp,
        pairs: Sequence[tuple[object, object]],
        options: Options,
    ) -> Operation[list[object]]:
        results = []
        for value, destination in pairs:
            results.append((yield from self._reduce_item(context, op, value, destination)))
        return results

    @abstractmethod
    def _broadcast_to(
        self, context: Context, value: object, destination: object
    ) -> Operation[object]:
        """One value to all devices of a destination."""

    @abstractmethod
    def _gather_to(
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
        if isinstance(item, ContainerPart):
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
