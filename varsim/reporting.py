"""How the results of a scenario are read: which differences matter."""

from typing import Final

from pydantic import Field

from varsim.schema import Model
from varsim.units import Seconds

EQUAL_WITHIN: Final = 0.02
# By default nothing is left out: no moment at which to begin helps a run that ends in the middle of
# a round. What throughput is between whole rounds is told beside it where it is another: see
# `varsim.result.rounds`, which has the numbers.


class Reporting(Model):
    """How results are read; nothing here changes a run.

    `equal_within`: alternatives that surely differ by no more than this share are called
    practically equal, and none that leads by less is called the best. `measure_after`: rates and
    shares (of updates, gradients, examples, the time split, wasted compute; times of steps and
    iterations), and the staleness and age of gradients, are measured from this moment of a run on;
    totals, losses, times to a loss, links, the staleness of copies and the yardstick count from
    the start.
    """

    equal_within: float = Field(
        EQUAL_WITHIN,
        ge=0,
        lt=1,
        description="share of a difference that does not matter: practically equal",
    )

    measure_after: Seconds = Field(0.0, ge=0, description="a warm-up, left out of all rates")

    def measuring(self) -> "Reporting":
        """What makes a difference to the numbers of a single run; the rest at its default."""
        return self.model_copy(update={"equal_within": EQUAL_WITHIN})
