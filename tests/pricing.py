"""A cluster for tests on which the time of an operation can be added up by hand.

A link carries 1 MB/s, so a byte takes 1 us; the latency is 100 us. All times are in us. A variable
is 1,000 float32 = 4,000 bytes, so that a copy of it is 4,000 us on a link and 4,100 us on the way.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from varsim.cluster.clock import Clock
from varsim.cluster.execution import Execution, Host, Sent
from varsim.cluster.link import Link
from varsim.cluster.network import network
from varsim.cluster.topology import Star
from varsim.distribute.container import Write
from varsim.distribute.context import Context
from varsim.distribute.strategy import Strategy
from varsim.distribute.tensor import Tensor, tensor
from varsim.distribute.variable import DistributedVariable, VariableOptions
from varsim.values.operation import CurrentTime, Device, Operation, finish
from varsim.values.variable import Aggregation, Synchronization

MB = 1e6  # bytes/s
US = 1_000  # ns

ON_WRITE, ON_READ = Synchronization.ON_WRITE, Synchronization.ON_READ
NONE, SUM, MEAN, FIRST = Aggregation
VALUE = np.arange(1_000, dtype=np.float32)
ZEROS = np.zeros(1_000, dtype=np.float32)

ONE_COPY = 4_000 + 100
# Over one link, one after the other or at half the rate each.
TWO_COPIES = 2 * 4_000 + 100

Sharing = Literal["first_come", "fair"]


class Hosts(dict[Device, Host]):
    """The links of every device; one that was given none gets its own when it is asked for."""

    def __init__(self, network: Any) -> None:
        self.network = network

    def __missing__(self, device: Device) -> Host:
        return self.share([device], 1.0)

    def share(self, devices: Sequence[Device], speed: float) -> Host:
        """One host for some devices, with links of `speed` MB/s."""
        host: Host = self.network.host(str(devices[0]), speed * MB)
        self.update(dict.fromkeys(devices, host))
        return host


class Priced:
    """A clock, a network and an execution; `compute`: how long a device computes per step (us)."""

    def __init__(self, sharing: Sharing, compute: Mapping[Device, int] = MappingProxyType({})):
        self.sharing: Sharing = sharing
        self.clock = Clock()
        self.network = network(self.clock, Star(bandwidth=MB, latency=1e-4, sharing=sharing))
        self.hosts = Hosts(self.network)
        self.compute = dict(compute)
        self.execution = Execution(self.clock, self.network, self.hosts, self._compute_end)

    def another(self) -> "Priced":
        """The same at time 0, all devices with links of their own."""
        return Priced(self.sharing, self.compute)

    def run(self, *operations: Operation[Any]) -> list[Any]:
        """One operation on each worker; their results."""
        return self.execution.run(operations)

    def cost(self, *operations: Operation[Any]) -> int:
        """How long one operation on each worker takes, until the last has ended."""
        self.run(*operations)
        return self.now

    @property
    def now(self) -> int:
        """The time on the clock."""
        return whole(self.clock.time)

    @property
    def sent(self) -> list[tuple[int, int, str, str, int, int, int]]:
        """Movement, round, source, target, bytes, start and end of what arrived, in that order."""
        return [_row(one) for one in self.execution.sent]

    def carried(self) -> dict[Link, float]:
        """The bytes that every link has carried."""
        return {link: link.moved for link in self.network.carried(self.clock.time)}

    def _compute_end(self, device: Device) -> int:
        return self.clock.time + self.compute[device] * US


def note(times: dict[Any, int], key: object) -> Operation[None]:
    """Write down when this is reached."""
    times[key] = whole((yield CurrentTime()))


def whole(nanoseconds: int) -> int:
    """A time on the clock, which must be a whole number of us."""
    assert nanoseconds % US == 0
    return nanoseconds // US


def _row(one: Sent) -> tuple[int, int, str, str, int, int, int]:
    places = (str(one.source), str(one.target))
    return (one.movement, one.round, *places, one.size, whole(one.start), whole(one.end))


def devices(count: int, kind: str = "cpu", task: int = 0) -> list[Device]:
    """Devices of one machine."""
    return [Device(task=task, number=number, kind=kind) for number in range(count)]


def made(
    strategy: Strategy,
    synchronization: Synchronization = ON_WRITE,
    aggregation: Aggregation = SUM,
    initial: object = ZEROS,
) -> DistributedVariable:
    """A variable that is there before the clock starts."""
    return finish(
        strategy.create(strategy.scope(), initial, VariableOptions(synchronization, aggregation))
    )


def own(context: Context, value: object = VALUE) -> Tensor:
    """A tensor of this replica, on its device."""
    return tensor(value, device=context.device)


def in_replicas(
    strategy: Strategy, act: Callable[[Context], Operation[object]]
) -> Operation[object]:
    """Every replica of a worker acts."""
    return strategy.run(strategy.scope(), act)


def writing(
    variable: DistributedVariable, op: Write = "assign", value: object = VALUE
) -> Operation[object]:
    """Every replica writes a tensor of its own."""
    assert variable.strategy is not None
    return in_replicas(
        variable.strategy, lambda context: variable.update(context, op, own(context, value))
    )


def reading(variable: DistributedVariable) -> Operation[object]:
    """Every replica reads."""
    assert variable.strategy is not None
    return in_replicas(variable.strategy, variable.read)


def elements(variable: DistributedVariable) -> list[list[float]]:
    """The first three elements of every copy."""
    return [copy[:3].tolist() for copy in variable.values]
