"""The runs of cases: which are to be made, in which processes, and what came of them."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, Protocol, Self, TypeAlias

from varsim.scenario.space import Sweep
from varsim.scenario.training import Scenario, is_random
from varsim.study.beginning import gradients
from varsim.study.case import Case, Finished, Task, packed, run_tasks
from varsim.study.metrics import throughput
from varsim.study.pool import Pool, cores
from varsim.study.simulation import engine_of
from varsim.study.store import Store
from varsim.study.verdict import interval
from varsim.version import ENGINE_VERSION

PATIENCE: Final = 15.0  # seconds to wait for a dask scheduler and its first worker
# Work that this process does about as soon as others could, in gradients.
_SMALL: Final = 200_000
_LOOKED_AT: Final = 16  # cases whose size is estimated
_GOLDEN: Final = (5**0.5 - 1) / 2


class Backend(Protocol):
    """Something that makes runs; a context. `jobs` is how many it makes at a time."""

    jobs: int
    window: int  # how many submissions may be under way, so that nobody waits for the next
    # What a future fails with if its process died.
    deaths: tuple[type[BaseException], ...]

    def submit(self, tasks: Sequence[Task]) -> "Future[list[Finished]]":
        """Have some runs made, one after the other."""
        ...

    def replace(self, jobs: int) -> None:
        """Begin anew with so many jobs, after a process died."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Here:
    """In this process, when they are submitted."""

    jobs = window = 1
    deaths: tuple[type[BaseException], ...] = ()

    def __init__(self, among: float = 0.0) -> None:
        self._among = among

    def submit(self, tasks: Sequence[Task]) -> "Future[list[Finished]]":
        """Make the runs at once."""
        future: Future[list[Finished]] = Future()
        future.set_result(run_tasks(tasks, ENGINE_VERSION, self._among))
        return future

    def replace(self, jobs: int) -> None:
        """There is no process to replace."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class Processes:
    """In processes of this machine; they end with this one.

    `among`: gradients of all runs that one of them makes.
    """

    deaths: tuple[type[BaseException], ...] = (BrokenProcessPool,)

    def __init__(self, jobs: int, among: float = 0.0) -> None:
        self.jobs, self.window, self._among = jobs, 2 * jobs, among
        self.pool = Pool(jobs)

    def submit(self, tasks: Sequence[Task]) -> "Future[list[Finished]]":
        """Have the runs made by one of the processes."""
        return self.pool.submit(run_tasks, list(tasks), ENGINE_VERSION, self._among)

    def replace(self, jobs: int) -> None:
        """Other processes, so many."""
        self.__exit__()
        self.jobs, self.window = jobs, 2 * jobs
        self.pool = Pool(jobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.__exit__()


class Dask:
    """On a cluster of dask, by the address of its scheduler.

    The workers need the same varsim. A task whose worker dies goes to another, until dask gives it
    up.
    """

    def __init__(self, address: str) -> None:
        import logging

        from distributed import Client, KilledWorker

        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        self.deaths: tuple[type[BaseException], ...] = (KilledWorker,)
        try:
            self._client: Any = Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise OSError(f"no dask scheduler answers at {address}") from error
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            self._client.close(timeout=1)
            raise OSError(f"the dask scheduler at {address} has no workers") from None
        self._executor: Any = self._client.get_executor(pure=False)
        self.jobs = max(1, sum(self._client.ncores().values()))
        self.window = 2 * self.jobs

    def submit(self, tasks: Sequence[Task]) -> "Future[list[Finished]]":
        """Have the runs made by one of the cluster's workers."""
        future: Future[list[Finished]] = self._executor.submit(
            run_tasks, list(tasks), ENGINE_VERSION
        )
        return future

    def replace(self, jobs: int) -> None:
        """Dask replaces its workers itself."""
        self.jobs, self.window = jobs, 2 * jobs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # the scheduler may be gone
            self._executor.shutdown(wait=False)
        self._client.close(timeout=1)


def backend(runs: Sequence[Case], jobs: int | None, scheduler: str | None) -> Backend:
    """Where runs of these cases are made, one each; `jobs` None: as is best for so much work."""
    if scheduler is not None:
        return Dask(scheduler)
    jobs = processes(runs, jobs)
    each = among(runs, jobs)
    return Processes(jobs, each) if jobs > 1 else Here(each)


def processes(runs: Sequence[Case], jobs: int | None) -> int:
    """In how many processes of this machine such runs are made; `jobs` as in `backend`."""
    if jobs is None:
        jobs = 1 if _gradients(runs) < _SMALL else cores()
    return min(jobs, len(runs))


def among(runs: Sequence[Case], jobs: int) -> float:
    """Roughly how many gradients each of so many processes makes that machine code can make.

    Each counts as many times as it takes SimPy longer than the simplest one.
    """
    return _gradients(runs, lambda one: engine_of(one, one.strategies[0]).gain) / max(1, jobs)


