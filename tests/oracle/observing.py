"""What a run of varsim left behind, in the form of `history`."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from tests.oracle.history import Doing, Fate, History, Measured, Put, Taken
from varsim.cluster.clock import Activity
from varsim.cluster.trace import Outcome, Phase
from varsim.cluster.waiting import TokenQueue
from varsim.cluster.worker import Worker
from varsim.scenario.training import Scenario
from varsim.study.simulation import Run, started


@contextmanager
def watched(put: list[Put], taken: list[Taken]) -> Iterator[None]:
    """See who puts tokens into the queue and who gets them."""
    enqueue, dequeue = TokenQueue.enqueue, TokenQueue.dequeue

    def seen_enqueue(self: TokenQueue, step: int, copies: int) -> None:
        if copies > 0:
            put.append(Put(self._clock.time, step, copies))
        enqueue(self, step, copies)

    def seen_dequeue(self: TokenQueue, worker: Worker) -> Activity[int]:
        step = yield from dequeue(self, worker)
        taken.append(Taken(self._clock.time, worker.rank, step))
        return step

    with (
        patch.object(TokenQueue, "enqueue", seen_enqueue),
        patch.object(TokenQueue, "dequeue", seen_dequeue),
    ):
        yield


def observed(scenario: Scenario, replication: int) -> History:
    """The first strategy of a scenario, in one replication, as `varsim run` runs it."""
    put: list[Put] = []
    taken: list[Taken] = []
    with watched(put, taken):
        job, strategy = started(Run(scenario, 0, replication))
        trace = job.run(strategy.label)
    return History(
        trace.stopped_by,
        trace.end,
        trace.steps.tolist(),
        put,
        taken,
        [Fate(*row[:9], Outcome(row[9]).name.lower(), row[10]) for row in trace.gradients.tolist()],
        [
            Doing(worker, Phase(phase).name.lower(), start, end, iteration)
            for worker, phase, start, end, iteration in trace.spans.tolist()
        ],
        [Measured(*row[:3]) for row in trace.evaluations],
    )
