"""How busy everything was that could be the bottleneck: links, servers, the workers themselves."""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeAlias

from varsim.cluster.overheads import Overheads
from varsim.cluster.placement import traffic_per_port
from varsim.cluster.trace import Phase, Trace
from varsim.scenario.training import Scenario
from varsim.study.gradients import Gradients
from varsim.study.measure import NANOSECONDS, utilization, worker_time

Kind: TypeAlias = Literal["port", "link", "shared", "handling", "compute"]

_NUMBERED: Final = re.compile(r"(.*?)(\d+)(?:\.\.\d+|(?:, \d+)+)?(.*)")
# Of a link, or of what a server does.
NUMBERED_LINK: Final = re.compile(r"(.*? )(\d+)( (?:up|down|clockwise|back|handling|applying))")
_OWN: Final = re.compile(r"(worker|ps) [0-9., ]+ (up|down)")
ALIKE: Final = 0.02  # shares nearer to each other than this share a row


class Use(NamedTuple):
    """How much of the time, or of what it could carry, something was used, 0 to 1.

    `kind`: a server's port, a worker's own link, any other link, what servers do with requests, a
    worker's computing.
    """

    name: str
    kind: Kind
    share: float


def uses(scenario: Scenario, traces: Sequence[Trace]) -> list[Use]:
    """Everything that was used, as the mean over replications, busiest first; like ones together.

    `scenario` has one strategy, and these are its runs.
    """
    found = [*_links(traces), *_handling(scenario, traces), *_computing(traces)]
    found = [use for use in found if use.share > 0]
    found.sort(key=lambda use: -use.share)
    rows: list[list[Use]] = []
    for use in found:
        row = next((row for row in rows if _alike(row[0], use)), None)
        if row is None:
            rows.append([use])
        else:
            row.append(use)
    return [_joined(row) for row in rows]


def busiest(found: Sequence[Use], kinds: Sequence[Kind]) -> Use | None:
    """The busiest of these kinds."""
    return next((use for use in found if use.kind in kinds), None)


def _links(traces: Sequence[Trace]) -> Iterator[Use]:
    for rows in zip(*(trace.links for trace in traces), strict=True):
        used = [
            utilization(row.moved, row.bandwidth, trace.end)
            for row, trace in zip(rows, traces, strict=True)
        ]
        yield Use(rows[0].name, _kind(rows[0].name), math.fsum(used) / len(used))


def _kind(link: str) -> Kind:
    own = _OWN.fullmatch(link)
    if own is None:
        return "shared"
    return "port" if own[1] == "ps" else "link"


def _handling(scenario: Scenario, traces: Sequence[Trace]) -> Iterator[Use]:
    """What the busiest server does for one gradient, as often as there was one."""
    if not scenario.strategies[0].uses_servers:
        return
    handling, applying = _service_times(scenario)
    come = sum(int((Gradients.of(trace).arrived >= 0).sum()) for trace in traces)
    rate = come * NANOSECONDS / sum(trace.end for trace in traces)
    # Of more than there is time for only so much has been done.
    yield Use("a server, handling requests", "handling", min(1.0, rate * handling))
    yield Use("a server, applying gradients", "handling", min(1.0, rate * applying))


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


def _computing(traces: Sequence[Trace]) -> Iterator[Use]:
    splits = [worker_time(trace)[:, Phase.COMPUTE] / max(trace.end, 1) for trace in traces]
    for worker, shares in enumerate(zip(*splits, strict=True)):
        yield Use(f"worker {worker} computing", "compute", float(sum(shares)) / len(shares))


def _alike(first: Use, other: Use) -> bool:
    """Whether both are of one kind and direction, and about as busy."""
    return one_kind(first.name, other.name) and abs(first.share - other.share) < ALIKE


def _joined(row: list[Use]) -> Use:
    """One row for those that are alike, with their mean."""
    if len(row) == 1:
        return row[0]
    share = math.fsum(use.share for use in row) / len(row)
    return Use(joined_name([use.name for use in row]), row[0].kind, share)


def one_kind(first: str, other: str, numbered: re.Pattern[str] = _NUMBERED) -> bool:
    """Whether two names are the same but for the number in them."""
    a, b = numbered.fullmatch(first), numbered.fullmatch(other)
    return a is not None and b is not None and a.group(1, 3) == b.group(1, 3)


def joined_name(names: Sequence[str], numbered: re.Pattern[str] = _NUMBERED) -> str:
    """One name for several of one kind: `worker 0..6 up`."""
    found = [match for name in names if (match := numbered.fullmatch(name))]
    ranks = sorted(int(match[2]) for match in found)
    # Of neighbours, rank minus place is the same.
    runs = [
        [rank for _, rank in run]
        for _, run in groupby(enumerate(ranks), key=lambda pair: pair[1] - pair[0])
    ]
    several = [f"{run[0]}..{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"{found[0][1]}{', '.join(several)}{found[0][3]}"
