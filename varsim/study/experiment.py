"""Experiments: a scenario of any kind, and what can be asked of it."""

import json
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeAlias, TypeVar
from warnings import warn

from varsim.scenario.load import Document, Loaded, ScenarioSource
from varsim.scenario.load import load as read
from varsim.scenario.loading import load_text
from varsim.scenario.training import Scenario
from varsim.scenario.writing import dump_scenario
from varsim.strategies import meant
from varsim.study.program import simulate_variables
from varsim.study.result import simulate
from varsim.study.shown import Shown

if TYPE_CHECKING:
    from varsim.cluster.workers.job import DeadlockError
    from varsim.distribute.program_run import Mode
    from varsim.scenario.plan import Question
    from varsim.scenario.space import Sweep
    from varsim.scenario.variables import VariablesScenario
    from varsim.study.beginning import Beginning
    from varsim.study.case import Case
    from varsim.study.cheapest import Plan
    from varsim.study.grid import Table
    from varsim.study.program import ProgramBeginning, VariablesResult
    from varsim.study.result import Result
    from varsim.study.runs import Books, Watcher
    from varsim.study.steps import Story
    from varsim.study.store import Store
    from varsim.study.verdict import Estimate
    from varsim.study.why.account import Why

T = TypeVar("T")

# Called with how many runs have ended, of how many.
Progress: TypeAlias = Callable[[int, int], None]


class Checked(Shown, list[T]):
    """How each alternative of an experiment begins, times only; of a sweep or a plan nothing."""

    product = "check"

    def __init__(self, experiment: "AnyExperiment", begun: Iterable[T] = ()) -> None:
        super().__init__(begun)
        self.experiment = experiment

    @property
    def deadlock(self) -> "DeadlockError | None":
        """Who deadlocked already at the beginning, and over what."""
        from varsim.cluster.workers.job import DeadlockError
        from varsim.study.beginning import Beginning

        stuck = [one.standstill for one in self if isinstance(one, Beginning) and one.standstill]
        return DeadlockError("\n".join(one.report for one in stuck)) if stuck else None


class Changeable:
    """An experiment of one scenario: it is shown as its file, and changed as by `--set`."""

    scenario: Any

    def replace(self, path: str, value: object) -> Self:
        """The same with another value at a path: `replace("cluster.workers", 16)`.

        Values are as in a file, quantities with their unit. ScenarioError as after `--set`.
        """
        given = value if isinstance(value, str) else json.dumps(value)
        changed = load_text(dump_scenario(self.scenario), sets=[f"{path}={given}"])
        return type(self)(changed)  # type: ignore[call-arg]

    def __repr__(self) -> str:
        return dump_scenario(self.scenario)


@dataclass(frozen=True, repr=False)
class Training(Changeable):
    """Strategies of training, compared."""

    scenario: Scenario
    kind: Literal["training"] = "training"

    @property
    def scenarios(self) -> list[Scenario]:
        """Every scenario that is run."""
        return [self.scenario]

    def run(self, jobs: int = 1, progress: Progress | None = None) -> "Result":
        """Simulate every strategy and replication."""
        return simulate(self.scenario, jobs, progress)

    def check(self) -> "Checked[Beginning]":
        """How each strategy begins, times only."""
        from varsim.study.beginning import begin

        return Checked(self, begin(self.scenario))

    def explain(self, progress: Progress | None = None) -> "Why":
        """Why each strategy is as slow as it is."""
        from varsim.study.why.account import why

        return why(self.scenario, progress)


@dataclass(frozen=True, repr=False)
class Program(Changeable):
    """Modes of distributed variables, compared by what a program on them costs."""

    scenario: "VariablesScenario"
    kind: Literal["variables"] = "variables"

    def run(self, jobs: int = 1, progress: Progress | None = None) -> "VariablesResult":
        """Run the program under every mode."""
        return simulate_variables(self.scenario, jobs, progress)

    def check(self) -> "Checked[ProgramBeginning]":
        """How the program begins under each mode."""
        from varsim.study.program import begin_program

        return Checked(self, begin_program(self.scenario))

    def explain(
        self,
        progress: Progress | None = None,
        *,
        modes: "Sequence[Mode]" = (),
        steps: int | None = None,
    ) -> "Story":
        """What happens to the variables in the first steps; ValueError if that is too much."""
        from varsim.study.steps import told

        return told(self.scenario, modes or self.scenario.all_modes, steps)


