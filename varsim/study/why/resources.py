"""How busy everything was that could be the bottleneck: links, servers, the workers themselves."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from varsim.cluster.description.servers import Overheads
from varsim.cluster.record.trace import Phase, Trace
from varsim.cluster.servers.placement import traffic_per_port
from varsim.scenario.training import Scenario
from varsim.study.gradients import NANOSECONDS, GradientTable
from varsim.study.metrics import utilization, worker_time

Kind: TypeAlias = Literal["port", "link", "shared", "handling", "compute"]

# `worker 3 up`, `ps 0, 2..4 down`, `card 0 of node 1 up`: whose it is, which, and the rest.
_NAME: Final = re.compile(r"(\D*?) ?((?:\d+(?:\.\.\d+)?(?:, )?)+)(.*)")
_OWN: Final[dict[str, Kind]] = {"ps": "port", "worker": "link"}
ALIKE: Final = 0.02  # shares nearer to each other than this share a row


class ResourceUse(NamedTuple):
    """How much of the time, or of what it could carry, something was used, 0 to 1.

    `owner`: whose it is, or what, and `numbers` which of them; `does`: what of it, as `up`, `down`
    or `computing`. `kind`: a server's port, a worker's own link, any other link, what servers do
    with requests, a worker's computing.
    """

    owner: str
    numbers: tuple[int, ...]
    does: str
    kind: Kind
    share: float

    @classmethod
    def of_link(cls, name: str, share: float) -> "ResourceUse":
        """That of a link, by its name in the network."""
        found = _NAME.fullmatch(name)
        if found is None:
            return cls(name, (), "", "shared", share)
        owner, which, does = found.groups()
        ends = [list(map(int, run.split(".."))) for run in which.split(", ")]
        numbers = tuple(number for run in ends for number in range(run[0], run[-1] + 1))
        own = _OWN.get(owner) if does in (" up", " down") else None
        return cls(owner, numbers, does.strip(), own or "shared", share)

    def alike(self, other: "ResourceUse") -> bool:
        """Whether both are of one owner and direction, and about as busy."""
        same = self.numbers and (self.owner, self.does) == (other.owner, other.does)
        return bool(same and other.numbers) and abs(self.share - other.share) < ALIKE


def uses(scenario: Scenario, traces: Sequence[Trace]) -> list[ResourceUse]:
    """Everything that was used, as the mean over replications, busiest first; like ones together.

    `scenario` has one strategy, and these are its runs.
    """
    found = [*_links(traces), *_handling(scenario, traces), *_computing(traces)]
    found = [use for use in found if use.share > 0]
    found.sort(key=lambda use: -use.share)
    rows: list[list[ResourceUse]] = []
    for use in found:
        row = next((row for row in rows if row[0].alike(use)), None)
        if row is None:
            rows.append([use])
        else:
            row.append(use)
    return [_joined(row) for row in rows]


def _links(traces: Sequence[Trace]) -> Iterator[ResourceUse]:
    for rows in zip(*(trace.links for trace in traces), strict=True):
        used = [
            utilization(row.moved, row.bandwidth, trace.end)
            for row, trace in zip(rows, traces, strict=True)
        ]
        yield ResourceUse.of_link(rows[0].name, math.fsum(used) / len(used))


def _handling(scenario: Scenario, traces: Sequence[Trace]) -> Iterator[ResourceUse]:
    """What the busiest server does for one gradient, as often as there was one."""
    if not scenario.strategies[0].traits.uses_servers:
        return
    handling, applying = _service_times(scenario)
    come = sum(int((GradientTable.of(trace).arrived >= 0).sum()) for trace in traces)
    rate = come * NANOSECONDS / sum(trace.end for trace in traces)
    # Of more than there is time for only so much has been done.
    yield ResourceUse("a server", (), "handling requests", "handling", min(1.0, rate * handling))
    yield ResourceUse("a server", (), "applying gradients", "handling", min(1.0, rate * applying))


def _service_times(scenario: Scenario) -> tuple[float, float]:
    """Seconds in which the busiest server handles the requests of a gradient, and applies it."""
    cluster, workload = scenario.cluster, scenario.workload
    overheads, update = cluster.overheads or Overheads(), cluster.server_update
    read = traffic_per_port(workload, cluster)
    pushed = [
        [size * ratio for size in column]
        for column, ratio in zip(read, workload.gradient_ratios(), strict=True)
    ]
    fullest = [float(max(map(sum, zip(*sizes, strict=True)))) for sizes in (read, pushed)]
    each = overheads.wake + overheads.pull + overheads.copying(fullest[0])
    handling = each + len(pushed) * overheads.push + overheads.copying(fullest[1])
    if update is None:
        return handling, 0.0
    columns = zip(*pushed, strict=True)
    applying = [sum(update.expectation(size) for size in own if size) for own in columns]
    return handling, max(one / update.threads for one in applying)


def _computing(traces: Sequence[Trace]) -> Iterator[ResourceUse]:
    splits = [worker_time(trace)[:, Phase.COMPUTE] / max(trace.end, 1) for trace in traces]
    for worker, shares in enumerate(zip(*splits, strict=True)):
        yield ResourceUse(
            "worker", (worker,), "computing", "compute", float(sum(shares)) / len(shares)
        )


def _joined(row: list[ResourceUse]) -> ResourceUse:
    """One row for those that are alike, with their mean."""
    numbers = tuple(sorted(number for use in row for number in use.numbers))
    return row[0]._replace(numbers=numbers, share=math.fsum(use.share for use in row) / len(row))
