"""One run of one strategy in flat memory: laid out, carried on to its end, made a trace of."""

import math
from collections.abc import Sequence
from heapq import heapify
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.description import Cluster
from varsim.cluster.flat import layout as at
from varsim.cluster.flat.building import Building, NotCoveredError, enlarged, records
from varsim.cluster.flat.choice import NEVER, expected
from varsim.cluster.flat.compiled import compiled as compiled_loop
from varsim.cluster.flat.compiled import unmade
from varsim.cluster.flat.core import advance
from varsim.cluster.flat.draws import ComputeTimes
from varsim.cluster.flat.layout import Agenda
from varsim.cluster.flat.network import FlatNetwork
from varsim.cluster.flat.queues import FlatQueues
from varsim.cluster.flat.rules import Rules
from varsim.cluster.rows import Rows
from varsim.cluster.slowdown import windows
from varsim.cluster.stop import Stop
from varsim.cluster.trace import (
    PHASE_BITS,
    EvaluationRow,
    GradientRow,
    Outcome,
    Phase,
    Recorder,
    Trace,
    code_of,
)
from varsim.values.gradient import EXAMPLES, STACK
from varsim.values.workload import Workload

Ints: TypeAlias = NDArray[np.int64]

_KINDS: Final = {
    "asynchronous": at.ASYNCHRONOUS,
    "locking": at.LOCKING,
    "accumulators": at.SYNCHRONOUS,
    "cutoff": at.BACKUP,
}
# Integers in the log for each gradient, about; gradients for which there is room at first.
_IN_LOG: Final = 14
_ROOM: Final = 30_000
_MOST_ROOM: Final = 1 << 24  # where that is compiled
# As large as any time of the scenario may be, so that sums of many stay within 64 bits (ns).
_LONGEST: Final = 1 << 58


