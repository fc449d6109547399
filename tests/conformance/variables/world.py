"""One worker process of a case: its strategy, variables, optimizers and checkpoints."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from tests.conformance.records import Record, Values
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
        packs = [record["num_packs"]] if "num_packs" in record else []
        algorithm: Any = ALGORITHMS.get(record.get("cross_device_ops", ""), lambda: None)(*packs)
        return tf.MirroredStrategy(devices, algorithm)
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
