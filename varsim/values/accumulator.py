"""The gradient accumulator of one variable: what is stale, and when a take is served.

TensorFlow's ConditionalAccumulator (tensorflow/core/kernels/conditional_accumulator_base.h).
"""

from collections import deque
from collections.abc import Callable, Sequence

from varsim.values.gradient import Gradient


class GradientAccumulator:
    """Collects the gradients of one variable until a waiting take can be served.

    State: `step` (from 0), the gradients inside, and a first-in first-out list of takes, each a
    number of gradients required and what to do with them.
    """

    def __init__(self) -> None:
        self.step = 0
        self._inside: list[Gradient] = []
        self._takes: deque[tuple[int, Callable[[Sequence[Gradient]], None]]] = deque()

    def __len__(self) -> int:
        return len(self._inside)

    @property
    def waiting(self) -> bool:
        """Whether a take waits."""
        return bool(self._takes)

    def __str__(self) -> str:
        if not self._takes:
            return f"{len(self)} gradients, no take"
        return f"{self._takes[0][0]} gradients of step {self.step} ({len(self)} have come)"

    def add(self, gradient: Gradient, local_step: int) -> bool:
        """Offer a gradient; false if it was dropped because its local_step is behind `step`."""
        if local_step < self.step:
            return False
        self._inside.append(gradient)
        self._serve()
        return True

    def take(self, required: int, then: Callable[[Sequence[Gradient]], None]) -> None:
        """Ask for at least `required` gradients; `then` gets all that are inside.

        Takes are served in the order in which they were asked for. Serving raises `step`.
        """
        if required <= 0:
            raise ValueError(f"a take needs at least 1 gradient, not {required}")
        self._takes.append((required, then))
        self._serve()

    def _serve(self) -> None:
        if self._takes and len(self._inside) >= self._takes[0][0]:
            _, then = self._takes.popleft()
            gradients, self._inside = self._inside, []
            self.step += 1
            then(gradients)
