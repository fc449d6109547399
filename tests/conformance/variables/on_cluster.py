"""Drivers of a replay: the steps of a case on the links of a cluster, and what they moved."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

from tests.conformance.records import Case
from tests.conformance.variables.replay import Replay, replay
from tests.conformance.variables.steps import Observed
from varsim.cluster.clock import Clock
from varsim.cluster.network.network import network
from varsim.cluster.network.topologies import Star
from varsim.cluster.programs import Execution, Host
from varsim.core.operation import (
    Computation,
    Movement,
    Operation,
    Parallel,
    finish_together,
)
from varsim.core.operation import (
    DeviceId as Device,
)

MB: Final = 1e6  # bytes/s
LATENCY: Final = 100_000  # ns
SPEEDS: Final = (1.0, 2.0, 4.0)  # MB/s, by the number of the device: replica 0 has the slowest link
PAUSE: Final = 10_000_000  # ns; more than any step of a case takes
MOST: Final = 10  # more than the workers of a case, or the replicas of a worker

# What was moved, in which round of its movement, from where to where, how many bytes.
Moved = tuple[str, int, Device, Device, int]


class Hosts(dict[Device, Host]):
    """The links of every device, of unequal speed, made when they are asked for."""

    def __init__(self, network: Any) -> None:
        self.network = network

    def __missing__(self, device: Device) -> Host:
        host: Host = self.network.host(str(device), _speed(device) * MB)
        self[device] = host
        return host


class OnCluster:
    """Carries out each step on a clock of its own, every device behind links of its own."""

    def __init__(self, sharing: Literal["first_come", "fair"]) -> None:
        self.steps: list[Step] = []
        self._star = Star(bandwidth=1e6, latency=LATENCY / 1e9, sharing=sharing)

    def __call__(self, operations: list[Operation[Observed]]) -> list[Observed]:
        """One operation on each worker."""
        clock = Clock()
        links = network(clock, self._star)
        hosts = Hosts(links)
        execution = Execution(clock, links, hosts)
        ended = False
        try:
            observed = execution.run(operations)
            ended = True
            return observed
        finally:
            links.carried(clock.time)
            moved = [(s.what, s.round, s.source, s.target, s.size) for s in execution.sent]
            up = Counter({device: int(up.moved) for device, (up, _) in hosts.items()})
            down = Counter({device: int(down.moved) for device, (_, down) in hosts.items()})
            self.steps.append(Step(clock.time, moved, up, down, ended))


class Step(NamedTuple):
    """What one step of a case took and moved: its time (ns), and bytes by device.

    `ended`: not by an error, which may come while others are still sending, or before they begin.
    """

    time: int
    moved: list[Moved]
    up: Counter[Device]
    down: Counter[Device]
    ended: bool


def check(case: Case, sharing: Literal["first_come", "fair"]) -> None:
    """The same values as without a clock; what moves is that, and takes the time it has to."""
    on_cluster, in_no_time = OnCluster(sharing), list[list[Movement]]()
    replay(case, on_cluster)

    def noted(operations: list[Operation[Observed]]) -> list[Observed]:
        in_no_time.append([])
        return finish_together(operations, in_no_time[-1])

    Replay(case, noted).run()
    for step, movements in zip(on_cluster.steps, in_no_time, strict=True):
        if step.ended:
            rows = moved(movements)
            assert sorted(step.moved) == sorted(rows)
            assert (step.up, step.down) == bytes_by_device(rows)
            least, most = bounds(movements)
            assert least <= step.time <= most


def backwards(operations: list[Operation[Observed]]) -> list[Observed]:
    """On a cluster where the last worker goes first, and of each the last replica."""
    clock = Clock()
    links = network(clock, Star(bandwidth=1e6, latency=LATENCY / 1e9))

    def compute_end(device: Device) -> int:
        return clock.time + (MOST - device.number) * PAUSE

    execution = Execution(clock, links, Hosts(links), compute_end)
    delayed = [_delayed(number, _each_delayed(one)) for number, one in enumerate(operations)]
    return execution.run(delayed)


def moved(movements: Sequence[Movement]) -> list[Moved]:
    """The transfers of movements."""
    return [
        (one.what, number, *transfer)
        for one in movements
        for number, transfers in enumerate(one.rounds)
        for transfer in transfers
    ]


def bytes_by_device(rows: Sequence[Moved]) -> tuple[Counter[Device], Counter[Device]]:
    """What every device sends and receives."""
    up, down = Counter[Device](), Counter[Device]()
    for _, _, source, target, size in rows:
        up[source] += size
        down[target] += size
    return up, down


def bounds(movements: Sequence[Movement]) -> tuple[float, float]:
    """The least and the most time (ns) that movements can take, by what a link carries.

    Least: the longest of them, if the transfers of a round do not meet. Most: one transfer after
    the other.
    """
    longest = together = 0.0
    for one in movements:
        own = 0.0
        for transfers in one.rounds:
            times = [_alone(*transfer) for transfer in transfers]
            own += LATENCY + max(times)
            together += LATENCY + sum(times)
        longest = max(longest, own)
    return longest, together


def _alone(source: Device, target: Device, size: int) -> float:
    """How long a transfer is on its links (ns); a byte takes 1,000 ns on one of 1 MB/s."""
    return size * 1_000 / min(_speed(source), _speed(target))


def _speed(device: Device) -> float:
    return SPEEDS[device.number % len(SPEEDS)]


def _delayed(number: int, operation: Operation[object]) -> Operation[object]:
    """An operation that starts after others with a higher number."""
    yield Computation(Device(number=number))
    return (yield from operation)


def _each_delayed(operation: Operation[object]) -> Operation[object]:
    """An operation whose parts that go on side by side start in reverse order."""
    answer: object = None
    while True:
        try:
            request = operation.send(answer)
        except StopIteration as end:
            return end.value
        if isinstance(request, Parallel):
            parts = enumerate(request.operations)
            request = Parallel(tuple(_delayed(number, part) for number, part in parts))
        answer = yield request
