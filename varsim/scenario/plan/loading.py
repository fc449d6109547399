"""A plan from a scenario file with a `plan` block, with changes from the command line."""

from collections.abc import Sequence
from itertools import islice, product
from pathlib import Path
from typing import Final

from varsim.scenario.document import MappingNode, Node, ScalarNode
from varsim.scenario.fault import Fault, Mark, ScenarioError, Source, nearest, quoted
from varsim.scenario.loading import Context, read_text
from varsim.scenario.plan.objective import OBJECTIVES
from varsim.scenario.plan.question import MOST_CELLS, MOST_REPLICATIONS, TRIALS, Question
from varsim.scenario.sweep.loading import BLOCK as SWEEP
from varsim.scenario.sweep.loading import Block, percentage, tree_of
from varsim.scenario.sweep.points import point_at, points_of
from varsim.scenario.sweep.space import Point
from varsim.scenario.sweep.values import value_of
from varsim.scenario.training import Scenario

BLOCK: Final = "plan"
KEYS: Final = ("minimize", "space", "where", "tolerance", "most_replications", "trials")
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
    root = tree_of(text, source, "not planned: it has no cluster to choose")
    if BLOCK not in root.keys:
        raise ScenarioError([Fault(source, 0, 0, f"nothing is asked: add, say, {_EXAMPLE}")])
    if SWEEP in root.keys:
        message = "a file has either a sweep or a plan"
        raise ScenarioError([Fault.at(root.keys[SWEEP], message)])
    mark, node = root.keys.pop(BLOCK), root.values.pop(BLOCK)
    if not isinstance(node, MappingNode):
        raise ScenarioError([Fault.at(mark, f"write what is asked: {_EXAMPLE}")])
    context = Context(folder, tuple(strategies))
    return _PlanBlock(root, node, mark, context).question(sets, minimize)


