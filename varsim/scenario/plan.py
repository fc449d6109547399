"""Plan block of a scenario file: objectives, the question it asks, and its reader."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple

from pydantic import Field

from varsim.core.schema import Model
from varsim.scenario.document import MappingNode, ScalarNode
from varsim.scenario.fault import Fault, Mark, ScenarioError, Source, quoted
from varsim.scenario.loading import LoadingContext, model_of, modelled, read_text
from varsim.scenario.space import Number, Point, Quantity, point_at, points_of, value_of
from varsim.scenario.sweep import BLOCK as SWEEP
from varsim.scenario.sweep import Percentage, SweepBlock, tree_of
from varsim.scenario.targets import EQUAL_WITHIN, Prices, Targets, counted
from varsim.scenario.training import AnyScenario, Scenario
from varsim.scenario.writing import Asked, dump_scenario, provenance
from varsim.strategies import Strategy, chosen, families


class Machines(NamedTuple):
    """Machines of a strategy on its cluster; `hourly` is their price, 0 without prices."""

    workers: int
    servers: int  # on machines of their own
    hourly: float
    prices: Prices | None

    @classmethod
    def of(cls, scenario: AnyScenario, strategy: Strategy) -> "Machines":
        """Those of a strategy of a scenario."""
        if not isinstance(scenario, Scenario):
            servers = scenario.cluster.parameter_servers if strategy.traits.uses_servers else 0
            return cls(scenario.cluster.workers, servers, 0.0, None)
        cluster, prices = scenario.cluster_of(strategy), scenario.prices
        hourly = 0.0 if prices is None else scenario.hourly(strategy)
        return cls(*counted(strategy, cluster), hourly, prices)


class Objective(NamedTuple):
    """Objective to minimize.

    By its name a metric of a run, or what follows from the machines or their costs. `floor`: lower
    bound by the machines alone, before any simulation; None: unknown.
    """

    about: str
    floor: Callable[[Machines], float] | None = None
    needs_prices: bool = False
    needs_loss: bool = False


OBJECTIVES: Final = {
    "cost_per_hour": Objective(
        "the cost per hour", floor=lambda machines: machines.hourly, needs_prices=True
    ),
    "cost_per_million_examples": Objective("the cost of a million examples", needs_prices=True),
    "cost_to_target": Objective(
        "the cost until the target loss", needs_prices=True, needs_loss=True
    ),
    "time_to_target": Objective("the time to the target loss", needs_loss=True),
    "step_time_mean": Objective("the mean time of a step"),
    "staleness_mean": Objective("the mean staleness"),
    "wasted_compute": Objective("the share of compute time that is wasted"),
    "workers": Objective("the number of workers", floor=lambda machines: float(machines.workers)),
    "parameter_servers": Objective(
        "the number of parameter servers", floor=lambda machines: float(machines.servers)
    ),
}


# Of so many combinations of values and strategies all are looked at; of more, some are chosen.
MOST_CELLS: Final = 5_000
MOST_REPLICATIONS: Final = 30
TRIALS: Final = 400
# What of a cluster one buys or rents, besides its machines; the rest is a matter of settings.
_BOUGHT: Final = (
    *(("cluster", name) for name in ("device", "compute", "network", "server_update")),
    *(("checkpoint", name) for name in ("storage", "write")),
)


@dataclass(frozen=True, repr=False)
class Question(Asked):
    """Question of a plan.

    `texts` and `numbers`: the values of each quantity, as they were written and in SI. `sizes`: how
    many values each axis of the space has. `at` gives the point at an index of each
    axis, or None where the constraints leave it out. A cell is a point and one of `strategies`; it
    is run `first_replications` times to see whether it is worth a second look, and up to
    `most_replications` times. What is cheaper by no more than the share `tolerance` is as cheap.
    `trials`: of a space that is too large, so many cells are tried.
    """

    kind: ClassVar[str] = "plan"

    name: str
    objective: str
    base: Scenario
    quantities: tuple[Quantity, ...]
    texts: tuple[tuple[str, ...], ...]
    numbers: tuple[tuple[Number, ...], ...]
    sizes: tuple[int, ...]
    at: Callable[[Sequence[int]], Point | None]
    strategies: tuple[str, ...]
    first_replications: int
    most_replications: int = MOST_REPLICATIONS
    tolerance: float = EQUAL_WITHIN
    trials: int = TRIALS

    def __repr__(self) -> str:
        space = "".join(
            f"# {one.path}: {', '.join(texts)}\n"
            for one, texts in zip(self.quantities, self.texts, strict=True)
        )
        return f"# the least {self.objective} over\n{space}{dump_scenario(self.base)}"

    @property
    def sha256(self) -> str:
        """The hash of what is asked, and of how well it is to be known."""
        space = {one.path: texts for one, texts in zip(self.quantities, self.texts, strict=True)}
        base = provenance(self.base)["scenario_sha256"]
        counts = (self.first_replications, self.most_replications, self.tolerance, self.trials)
        asked = json.dumps([base, self.objective, space, self.strategies, counts])
        return hashlib.sha256(asked.encode()).hexdigest()

    @property
    def families(self) -> Mapping[str, str]:
        """The family of each strategy."""
        chosen = [one for one in self.base.strategies if one.label in self.strategies]
        return families(chosen)

    @property
    def targets(self) -> Targets:
        """What every cell is to reach."""
        return self.base.targets

    @property
    def loss(self) -> float | None:
        """The target loss, if there is one."""
        return self.base.target_loss

    @property
    def currency(self) -> str:
        """What costs are counted in; empty without prices."""
        return "" if self.base.prices is None else self.base.prices.currency

    @cached_property
    def unpriced(self) -> tuple[int, ...]:
        """The indexes of the quantities that one buys or rents, but no price goes with them."""
        priced = {one.group for one in self.quantities if one.place[0] == "prices"}
        return tuple(
            index
            for index, one in enumerate(self.quantities)
            if one.group not in priced and one.place[:2] in _BOUGHT
        )

    @property
    def combinations(self) -> int:
        """How many cells there are at most."""
        return prod(self.sizes) * len(self.strategies)

    @property
    def enumerated(self) -> bool:
        """Whether every cell is looked at."""
        return self.combinations <= MOST_CELLS


BLOCK: Final = "plan"
_EXAMPLE: Final = "plan: {minimize: cost_per_hour, space: {cluster.workers: [4, 8, 16]}}"
_MOST_NUMBER: Final = 100_000
# Of a large space so many points are looked at to find one that the constraints let through.
_MOST_LOOKED_AT: Final = 20_000


def load_question(
    path: str | Path,
    sets: Sequence[str] = (),
    minimize: str | None = None,
    strategies: Sequence[str] = (),
) -> Question:
    """What the plan block of a file asks. Each of `sets` is `path=value`, or `path=1,2,4`.

    `strategies`: only those of these kinds or labels compete; by default all.
    Raises ScenarioError with everything that is wrong with the file and the changes.
    """
    path = Path(path)
    return question_of_text(read_text(path), str(path), path.parent, sets, minimize, strategies)


def question_of_text(
    text: str,
    name: str = "scenario",
    folder: Path = Path(),
    sets: Sequence[str] = (),
    minimize: str | None = None,
    strategies: Sequence[str] = (),
) -> Question:
    """What the plan block of a YAML text asks; see `load_question`."""
    source = Source(name)
    root = tree_of(text, source)
    if model_of(root) is not Scenario:
        said = "a scenario of kind variables is not planned: sweep it"
        raise ScenarioError([Fault.at(root.keys["kind"], said)])
    if BLOCK not in root.keys:
        raise ScenarioError(
            [Fault(source, 0, 0, f"nothing is asked: add to the file, say, {_EXAMPLE}")]
        )
    if SWEEP in root.keys:
        message = "a file has either a sweep or a plan"
        raise ScenarioError([Fault.at(root.keys[SWEEP], message)])
    mark, node = root.keys.pop(BLOCK), root.values.pop(BLOCK)
    if not isinstance(node, MappingNode):
        raise ScenarioError([Fault.at(mark, f"write what is asked: {_EXAMPLE}")])
    context = LoadingContext(folder, tuple(strategies))
    return _PlanBlock(root, node, mark, context).question(sets, minimize)


class Block(Model):
    """The least that reaches the targets: ask it with varsim plan."""

    minimize: Literal[tuple(OBJECTIVES)]  # type: ignore[valid-type]
    space: Any = None
    where: Any = None
    tolerance: Percentage | None = None
    most_replications: int = Field(MOST_REPLICATIONS, ge=2, le=_MOST_NUMBER)
    trials: int = Field(TRIALS, ge=16, le=_MOST_NUMBER)


class _PlanBlock:
    """Reader of a plan block; `root` is the tree of the scenario without it."""

    def __init__(
        self, root: MappingNode, node: MappingNode, mark: Mark, context: LoadingContext
    ) -> None:
        self._root, self._node, self._mark, self._context = root, node, mark, context
        self._space = SweepBlock(root)
        self._points: dict[tuple[int, ...], Point] = {}  # of a space that is not large
        self._faults: list[Fault] = []

    def question(self, sets: Sequence[str], minimize: str | None) -> Question:
        asked = self._settings(minimize)
        self._read_space()
        for order, change in enumerate(sets, 1):
            self._change(change, order)
        if not self._space.axes and not self._faults and not self._space.faults:
            message = f"space is empty: give it paths and values, as in {_EXAMPLE}"
            self._faults.append(Fault.at(self._mark, message))
        if self._faults or self._space.faults:
            raise ScenarioError([*self._faults, *self._space.faults])
        quantities = tuple(
            quantity._replace(group=group)
            for group, axis in enumerate(self._space.axes)
            for quantity in axis.quantities
        )
        base = self._base()
        sizes = tuple(len(axis.values) for axis in self._space.axes)
        columns = [
            [value_of(values[index], quantity.dimension) for values in axis.values]
            for axis in self._space.axes
            for index, quantity in enumerate(axis.quantities)
        ]
        question = Question(
            base.name,
            asked.minimize,
            base,
            quantities,
            tuple(tuple(value.text for value in column) for column in columns),
            tuple(tuple(value.number for value in column) for column in columns),
            sizes,
            self._at,
            self._competing(base),
            base.replications,
            max(asked.most_replications, base.replications),
            base.report.equal_within if asked.tolerance is None else asked.tolerance,
            asked.trials,
        )
        self._check(question)
        return question

    def _at(self, place: Sequence[int]) -> Point | None:
        if self._points:
            return self._points.get(tuple(place))
        axes = self._space.axes
        chosen = [axis.values[index] for axis, index in zip(axes, place, strict=True)]
        return point_at(self._root, axes, chosen, self._space.constraints, self._context)

    def _base(self) -> Scenario:
        """Scenario of the first valid point; few points are all validated, to report all faults."""
        axes, constraints = self._space.axes, self._space.constraints
        count = 1
        for axis in axes:
            count *= len(axis.values)
        if count <= MOST_CELLS:
            self._points = points_of(self._root, axes, constraints, self._context)
            return _of_training(next(iter(self._points.values())))
        places = product(*(range(len(axis.values)) for axis in axes))
        for place in islice(places, _MOST_LOOKED_AT):
            point = self._at(place)
            if point is not None:
                return _of_training(point)
        message = f"where holds for none of the first {_MOST_LOOKED_AT:,} points"
        raise ScenarioError([Fault.at(constraints[0][0], message)])

    def _competing(self, base: Scenario) -> tuple[str, ...]:
        try:
            return tuple(
                strategy.label for strategy in chosen(base.strategies, self._context.strategies)
            )
        except ValueError as error:
            raise ScenarioError([Fault(self._mark.source, 0, 0, str(error))]) from None

    def _settings(self, minimize: str | None) -> Block:
        """What is asked of the space; where that is wrong, what is asked by default."""
        kept = [key for key in self._node.keys if key not in ("space", "where")]
        marks = {key: self._node.keys[key] for key in kept}
        values = {key: self._node.values[key] for key in kept}
        if minimize is not None:
            mark = marks.setdefault("minimize", self._mark)
            values["minimize"] = ScalarNode(mark, minimize, minimize)
        for key in [key for key in kept if "." in key]:
            message = f"a path of the scenario belongs in 'space': {quoted(key)}"
            self._faults.append(Fault.at(marks.pop(key), message))
            del values[key]
        found, faults, _ = modelled(Block, MappingNode(self._mark, marks, values), LoadingContext())
        self._faults += faults
        return found or Block(minimize="workers")

    def _read_space(self) -> None:
        space = self._node.values.get("space")
        if isinstance(space, MappingNode):
            refused = {"where", "precision", "most_replications"} & space.keys.keys()
            for key in sorted(refused):
                message = f"{key} does not belong in the space" + (
                    ": write it beside it" if key in Block.model_fields else ""
                )
                self._faults.append(Fault.at(space.keys[key], message))
            kept = {key: value for key, value in space.values.items() if key not in refused}
            marks = {key: mark for key, mark in space.keys.items() if key not in refused}
            self._space.read(self._node.keys["space"], MappingNode(space.mark, marks, kept))
        elif space is not None:
            message = "space takes paths of the scenario, each with a list of values or a range"
            self._faults.append(Fault.at(space.mark, message))
        where = self._node.values.get("where")
        if where is not None:
            mark = self._node.keys["where"]
            self._space.read(mark, MappingNode(mark, {"where": mark}, {"where": where}))

    def _change(self, change: str, order: int) -> None:
        path = change.partition("=")[0].strip()
        if path.partition(".")[0] == BLOCK:
            mark = Mark(Source(f"--set {change}", order=order), 1, 1)
            message = "the plan is not changed by --set: --minimize, or --set PATH=1,2,4 for a path"
            self._faults.append(Fault.at(mark, message))
            return
        self._space.change(change, order)

    def _check(self, question: Question) -> None:
        """Raise ScenarioError where the question has no answer, or a trivial one."""
        objective = OBJECTIVES[question.objective]
        node = self._node.values.get("minimize")
        mark = self._mark if node is None else node.mark
        message = ""
        if objective.needs_prices and question.base.prices is None:
            message = "needs prices, for example prices: {device_hour: 2.0, server_hour: 0.5}"
        elif objective.needs_loss and question.loss is None:
            message = "needs a target loss, for example targets: {loss: 0.4}"
        elif objective.floor is not None and not question.targets.bounds:
            message = (
                "is lowest with no machine at all: give targets to reach, for example targets: "
            )
            message += "{throughput: 1000 examples/s}"
        if message:
            raise ScenarioError([Fault.at(mark, f"{question.objective} {message}")])
        if question.first_replications < 2:
            key = self._root.values.get("replications")
            where = mark if key is None else key.mark
            message = "replications must be at least 2: nothing is certain from one run"
            raise ScenarioError([Fault.at(where, message)])


def _of_training(point: Point) -> Scenario:
    assert isinstance(point.scenario, Scenario), "programs are not planned"
    return point.scenario
