"""One worker process of a case: its strategy, variables, optimizers and checkpoints."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from tests.conformance.variables.records import Record, Values, array
from varsim import tf
from varsim.distribute.central import DefaultStrategy
from varsim.distribute.mirrored_strategy import MultiWorkerMirroredStrategy

T = TypeVar("T")

PARTITIONERS: Final = {
    "fixed_shards": tf.FixedShardsPartitioner,
    "min_size": tf.MinSizePartitioner,
    "max_size": tf.MaxSizePartitioner,
}


ALGORITHMS: Final[dict[str, Callable[..., object]]] = {
    "reduction_to_one_device": tf.ReductionToOneDevice,
    "hierarchical_copy": tf.HierarchicalCopyAllReduce,
    "nccl": tf.NcclAllReduce,
}


class MissingError(tf.DistributionError):
    """A step names what was never made: the recording program looked it up in a dict."""

    tensorflow = "KeyError"


class Named(dict[str, T]):
    """What exists, by name; MissingError for what does not."""

    def __missing__(self, name: str) -> T:
        raise MissingError("UNKNOWN", f"{name} was not made")


@dataclass
class World:
    """Everything that a step of a case can name. `worker`: which process this is."""

    strategy: tf.Strategy
    worker: int
    variables: Named[tf.Variable] = field(default_factory=Named)
    optimizers: Named[tf.Adam | tf.SGD] = field(default_factory=Named)
    checkpoints: Named[dict[str, Values]] = field(default_factory=Named)
    pending: dict[str, Values] = field(default_factory=dict)  # restored when it comes to exist
    other: tf.Strategy = field(
        default_factory=lambda: tf.MirroredStrategy([tf.Device(), tf.Device(number=1)])
    )

    @contextmanager
    def context(self, name: str) -> Iterator[None]:
        """The context of a step, but for `replica`; entering it may be refused."""
        with ExitStack() as scopes:
            if name in ("other_scope", "nested_scopes"):
                scopes.enter_context(self.other.scope())
            if name not in ("outside", "other_scope"):
                scopes.enter_context(self.strategy.scope())
            yield

    def restart(self, strategy: Record) -> None:
        """Drop all but the checkpoints."""
        self.strategy = make_strategy(strategy, self.worker)
        self.variables, self.optimizers, self.pending = Named(), Named(), {}


class Handed:
    """The values that one step hands over: each is made once, so that it stays one object."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made: dict[tuple[int, int], object] = {}

    def value(self, record: Record) -> Any:
        """A value in the context of this thread; in a replica its own part, outside a container."""
        if "list" in record:
            return [self.value(item) for item in record["list"]]
        if "variable" in record:
            return self._world.variables[record["variable"]]
        if "literal" in record:
            return record["literal"]
        strategy = self._world.strategy.inner
        replica = tf.get_replica_context()
        for form in ("per_replica", "literals"):
            if form in record:
                parts = [
                    self._made_once(record, index, record[form][strategy.replica_id(index)], device)
                    for index, device in enumerate(strategy.devices)
                ]
                if replica is not None:
                    ids = [strategy.replica_id(index) for index in range(len(parts))]
                    return parts[ids.index(replica.replica_id_in_sync_group)]
                return tf.PerReplica(parts) if len(parts) > 1 else parts[0]
        if "mirrored" in record:
            devices = strategy.devices
            parts = [tf.Tensor(array(record["mirrored"]), device) for device in devices]
            return tf.Mirrored(parts) if len(parts) > 1 else parts[0]
        if "numpy" in record:
            return self._made_once(record, 0, record["numpy"], None)
        return self._made_once(record, 0, record["tensor"], strategy.current)

    def _made_once(
        self, record: Record, index: int, data: object, device: tf.Device | None
    ) -> object:
        if not isinstance(data, dict):
            return data  # a number
        key = (id(record), index)
        if key not in self._made:
            value = array(data)
            self._made[key] = value if device is None else tf.Tensor(value, device)
        return self._made[key]


def make_worlds(record: Record) -> list[World]:
    """One world per worker process."""
    shared: Named[dict[str, Values]] = Named()
    workers = record["workers"] if record["kind"] == "multi_worker_mirrored" else 1
    return [
        World(make_strategy(record, worker), worker, checkpoints=shared)
        for worker in range(workers)
    ]


def make_strategy(record: Record, worker: int) -> tf.Strategy:
    """The strategy of one worker process."""
    kind = record["kind"]
    devices = [
        tf.Device(number=index) for index in record.get("devices", range(record["replicas"]))
    ]
    if kind == "default":
        return tf.Strategy(DefaultStrategy())
    if kind == "one_device":
        return tf.OneDeviceStrategy(devices[0])
    if kind == "mirrored":
        return tf.MirroredStrategy(devices, _algorithm(record))
    if kind == "central_storage":
        return tf.CentralStorageStrategy(devices, tf.Device(number=record["parameter_device"]))
    if kind == "multi_worker_mirrored":
        workers = record["workers"]
        own = [tf.Device(task=worker, number=i) for i in range(record["replicas"] // workers)]
        implementation = tf.CommunicationImplementation[record.get("implementation", "AUTO")]
        inner = MultiWorkerMirroredStrategy(own, worker, workers, implementation)
        return tf.MultiWorkerMirroredStrategy(inner)
    assert kind == "parameter_server", kind
    settings = dict(record.get("partitioner", {}))
    cut = PARTITIONERS[settings.pop("kind")](**settings) if settings else None
    return tf.ParameterServerStrategy(record["servers"], cut)


def _algorithm(record: Record) -> Any:
    name = record.get("cross_device_ops")
    if name is None:
        return None
    return ALGORITHMS[name](*([record["num_packs"]] if "num_packs" in record else []))


def number(device: tf.Device) -> int:
    """The number by which a case names a device."""
    return device.number
