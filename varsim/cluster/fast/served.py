"""One run with parameter servers: tables laid out, carried on to the end, made a trace of."""

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import END_OF_TIME, uncollected
from varsim.cluster.fast import tables as at
from varsim.cluster.fast.compiled import INTERPRETED, Code, address, compiled, unmade
from varsim.cluster.fast.core import advance
from varsim.cluster.fast.draws import ComputeTimes
from varsim.cluster.fast.network import Network
from varsim.cluster.fast.rules import Gate, NotCoveredError, Start, expected
from varsim.cluster.fast.spans import note_waits, write_spans
from varsim.cluster.fast.tables import NEVER, Run, column, interpreted, table
from varsim.cluster.record.rows import Rows
from varsim.cluster.record.trace import EvaluationRow, GradientRow, Phase, Span, Trace, code_of
from varsim.cluster.workers.worker import windows

Ints: TypeAlias = NDArray[np.int64]

# What machine code does until signals are handled and other threads run: at most about 0.1 s.
_SLICE: Final = 500_000
# Gradients that are read together, at most, unless more are in flight.
_MOST_ROWS: Final = 500_000
# Transfers over fair links of all workers.
_MOST_TRANSFERS: Final = 1_000_000


class ServedRun:
    """A run of a strategy with parameter servers; see `varsim.cluster.fast`.

    `interpreted`: by Python, which takes longer than SimPy. NotCoveredError of what deadlocks,
    takes longer than the clock counts, or cannot be compiled.
    """

    def __init__(self, start: Start, gate: Gate, *, interpreted: bool = False) -> None:
        self._start, self._gate, self._interpreted = start, gate, interpreted
        variables = enumerate(start.workload.problem.variables())
        self._trained = [number for number, spec in variables if spec.has_gradient]
        self._fair = start.cluster.network.sharing == "fair"
        # Of a worker there is room for; who is called off leaves its own behind, on fair links.
        self._gives_up = gate.kind in ("cutoff", "race")
        self._transfers = 2 if self._gives_up else 1
        self._network = Network(start.cluster, start.workload, start.workers, self._trained)

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
        self._book = _Book(self._start, keep=record)
        s = self._run.state
        while True:
            s.patience = _SLICE
            self._call(code[advance])
            why, s.halt = int(s.halt), 0
            if why == at.STANDSTILL:
                raise NotCoveredError("it deadlocks, or never ends")
            if why == at.CROWDED:  # once more from the beginning, with more room
                self._transfers *= 2
                if self._transfers * self._start.workers > _MOST_TRANSFERS:
                    raise NotCoveredError("too many messages are on their way at once")
                return self._carried_on(code, label, record)
            if why == at.OVER:
                return self._traced(code, label)
            if why:  # one event may have wanted both: more draws, and more room
                self._draw()
                self._make_room(code)

    def _call(self, function: Callable[..., None]) -> None:
        function(self._run if self._interpreted else self._addresses)

    def _lay_out(self) -> None:
        cluster, workload, stop, seed, replication, number = self._start
        gate, variables, network = self._gate, len(self._trained), self._network
        self._times = ComputeTimes(
            cluster, workload, number, seed, replication, expected(stop, gate, workload) // number
        )
        self._slack = number + 2
        if gate.needed > _MOST_ROWS:
            raise NotCoveredError("its updates are of too many gradients")
        self._tables = {name: table(name, 0) for name in Run._fields}
        made, workers = self._tables, table("workers", number)
        state = made["state"].view(np.recarray)[0]
        made["workers"] = workers
        network.lay_out(made, self._fair)
        network.lay_out_flows(made, number * self._transfers if self._fair else 0)
        draws, kept = self._times.first()
        made["draws"], workers["draws"] = draws.ravel(), kept
        made["counts"], made["lasts"] = table("counts", number), table("lasts", number)
        made["alone"] = np.stack([network.alone(way) for way in range(2)], axis=1).ravel()
        workers["times"] = np.arange(number) * draws.shape[1]
        self._slow_down(workers)
        workers["iteration"], workers["ready"], workers["awaited"] = -1, cluster.set_up, 0
        made["line"] = table("line", number)
        made["kept"] = table("kept", gate.needed + number * variables)
        made["accumulators"] = table("accumulators", variables)
        rows = _room(self._start, gate) * (2 if self._gives_up else 1) + 12 * self._slack
        state.room = rows
        made["columns"] = table("columns", len(GradientRow._fields) * rows, zeros=False)
        made["notes"] = table("notes", 2 * 7 * (rows + 2 * self._slack), zeros=False)
        made["steps"] = table("steps", 2 * (rows + 2 * self._slack), zeros=False)
        made["again"] = table("again", 4 * self._slack * (2 + network.most_hops))
        state.variables, state.workers, state.fair = variables, number, self._fair
        state.batch_size = workload.batch_size
        state.most_steps, state.most_examples = stop.global_steps or NEVER, stop.examples or NEVER
        state.kind, state.needed = at.GATES.index(gate.kind), gate.needed
        state.tokens, state.head_left = gate.tokens, max(0, gate.first)
        state.bound, state.keeps = min(gate.bound, NEVER), gate.keeps
        state.slowest_count, state.wake_at = number, NEVER
        state.mask = draws.shape[1] - 1
        made["gradients"]["worker"] = -1
        if cluster.set_up:
            made["notes"][: 2 * number : 2] = cluster.set_up
            made["notes"][1 : 2 * number : 2] = [code_of(w, 0) + Phase.DOWN for w in range(number)]
            state.noted, workers["until"], made["counts"][:] = number, cluster.set_up, 1
        state.waits = Phase.TOKEN if gate.kind == "tokens" else Phase.BARRIER
        self._begin(state)
        if self._interpreted:
            made = {name: interpreted(name, rows) for name, rows in made.items()}
            state = made["state"]
        else:
            self._addresses = np.array([address(rows) for rows in made.values()])
        self._run = Run(**{**made, "state": state})
        self._enlarge("gradients", 4 * self._slack)
        self._measure()

    def _slow_down(self, workers: Any) -> None:
        """Lay out when workers are slow, those that are so at times."""
        cluster, number = self._start.cluster, self._start.workers
        numbers, sizes = self._tables["numbers"].tolist(), self._tables["sizes"].tolist()
        for rank in {slow.rank for slow in cluster.slow_workers if slow.rank < number}:
            slowness = windows(cluster.slow_workers, rank)
            if len(slowness) > 1:
                workers[rank]["windows"] = len(slowness)
                workers[rank]["bounds"], workers[rank]["factors"] = len(numbers), len(sizes)
                numbers += [bound for bound, _ in slowness]
                sizes += [factor for _, factor in slowness]
        self._tables["numbers"] = np.array(numbers, dtype=np.int64)
        self._tables["sizes"] = np.array(sizes)

    def _begin(self, state: Any) -> None:
        """The heap at time 0: the chief and the workers, then the end of the time."""
        time, number = self._start.stop.time, self._start.workers
        first = [(0, at.URGENT, at.CHIEF_STARTS)] if self._gate.kind == "tokens" else []
        events = [
            *first,
            *((0, at.URGENT + 1 + rank, rank << at.BITS | at.READS) for rank in range(number)),
        ]
        if time is not None:
            last = min(round(time * 1e9), END_OF_TIME + 1)
            events.append((last, at.AT_LAST, at.TIME_IS_UP))
        if time is None or time * 1e9 > END_OF_TIME:
            events.append((END_OF_TIME, at.AT_LAST + 1, at.CLOCK_ENDS))
        self._tables["workers"]["awaited"] = at.URGENT + 1 + np.arange(number)
        state.number, state.events = number + 2, len(events)
        heap = table("heap", 3 * (len(events) + 2 * self._most_put()))
        heap[: 3 * len(events)] = np.array(events, dtype=np.int64).ravel()
        self._tables["heap"] = heap

    def _draw(self) -> None:
        """Draw more for the workers that have few draws left."""
        workers, mask = self._run.workers, int(self._run.state.mask)
        draws, drawn = column(workers, "draws"), column(workers, "drawn")
        for ranks, first, times in self._times.more(draws, drawn):
            places = ranks * (mask + 1) + (first & mask)
            if self._interpreted:
                for rank, place, row in zip(ranks, places, times.tolist(), strict=True):
                    self._run.draws[place : place + len(row)] = row
                    workers[rank].draws += len(row)
            else:
                self._run.draws[places[:, np.newaxis] + np.arange(times.shape[1])] = times
                workers["draws"][ranks] += times.shape[1]

    def _make_room(self, code: Code) -> None:
        """More room for gradients in flight, events and what is written, where there is little."""
        s = self._run.state
        if s.free < s.least_free:
            self._enlarge("gradients", len(self._run.gradients))
        if s.events > s.most_events:
            self._enlarge("heap", len(self._run.heap))
        if s.again > s.most_again:
            self._network.keep_starts(self._run, int(s.now))
        if s.made > s.most_made:
            self._book.take_steps(self._run)
        if s.logged > s.most_logged or s.noted > s.most_noted:
            self._read(code)
            if s.room < 2 * len(self._run.gradients):
                s.room *= 2
                self._renew("columns", len(GradientRow._fields) * int(s.room))
        self._measure()

    def _read(self, code: Code) -> None:
        """Read what has been written of gradients that have ended, and of spans."""
        s = self._run.state
        columns = np.asarray(self._run.columns, dtype=np.int64).reshape(-1, int(s.room))
        self._book.take_gradients(columns[:, : s.logged])
        if self._book.keep and s.noted:
            for name, each in (("ordered", 2), ("spans", len(Span._fields))):
                self._renew(name, each * int(s.noted))
            self._call(code[write_spans])
            spans = np.asarray(self._run.spans, dtype=np.int64)
            self._book.take_spans(spans.reshape(-1, int(s.noted)), int(s.now))
        s.logged = s.noted = 0

    def _renew(self, name: str, size: int) -> None:
        """Put another table in the place of one, whatever is in it."""
        rows = table(name, size, zeros=False)
        self._put(name, interpreted(name, rows) if self._interpreted else rows)

    def _put(self, name: str, rows: Any) -> None:
        """Put a table in the place of one."""
        self._run = self._run._replace(**{name: rows})
        if not self._interpreted:
            self._addresses[Run._fields.index(name)] = address(rows)

    def _enlarge(self, name: str, more: int) -> None:
        """Let a table have so many records more."""
        s, before, added = self._run.state, getattr(self._run, name), table(name, more)
        if name == "gradients":
            added["worker"] = -1
            added["next"] = np.arange(len(before) + 1, len(before) + 1 + more)
            added["next"][-1] = s.free_gradient
            s.free_gradient, s.free = len(before), s.free + more
            if self._gate.kind == "tokens":
                self._enlarge("after", more * len(self._trained))
        if self._interpreted:
            self._put(name, before + interpreted(name, added))
        else:
            self._put(name, np.concatenate((before, added)))

    def _measure(self) -> None:
        """When there must be more room."""
        s, run = self._run.state, self._run
        s.least_free = self._slack
        s.most_logged = int(s.room) - len(run.gradients)
        s.most_noted = len(run.notes) // 2 - 7 * self._slack
        s.most_events = len(run.heap) // 3 - self._most_put()
        s.most_made = len(run.steps) // 2 - self._slack
        s.most_again = len(run.again) - self._slack * (2 + self._network.most_hops)

    def _most_put(self) -> int:
        """Events that are put on the heap while one is served, at most."""
        each = self._transfers * self._network.most_parts if self._fair else 1
        return self._start.workers * each + len(self._trained) + 8

    def _traced(self, code: Code, label: str) -> Trace:
        s, start, book = self._run.state, self._start, self._book
        self._call(code[note_waits])
        self._read(code)
        book.take_gradients(_pending(self._run))
        book.take_steps(self._run)
        self._network.keep_starts(self._run, int(s.now))
        steps, parts = book.steps()
        looks = _evaluations(
            start, len(self._trained), steps, np.append(parts, s.parts), int(s.now)
        )
        links, sent = self._network.carried(self._run, int(s.now))
        return Trace(
            strategy=label,
            replication=start.replication,
            workers=start.workers,
            variables=len(self._trained),
            batch_size=start.workload.batch_size,
            end=int(s.now),
            stopped_by=at.REASONS[int(s.stopped_by)],
            global_step=int(s.step),
            span_rows=book.span_rows(),
            gradient_rows=book.gradient_rows,
            evaluations=looks,
            steps=steps,
            copy_staleness=np.empty(0, dtype=np.int64),
            links=links,
            sent=sent,
            gradients_aggregated=int(s.aggregated),
        )


