"""Space of a sweep: quantities, their values (lists and ranges), and its points."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import ClassVar, Final, NamedTuple, TypeAlias

from pydantic import BaseModel

from varsim.cluster.description.failures import RecordedFailures
from varsim.core import units
from varsim.core.measured_times import MeasuredTimes
from varsim.scenario.change import ChangeError, found_at, put, steps
from varsim.scenario.document import MappingNode, Node, ScalarNode, SequenceNode, copied
from varsim.scenario.fault import Fault, Mark, ScenarioError, nearest, quoted
from varsim.scenario.loading import LoadingContext, model_of, modelled
from varsim.scenario.shape import Shape, members
from varsim.scenario.training import AnyScenario, Scenario
from varsim.scenario.where import Constraint
from varsim.scenario.writing import Asked

PRECISION: Final = 0.02
MOST_REPLICATIONS: Final = 30
# What a swept quantity is at one point: in SI where it has a unit; a mapping or list as its text.
Number: TypeAlias = int | float | str | bool | None
_SUFFIXES: Final = {"time": "_s", "bytes": "_bytes", "rate": "_bytes_per_s", "flops": "_flop_per_s"}


class Quantity(NamedTuple):
    """Quantity of the scenario that is varied; `path` as the user wrote it.

    `place` is the path with the index of a strategy for its name or kind. `dimension` is a key of
    `units.DIMENSIONS`, or empty where there is no unit. Quantities of one `group` change together,
    as the values of a zip do; groups are counted from 0.
    """

    path: str
    place: tuple[str, ...]
    dimension: str
    group: int

    def concerns(self, strategy: str, scenario: AnyScenario) -> bool:
        """Whether it affects the strategy of this label."""
        if self.place[0] != "strategies" or len(self.place) == 1:
            return True
        return scenario.strategies[int(self.place[1])].label == strategy

    @property
    def column(self) -> str:
        """What it is called in tables: with its SI unit, where it has one."""
        return self.path + _SUFFIXES.get(self.dimension, "")


class Value(NamedTuple):
    """One value of a quantity: as it was written, and as a number."""

    text: str
    number: Number


class Point(NamedTuple):
    """One point of the space: a value for each quantity of the sweep, and the scenario there."""

    values: tuple[Value, ...]
    scenario: AnyScenario


@dataclass(frozen=True, repr=False)
class Sweep(Asked):
    """Sweep over a space of scenarios, with the precision of each.

    Every strategy of every point is run `first_replications` times, then more often, until the
    half-width of the 95 % interval of its throughput is at most the share `precision` of it, or
    until it was run `most_replications` times. `yaml` is a scenario file that says the same. Only
    `strategies` (kinds or labels; empty: all) of each point are run.
    """

    kind: ClassVar[str] = "sweep"

    name: str
    quantities: tuple[Quantity, ...]
    points: tuple[Point, ...]
    first_replications: int
    most_replications: int = MOST_REPLICATIONS
    precision: float = PRECISION
    yaml: str = ""
    strategies: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return self.yaml

    @property
    def groups(self) -> list[int]:
        """For each group of quantities, the index of the first of them."""
        firsts: dict[int, int] = {}
        for index, quantity in enumerate(self.quantities):
            firsts.setdefault(quantity.group, index)
        return list(firsts.values())

    @property
    def sha256(self) -> str:
        """The hash of what is asked: scenario, space, and how well all is to be known."""
        return hashlib.sha256(self.yaml.encode()).hexdigest()

    @property
    def for_times(self) -> list[int]:
        """The indexes of the quantities that may affect times.

        Optimizers do not, unless a loss ends the runs.
        """
        scenarios = [point.scenario for point in self.points]
        learnt = all(isinstance(one, Scenario) and one.stop.loss is None for one in scenarios)
        return [
            index
            for index, quantity in enumerate(self.quantities)
            if not (learnt and "optimizer" in quantity.place)
        ]


MOST_VALUES: Final = 10_000
_RANGE_KEYS: Final = ("from", "to", "step", "points", "spacing")
_EXAMPLE: Final = "{from: 1, to: 16, step: 1} or {from: 1, to: 256, points: 9, spacing: log}"


class SpaceError(ValueError):
    """Error of a sweep block, with its place."""

    def __init__(self, mark: Mark, message: str) -> None:
        super().__init__(message)
        self.mark = mark


def dimension_of(shapes: Sequence[Shape]) -> str:
    """The key of units.DIMENSIONS of a field; empty where it has no unit."""
    for shape in shapes:
        for name, dimension in units.DIMENSIONS.items():
            if shape.dimension is not None and shape.dimension.noun == dimension.noun:
                return name
    return ""


def values_of(node: Node, shapes: Sequence[Shape]) -> list[Node]:
    """The values of an axis: the entries of a list, or those of a range.

    Raises SpaceError where it is neither, or empty.
    """
    if isinstance(node, SequenceNode):
        found = list(node.items)
    elif isinstance(node, MappingNode) and {"from", "to"} & node.keys.keys():
        found = _range(node, shapes)
    else:
        raise SpaceError(node.mark, f"write a list of values, or a range: {_EXAMPLE}")
    if not found:
        raise SpaceError(node.mark, "an empty list: there is nothing to vary")
    return found


def value_of(node: Node, dimension: str) -> Value:
    """The value of a quantity at one point; text where it is no number."""
    text = text_of(node)
    number: Number = text
    if isinstance(node, ScalarNode) and isinstance(node.value, int | float | str | None):
        number = node.value
        if dimension and isinstance(number, str):
            try:
                number = units.parse(number, dimension)
            except ValueError:  # the scenario of the point will refuse it, at its place
                number = text
    return Value(text, number)


def text_of(node: Node) -> str:
    """A value on one line, as it may be written in a file; without what was read from a file."""
    if isinstance(node, MappingNode):
        shown = {key: text_of(value) for key, value in node.values.items()}
        if "file" in shown:
            for model in (MeasuredTimes, RecordedFailures):
                shown.pop(model.read_from["file"], None)
        inside = ", ".join(f"{key}: {text}" for key, text in shown.items())
        return f"{{{inside}}}"
    if isinstance(node, SequenceNode):
        return f"[{', '.join(map(text_of, node.items))}]"
    return node.text


def _range(node: MappingNode, shapes: Sequence[Shape]) -> list[Node]:
    for key, mark in node.keys.items():
        if key not in _RANGE_KEYS:
            meant = nearest(key, _RANGE_KEYS)
            hint = f"; did you mean {quoted(meant)}?" if meant else ""
            raise SpaceError(mark, f"unknown key {quoted(key)} of a range{hint}")
    for key in ("from", "to"):
        if key not in node.values:
            raise SpaceError(node.mark, f"{key} is missing: {_EXAMPLE}")
    if ("step" in node.values) == ("points" in node.values):
        raise SpaceError(node.mark, f"give either step or points: {_EXAMPLE}")
    dimension = dimension_of(shapes)
    whole = any(shape.type is int for shape in shapes)
    start, end = (_exact(node.values[key], key, dimension) for key in ("from", "to"))
    if "step" in node.values:
        if "spacing" in node.values:
            raise SpaceError(node.keys["spacing"], "spacing goes with points, not with step")
        found = _stepped(node.values["step"], start, end, dimension)
    else:
        found = _spaced(node, start, end)
    if whole and "points" in node.values:
        found = [Fraction(round(value)) for value in found]
    write = _writer(dimension)
    texts = dict.fromkeys(write(value) for value in found)
    return [ScalarNode(node.mark, text, _meaning(text, dimension)) for text in texts]


def _stepped(node: Node, start: Fraction, end: Fraction, dimension: str) -> list[Fraction]:
    step = _exact(node, "step", dimension)
    if step == 0 or (end - start) / step < 0:
        raise SpaceError(node.mark, "step does not lead from 'from' to 'to'")
    count = int((end - start) / step) + 1
    if count > MOST_VALUES:
        raise SpaceError(node.mark, f"{count:,} values; at most {MOST_VALUES:,} per axis")
    return [start + step * index for index in range(count)]


def _spaced(node: MappingNode, start: Fraction, end: Fraction) -> list[Fraction]:
    """Points between two ends, both included; on a log scale rounded to four digits."""
    points = node.values["points"]
    count = points.value if isinstance(points, ScalarNode) else None
    if type(count) is not int or not 2 <= count <= MOST_VALUES:
        raise SpaceError(points.mark, f"points must be a whole number from 2 to {MOST_VALUES:,}")
    spacing = node.values.get("spacing")
    how = spacing.text if isinstance(spacing, ScalarNode) else None
    if spacing is not None and how not in ("linear", "log"):
        raise SpaceError(spacing.mark, "spacing must be one of linear, log")
    if how != "log":
        return [start + (end - start) * index / (count - 1) for index in range(count)]
    if start <= 0 or end <= 0:
        raise SpaceError(node.mark, "with spacing: log, 'from' and 'to' must be above 0")
    ratio = math.log(end / start)
    between = [float(start) * math.exp(ratio * i / (count - 1)) for i in range(1, count - 1)]
    return [start, *(Fraction(f"{value:.4g}") for value in between), end]


def _exact(node: Node, key: str, dimension: str) -> Fraction:
    if isinstance(node, ScalarNode):
        if dimension and isinstance(node.value, str):
            try:
                return Fraction(units.parse(node.value, dimension))
            except ValueError as error:
                raise SpaceError(node.mark, f"{key}: {error}") from None
        if type(node.value) in (int, float) and (not dimension or node.value == 0):
            return Fraction(node.value if isinstance(node.value, int) else node.text)
    example = units.DIMENSIONS[dimension].example if dimension else "4"
    raise SpaceError(node.mark, f"{key} must be a number, such as {example}")


def _writer(dimension: str) -> Callable[[Fraction], str]:
    if dimension:
        return lambda value: units.to_text(float(value), dimension)
    return lambda value: str(int(value)) if value.denominator == 1 else repr(float(value))


def _meaning(text: str, dimension: str) -> str | int | float:
    if dimension:
        return text
    return int(text) if text.lstrip("-").isdecimal() else float(text)


MOST_COMBINATIONS: Final = 200_000
MOST_POINTS: Final = 10_000
_MOST_REFUSED: Final = 50  # points that are looked at further, once one is refused
# A quantity, where it is in the tree, and its value there.
PlacedValue: TypeAlias = tuple[Quantity, Sequence[str], Node]


class Axis(NamedTuple):
    """Quantities that change together, and their values in turn."""

    quantities: tuple[Quantity, ...]
    values: tuple[tuple[Node, ...], ...]

    @property
    def paths(self) -> list[tuple[str, ...]]:
        """Where each quantity is in the tree."""
        return [quantity.place for quantity in self.quantities]


def points_of(
    root: MappingNode,
    axes: Sequence[Axis],
    constraints: Sequence[tuple[Mark, Constraint]],
    context: LoadingContext,
) -> dict[tuple[int, ...], Point]:
    """Every point, by the index of its value on each axis, the last axis changing fastest.

    Raises ScenarioError where a point is no valid scenario, or where there are none or too many.
    """
    place = axes[0].values[0][0].mark
    combinations = prod(len(axis.values) for axis in axes)
    if combinations > MOST_COMBINATIONS:
        message = f"{combinations:,} combinations of values; at most {MOST_COMBINATIONS:,}"
        raise ScenarioError([Fault.at(place, message)])
    points: dict[tuple[int, ...], Point] = {}
    refusals, model = _Refusals(), model_of(root)
    for turn in product(*(range(len(axis.values)) for axis in axes)):
        chosen = [axis.values[index] for axis, index in zip(axes, turn, strict=True)]
        tree, pairs = tree_at(root, axes, chosen)
        if not satisfies(tree, constraints):
            continue
        if len(points) + refusals.points == MOST_POINTS:
            raise ScenarioError([Fault.at(place, f"more than {MOST_POINTS:,} points")])
        values = tuple(value_of(node, quantity.dimension) for quantity, _, node in pairs)
        scenario, faults, _ = modelled(model, tree, context)
        if scenario is not None:
            points[turn] = Point(values, scenario)
            continue
        refusals.add(faults, pairs, values)
        if refusals.points == _MOST_REFUSED:
            break
    if refusals.points:
        raise ScenarioError(refusals.told(among=bool(points)))
    if not points:
        marks = [mark for mark, _ in constraints]
        raise ScenarioError([Fault.at(marks[0], "no point is left: where holds for none")])
    return points


def point_at(
    root: MappingNode,
    axes: Sequence[Axis],
    chosen: Sequence[Sequence[Node]],
    constraints: Sequence[tuple[Mark, Constraint]],
    context: LoadingContext,
) -> Point | None:
    """One point, by the values of every axis; None where the constraints leave it out.

    Raises ScenarioError where it is no valid scenario.
    """
    tree, pairs = tree_at(root, axes, chosen)
    if not satisfies(tree, constraints):
        return None
    values = tuple(value_of(node, quantity.dimension) for quantity, _, node in pairs)
    scenario, faults, _ = modelled(model_of(root), tree, context)
    if scenario is None:
        refusals = _Refusals()
        refusals.add(faults, pairs, values)
        raise ScenarioError(refusals.told(among=True))
    return Point(values, scenario)


def tree_at(
    root: MappingNode, axes: Sequence[Axis], chosen: Sequence[Sequence[Node]]
) -> tuple[MappingNode, list[PlacedValue]]:
    """The tree of a point, and what is put where; ScenarioError where there is no such place."""
    tree = copied(root)
    assert isinstance(tree, MappingNode)
    pairs = list(_placed(axes, chosen))
    for _, path, node in pairs:
        try:
            put(tree, path, node, model_of(root))
        except ChangeError as error:
            raise ScenarioError([Fault.at(node.mark, str(error))]) from None
    return tree, pairs


class _Refusals:
    """Faults of refused points, each once, with the first point that has it."""

    def __init__(self) -> None:
        self.points = 0
        self._found: dict[tuple[int, int, int, str], tuple[Fault, str, int]] = {}
        # Faults of a point's only value, for which 'where' is no remedy.
        self._values: set[tuple[int, int, int, str]] = set()

    def add(
        self,
        faults: Iterable[Fault],
        pairs: Sequence[PlacedValue],
        values: Sequence[Value],
    ) -> None:
        self.points += 1
        there = ", ".join(
            f"{quantity.path} = {value.text}"
            for (quantity, _, _), value in zip(pairs, values, strict=True)
        )
        for fault in faults:
            key = (fault.source.order, fault.line, fault.column, fault.message)
            first, where, count = self._found.get(key, (fault, there, 0))
            self._found[key] = (first, where, count + 1)
            if len(pairs) == 1 and pairs[0][2].mark == Mark(fault.source, fault.line, fault.column):
                self._values.add(key)

    def told(self, among: bool) -> list[Fault]:
        """`among`: whether there are points with which nothing is wrong."""
        faults = []
        for key, (fault, where, count) in self._found.items():
            message = fault.message
            if key in self._values:
                message += f" (at {where})"
            elif among or count < self.points:
                more = f" and {count - 1} more" if count > 1 else ""
                message += f" (at {where}{more}; a line in 'where' leaves such points out)"
            faults.append(Fault(fault.source, fault.line, fault.column, message))
        return faults


def _placed(axes: Sequence[Axis], chosen: Sequence[Sequence[Node]]) -> Iterator[PlacedValue]:
    for axis, values in zip(axes, chosen, strict=True):
        yield from zip(axis.quantities, axis.paths, values, strict=True)


def satisfies(tree: MappingNode, constraints: Sequence[tuple[Mark, Constraint]]) -> bool:
    """Whether all constraints hold; ScenarioError where one cannot be told."""
    for mark, constraint in constraints:
        try:
            if not constraint.holds(lambda path: _number(path, tree)):
                return False
        except ValueError as error:
            raise ScenarioError([Fault.at(mark, str(error))]) from None
    return True


def dimension_at(path: str, tree: MappingNode) -> str:
    """What unit a path has, as `dimension_of`; ValueError where a scenario has no such path."""
    return dimension_of(_shapes(path, steps(path, tree), model_of(tree))[1])


def _shapes(
    path: str, found: Sequence[str], model: type[BaseModel]
) -> tuple[list[Shape], list[Shape]]:
    """What may stand around a path, and at it; ValueError where a scenario has no such path."""
    owner: list[Shape] = []
    shapes = [Shape(model)]
    for step in found:
        owner, shapes = shapes, members(shapes, int(step) if step.isdecimal() else step)
        if not shapes:
            raise ValueError(f"{quoted(path)} is not part of a scenario")
    return owner, shapes


def _number(path: str, tree: MappingNode) -> float:
    """What a path is in a tree, or by default, in SI; ValueError where that is no number."""
    found = steps(path, tree)
    owner, shapes = _shapes(path, found, model_of(tree))
    node = found_at(tree, found)
    if node is None:
        by_default = _default(owner, found[-1])
        if by_default is None:
            raise ValueError(f"{quoted(path)} has no value in this scenario")
        return by_default
    number = value_of(node, dimension_of(shapes)).number if isinstance(node, ScalarNode) else None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"{quoted(path)} is not a number, so it cannot be compared")
    return float(number)


def _default(owner: Sequence[Shape], key: str) -> float | None:
    """The number that a key has where it is left out, if it has one."""
    for shape in owner:
        info = None if shape.model is None else shape.model.model_fields.get(key)
        if info is not None and isinstance(info.default, int | float):
            return float(info.default)
    return None
