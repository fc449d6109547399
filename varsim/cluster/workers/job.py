"""One run of one strategy, alive: clock, network, workers, and what is recorded of them."""

from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, count, repeat
from typing import Final, TypeVarTuple

import numpy as np

from varsim.cluster.clock import END_OF_TIME, Activity, Clock
from varsim.cluster.description.cluster import Cluster, Stop
from varsim.cluster.network.network import network
from varsim.cluster.record.ledger import Balance, Ledger
from varsim.cluster.record.trace import LinkRow, RunRecorder, Standstill, Trace
from varsim.cluster.workers.worker import Processes, Remedy, Worker, report, restart_any, slowness
from varsim.core.distribution import Floats, Stream
from varsim.core.stream import keyed
from varsim.learning.gradient import Gradients, Parameters
from varsim.learning.task import Batches
from varsim.learning.workload import Workload

Ts = TypeVarTuple("Ts")

_TOO_LONG: Final = "the end of time"
_NOTHING: Final[Batches] = np.empty(0)  # a batch where no gradient is worked out
_diverging = np.errstate(over="ignore", invalid="ignore", divide="ignore")  # numpy need not warn


class DeadlockError(Exception):
    """A strategy deadlocked: since when, who waits for what, why, and what frees it."""


class TooLongError(Exception):
    """A run goes on for longer than the clock counts."""


