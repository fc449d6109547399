"""A program of reads and writes on a cluster: its machines, its run, and what is kept of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self

import numpy as np
from pydantic import Field, PositiveInt

from varsim.cluster.clock import Clock
from varsim.cluster.description.cluster import SlowWorker, check_ranks
from varsim.cluster.execution import Execution, Host, Sent
from varsim.cluster.network.network import network
from varsim.cluster.network.topology import Star
from varsim.cluster.record.trace import LinkRow
from varsim.cluster.workers.slowdown import end_of, windows
from varsim.distribute.program import Program, VariableDescription
from varsim.distribute.program_run import (
    CROSS_REPLICA,
    ActionRecord,
    Algorithm,
    Mode,
    ProgramRun,
    VariableView,
)
from varsim.values.blas import one_blas_thread
from varsim.values.distributions import AnyDistribution, check_no_batch
from varsim.values.operation import DEFAULT_DEVICE, Device
from varsim.values.schema import Model
from varsim.values.stream import keyed, stream


class ReplicaCluster(Model):
    """Workers with one replica each, parameter servers, and the network between their machines.

    `compute`: how long the action `compute` takes. The outside acts on the machine of worker 0.
    """

    workers: PositiveInt = Field(le=1_000)
    """How many workers, each with one replica."""
    compute: AnyDistribution | None = None
    """Distribution of the times of the action `compute`."""
    slow_workers: tuple[SlowWorker, ...] = ()
    """Workers that are slower than the others."""
    parameter_servers: PositiveInt = Field(1, le=1_000)
    """How many servers share the variables of mode `none`, in turn."""
    network: Star
    """The links between the machines."""

    def refusals(self) -> Iterator[str]:
        if self.compute is not None:
            check_no_batch(self.compute)
        check_ranks(self.workers, (*self.slow_workers, *self.network.slow_links))
        if not self.network.plain or self.network.protocols is not None:
            yield (
                "network: programs of variables go over a star without message_overhead, flows or "
                "protocols"
            )


@dataclass(frozen=True, slots=True)
class ProgramTrace:
    """One finished run of a program under one mode: what was done, and what was sent."""

    mode: Mode
    replication: int
    began: int  # ns; when the variables had been created, and step 1 began
    end: int  # ns
    moved: int  # bytes sent over the network from step 1 on
    messages: int  # sent over the network from step 1 on
    all_acts: int  # of which `acts` may hold the first only
    all_sent: int  # messages of the whole run, of which `sent` may hold the first only
    acts: list[ActionRecord]  # in the order in which they ended
    sent: list[Sent]  # in the order in which they arrived
    links: list[LinkRow]
    views: list[VariableView]  # of every variable

    def totals(self) -> Self:
        """The same without its rows."""
        return replace(self, acts=[], sent=[], links=[], views=[])


@one_blas_thread()
def run_program(
    cluster: ReplicaCluster,
    program: Program,
    variables: Sequence[VariableDescription],
    mode: Mode,
    *,
    seed: int,
    replication: int,
    algorithm: Algorithm = "ring",
    most_acts: int | None = None,
    most_sent: int | None = None,
) -> ProgramTrace:
    """Run a program from start to end; what is written and computed depends on no mode.

    All is counted, of acts and messages the first `most_acts` and `most_sent` are kept.
    """
    clock = Clock()
    run = ProgramRun(
        program,
        variables,
        mode,
        cluster.workers,
        cluster.parameter_servers,
        # Streams are numbered from 0: the outside is the first.
        lambda replica: stream(seed, replication, "program", replica - CROSS_REPLICA),
        algorithm,
        most_acts,
    )
    star = network(clock, cluster.network)
    hosts: dict[Device, Host] = {}
    for rank, device in enumerate(run.devices):
        hosts[device] = star.host(f"worker {rank}", cluster.network.rate_of(rank))
    hosts[DEFAULT_DEVICE] = hosts[run.devices[0]]
    if mode == "none":
        for task in range(cluster.parameter_servers):
            hosts[Device("ps", task)] = star.host(f"ps {task}", cluster.network.server_rate)
    paces = [windows(cluster.slow_workers, rank) for rank in range(cluster.workers)]
    times = [_compute_times(cluster, rank, seed, replication) for rank in range(cluster.workers)]

    def compute_end(device: Device) -> int:
        return end_of(paces[device.task], clock.time, next(times[device.task]))

    ledger = _Ledger(run, most_sent)
    execution = Execution(clock, star, hosts, compute_end, ledger.note)
    (end,) = execution.run([run.operation()])
    return ProgramTrace(
        mode,
        replication,
        run.began,
        end,
        ledger.moved,
        ledger.messages,
        run.count,
        ledger.count,
        run.acts,
        ledger.kept,
        [LinkRow(link.name, link.bandwidth, link.moved) for link in star.carried(end)],
        run.views(),
    )


class _Ledger:
    """What was sent: all of it counted, the first rows kept."""

    def __init__(self, run: ProgramRun, most: int | None) -> None:
        self.kept: list[Sent] = []
        self.count = self.messages = self.moved = 0
        self._run, self._most = run, most

    def note(self, row: Sent) -> None:
        """One more message has arrived."""
        self.count += 1
        if self._most is None or self.count <= self._most:
            self.kept.append(row)
        if row.movement >= self._run.created:
            self.messages += 1
            self.moved += row.size


def _compute_times(
    cluster: ReplicaCluster, rank: int, seed: int, replication: int
) -> Iterator[int]:
    """How long each step of compute takes at full pace (ns): the draws of a training run."""
    if cluster.compute is None:
        return iter(())
    blocks = cluster.compute.together(rank, keyed(seed, replication))
    return chain.from_iterable(np.rint(block * 1e9).astype(np.int64).tolist() for block in blocks)