def _evaluations(
    start: Start, variables: int, steps: Ints, parts: Ints, end: int
) -> list[EvaluationRow]:
    """When the model was looked at: at the start, after some steps, and at the end (ns).

    `parts`: of gradients that had been applied by each step, and by the end.
    """
    batch = start.workload.batch_size
    every = start.workload.examples_between_evaluations(start.workers)
    passed = parts[:-1] * batch // (variables * every)
    looks = np.flatnonzero(np.diff(passed, prepend=0) > 0).tolist()
    rows = [(0, 0, 0), *((int(steps[look]), look + 1, int(parts[look])) for look in looks)]
    if rows[-1][1] != len(steps):
        rows.append((end, len(steps), int(parts[-1])))
    return [
        EvaluationRow(time, step, round(seen * batch / variables), math.nan, math.nan, 0.0)
        for time, step, seen in rows
    ]


class _Book:
    """What is known of a run's gradients, spans and updates."""

    def __init__(self, start: Start, *, keep: bool) -> None:
        self._start, self.keep = start, keep
        self.gradient_rows = Rows(len(GradientRow._fields))
        self._spans, self._parts = Rows(len(Span._fields)), 0
        self._steps: list[Ints] = []

    def take_gradients(self, columns: Ints) -> None:
        """More gradients, field by field."""
        self.gradient_rows.append_columns(columns)

    def take_spans(self, columns: Ints, now: int) -> None:
        """More spans, field by field, of one part: by worker, and later than those before."""
        if self._start.cluster.set_up > now:  # the run is over before all are
            np.minimum(columns[3], now, out=columns[3])
        self._spans.append_columns(columns)
        self._parts += 1

    def take_steps(self, run: Run) -> None:
        """Updates that were made since."""
        made = np.array(run.steps[: 2 * run.state.made], dtype=np.int64)
        self._steps.append(made.reshape(-1, 2))
        run.state.made = 0

    def steps(self) -> tuple[Ints, Ints]:
        """When each update was made, and how many parts of gradients had been applied by then."""
        made = np.concatenate(self._steps)
        return made[:, 0].copy(), made[:, 1]

    def span_rows(self) -> Rows:
        """All spans, by worker and time."""
        return self._spans if self._parts < 2 else self._spans.by(0, self._start.workers)


def _pending(run: Run) -> Ints:
    """Gradients in flight at the end that are computed, in the order of their beginning."""
    rows = run.gradients
    if isinstance(rows, list):
        found = np.array([tuple(vars(row).values()) for row in rows], dtype=np.int64).T
    else:
        found = rows.view(np.int64).reshape(len(rows), -1).T
    fields = dict(zip(at.GRADIENT.names or (), found, strict=True))
    there = (fields["worker"] >= 0) & (fields["ended"] == 0)
    places = np.flatnonzero(there & (fields["computed"] <= int(run.state.now)))
    places = places[np.argsort(fields["nth"][places])]
    columns: Ints = found[: len(GradientRow._fields), places]
    return columns


def _room(start: Start, gate: Gate) -> int:
    """How many gradients there is room for at first: about as many as it takes."""
    known = expected(start.stop, gate, start.workload)
    if start.stop.time is not None:
        law = start.cluster.compute_distribution(start.workload)
        most = start.stop.time / max(law.expectation(), 1e-9) * start.workers
        known = round(min(known or most, most, 1e9))
    # What is read in parts anyway is read often: that takes less memory.
    return known if known < _MOST_ROWS else _MOST_ROWS // 4
