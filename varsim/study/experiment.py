"""The verbs of `varsim`: what can be asked of a scenario, a sweep or a plan."""

import json
import math
import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from warnings import warn

from pydantic import BaseModel

from varsim.core.units import to_text
from varsim.scenario.change import in_python
from varsim.scenario.document import MappingNode, read_document
from varsim.scenario.fault import ScenarioError
from varsim.scenario.fault import Source as Place
from varsim.scenario.load import Document, ScenarioSource
from varsim.scenario.load import load as read
from varsim.scenario.training import Scenario
from varsim.scenario.writing import Asked
from varsim.study.result import simulate
from varsim.study.shown import Shown

if TYPE_CHECKING:
    from varsim.cluster.fast.choice import Engine
    from varsim.cluster.workers.job import DeadlockError
    from varsim.study.grid import SweepTable
    from varsim.study.plan import Plan
    from varsim.study.result import Result
    from varsim.study.runs import Study
    from varsim.study.steps import Story
    from varsim.study.tune import Rates
    from varsim.study.why.account import Why

R = TypeVar("R")
T = TypeVar("T")

# Called with how many runs have ended, of how many.
Progress: TypeAlias = Callable[[int, int], None]
# A path, a text or a dict; or what was loaded from one.
Source: TypeAlias = ScenarioSource | Asked
# `path=value` as after `--set`, one or several; or values by their paths, numbers in SI.
Changes: TypeAlias = Sequence[str] | Mapping[str, object]


class Checked(Shown, list[T]):
    """Result of `varsim.check`: a list of how each strategy begins, times alone.

    `asked` is what was checked; the list is empty for a sweep or a plan.
    """

    offers = (*Shown.offers, "asked", "deadlock")
    product = "check"
    asked: Any

    def __init__(self, asked: Any, begun: Iterable[T] = ()) -> None:
        super().__init__(begun)
        self.asked = asked

    @property
    def deadlock(self) -> "DeadlockError | None":
        """Error that tells who deadlocked already at the beginning, over what; or None."""
        from varsim.cluster.workers.job import DeadlockError
        from varsim.study.beginning import Beginning

        stuck = [one.standstill for one in self if isinstance(one, Beginning) and one.standstill]
        return DeadlockError("\n".join(one.report for one in stuck)) if stuck else None


# What it is depends on the file; to a type checker it may be any of them.
def load(given: Source, sets: Changes = (), strategies: Sequence[str] = (), **named: object) -> Any:
    """Load a scenario, a sweep or a plan, and check all of it.

    Parameters
    ----------
    given : str, Path or dict, or what `load` returned
        The scenario: a path, the name of a bundled one, its YAML as text, or a dict of its keys.
    sets : dict or sequence of str, optional
        Changes: `{"cluster.workers": 16}`, or `["cluster.workers=16"]`. Numbers are SI.
    strategies : sequence of str, optional
        Only the strategies of these kinds or labels; all by default.
    **named : object
        Changes of keys at the top of the file, such as `seed=3`.

    Returns
    -------
    Scenario, VariablesScenario, Sweep or Plan's question
        By the `kind` of the file, and whether it has a block `sweep` or `plan`. What was loaded
        can be changed again (`replace`) and asked (`run`, `check`, `explain`).

    Raises
    ------
    ScenarioError
        With everything that is wrong with the scenario, each at its line and column.
    FileNotFoundError
        If there is no such file and no bundled scenario of that name.
    TypeError
        If `given` is none of these.

    Examples
    --------
    >>> import varsim
    >>> both = ["on_write", "none"]
    >>> scenario = varsim.load("slow_worker", {"stop.time": 5}, strategies=both)
    >>> scenario.cluster.workers, scenario.stop.time
    (4, 5.0)
    >>> [strategy.kind for strategy in scenario.strategies]
    ['on_write', 'none']

    """
    if not isinstance(given, str | Path | Mapping | Asked):
        what = f"a {type(given).__name__}" if isinstance(given, Shown) else reprlib.repr(given)
        raise TypeError(f"a scenario is a path, a text or a dict, not {what}")
    if isinstance(given, Asked) and not (sets or strategies or named):
        return given
    if isinstance(given, Asked) and not strategies:
        from varsim.scenario.space import Sweep

        strategies = given.strategies if isinstance(given, Sweep) else ()
    document = _document(given)
    with _as_given():
        return read(document, _sets(sets, named, document), _each(strategies))


