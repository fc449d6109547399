"""Gradients as lazy values: what a gradient is, when it is worked out, how gradients are averaged.

A gradient is determined by the parameters it was computed from and by its batch. Working it out
can wait until it is aggregated, together with others in one stacked matrix product, and need
never be done if it is dropped. The stacked product gives the same bits as one by one, and the sum
is taken in order of arrival, so laziness never changes a result.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.values.problem import Task

Array: TypeAlias = NDArray[np.float64]
Parameters: TypeAlias = tuple[Array, ...]  # one array per variable; never changed in place

# Gradients of one version are worked out in stacks of at most this many.
STACK = 64


class Gradient:
    """One worker's gradient of one batch; its values are worked out by `Gradients`.

    `read` is what the worker read: parameters, time, global_step. Times in ns.
    """

    arrived = -1  # its latest part reached its variable (ns)
    local_step = 0  # the step it is labelled with, where a strategy labels gradients
    open = -1  # variables for which its end is still open; -1 = not yet sent
    applied = 0  # variables it was applied to
    stack: Parameters | None = None  # values of all gradients worked out together
    row = 0  # which of them is this one

    def __init__(
        self,
        worker: int,
        iteration: int,
        read: Any,
        batch: NDArray[Any],
        compute_start: int,
        computed: int,
    ) -> None:
        self.worker = worker
        self.iteration = iteration
        self.read = read
        self.batch = batch
        self.compute_start = compute_start
        self.computed = computed


class Gradients:
    """Works out gradients of one task, and counts them; without `lazy`, one by one."""

    def __init__(self, task: Task, lazy: bool = True) -> None:
        self._task = task
        self._stack = STACK if lazy else 1
        self._nothing = tuple(np.zeros((1, *value.shape)) for value in task.initial())
        self.evaluated = 0

    def value(self, gradient: Gradient, variable: int, ahead: Iterable[Gradient] = ()) -> Array:
        """The gradient with respect to one variable; shape of the variable.

        If it has to be worked out, some of `ahead` are too: others that will be needed for sure.
        """
        if gradient.stack is None:
            together = [gradient]
            if self._stack > 1:
                others = (other for other in ahead if other.stack is None and other is not gradient)
                together += islice(others, self._stack - 1)
            self._work_out(together)
        assert gradient.stack is not None
        value: Array = gradient.stack[variable][gradient.row]
        return value

    def mean(self, gradients: Sequence[Gradient], variable: int) -> Array:
        """Their sum in the given order, divided by their number; shape of the variable."""
        new = [gradient for gradient in gradients if gradient.stack is None]
        if new:
            self._work_out(new)
        first = gradients[0].stack
        assert first is not None
        if len(new) == len(gradients) or self._are_a_stack(gradients, first):
            rows = first[variable]
        elif self._task.has_values:
            rows = np.stack([self.value(gradient, variable) for gradient in gradients])
        else:
            rows = self._nothing[variable]
        return _sum_in_order(rows) / len(gradients)

    @staticmethod
    def _are_a_stack(gradients: Sequence[Gradient], stack: Parameters) -> bool:
        """Whether these are just the gradients of a stack, in its order."""
        if len(stack[0]) != len(gradients):
            return False
        for row, gradient in enumerate(gradients):
            if gradient.stack is not stack or gradient.row != row:
                return False
        return True

    def _work_out(self, gradients: Sequence[Gradient]) -> None:
        """Work out gradients in stacks; what they were computed from is let go."""
        self.evaluated += len(gradients)
        if not self._task.has_values:
            for gradient in gradients:
                gradient.stack = self._nothing
            return
        parts = [
            self._stacked(gradients[first : first + self._stack])
            for first in range(0, len(gradients), self._stack)
        ]
        stack = (
            parts[0] if len(parts) == 1 else tuple(map(np.concatenate, zip(*parts, strict=True)))
        )
        for row, gradient in enumerate(gradients):
            gradient.stack = stack
            gradient.row = row
            gradient.batch = _NOTHING

    def _stacked(self, gradients: Sequence[Gradient]) -> Parameters:
        """The values of a few gradients, per variable (k, *shape)."""
        batches = np.stack([gradient.batch for gradient in gradients])
        parameters = gradients[0].read.parameters
        versions = [gradient.read.parameters for gradient in gradients]
        if any(version is not parameters for version in versions):
            parameters = tuple(map(np.stack, zip(*versions, strict=True)))
        return self._task.gradients(parameters, batches)


_NOTHING: NDArray[Any] = np.empty(0)


def _sum_in_order(rows: Array) -> Array:
    """Row 0 + row 1 + ..., strictly from first to last.

    numpy adds along the first axis of a stack row by row, unless each row is a single number,
    where it would add in pairs.
    """
    if rows[0].size > 1:
        total: Array = np.add.reduce(rows, axis=0)
        return total
    last: Array = np.add.accumulate(rows, axis=0)[-1]
    return last
