"""One run of one strategy in flat memory: laid out, carried on to its end, made a trace of."""

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import END_OF_TIME, uncollected
from varsim.cluster.description import Cluster
from varsim.cluster.flat import layout as at
from varsim.cluster.flat.arrays import Start
from varsim.cluster.flat.building import (
    Building,
    NotCoveredError,
    check_sums,
    enlarged,
    records,
)
from varsim.cluster.flat.choice import NEVER, expected
from varsim.cluster.flat.compiled import INTERPRETED, Code, compiled, unmade
from varsim.cluster.flat.core import advance
from varsim.cluster.flat.draws import ComputeTimes
from varsim.cluster.flat.network import FlatNetwork
from varsim.cluster.flat.queues import FlatQueues
from varsim.cluster.flat.record import ROOM, Reader, Record
from varsim.cluster.flat.rules import Rules
from varsim.cluster.rows import BLOCK
from varsim.cluster.slowdown import windows
from varsim.cluster.stop import Stop
from varsim.cluster.trace import (
    PHASE_BITS,
    RANK_BITS,
    EvaluationRow,
    LinkRow,
    Outcome,
    Phase,
    Trace,
    code_of,
)
from varsim.values.workload import Workload

Ints: TypeAlias = NDArray[np.int64]
Event: TypeAlias = tuple[int, int, int]  # time, order, what

# Pairs in the log for each gradient, about; gradients after which it is read, at the latest.
_IN_LOG: Final = 7
_MOST_KEPT: Final = 500_000
# Transfers over fair links of all workers.
_MOST_TRANSFERS: Final = 1_000_000
# What machine code does until signals are handled and other threads run: at most about 0.1 s.
_SLICE: Final = 500_000
_KINDS: Final = {
    "asynchronous": at.ASYNCHRONOUS,
    "locking": at.LOCKING,
    "bounded": at.BOUNDED,
    "accumulators": at.SYNCHRONOUS,
    "cutoff": at.BACKUP,
}