def run(
    given: Source,
    sets: Changes = (),
    *,
    strategies: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
    engine: "Engine" = "auto",
    **named: object,
) -> "Result | Any":
    """Run a scenario: every strategy, in every replication.

    Parameters
    ----------
    given : str, Path or dict, or what `load` returned
        The scenario: a path, the name of a bundled one, its YAML as text, or a dict of its keys.
    sets : dict or sequence of str, optional
        Changes: `{"cluster.workers": 16}`, or `["cluster.workers=16"]`. Numbers are SI.
    strategies : sequence of str, optional
        Only the strategies of these kinds or labels; all by default.
    jobs : int, default 1
        Processes that make the runs; the results are the same for any number.
    progress : callable, optional
        Called as `progress(done, total)` after each run.
    engine : {"auto", "simpy", "fast"}, default "auto"
        Which of the two engines makes the runs; no number depends on it.
    **named : object
        Changes of keys at the top of the file, such as `seed=3`.

    Returns
    -------
    Result, SweepTable or Plan
        Of a sweep or a plan what `sweep` or `plan` returns. It shows itself as table and answer.

    Raises
    ------
    ScenarioError
        With everything that is wrong with the scenario, each at its line and column.
    ValueError
        If `jobs` is below 1.

    Examples
    --------
    >>> import varsim
    >>> both = ["on_write", "none"]
    >>> result = varsim.run("slow_worker", {"stop.time": 5}, strategies=both)
    >>> print(result.answer())
    Fastest: async PS, 1,059 examples/s: 2.49 times all-reduce.
    Trade-off: gradients are 3 updates stale.

    """
    asked = load(given, sets, strategies, **named)
    with made_by(engine):
        if asked.kind == "sweep":
            return sweep(asked, jobs=jobs, progress=progress)
        if asked.kind == "plan":
            return plan(asked, jobs=jobs, progress=progress)
        return simulate(asked, jobs, progress)


def check(
    given: Source, sets: Changes = (), *, strategies: Sequence[str] = (), **named: object
) -> Checked[Any]:
    """Check a scenario: what a step of each strategy takes, from the beginning of a run.

    Times alone are simulated, so it is quick, however much there is to train.

    Parameters
    ----------
    given : str, Path or dict, or what `load` returned
        The scenario: a path, the name of a bundled one, its YAML as text, or a dict of its keys.
    sets : dict or sequence of str, optional
        Changes: `{"cluster.workers": 16}`, or `["cluster.workers=16"]`. Numbers are SI.
    strategies : sequence of str, optional
        Only the strategies of these kinds or labels; all by default.
    **named : object
        Changes of keys at the top of the file, such as `seed=3`.

    Returns
    -------
    Checked
        A list with the beginning of each strategy; empty for a sweep or a plan, of which it tells
        what is asked.

    Raises
    ------
    ScenarioError
        With everything that is wrong with the scenario, each at its line and column.

    Examples
    --------
    >>> import varsim
    >>> checked = varsim.check("slow_worker", strategies=["on_write"])
    >>> len(checked), checked.deadlock
    (1, None)

    """
    asked = load(given, sets, strategies, **named)
    if isinstance(asked, Scenario):
        from varsim.study.beginning import begin

        return Checked(asked, begin(asked))
    if asked.kind == "variables":
        from varsim.study.program import begin_program

        return Checked(asked, begin_program(asked))
    return Checked(asked)


