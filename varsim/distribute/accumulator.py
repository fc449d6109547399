"""Gradient accumulator of one variable: staleness, and the order in which takes are served.

TensorFlow's ConditionalAccumulator and SparseConditionalAccumulator
(tensorflow/core/kernels/conditional_accumulator_base.h). This is the rule that both share; a
gradient may be anything here. `ConditionalAccumulator` takes gradients as values and checks them.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from varsim.core.operation import InvalidArgumentError
from varsim.learning.gradient import Gradient
from varsim.learning.gradient_form import GradientForm

G = TypeVar("G")


class Take(Generic[G]):
    """Waiting take: the gradients it requires at least, and its callback."""

    __slots__ = ("required", "then")

    def __init__(self, required: int, then: Callable[[Sequence[G]], None]) -> None:
        self.required = required
        self.then = then


class Accumulator(Generic[G]):
    """Accumulator of one variable's gradients, with a FIFO queue of takes.

    State: `step` (from 0), the gradients inside, the takes.
    """

    def __init__(self) -> None:
        self.step = 0
        self._inside: list[G] = []
        self._takes: deque[Take[G]] = deque()

    def __len__(self) -> int:
        return len(self._inside)

    @property
    def waiting(self) -> bool:
        """Whether a take waits."""
        return bool(self._takes)

    @property
    def missing(self) -> int:
        """How many gradients the first take that waits still needs; 0 if none waits."""
        return self._takes[0].required - len(self) if self._takes else 0

    def __str__(self) -> str:
        if not self._takes:
            return f"{len(self)} gradients, no take"
        return f"{self._takes[0].required} gradients of step {self.step} ({len(self)} have come)"

    def add(self, gradient: G, local_step: int) -> bool:
        """Offer a gradient; false if it was dropped because its local_step is behind `step`."""
        if local_step < self.step:
            return False
        inside, takes = self._inside, self._takes
        inside.append(gradient)
        if takes and len(inside) >= takes[0].required:
            self._serve()
        return True

    def take(self, required: int, then: Callable[[Sequence[G]], None]) -> Take[G]:
        """Ask for at least `required` gradients; `then` gets all that are inside.

        Takes are served in the order in which they were asked for. Serving raises `step`.
        InvalidArgumentError if `required` is not positive.
        """
        if required <= 0:
            raise InvalidArgumentError(
                "take_of_nothing", f"a take needs at least 1 gradient, not {required}"
            )
        take = Take(required, then)
        self._takes.append(take)
        self._serve()
        return take

    def cancel(self, take: Take[G]) -> None:
        """Give up a take; the next may be served at once. One that was served stays served."""
        if take in self._takes:
            self._takes.remove(take)
            self._serve()

    def set_global_step(self, step: int) -> None:
        """Set `step`, also backwards. What is inside stays, whatever its label was."""
        self.step = step

    def _serve(self) -> None:
        if self._takes and len(self._inside) >= self._takes[0].required:
            take = self._takes.popleft()
            gradients, self._inside = self._inside, []
            self.step += 1
            take.then(gradients)


class GradientAccumulator(Accumulator[Gradient]):
    """Accumulator of lazy gradients, which `Gradients` checks when it evaluates them."""


class ConditionalAccumulator(Accumulator[G]):
    """Accumulator of gradient values, each checked when it is added.

    TensorFlow's accumulators as its Python interface has them: `form` holds dtype, declared shape
    and reduction, and aggregates what a take was served.
    """

    def __init__(self, form: GradientForm[G]) -> None:
        super().__init__()
        self.form = form

    def add(self, gradient: G, local_step: int) -> bool:
        """Offer a gradient; false if it is stale: then nobody looks at its shape.

        RefusedValueError for a wrong kind or dtype, InvalidArgumentError for a wrong shape; the
        accumulator is then as before.
        """
        self.form.check(gradient)
        if local_step >= self.step:
            self.form.check_shape(gradient, self._inside)
        return super().add(gradient, local_step)