class _PlanBlock:
    """A plan block as it is read; `root` is the tree of the scenario without it."""

    def __init__(self, root: MappingNode, node: MappingNode, mark: Mark, context: Context) -> None:
        self._root, self._node, self._mark, self._context = root, node, mark, context
        self._space = Block(root)
        self._faults: list[Fault] = []

    def question(self, sets: Sequence[str], minimize: str | None) -> Question:
        """All of it; ScenarioError with all that is wrong."""
        self._check_keys()
        self._read_space()
        objective = minimize or self._objective()
        tolerance = self._tolerance()
        most = self._number("most_replications", MOST_REPLICATIONS, least=2)
        trials = self._number("trials", TRIALS, least=16)
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
            objective,
            base,
            quantities,
            tuple(tuple(value.text for value in column) for column in columns),
            tuple(tuple(value.number for value in column) for column in columns),
            sizes,
            self._at,
            self._competing(base),
            base.replications,
            max(most, base.replications),
            base.report.equal_within if tolerance is None else tolerance,
            trials,
        )
        self._check(question)
        return question

    def _at(self, place: Sequence[int]) -> Point | None:
        axes = self._space.axes
        chosen = [axis.values[index] for axis, index in zip(axes, place, strict=True)]
        return point_at(self._root, axes, chosen, self._space.constraints, self._context)

    def _base(self) -> Scenario:
        """The scenario at the first point that there is; the points are all tried if they are few.

        So everything that is wrong with one of them is told at once.
        """
        axes, constraints = self._space.axes, self._space.constraints
        count = 1
        for axis in axes:
            count *= len(axis.values)
        if count <= MOST_CELLS:
            return points_of(self._root, axes, constraints, self._context)[0].scenario
        places = product(*(range(len(axis.values)) for axis in axes))
        for place in islice(places, _MOST_LOOKED_AT):
            point = self._at(place)
            if point is not None:
                return point.scenario
        message = f"where holds for none of the first {_MOST_LOOKED_AT:,} points"
        raise ScenarioError([Fault.at(constraints[0][0], message)])

    def _competing(self, base: Scenario) -> tuple[str, ...]:
        try:
            return tuple(strategy.label for strategy in base.chosen(self._context.strategies))
        except ValueError as error:
            raise ScenarioError([Fault(self._mark.source, 0, 0, str(error))]) from None

    def _check_keys(self) -> None:
        for key, mark in self._node.keys.items():
            if key not in KEYS:
                meant = nearest(key, KEYS)
                hint = f"; did you mean {quoted(meant)}?" if meant else ""
                known = f" (a path of the scenario belongs into {quoted('space')})" * ("." in key)
                message = f"unknown key {quoted(key)} of a plan{hint}{known}"
                self._faults.append(Fault.at(mark, message))

    def _read_space(self) -> None:
        space = self._node.values.get("space")
        if isinstance(space, MappingNode):
            refused = {"where", "precision", "most_replications"} & space.keys.keys()
            for key in sorted(refused):
                message = f"{key} does not belong into the space" + (
                    ": write it beside it" if key in KEYS else ""
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

    def _objective(self) -> str:
        node = self._node.values.get("minimize")
        names = ", ".join(OBJECTIVES)
        if node is None:
            message = f"plan does not say what to minimize: one of {names}"
            self._faults.append(Fault.at(self._mark, message))
            return "workers"
        said = node.text if isinstance(node, ScalarNode) else ""
        if said not in OBJECTIVES:
            meant = nearest(said, OBJECTIVES)
            hint = f"did you mean {quoted(meant)}?" if meant else f"one of {names}"
            message = f"{quoted(said)} is nothing to minimize; {hint}"
            self._faults.append(Fault.at(node.mark, message))
        return said

    def _tolerance(self) -> float | None:
        node = self._node.values.get("tolerance")
        if node is None:
            return None
        try:
            return percentage(node.text if isinstance(node, ScalarNode) else "")
        except ValueError as error:
            self._faults.append(Fault.at(node.mark, f"tolerance: {error}"))
            return None

    def _number(self, key: str, default: int, least: int) -> int:
        node: Node | None = self._node.values.get(key)
        if node is None:
            return default
        value = node.value if isinstance(node, ScalarNode) else None
        if type(value) is not int or not least <= value <= _MOST_NUMBER:
            message = f"{key} must be a whole number from {least} to {_MOST_NUMBER:,}"
            self._faults.append(Fault.at(node.mark, message))
            return default
        return value

    def _change(self, change: str, order: int) -> None:
        path = change.partition("=")[0].strip()
        if path.partition(".")[0] == BLOCK:
            mark = Mark(Source(f"--set {change}", order=order), 1, 1)
            message = "the plan is not changed by --set: --minimize, or --set PATH=1,2,4 for a path"
            self._faults.append(Fault.at(mark, message))
            return
        self._space.change(change, order)

    def _check(self, question: Question) -> None:
        """Raise ScenarioError where what is asked has no answer, or an answer without a run."""
        objective = OBJECTIVES[question.objective]
        node = self._node.values.get("minimize")
        mark = self._mark if node is None else node.mark
        message = ""
        if objective.needs_prices and question.base.prices is None:
            message = "needs prices, for example prices: {device_hour: 2.0, server_hour: 0.5}"
        elif objective.needs_loss and question.loss is None:
            message = "needs a target loss, for example targets: {loss: 0.4}"
        elif objective.floor is not None and not question.targets.bounds:
            message = "is least without any machine: give targets to reach, for example targets: "
            message += "{throughput: 1000 examples/s}"
        if message:
            raise ScenarioError([Fault.at(mark, f"{question.objective} {message}")])
        if question.first_replications < 2:
            key = self._root.values.get("replications")
            where = mark if key is None else key.mark
            message = "replications must be 2 at least: from one run nothing is certain"
            raise ScenarioError([Fault.at(where, message)])