def explain(
    given: Source,
    sets: Changes = (),
    *,
    strategies: Sequence[str] = (),
    progress: Progress | None = None,
    steps: int | None = None,
    **named: object,
) -> "Why | Story | Any":
    """Explain why training is as slow as it is, by what would help most.

    Parameters
    ----------
    given : str, Path or dict, or what `load` returned
        The scenario: a path, the name of a bundled one, its YAML as text, or a dict of its keys.
    sets : dict or sequence of str, optional
        Changes: `{"cluster.workers": 16}`, or `["cluster.workers=16"]`. Numbers are SI.
    strategies : sequence of str, optional
        Only the strategies of these kinds or labels; all by default.
    progress : callable, optional
        Called as `progress(done, total)` after each run.
    steps : int, optional
        Of a program of variables: how many of its first steps are told.
    **named : object
        Changes of keys at the top of the file, such as `seed=3`.

    Returns
    -------
    Why or Story
        The share of each cause in a step, a row per strategy; of a program of variables what
        happens in its first steps.

    Raises
    ------
    ScenarioError
        With everything that is wrong with the scenario, each at its line and column.
    ValueError
        For a sweep or a plan, which are of many scenarios; if `steps` is too many to be told.

    Examples
    --------
    >>> import varsim
    >>> why = varsim.explain("slow_worker", strategies=["on_write"])
    >>> print(why.answer().splitlines()[0])
    all-reduce: 66 % of a step is due to stragglers (worker 3).

    """
    asked = load(given, sets, strategies, **named)
    if isinstance(asked, Scenario):
        from varsim.study.why.account import why

        return why(asked, progress)
    if asked.kind == "variables":
        from varsim.study.steps import told

        return told(asked, steps)
    one = "one of them" if asked.kind == "sweep" else "its answer"
    raise ValueError(f"a {asked.kind} is of many scenarios; explain {one}")


def sweep(
    given: Source,
    sets: Changes = (),
    *,
    precision: float | None = None,
    most_replications: int | None = None,
    strategies: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
    directory: str | Path | None = None,
) -> "SweepTable":
    """Run every strategy at every point of a sweep.

    Parameters
    ----------
    given : str, Path or dict, or what `load` returned
        The scenario, with a block `sweep` or without.
    sets : dict or sequence of str, optional
        Changes as in `load`; several values are an axis: `{"cluster.workers": [1, 2, 4]}`, or
        `["cluster.workers=1,2,4"]`.
    precision : float, optional
        Half-width of the intervals as a share of the mean, at which replications stop; used
        instead of what the file says.
    most_replications : int, optional
        Replications of a point at most; used instead of what the file says.
    strategies : sequence of str, optional
        Only the strategies of these kinds or labels; all by default.
    jobs : int, default 1
        Processes that make the runs; the results are the same for any number.
    progress : callable, optional
        Called as `progress(done, total)` after each run.
    directory : str or Path, optional
        Where runs are kept; those that are there are not made again.

    Returns
    -------
    SweepTable
        A row for each strategy at each point.

    Raises
    ------
    ScenarioError
        With everything that is wrong with the scenario, each at its line and column.
    ValueError
        If `jobs` is below 1.

    Examples
    --------
    >>> import varsim
    >>> axis = {"cluster.slow_workers.0.factor": [1, 2, 4], "stop.time": 5}
    >>> table = varsim.sweep("slow_worker", axis, strategies=["on_write"])
    >>> table.frame()["examples_per_s"].round().tolist()
    [1261.0, 635.0, 319.0]

    """
    from varsim.scenario.space import Sweep
    from varsim.scenario.sweep import sweep_of_text
    from varsim.study.grid import Grid

    asked = given
    changed = sets or strategies or precision is not None or most_replications is not None
    if not isinstance(given, Sweep) or changed:
        if not strategies and isinstance(given, Sweep):
            strategies = given.strategies
        text, name, folder, _ = document = _document(given)
        changes, chosen = _sets(sets, {}, document), tuple(_each(strategies))
        with _as_given(), document.read():
            asked = sweep_of_text(text, name, folder, changes, precision, most_replications, chosen)
    assert isinstance(asked, Sweep)
    return _found(Grid(asked), jobs, progress, directory)


