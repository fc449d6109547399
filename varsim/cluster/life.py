"""The life of a job among random failures: attempts, each from a start to the next one.

All workers stop and begin again together, so that everything is counted in integer ns of the whole
job.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.course import Course, Saving, Steps
from varsim.cluster.description import Cluster
from varsim.cluster.recovery import Checkpoint, RandomFailures, Recovery
from varsim.cluster.striking import Strike, Strikes, Struck
from varsim.cluster.trace import Attempt

_NS: Final = 1e9


class Life:
    """The life of one job: it works, is saved, fails and begins again."""

    def __init__(
        self,
        failures: RandomFailures,
        checkpoint: Checkpoint | None,
        recovery: Recovery,
        cluster: Cluster,
        workers: int,
        steps: Steps,
        each: int,
        *,
        start_up: int,
        rounds: float = 0.0,
        seed: int,
        replication: int,
    ) -> None:
        assert failures.horizon is not None, "a life needs a horizon"
        self._failures, self._cluster, self._workers = failures, cluster, workers
        self._horizon = round(failures.horizon * _NS)
        self._always = failures.strike == "always"
        self._detection = round(failures.detection * _NS)
        restart = recovery.restart + (0.0 if checkpoint is None else checkpoint.restore)
        self._start_up = start_up
        self._restart = round(restart * _NS) + start_up
        down = self._detection + self._restart
        saving = saving_of(failures, checkpoint, cluster, workers, down, rounds)
        self._course = Course(steps, saving, self._horizon, each)
        struck_by = Strikes(
            failures, recovery.spares, cluster, workers, seed=seed, replication=replication
        )
        self._struck_by, self._hosts = struck_by, struck_by.hosts
        self._strikes = struck_by.until(failures.horizon)
        self._next = 0  # of the strikes

    def updates(self, attempts: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
        """When (ns) an update of the model was made, and which, up to so many; some more than once.

        After a rollback the steps since the last checkpoint are made again, from the values that
        it holds and with the same batches: nothing of an update depends on when it is made.
        """
        before = 0
        for row in attempts.tolist():
            one = Attempt(*row)
            for step in range(1, min(one.steps + one.steps_lost, most - before) + 1):
                end = self._course.end_of(step)
                if end is None:
                    return
                yield one.start + end, before + step
            before += one.steps
            if before >= most:
                return

    def attempts(self) -> NDArray[np.int64]:
        """All attempts up to the horizon (n, fields of Attempt); together they are as long."""
        found = np.array(list(self._attempts()), dtype=np.int64)
        assert found[:, 1:7].sum() == self._horizon, "the parts of a life are not its whole"
        return found

    def _attempts(self) -> Iterator[Attempt]:
        now = age = 0
        if self._start_up:
            one = self._down(Attempt(), now, 0, self._start_up)
            yield one
            now = one.down
            age = now if self._always else 0
        while (left := self._horizon - now) > 0:
            exposure = None
            ahead = self._strikes
            while self._next < len(ahead) and self._struck_by.is_over(ahead[self._next]):
                self._next += 1
            if self._next < len(self._strikes):
                exposure = self._strikes[self._next].time - age
            one, struck = self._course.attempt(exposure, left)
            one = one._replace(start=now)
            if not struck:
                yield one
                return
            age = self._strikes[self._next].time
            now += one.productive + one.checkpoint + one.lost
            yield (one := self._down(one, now, self._detection, self._restart, self._struck(now)))
            now += one.down
            age += one.down if self._always else 0

    def _down(
        self, one: Attempt, now: int, detection: int, restart: int, struck: Struck | None = None
    ) -> Attempt:
        """The attempt, with the time down from `now` on: struck again, it begins anew."""
        found = struck or Struck()
        parts = (0, 0, 0)
        while True:
            detected = now + detection
            ready = max(detected, self._hosts.complete)
            until = up = min(ready + restart, self._horizon)
            again = Struck()
            while self._always and not again.failures and self._strikes_before(up):
                until = self._strikes[self._next].time
                again = self._struck(until)
            if not again.failures:
                until = up
            parts = (
                parts[0] + min(until, detected) - now,
                parts[1] + max(0, min(until, ready) - detected),
                parts[2] + max(0, until - ready),
            )
            found = Struck(found.failures + again.failures, found.spares + again.spares)
            if not again.failures:
                return one._replace(
                    **dict(zip(("detection", "repair", "restart"), parts, strict=True)),
                    failures=found.failures,
                    spares=found.spares,
                )
            now, detection, restart = until, self._detection, self._restart

    def _strikes_before(self, time: int) -> bool:
        return self._next < len(self._strikes) and self._strikes[self._next].time < time

    def _struck(self, now: int) -> Struck:
        """All failures of one instant."""
        strikes: list[Strike] = []
        while not strikes or self._strikes_before(strikes[0].time + 1):
            strikes.append(self._strikes[self._next])
            self._next += 1
        return self._struck_by.happen(strikes, now)[0]


def saving_of(
    failures: RandomFailures,
    checkpoint: Checkpoint | None,
    cluster: Cluster,
    workers: int,
    down: int,
    rounds: float = 0.0,
) -> Saving:
    """How a job is saved, in ns, which is down for so long after a failure.

    `rounds`: how long those are (s), if a checkpoint is only written after a whole one.
    """
    if checkpoint is None:
        return Saving()
    every = checkpoint.interval(failures, failures.rate(cluster, workers), down / _NS, rounds)
    if checkpoint.every == "optimal" and rounds:
        every -= rounds / 2  # which is rounded up, whatever the first round took
    write = round(checkpoint.lasts * _NS)
    if checkpoint.mode == "blocking":
        exposed = failures.strike != "while_computing"
        return Saving(round(every * _NS), write, exposed=exposed)
    slowed = write - round(checkpoint.beside * _NS)
    return Saving(round(every * _NS), round(checkpoint.snapshot * _NS), write, slowed)
