"""Times only: a problem without values, for runs in which nothing is learnt."""

from typing import ClassVar, Final, Literal, Self

import numpy as np
from pydantic import PositiveInt, model_validator

from varsim.units import Bytes
from varsim.values.task import BLOCK, Batches, Parameters, Problem, Task, VariableSpec

_NOTHING: Final = np.zeros((BLOCK, 0))


class Timing(Problem):
    """Gradients without content; a model profile gives sizes and FLOPs, or `size` the bytes alone.

    `parts`: the number of variables, each with an equal share of the bytes, pushed and accumulated
    on its own.
    """

    about: ClassVar[str] = "times only: no values, no loss; sizes of a model profile, or one size"

    kind: Literal["timing"] = "timing"
    parts: PositiveInt = 1
    size: Bytes | None = None

    @model_validator(mode="after")
    def _every_part_has_bytes(self) -> Self:
        if self.size is not None and round(self.size) < self.parts:
            raise ValueError(f"size must be at least 1 byte for each of {self.parts} parts")
        return self

    @property
    def is_random(self) -> bool:
        """There are no values."""
        return False

    def variables(self) -> tuple[VariableSpec, ...]:
        """Variables of one parameter each."""
        return tuple(VariableSpec(f"part {index}", (1,)) for index in range(self.parts))

    def flops_per_example(self) -> float:
        """A problem without values has no work of its own."""
        raise ValueError("problem timing needs a model, which says how much work a step is")

    def task(self, seed: int, replication: int) -> "TimingTask":
        """The same for every seed."""
        return TimingTask(self.parts)


class TimingTask(Task):
    """Zeros."""

    has_values = False

    def __init__(self, parts: int) -> None:
        self._parts = parts

    def initial(self) -> Parameters:
        """One zero per variable."""
        return tuple(np.zeros(1) for _ in range(self._parts))

    def batches(self, worker: int, block: int, batch_size: int) -> Batches:
        """Batches (BLOCK, 0)."""
        return _NOTHING

    def gradients(self, parameters: Parameters, batches: Batches) -> Parameters:
        """Zeros, per variable (k, 1)."""
        return tuple(np.zeros((len(batches), 1)) for _ in parameters)

    def loss(self, parameters: Parameters) -> float:
        """Nothing is learnt: nan."""
        return float("nan")