@dataclass(frozen=True, repr=False)
class SweepExperiment:
    """Many scenarios from one; of each point only `strategies` (kinds or labels; empty: all)."""

    sweep: "Sweep"
    strategies: tuple[str, ...] = ()
    kind: Literal["sweep"] = "sweep"

    def __repr__(self) -> str:
        return self.sweep.yaml

    def __post_init__(self) -> None:
        there = {s.label: s for point in self.sweep.points for s in point.scenario.strategies}
        for name in self.strategies:
            if not any(meant(list(there.values()), [name])):
                known = ", ".join(there)
                raise ValueError(f"no strategy {name!r} in this scenario; it has: {known}")

    @cached_property
    def cases(self) -> "list[tuple[int, str, Case]]":
        """(point, label, case) of every row."""
        from varsim.study.case import cases_of

        return cases_of(self.sweep, self.strategies)

    @property
    def scenarios(self) -> list[Scenario]:
        """Every scenario that is run, once."""
        return [case.scenario for case in self.distinct]

    @property
    def distinct(self) -> "list[Case]":
        """Every case once."""
        return list({case.key: case for _, _, case in self.cases}.values())

    def books(self, store: "Store", cases: "Sequence[Case] | None" = None) -> "Books":
        """What is known of some cases, by default of all, from the runs that are kept."""
        from varsim.study.runs import Books

        return Books(self.sweep, self.distinct if cases is None else cases, store.runs())

    def table(self, books: "Books") -> "Table":
        """The table, once all runs are there."""
        from varsim.study.grid import table_of

        return table_of(self.sweep, self.cases, books)

    def run(
        self, jobs: int = 1, progress: Progress | None = None, directory: Path | None = None
    ) -> "Table":
        """Make all runs that it takes; those that a `directory` keeps are not made again."""
        from varsim.study.runs import backend, carry_out
        from varsim.study.simulation import check_jobs

        check_jobs(jobs)
        with _kept(directory) as store:
            books = self.books(store)
            todo = books.begin()
            with backend([books.cases[key] for key, _ in todo], jobs, None) as made_by:
                carry_out(books, store, made_by, _watched(progress), todo)
            return self.table(books)

    def check(self) -> "Checked[Beginning]":
        """What is varied, and how many runs that takes; nothing is begun."""
        return Checked(self)

    def explain(self, progress: Progress | None = None) -> NoReturn:
        """ValueError: it is one scenario that is explained."""
        raise ValueError("a sweep is many scenarios; explain one of them")


@dataclass(frozen=True, repr=False)
class PlanExperiment:
    """The question for the least that reaches the targets."""

    question: "Question"
    kind: Literal["plan"] = "plan"

    @property
    def scenarios(self) -> list[Scenario]:
        """The scenario that the space lies around."""
        return [self.question.base]

    def __repr__(self) -> str:
        asked = self.question
        space = "".join(
            f"# {one.path}: {', '.join(texts)}\n"
            for one, texts in zip(asked.quantities, asked.texts, strict=True)
        )
        return f"# the least {asked.objective} over\n{space}{dump_scenario(asked.base)}"

    def check(self) -> "Checked[Beginning]":
        """What is asked, and how large its space is; nothing is begun."""
        return Checked(self)

    def run(
        self, jobs: int = 1, progress: Progress | None = None, directory: Path | None = None
    ) -> "Plan":
        """Search for the answer; runs that a `directory` keeps are not made again."""
        from varsim.study.cheapest import Planning
        from varsim.study.runs import Runs, backend
        from varsim.study.simulation import check_jobs

        check_jobs(jobs)
        planning = Planning(self.question)
        cases = planning.cases(most=60) * self.question.first_replications
        with _kept(directory) as store, backend(cases, jobs, None) as made_by:
            return planning.run(Runs(store, made_by, _watched(progress)))

    def explain(self, progress: Progress | None = None) -> NoReturn:
        """ValueError: it is one scenario that is explained."""
        raise ValueError("a plan is about many scenarios; explain its answer")


AnyExperiment: TypeAlias = Training | Program | SweepExperiment | PlanExperiment
# What an experiment is made from: a path, a text, a dict; or what came of them before.
Source: TypeAlias = "ScenarioSource | Loaded | AnyExperiment"


# To a type checker a file holds training; whoever knows better (AnyExperiment) need not argue.
def load(given: Source, sets: Sequence[str] = (), strategies: Sequence[str] = ()) -> Training | Any:
    """The experiment of a file, of a text, or of a dict that says the same, or of what was loaded.

    Each of `sets` is `key.path=value`, as after `--set`. `strategies`: only those of these kinds or
    labels. Raises ScenarioError with everything that is wrong, each with its place.
    """
    if not isinstance(given, str | Path | Mapping) and (sets or strategies):
        strategies = strategies or (given.strategies if isinstance(given, SweepExperiment) else ())
        given = _document(given).text
    if isinstance(given, str | Path | Mapping):
        given = read(given, _each(sets), _each(strategies))
    if isinstance(given, Scenario):
        return Training(given)
    from varsim.scenario.plan import Question
    from varsim.scenario.space import Sweep
    from varsim.scenario.variables import VariablesScenario

    if isinstance(given, Sweep):
        return SweepExperiment(given, tuple(strategies))
    if isinstance(given, Question):
        return PlanExperiment(given)
    if isinstance(given, VariablesScenario):
        return Program(given)
    if not isinstance(given, AnyExperiment):
        what = f"a {type(given).__name__}" if isinstance(given, Shown) else reprlib.repr(given)
        raise TypeError(f"a scenario is a path, a text or a dict, not {what}")
    return given