def _gradients(runs: Sequence[Case], weighs: Callable[[Scenario], float] = bool) -> float:
    """Roughly how many gradients the runs compute, each by its weight, from a few of them."""
    number = min(len(runs), _LOOKED_AT)
    # From all over, in no rhythm that strategies may have, too.
    some = [runs[int(len(runs) * (turn * _GOLDEN % 1))].scenario for turn in range(number)]
    sizes = [weight * gradients(one) for one in some if (weight := weighs(one))]
    return sum(sizes) * len(runs) / len(some) if some else 0.0


# By these the campaign is steered: their intervals say how often a case is run.
STEERING: Final = "examples_per_s"
TARGET: Final = "time_to_target"
# Several short runs go to a process together, as many as take about so long: handing them out one
# by one costs as much as some of them, and a process that waits for the next does nothing.
_TOGETHER: Final = 0.3  # seconds
_MOST_TOGETHER: Final = 64
_RECENT: Final = 0.2  # what the run that ended last counts for in how long runs are
DIED: Final = "its process died, and died again when this run was tried alone (out of memory?)"


class Status(NamedTuple):
    """How far a sweep is; `total` may rise, as replications are added."""

    done: int
    total: int
    resumed: int
    failed: int
    best: tuple[str, float] | None  # key of the case that is fastest so far, its examples/s


def steering(scenario: Scenario) -> tuple[str, ...]:
    """The metrics that are to be precise: throughput, and the time to the target loss if any."""
    wanted = scenario.stop.loss is not None or scenario.targets.loss is not None
    speed = throughput(scenario)
    return (speed, TARGET) if wanted else (speed,)


Watcher: TypeAlias = Callable[[Status], None]


class Ledger:
    """What has been run of some cases, and how often each is to be run as far as is known.

    `kept`: runs from before, which are not made again; those that failed are.
    """

    def __init__(self, cases: Iterable[Case], kept: Iterable[Finished]) -> None:
        self.cases = {case.key: case for case in cases}
        self.best: tuple[str, float] | None = None  # what the progress tells of
        self.resumed = 0
        self._runs: defaultdict[str, dict[int, Finished]] = defaultdict(dict)
        for run in kept:
            if not run.failure:
                self._runs[run.key][run.replication] = run
        self._asked: Counter[str] = Counter()
        self._done = self._total = self._failed = 0

    @property
    def status(self) -> Status:
        """How far it is."""
        return Status(self._done, self._total, self.resumed, self._failed, self.best)

    def ask(self, key: str, count: int) -> list[tuple[str, int]]:
        """What is to be made so that there are so many runs of a case."""
        found = self._runs[key]
        more = range(self._asked[key], count)
        todo = [(key, number) for number in more if number not in found]
        there = len(more) - len(todo)
        self._asked[key] += len(more)
        self._total += len(more)
        self._done += there
        self.resumed += there
        return todo

    def enter(self, run: Finished) -> list[tuple[str, int]]:
        """Take in a run; the runs that are now to be made besides."""
        self._runs[run.key][run.replication] = run
        self._done += 1
        self._failed += bool(run.failure)
        return self._more(run.key)

    def _more(self, key: str) -> list[tuple[str, int]]:
        """What follows from the runs of a case, once one has ended."""
        return []


class Books(Ledger):
    """The ledger of a sweep: each case is run until it is known well enough."""

    def __init__(self, sweep: Sweep, cases: Iterable[Case], kept: Iterable[Finished]) -> None:
        super().__init__(cases, kept)
        self._sweep = sweep

    def begin(self) -> list[tuple[str, int]]:
        """All runs that are to be made first, replication by replication."""
        wanted = [run for key in self.cases for run in self._more(key)]
        return sorted(wanted, key=lambda run: run[1])  # stable: cases in their order

    def runs(self, key: str) -> list[Finished]:
        """The runs of a case that count, by replication: as many as its values ask for."""
        found = self._runs[key]
        count, _ = self._wanted(key)
        return [found[number] for number in range(count) if number in found]

    def _wanted(self, key: str) -> tuple[int, bool]:
        """How often a case is to be run as far as is known, and whether it was."""
        runs, scenario = self._whole(key), self.cases[key].scenario
        if not is_random(scenario, scenario.strategies[0]):
            return 1, bool(runs)
        rule = self._sweep.first_replications, self._sweep.most_replications, self._sweep.precision
        values = [[run.measured[metric] for run in runs] for metric in steering(scenario)]
        return replications(values[0], *rule, *values[1:])

    def _whole(self, key: str) -> list[Finished]:
        """Replications 0, 1, ... up to the first that is missing or failed."""
        runs: list[Finished] = []
        found = self._runs[key]
        while (run := found.get(len(runs))) is not None and not run.failure:
            runs.append(run)
        return runs

    def _more(self, key: str) -> list[tuple[str, int]]:
        """What a case wants now: nothing while something is under way, or once one run failed."""
        found = self._runs[key]
        under_way = any(number not in found for number in range(self._asked[key]))
        if under_way or any(run.failure for run in found.values()):
            return []
        count, enough = self._wanted(key)
        todo = self.ask(key, count)
        if enough:
            mean = interval([run.measured[STEERING] for run in self._whole(key)[:count]]).mean
            if self.best is None or mean > self.best[1]:
                self.best = (key, mean)
        return todo


