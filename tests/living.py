"""Live parts of a run, for tests of the parts: what uses these names internals."""

from collections.abc import Callable
from typing import Any

from tests.building import scenario
from varsim.cluster.job import Job
from varsim.cluster.link import Link
from varsim.cluster.topology.star import StarRouting
from varsim.cluster.worker import Worker


def job(strategy: str = "on_write", **changes: Any) -> Job:
    """A live job without processes; changes as in `scenario`."""
    made = scenario({"kind": strategy}, **changes)
    return Job(made.cluster, made.workload, made.stop, seed=made.seed, replication=0)


def play(job: Job, *activities: Any) -> None:
    """Let processes run until nothing is left to happen."""
    for activity in activities:
        job.spawn(activity)
    job.clock.run_until_stopped()


def ports(made: Job, rank: int) -> tuple[Link, Link]:
    """The links, up and down, of a worker on a star."""
    assert isinstance(made.network.routing, StarRouting)
    return made.network.routing.ports(made.workers[rank].place)


def at(job: Job, worker: Worker, time: int, then: Callable[[], Any]) -> Any:
    """A process of a worker that does nothing until `time` (ns)."""
    yield from job.clock.sleep_until(time)
    worker.ready_at = worker._since = time
    yield from then()