def run(
    given: Source,
    sets: Sequence[str] = (),
    *,
    strategies: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
) -> "Result | Any":
    """The result of a scenario of any kind, loaded as by `load`; the same for any `jobs`."""
    return load(given, sets, strategies).run(jobs, progress)


def sweep(
    given: Source,
    sets: Sequence[str] = (),
    *,
    precision: float | None = None,
    most_replications: int | None = None,
    strategies: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
    directory: str | Path | None = None,
) -> "Table":
    """The table of a sweep; each of `sets` is `path=value`, or `path=1,2,4` for another axis.

    `precision` (a share) and `most_replications` are used instead of what the file says. Runs are
    kept in a `directory`, and those that are there are not made again.
    """
    from varsim.scenario.sweep import sweep_of_text

    sets, strategies = _each(sets), _each(strategies)
    if isinstance(given, SweepExperiment):
        strategies = strategies or given.strategies
    text, name, folder, _ = document = _document(given)
    with document.read():
        asked = sweep_of_text(text, name, folder, sets, precision, most_replications, strategies)
    where = None if directory is None else Path(directory)
    return SweepExperiment(asked, tuple(strategies)).run(jobs, progress, where)


def plan(
    given: Source,
    sets: Sequence[str] = (),
    *,
    minimize: str | None = None,
    strategies: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
    directory: str | Path | None = None,
) -> "Plan":
    """The answer to a plan; `minimize` replaces what the file says. Otherwise as `sweep`."""
    from varsim.scenario.plan import Question, question_of_text

    asked = PlanExperiment(given) if isinstance(given, Question) else given
    if not isinstance(asked, PlanExperiment) or sets or minimize or strategies:
        text, name, folder, _ = document = _document(given)
        with document.read():
            asked = PlanExperiment(
                question_of_text(text, name, folder, _each(sets), minimize, _each(strategies))
            )
    return asked.run(jobs, progress, None if directory is None else Path(directory))


def _document(given: Source) -> Document:
    """What is read of a path, text or dict; of an experiment, the file that says the same."""
    if isinstance(given, str | Path | Mapping):
        return Document.of(given)
    found = load(given)
    if isinstance(found, PlanExperiment):
        raise ValueError("a plan that is loaded is asked as it is: varsim.plan(it), nothing else")
    return Document(repr(found), seen=False)


def _each(given: Sequence[str]) -> Sequence[str]:
    """A text is one, not its letters."""
    return (given,) if isinstance(given, str) else given


def explain(
    given: Source,
    sets: Sequence[str] = (),
    *,
    strategies: Sequence[str] = (),
    progress: Progress | None = None,
) -> "Why | Story":
    """Why training is as slow as it is; for variables, what happens in their first steps.

    Raises ValueError for a sweep or a plan.
    """
    return load(given, sets, strategies).explain(progress)


def compare(
    first: "Result", second: "Result", metric: str = "examples_per_s"
) -> "dict[str, Estimate]":
    """Ratios of a metric by strategy: the second result over the first.

    The strategies that both have; paired by replication, as the same seed makes the same draws
    (ValueError where seeds or replications differ, and where there is no such metric).
    """
    from varsim.study.verdict import ratio

    for what in ("seed", "replications"):
        one, other = (getattr(each.scenario, what) for each in (first, second))
        if one != other:
            raise ValueError(f"results are paired by replication: {what} is {one} and {other}")
    both = [name for name in first.strategies if name in second.strategies]
    if not both:
        raise ValueError(f"no strategy is in both: {first.strategies} and {second.strategies}")
    most = max(first.replications, second.replications)  # one run of each if nothing is random
    found = {}
    for name in both:
        above, below = ((one.values(name, metric) * most)[:most] for one in (second, first))
        exact = first.exact(name, metric) and second.exact(name, metric)
        found[name] = ratio(above, below, exact=exact)
    return found


@contextmanager
def _kept(directory: Path | None) -> "Iterator[Store]":
    """The store of a directory, or one that is forgotten."""
    from varsim.study.store import Store

    with ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(TemporaryDirectory(prefix="varsim-")))
        store = stack.enter_context(Store(directory))
        if store.aside is not None:
            warn(store.told("made again"), stacklevel=2)
        yield store


def _watched(progress: Progress | None) -> "Watcher":
    return lambda status: None if progress is None else progress(status.done, status.total)
