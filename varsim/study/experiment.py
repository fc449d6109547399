"""The verbs of `varsim`: what can be asked of a scenario, a sweep or a plan."""

import json
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
    from varsim.study.comparison import SideBySide
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
    """How each alternative of what was `asked` begins, times only; of a sweep or plan nothing."""

    product = "check"

    def __init__(self, asked: Any, begun: Iterable[T] = ()) -> None:
        super().__init__(begun)
        self.asked = asked

    @property
    def deadlock(self) -> "DeadlockError | None":
        """Who deadlocked already at the beginning, and over what."""
        from varsim.cluster.workers.job import DeadlockError
        from varsim.study.beginning import Beginning

        stuck = [one.standstill for one in self if isinstance(one, Beginning) and one.standstill]
        return DeadlockError("\n".join(one.report for one in stuck)) if stuck else None


# What it is depends on the file; to a type checker it may be any of them.
def load(given: Source, sets: Changes = (), strategies: Sequence[str] = (), **named: object) -> Any:
    """The scenario of a file, of a text, or of a dict that says the same; or a sweep or plan.

    `sets`: `path=value` as after `--set`, or values by their paths, where numbers are SI; `named`:
    those of keys at the top, such as `seed=3`. `strategies`: only those of these kinds or labels.
    Of what was loaded before, the same with these changes. Raises ScenarioError with everything
    that is wrong, each with its place.
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
    """The result of a scenario of any kind, loaded as by `load`; the same for any `jobs`.

    `engine`: which of the two makes the runs; no result depends on it.
    """
    asked = load(given, sets, strategies, **named)
    with _made_by(engine):
        if asked.kind == "sweep":
            return sweep(asked, jobs=jobs, progress=progress)
        if asked.kind == "plan":
            return plan(asked, jobs=jobs, progress=progress)
        return simulate(asked, jobs, progress)


def check(
    given: Source, sets: Changes = (), *, strategies: Sequence[str] = (), **named: object
) -> Checked[Any]:
    """How each alternative begins, times only; of a sweep or plan, what is asked."""
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
    """Why training is as slow as it is; for variables, what happens in their first steps.

    `steps`: of variables, so many. Raises ValueError for a sweep or a plan, and where so many steps
    are too much to be told.
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
    """The table of a sweep; each of `sets` is as in `load`, with several values another axis.

    Several values are `path=1,2,4`, or a list: `{"cluster.workers": [1, 2, 4]}`. `precision` (a
    share) and `most_replications` are used instead of what the file says. Runs are kept in a
    `directory`, and those that are there are not made again.
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
    """The answer to a plan; `minimize` replaces what the file says. Otherwise as `sweep`."""
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
    """Each strategy at its best learning rate.

    `rates`: these alone are tried; by default those around each one's own, as many as it takes.
    Raises ValueError where nothing is learnt.
    """
    from varsim.study.tune import BestRates

    return _found(BestRates(load(given, sets, strategies, **named), rates), jobs, progress)


def compare(
    first: Any,
    second: Any,
    *more: Any,
    metric: str = "",
    names: Sequence[str] = (),
    sets: Changes = (),
    strategies: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
    engine: "Engine" = "auto",
) -> "SideBySide":
    """Scenarios side by side: the strategies that all have, each against the first scenario.

    Each is a scenario as `load` takes it, with `sets` and `strategies`, which is run; or a result;
    or the directory of a run that was saved. Ratios are paired by replication: what is run gets the
    seed and the number of replications of the first result; without one the seed of the first
    scenario, and the most replications of any.
    `metric`: by which they are compared, throughput by default; `names`: what they are called.
    Raises ValueError where results have other seeds or replications, where no strategy is in all of
    them, and where one of them has no such metric, or has it in another unit.
    """
    from varsim.study.comparison import (
        Entrant,
        Side,
        SideBySide,
        check_paired,
        chosen_metric,
        shared,
    )

    asked = (first, second, *more)
    given = [_entered(one, sets, strategies) for one in asked]
    names = names or _called(asked, [scenario for scenario, _ in given])
    results = [scenario for scenario, made in given if made is not None]
    lead, *_ = results or [scenario for scenario, _ in given]
    most = max(one.replications for one in results[:1] or [one for one, _ in given])
    draws = {"seed": lead.seed, "replications": most}
    every, redrawn = list[Entrant](), list[str]()
    for name, (scenario, made) in zip(names, given, strict=True):
        if made is None and draws != {key: getattr(scenario, key) for key in draws}:
            scenario = scenario.model_copy(update=draws)
            redrawn.append(name)
        every.append(Entrant(name, scenario))
    check_paired(every)
    rows, metric = shared(every), chosen_metric(every, metric)
    sides = list[Side]()
    with _made_by(engine):
        for one, (_, made) in zip(every, given, strict=True):
            if isinstance(made, Mapping):
                sides.append(Side.saved(one.name, one.scenario, made))
            else:
                result = made or simulate(one.scenario, jobs, progress)
                sides.append(Side.of(one.name, result))
    return SideBySide(tuple(sides), metric, rows, tuple(redrawn))


def _entered(given: Any, sets: Changes, strategies: Sequence[str]) -> tuple[Any, Any]:
    """The scenario that is meant, and its result if there is one: live, or as plain data."""
    import varsim

    if isinstance(given, str | Path) and "\n" not in str(given) and Path(given).is_dir():
        given = varsim.read(given)
    made = isinstance(given, Shown) or hasattr(given, "facts")
    found = given if made else load(given, sets, strategies)
    kind = getattr(found, "product", "") or found.kind
    if kind not in ("run", "training", "variables"):
        raise ValueError(f"a {kind} is not one run: compare scenarios, or results of runs")
    return (found.scenario, getattr(found, "facts", found)) if made else (found, None)


def _called(given: Sequence[Any], scenarios: Sequence[Any]) -> list[str]:
    """What scenarios are called: by their names, or else their paths, or else in order."""
    names = [one.name for one in scenarios]
    if len(set(names)) < len(names):
        names = [str(one) if isinstance(one, str | Path) else "" for one in given]
    if len(set(names)) < len(names) or any("\n" in one for one in names):
        names = [f"{one.name} ({number})" for number, one in enumerate(scenarios, 1)]
    return names


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
def _made_by(engine: "Engine") -> Iterator[None]:
    """Runs are made by this engine meanwhile; by default by the one that was asked for before."""
    from varsim.cluster.fast import ENGINE

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
        if dimension:
            return to_text(float(value), dimension)
        value = int(value) if isinstance(value, Integral) else float(value)
    return json.dumps(value)
