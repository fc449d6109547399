"""What is asked: what to minimize, over which space, subject to which targets."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final

from varsim.scenario.provenance import provenance
from varsim.scenario.reporting import EQUAL_WITHIN
from varsim.scenario.sweep.space import Number, Point, Quantity
from varsim.scenario.targets import Targets
from varsim.scenario.training import Scenario

# Of so many combinations of values and strategies all are looked at; of more, some are chosen.
MOST_CELLS: Final = 5_000
MOST_REPLICATIONS: Final = 30
TRIALS: Final = 400
# What of a cluster one buys or rents, besides its machines; the rest is a matter of settings.
_BOUGHT: Final = ("device", "compute", "network", "server_update")


@dataclass(frozen=True)
class Question:
    """A plan that is to be made.

    `texts` and `numbers`: the values of each quantity, as they were written and in SI. `sizes`: how
    many values each axis of the space has. `at` gives the point at an index of each
    axis, or None where the constraints leave it out. A cell is a point and one of `strategies`; it
    is run `first_replications` times to see whether it is worth a second look, and up to
    `most_replications` times. What is cheaper by no more than the share `tolerance` is as cheap.
    `trials`: of a space that is too large, so many cells are tried.
    """

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

    @property
    def sha256(self) -> str:
        """The hash of what is asked, and of how well it is to be known."""
        space = {one.path: texts for one, texts in zip(self.quantities, self.texts, strict=True)}
        base = provenance(self.base)["scenario_sha256"]
        counts = (self.first_replications, self.most_replications, self.tolerance, self.trials)
        asked = json.dumps([base, self.objective, space, self.strategies, counts])
        return hashlib.sha256(asked.encode()).hexdigest()

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
            if one.group not in priced and one.place[0] == "cluster" and one.place[1] in _BOUGHT
        )

    @property
    def combinations(self) -> int:
        """How many cells there are at most."""
        return prod(self.sizes) * len(self.strategies)

    @property
    def enumerated(self) -> bool:
        """Whether every cell is looked at."""
        return self.combinations <= MOST_CELLS
