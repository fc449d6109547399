"""One worker process of a case: its strategy, variables, optimizers and checkpoints."""

from dataclasses import dataclass, field
from typing import Final, TypeVar

from tests.conformance.variables.records import Record, Values, array
from varsim.distribute.all_reduce import ALGORITHMS
from varsim.distribute.central import (
    CentralStorageStrategy,
    DefaultStrategy,
    FixedShardsPartitioner,
    MaxSizePartitioner,
    MinSizePartitioner,
    OneDeviceStrategy,
    ParameterServerStrategy,
    Partitioner,
)
from varsim.distribute.container import Mirrored, PerReplica
from varsim.distribute.context import DEFAULT_CONTEXT, Context
from varsim.distribute.cross_device_ops import CrossDeviceOps, Implementation, ReductionToOneDevice
from varsim.distribute.mirrored_strategy import MirroredStrategy, MultiWorkerMirroredStrategy
from varsim.distribute.strategy import Strategy
from varsim.distribute.tensor import Tensor
from varsim.distribute.training import DistributedOptimizer
from varsim.distribute.variable import DistributedVariable
from varsim.values.operation import Device, DistributionError

T = TypeVar("T")

PARTITIONERS: Final[dict[str, type[Partitioner]]] = {
    "fixed_shards": FixedShardsPartitioner,
    "min_size": MinSizePartitioner,
    "max_size": MaxSizePartitioner,
}


class MissingError(DistributionError):
    """A step names what was never made: the recording program looked it up in a dict."""

    tensorflow = "KeyError"


class Named(dict[str, T]):
    """What exists, by name; MissingError for what does not."""

    def __missing__(self, name: str) -> T:
        raise MissingError("UNKNOWN", f"{name} was not made")


@dataclass
class World:
    """Everything that a step of a case can name. `worker`: which process this is."""

    strategy: Strategy
    worker: int
    variables: Named[DistributedVariable] = field(default_factory=Named)
    optimizers: Named[DistributedOptimizer] = field(default_factory=Named)
    checkpoints: Named[dict[str, Values]] = field(default_factory=Named)
    pending: dict[str, Values] = field(default_factory=dict)  # restored when it comes to exist
    other: Strategy = field(default_factory=lambda: MirroredStrategy([Device(), Device(number=1)]))

    def context(self, name: str) -> Context:
        """The context of a step, but for `replica`; entering it may be refused."""
        if name == "outside":
            return DEFAULT_CONTEXT
        if name == "other_scope":
            return self.other.scope()
        if name == "nested_scopes":
            return self.strategy.scope(self.other.scope())
        return self.strategy.scope()

    def restart(self, strategy: Record) -> None:
        """Drop all but the checkpoints."""
        self.strategy = make_strategy(strategy, self.worker)
        self.variables, self.optimizers, self.pending = Named(), Named(), {}


class Handed:
    """The values that one step hands over: each is made once, so that it stays one object."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made: dict[tuple[int, int], object] = {}

    def value(self, record: Record, context: Context) -> object:
        """A value in some context; in a replica its own part, outside a container."""
        if "list" in record:
            return [self.value(item, context) for item in record["list"]]
        if "variable" in record:
            return self._world.variables[record["variable"]]
        if "literal" in record:
            return record["literal"]
        strategy = self._world.strategy
        for form in ("per_replica", "literals"):
            if form in record:
                parts = [
                    self._made_once(record, index, record[form][strategy.replica_id(index)], device)
                    for index, device in enumerate(strategy.devices)
                ]
                if context.replica is not None:
                    return parts[context.replica]
                return PerReplica(parts) if len(parts) > 1 else parts[0]
        if "mirrored" in record:
            devices = strategy.devices
            parts = [Tensor(array(record["mirrored"]), device) for device in devices]
            return Mirrored(parts) if len(parts) > 1 else parts[0]
        if "numpy" in record:
            return self._made_once(record, 0, record["numpy"], None)
        return self._made_once(record, 0, record["tensor"], strategy.current)

    def _made_once(self, record: Record, index: int, data: object, device: Device | None) -> object:
        if not isinstance(data, dict):
            return data  # a number
        key = (id(record), index)
        if key not in self._made:
            value = array(data)
            self._made[key] = value if device is None else Tensor(value, device)
        return self._made[key]


def make_worlds(record: Record) -> list[World]:
    """One world per worker process."""
    shared: Named[dict[str, Values]] = Named()
    workers = record["workers"] if record["kind"] == "multi_worker_mirrored" else 1
    return [
        World(make_strategy(record, worker), worker, checkpoints=shared)
        for worker in range(workers)
    ]


def make_strategy(record: Record, worker: int) -> Strategy:
    """The strategy of one worker process."""
    kind = record["kind"]
    devices = [Device(number=index) for index in record.get("devices", range(record["replicas"]))]
    if kind == "default":
        return DefaultStrategy()
    if kind == "one_device":
        return OneDeviceStrategy(devices[0])
    if kind == "mirrored":
        return MirroredStrategy(devices, _algorithm(record))
    if kind == "central_storage":
        return CentralStorageStrategy(devices, Device(number=record["parameter_device"]))
    if kind == "multi_worker_mirrored":
        workers = record["workers"]
        own = [Device(task=worker, number=i) for i in range(record["replicas"] // workers)]
        implementation = Implementation[record.get("implementation", "AUTO")]
        return MultiWorkerMirroredStrategy(own, worker, workers, implementation)
    assert kind == "parameter_server", kind
    settings = dict(record.get("partitioner", {}))
    cut = PARTITIONERS[settings.pop("kind")](**settings) if settings else None
    return ParameterServerStrategy(record["servers"], cut)


def _algorithm(record: Record) -> CrossDeviceOps | None:
    name = record.get("cross_device_ops")
    if name is None:
        return None
    if name == "reduction_to_one_device":
        return ReductionToOneDevice()
    return ALGORITHMS[name](record.get("num_packs", 1))


def number(device: Device) -> int:
    """The number by which a case names a device."""
    return device.number
