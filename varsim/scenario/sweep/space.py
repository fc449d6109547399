"""What a sweep is: the quantities that are varied, and a scenario for every point."""

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from varsim.scenario.training import Scenario

PRECISION: Final = 0.02
MOST_REPLICATIONS: Final = 30

# What a swept quantity is at one point: in SI where it has a unit; a mapping or list as its text.
Number: TypeAlias = int | float | str | bool | None

_SUFFIXES: Final = {"time": "_s", "bytes": "_bytes", "rate": "_bytes_per_s", "flops": "_flop_per_s"}


class Quantity(NamedTuple):
    """Something of the scenario that is varied; `path` as the user wrote it.

    `place` is the path with the index of a strategy for its name or kind. `dimension` is a key of
    `units.DIMENSIONS`, or empty where there is no unit. Quantities of one `group` change together,
    as the values of a zip do; groups are counted from 0.
    """

    path: str
    place: tuple[str, ...]
    dimension: str
    group: int

    def concerns(self, strategy: str, scenario: Scenario) -> bool:
        """Whether it is not about another strategy than the one of this label."""
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
    """A space of scenarios, and how well each of them is to be known.

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

    def told(self, point: Point) -> str:
        """Where a point lies, in words: `cluster.workers = 8, workload.batch_size = 32`."""
        return self._told(point, range(len(self.quantities)))

    def describe_for_times(self, point: Point) -> str:
        """The same without what can have no effect on times: optimizers, unless a loss ends runs.

        Empty where there is nothing else.
        """
        learnt = point.scenario.stop.loss is None
        return self._told(
            point,
            [
                index
                for index, quantity in enumerate(self.quantities)
                if not (learnt and "optimizer" in quantity.place)
            ],
        )

    def _told(self, point: Point, chosen: Sequence[int]) -> str:
        return ", ".join(f"{self.quantities[i].path} = {point.values[i].text}" for i in chosen)