class FlatRun:
    """A run of a strategy with parameter servers, in flat memory; see `varsim.cluster.flat`.

    `interpreted`: by Python, which takes longer than SimPy. NotCoveredError of what deadlocks,
    takes longer than the clock counts, or cannot be compiled.
    """

    def __init__(self, start: Start, rules: Rules, *, interpreted: bool = False) -> None:
        cluster, workload, stop, seed, replication, workers = start
        self._cluster, self._workload, self._stop = cluster, workload, stop
        self._workers, self._replication = workers, replication
        self._interpreted = interpreted
        self._expected = _room(cluster, workload, stop, rules, workers)
        variables = enumerate(workload.problem.variables())
        self._trained = [number for number, spec in variables if spec.has_gradient]
        self._drawn_from = seed, replication
        self._times: ComputeTimes
        self._m: Any  # see layout
        self._log: Any
        self._room: Ints  # for work
        self._in_log = 0  # gradients after which it is read, about
        self._reals: Any
        self._heap: Any
        self._rules, self._fair = rules, cluster.network.sharing == "fair"
        # Of a worker there is room for; who is called off leaves its own behind, on fair links.
        self._transfers = 2 if rules.kind == "cutoff" else 1
        self._has_chief = rules.kind == "accumulators"  # beside its workers
        self._network = FlatNetwork(cluster, workload, workers, self._trained)
        self._parts = 1  # in which a worker sends, at most
        self._queues: FlatQueues

    @uncollected()
    def trace(self, label: str, *, record: bool = True) -> Trace:
        """Carry it on to its end; its trace."""
        if self._interpreted:
            return self._carried_on(INTERPRETED, label, record)
        try:
            return self._carried_on(compiled(), label, record)
        except Exception as error:  # Ctrl-C while numba is imported must not import it again here
            if not isinstance(error, unmade()):
                raise
            raise NotCoveredError(f"machine code cannot be made here: {error}") from error

    def _carried_on(self, code: Code, label: str, record: bool) -> Trace:
        self._lay_out()
        rows = Record(self._workers)
        reader = Reader(code, rows, self._workers)
        while True:
            self._m[at.PATIENCE] = _SLICE
            code[advance](self._m, self._reals, self._log, self._heap)
            self._queues.draws.refill(self._m, self._reals)
            why, self._m[at.HALT] = int(self._m[at.HALT]), 0
            if why == 0:
                continue
            if why == at.STANDSTILL:
                raise NotCoveredError("it deadlocks, or never ends")
            if why == at.CROWDED:  # once more from the beginning, with more room
                self._transfers *= 2
                if self._transfers * self._workers > _MOST_TRANSFERS:
                    raise NotCoveredError("too many messages are on their way at once")
                return self._carried_on(code, label, record)
            if why == at.OVER:
                self._take_ended(rows)
                self._read(reader, record, last=True)
                return self._traced(rows, reader.steps(), reader.marks(), label)
            # One event may have wanted both: more draws, and more room.
            self._times.refill(self._m)
            self._make_room()
            if self._is_full():
                self._take_ended(rows)
                if self._m[at.LOG] > self._m[at.LOG_ROOM]:
                    self._read(reader, record, last=False)
                if self._is_full():
                    self._lay_out_log(2 * self._in_log)

    def _lay_out(self) -> None:
        building, number = Building(at.SCALARS), self._workers
        cluster, workload = self._cluster, self._workload
        each = self._expected // number
        self._times = ComputeTimes(cluster, workload, number, *self._drawn_from, each)
        m, variables = building.scalars, len(self._trained)
        m[at.VARIABLES], m[at.WORKER_COUNT] = variables, number
        m[at.BATCH_SIZE] = self._workload.batch_size
        m[at.EVERY] = m[at.NEXT_LOOK] = self._workload.examples_between_evaluations(number)
        m[at.MOST_STEPS] = self._stop.global_steps or NEVER
        m[at.MOST_EXAMPLES] = min(self._stop.examples or NEVER, NEVER)
        workers = np.zeros((number, at.WORKER_SIZE), dtype=np.int64)
        workers[:, at.RANK] = np.arange(number)
        workers[:, at.MARK] = code_of(0, 0) + (np.arange(number) << RANK_BITS)
        workers[:, at.ITERATION] = -1
        workers[:, at.PHASE] = Phase.BARRIER
        workers[:, at.GRADIENT] = -1
        reals: list[float] = []
        for rank in {slow.rank for slow in self._cluster.slow_workers if slow.rank < number}:
            slowness = windows(self._cluster.slow_workers, rank)
            if len(slowness) > 1:
                workers[rank, at.WINDOWS] = len(slowness)
                workers[rank, at.BOUNDS] = building.add([bound for bound, _ in slowness])
                workers[rank, at.FACTORS] = len(reals)
                reals += [factor for _, factor in slowness]
        self._lay_out_rules(building, workers, reals)
        self._times.lay_out(building, workers)
        self._begin(building, workers, reals)

    def _lay_out_rules(self, building: Building, workers: Ints, reals: list[float]) -> None:
        """Lay out who waits for whom, and over which links."""
        self._queues = FlatQueues(self._cluster, self._workload, self._trained, *self._drawn_from)
        m, number, variables = building.scalars, self._workers, len(self._trained)
        m[at.STRATEGY] = _KINDS[self._rules.kind]
        m[at.RING], m[at.KEPT] = building.room(number), building.room(number * variables)
        m[at.THERE], m[at.ORDER] = building.room(variables), building.add(range(variables))
        m[at.ACCUMULATORS] = building.room(variables * at.ACCUMULATOR)
        m[at.NEEDED], m[at.TOKENS] = self._rules.needed, self._rules.tokens
        m[at.HEAD_LEFT] = max(0, self._rules.first)
        m[at.BOUND], m[at.KEEPS] = min(self._rules.bound, NEVER), self._rules.keeps
        m[at.SLOWEST_COUNT] = number
        m[at.ROW] = at.NEXT + variables * (self._rules.kind == "accumulators")
        self._queues.lay_out(building, reals)
        m[at.CONFIRMS] = self._rules.kind in ("asynchronous", "bounded", "cutoff")
        m[at.AT_ONCE] = m[at.THREADS] and self._rules.kind != "locking"
        sent = self._network.lay_out(building)
        workers[:, [at.OWN, at.PULL, at.PUSH]] = sent[:, :3]
        hops = np.cumsum(sent[:, 3:])
        starts = building.room(int(hops[-1])) + np.concatenate(([0], hops[:-1]))
        workers[:, [at.PULL_STARTS, at.PUSH_STARTS]] = starts.reshape(-1, 2)
        self._queues.draws.lay_out(building, reals)
        check_sums(building.largest * max([1.0, *reals]) * number * variables)
        if self._fair:
            self._network.lay_out_fairly(building, workers, reals, self._transfers)
            self._parts = self._transfers * self._network.most_parts

    def _begin(self, building: Building, workers: Ints, reals: list[float]) -> None:
        """All memory, and the heap, at time 0."""
        m, before, after = building.scalars, list[Event](), list[Event]()
        number = self._workers
        if self._stop.time is not None:
            time = min(round(self._stop.time * 1e9), END_OF_TIME + 1)
            after.append((time, at.AT_LAST, at.TIME_IS_UP))
        if self._has_chief:
            before.append((0, at.URGENT + len(after), at.CHIEF_STARTS))
        m[at.WORKERS] = building.add(workers)
        starts = np.zeros((number, 3), dtype=np.int64)
        starts[:, 1] = orders = at.URGENT + len(before) + len(after) + np.arange(number)
        addresses = m[at.WORKERS] + at.WORKER_SIZE * np.arange(number)
        starts[:, 2] = addresses << at.BITS | at.STARTS
        put = len(before) + len(after) + number
        if self._stop.time is None or self._stop.time * 1e9 > END_OF_TIME:
            after.append((END_OF_TIME, at.AT_LAST + put, at.CLOCK_ENDS))
        agenda = np.concatenate(
            [
                np.array(some, dtype=np.int64).reshape(-1, 3)
                for some in (before, starts, sorted(after))
            ]
        )
        m[at.NUMBER] = m[at.EVENTS] = len(agenda)
        down = self._cluster.set_up
        workers[:, at.READY], workers[:, at.AWAITED] = down, orders
        m[at.ROWS] = m[at.NEW_ROW] = building.size
        slack = number + 2
        whole = building.built(2 * slack * int(m[at.ROW]))
        heap = np.zeros((len(agenda) + 2 * self._most_put(), 3), dtype=np.int64)
        heap[: len(agenda)] = agenda
        self._m, self._reals, self._heap = whole, np.array(reals), heap.reshape(-1)
        if self._interpreted:
            self._m, self._reals, self._heap = whole.tolist(), reals, heap.reshape(-1).tolist()
        # What is read in parts anyway is read often: that takes less memory.
        kept = self._expected if self._expected < _MOST_KEPT else _MOST_KEPT // 4
        self._lay_out_log(kept + 2 * slack)
        if down:
            codes = (workers[:, at.MARK] + Phase.DOWN).tolist()
            self._write([number for code in codes for number in (down, code)])

    def _lay_out_log(self, gradients: int) -> None:
        """A log with room for about so many gradients; what is left of the one before."""
        m, self._in_log = self._m, gradients
        left = self._log[m[at.MOST_ENDED] * at.FIELDS : m[at.LOG]] if m[at.LOG] else ()
        # Gradients that have ended are packed together, and taken sooner.
        most = min(gradients, BLOCK) + self._most_ended()
        first = most * at.FIELDS
        size = 2 * (_IN_LOG * gradients + self._most_written())
        memory = np.empty(first + 2 * size + ROOM, dtype=np.int64)
        self._log, self._room = memory[: first + size], memory[first + size :]
        if self._interpreted:
            self._log = [0] * len(self._log)
        m[at.MOST_ENDED], m[at.ENDED], m[at.LOG] = most, 0, first
        self._write(left)
        self._measure()

    def _write(self, pairs: Any) -> None:
        """Write integers at the end of the log."""
        m = self._m
        self._log[m[at.LOG] : m[at.LOG] + len(pairs)] = pairs
        m[at.LOG] += len(pairs)

    def _take_ended(self, rows: Record) -> None:
        """Hand over the gradients that have ended."""
        m = self._m
        log = np.asarray(self._log[: m[at.MOST_ENDED] * at.FIELDS], dtype=np.int64)
        rows.take_gradients(log.reshape(at.FIELDS, -1)[:, : m[at.ENDED]])
        m[at.ENDED] = 0

    def _read(self, reader: Reader, record: bool, *, last: bool) -> None:
        """Hand over what else has been written; the last time all of it."""
        m, now = self._m, int(self._m[at.NOW])
        if last:
            self._write(self._waits(now).reshape(-1))
        first = m[at.MOST_ENDED] * at.FIELDS
        log = np.asarray(self._log[first : m[at.LOG]], dtype=np.int64)
        left = reader.read(log, self._room, now, spans=record, last=last)
        m[at.LOG] = first
        self._write(left)

    def _make_room(self) -> None:
        """More room for gradients in flight and events, where there is little left of it."""
        m = self._m
        if m[at.NEW_ROW] > m[at.ROWS_ROOM]:
            self._m = enlarged(m, m[at.NEW_ROW] - m[at.ROWS])
        if m[at.EVENTS] > m[at.HEAP_ROOM]:
            self._heap = enlarged(self._heap, len(self._heap))
        self._measure()

    def _measure(self) -> None:
        """When there must be more room."""
        m = self._m
        m[at.ROWS_ROOM] = len(m) - (self._workers + 2) * m[at.ROW]
        m[at.HEAP_ROOM] = len(self._heap) // 3 - self._most_put()
        m[at.LOG_ROOM] = len(self._log) - 2 * self._most_written()
        m[at.ENDED_ROOM] = m[at.MOST_ENDED] - self._most_ended()

    def _is_full(self) -> bool:
        """Whether the log has to be read, or enlarged."""
        m = self._m
        return bool(m[at.LOG] > m[at.LOG_ROOM] or m[at.ENDED] > m[at.ENDED_ROOM])

    def _most_put(self) -> int:
        """Events that are put on the heap while one is served, at most."""
        return self._workers * self._parts + len(self._trained) + 8

    def _most_written(self) -> int:
        """Pairs of the log that are written, at most, before a full one is left."""
        return (self._workers + 2) * (18 + 2 * self._network.most_hops)

    def _most_ended(self) -> int:
        """Gradients that end, at most, before a full log is left."""
        m = self._m
        return int((len(m) - m[at.ROWS]) // m[at.ROW])

    def _traced(self, rows: Record, steps: Ints, marks: Ints, label: str) -> Trace:
        workers, m = records(self._m), [int(scalar) for scalar in self._m[: at.SCALARS]]
        end, row = m[at.NOW], m[at.ROW]
        open_ = np.asarray(self._m[m[at.ROWS] : m[at.NEW_ROW]], dtype=np.int64).reshape(-1, row)
        open_ = open_[(open_[:, at.WORKER] >= 0) & (open_[:, at.HAS_ENDED] == 0)]
        begun = len(rows.gradient_rows) + len(open_)
        assert begun == (workers[:, at.ITERATION] + 1).sum(), "a gradient was lost"
        pending = open_[open_[:, at.COMPUTED_AT] <= end]
        pending = pending[np.argsort(pending[:, at.COUNT]), : at.FIELDS]
        pending[:, [at.APPLIED, at.APPLIED_STEP]] = -1
        pending[:, at.OUTCOME] = Outcome.PENDING
        rows.take_gradients(pending.T)
        links, sent = self._carried(workers, marks, end)
        return Trace(
            strategy=label,
            replication=self._replication,
            workers=self._workers,
            variables=m[at.VARIABLES],
            batch_size=m[at.BATCH_SIZE],
            end=end,
            stopped_by=at.REASONS[m[at.STOPPED_BY]],
            global_step=m[at.STEP],
            span_rows=rows.span_rows(),
            gradient_rows=rows.gradient_rows,
            evaluations=self._evaluations(m, marks, end),
            steps=steps,
            copy_staleness=np.empty(0, dtype=np.int64),
            links=links,
            sent=sent,
            gradients_aggregated=m[at.AGGREGATED],
        )

    def _carried(self, workers: Ints, marks: Ints, end: int) -> tuple[list[LinkRow], float]:
        """What every link has carried by the end of the run (ns), and `Trace.sent`."""
        if self._fair:
            return self._network.carried_fairly(self._m, self._reals, end)
        again = _sent_again(marks) if self._rules.kind == "cutoff" else {}
        return self._network.carried(self._m, workers, again, end)

    def _waits(self, end: int) -> Ints:
        """What is written last of those that wait at the end (n, 2)."""
        workers = records(self._m)
        waiting = workers[workers[:, at.READY] < end]
        ahead = waiting[:, at.PHASE] == Phase.READ  # what is read is for the next gradient
        codes = waiting[:, at.MARK] + (waiting[:, at.ITERATION] + ahead << PHASE_BITS)
        codes += waiting[:, at.PHASE]
        return np.stack((np.full(len(waiting), end), codes), axis=1)

    def _evaluations(self, m: Sequence[int], marks: Ints, end: int) -> list[EvaluationRow]:
        """When the model was looked at: at the start, after some steps, and at the end."""
        looks = marks[marks[:, 1] == at.LOOKS, 0].reshape(-1, 3).tolist()
        rows = [[0, 0, 0], *looks]
        if rows[-1][1] != m[at.STEP]:
            rows.append([end, m[at.STEP], m[at.PARTS]])
        batch, variables = m[at.BATCH_SIZE], m[at.VARIABLES]
        return [
            EvaluationRow(time, step, round(parts * batch / variables), math.nan, math.nan, 0.0)
            for time, step, parts in rows
        ]


def _sent_again(marks: Ints) -> dict[tuple[int, int], list[int]]:
    """When batches started that were sent again too soon: by rank, and whether pushed."""
    found: dict[tuple[int, int], list[int]] = {}
    starts: list[int] = []
    for value, code in marks[marks[:, 1] < at.LOOKS].tolist():
        if code == at.STARTED:
            starts.append(value)
        else:
            starts = found.setdefault((value, code - at.AGAIN), [])
    return found


def _room(cluster: Cluster, workload: Workload, stop: Stop, rules: Rules, workers: int) -> int:
    """How many gradients there is room for at first: about as many as it takes."""
    known = expected(stop, rules, workload)
    if stop.time is None:
        return known
    each = max(cluster.compute_distribution(workload).expectation(), 1e-9)
    most = min(stop.time / each * workers, float(_MOST_KEPT))
    return min(known or _MOST_KEPT, round(most))
