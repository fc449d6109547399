"""One run of one strategy, alive: clock, network, workers, and what is recorded of them."""

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, count, repeat
from typing import Final, TypeVarTuple

import numpy as np

from varsim.cluster.clock import END_OF_TIME, Activity, Clock
from varsim.cluster.description.cluster import Cluster, Stop
from varsim.cluster.description.failures import ProcessEvent
from varsim.cluster.failures.checkpoints import Saver
from varsim.cluster.failures.deadlock import Remedy, report, restart_any
from varsim.cluster.failures.deaths import Cutoff, Failures
from varsim.cluster.failures.interruptions import MOST, Interruptions, Rules, Session
from varsim.cluster.network.network import network
from varsim.cluster.record.ledger import Balance, Ledger
from varsim.cluster.record.trace import EvaluationRow, LinkRow, Recorder, Standstill, Trace
from varsim.cluster.workers.worker import Worker, windows
from varsim.values.distribution import Floats, Stream
from varsim.values.gradient import Gradients, Parameters
from varsim.values.stream import keyed
from varsim.values.task import Batches, Floor
from varsim.values.workload import Workload

Ts = TypeVarTuple("Ts")

_TOO_LONG: Final = "the end of time"
_TOO_MANY: Final = "failures"
_NOTHING: Final[Batches] = np.empty(0)  # a batch where no gradient is worked out
_diverging = np.errstate(over="ignore", invalid="ignore", divide="ignore")  # numpy need not warn


class DeadlockError(Exception):
    """A strategy deadlocked: since when, who waits for what, why, and what frees it."""


class TooLongError(Exception):
    """A run goes on for longer than the clock counts."""


