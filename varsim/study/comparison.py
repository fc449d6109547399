"""Scenarios side by side: what each strategy does in each, paired by replication.

All are run with the same seed, so that a strategy meets the same draws in each of them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, TypeAlias

from varsim.scenario.fault import UnknownNameError, known
from varsim.scenario.training import AnyScenario
from varsim.scenario.writing import flow, provenance
from varsim.study.experiment import Changes, Progress, load, made_by
from varsim.study.lives import KEPT
from varsim.study.metrics import METRICS, Metric, throughput
from varsim.study.result import Result, simulate
from varsim.study.shown import Shown
from varsim.study.tables import metrics_of
from varsim.study.verdict import Estimate, interval, ratio, verdict

if TYPE_CHECKING:
    from varsim.cluster.fast.choice import Engine

FASTER: Final = "faster"
SLOWER: Final = "slower"
_SPEED: Final = "examples_per_s"
# In these keys scenarios differ without being told of it.
_NOT_TOLD: Final = ("name", "seed", "replications", "modes")
# By these an example, or a step, is another one: told first.
_FIRST: Final = ("workload.model", "workload.batch_size")
_MOST_LETTERS: Final = 60  # of a value that differs


@dataclass(frozen=True)
class Entrant:
    """A scenario that is compared with others."""

    name: str
    scenario: AnyScenario

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Those of its strategies."""
        return tuple(one.label for one in self.scenario.strategies)

    @cached_property
    def metrics(self) -> Mapping[str, Metric]:
        """What is measured of it; where nothing fails, all that is done is kept."""
        found = metrics_of(self.scenario, self.labels)
        return {KEPT: METRICS[_SPEED]} | found if _SPEED in found else found


@dataclass(frozen=True)
class Side(Entrant):
    """A scenario with what its runs measured.

    `runs`: by strategy and metric a value per replication, one alone where nothing is random, which
    is `exact`.
    """

    runs: Mapping[tuple[str, str], Sequence[float]]
    exact: frozenset[tuple[str, str]]
    deadlocked: frozenset[str]

    @classmethod
    def of(cls, name: str, result: Result[Any]) -> Self:
        """What a result measured."""
        every = [(label, metric) for label in result.strategies for metric in result.metrics]
        runs = {key: result.values(*key) for key in every}
        exact = frozenset(key for key in every if result.exact(*key))
        return cls(name, result.scenario, runs, exact, frozenset(result.standstills))

    @classmethod
    def saved(cls, name: str, scenario: AnyScenario, facts: Mapping[str, Any]) -> Self:
        """What a run that was saved measured, by its `summary.json`."""
        rows = {(one["strategy"], one["metric"]): one for one in facts["summary"]}
        runs = {
            key: [float("nan" if value is None else value) for value in one["values"]]
            for key, one in rows.items()
        }
        alone = (key for key, values in runs.items() if len(values) == 1)
        exact = frozenset(key for key in alone if rows[key]["low"] is not None)
        stuck = frozenset(one["strategy"] for one in facts["runs"] if one["standstill"])
        return cls(name, scenario, runs, exact, stuck)

    def key(self, label: str, metric: str) -> tuple[str, str]:
        """Where the values of a metric are."""
        return label, _SPEED if metric == KEPT and (label, KEPT) not in self.runs else metric


class PairedRatio(NamedTuple):
    """A strategy in another scenario and in the first: the ratio of its numbers, with a verdict."""

    row: int
    ratio: Estimate
    said: str  # FASTER, SLOWER, CLOSE, EQUAL, SAME or UNTOLD; or why there is no ratio