def plan(
    given: Source,
    sets: Changes = (),
    *,
    minimize: str | None = None,
    strategies: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
    directory: str | Path | None = None,
) -> "Plan":
    """Find the cheapest configuration that meets the targets with 95 % confidence.

    Parameters
    ----------
    given : str, Path or dict, or what `load` returned
        A scenario with `targets` and a block `plan`.
    sets : dict or sequence of str, optional
        Changes as in `load`.
    minimize : str, optional
        What is minimized (`varsim list objectives`); used instead of what the file says.
    strategies : sequence of str, optional
        Only the strategies of these kinds or labels; all by default.
    jobs : int, default 1
        Processes that make the runs; the results are the same for any number.
    progress : callable, optional
        Called as `progress(done, total)` after each run.
    directory : str or Path, optional
        Where runs are kept; those that are there are not made again.

    Returns
    -------
    Plan
        The answer is `best`, as a scenario `scenario`; both are None if nothing meets the targets.

    Raises
    ------
    ScenarioError
        With everything that is wrong with the scenario, each at its line and column.
    ValueError
        If `jobs` is below 1, or a plan that was loaded is given with changes.

    Examples
    --------
    >>> import varsim
    >>> plan = varsim.plan('''
    ... name: cheapest
    ... cluster:
    ...   workers: 2
    ...   compute: {kind: constant, value: 100 ms}
    ...   network: {kind: star, bandwidth: 10 Gbit/s, latency: 20 us}
    ... workload: {problem: {kind: timing, size: 1 MB}, batch_size: 32}
    ... strategies: [{kind: on_write}]
    ... stop: {global_steps: 50}
    ... targets: {throughput: 1000 examples/s}
    ... plan: {minimize: workers, space: {cluster.workers: [2, 4, 8]}}
    ... ''')
    >>> plan.scenario.cluster.workers
    4

    """
    from varsim.scenario.plan import Question, question_of_text
    from varsim.study.cheapest import Cheapest

    asked = given
    if not isinstance(given, Question) or sets or minimize or strategies:
        text, name, folder, _ = document = _document(given)
        changes = _sets(sets, {}, document)
        with _as_given(), document.read():
            asked = question_of_text(text, name, folder, changes, minimize, _each(strategies))
    assert isinstance(asked, Question)
    return _found(Cheapest(asked), jobs, progress, directory)


def tune(
    given: Source,
    sets: Changes = (),
    *,
    rates: Sequence[float] = (),
    strategies: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
    **named: object,
) -> "Rates":
    """Find the learning rate at which each strategy does best.

    Parameters
    ----------
    given : str, Path or dict, or what `load` returned
        The scenario: a path, the name of a bundled one, its YAML as text, or a dict of its keys.
    sets : dict or sequence of str, optional
        Changes: `{"cluster.workers": 16}`, or `["cluster.workers=16"]`. Numbers are SI.
    rates : sequence of float, optional
        These rates alone are tried; by default those around each strategy's own, as many as it
        takes.
    strategies : sequence of str, optional
        Only the strategies of these kinds or labels; all by default.
    jobs : int, default 1
        Processes that make the runs; the results are the same for any number.
    progress : callable, optional
        Called as `progress(done, total)` after each run.
    **named : object
        Changes of keys at the top of the file, such as `seed=3`.

    Returns
    -------
    Rates
        The best rate of each strategy, run again with fresh seeds.

    Raises
    ------
    ScenarioError
        With everything that is wrong with the scenario, each at its line and column.
    ValueError
        If nothing is learnt (the problem `timing`), or `jobs` is below 1.

    Examples
    --------
    >>> import varsim
    >>> few = varsim.load("slow_worker", {"stop.time": 2}, strategies=["single"])
    >>> rates = varsim.tune(few, rates=[0.03, 0.1])
    >>> rates.tuned_scenario().strategies[0].optimizer.learning_rate
    0.1

    """
    from varsim.study.tune import BestRates

    return _found(BestRates(load(given, sets, strategies, **named), rates), jobs, progress)


