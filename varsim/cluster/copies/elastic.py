"""Copies that are tied to a centre variable on the parameter servers by an elastic force."""

from varsim.cluster.clock import Activity, Ended
from varsim.cluster.copies.replicas import DriftingReplicas
from varsim.cluster.primitives import Instant
from varsim.cluster.servers.server import ParameterServer
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.learning.gradient import Parameters


class Difference:
    """Elastic difference of a worker's copy and the centre, on its way to the servers."""

    arrived = -1  # ns

    def __init__(self, rank: int, values: Parameters) -> None:
        self.rank = rank
        self.values = values  # by variable
        self.lost = False  # its worker has ended


class ElasticReplicas(DriftingReplicas):
    """Every worker's own copy of the model, and the centre, which is the model from outside.

    An exchange takes from the copy, and adds to the centre, `moving_rate` times what the copy and
    the centre that was read differ by.
    """

    def __init__(self, job: Job, moving_rate: float) -> None:
        super().__init__(job, counts_each=True)
        self._moving_rate = moving_rate
        self._server = ParameterServer(job, drops=False, whole=True)
        self._order = Instant(job.clock, in_turn=True)
        for worker in job.workers:
            worker.reads_ahead = False  # an exchange is part of the step that it comes after
        # Updates by each replica that are in its own copy, and that something of is in the centre.
        self._own = [0] * len(job.workers)
        self._in_centre = [0] * len(job.workers)
        self._all_in_centre = 0

    @property
    def centre(self) -> Parameters:
        """The centre variable as it is now."""
        return self._server.parameters

    def by_rank(self, worker: Worker) -> Activity[None]:
        """Of those who come at one moment, go on when those of lower ranks are through."""
        yield from self._order.wait(worker)

    def fetch(self, worker: Worker) -> Activity[Parameters]:
        """Read the centre."""
        if self._moving_rate:
            self._seen[worker.rank] = self._all_in_centre + self._not_in_centre(worker.rank)
        read = yield from self._server.fetch(worker)
        return read.parameters

    def draw(self, worker: Worker, centre: Parameters) -> Difference:
        """Draw a worker's copy toward the centre; by which difference."""
        rank = worker.rank
        values = tuple(
            [
                self._moving_rate * (own - middle)
                for own, middle in zip(self.copy(rank), centre, strict=True)
            ]
        )
        for variable, value in zip(self.variables, values, strict=True):
            variable.write(rank, variable.values[rank] - value)
        return Difference(rank, values)

    def push(self, worker: Worker, difference: Difference) -> Activity[None]:
        """Send a difference; every part is added to the centre as it arrives."""
        try:
            yield from self._server.push(worker, difference, self._receive)
        except Ended:
            difference.lost = True
            raise
        self._job.ledger.meet(worker.rank, self._job.clock.time)

    def _nobody_left(self) -> bool:
        """Never: the centre is the model."""
        return False

    def settle(self) -> Activity[None]:
        """See DriftingReplicas; so are all who have come at this moment."""
        yield from super().settle()
        yield from self._order.wait_for_all()

    def recover(self, worker: Worker) -> Activity[None]:
        """A worker that begins again takes the centre for its copy; new slots."""
        read = yield from self._server.fetch(worker)
        self._begin_with(worker.rank, read.parameters, self._all_in_centre)
        self._own[worker.rank] = self._in_centre[worker.rank]

    def _receive(self, variable: int, difference: Difference) -> None:
        if not difference.lost:
            self._server.write(variable, self.centre[variable] + difference.values[variable])
            if self._moving_rate:
                self._all_in_centre += self._not_in_centre(difference.rank)
                self._in_centre[difference.rank] = self._own[difference.rank]

    def _not_in_centre(self, rank: int) -> int:
        """How many updates of a worker's own its copy has, and the centre has not."""
        return self._own[rank] - self._in_centre[rank]

    def _made_step(self, rank: int) -> None:
        self._own[rank] += 1
        super()._made_step(rank)