@dataclass(frozen=True, repr=False, eq=False)
class SideBySide(Shown):
    """Result of `varsim.compare`: the strategies that all scenarios have, by one metric.

    `sides` are the scenarios; `rows` has each of these strategies by its labels, one for each
    scenario; `redrawn` names scenarios that were run with another seed, or number of replications,
    than they say.

    Examples
    --------
    `varsim.compare` has one.

    """

    offers = (
        *Shown.offers,
        "sides",
        "metric",
        "rows",
        "redrawn",
        "ratios",
        "differences",
        "sha256",
    )
    product: ClassVar = "compare"

    sides: tuple[Side, ...]
    metric: str
    rows: tuple[tuple[str, ...], ...]
    redrawn: tuple[str, ...] = ()

    def ratios(self, other: int = 1) -> dict[str, Estimate]:
        """Return how many times as much another scenario has as the first, by strategy.

        Parameters
        ----------
        other : int, default 1
            Which scenario, counted from 0, the first.

        Returns
        -------
        dict of str to Estimate
            Paired by replication; the 95 % intervals hold together.

        """
        return {self.rows[pair.row][0]: pair.ratio for pair in self.pairs(other)}

    def pairs(self, other: int) -> list[PairedRatio]:
        """The same with verdicts."""
        within = self.sides[0].scenario.report.equal_within
        ratios = [self._ratio(row, other) for row in range(len(self.rows))]
        return [
            PairedRatio(row, one, verdict(one, FASTER, SLOWER, within))
            for row, one in enumerate(ratios)
        ]

    def estimate(self, row: int, side: int) -> Estimate:
        """The number of a strategy in a scenario."""
        return interval(self._values(row, side), exact=self._is_exact(row, side))

    @cached_property
    def replications(self) -> int:
        """Of how many replications the numbers are; one where nothing is random."""
        return max(len(self._values(row, side)) for row, side in self._cells())

    @cached_property
    def exact(self) -> bool:
        """Whether nothing random has an effect on any of the numbers."""
        return all(self._is_exact(row, side) for row, side in self._cells())

    @cached_property
    def sha256(self) -> str:
        """What tells it apart: the hash of those of its scenarios, and of the metric."""
        every = [str(provenance(one.scenario)["scenario_sha256"]) for one in self.sides]
        return sha256(" ".join([*every, self.metric]).encode()).hexdigest()

    def differences(self, other: int) -> dict[str, tuple[str, str]]:
        """Return what another scenario says otherwise, model and batch size first.

        Strategies that are not compared are left out, as are names, seeds and replications.

        Parameters
        ----------
        other : int
            Which scenario, counted from 0, the first.

        Returns
        -------
        dict of str to tuple of str
            By path the value of the first, and its own.

        """
        mine, own = (
            _content(self.sides[at].scenario, {row[at]: row[0] for row in self.rows})
            for at in (0, other)
        )
        found = {path: (_text(one), _text(new)) for path, one, new in _differing(mine, own)}
        first = {path: found[path] for path in _FIRST if path in found}
        return first | found

    def _cells(self) -> Iterator[tuple[int, int]]:
        return ((row, side) for row in range(len(self.rows)) for side in range(len(self.sides)))

    def _values(self, row: int, side: int) -> Sequence[float]:
        one, label = self.sides[side], self.rows[row][side]
        values = one.runs[one.key(label, self.metric)]
        return [math.nan] * len(values) if label in one.deadlocked else values

    def _is_exact(self, row: int, side: int) -> bool:
        one = self.sides[side]
        return one.key(self.rows[row][side], self.metric) in one.exact

    def _ratio(self, row: int, other: int) -> Estimate:
        above, below = (self._values(row, side) for side in (other, 0))
        most = max(len(above), len(below))
        pair = ((list(one) * most)[:most] for one in (above, below))
        exact = self._is_exact(row, 0) and self._is_exact(row, other)
        return ratio(*pair, comparisons=len(self.rows) * (len(self.sides) - 1), exact=exact)


def shared(every: Sequence[Entrant]) -> tuple[tuple[str, ...], ...]:
    """The strategies that all scenarios have, each by its labels; ValueError if there are none."""
    first, *others = every
    found = []
    for label in first.labels:
        same = [_same(first, label, one) for one in others]
        if None not in same:
            found.append((label, *filter(None, same)))
    if not found:
        there = "; ".join(f"{one.name} has {', '.join(one.labels)}" for one in every)
        raise ValueError(f"no strategy is in all of them: {there}")
    return tuple(found)


def chosen_metric(every: Sequence[Entrant], metric: str = "") -> str:
    """By what scenarios are compared: their throughput, unless a metric is given.

    ValueError where one of them has no such metric, or has it in another unit.
    """
    first = every[0]
    if not metric:
        speeds = [throughput(one.scenario) for one in every]
        metric = KEPT if KEPT in speeds else speeds[0]
    for one in every:
        try:
            known("metric", metric, one.metrics)
        except UnknownNameError as error:
            raise UnknownNameError(f"{one.name}: {error}") from None
        mine, own = (each.metrics[metric].unit for each in (first, one))
        if mine != own:
            raise ValueError(f"{metric} counts {mine} in {first.name}, and {own} in {one.name}")
    return metric


