"""How the results of a scenario are read: which differences matter."""

from typing import Final

from pydantic import Field

from varsim.units import Seconds
from varsim.values.schema import Model

EQUAL_WITHIN: Final = 0.02
# By default rates are measured between whole rounds: `varsim.study.rounds` says why.


class Reporting(Model):
    """How results are read; nothing here changes a run.

    `equal_within`: alternatives that surely differ by no more than this share are called
    practically equal, and none that leads by less is called the best. `measure_after`: rates and
    shares (of updates, gradients, examples, the time split, wasted compute; times of steps and
    iterations), and the staleness and age of gradients, are measured from this moment of a run to
    its end, 0 s: over all of it. Left out: between whole rounds of all workers, from the end of the
    second to that of the last, where there are five or more and nothing is to happen in the middle
    of a run; else over all of it. Totals, losses, times to a loss, links and the staleness of
    copies always count from the start to the end.
    """

    equal_within: float = Field(
        EQUAL_WITHIN,
        ge=0,
        lt=1,
        description="share of a difference that does not matter: practically equal",
    )

    measure_after: Seconds | None = Field(
        None,
        ge=0,
        description="a warm-up, left out of all rates; 0 s measures the whole run (default: "
        "between whole rounds of all workers, from the end of the second to that of the last)",
    )

    def measuring(self) -> "Reporting":
        """What makes a difference to the numbers of a single run; the rest at its default."""
        return self.model_copy(update={"equal_within": EQUAL_WITHIN})
