"""Space of a sweep: quantities, their values (lists and ranges), and its points."""

import hashlib
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

from varsim import units
from varsim.cluster.description.failures import RecordedFailures
from varsim.scenario.document import MappingNode, Node, ScalarNode, SequenceNode
from varsim.scenario.fault import Mark, nearest, quoted
from varsim.scenario.shape import Shape
from varsim.scenario.training import Scenario
from varsim.values.measured_times import MeasuredTimes

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

    def concerns(self, strategy: str, scenario: Scenario) -> bool:
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
    scenario: Scenario


class Sweep(NamedTuple):
    """Sweep over a space of scenarios, with the precision of each.

    Every strategy of every point is run `first_replications` times, then more often, until the
    half-width of the 95 % interval of its throughput is at most the share `precision` of it, or
    until it was run `most_replications` times. `yaml` is a scenario file that says the same.
    """

    name: str
    quantities: tuple[Quantity, ...]
    points: tuple[Point, ...]
    first_replications: int
    most_replications: int = MOST_REPLICATIONS
    precision: float = PRECISION
    yaml: str = ""

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
        learnt = all(point.scenario.stop.loss is None for point in self.points)
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