def _found(
    study: "Study[R]", jobs: int, progress: Progress | None, directory: str | Path | None = None
) -> "R":
    """What comes of a study whose runs are kept in a directory, or forgotten."""
    from varsim.study.runs import campaign
    from varsim.study.simulation import check_jobs

    check_jobs(jobs)
    with campaign(
        study,
        None if directory is None else Path(directory),
        jobs=jobs,
        watch=lambda status: None if progress is None else progress(status.done, status.total),
        say=lambda text: warn(text, stacklevel=8),
    ) as runs:
        return study.run(runs)


@contextmanager
def made_by(engine: "Engine") -> Iterator[None]:
    """Runs are made by this engine meanwhile; by default by the one that was asked for before."""
    from varsim.cluster.fast import ENGINE
    from varsim.cluster.fast.choice import check_engine

    check_engine("engine", engine)
    before = os.environ.get(ENGINE)
    if engine != "auto":
        os.environ[ENGINE] = engine
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(ENGINE, None)
        else:
            os.environ[ENGINE] = before


def _document(given: Source) -> Document:
    """What is read of a path, text or dict; of what was loaded, the file that says the same."""
    if isinstance(given, str | Path | Mapping):
        return Document.of(given)
    asked = load(given)
    if asked.kind == "plan":
        raise ValueError("a plan that is loaded is asked as it is: varsim.plan(it), nothing else")
    return Document(repr(asked), seen=False)


@contextmanager
def _as_given() -> Iterator[None]:
    """Errors name a change as it was given here, without the option of the command."""
    try:
        yield
    except ScenarioError as error:
        found = [
            replace(
                one,
                source=replace(one.source, name=one.source.name.removeprefix("--set ")),
                message=in_python(one.message, "{}"),
            )
            for one in error.problems
        ]
        raise ScenarioError(found, error.left_out) from None


def _each(given: Sequence[str]) -> Sequence[str]:
    """A text is one, not its letters."""
    return (given,) if isinstance(given, str) else given


def _sets(given: Changes, named: Mapping[str, object], document: Document) -> tuple[str, ...]:
    """Changes as after `--set`; numbers at paths that have a unit are SI."""
    changes = dict(given) if isinstance(given, Mapping) else {}
    texts = () if isinstance(given, Mapping) else tuple(_each(given))
    changes |= named
    if not changes:
        return texts
    root, _ = read_document(document.text, Place(document.name))
    return *texts, *(f"{path}={_said(value, _unit(path, root))}" for path, value in changes.items())


def _unit(path: str, root: object) -> str:
    """The dimension of a path; empty where it has none, or is none."""
    from varsim.scenario.space import dimension_at

    if not isinstance(root, MappingNode):
        return ""
    try:
        return dimension_at(path, root)
    except ValueError:  # whoever reads the change says what is wrong with it
        return ""


def _said(value: object, dimension: str, *, inside: bool = False) -> str:
    """A value as it is written in a file."""
    if isinstance(value, str):
        return json.dumps(value) if inside else value
    if isinstance(value, BaseModel):
        return value.model_dump_json(exclude_none=True)
    if isinstance(value, Sequence):
        return f"[{', '.join(_said(one, dimension, inside=True) for one in value)}]"
    if isinstance(value, Real) and not isinstance(value, bool):
        if dimension and math.isfinite(number := _float(value)):
            return to_text(number, dimension)
        value = int(value) if isinstance(value, Integral) else float(value)
    return json.dumps(value, default=_plain)


def _float(value: Real) -> float:
    """The nearest float; infinity where a whole number is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _plain(value: object) -> object:
    """What stands inside a dict, as JSON has it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    raise TypeError(f"a scenario holds numbers, texts, lists and dicts, not {reprlib.repr(value)}")
