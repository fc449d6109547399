"""When a run ends."""

from typing import Self

from pydantic import Field, PositiveInt, model_validator

from varsim.schema import Model
from varsim.units import Seconds


class Stop(Model):
    """A run ends as soon as one of these holds.

    `global_steps`: updates made; `examples`: examples in applied gradients; `time`: simulated;
    `loss`: an update whose training loss is at or below this; every update is looked at (then
    another limit is needed as well).
    """

    global_steps: PositiveInt | None = None
    examples: PositiveInt | None = None
    time: Seconds | None = Field(None, gt=0)
    loss: float | None = None

    @model_validator(mode="after")
    def _ends_for_sure(self) -> Self:
        if self.global_steps is None and self.examples is None and self.time is None:
            raise ValueError("give at least one of global_steps, examples, time")
        return self
