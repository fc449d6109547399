"""Failures that strike inside a run: workers die in it, and are back some time later.

A failed host is noticed after `detection`, there again after its repair, or with a spare, and its
workers begin again `restart` after that. What that costs is told worker by worker, in attempts.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from varsim.cluster.clock import LAST
from varsim.cluster.description.recovery import LONGEST, Checkpoint, RandomFailures, Recovery
from varsim.cluster.failures.accounts import Fall, Gone, with_attempts
from varsim.cluster.failures.checkpoints import Saver
from varsim.cluster.failures.deaths import DeathWatch
from varsim.cluster.failures.strikes import Strike, Strikes
from varsim.cluster.record.evaluation import Evaluation
from varsim.cluster.record.ledger import Balance
from varsim.cluster.record.trace import Trace
from varsim.cluster.workers.job import Job

_NS: Final = 1e9
_FIRST: Final = 4.0  # failures of the job that are drawn at first
MOST: Final = 100_000  # failures in a run


class InterruptionRules(NamedTuple):
    """What fails inside a run, how it is saved, and how it comes back."""

    failures: RandomFailures
    checkpoint: Checkpoint | None
    recovery: Recovery
    chief: bool = False  # worker 0 restores the model whenever it begins again


class Interruptions:
    """Random failures of a run: they end workers and bring them back; attaches itself to a job.

    A server that fails ends all workers: when all servers and the chief are there, all begin again
    from what was saved. If the chief alone dies, it may restore that, too.
    """

    def __init__(
        self, job: Job, rules: InterruptionRules, evaluation: Evaluation, *, calm: bool
    ) -> None:
        workers, cluster = len(job.workers), job.cluster
        self._job, self._clock, self._evaluation = job, job.clock, evaluation
        self._deaths, self._processes = DeathWatch(job), job.processes
        job.processes.expect(returns=True, calm=calm)
        job.ledger.notes_meetings = True
        job.quiet.append(self._is_alone)
        job.accounts.append(self._accounted)
        job.processes.model_lost.append(self._lose_copies)
        self._saver: Saver | None = None
        if rules.checkpoint is not None or rules.failures.of_servers:
            self._saver = Saver(job, rules.checkpoint)
        self._chief = rules.chief and rules.checkpoint is not None
        self._machines = cluster.network.machines(workers)
        self._servers_there = 0  # when they are, or were (ns)
        self._sessions = 0  # that were to begin when servers had been lost
        self._model_lost = False  # it was on servers; or all copies of it:
        self._copies_lost = False
        self._gone: list[Gone] = []  # as often as the model was rolled back
        self._turns = 0
        self._each = cluster.workers_of_a_host
        self._detection = round(rules.failures.detection * _NS)
        self._restart = round(rules.recovery.restart * _NS)
        rate = rules.failures.rate(cluster, workers)
        self._drawn = _FIRST / rate if rate else LONGEST
        spares = rules.recovery.spares
        self._source = Strikes(
            rules.failures,
            spares,
            cluster,
            workers,
            seed=job.seed,
            replication=job.replication,
        )
        self._strikes = self._source.until(min(self._drawn, LONGEST))
        self._next = 0  # of the strikes
        self._falls: list[list[Fall]] = [[] for _ in range(workers)]
        self._away = 0  # workers that are down
        job.processes.detection = self._detection
        self._arm()

    def _is_alone(self) -> bool:
        """Whether nothing but further failures is left to happen: the run stands still."""
        return not self._away and all(
            priority == LAST or happen == self._strike for priority, happen in self._clock.ahead
        )

    def _arm(self) -> None:
        """The next failure will strike."""
        while self._next == len(self._strikes) and self._drawn < LONGEST:
            self._drawn *= 2
            self._strikes = self._source.until(min(self._drawn, LONGEST))
        if self._next < len(self._strikes):
            self._clock.call_first(self._strikes[self._next].time, self._strike)

    def _strike(self) -> None:
        """All failures of this instant, unless nothing is left that they could meet."""
        if self._is_alone():
            return
        now, strikes = self._clock.time, list[Strike]()
        while self._next < len(self._strikes) and self._strikes[self._next].time == now:
            strikes.append(self._strikes[self._next])
            self._next += 1
        struck, hosts = self._source.happen(strikes, now)
        hit = []
        machines = [host for host in sorted(hosts) if host < self._machines]
        for host in machines:
            first = host * self._each
            there = max(now + self._detection, self._source.hosts.there(host))
            for rank in range(first, min(first + self._each, len(self._falls))):
                hit += self._hit(rank, now, now + self._detection, there)
        if len(machines) < len(hosts):
            there_again = map(self._source.hosts.there, hosts.difference(machines))
            self._servers_there = max(self._servers_there, now + self._detection, *there_again)
            self._go_back(now)
            self._model_lost = True
        waits = self._model_lost and bool(hosts if self._copies_lost else 0 in hosts)
        if len(machines) < len(hosts) or waits:
            hit += self._begin_session(now, now + self._detection)
        if hit:
            # Of one failure that takes several workers the first tells.
            hit[0].failures += struck.failures
            hit[0].spares += struck.spares
        self._deaths.tell()
        if self._next > MOST:
            self._job.give_up(
                f"after {MOST:,} failures the run has made {self._job.global_step:,} updates "
                "and is not over: make failures rarer (failures.of), or stop the run earlier"
            )
        self._arm()

    def _hit(self, rank: int, now: int, noticed: int, there: int) -> list[Fall]:
        """A worker dies, or has to wait anew for its return; nothing where it has ended."""
        if self._processes.running(rank):
            self._deaths.kill(rank)
            self._falls[rank].append(Fall(rank, now))
            self._away += 1
        elif not self._processes.exits[rank].killed:
            return []
        fall = self._falls[rank][-1]
        fall.waits.append((now, noticed, there))
        fall.ready = there + self._restart
        if self._saver is not None and rank == 0:
            self._saver.breaks_off()
            fall.ready += self._saver.restores * self._chief
        self._turns += 1
        fall.turn = self._turns
        self._clock.call_first(fall.ready, partial(self._return, fall, fall.turn))
        return [fall]

    def _go_back(self, now: int, *, died: bool = True) -> None:
        """The model is what was saved; whether all that worked on it have died."""
        since: Sequence[int] = [0] * len(self._falls)
        if self._saver is not None:
            since = self._saver.last.since
        self._gone.append(Gone(since, now, died))
        if self._saver is None:
            self._job.show_initial()
            self._job.roll_back(Balance())
        else:
            self._saver.restore()
            self._job.roll_back(self._saver.last.balance)

    def _lose_copies(self) -> None:
        """Nobody has a copy of the model any more: once all are there, all is as it was saved."""
        if self._copies_lost:
            return
        now = self._clock.time
        self._go_back(now)
        self._model_lost = self._copies_lost = True
        self._clock.call_first(now, partial(self._begin_session, now, now))

    def _begin_session(self, now: int, noticed: int) -> list[Fall]:
        """All workers wait until all servers, and the chief, are there with the model.

        Where copies were lost, they wait for each other.
        """
        there_of = self._source.hosts.there
        there = max(self._servers_there, noticed, there_of(0))
        if self._copies_lost:
            down = [own[-1].waits[-1] for own in self._falls if own and own[-1].back > now]
            hosts = map(there_of, range(self._machines))
            there = max(there, *hosts, *(until for _, _, until in down))
        self._sessions += 1
        ready = there + self._restart + (0 if self._saver is None else self._saver.restores)
        self._clock.call_first(ready, partial(self._begin_anew, self._sessions))
        hit = []
        for rank in range(len(self._falls)):
            hit += self._hit(rank, now, noticed, max(there, there_of(rank // self._each)))
        self._deaths.tell()
        return hit

    def _begin_anew(self, session: int) -> None:
        """The model is there, unless servers or the chief were struck again meanwhile."""
        if session != self._sessions:
            return
        now = self._clock.time
        at_start, self._model_lost, self._copies_lost = self._copies_lost, False, False
        if self._saver is not None:
            self._saver.begins(now)
        self._deaths.forget()
        self._job.begin_again()
        waiting = [own[-1] for own in self._falls if own and own[-1].back > now >= own[-1].ready]
        for fall in sorted(waiting, key=lambda one: one.turn):
            self._bring_back(fall, now, at_start=at_start)

    def _return(self, fall: Fall, turn: int) -> None:
        """A worker begins again, unless it was struck anew meanwhile, or there is no model."""
        now = self._clock.time
        if fall.turn != turn or self._model_lost or fall.back <= now:
            return
        if fall.rank == 0 and self._chief and self._saver is not None:
            self._go_back(now, died=False)
            self._evaluation.measure()
            self._saver.begins(now)
        self._bring_back(fall, now)

    def _bring_back(self, fall: Fall, now: int, *, at_start: bool = False) -> None:
        fall.back = now
        self._away -= 1
        self._deaths.restart(fall.rank, at_start=at_start)

    def _accounted(self, trace: Trace) -> Trace:
        """The trace of the run with what all time of all its workers went into."""
        known = self._falls, self._gone, self._saver, self._job.cluster.set_up
        return with_attempts(trace, self._job.ledger, *known)