def check_paired(every: Sequence[Entrant]) -> None:
    """Raise ValueError where results were not made with the same draws."""
    first, *others = every
    for what in ("seed", "replications"):
        for one in others:
            mine, own = (getattr(each.scenario, what) for each in (first, one))
            if mine != own:
                raise ValueError(
                    f"results are paired by replication: {what} is {mine} in {first.name} and "
                    f"{own} in {one.name}"
                )


def _same(first: Entrant, label: str, other: Entrant) -> str | None:
    """What another scenario calls a strategy of the first: so, too, or else as the one of its kind.

    None where it has none, or several, or the first has several.
    """
    if label in other.labels:
        return label
    kind = first.scenario.strategy(label).kind
    alike = [
        [one.label for one in each.scenario.strategies if one.kind == kind]
        for each in (first, other)
    ]
    mine, own = ([one for one in alike[at] if one not in alike[1 - at]] for at in (0, 1))
    return own[0] if len(mine) == len(own) == 1 else None


# --- what differs


_Difference: TypeAlias = tuple[str, object, object]


def _content(scenario: AnyScenario, named: Mapping[str, str]) -> dict[str, Any]:
    """A scenario as plain data, with these of its strategies, by what they are `named`."""
    content: dict[str, Any] = scenario.model_dump(mode="json", exclude_none=True)
    for key in _NOT_TOLD:
        content.pop(key, None)
    if "strategies" in content:
        pairs = zip(scenario.strategies, content["strategies"], strict=True)
        content["strategies"] = {
            named[one.label]: said | {"name": None} for one, said in pairs if one.label in named
        }
    return content


def _differing(mine: Any, own: Any, path: str = "") -> Iterator[_Difference]:
    """Where two pieces of plain data differ, by the longest paths that both have."""
    if isinstance(mine, dict) and isinstance(own, dict) and mine.get("kind") == own.get("kind"):
        for key in dict.fromkeys((*mine, *own)):
            below = f"{path}.{key}" if path else str(key)
            yield from _differing(mine.get(key), own.get(key), below)
    elif isinstance(mine, list) and isinstance(own, list) and len(mine) == len(own):
        for at, pair in enumerate(zip(mine, own, strict=True)):
            yield from _differing(*pair, f"{path}.{at}")
    elif mine != own:
        yield path, mine, own


def _text(value: object) -> str:
    """A value as it is written in a file, its kind first; of a long one the beginning."""
    if isinstance(value, dict) and "kind" in value:
        value = {"kind": value["kind"], **value}
    text = "none" if value in (None, [], {}) else flow(value)
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 3]}..."


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
) -> SideBySide:
    """Compare scenarios side by side: the strategies that all have, each against the first.

    Ratios are paired by replication. What is run gets the seed and the number of replications of
    the first result; without a result the seed of the first scenario, and the most replications.

    Parameters
    ----------
    first, second, *more : str, Path, dict, Scenario, Result or Saved
        Scenarios, as `load` takes them, are run; a path may be the directory of a run, too.
    metric : str, optional
        By which they are compared; throughput by default.
    names : sequence of str, optional
        What they are called; by default by their names, or their paths.
    sets : dict or sequence of str, optional
        Changes of the scenarios that are run, as in `load`.
    strategies : sequence of str, optional
        Only the strategies of these kinds or labels; all by default.
    jobs : int, default 1
        Processes that make the runs; the results are the same for any number.
    progress : callable, optional
        Called as `progress(done, total)` after each run.
    engine : {"auto", "simpy", "fast"}, default "auto"
        Which of the two engines makes the runs; no number depends on it.

    Returns
    -------
    SideBySide
        `ratios()` has them by strategy. It shows itself as table and answer.

    Raises
    ------
    ScenarioError
        With everything that is wrong with a scenario.
    ValueError
        If results have other seeds or replications, no strategy is in all of them, or one of them
        has no such metric, or has it in another unit.

    Examples
    --------
    >>> import varsim
    >>> slow = varsim.load("slow_worker", strategies=["on_write"])
    >>> equal = slow.replace({"cluster.slow_workers": []})
    >>> round(varsim.compare(slow, equal).ratios()["on_write"].mean, 1)
    3.0

    """
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
    with made_by(engine):
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
    if len(set(names)) < len(names) or any("\n" in one or not one for one in names):
        names = [f"{one.name} ({number})" for number, one in enumerate(scenarios, 1)]
    return names
