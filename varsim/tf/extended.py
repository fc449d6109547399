"""The extended API of a strategy, and a replica seen from inside."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from varsim.core.operation import DeviceId, Operation
from varsim.distribute import central, strategy
from varsim.distribute.context import Context
from varsim.distribute.cross_device_ops import Options
from varsim.distribute.tensor import Tensor
from varsim.tf.calls import call, current, inside, operation_of
from varsim.tf.values import Variable, ledger_of, own, shown

# The strategy that a user holds for one of `varsim.distribute`.
HELD: Final["WeakValueDictionary[strategy.ReplicaStrategy, Any]"] = WeakValueDictionary()


class StrategyExtended:
    """What algorithms need that know of distribution (tf.distribute.StrategyExtended)."""

    def __init__(self, inner: strategy.ReplicaStrategy) -> None:
        self._inner = inner

    # Properties

    @property
    def worker_devices(self) -> tuple[DeviceId, ...]:
        """The devices of this worker's replicas."""
        return self._inner.worker_devices

    @property
    def parameter_devices(self) -> tuple[DeviceId, ...]:
        """The devices of variables."""
        return self._inner.parameter_devices

    @property
    def experimental_between_graph(self) -> bool:
        """Whether each worker builds its own graph."""
        return self._inner.experimental_between_graph

    @property
    def experimental_require_static_shapes(self) -> bool:
        """Whether shapes must be static."""
        return self._inner.experimental_require_static_shapes

    @property
    def experimental_should_init(self) -> bool:
        """Whether this worker initializes variables."""
        return self._inner.experimental_should_init

    @property
    def should_checkpoint(self) -> bool:
        """Whether this worker writes checkpoints."""
        return self._inner.should_checkpoint

    @property
    def should_save_summary(self) -> bool:
        """Whether this worker writes summaries."""
        return self._inner.should_save_summary

    # Running and updating

    def call_for_each_replica(
        self,
        fn: Callable[..., object],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Any:
        """As `Strategy.run`."""
        named = {key: own(value) for key, value in (kwargs or {}).items()}
        return carried_out(
            "run", self._inner, lambda at: self._inner.run(at, plain(fn), own(args), named)
        )

    def update(
        self,
        var: Variable,
        fn: Callable[..., object],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        group: bool = True,
    ) -> Any:
        """Call `fn(copy, *args)` once for each copy of a variable, with that copy's part of args.

        Returns the results grouped, or without `group` a tuple of them. In a replica all merge.
        """
        named = {key: own(value) for key, value in (kwargs or {}).items()}
        inner, variable = self._inner, var.inner
        return carried_out(
            "update",
            inner,
            lambda at: inner.update(at, variable, plain(fn), own(tuple(args)), named, group=group),
        )

    # Reductions

    def reduce_to(self, reduce_op: object, value: object, destinations: object) -> Any:
        """The parts of a value as one, on the devices of a variable, a value, or on a device."""
        return carried_out(
            "reduce_to",
            self._inner,
            lambda at: self._inner.reduce_to(at, reduce_op, own(value), own(destinations)),
        )

    def batch_reduce_to(
        self,
        reduce_op: object,
        value_destination_pairs: Sequence[tuple[object, object]],
        options: Options = Options(),  # noqa: B008 - immutable
    ) -> list[Any]:
        """`reduce_to` of several values, each with its destination, packed as the options say."""
        pairs = [(own(value), own(place)) for value, place in value_destination_pairs]
        found: list[Any] = carried_out(
            "batch_reduce_to",
            self._inner,
            lambda at: self._inner.batch_reduce_to(at, reduce_op, pairs, options),
        )
        return found

    def broadcast_to(self, tensor: object, destinations: object) -> Any:
        """A value on all devices of a destination; Python's numbers pass as they are."""
        return carried_out(
            "broadcast_to",
            self._inner,
            lambda at: self._inner.broadcast_to(at, own(tensor), own(destinations)),
        )

    # Variables

    @contextmanager
    def colocate_vars_with(self, colocate_with_variable: Variable) -> Iterator[None]:
        """Inside it new variables go to the devices of this one.

        RuntimeError outside of the scope, ValueError for a variable of another strategy.
        """
        with inside(self._inner.colocate_vars_with(current(), colocate_with_variable.inner)):
            yield

    def value_container(self, value: object) -> Any:
        """The variable that a copy belongs to; any other value itself."""
        return shown(self._inner.value_container(own(value)))

    def variable_created_in_scope(self, v: Variable) -> bool:
        """Does this strategy own the variable?"""
        return self._inner.created(v.inner)

    def read_var(self, v: Variable) -> Tensor:
        """The value of a variable, as read from here."""
        return v.as_tensor()

    def non_slot_devices(self, var_list: Sequence[Variable]) -> object:
        """Where an optimizer keeps what belongs to no variable: all devices of the replicas.

        Where variables lie on servers, beside the first of them by name.
        """
        if isinstance(self._inner, central.CentralStorageStrategy):
            return min(var_list, key=lambda variable: variable.name)
        return self._inner.worker_devices


class ReplicaContext:
    """A replica, seen from inside (tf.distribute.ReplicaContext)."""

    def __init__(self, context: Context) -> None:
        self._context = context
        assert isinstance(context.strategy, strategy.ReplicaStrategy)
        self._inner = context.strategy

    @property
    def replica_id_in_sync_group(self) -> int:
        """Which of all workers' replicas this is."""
        return self._context.replica_id

    @property
    def num_replicas_in_sync(self) -> int:
        """Replicas of all workers."""
        return self._inner.num_replicas_in_sync

    def merge_call(
        self,
        merge_fn: Callable[..., object],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Any:
        """Wait for all replicas, call `merge_fn(strategy, *args)` once, and go on.

        It gets the arguments of all replicas grouped; its result is unpacked by replica.
        RuntimeError if some replicas end without the call.
        """
        named = {key: own(value) for key, value in (kwargs or {}).items()}
        merged = plain(partial(merge_fn, HELD[self._inner]))
        return carried_out(
            "merge_call", self._inner, lambda at: at.merge_call(merged, own(tuple(args)), named)
        )

    def all_reduce(self, reduce_op: object, value: object) -> Any:
        """The parts of all replicas as one, in every replica; of a list, item by item."""
        return carried_out(
            "all_reduce", self._inner, lambda at: self._inner.all_reduce(at, reduce_op, own(value))
        )

    def all_gather(self, value: object, axis: int) -> Any:
        """The parts of all replicas joined along an axis, in every replica."""
        return carried_out(
            "all_gather", self._inner, lambda at: self._inner.all_gather(at, own(value), axis)
        )


def carried_out(
    name: str, inner: strategy.ReplicaStrategy, act: Callable[[Context], Operation[object]]
) -> Any:
    """A call of a strategy, in the context of this thread; what the user gets of it."""
    return shown(call(name, ledger_of(inner), act))


def plain(fn: Callable[..., object]) -> Callable[..., Operation[object]]:
    """A user's function as `varsim.distribute` calls one."""

    def called(context: Context, *args: object, **kwargs: object) -> Operation[object]:
        def function() -> object:
            given = (shown(value) for value in args)
            named = {key: shown(value) for key, value in kwargs.items()}
            return own(fn(*given, **named))

        return operation_of(context, function)

    return called
