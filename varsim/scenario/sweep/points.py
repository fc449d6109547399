"""Points of a space: the combinations of values that satisfy the constraints."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Final, NamedTuple, TypeAlias

from varsim.scenario.change import ChangeError, found_at, put, steps
from varsim.scenario.document import MappingNode, Node, ScalarNode, copied
from varsim.scenario.fault import Fault, Mark, ScenarioError, quoted
from varsim.scenario.loading import Context, modelled
from varsim.scenario.shape import Shape, members
from varsim.scenario.sweep.constraint import Constraint
from varsim.scenario.sweep.space import Point, Quantity, Value, dimension_of, value_of
from varsim.scenario.training import Scenario

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
    context: Context,
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
    refusals = _Refusals()
    for turn in product(*(range(len(axis.values)) for axis in axes)):
        chosen = [axis.values[index] for axis, index in zip(axes, turn, strict=True)]
        tree, pairs = tree_at(root, axes, chosen)
        if not satisfies(tree, constraints):
            continue
        if len(points) + refusals.points == MOST_POINTS:
            raise ScenarioError([Fault.at(place, f"more than {MOST_POINTS:,} points")])
        values = tuple(value_of(node, quantity.dimension) for quantity, _, node in pairs)
        scenario, faults, _ = modelled(Scenario, tree, context)
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
    context: Context,
) -> Point | None:
    """One point, by the values of every axis; None where the constraints leave it out.

    Raises ScenarioError where it is no valid scenario.
    """
    tree, pairs = tree_at(root, axes, chosen)
    if not satisfies(tree, constraints):
        return None
    values = tuple(value_of(node, quantity.dimension) for quantity, _, node in pairs)
    scenario, faults, _ = modelled(Scenario, tree, context)
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
            put(tree, path, node, Scenario)
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
    return dimension_of(_shapes(path, steps(path, tree))[1])


def _shapes(path: str, found: Sequence[str]) -> tuple[list[Shape], list[Shape]]:
    """What may stand around a path, and at it; ValueError where a scenario has no such path."""
    owner: list[Shape] = []
    shapes = [Shape(Scenario)]
    for step in found:
        owner, shapes = shapes, members(shapes, int(step) if step.isdecimal() else step)
        if not shapes:
            raise ValueError(f"{quoted(path)} is not part of a scenario")
    return owner, shapes


def _number(path: str, tree: MappingNode) -> float:
    """What a path is in a tree, or by default, in SI; ValueError where that is no number."""
    found = steps(path, tree)
    owner, shapes = _shapes(path, found)
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