class FlatRun:
    """A run in flat memory; see `varsim.cluster.flat`.

    `events`: it ends, by "events", once so many have been put on the heap. `compile_at`: after so
    many gradients it goes on compiled, or begins so where it is to have as many. NotCoveredError of
    what comes to stand still, or takes longer than the clock counts.
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        stop: Stop,
        rules: Rules,
        *,
        seed: int,
        replication: int,
        workers: int,
        events: int | None = None,
        compile_at: int = NEVER,
    ) -> None:
        self._cluster, self._workload, self._stop, self._rules = cluster, workload, stop, rules
        self._workers, self._replication = workers, replication
        self._compile_at = compile_at
        self._expected = expected(stop, rules, workload)
        self._compiled = self._expected >= compile_at
        variables = enumerate(workload.problem.variables())
        self._trained = [number for number, spec in variables if spec.has_gradient]
        self._network = FlatNetwork(cluster, workload, workers, self._trained)
        self._queues = FlatQueues(cluster, workload, self._trained, seed, replication)
        self._times = ComputeTimes(cluster, workload, workers, seed, replication)
        self._m: Any  # see layout
        self._log: Any
        self._reals: Any
        self._heap: Any
        self._lay_out(events)

    def trace(self, label: str, *, record: bool = True) -> Trace:
        """Carry it on to its end; its trace."""
        while True:
            self._advance()
            why, self._m[at.HALT] = int(self._m[at.HALT]), 0
            if why == at.OVER:
                return self._traced(label, record)
            if why == at.STANDSTILL:
                raise NotCoveredError("it stands still, or never ends")
            if why == at.DRY:
                self._times.refill(self._m)
                self._queues.refill(self._m, self._reals)
            else:
                self._enlarge()

    def _advance(self) -> None:
        if self._compiled:
            try:
                self._heap = compiled_loop()(self._m, self._reals, self._log, self._heap)
            except unmade() as error:
                raise NotCoveredError(f"machine code cannot be made here: {error}") from error
        else:
            advance(self._m, self._reals, self._log, self._heap)

    def _lay_out(self, events: int | None) -> None:
        building, number = Building(at.SCALARS), self._workers
        m, variables = building.scalars, len(self._trained)
        m[at.STRATEGY], m[at.VARIABLES] = _KINDS[self._rules.kind], variables
        m[at.BATCH_SIZE] = self._workload.batch_size
        m[at.EVERY] = m[at.NEXT_LOOK] = self._workload.examples_between_evaluations(number)
        m[at.STACK] = max(1, min(STACK, EXAMPLES // self._workload.batch_size))
        m[at.MOST_STEPS] = self._stop.global_steps or NEVER
        m[at.MOST_EXAMPLES] = min(self._stop.examples or NEVER, NEVER)
        m[at.RING], m[at.KEPT] = building.room(number), building.room(number)
        m[at.THERE], m[at.ORDER] = building.room(variables), building.add(range(variables))
        m[at.ACCUMULATORS] = building.room(variables * at.ACCUMULATOR)
        m[at.NEEDED], m[at.TOKENS] = self._rules.needed, self._rules.tokens
        m[at.HEAD_LEFT] = max(0, self._rules.first)
        m[at.WORKER_COUNT] = number
        m[at.ROW] = at.NEXT + variables * (self._rules.kind == "accumulators")
        reals = self._queues.lay_out(building)
        m[at.CONFIRMS] = self._rules.kind in ("asynchronous", "cutoff")
        m[at.AT_ONCE] = m[at.THREADS] and self._rules.kind != "locking"
        workers = np.zeros((number, at.WORKER_SIZE), dtype=np.int64)
        workers[:, at.RANK] = np.arange(number)
        workers[:, at.MARK] = [code_of(rank, 0) for rank in range(number)]
        workers[:, at.ITERATION] = -1
        workers[:, at.PHASE] = Phase.BARRIER
        workers[:, at.GRADIENT] = -1
        sent = self._network.lay_out(building)
        workers[:, [at.OWN, at.PULL, at.PUSH]] = sent[:, :3]
        hops = np.cumsum(sent[:, 3:])
        starts = building.room(int(hops[-1])) + np.concatenate(([0], hops[:-1]))
        workers[:, [at.PULL_STARTS, at.PUSH_STARTS]] = starts.reshape(-1, 2)
        for rank in {slow.rank for slow in self._cluster.slow_workers if slow.rank < number}:
            slowness = windows(self._cluster.slow_workers, rank)
            if len(slowness) > 1:
                workers[rank, at.WINDOWS] = len(slowness)
                workers[rank, at.BOUNDS] = building.add([bound for bound, _ in slowness])
                workers[rank, at.FACTORS] = len(reals)
                reals += [factor for _, factor in slowness]
        self._queues.draw(building, reals)
        most = building.largest * max([1.0, *reals]) * number * variables
        if most > _LONGEST:
            raise NotCoveredError("its times are too long for sums of 64 bits")
        self._times.lay_out(building, workers)
        self._begin(building, workers, reals, events)

    def _begin(
        self, building: Building, workers: Ints, reals: list[float], events: int | None
    ) -> None:
        """All memory, and the heap, at time 0."""
        m, heap = building.scalars, Agenda()
        overheads, number = self._cluster.overheads, self._workers
        if self._stop.time is not None:
            time = min(round(self._stop.time * 1e9), END_OF_TIME + 1)
            heap.append((time, at.AT_LAST, at.TIME_IS_UP))
        if self._rules.kind == "accumulators":
            heap.append((0, at.URGENT + len(heap), at.CHIEF_STARTS))
        m[at.WORKERS] = building.add(workers)
        orders = at.URGENT + len(heap) + np.arange(number)
        addresses = int(m[at.WORKERS]) + at.WORKER_SIZE * np.arange(number)
        starts = (addresses << at.BITS | at.STARTS).tolist()
        heap += [(0, order, what) for order, what in zip(orders.tolist(), starts, strict=True)]
        m[at.MOST_NUMBER] = NEVER if events is None else len(heap) + events
        if self._stop.time is None or self._stop.time * 1e9 > END_OF_TIME:
            heap.append((END_OF_TIME, at.AT_LAST + len(heap), at.CLOCK_ENDS))
        m[at.NUMBER] = len(heap)
        heapify(heap)
        down = 0 if overheads is None else round(overheads.first_iteration * 1e9)
        workers[:, at.READY], workers[:, at.AWAITED] = down, orders
        codes = workers[:, at.MARK] + Phase.DOWN
        slack = number + 2
        gradients = min(self._expected, _MOST_ROOM if self._compiled else _ROOM) + 8 * slack
        m[at.ROWS] = m[at.BEGUN] = m[at.AHEAD] = building.size
        whole = building.built(gradients * int(m[at.ROW]))
        log = np.zeros(_IN_LOG * gradients + 2 * self._most_written() * slack, dtype=np.int64)
        if down:
            log[: 2 * number : 2], log[1 : 2 * number : 2] = down, codes
            whole[at.LOG] = 2 * number
        self._m, self._log, self._reals, self._heap = whole, log, reals, heap
        if self._compiled:
            self._compile()
        else:
            self._m, self._log = whole.tolist(), log.tolist()
        self._measure()

    def _compile(self) -> None:
        """Go on with arrays, compiled."""
        self._compiled = True
        self._m, self._log = np.asarray(self._m), np.asarray(self._log)
        self._reals = np.array(self._reals, dtype=np.float64)
        self._heap = np.array(self._heap, dtype=np.int64)

    def _enlarge(self) -> None:
        """Make more room for what is written as the run goes on."""
        m, slack = self._m, self._workers + 2
        if not self._compiled and (m[at.BEGUN] - m[at.ROWS]) // m[at.ROW] >= self._compile_at:
            self._compile()
            m = self._m
        rows = 2 * m[at.BEGUN] - m[at.ROWS] + 8 * slack * m[at.ROW]
        self._m = enlarged(m, rows)
        self._log = enlarged(self._log, 2 * m[at.LOG] + 2 * self._most_written() * slack)
        self._measure()

    def _measure(self) -> None:
        """When there must be more room."""
        m, slack = self._m, self._workers + 2
        m[at.ROWS_ROOM] = len(m) - slack * m[at.ROW]
        m[at.LOG_ROOM] = len(self._log) - self._most_written() * slack

    def _most_written(self) -> int:
        """Integers of the log that one event makes one worker write, at most."""
        return 32 + 4 * self._network.most_hops

    def _traced(self, label: str, record: bool) -> Trace:
        workers, m = records(self._m), [int(scalar) for scalar in self._m[: at.SCALARS]]
        end, row = m[at.NOW], m[at.ROW]
        log = np.asarray(self._log[: m[at.LOG]], dtype=np.int64).reshape(-1, 2)
        rows = np.asarray(self._m[m[at.ROWS] : m[at.BEGUN]], dtype=np.int64).reshape(-1, row)
        rows = rows[:, : len(GradientRow._fields)]
        values, codes = log[:, 0], log[:, 1]
        ended = (values[codes == at.ENDS] - m[at.ROWS]) // row
        open_ = rows[:, at.WORKER] >= 0
        begun = int(open_.sum())
        open_[ended] = False
        pending = rows[open_ & (rows[:, at.COMPUTED_AT] <= end)]
        pending[:, [at.APPLIED, at.APPLIED_STEP]] = -1
        pending[:, at.OUTCOME] = Outcome.PENDING
        assert begun == (workers[:, at.ITERATION] + 1).sum(), "a gradient was lost"
        again = _sent_again(log) if self._rules.kind == "cutoff" else {}
        recorder = Recorder(spans=record)
        if record:
            recorder.take(log[codes >= 0])
            recorder.take(self._waits(workers, end))
        links, sent = self._network.carried(self._m, workers, again, end)
        return Trace(
            strategy=label,
            replication=self._replication,
            workers=self._workers,
            variables=m[at.VARIABLES],
            batch_size=m[at.BATCH_SIZE],
            end=end,
            stopped_by=at.REASONS[m[at.STOPPED_BY]],
            global_step=m[at.STEP],
            span_rows=recorder.span_rows(self._workers, end),
            gradient_rows=Rows.of(np.concatenate((rows[ended], pending))),
            evaluations=self._evaluations(m, log, end),
            steps=values[codes == at.STEPS],
            copy_staleness=np.empty(0, dtype=np.int64),
            links=links,
            sent=sent,
            heap_events=m[at.NUMBER],
            gradients_evaluated=m[at.EVALUATED],
            gradients_aggregated=m[at.AGGREGATED],
        )

    def _waits(self, workers: Ints, end: int) -> Ints:
        """The last spans of those that wait at the end."""
        waiting = workers[workers[:, at.READY] < end]
        codes = waiting[:, at.MARK] + (waiting[:, at.ITERATION] << PHASE_BITS)
        codes += waiting[:, at.PHASE]
        return np.stack((np.full(len(waiting), end), codes), axis=1)

    def _evaluations(self, m: Sequence[int], log: Ints, end: int) -> list[EvaluationRow]:
        """When the model was looked at: at the start, after some steps, and at the end."""
        steps, looks = log[:, 1] == at.STEPS, np.flatnonzero(log[:, 1] == at.LOOKS)
        times = log[looks - 1, 0].tolist()  # of the step before it in the log
        counts, parts = np.cumsum(steps)[looks].tolist(), log[looks, 0].tolist()
        rows = [(0, 0, 0), *zip(times, counts, parts, strict=True)]
        if rows[-1][1] != m[at.STEP]:
            rows.append((end, m[at.STEP], m[at.PARTS]))
        batch, variables = m[at.BATCH_SIZE], m[at.VARIABLES]
        return [
            EvaluationRow(time, step, round(parts * batch / variables), math.nan, math.nan, 0.0)
            for time, step, parts in rows
        ]


def _sent_again(log: Ints) -> dict[tuple[int, int], list[int]]:
    """When batches started that were sent again too soon: by rank, and whether pushed."""
    found: dict[tuple[int, int], list[int]] = {}
    starts: list[int] = []
    for value, code in log[(log[:, 1] < at.LOOKS)].tolist():
        if code == at.STARTED:
            starts.append(value)
        else:
            starts = found.setdefault((value, code - at.AGAIN), [])
    return found