class Job:
    """One run; strategies start their processes in it and it keeps the books.

    `events` end processes and let them begin again, and so do random failures, by `rules`; `calm`:
    see Failures.
    `target_loss`: when it is reached is to be found out, besides that of the stop rule. `lazy` and
    `record` exist for measurements of the simulator itself: no result depends on `lazy`, and
    without `record` a run leaves no spans.
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        stop: Stop,
        *,
        seed: int,
        replication: int,
        workers: int | None = None,
        events: Sequence[ProcessEvent] = (),
        rules: Rules | None = None,
        calm: bool = False,
        target_loss: float | None = None,
        lazy: bool = True,
        record: bool = True,
    ) -> None:
        self.cluster = cluster
        self.workload = workload
        self.replication = replication
        self.clock = Clock()
        self.recorder = Recorder(spans=record, sends=replication == 0)
        self.task = workload.problem.task(seed, replication)
        variables = enumerate(workload.problem.variables())
        self.trained = [index for index, spec in variables if spec.has_gradient]
        self.ledger = Ledger(self.recorder, len(self.trained), workload.batch_size)
        self.gradients = Gradients(self.task, lazy, self.trained, workload.batch_size)
        self.network = network(self.clock, cluster.network)
        self.may_break_off = False  # whether gradients may be given up before they are sent
        self.stopped_by = ""
        self.sends_on = False  # something was still on its way when the run came to its end
        self._seed = seed
        self._stop = stop
        self._model: Callable[[], Parameters] | None = None
        self._initial: Parameters = ()
        self._divergence: Callable[[], float] | None = None
        self._at_reads_only = False
        self._remedy: Remedy = restart_any
        number = cluster.workers if workers is None else workers
        self._evaluate_every = workload.examples_between_evaluations(number)
        self._next_evaluation: float = self._evaluate_every
        self._last_step, self._last_example = stop.most  # of all made, what is undone included
        self._evaluated_step = -1  # global_step at the latest evaluation on the grid
        wanted = {loss for loss in (stop.loss, target_loss) if loss is not None}
        self._awaited = sorted(wanted)  # losses not reached yet, the next one last
        self._floor: Floor | None = None  # of the model that was looked at last
        self._law = cluster.compute_distribution(workload)
        self.workers = [self._worker(rank) for rank in range(number)]
        if events or rules:
            self.allow_breaking_off()
        known = self.clock, self.workers, self.network, self.ledger, events
        self.failures = Failures(*known, random=rules is not None, calm=calm)
        self.saver: Saver | None = None
        self._start: Callable[[], None] = lambda: None
        self._interruptions = None if rules is None else self._struck_by(rules)
        if stop.time is not None:
            self.clock.call_last(round(stop.time * 1e9), self._time_is_up)

    @property
    def global_step(self) -> int:
        """Updates that the model is made of; it falls when that goes back to what was saved."""
        return self.ledger.global_step - self.ledger.undone

    @property
    def updates(self) -> int:
        """Updates that have been made, whatever has become of them."""
        return self.ledger.global_step

    def begin(self, start: Callable[["Job"], None]) -> None:
        """Let a strategy start its processes, and start them anew when the model is lost."""
        self._start = partial(start, self)
        self._start()

    def _start_anew(self) -> None:
        """What was lost is there again: all is made anew, as it was saved last."""
        self.failures.forget()
        self._start()

    def _roll_back(self) -> None:
        """The model is what was saved last, or what it was at the start."""
        if self.saver is not None:
            self.saver.restore()
        else:  # nobody has a copy: until all begin anew an outsider finds what they will begin as
            self._model, self._divergence = lambda: self._initial, None
        self.ledger.roll_back(Balance() if self.saver is None else self.saver.balance)
        steps, examples = self._stop.most
        self._last_step = steps + self.ledger.undone
        self._last_example = examples + self.ledger.examples_undone
        self._evaluated_step = -1

    def start_on(
        self,
        worker: Worker,
        function: Callable[[*Ts], Activity[None]],
        *args: *Ts,
        role: str = "",
        waits_for: object = None,
    ) -> None:
        """Start a process on a worker: a function that waits, and its arguments.

        It dies with the worker; should that begin again, it is started anew, `worker.restarts`
        higher. One with a `role` is named, with what it waits for, if the run stands still.
        """
        self.failures.start(worker, lambda: function(*args), role, waits_for)

    def streams(self, purpose: str, number: int) -> Stream:
        """The random streams, block by block, that somebody (of this number) draws from."""
        return keyed(self._seed, self.replication)(purpose, number)

    def spawn(self, activity: Activity[None]) -> None:
        """Start a process that is on no worker, and never dies."""
        self.clock.process(activity)

    def round_gradients(self) -> None:
        """Gradients are sent, and so rounded, if the workload says so."""
        precision = self.workload.gradient_precision
        if precision is not None and self.workload.round_gradients:
            self.gradients.round_to(precision)

    def allow_breaking_off(self) -> None:
        """Gradients may be given up before they are sent; to be said before servers are made."""
        if not self.may_break_off:
            self.may_break_off = True
            for worker in self.workers:
                worker.remember_draws()

    def cutoff(self) -> Cutoff:
        """Steps that end before all have come; to be said before servers are made."""
        self.allow_breaking_off()
        return Cutoff(self.clock, self.workers, self.failures)

    def explain(self, remedy: Remedy) -> None:
        """Say what would free the run if it stands still; by default a restart of any worker."""
        self._remedy = remedy

    def observe(
        self,
        model: Callable[[], Parameters],
        divergence: Callable[[], float] | None = None,
        *,
        at_any_time: bool = False,
    ) -> None:
        """Say where an outsider finds the model; it is measured from time to time, for free.

        Always at the start and at the end. In between only where there is one model; where the
        copies differ (`divergence` is given), that takes a read, for the strategy to arrange,
        unless it has none and is looked at from outside (`at_any_time`). But until a loss is
        reached that is waited for, every update is looked at, of any strategy.
        """
        self._model = model
        self._divergence = divergence
        self._at_reads_only = divergence is not None and not at_any_time
        self._initial = model()
        self.evaluate(self._initial)

    def model(self) -> Parameters:
        """The model as an outsider finds it now; one array per variable."""
        assert self._model is not None, "the strategy shows no model"
        return self._model()

    def evaluate(self, parameters: Parameters, divergence: float = 0.0) -> None:
        """Measure loss and accuracy now."""
        loss = self.task.loss(parameters)
        self._record(parameters, loss, divergence, off_grid=False)
        undone, every = self.ledger.examples_undone, self._evaluate_every
        kept = self.ledger.examples - undone
        self._next_evaluation = (math.floor(kept / every) + 1) * every + undone

    def _measure(self) -> None:
        self.evaluate(self.model(), self._divergence() if self._divergence else 0.0)

    def _look(self) -> None:
        """Measure the model also off the grid, if its loss is one that is waited for."""
        if self.failures.died and self.failures.nobody_left():
            return
        parameters = self.model()
        if self._floor is not None and self._floor(parameters) > self._awaited[-1]:
            return
        loss = self.task.loss(parameters)
        if not loss <= self._awaited[-1]:
            self._floor = self.task.floor(parameters, loss)
        else:
            ends = self._stop.loss is not None and loss <= self._stop.loss
            divergence = self._divergence() if self._divergence else 0.0
            self._record(parameters, loss, divergence, off_grid=not ends)

    def _record(
        self, parameters: Parameters, loss: float, divergence: float, *, off_grid: bool
    ) -> None:
        if not off_grid:
            self._evaluated_step = self.ledger.global_step
        now, accuracy = self.clock.time, self.task.accuracy(parameters)
        examples = round(self.ledger.examples - self.ledger.examples_undone)
        self.recorder.evaluations.append(
            EvaluationRow(now, self.global_step, examples, loss, accuracy, divergence, off_grid)
        )
        while self._awaited and loss <= self._awaited[-1]:
            if self._awaited.pop() == self._stop.loss:
                self._end("loss")

    def count_step(self) -> None:
        """The model has been updated once more; ends the run if that was enough."""
        ledger = self.ledger
        ledger.count_step(self.clock.time)
        examples = ledger.examples
        if examples >= self._next_evaluation and not self._at_reads_only:
            self._measure()
        elif self._awaited:
            self._look()
        if ledger.global_step >= self._last_step:
            self._end("global_steps")
        elif examples >= self._last_example:
            self._end("examples")

    def end_after(self, events: int) -> None:
        """End the run, by "events", once so many more have been put on the heap."""
        self.clock.call_after(events, lambda: self._end("events"))

    @_diverging
    def run(self, label: str) -> Trace:
        """Run until the stop rule holds, or the run stands still.

        A run that stands still ends then, or lasts until the time at which it would be stopped.
        Raises TooLongError if the clock cannot count as far as that.
        """
        if (limit := self._stop.time) is None or limit * 1e9 > END_OF_TIME:
            self.clock.call_last(END_OF_TIME, self._clock_ends)
        self.clock.run_until_stopped()
        if self.stopped_by == _TOO_LONG:
            raise TooLongError(
                f"{label}: after 146 years (2^62 ns), as far as the clock counts, the run has made "
                f"{self.global_step:,} updates and is not over: 'varsim check' says what a step "
                "takes; make steps shorter or lower what stops the run"
            )
        if self.stopped_by == _TOO_MANY:
            raise TooLongError(
                f"{label}: after {MOST:,} failures the run has made {self.global_step:,} updates "
                "and is not over: make failures rarer (failures.of), or stop the run earlier"
            )
        last = self.clock.time
        standstill = None if self.stopped_by else self._stands_still(label)
        end, recorder, ledger = self.clock.time, self.recorder, self.ledger
        model_lost = self.failures.nobody_left()
        if model_lost and self.failures.random:  # all will begin from the start
            self.failures.copies_lost()
            model_lost = False
        measured = model_lost or self._evaluated_step == ledger.global_step
        if self._model is not None and not measured:
            self._measure()
        for worker in self.workers:
            worker.close(end)
        computing = ledger.close(end)
        begun = sum(worker.iteration + 1 for worker in self.workers)
        rows = recorder.gradient_rows()
        self.sends_on = last > end
        links, sent = self._carried(max(last, end))
        assert begun == len(rows) + computing, "a gradient was lost"
        trace = Trace(
            strategy=label,
            replication=self.replication,
            workers=len(self.workers),
            variables=ledger.variables,
            batch_size=self.workload.batch_size,
            end=end,
            stopped_by=self.stopped_by,
            global_step=self.global_step,
            span_rows=recorder.span_rows(len(self.workers), end),
            gradient_rows=rows,
            evaluations=recorder.evaluations,
            steps=np.asarray(recorder.steps, dtype=np.int64),
            copy_staleness=np.array(recorder.copy_staleness, dtype=np.int64),
            links=links,
            sent=sent,
            sending=ledger.sending,
            hidden=ledger.hidden,
            send_rows=ledger.sends(len(self.workers)),
            hand_overs=recorder.hand_over_rows(),
            heap_events=self.clock.heap_events,
            gradients_evaluated=self.gradients.evaluated,
            gradients_aggregated=ledger.aggregated,
            standstill=standstill,
            rolled_back=np.array(ledger.rolled_back) if ledger.rolled_back else None,
            model_lost=model_lost,
        )
        return trace if self._interruptions is None else self._interruptions.accounted(trace)

    @_diverging
    def carried_by(self, time: int) -> tuple[list[LinkRow], float]:
        """Run until a moment (ns) instead: what every link has carried by then, and `Trace.sent`.

        A run that stands still has gone on to the last message that nobody waited for: what had
        passed when it deadlocked, only the same run once more can tell.
        """
        self.clock.call_last(time, self.clock.stop)
        self.clock.run_until_stopped()
        return self._carried(time)

    def _carried(self, end: int) -> tuple[list[LinkRow], float]:
        links = self.network.carried(end)
        rows = [LinkRow(link.name, link.bandwidth, link.moved) for link in links]
        return rows, self.network.sent()

    def _stands_still(self, label: str) -> Standstill | None:
        """Nothing is left to happen: say so, and let the time pass that the run would last.

        Where all that run have ended in good order, that is the end of the run, and not said.
        """
        exits = self.failures.exits
        moments = [worker.since for worker in self.workers]
        moments += [one.time for one in exits.values()]
        self.clock.time = max(moments + list(self.recorder.steps[-1:]))
        if len(exits) == len(self.workers) and not all(one.killed for one in exits.values()):
            self.stopped_by = "chief"
            return None
        self.stopped_by = "deadlock"
        now, known = self.clock.time, (self.workers, self.failures, self._remedy)
        said = Standstill(now, report(label, self.global_step, now, *known))
        if self._stop.time is not None:
            self.clock.time = round(self._stop.time * 1e9)
        return said

    def _time_is_up(self) -> None:
        """At the end of its time, too, a run of which nothing is left has stood still."""
        if not self._idle:
            self._end("time")

    def _clock_ends(self) -> None:
        """No further; where nothing is left to happen and no time to pass, the run stands still."""
        if not self._idle or self._stop.time is not None:
            self._end(_TOO_LONG)

    @property
    def _idle(self) -> bool:
        """Whether nothing is left to happen, but failures that meet nothing."""
        struck = self._interruptions
        return self.clock.idle or (struck is not None and struck.alone)

    def _struck_by(self, rules: Rules) -> Interruptions:
        if rules.checkpoint is not None or rules.failures.of_servers:
            rate = self.cluster.network.worker_rate
            self.saver = Saver(rules.checkpoint, rate, self.ledger, len(self.workers))
        known = rules, self.clock, self.failures, self.cluster, len(self.workers)
        return Interruptions(
            *known,
            lambda: self._end(_TOO_MANY),
            Session(self._roll_back, self._measure, self._start_anew, self.saver),
            set_up=self.cluster.set_up,
            seed=self._seed,
            replication=self.replication,
        )

    def _end(self, reason: str) -> None:
        if not self.stopped_by:
            self.stopped_by = reason
            self.clock.stop()

    def _worker(self, rank: int) -> Worker:
        cluster = self.cluster
        slowdown = windows(cluster.slow_workers, rank)
        always = slowdown[0][1] if len(slowdown) == 1 else 1.0
        worker = Worker(
            self.clock,
            rank,
            self.network.routing.worker(rank),
            self._compute_times(rank, always),
            slowdown if len(slowdown) > 1 else [],
            self._batches(rank),
            self.ledger.in_flight,
            self.recorder.spans,
            round((cluster.optimizer_time or 0.0) * always * 1e9),
        )
        if cluster.set_up:
            worker.sets_up(cluster.set_up)
        return worker

    def _compute_times(self, rank: int, factor: float) -> Iterator[int]:
        blocks = self._law.together(rank, self.streams)
        return chain.from_iterable(map(partial(_nanoseconds, factor), blocks))

    def _batches(self, rank: int) -> Iterator[Batches]:
        if not self.task.has_values:
            return repeat(_NOTHING)
        size = self.workload.batch_size
        return chain.from_iterable(self.task.batches(rank, block, size) for block in count())


def _nanoseconds(factor: float, block: Floats) -> Iterable[int]:
    """Compute times (s), so many times as long; as an array, a fifth of a list of integers."""
    return array("q", np.rint(block * (factor * 1e9)).astype(np.int64).tobytes())
