"""Ledger of a run: the fate of every gradient, updates and examples, time spent on sending."""

from typing import Final, NamedTuple

from varsim.cluster.record.rows import Rows
from varsim.cluster.record.trace import Outcome, RunRecorder, Span
from varsim.learning.gradient import Gradient

_APPLIED, _DROPPED, _PARTLY, _, _LOST = map(int, Outcome)
_NO_STEP: Final = -1  # of a gradient that no update took


class Balance(NamedTuple):
    """What a model is made of at a moment, and what had been done by then."""

    kept: int = 0  # updates
    parts: int = 0  # of gradients, kept
    updates: int = 0  # made, undone ones among them
    rows: int = 0  # of gradients, written


class Ledger:
    """Updates, examples and gradients of a run; a gradient's row is written when it has ended.

    `global_step`: updates made, also those that are `undone` since the model went back to what it
    was before them. `in_flight`: gradients that are computed or on their way, oldest first.
    `variables`: the number of those with a gradient. `batch_size`: examples in a gradient.
    """

    def __init__(self, recorder: RunRecorder, variables: int, batch_size: int) -> None:
        self.recorder = recorder
        self._rows = recorder.gradients
        self.variables = variables
        self.batch_size = batch_size
        self.global_step = 0
        self.aggregated = 0  # gradients of which any variable was applied
        self.sending = self.hidden = 0  # ns; see Trace
        self.in_flight: dict[Gradient, None] = {}
        self.rolled_back: list[tuple[int, int, int, int]] = []  # see Trace
        self._parts = 0  # applied, of gradients; whole numbers, as thirds would not add up
        self.undone = self._parts_undone = 0
        self.notes_meetings = False  # somebody accounts for what is lost with a worker
        self.meets = False  # workers learn by themselves, and meet from time to time
        self.met: list[tuple[int, int]] = []  # who, and when (ns)
        self.thrown_away: list[tuple[int, int]] = []

    @property
    def examples(self) -> float:
        """In applied gradients."""
        return self._parts * self.batch_size / self.variables

    @property
    def examples_undone(self) -> float:
        """In those of them that the model is not made of any more."""
        return self._parts_undone * self.batch_size / self.variables

    @property
    def balance(self) -> Balance:
        """That of this moment."""
        kept, parts = self.global_step - self.undone, self._parts - self._parts_undone
        return Balance(kept, parts, self.global_step, self.recorder.gradients_written)

    def roll_back(self, to: Balance) -> None:
        """The model is again what it was: what was done to it since is undone."""
        now = self.balance
        self.rolled_back.append((to.updates, now.updates, to.rows, now.rows))
        self.undone = now.updates - to.kept
        self._parts_undone = self._parts - to.parts

    def count_step(self, now: int) -> None:
        """The model has been updated once more."""
        self.global_step += 1
        self.recorder.steps.append(now)
        self.recorder.pack()

    def meet(self, rank: int, now: int) -> None:
        """What a worker has learnt is with others, too, and outlives it."""
        if self.notes_meetings:
            self.met.append((rank, now))

    def throw_away(self, rank: int, now: int) -> None:
        """What a worker has done since it last handed something over is in vain, for a death."""
        if self.notes_meetings:
            self.thrown_away.append((rank, now))

    def has_sent(self, sent: Span, computed: int) -> None:
        """What a worker sent, which computed meanwhile, until `computed` (ns)."""
        self.sending += sent.end - sent.start
        self.hidden += max(0, min(sent.end, computed) - sent.start)
        self.recorder.sent(sent)

    def sends(self, workers: int) -> Rows:
        """What was sent beside computation, if any was: see Trace."""
        found = self.recorder.send_rows(workers)
        return Rows(found.columns) if self.sending and not self.hidden else found

    def ended(self, gradient: Gradient, now: int, global_step: int | None = None) -> None:
        """A gradient has been applied, dropped or lost, for every variable.

        `global_step`: updates made before, of the copy that it was applied to; by default all.
        """
        step = self.global_step if global_step is None else global_step
        if gradient.applied:
            self.aggregated += 1
            self._parts += gradient.applied
            outcome = _APPLIED if gradient.applied == self.variables else _PARTLY
        elif gradient.given_up:
            outcome, step = _LOST, _NO_STEP
        else:
            outcome = _DROPPED
        self._write(gradient, now, step, outcome)
        del self.in_flight[gradient]

    def close(self, end: int) -> int:
        """Write the rows of gradients computed by the end of the run, but never used.

        Returns how many are neither: their computation goes on.
        """
        pending = [gradient for gradient in self.in_flight if gradient.computed <= end]
        for gradient in pending:
            if gradient.arrived > end:  # it was under way when the run deadlocked
                gradient.arrived = -1
            self._write(gradient, -1, _NO_STEP, int(Outcome.PENDING))
        return len(self.in_flight) - len(pending)

    def _write(self, gradient: Gradient, ended: int, step: int, outcome: int) -> None:
        read = gradient.read
        self._rows += (
            gradient.worker,
            gradient.iteration,
            read.time,
            read.global_step,
            gradient.compute_start,
            gradient.computed,
            gradient.arrived,
            ended,
            step,
            outcome,
            gradient.applied,
        )