class Job:
    """One run; strategies start their processes in it and it keeps the books.

    It knows no failures, checkpoints or evaluations: they attach themselves. `on_observe(model,
    divergence)`: a strategy has shown its model, or read it. `on_update`: the model was updated.
    `on_rollback`: it is what it was before. `on_server(server)`: one was made. `on_end(lost)`: the
    run is over, and whether nobody has the model. `quiet`: asked whether all that is left to happen
    is of no effect. `accounts`: what is added to the trace.
    `lazy` and `record` exist for measurements of the simulator itself: no result depends on `lazy`,
    and without `record` a run leaves no spans.
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
        lazy: bool = True,
        record: bool = True,
    ) -> None:
        self.cluster = cluster
        self.workload = workload
        self.seed = seed
        self.replication = replication
        self.clock = Clock()
        self.recorder = RunRecorder(spans=record, sends=replication == 0)
        self.task = workload.problem.task(seed, replication)
        variables = enumerate(workload.problem.variables())
        self.trained = [index for index, spec in variables if spec.has_gradient]
        self.ledger = Ledger(self.recorder, len(self.trained), workload.batch_size)
        self.gradients = Gradients(self.task, lazy, self.trained, workload.batch_size)
        self.network = network(self.clock, cluster.network)
        self.on_observe: list[Callable[[Parameters, float], None]] = []
        self.on_update: list[Callable[[], None]] = []
        self.on_rollback: list[Callable[[], None]] = []
        self.on_server: list[Callable[[object], None]] = []
        self.on_end: list[Callable[[bool], None]] = []
        self.quiet: list[Callable[[], bool]] = []
        self.accounts: list[Callable[[Trace], Trace]] = []
        self.may_break_off = False  # whether gradients may be given up before they are sent
        self.seen_at_reads_only = False  # see `observe`
        self.stopped_by = ""
        self.sends_on = False  # something was still on its way when the run came to its end
        self._stop = stop
        self._gives_up = ""  # why the run cannot go on
        self._model: Callable[[], Parameters] | None = None
        self._initial: Parameters = ()
        self._divergence: Callable[[], float] | None = None
        self._remedy: Remedy = restart_any
        self._last_step, self._last_example = stop.most  # of all made, what is undone included
        self._law = cluster.compute_distribution(workload)
        number = cluster.workers if workers is None else workers
        self._slow = slowness(cluster.stragglers)
        self.workers = [self._worker(rank) for rank in range(number)]
        self.processes = Processes(self.clock, number)
        self._start: Callable[[], None] = lambda: None
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

    def begin_again(self) -> None:
        """The processes of the strategy, none of which runs, are made anew."""
        self._start()

    def roll_back(self, to: Balance) -> None:
        """The model is what it was: what was done to it since is undone, and is to be done anew."""
        self.ledger.roll_back(to)
        steps, examples = self._stop.most
        self._last_step = steps + self.ledger.undone
        self._last_example = examples + self.ledger.examples_undone
        for function in self.on_rollback:
            function()

    def show_initial(self) -> None:
        """Nobody has a copy: until all begin anew, an outsider finds what they will begin as."""
        self._model, self._divergence = lambda: self._initial, None

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
        self.processes.start(worker, lambda: function(*args), role, waits_for)

    def streams(self, purpose: str, number: int) -> Stream:
        """The random streams, block by block, that somebody (of this number) draws from."""
        return keyed(self.seed, self.replication)(purpose, number)

    def spawn(self, activity: Activity[None]) -> None:
        """Start a process that is on no worker, and never dies."""
        self.clock.process(activity)

    def round_gradients(self) -> None:
        """Gradients are sent, and so rounded, if the workload says so."""
        precision = self.workload.gradient_precision
        if precision is not None and self.workload.round_gradients:
            self.gradients.round_to(precision)

    def allow_breaking_off(self) -> None:
        """Gradients may be given up before they are sent; to be said before any is computed."""
        self.may_break_off = True

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
        """Say where an outsider finds the model, and reads it at no cost.

        Where copies differ (`divergence` is given), that takes a read, for the strategy to arrange
        (`evaluate`), unless it has none and is looked at from outside (`at_any_time`).
        """
        self._model = model
        self._divergence = divergence
        self.seen_at_reads_only = divergence is not None and not at_any_time
        self._initial = model()
        self.evaluate(self._initial)

    def model(self) -> Parameters:
        """The model as an outsider finds it now; one array per variable."""
        assert self._model is not None, "the strategy shows no model"
        return self._model()

    def divergence(self) -> float:
        """Largest distance between two copies of the model now; 0 where there is one."""
        return self._divergence() if self._divergence else 0.0

    def evaluate(self, parameters: Parameters, divergence: float = 0.0) -> None:
        """The model has been read as these parameters: whoever measures it does so now."""
        for function in self.on_observe:
            function(parameters, divergence)

    @property
    def nobody_has_the_model(self) -> bool:
        """Whether somebody has died, and nobody has the model any more."""
        return self.processes.died and self.processes.nobody_has_the_model()

    def count_step(self) -> None:
        """The model has been updated once more; ends the run if that was enough."""
        ledger = self.ledger
        ledger.count_step(self.clock.time)
        for function in self.on_update:
            function()
        if ledger.global_step >= self._last_step:
            self.end("global_steps")
        elif ledger.examples >= self._last_example:
            self.end("examples")

    def end_after(self, events: int) -> None:
        """End the run, by "events", once so many more have been put on the heap."""
        self.clock.call_after(events, lambda: self.end("events"))

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
        if self._gives_up:
            raise TooLongError(f"{label}: {self._gives_up}")
        last = self.clock.time
        standstill = None if self.stopped_by else self._stands_still(label)
        end, recorder, ledger = self.clock.time, self.recorder, self.ledger
        model_lost = self.processes.nobody_has_the_model()
        if model_lost and self.processes.model_lost:  # all will begin from the start
            self.processes.lose_model()
            model_lost = False
        for function in self.on_end if self._model is not None else ():
            function(model_lost)
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
        for account in self.accounts:
            trace = account(trace)
        return trace

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
        exits = self.processes.exits
        moments = [worker.since for worker in self.workers]
        moments += [one.time for one in exits.values()]
        self.clock.time = max(moments + list(self.recorder.steps[-1:]))
        if len(exits) == len(self.workers) and not all(one.killed for one in exits.values()):
            self.stopped_by = "chief"
            return None
        self.stopped_by = "deadlock"
        now, known = self.clock.time, (self.workers, self.processes, self._remedy, bool(self.quiet))
        said = Standstill(now, report(label, self.global_step, now, *known))
        if self._stop.time is not None:
            self.clock.time = round(self._stop.time * 1e9)
        return said

    def _time_is_up(self) -> None:
        """At the end of its time, too, a run of which nothing is left has stood still."""
        if not self._idle:
            self.end("time")

    def _clock_ends(self) -> None:
        """No further; where nothing is left to happen and no time to pass, the run stands still."""
        if not self._idle or self._stop.time is not None:
            self.end(_TOO_LONG)

    @property
    def _idle(self) -> bool:
        """Whether nothing is left to happen that has an effect."""
        return self.clock.idle or any(quiet() for quiet in self.quiet)

    def give_up(self, why: str) -> None:
        """End the run by a TooLongError: why it will not come to its end."""
        self._gives_up = why
        self.end("giving up")

    def end(self, reason: str) -> None:
        """End the run; the first reason is told."""
        if not self.stopped_by:
            self.stopped_by = reason
            self.clock.stop()

    def _worker(self, rank: int) -> Worker:
        cluster = self.cluster
        slowdown = self._slow.get(rank, [(0, 1.0)])
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