class Runs(Ledger):
    """The ledger of a search, and a way to make more runs, a batch at a time.

    Which ones depends on nothing but the results. The total of its status is that of the batch
    under way and all before it.
    """

    def __init__(self, store: Store, backend: Backend, watch: Watcher) -> None:
        super().__init__((), store.runs())
        self._store, self._backend, self._watch = store, backend, watch

    def make(self, wanted: Iterable[tuple[Case, int]]) -> None:
        """See that these cases have been run so often, replication by replication."""
        todo = []
        for case, count in wanted:
            self.cases.setdefault(case.key, case)
            todo += self.ask(case.key, count)
        todo.sort(key=lambda run: run[1])  # stable
        if todo:
            self._watch(self.status)
            carry_out(self, self._store, self._backend, self._watch, todo)

    def of(self, case: Case, count: int | None = None) -> list[Finished]:
        """The first runs of a case, replication by replication; by default all it was asked for."""
        found, asked = self._runs[case.key], self._asked[case.key]
        numbers = range(asked if count is None else min(count, asked))
        return [found[number] for number in numbers if number in found]


@contextmanager
def campaign(
    store: Store, cases: Sequence[Case], jobs: int | None, scheduler: str | None, watch: Watcher
) -> Iterator[Runs]:
    """What makes runs for a search that begins with these; `jobs` as in `backend`."""
    with backend(cases, jobs, scheduler) as made_by:
        yield Runs(store, made_by, watch)


def carry_out(
    books: Ledger,
    store: Store,
    backend: Backend,
    watch: Watcher,
    todo: Iterable[tuple[str, int]],
) -> None:
    """Make the runs `todo` and all that follow from them; each is kept as it ends."""
    queue = _Queue(books, todo)
    running: dict[Future[list[Finished]], list[Task]] = {}

    def note(finished: Sequence[Finished]) -> None:
        store.add(finished)
        for run in finished:
            queue.add(books.enter(run))
            queue.took(run)
        watch(books.status)

    while queue or running:
        suspects: list[Task] = []
        finished: list[Finished] = []
        gone = False
        while queue and len(running) < backend.window:
            tasks = queue.take(backend.jobs)
            try:
                running[backend.submit(tasks)] = tasks
            except backend.deaths:
                suspects += tasks
                break
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            tasks = running.pop(future)
            try:
                finished += future.result()
            except backend.deaths:
                suspects += tasks
            except CancelledError:
                gone = True
        note(finished)
        if gone:
            raise OSError("the cluster that makes the runs is gone")
        if suspects:
            suspects += [task for tasks in running.values() for task in tasks]
            running.clear()
            _clear(suspects, backend, note)


def _clear(
    suspects: Sequence[Task], backend: Backend, note: Callable[[Sequence[Finished]], None]
) -> None:
    """A process died: try what was under way one by one, and mark the run at which it does again.

    Goes on afterwards with half as many jobs.
    """
    jobs = max(1, backend.jobs // 2)
    backend.replace(1)
    for task in sorted(suspects, key=lambda task: (task.replication, task.key)):
        try:
            note(backend.submit([task]).result())
        except backend.deaths:
            note([Finished(task.key, task.replication, 0.0, {}, DIED)])
            backend.replace(1)
    backend.replace(jobs)


class _Queue:
    """The runs to be made, handed out a few at a time."""

    def __init__(self, books: Ledger, todo: Iterable[tuple[str, int]]) -> None:
        self._books = books
        self._waiting = deque(todo)
        self._packed: dict[str, bytes] = {}
        self._seconds: dict[str, float] = {}  # of the last run of each case
        self._recent: float | None = None  # seconds of a run, by those that ended last

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, runs: Iterable[tuple[str, int]]) -> None:
        """More runs, behind all others."""
        self._waiting.extend(runs)

    def took(self, run: Finished) -> None:
        """How long one run was."""
        self._seconds[run.key] = run.seconds
        before = run.seconds if self._recent is None else self._recent
        self._recent = before + _RECENT * (run.seconds - before)

    def take(self, jobs: int) -> list[Task]:
        """The next runs, as many as are to be made together; towards the end fewer and fewer."""
        most = max(1, min(_MOST_TOGETHER, len(self._waiting) // (2 * jobs)))
        taken: list[Task] = []
        seconds = 0.0
        while self._waiting and len(taken) < most and seconds < _TOGETHER:
            key, replication = self._waiting.popleft()
            taken.append(self._task(key, replication))
            seconds += self._seconds.get(key, _TOGETHER if self._recent is None else self._recent)
        return taken

    def _task(self, key: str, replication: int) -> Task:
        if key not in self._packed:
            self._packed[key] = packed(self._books.cases[key])
        return Task(key, replication, self._packed[key])


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
