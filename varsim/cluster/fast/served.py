"""One run with parameter servers: tables laid out, carried on to the end, made a trace of."""

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import END_OF_TIME, uncollected
from varsim.cluster.fast import KINDS, Gate
from varsim.cluster.fast import tables as at
from varsim.cluster.fast.compiled import compiled
from varsim.cluster.fast.core import advance
from varsim.cluster.fast.draws import ComputeTimes
from varsim.cluster.fast.network import FastNetwork, under_way
from varsim.cluster.fast.start import NotCoveredError, Start
from varsim.cluster.fast.tables import NEVER, FastRun, table
from varsim.cluster.record.rows import Rows
from varsim.cluster.record.trace import GradientRow, Phase, Span, Trace

Ints: TypeAlias = NDArray[np.int64]

# What machine code does until signals are handled and other threads run: at most about 0.1 s.
_SLICE: Final = 500_000
# Gradients that are read together, at most, unless more are in flight.
_MOST_ROWS: Final = 300_000
# Batches on first-come links of which it is kept when they start there, besides those under way.
_SENDS: Final = 1 << 14
# What grows where there is too little room of it, and how many integers or records are one.
_GROWING: Final = {"heap": 3, "flows": 1, "passed": 12}
_OF_GRADIENTS: Final = {"gradients": 1, "ended": 1, "steps": 2}  # as many of each
_SPANS: Final = 8  # of a gradient, at most
# Rows that are read together: larger arrays would be asked of the system anew each time, which
# costs as much as the whole run.
_TOGETHER: Final = 1 << 14
_EACH: Final = len(GradientRow._fields)
_COMPUTED, _CUT, _ENDED = map((at.GRADIENT.names or ()).index, ("computed", "cut", "ended"))


