"""Asynchronous and synchronous replicas once more, written from the rules: a heap, no processes.

The rules are those of TensorFlow's SyncReplicasOptimizer and of an asynchronous parameter server.
Where several things happen in one instant:
- the chief begins before the workers, and they by rank;
- what somebody sets off in an instant comes after all that was set off before: the chief's turn
  when the last variable is updated, the turn of those who wait for tokens when tokens are put in,
  in the order in which they asked;
- a worker that has handed over its gradient asks for a token, and with a token reads, at once;
- where a gradient takes time to be applied, it is applied before its worker goes on;
- who leaves a lock goes on at once, so it reads before the next one in line begins; those who wait
  come in the order in which their gradients were there.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import pairwise

from tests.oracle.agenda import NEVER, Agenda
from tests.oracle.fluid import Fair
from tests.oracle.history import Doing, Fate, History, Measured, Put, Taken
from tests.oracle.links import FirstCome, Wires, nearest
from tests.oracle.setting import Setting, Slow, Tokens
from tests.oracle.updating import Handling, Updates


@dataclass(eq=False)
class Gradient:
    """A gradient on its way."""

    fate: Fate  # so far
    label: int  # the step of the worker's token
    left: int  # variables for which it has neither been applied nor dropped


@dataclass
class Worker:
    """What a worker is at."""

    rank: int
    seconds: Iterator[float]
    slow: list[Slow]
    iteration: int = -1
    label: int = 0
    since: int = 0  # when what it does began
    doing: str = ""
    done: list[Doing] = field(default_factory=list)

    def end(self, activity: str, time: int, iteration: int) -> None:
        """It has been doing this until `time`."""
        self.done.append(Doing(self.rank, activity, self.since, time, iteration))
        self.since = time

    def compute(self, start: int) -> int:
        """When the next step that starts now ends (ns)."""
        seconds = next(self.seconds)
        if all(slow.after == 0 and slow.until is None for slow in self.slow):
            factor = 1.0
            for slow in self.slow:
                factor *= slow.factor
            return start + round(seconds * (factor * 1e9))
        left, time = Fraction(round(seconds * 1e9)), start
        for begin, end in pairwise(sorted({0, NEVER, *self._changes()})):
            if end <= start:
                continue
            pace = self._pace(begin)
            possible = (end - time) / pace
            if left <= possible:
                return time + nearest(left, pace)
            left -= possible
            time = end
        raise AssertionError

    def _changes(self) -> Iterator[int]:
        for slow in self.slow:
            yield round(slow.after * 1e9)
            if slow.until is not None:
                yield round(slow.until * 1e9)

    def _pace(self, time: int) -> Fraction:
        pace = Fraction(1)
        for slow in self.slow:
            until = NEVER if slow.until is None else round(slow.until * 1e9)
            if round(slow.after * 1e9) <= time < until:
                pace *= Fraction(slow.factor)
        return pace


class Replicas(ABC):
    """Workers that read, compute and push; what comes of it is the subclass's."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.agenda = Agenda()
        self.wires: Wires = (Fair if setting.fair else FirstCome)(setting, self.agenda)
        self.workers = [
            Worker(rank, setting.seconds(rank), [s for s in setting.slow if s.rank == rank])
            for rank in range(setting.workers)
        ]
        self.alone = [self.wires.alone(worker.rank) for worker in self.workers]
        self.variables = len(setting.tensors)
        self.updates: Updates | None = None
        if setting.update is not None:
            self.updates = Updates(setting.update, self.wires.parts)
        self.ended_by = ""
        self.steps: list[int] = []
        self.put: list[Put] = []
        self.taken: list[Taken] = []
        self.fates: list[Fate] = []
        self.measured: list[Measured] = []
        self.open: dict[Gradient, None] = {}
        self.examples = Fraction(0)
        self.measure_at = 0

    def run(self) -> History:
        """The whole run."""
        limits, agenda = self.setting.limits, self.agenda
        self.measure()
        for worker in self.workers:
            self.read(worker)
        limit = None if limits.time is None else round(limits.time * 1e9)
        self.ended_by = agenda.run(self.wires.flows, limit) or self.ended_by
        end = agenda.now
        for gradient in self.open:
            if gradient.fate.computed <= end:
                self.fates.append(gradient.fate)
        doings = [doing for worker in self.workers for doing in self.life(worker, end)]
        if self.measured[-1].step != len(self.steps):
            self.measure()
        return History(
            self.ended_by,
            end,
            self.steps,
            self.put,
            self.taken,
            self.fates,
            doings,
            self.measured,
        )

    def read(self, worker: Worker) -> None:
        """Ask for the variables as they are now."""
        worker.doing = "read"
        request = self.agenda.now, len(self.steps)
        moved = partial(self.moved, worker, "read")
        self.wires.read(worker.rank, moved, partial(self.compute, worker, *request))

    def compute(self, worker: Worker, read: int, read_step: int) -> None:
        """What was asked for is there: compute the next gradient."""
        worker.iteration, start = worker.iteration + 1, self.agenda.now
        end = worker.compute(start)
        worker.end("compute", end, worker.iteration)
        fate = Fate(worker.rank, worker.iteration, read, read_step, start, end)
        gradient = Gradient(fate, worker.label, self.variables)
        self.open[gradient] = None
        self.agenda.at(end, partial(self.push, worker, gradient))

    def push(self, worker: Worker, gradient: Gradient) -> None:
        """Send it, variable by variable."""
        worker.doing = "write"
        handling = Handling()

        def arrived(variable: int) -> None:
            end = now = self.agenda.now
            gradient.fate = gradient.fate._replace(arrived=now)
            if self.updates is not None and not self.setting.locking:
                end = self.updates.handle(variable, now, handling)
            if end > now:
                self.agenda.at(end, partial(self.arrived, variable, gradient))
            else:
                self.arrived(variable, gradient)

        def sent() -> None:
            if self.updates is not None and handling.end > self.agenda.now:
                self.moved(worker, "write", handling.end, self.updates.alone(handling))
                self.agenda.at(handling.end, partial(self.handed_over, worker, gradient))
            else:
                self.handed_over(worker, gradient)

        self.wires.push(worker.rank, lambda end: self.moved(worker, "write", end), arrived, sent)

    @abstractmethod
    def arrived(self, variable: int, gradient: Gradient) -> None:
        """A variable's part of a gradient is there."""

    @abstractmethod
    def handed_over(self, worker: Worker, gradient: Gradient) -> None:
        """All of a worker's gradient is there, and handled."""

    def moved(self, worker: Worker, activity: str, end: int, alone: int | None = None) -> None:
        """A transfer ends; what it took beyond an idle route was queueing."""
        begin = end - (self.alone[worker.rank] if alone is None else alone)
        iteration = worker.iteration + (activity == "read")
        if begin > worker.since:
            worker.end("queue", begin, iteration)
        worker.end(activity, end, iteration)

    def settle(self, gradient: Gradient, applied: bool) -> None:
        """A variable's part of a gradient was applied or dropped."""
        variables = gradient.fate.variables + applied
        gradient.fate = gradient.fate._replace(variables=variables)
        gradient.left -= 1
        if gradient.left:
            return
        whole = variables == self.variables
        outcome = "applied" if whole else "partly" if variables else "dropped"
        self.examples += self.setting.batch_size * Fraction(variables, self.variables)
        ended = {"ended": self.agenda.now, "ended_step": len(self.steps), "outcome": outcome}
        self.fates.append(gradient.fate._replace(**ended))
        del self.open[gradient]

    def count_step(self) -> None:
        """global_step rises."""
        limits = self.setting.limits
        self.steps.append(self.agenda.now)
        if self.examples >= self.measure_at:
            self.measure()
        if limits.steps is not None and len(self.steps) >= limits.steps:
            self.ended_by = "global_steps"
        elif limits.examples is not None and self.examples >= limits.examples:
            self.ended_by = "examples"
        self.agenda.over = bool(self.ended_by)

    def measure(self) -> None:
        """Look at the model, and again when enough examples more have been applied."""
        every = self.setting.measure_every
        self.measured.append(Measured(self.agenda.now, len(self.steps), round(self.examples)))
        self.measure_at = (self.examples // every + 1) * every

    def life(self, worker: Worker, end: int) -> Iterator[Doing]:
        """All that a worker did until the end, which may find it at something."""
        if worker.since < end:
            worker.end(worker.doing, end, worker.iteration + (worker.doing == "read"))
        for doing in worker.done:
            cut = doing._replace(end=min(doing.end, end))
            if cut.start < cut.end:
                yield cut


class Asynchronous(Replicas):
    """Every variable is updated as its gradient arrives; the step counts when all are."""

    def arrived(self, variable: int, gradient: Gradient) -> None:
        """Apply it."""
        self.settle(gradient, applied=True)
        if gradient.left == 0:
            self.count_step()

    def handed_over(self, worker: Worker, gradient: Gradient) -> None:
        """Go on."""
        self.read(worker)


class Locking(Replicas):
    """A gradient is applied whole, by its worker, which has a lock meanwhile."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.line: deque[tuple[Worker, Gradient]] = deque()  # who has the lock, then who waits

    def arrived(self, variable: int, gradient: Gradient) -> None:
        """Keep it."""

    def handed_over(self, worker: Worker, gradient: Gradient) -> None:
        """Take the lock, or wait for it."""
        self.line.append((worker, gradient))
        if len(self.line) == 1:
            self.begin()
        else:
            worker.doing = "lock"

    def next(self) -> None:
        """The next in line has the lock."""
        worker, _ = self.line[0]
        worker.end("lock", self.agenda.now, worker.iteration)
        self.begin()

    def begin(self) -> None:
        """Update all variables."""
        worker, _ = self.line[0]
        worker.doing = "write"
        now, handling = self.agenda.now, Handling()
        for variable in range(self.variables) if self.updates is not None else ():
            self.updates.handle(variable, now, handling)
        if handling.end > now:
            self.agenda.at(handling.end, self.updated)
        else:
            self.updated()

    def updated(self) -> None:
        """Count the step, leave the lock, go on."""
        worker, gradient = self.line.popleft()
        worker.end("write", self.agenda.now, worker.iteration)
        for _ in range(self.variables):
            self.settle(gradient, applied=True)
        self.count_step()
        if self.line:
            self.agenda.at(self.agenda.now, self.next)
        self.read(worker)


class Synchronous(Replicas):
    """Accumulators, one per variable, and a queue of tokens."""

    def __init__(self, setting: Setting, tokens: Tokens) -> None:
        super().__init__(setting)
        self.required = tokens.required
        total = setting.workers if tokens.total is None else tokens.total
        self.copies = max(tokens.required, total)
        self.tokens: deque[int] = deque()
        self.waiting: deque[Worker] = deque()
        self.local_steps = [0] * self.variables  # of the accumulators
        self.inside: list[list[Gradient]] = [[] for _ in range(self.variables)]
        self.served = [False] * self.variables  # the takes of this round
        self.enqueue(tokens.required if tokens.initial in (None, -1) else tokens.initial)

    def arrived(self, variable: int, gradient: Gradient) -> None:
        """Into the accumulator, unless it is stale."""
        if gradient.label < self.local_steps[variable]:
            self.settle(gradient, applied=False)
        else:
            self.inside[variable].append(gradient)
            self.serve(variable)

    def serve(self, variable: int) -> None:
        """Update a variable with all that is inside, if its take waits and it is enough."""
        if self.served[variable] or len(self.inside[variable]) < self.required:
            return
        self.local_steps[variable] += 1
        gradients, self.inside[variable] = self.inside[variable], []
        for gradient in gradients:
            self.settle(gradient, applied=True)
        self.served[variable] = True
        if all(self.served):
            self.agenda.at(self.agenda.now, self.chief)

    def chief(self) -> None:
        """All variables are updated: count the step, put in tokens, take again."""
        self.count_step()
        self.enqueue(self.copies)
        self.served = [False] * self.variables
        for variable in range(self.variables):
            self.serve(variable)

    def handed_over(self, worker: Worker, gradient: Gradient) -> None:
        """Ask for a token."""
        if self.tokens:
            self.go_on(worker, self.tokens.popleft())
        else:
            worker.doing = "token"
            self.waiting.append(worker)

    def enqueue(self, copies: int) -> None:
        """Put in tokens of this step; the n-th who asked gets the n-th ever put in."""
        if copies <= 0:
            return
        self.put.append(Put(self.agenda.now, len(self.steps), copies))
        self.tokens.extend([len(self.steps)] * copies)
        if self.waiting:
            lucky = [
                (self.waiting.popleft(), self.tokens.popleft())
                for _ in range(min(len(self.waiting), len(self.tokens)))
            ]
            self.agenda.at(self.agenda.now, partial(self.release, lucky))

    def release(self, lucky: list[tuple[Worker, int]]) -> None:
        """Those who got a token go on."""
        for worker, step in lucky:
            worker.end("token", self.agenda.now, worker.iteration)
            self.go_on(worker, step)

    def go_on(self, worker: Worker, step: int) -> None:
        """With a token, to the next gradient."""
        worker.label = step
        self.taken.append(Taken(self.agenda.now, worker.rank, step))
        self.read(worker)


def expected(setting: Setting) -> History:
    """What is to come out; raises DoubtfulError where the rules leave it open."""
    if setting.tokens is None:
        return (Locking if setting.locking else Asynchronous)(setting).run()
    return Synchronous(setting, setting.tokens).run()
