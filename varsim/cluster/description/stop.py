"""Stop rule of a run."""

import math
from collections.abc import Iterator

from pydantic import Field, PositiveInt

from varsim.units import Seconds
from varsim.values.schema import Model


class Stop(Model):
    """A run ends as soon as one of these holds.

    `global_steps`: updates made. Where strategies put different numbers of gradients into one, it
    counts those of the largest, and the others run until they have applied as many examples; with
    `equal_examples: false` all make so many updates. `examples`: examples in applied gradients;
    `time`: simulated; `loss`: an update whose training loss is at or below this; every update is
    looked at (then another limit is needed as well).
    """

    global_steps: PositiveInt | None = None
    """After this many updates of the model."""
    examples: PositiveInt | None = None
    """After this many examples in applied gradients."""
    time: Seconds | None = Field(None, gt=0)
    """After this much simulated time."""
    loss: float | None = Field(None, ge=0)
    """At the first update with this loss or a lower one."""
    equal_examples: bool = True
    """With `global_steps`: all strategies apply as many examples as the one with the largest
    updates."""

    def refusals(self) -> Iterator[str]:
        if self.global_steps is None and self.examples is None and self.time is None:
            yield "give at least one of global_steps, examples, time"
        if self.global_steps is None and not self.equal_examples:
            yield (
                "equal_examples has no effect without global_steps: no other limit counts updates"
            )

    @property
    def most(self) -> tuple[float, float]:
        """How many updates and examples end a run; infinitely many where that is not said."""
        return (
            math.inf if self.global_steps is None else self.global_steps,
            math.inf if self.examples is None else self.examples,
        )

    def over_equal_examples(self, each: int) -> "Stop":
        """The same, with `each` examples for an update, instead of so many updates."""
        assert self.global_steps is not None
        limits = [self.global_steps * each] + ([] if self.examples is None else [self.examples])
        return self.model_copy(update={"global_steps": None, "examples": min(limits)})