class ServedRun:
    """A run of a strategy with parameter servers; see `varsim.cluster.fast`.

    `interpreted`: by Python, which takes far longer than SimPy. NotCoveredError of what deadlocks,
    takes longer than the clock counts, or cannot be compiled.
    """

    def __init__(self, start: Start, gate: Gate, *, interpreted: bool = False) -> None:
        self._start, self._gate, self._interpreted = start, gate, interpreted
        self._network = FastNetwork(start)

    @uncollected()
    def trace(self, label: str, *, record: bool = True) -> Trace:
        """Carry it on to its end; its trace."""
        self._go_on = advance if self._interpreted else compiled()
        self._lay_out()
        self._run.state["record"] = record
        self._gradients, self._spans = Rows(_EACH), Rows(len(Span._fields))
        self._steps: list[Ints] = []
        self._parts = 0  # of all spans
        s = self._run.state[0]
        while True:
            s.patience = _SLICE
            self._go_on(self._run)
            why, s.halt = int(s.halt), 0
            if why == at.LATE and self._start.stop.time is not None and s.last < END_OF_TIME:
                s.now, s.stopped_by, why = s.last, at.BY_TIME, at.OVER
            if why in (at.STANDSTILL, at.LATE):
                raise NotCoveredError("it deadlocks, or never ends")
            if s.stopped_by:
                return self._traced(label)
            if why:  # one event may have wanted both: more draws, and more room
                self._draw()
                self._make_room()

    def _lay_out(self) -> None:
        """Make all tables as they are at first."""
        cluster, workload, stop, _, _, number = start = self._start
        gate, network = self._gate, self._network
        known = start.gradients(gate.each)
        self._times = ComputeTimes(start, known // number)
        if gate.needed > _MOST_ROWS or number >= at.MOST_WORKERS:
            raise NotCoveredError("it has too many workers, or updates of too many gradients")
        made: dict[str, Any] = {name: table(name, 1) for name in FastRun._fields}
        workers = made["workers"] = table("workers", number)
        network.lay_out(made)
        draws, kept = self._times.first()
        made["draws"], workers.draws = draws.ravel(), kept
        workers.times = np.arange(number) * draws.shape[1]
        workers.iteration = workers.awaited = -1
        made["line"], made["kept"] = table("line", number), table("kept", gate.needed + 2 * number)
        (state,) = made["state"]
        state.workers, state.fair = number, cluster.network.sharing == "fair"
        state.meet = state.fair and network.meets and gate.kind not in ("cutoff", "race")
        state.later = state.meet * made["connections"]["lag"].min()
        state.batch_size, state.width = workload.batch_size, network.width
        state.most_steps, state.most_examples = stop.global_steps or NEVER, stop.examples or NEVER
        state.last = start.last
        state.kind, state.needed = KINDS.index(gate.kind), gate.needed
        state.tokens, state.head_left = gate.tokens, max(0, gate.first)
        state.bound, state.keeps = min(gate.bound, NEVER), gate.keeps
        state.slowest_count, state.wake_at, state.takes = number, NEVER, 1
        state.mask = draws.shape[1] - 1
        state.begun = state.freed = 1
        state.waits = Phase.TOKEN if gate.kind == "tokens" else Phase.BARRIER
        state.set_up = cluster.set_up
        flows = (2 * number + 8) * network.flows if state.fair else 1
        rooms = {"heap": 8 * number + 64 + 2 * flows, "flows": flows, "passed": flows}
        for name, room in rooms.items():
            made[name] = table(name, room * _GROWING[name])
        made["open"] = table("open", len(made["links"]))
        state.most_sends = 4 * number + _SENDS
        made["sends"] = table("sends", network.width * (int(state.most_sends) + number + 2))
        # Room for those that are called off, too.
        state.room = min(2 * known, _MOST_ROWS) + 12 * number + 64
        state.most_spans = _TOGETHER
        made["spans"] = table("spans", _TOGETHER + _SPANS)
        for name, each in _OF_GRADIENTS.items():
            made[name] = table(name, int(state.room) * each)
        # The heap at first: all workers read when they are set up.
        heap = made["heap"][: 3 * number].reshape(number, 3)
        heap[:, 0], heap[:, 1] = cluster.set_up, np.arange(number)
        heap[:, 2] = np.arange(number) << at.KIND_BITS | at.READS
        state.events = state.number = number
        self._run = FastRun(**made)
        self._measure()

    def _measure(self) -> None:
        """When there must be more room for what happens."""
        s, run, number = self._run.state[0], self._run, self._start.workers
        slack = (number + 2) * self._network.flows
        s.most_flows = len(run.flows) - slack
        s.most_events = len(run.heap) // 3 - (slack + 3 * number + 8)

    def _draw(self) -> None:
        """Draw more for the workers that have few draws left."""
        workers, mask = self._run.workers, int(self._run.state[0].mask)
        for ranks, first, times in self._times.more(workers.draws, workers.drawn):
            places = ranks * (mask + 1) + (first & mask)
            self._run.draws[places[:, np.newaxis] + np.arange(times.shape[1])] = times
            workers["draws"][ranks] += times.shape[1]

    def _make_room(self) -> None:
        """Read what has been written, and make twice the room where that was not enough."""
        s, run = self._run.state[0], self._run
        if s.begun + self._start.workers + 2 > s.freed + s.room:
            self._read()
            self._make_room_for_gradients()
        kept = under_way(run, int(s.now))
        run.sends[: kept.size], s.sends = kept.ravel(), len(kept)
        full = ["heap"] * bool(s.events >= s.most_events)
        full += ["flows", "passed"] * bool(max(s.flows, s.passed - s.told) >= s.most_flows)
        if 2 * s.sends >= s.most_sends:
            s.most_sends *= 2
            full.append("sends")
        for name in full:
            before = getattr(run, name)
            made = table(name, 2 * len(before))
            made[: len(before)] = before
            self._run = self._run._replace(**{name: made})
        self._measure()

    def _make_room_for_gradients(self) -> None:
        s, run = self._run.state[0], self._run
        numbers, room = np.arange(s.freed, s.begun), int(s.room)
        if 2 * len(numbers) > room:
            made = {name: table(name, 2 * len(getattr(run, name))) for name in _OF_GRADIENTS}
            made["gradients"][numbers % (2 * room)] = run.gradients[numbers % room]
            self._run, s.room = run._replace(**made), 2 * room

    def _read(self, last: bool = False) -> None:
        """Take the gradients that have ended, with spans and updates: of the `last` ones, all."""
        s, run = self._run.state[0], self._run
        self._steps.append(run.steps[: 2 * s.made].reshape(-1, 2).copy())
        rows = run.gradients.view(np.int64).reshape(len(run.gradients), -1)
        for first in range(0, int(s.logged), _TOGETHER):
            numbers = run.ended[first : min(first + _TOGETHER, s.logged)]
            self._append(rows[numbers % len(rows)])
        if last:
            rest = rows[np.arange(s.freed, s.begun) % len(rows)]
            pending = (rest[:, _ENDED] == 0) & (rest[:, _COMPUTED] <= s.now)
            self._append(rest[pending])
        s.logged = s.made = 0
        s.writes = 1 + last
        while s.writes:
            self._go_on(run)
            self._spans.append(run.spans[: s.spans].view(np.int64).reshape(-1, len(Span._fields)))
        self._parts += 1

    def _append(self, rows: Ints) -> None:
        rows[rows[:, _COMPUTED] > rows[:, _CUT], _COMPUTED] = -1
        self._gradients.append(rows[:, :_EACH])

    def _traced(self, label: str) -> Trace:
        s, start = self._run.state[0], self._start
        end = int(s.now)
        self._read(last=True)
        made = np.concatenate(self._steps)
        steps = made[:, 0].copy()
        return start.trace(
            label,
            end,
            at.REASONS[int(s.stopped_by)],
            steps,
            start.looks(steps, made[:, 1]),
            self._network.carried(self._run, end),
            span_rows=self._spans if self._parts < 2 else self._spans.by(0, start.workers),
            gradient_rows=self._gradients,
            gradients_aggregated=int(s.applied),
        )
