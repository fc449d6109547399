"""One run whose workers have copies of their own that are read after every so many steps.

From one meeting to the next no worker waits for another. So their times are a few operations on
arrays, and who comes before whom follows from when everything that they did before happened. The
last round is made event by event (`last_round`).
"""

import math
from itertools import count
from typing import Final, NamedTuple

import numpy as np

from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.collectives.schedule import Times
from varsim.cluster.flat.arrays import TOGETHER, Limits, Spans, Start, Workers
from varsim.cluster.flat.broadcasts import ITERATIONS, PHASES, Broadcasts
from varsim.cluster.flat.building import NotCoveredError
from varsim.cluster.flat.choice import NEVER
from varsim.cluster.flat.last_round import LastRound, Meeting
from varsim.cluster.flat.reducing import Reading
from varsim.cluster.flat.reductions import carried, idle_network, of_copies
from varsim.cluster.rows import BLOCK, Rows
from varsim.cluster.trace import EvaluationRow, GradientRow, Outcome, Phase, Trace
from varsim.values.gradient import EXAMPLES, STACK

# Events of rounds that are recorded at once.
_MANY: Final = 1 << 14


class LocalRun:
    """A run in arrays; see `FlatRun`."""

    def __init__(self, start: Start, reading: Reading) -> None:
        cluster, workload, stop, seed, replication, workers, events = start
        if workers == 1:
            reading = reading._replace(moves=False, broadcasts=False)
        self._workload, self._reading, self._replication = workload, reading, replication
        self._variables = sum(spec.has_gradient for spec in workload.problem.variables())
        self._cluster = cluster
        self._reductions = of_copies(cluster, workload, workers) if reading.moves else None
        self._workers = Workers(cluster, workload, workers, seed, replication, reading.every)
        self._broadcasts: Broadcasts | None = None
        if reading.broadcasts:
            self._broadcasts = Broadcasts(cluster, workload, workers)
        time = None if stop.time is None else round(stop.time * 1e9)
        numbers = NEVER if events is None else workers + (time is not None) + events
        self._limits = Limits(stop.global_steps or NEVER, "global_steps", time, numbers)
        self._most = NEVER  # gradients
        if stop.examples is not None:
            self._most = -(-stop.examples // workload.batch_size)

    def trace(self, label: str, *, record: bool = True) -> Trace:
        """Carry it on to its end; its trace."""
        workers, reading = self._workers, self._reading
        moved, of_moved = [Phase.WRITE] * reading.moves, [-1] * reading.moves
        if reading.broadcasts:
            moved, of_moved = PHASES, ITERATIONS
        each = [Phase.COMPUTE] * (1 + workers.update)
        phases = [Phase.BARRIER, *moved, *(each * reading.every)]
        iterations = [-1, *of_moved]
        iterations += [step for step in range(reading.every) for _ in each]
        self._spans = Spans(workers, phases, iterations, keep=record)
        self._gradients = Rows(len(GradientRow._fields))
        self._unrecorded: list[_Round] = []
        self._arrivals: list[int] = []  # at the end of the latest that is recorded, in order
        self._columns: list[Times] = []  # of gradients that are not yet in it
        self._staleness: list[Times] = []
        self._steps: list[Times] = []
        self._evaluations = [(0, 0, 0)]  # when, at which step, after how many gradients
        meeting, is_over = self._go_on()
        stack = max(1, min(STACK, EXAMPLES // self._workload.batch_size))
        last = LastRound(
            *(workers, reading, self._reductions, self._broadcasts, self._limits, self._most),
            *(stack, self._variables, meeting),
        )
        if is_over:
            last.stopped_by = self._limits.by
        last.run()
        return self._traced(label, last)

    def _go_on(self) -> tuple[Meeting | None, bool]:
        """Go on round by round as long as the run is not over before the next meeting.

        Where from the rest is to be made, and whether the run is over then.
        """
        workers, every, limits = self._workers, self._reading.every, self._limits
        number, reductions = workers.number, self._reductions
        latest = END_OF_TIME if limits.time is None else min(limits.time, END_OF_TIME)
        numbers = number + 1 + (limits.time is not None and limits.time > END_OF_TIME)
        numbers += number * every * (1 + workers.update)
        overhead = 0 if reductions is None else reductions.overheads[0]
        each = number * (every * (1 + workers.update) + self._reading.moves + bool(overhead)) + 1
        sent = None  # as every broadcast is: at a meeting the network is idle
        if self._broadcasts is not None:
            sent = Broadcasts(self._cluster, self._workload, number).send(0, range(number))
        meeting, rows = None, list[Times]()
        head = np.empty((0, number), dtype=np.int64)
        begun, turns = np.full(number, workers.down), np.arange(number)
        moved = np.empty((0, number), dtype=np.int64)
        if self._reading.moves or sent is not None:
            moved = np.tile(begun, (1 if sent is None else len(PHASES), 1))
        for step in count(0, every):
            state = None if reductions is None else reductions.state()
            if meeting is not None:
                begun = np.full(number, meeting.now)
                if sent is not None:
                    moved, turns = meeting.now + sent.ends, sent.turns
                    begun, head, numbers = moved[-1], moved[-1:], numbers + sent.events
                elif reductions is None:
                    turns = _turns(meeting.arrivals)
                else:
                    ends = reductions.ends(0, begun, meeting.now, 0)
                    begun = ends + overhead
                    head = np.array((ends, begun)[: 1 + bool(overhead)])
                    moved = begun[np.newaxis]
            chain = self._compute(step, begun)
            if sent is not None and meeting is not None and np.isin(chain, begun).any():
                raise NotCoveredError("ranks begin at a moment at which others have computed")
            now = int(chain[-1].max())
            most = number * (step + every)
            if chain.min() < 0:
                raise NotCoveredError("its times are too long for sums of 64 bits")
            over = self._most <= most or now > latest or numbers > limits.numbers
            is_over = limits.steps <= step + every
            if is_over and (limits.steps < step + every or (chain[-1] == now).sum() > 1):
                over = True  # with events left that do not happen
            if over:
                if reductions is not None and state is not None:
                    reductions.go_on_from(state)
                is_over = False
                break
            if self._unrecorded and len(self._unrecorded[0].head) != len(head):
                self._record_rounds()
            self._unrecorded.append(_Round(step, begun, head, turns, chain))
            # Where nothing is sent, who came first goes on first.
            alone = reductions is None and sent is None
            if alone or len(self._unrecorded) * chain.size > _MANY:
                self._record_rounds()
            if self._broadcasts is not None and meeting is not None:
                self._broadcasts.send(meeting.now, range(number))
            before = np.full(number, workers.down if meeting is None else meeting.now)
            rows.append(np.concatenate((before[np.newaxis], moved, chain)))
            if len(rows) * rows[0].size > TOGETHER:
                self._spans.record(np.array(rows), END_OF_TIME)
                rows = []
            meeting = Meeting(step + every, now, self._arrivals, numbers)
            numbers += each
            if is_over:
                break
        self._rows = rows
        self._record_rounds()
        if meeting is not None:
            meeting = meeting._replace(arrivals=self._arrivals)
        return meeting, is_over

    def _compute(self, step: int, begun: Times) -> Times:
        """When each has computed, and applied, each step of a round (events, ranks)."""
        workers, every = self._workers, self._reading.every
        chain = np.empty((every * (1 + workers.update), len(begun)), dtype=np.int64)
        ends = iter(chain)
        for place in range(every):
            work, end = workers.work(step + place), next(ends)
            np.add(begun, work, out=end)
            workers.slow_down(end, begun, work)
            if workers.update:
                begun, end = end, next(ends)
                np.add(begun, workers.updates, out=end)
                workers.slow_down(end, begun, workers.updates)
            begun = end
        return chain

    def _record_rounds(self) -> None:
        """Record what happens in the latest rounds, but for spans."""
        rounds, self._unrecorded = self._unrecorded, []
        if not rounds:
            return
        number, every = self._workers.number, self._reading.every
        head, updates = len(rounds[0].head), 1 + self._workers.update
        chains = np.array([one.chain for one in rounds])  # (rounds, events, ranks)
        turns = np.array([one.turns for one in rounds])
        places = order_of(np.concatenate(([one.head for one in rounds], chains), axis=1), turns)
        ends, applied = places[:, head + updates - 1 :: updates], chains[:, updates - 1 :: updates]
        begun = np.array([one.begun for one in rounds])
        starts = np.concatenate((begun[:, np.newaxis], applied[:, :-1]), axis=1)
        first = np.array([one.step for one in rounds])[:, np.newaxis, np.newaxis]
        steps = first + np.arange(every)[:, np.newaxis]
        columns = (
            *(np.arange(number), steps, starts, steps, starts, chains[:, ::updates]),
            *(applied, applied, steps, Outcome.APPLIED, self._variables),
        )
        table = np.empty((len(columns), *applied.shape), dtype=np.int64)
        for place, column in enumerate(columns):
            table[place] = column
        in_order = _order(ends).ravel()
        self._columns.append(table.reshape(len(table), -1).take(in_order, axis=1))
        if sum(columns.shape[1] for columns in self._columns) >= BLOCK:
            self._keep_gradients()
        self._arrivals = np.argsort(ends[-1, -1]).tolist()
        self._steps.append(applied.max(axis=2).ravel())
        # Copies are read as workers begin; first in the order of their turns, or as the head ends.
        reads = places[:, head - 1 : head] if head else (turns - number)[:, np.newaxis]
        reads = np.concatenate((reads, ends[:, :-1]), axis=1)
        is_end = np.zeros((len(rounds), places[0].size), dtype=np.int64)
        of_round = _rows(is_end)[:, np.newaxis]
        is_end.put(ends + of_round, 1)
        made = is_end.cumsum(axis=1).take(np.maximum(reads, 0) + of_round)
        made = first * number + np.where(reads < 0, 0, made)
        merged = self._reading.write_back and not self._reading.broadcasts
        missed = made - first * (number if merged else 1) - np.arange(every)[:, np.newaxis]
        self._staleness.append(missed.take(_order(reads)).ravel())
        looks = zip(
            begun[:, 0].tolist(), first.ravel().tolist(), made[:, 0, 0].tolist(), strict=True
        )
        self._evaluations += [look for look in looks if look[1]]

    def _keep_gradients(self) -> None:
        if self._columns:
            self._gradients.append_columns(np.concatenate(self._columns, axis=1))
        self._columns = []

    def _traced(self, label: str, last: LastRound) -> Trace:
        end, number = last.now, self._workers.number
        waits = np.full_like(last.row, END_OF_TIME)  # for the next meeting, those who have come
        self._spans.record(np.array([*self._rows, last.row, waits]), end)
        rows = [*last.rows, *last.pending()]
        self._columns += [np.array(rows, dtype=np.int64).T] if rows else []
        self._keep_gradients()
        steps = np.concatenate([*self._steps, np.array(last.steps, dtype=np.int64)])
        staleness = np.concatenate([*self._staleness, np.array(last.staleness, dtype=np.int64)])
        if self._broadcasts is not None:
            links, sent = self._broadcasts.carried(end)
        elif self._reductions is None:
            links, sent = carried(idle_network(self._cluster, number), end)
        else:
            links, sent = self._reductions.carried(0, last.entries, end, 0)
        batch = self._workload.batch_size
        looks = self._evaluations + last.evaluations
        if looks[-1][1] != last.global_step:
            looks.append((end, last.global_step, last.made))
        return Trace(
            strategy=label,
            replication=self._replication,
            workers=number,
            variables=self._variables,
            batch_size=batch,
            end=end,
            stopped_by=last.stopped_by,
            global_step=last.global_step,
            span_rows=self._spans.rows(),
            gradient_rows=self._gradients,
            evaluations=[
                EvaluationRow(time, step, made * batch, math.nan, math.nan, 0.0)
                for time, step, made in looks
            ],
            steps=steps,
            copy_staleness=staleness,
            links=links,
            sent=sent,
            heap_events=last.numbers,
            gradients_evaluated=last.evaluated,
            gradients_aggregated=last.made,
        )


class _Round(NamedTuple):
    """Round of all: its first step, when each began, and the events that led to it, its turn where
    there are none; and when each step was computed and applied.
    """

    step: int
    begun: Times
    head: Times
    turns: Times
    chain: Times


def order_of(times: Times, turns: Times) -> Times:
    """The place of each event in the order in which events are served, (rounds, events, ranks).

    Every rank's follow one another, each put in as the one before is served, the first ones before
    all that, by `turns` (rounds, ranks). Those of one moment are served as they were put in: as
    those before them were served, and so on (prefix doubling: Manber and Myers, 1993).
    """
    (_, events, number), places, back = times.shape, _places(times), 1
    size = events * number
    while (places.max(axis=(1, 2)) + 1 < size).any():
        before = np.repeat((turns - number)[:, np.newaxis], events, axis=1)
        before[:, back:] = places[:, :-back]
        places = _places(places * (size + number) + before + number)
        back *= 2
    return places


def _places(keys: Times) -> Times:
    """The place of each key among all of a round, of equal keys the same."""
    order = _order(keys)
    ordered = keys.take(order)
    rising, places = np.zeros_like(order), np.empty_like(keys)
    np.cumsum(ordered[:, 1:] > ordered[:, :-1], axis=1, out=rising[:, 1:])
    places.put(order, rising)
    return places


def _order(keys: Times) -> Times:
    """Where the keys of each round are among those of all, in order (rounds, keys)."""
    flat = keys.reshape(len(keys), -1)
    # Several times as fast as a stable sort.
    return np.argsort(flat, axis=1) + _rows(flat)


def _rows(table: Times) -> Times:
    """Where each row of a table begins in it, as a column."""
    rows: Times = table.shape[1] * np.arange(len(table))[:, np.newaxis]
    return rows


def _turns(ranks: list[int]) -> Times:
    """The turn of each rank, the last one that came before the others."""
    turns = np.empty(len(ranks), dtype=np.int64)
    turns[[ranks[-1], *ranks[:-1]]] = np.arange(len(ranks))
    return turns
