"""A copy of its own for every replica, aggregated when somebody outside reads."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import PositiveInt

from varsim.cluster.clock import Activity
from varsim.cluster.collectives.algorithms import ring_all_reduce
from varsim.cluster.collectives.collective import Broadcast, Collective
from varsim.cluster.copies.replicas import LocalReplicas
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.fast import Reading
from varsim.cluster.primitives import Barrier
from varsim.cluster.record.memory import Copies, Holds
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.distribute.attributes import Aggregation
from varsim.strategies.base import Strategy
from varsim.strategies.traits import Round, Sends, Traits


class OnRead(Strategy):
    """Write locally, aggregate on reading.

    Replicas: (1) compute a gradient on their own copy, (2) apply it there. After every
    `read_every` steps the model is read from outside (evaluation, checkpoint): (3) all replicas
    meet, (4) the copies are aggregated over the network: mean and sum by all-reduce,
    only_first_replica needs no other copy, (5) the reader measures the result. Reading does not
    write; with `write_back` (6) every copy is set to what was read (sum: divided by the number
    of replicas), which makes it periodic averaging, also known as local SGD. A replica that
    restarts (0) gets what was read last from another, and goes on at its step.
    TensorFlow: VariableSynchronization.ON_READ. Stich, 2019 (local SGD).
    """

    kind: Literal["on_read"] = "on_read"
    read_every: PositiveInt = 10
    """Steps between two reads from outside."""
    aggregation: Literal["mean", "sum", "only_first_replica"] = "mean"
    """What a read makes of the copies."""
    write_back: bool = False
    """Whether what was read becomes every replica's copy (local SGD)."""

    def replica(
        self,
        job: Job,
        worker: Worker,
        copies: LocalReplicas,
        meeting: Barrier,
        moved: Collective | Broadcast | None,
    ) -> Activity[None]:
        """One replica's training loop."""
        if worker.restarts:
            yield from copies.recover(worker)  # (0)
        while True:
            if not copies.is_due(worker, self.read_every):  # as one is that begins again in a read
                gradient = yield from worker.compute_gradient(copies.read(worker))  # (1)
                yield from worker.update_copy()
                copies.apply(worker, gradient)  # (2)
            if copies.is_due(worker, self.read_every):
                if not copies.has_met(worker):
                    yield from meeting.wait(worker)  # (3)
                read = copies.outside_read(worker)  # (4)
                if moved is not None:
                    yield from moved.take_part(worker)
                if worker.rank == 0:
                    job.evaluate(read.parameters, read.divergence)  # (5)
                if self.write_back:
                    copies.write_back(worker, read)  # (6)
                copies.end_read(worker)

    def start(self, job: Job) -> None:
        copies = LocalReplicas(job, Aggregation[self.aggregation.upper()])
        meeting = Barrier(job.clock, len(job.workers))
        moved: Collective | Broadcast | None
        if copies.aggregation is not Aggregation.ONLY_FIRST_REPLICA:
            moved = Collective(job, ring_all_reduce(len(job.workers)), job.workload.size())
        else:
            moved = Broadcast(job, job.workload.size()) if self.write_back else None
        job.observe(copies.aggregate, copies.divergence)
        for worker in job.workers:
            job.start_on(worker, self.replica, job, worker, copies, meeting, moved)

    @classmethod
    def example(cls, workers: int) -> dict[str, object]:
        """Reads that come soon."""
        return {"read_every": 2}

    @property
    def traits(self) -> Traits:
        """See Strategy; its reads are collectives, unless they need only the copy that is there."""
        sends = Sends("parameters", to="workers")
        if self.aggregation == "only_first_replica":
            sends = Sends("parameters", "copies") if self.write_back else Sends("nothing", "nobody")
        return Traits(sends, Round("outer step", steps=self.read_every))

    def holds(self, cluster: Cluster) -> Holds:
        """And what is read, if that is another than the copies that it is of."""
        read = (Copies("the model that is read"),) * (self.sends.to == "workers")
        return super().holds(cluster) + Holds(device=read)

    def rules(self, cluster: Cluster) -> Reading | None:
        """See Strategy; not of whatever else may be said of it than this."""
        settings = ("kind", "name", "on", "optimizer", "read_every", "aggregation", "write_back")
        to = self.sends.to
        if to == "copies" or not self.says_only(settings):
            return None
        return Reading(self.read_every, to == "workers", self.write_back)

    called: ClassVar[str] = "sync on read"
    about: ClassVar[str] = "a copy per replica, aggregated when read from outside"
    others: ClassVar[Mapping[str, object]] = {
        "read_every": 3,
        "aggregation": "sum",
        "write_back": True,
    }
