"""How a worker that begins again comes by the model, where no server has it."""

from collections.abc import Sequence
from functools import partial

from simpy.events import Event

from varsim.cluster.clock import Activity
from varsim.cluster.deadlock import restart_all
from varsim.cluster.job import Job
from varsim.cluster.trace import Phase
from varsim.cluster.transport import nothing
from varsim.cluster.worker import Worker


class Recovery:
    """The first worker that has the model sends it: all parameters, over the network.

    Should that worker die meanwhile, which is noticed when all should have come, another sends it.
    If no running worker has it any more, it is lost, and whoever needs it waits for ever.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._without: set[int] = set()  # who has begun again and does not have it yet
        self._unserved: list[Event] = []  # of those who found nobody that has it

    def fetch(self, worker: Worker) -> Activity[None]:
        """Wait until the model is there."""
        job = self._job
        yield from worker.catch_up()
        self._without.add(worker.rank)
        whole = False
        while not whole:
            arrived = Event(job.clock)
            source = self._source()
            if source is None:
                worker.waits(Phase.READ, "the model, which no running worker has")
                self._unserved.append(arrived)
                yield arrived
                worker.goes_on()
            else:
                life = source.restarts
                worker.waits(Phase.READ, f"the model from worker {source.rank}")
                route = job.network.route(source.place, worker.place)
                job.network.pass_on(route, job.workload.size(), nothing, partial(_happen, arrived))
                yield arrived
                whole = job.failures.running(source.rank) and source.restarts == life
                worker.goes_on()
        self._without.discard(worker.rank)
        unserved, self._unserved = self._unserved, []
        for event in unserved:
            event.succeed()

    def remedy(self, dead: Sequence[int]) -> str:
        """What would free a run that needs everybody; see `Job.explain`."""
        if self._source() is None:
            return "nothing can, as no running worker has the model any more"
        return restart_all(dead)

    def _source(self) -> Worker | None:
        for worker in self._job.workers:
            if self._job.failures.running(worker.rank) and worker.rank not in self._without:
                return worker
        return None


def _happen(event: Event) -> None:
    event.succeed()
