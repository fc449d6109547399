"""Elastic averaging SGD: copies explore on their own, and are drawn to a centre, and it to them."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from varsim.cluster.clock import Activity
from varsim.cluster.copies.drifting import ElasticReplicas
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.record.memory import Copies, Holds
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker, restart_any
from varsim.strategies.base import Strategy
from varsim.strategies.traits import Round, Sends, Traits


class ElasticAveraging(Strategy):
    """Every `period` steps, a copy and the centre on the servers are drawn towards each other.

    Replicas: (1) compute a gradient on their own copy; at steps 0, period, 2 period, ... (2) fetch
    the centre, (3) take the elastic difference, `moving_rate` times copy less centre, from their
    copy, (4) send it to the servers, which add it to the centre, variable by variable, as it
    arrives; (5) apply the gradient of (1) to their copy. One that restarts (0) takes the centre
    for its copy. What is measured is the centre.
    Nobody waits for anybody (algorithm 1); the forms in which workers take turns, or all exchange
    with one centre at one moment, are not offered.
    `moving_rate`: 0.9 divided by the workers by default, the paper's choice; 0 is training alone.
    Zhang, Choromanska, LeCun, 2015 (Deep Learning with Elastic Averaging SGD).
    """

    kind: Literal["easgd"] = "easgd"
    period: PositiveInt = 10
    """Local steps between two exchanges with the centre."""
    moving_rate: Annotated[float, Field(ge=0, le=1)] | None = None
    """How far a copy and the centre move toward each other."""

    def replica(self, worker: Worker, copies: ElasticReplicas) -> Activity[None]:
        """One replica's training loop."""
        if worker.restarts:
            yield from copies.recover(worker)  # (0)
        while True:
            gradient = yield from worker.compute_gradient(copies.read(worker))  # (1)
            yield from copies.by_rank(worker)
            if copies.steps[worker.rank] % self.period == 0:
                centre = yield from copies.fetch(worker)  # (2)
                difference = copies.draw(worker, centre)  # (3)
                yield from copies.push(worker, difference)  # (4)
            yield from worker.update_copy()
            copies.apply(worker, gradient)  # (5)
            yield from copies.settle()

    def start(self, job: Job) -> None:
        workers = len(job.workers)
        rate = 0.9 / workers if self.moving_rate is None else self.moving_rate
        copies = ElasticReplicas(job, rate)
        job.observe(lambda: copies.centre, copies.divergence, at_any_time=True)
        job.explain(restart_any)
        for worker in job.workers:
            job.start_on(worker, self.replica, worker, copies)

    @classmethod
    def example(cls, workers: int) -> dict[str, object]:
        """Exchanges that come soon."""
        return {"period": 2}

    @property
    def traits(self) -> Traits:
        return Traits(
            Sends("parameters", to="centre"), Round("iteration", steps=self.period, gradients=1)
        )

    def holds(self, cluster: Cluster) -> Holds:
        """And the centre that is fetched, which the elastic difference takes the place of."""
        return super().holds(cluster) + Holds(device=(Copies("the fetched centre"),))

    called: ClassVar[str] = "elastic averaging (EASGD)"
    about: ClassVar[str] = (
        "workers' own copies and a centre on the servers, drawn towards each other"
    )
    also_known_as: ClassVar[tuple[str, ...]] = ("elastic", "elastic_averaging")
    about_values: ClassVar[tuple[str, ...]] = ("moving_rate",)
    others: ClassVar[Mapping[str, object]] = {
        "period": 3,
        "moving_rate": 0.5,
    }
