"""The runs of cases: which are to be made, in which processes, and what came of them."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from varsim.scenario.training import AnyScenario, Scenario, is_random
from varsim.study.beginning import gradients
from varsim.study.case import Case, CaseTask, Finished, packed, run_tasks
from varsim.study.metrics import throughput
from varsim.study.pool import Backend, Dask, Here, Pool, cores
from varsim.study.store import Store, kept
from varsim.study.verdict import interval
from varsim.version import ENGINE_VERSION

T = TypeVar("T", covariant=True)

# Work that this process does about as soon as others could, in gradients.
_SMALL: Final = 200_000
_LOOKED_AT: Final = 16  # cases whose size is estimated
_GOLDEN: Final = (5**0.5 - 1) / 2
# By these it is decided how often a case is run: their intervals are to be narrow.
STEERING: Final = "examples_per_s"
TARGET: Final = "time_to_target"
# Several short runs go to a process together, as many as take about so long: handing them out one
# by one costs as much as some of them, and a process that waits for the next does nothing.
_TOGETHER: Final = 0.3  # seconds
_MOST_TOGETHER: Final = 64
_RECENT: Final = 0.2  # what the run that ended last counts for in how long runs are
DIED: Final = "its process died, and died again when this run was tried alone (out of memory?)"


class Status(NamedTuple):
    """How far it is; `total` may rise, as replications are added."""

    done: int
    total: int
    resumed: int
    failed: int
    best: tuple[str, float] | None  # which is best so far, by a key, and what it reaches


Watcher: TypeAlias = Callable[[Status], None]
# How often a case is to be run, as far as is known from its runs 0, 1, ..., and whether it was.
Rule: TypeAlias = Callable[[AnyScenario, Sequence[Finished]], tuple[int, bool]]


class Study(Protocol[T]):
    """Something that is found out by many runs: which these are depends on results alone.

    `first`: how often a case is run at first.
    """

    first: int

    @property
    def cases(self) -> list[Case]:
        """About what is run, once each."""
        ...

    def begin(self, runs: "Runs") -> Sequence[Case]:
        """Ask for what is run in any case; about what is to be made, a case for each run."""
        ...

    def run(self, runs: "Runs") -> T:
        """Make the runs; what came of them."""
        ...


class Runs:
    """What has been run of some cases, and a way to make more, a batch at a time.

    Runs that the store keeps are not made again; those that failed are. Without a `backend` runs
    are made here, and none where all are there. The total of the status is that of the batch under
    way and all before it.
    """

    def __init__(
        self,
        store: Store,
        backend: Backend | None = None,
        watch: Watcher = lambda status: None,
        among: float = 0.0,
    ) -> None:
        self.store, self.backend, self.among = store, backend or Here(), among
        self.cases: dict[str, Case] = {}
        self.best: tuple[str, float] | None = None  # what the progress tells of
        self.resumed = 0
        self.todo: deque[tuple[str, int]] = deque()  # what is to be made, by case and replication
        self._watch = watch
        self._rules: dict[str, Rule] = {}
        self._runs: defaultdict[str, dict[int, Finished]] = defaultdict(dict)
        for run in store.runs():
            if not run.failure:
                self._runs[run.key][run.replication] = run
        self._asked: Counter[str] = Counter()
        self._done = self._total = self._failed = 0
        self._packed: dict[str, bytes] = {}
        self._seconds: dict[str, float] = {}  # of the last run of each case
        self._recent: float | None = None  # seconds of a run, by those that ended last

    @property
    def status(self) -> Status:
        """How far it is."""
        return Status(self._done, self._total, self.resumed, self._failed, self.best)

    def of(self, case: Case, count: int | None = None) -> list[Finished]:
        """The first runs of a case, replication by replication; by default all that count.

        Those are as many as it was asked for, or as its rule asks for.
        """
        found, asked = self._runs[case.key], self._asked[case.key]
        if (rule := self._rules.get(case.key)) is not None:
            asked, _ = rule(case.scenario, self._whole(case.key))
        numbers = range(asked if count is None else min(count, asked))
        return [found[number] for number in numbers if number in found]

    def ask(self, wanted: Iterable[tuple[Case, int | Rule]]) -> None:
        """Have these cases run so often, or as often as a rule says: what is missing is `todo`."""
        todo = []
        for case, count in wanted:
            self.cases.setdefault(case.key, case)
            if callable(count):
                self._rules[case.key] = count
                todo += self._further(case.key)
            else:
                todo += self._missing(case.key, count)
        self.todo.extend(sorted(todo, key=lambda run: run[1]))  # stable: cases in their order

    def make(self, wanted: Iterable[tuple[Case, int | Rule]] = ()) -> None:
        """Ask for these runs, and make all that is to be made, and all that follows from it."""
        self.ask(wanted)
        if self.todo:
            self._watch(self.status)
        running: dict[Future[list[Finished]], list[CaseTask]] = {}
        while self.todo or running:
            suspects: list[CaseTask] = []
            finished: list[Finished] = []
            gone = False
            while self.todo and len(running) < self.backend.window:
                tasks = self._take()
                try:
                    running[self._submit(tasks)] = tasks
                except self.backend.deaths:
                    suspects += tasks
                    break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                tasks = running.pop(future)
                try:
                    finished += future.result()
                except self.backend.deaths:
                    suspects += tasks
                except CancelledError:
                    gone = True
            self._note(finished)
            if gone:
                raise OSError("the cluster that makes the runs is gone")
            if suspects:
                suspects += [task for tasks in running.values() for task in tasks]
                running.clear()
                self._clear(suspects)

    def _submit(self, tasks: list[CaseTask]) -> "Future[list[Finished]]":
        return self.backend.submit(run_tasks, tasks, ENGINE_VERSION, self.among)

    def _note(self, finished: Sequence[Finished]) -> None:
        """Keep some runs, and ask for those that are now to be made besides."""
        self.store.add(finished)
        for run in finished:
            self._runs[run.key][run.replication] = run
            self._done += 1
            self._failed += bool(run.failure)
            self.todo.extend(self._further(run.key))
            self._seconds[run.key] = run.seconds
            before = run.seconds if self._recent is None else self._recent
            self._recent = before + _RECENT * (run.seconds - before)
        self._watch(self.status)

    def _missing(self, key: str, count: int) -> list[tuple[str, int]]:
        """What is to be made so that there are so many runs of a case."""
        more = range(self._asked[key], count)
        todo = [(key, number) for number in more if number not in self._runs[key]]
        there = len(more) - len(todo)
        self._asked[key] += len(more)
        self._total += len(more)
        self._done += there
        self.resumed += there
        return todo

    def _further(self, key: str) -> list[tuple[str, int]]:
        """What the rule of a case wants now: nothing while a run is under way, or once one failed.

        The case with the highest throughput of those that need no more is the best so far.
        """
        rule, found = self._rules.get(key), self._runs[key]
        under_way = any(number not in found for number in range(self._asked[key]))
        if rule is None or under_way or any(run.failure for run in found.values()):
            return []
        count, enough = rule(self.cases[key].scenario, self._whole(key))
        todo = self._missing(key, count)
        if enough:
            speed = speed_of(self.cases[key].scenario)
            mean = interval([run.measured[speed] for run in self._whole(key)[:count]]).mean
            if self.best is None or mean > self.best[1]:
                self.best = (key, mean)
        return todo

    def _whole(self, key: str) -> list[Finished]:
        """Replications 0, 1, ... up to the first that is missing or failed."""
        runs: list[Finished] = []
        found = self._runs[key]
        while (run := found.get(len(runs))) is not None and not run.failure:
            runs.append(run)
        return runs

    def _clear(self, suspects: Sequence[CaseTask]) -> None:
        """A process died: try what was under way one by one, and mark the run at which it does so.

        Goes on afterwards with half as many jobs.
        """
        jobs = max(1, self.backend.jobs // 2)
        self.backend.replace(1)
        for task in sorted(suspects, key=lambda task: (task.replication, task.key)):
            try:
                self._note(self._submit([task]).result())
            except self.backend.deaths:
                self._note([Finished(task.key, task.replication, 0.0, {}, DIED)])
                self.backend.replace(1)
        self.backend.replace(jobs)

    def _take(self) -> list[CaseTask]:
        """The next runs, as many as are to be made together; towards the end fewer and fewer."""
        most = max(1, min(_MOST_TOGETHER, len(self.todo) // (2 * self.backend.jobs)))
        taken: list[CaseTask] = []
        seconds = 0.0
        while self.todo and len(taken) < most and seconds < _TOGETHER:
            key, replication = self.todo.popleft()
            if key not in self._packed:
                self._packed[key] = packed(self.cases[key])
            taken.append(CaseTask(key, replication, self._packed[key]))
            seconds += self._seconds.get(key, _TOGETHER if self._recent is None else self._recent)
        return taken


@contextmanager
def campaign(
    study: Study[object],
    directory: Path | None = None,
    *,
    jobs: int | None = None,
    scheduler: str | None = None,
    watch: Watcher = lambda status: None,
    say: Callable[[str], object] = lambda text: None,
    then: str = "made again",
) -> Iterator[Runs]:
    """What makes the runs of a study, which has begun: `study.run(runs)` makes them.

    Runs are kept in `directory`, and those that are there are not made again; without one they are
    forgotten. Of a file there that cannot be read it says what becomes of its runs (`then`). `jobs`
    None: as many processes as are best for so much work; `scheduler`: the address of one of dask.
    """
    with kept(directory, say, then) as store:
        runs = Runs(store, watch=watch)
        expected = study.begin(runs)
        with backend(expected, jobs, scheduler) as runs.backend:
            if scheduler is None:
                runs.among = among(expected, runs.backend.jobs)
            yield runs


def backend(runs: Sequence[Case], jobs: int | None, scheduler: str | None) -> Backend:
    """Where runs of these cases are made, one each; `jobs` None: as is best for so much work."""
    if scheduler is not None:
        return Dask(scheduler)
    jobs = processes(runs, jobs)
    return Pool(jobs) if jobs > 1 else Here()


def processes(runs: Sequence[Case], jobs: int | None) -> int:
    """In how many processes of this machine such runs are made; `jobs` as in `backend`."""
    if jobs is None:
        jobs = 1 if _gradients(runs) < _SMALL else cores()
    return min(jobs, len(runs))


def among(runs: Sequence[Case], jobs: int) -> float:
    """Roughly how many gradients each of so many processes makes."""
    return _gradients(runs) / max(1, jobs)


def _gradients(runs: Sequence[Case]) -> float:
    """Roughly how many gradients the runs compute, from a few of them."""
    number = min(len(runs), _LOOKED_AT)
    # From all over, in no rhythm that strategies may have, too.
    some = [runs[int(len(runs) * (turn * _GOLDEN % 1))].scenario for turn in range(number)]
    return sum(map(gradients, some)) * len(runs) / len(some) if some else 0.0


def speed_of(scenario: AnyScenario) -> str:
    """The metric that tells how fast a case is as long as nothing fails."""
    return STEERING if isinstance(scenario, Scenario) else throughput(scenario)


def steering(scenario: AnyScenario) -> tuple[str, ...]:
    """The metrics that are to be precise: throughput, and the time to the target loss if any."""
    wanted = scenario.target_loss is not None
    speed = throughput(scenario)
    return (speed, TARGET) if wanted else (speed,)


def until_precise(first: int, most: int, precision: float) -> Rule:
    """Runs until the intervals of the steering metrics are narrow enough, by the values alone."""

    def rule(scenario: AnyScenario, runs: Sequence[Finished]) -> tuple[int, bool]:
        if not is_random(scenario, scenario.strategies[0]):
            return 1, bool(runs)
        values = [[run.measured[metric] for run in runs] for metric in steering(scenario)]
        return replications(values[0], first, most, precision, *values[1:])

    return rule


def precise(values: Sequence[float], precision: float) -> bool:
    """Whether the half-width of the 95 % interval is at most the share `precision` of the mean."""
    found = interval(values)
    return not math.isnan(found.mean) and found.half_width <= precision * abs(found.mean)


def replications(
    values: Sequence[float], first: int, most: int, precision: float, *others: Sequence[float]
) -> tuple[int, bool]:
    """How many replications a case has after which to stop, and whether these are all there.

    `values` are those of replications 0, 1, ... that are there; `others` are other numbers of the
    same replications that are to be as precise: of those that do not exist in all of them there is
    no mean to know. Where more are wanted the number is the next at which to look again: as many
    as would do if they scattered as those before, but at most twice as many as now. So it follows
    from the values alone, not from the order in which runs end.
    """
    count = first
    while count <= len(values):
        known = [own[:count] for own in others if all(map(math.isfinite, own[:count]))]
        wide = [own for own in (values[:count], *known) if not precise(own, precision)]
        if count >= most or not wide:
            return count, True
        count = min(most, max(_next(own, precision) for own in wide))
    return count, False


def _next(values: Sequence[float], precision: float) -> int:
    """When to look again, after these values did not do."""
    count = len(values)
    found = interval(values)
    wanted = precision * abs(found.mean)
    if math.isnan(found.half_width) or wanted <= 0:
        return count + 1 if count == 1 else 2 * count
    return max(count + 1, min(2 * count, math.ceil(count * (found.half_width / wanted) ** 2)))
