"""The strategies of tf.distribute: scopes, replicas, reductions, and the extended API."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from varsim.cluster.programs import ReplicaCluster
from varsim.core.operation import DEFAULT_DEVICE, DeviceId
from varsim.distribute import central, mirrored_strategy, strategy
from varsim.distribute.attributes import ReduceOp
from varsim.distribute.container import PerReplica
from varsim.distribute.cross_device_ops import CrossDeviceOps, Implementation
from varsim.scenario.variables import VariablesScenario
from varsim.study.experiment import load
from varsim.tf.calls import Call, CallLog, current, inside, operation_of
from varsim.tf.extended import HELD, ReplicaContext, StrategyExtended, carried_out, plain
from varsim.tf.values import keep, own, shown

# What takes the place of a cluster: itself, or a scenario of variables (a file, its text, a dict).
ClusterLike = ReplicaCluster | VariablesScenario | str | Path | Mapping[str, object]


class Strategy:
    """A strategy of tf.distribute, carried out at once.

    `calls` holds what was called from outside of the replicas and what it moved: messages, bytes,
    and, with a `cluster`, the time that took on its links.
    """

    def __init__(self, inner: strategy.ReplicaStrategy, cluster: ClusterLike | None = None) -> None:
        self.inner = inner
        self.extended = StrategyExtended(inner)
        self._ledger = CallLog(_cluster(cluster))
        keep(inner, self._ledger)
        HELD[inner] = self

    @property
    def calls(self) -> list[Call]:
        """What was called from outside of the replicas, in order."""
        return self._ledger.calls

    @property
    def num_replicas_in_sync(self) -> int:
        """Replicas of all workers."""
        return self.inner.num_replicas_in_sync

    def scope(self) -> AbstractContextManager[None]:
        """Inside it variables are this strategy's; RuntimeError in another strategy's scope."""
        return inside(self.inner.scope(current()))

    def run(
        self,
        fn: Callable[..., object],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Any:
        """Call a plain function in every replica, each with its part of per-replica arguments.

        Replicas take turns, each until it waits for the others. Returns what they return, as a
        per-replica value where they differ. ValueError unless `args` is a list or tuple,
        RuntimeError if some replicas end while others wait for them.
        """
        return self.extended.call_for_each_replica(fn, args, kwargs)

    def reduce(
        self, reduce_op: ReduceOp | str, value: object, axis: int | Sequence[int] | None = None
    ) -> Any:
        """The parts of all replicas as one, on the current device; with `axis` along it as well."""
        return carried_out(
            "reduce", self.inner, lambda at: self.inner.reduce(at, reduce_op, own(value), axis)
        )

    def gather(self, value: object, axis: int) -> Any:
        """The parts of all replicas joined along an axis, in replica order."""
        return carried_out("gather", self.inner, lambda at: self.inner.gather(at, own(value), axis))

    def experimental_local_results(self, value: object) -> tuple[Any, ...]:
        """The parts of a value that belong to this worker."""
        return tuple(shown(part) for part in self.inner.local_results(own(value)))

    def experimental_distribute_values_from_function(
        self, value_fn: Callable[["ReplicaContext"], object]
    ) -> Any:
        """A value for each replica of this worker, made by `value_fn(context)`."""
        made = [
            own(value_fn(ReplicaContext(self.inner.replica_context(current(), index))))
            for index in range(len(self.inner.devices))
        ]
        return PerReplica(made) if len(made) > 1 else made[0]


class MirroredStrategy(Strategy):
    """A copy of each variable on every device, reduced over all (tf.distribute.MirroredStrategy).

    `devices`: how many GPUs, each on a machine of its own, or which devices. `cross_device_ops`:
    how values are reduced, else what TensorFlow chooses: NCCL for GPUs, a ring for CPUs.
    """

    def __init__(
        self,
        devices: int | Sequence[DeviceId] = 2,
        cross_device_ops: CrossDeviceOps | None = None,
        *,
        cluster: ClusterLike | None = None,
    ) -> None:
        places = _devices(devices)
        super().__init__(mirrored_strategy.MirroredStrategy(places, cross_device_ops), cluster)


class MultiWorkerMirroredStrategy(Strategy):
    """What one worker of several has; `run_workers` makes one for each."""


class CentralStorageStrategy(Strategy):
    """A replica on each device, variables on one (tf.distribute's CentralStorageStrategy)."""

    def __init__(
        self,
        compute_devices: int | Sequence[DeviceId] = 2,
        parameter_device: DeviceId = DEFAULT_DEVICE,
        *,
        cluster: ClusterLike | None = None,
    ) -> None:
        places = _devices(compute_devices)
        super().__init__(central.CentralStorageStrategy(places, parameter_device), cluster)


class ParameterServerStrategy(Strategy):
    """A coordinator, with variables on servers in turn (tf.distribute.ParameterServerStrategy).

    With a `variable_partitioner` variables of rank 1 and more are cut in shards.
    """

    def __init__(
        self,
        servers: int = 1,
        variable_partitioner: central.Partitioner | None = None,
        *,
        cluster: ClusterLike | None = None,
    ) -> None:
        super().__init__(central.ParameterServerStrategy(servers, variable_partitioner), cluster)

    def schedule(self, worker: int, fn: Callable[..., object], args: Sequence[object] = ()) -> Any:
        """Call a function on a worker, in a replica of its own (ClusterCoordinator.schedule)."""
        assert isinstance(self.inner, central.ParameterServerStrategy)
        context = self.inner.on_worker(DeviceId(task=worker, kind="gpu"))
        given = own(tuple(args))
        return carried_out("schedule", self.inner, lambda _: plain(fn)(context, *given))


class OneDeviceStrategy(Strategy):
    """One replica on one device (tf.distribute.OneDeviceStrategy)."""

    def __init__(
        self, device: DeviceId = DEFAULT_DEVICE, *, cluster: ClusterLike | None = None
    ) -> None:
        super().__init__(central.OneDeviceStrategy(device), cluster)


def run_workers(
    main: Callable[[MultiWorkerMirroredStrategy], object],
    workers: int = 2,
    replicas: int = 1,
    implementation: Implementation = Implementation.AUTO,
    *,
    cluster: ClusterLike | None = None,
) -> tuple[list[Any], Call]:
    """Run a program on every worker of a MultiWorkerMirroredStrategy, as each process would.

    `main(strategy)` is called once for each worker, with its strategy of `replicas` GPUs. Returns
    what each of them returned, and what all of it moved. RuntimeError if a worker waits in a
    collective for one that has ended.
    """
    strategies = []
    for worker in range(workers):
        places = [DeviceId(task=worker, number=index, kind="gpu") for index in range(replicas)]
        inner = mirrored_strategy.MultiWorkerMirroredStrategy(
            places, worker, workers, implementation
        )
        strategies.append(MultiWorkerMirroredStrategy(inner))
    ledger = CallLog(_cluster(cluster))
    mains = [operation_of(current(), main, (one,)) for one in strategies]
    results = ledger.carry_out("run_workers", mains)
    return results, ledger.calls[-1]


def _devices(given: int | Sequence[DeviceId]) -> Sequence[DeviceId]:
    """That many GPUs, each on a machine of its own, or those that are given."""
    if isinstance(given, int):
        return [DeviceId(task=rank, kind="gpu") for rank in range(given)]
    return given


def get_strategy() -> Strategy:
    """The strategy whose scope or replica this is; outside, the default one of one replica."""
    inner = current().strategy
    return HELD.get(inner, _DEFAULT) if isinstance(inner, strategy.ReplicaStrategy) else _DEFAULT


def has_strategy() -> bool:
    """Whether this is inside the scope of a strategy, or in a replica of one."""
    return get_strategy() is not _DEFAULT


def in_cross_replica_context() -> bool:
    """Whether this is inside the scope of a strategy and in none of its replicas."""
    return current().in_cross_replica


def get_replica_context() -> ReplicaContext | None:
    """The replica that this is in; None in none (tf.distribute.get_replica_context)."""
    context = current()
    return None if context.replica is None else ReplicaContext(context)


def device(place: DeviceId) -> AbstractContextManager[None]:
    """Inside it this device is the current one (tf.device)."""
    return inside(current().at(place))


def variable_sync_on_read_context() -> AbstractContextManager[None]:
    """Inside it ON_READ variables are aggregated when they are converted, in replicas as well."""
    return inside(current().aggregating())


def _cluster(given: ClusterLike | None) -> ReplicaCluster | None:
    """The cluster of a scenario of variables. TypeError for a scenario of training."""
    if given is None or isinstance(given, ReplicaCluster):
        return given
    scenario = given if isinstance(given, VariablesScenario) else load(given)
    if not isinstance(scenario, VariablesScenario):
        raise TypeError("cluster: give a scenario of `kind: variables`, whose network is a star")
    return scenario.cluster


_DEFAULT = Strategy(central.DefaultStrategy())
