"""Lazy gradients: evaluated when they are aggregated, in stacks, and averaged.

A gradient is determined by the parameters it was computed from and by its batch. Working it out
can wait until it is aggregated, together with others in one stacked matrix product, and need
never be done if it is dropped. The stacked product gives the same bits as one by one, and the sum
is taken in order of arrival, so laziness never changes a result.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.core.operation import DistributionError, RefusedValueError
from varsim.learning.gradient_form import (
    DenseForm,
    IndexedSlices,
    Precision,
    SparseForm,
    mean_of_slices,
    rounded,
    sum_in_order,
    sum_of_slices,
)
from varsim.learning.problem import Task
from varsim.learning.task import StackedGradients

Array: TypeAlias = NDArray[np.float64]
Parameters: TypeAlias = tuple[Array, ...]  # one array per variable; never changed in place
Value: TypeAlias = Array | IndexedSlices  # a gradient with respect to one variable

# Gradients of one version are worked out in stacks of at most this many.
STACK = 64
# Examples of gradients that are worked out together.
EXAMPLES = 2**18


class Gradient:
    """Gradient of one worker's batch; its values are computed by `Gradients`.

    `read` is what the worker read: parameters, time, global_step. Times in ns.
    """

    __slots__ = (
        "applied",
        "arrived",
        "batch",
        "compute_start",
        "computed",
        "given_up",
        "iteration",
        "local_step",
        "open",
        "read",
        "row",
        "stack",
        "unsent",
        "worker",
    )

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
        self.arrived = -1  # its latest part reached its variable (ns)
        self.local_step = 0  # the step it is labelled with, where a strategy labels gradients
        self.open = -1  # variables for which its end is still open; -1 = not yet sent
        self.applied = 0  # variables it was applied to
        self.unsent = 0  # variables whose part is still on its way, where that may matter
        self.given_up = False  # nobody waits any more for what is on its way
        self.stack: StackedGradients | None = None  # values of all worked out together
        self.row = 0  # which of them is this one


class Gradients:
    """Evaluator of the gradients of one task; checks and counts them; eager without `lazy`.

    `trained`: the numbers of the variables that have a gradient; all if left out. `batch_size`:
    the examples of a gradient, about. RefusedValueError if the task gives what is no gradient of
    its variables: TensorFlow refuses that when the graph is built, not when a gradient arrives.
    """

    def __init__(
        self,
        task: Task,
        lazy: bool = True,
        trained: Sequence[int] | None = None,
        batch_size: int = 1,
    ) -> None:
        initial = task.initial()
        self._trained = range(len(initial)) if trained is None else trained
        if not self._trained:
            raise RefusedValueError(
                "no_gradients", "a task needs at least one variable with a gradient"
            )
        self._task = task
        # Of large batches fewer at a time, which is as fast and takes less memory.
        self._stack = max(1, min(STACK, EXAMPLES // batch_size)) if lazy else 1
        self._nothing = tuple(np.zeros((1, *value.shape)) for value in initial)
        self._zeros = [np.zeros(value.shape) for value in initial]  # means of nothing
        self._shapes = [value.shape for value in initial]
        self._dense = [DenseForm(value.dtype, value.shape) for value in initial]
        self._sparse = [SparseForm(value.dtype, value.shape) for value in initial]
        self._trusted = False  # checked once; sparse gradients are checked always
        self._precision: Precision | None = None
        self._micro_batches = 1
        self._line: Iterator[Gradient] = iter(())  # to be worked out ahead, if not worked out yet
        self.evaluated = 0

    def round_to(self, precision: Precision) -> None:
        """Round every gradient to a precision, as soon as it is worked out.

        Or what a worker has added up of several.
        """
        self._precision = precision

    def accumulate(self, micro_batches: int) -> None:
        """Workers add up the gradients of so many micro-batches before they send."""
        self._micro_batches = micro_batches

    def value(self, gradient: Gradient, variable: int, ahead: Iterable[Gradient] = ()) -> Value:
        """The gradient with respect to one variable: an array of its shape, or some of its rows.

        If it has to be worked out, some of `ahead` are too: others that will be needed for sure.
        """
        stack = gradient.stack
        if stack is None:
            stack = self._work_out([gradient, *self._next_of(ahead, gradient)])
        value: Value = stack[variable][gradient.row]
        return value

    def _next_of(self, ahead: Iterable[Gradient], gradient: Gradient) -> list[Gradient]:
        """The first ones of `ahead`, besides a gradient, that fill a stack with it.

        What was looked through is kept, as most of it is worked out already.
        """
        together = self._from_line(gradient)
        if len(together) < self._stack - 1:
            self._line = iter([other for other in ahead if other.stack is None])
            together = self._from_line(gradient)
        return together

    def _from_line(self, gradient: Gradient) -> list[Gradient]:
        together: list[Gradient] = []
        while some := list(islice(self._line, self._stack - 1 - len(together))):
            together += [
                other
                for other in some
                if other.stack is None and other.open and other is not gradient
            ]
        return together

    def mean(self, gradients: Sequence[Gradient], variable: int, *, by_row: bool = False) -> Value:
        """Their sum in the given order, divided by their number; of the kind that `value` gives.

        `by_row`: each row of sparse gradients is divided by the number of those that held it, as
        TensorFlow's accumulators do.
        """
        return self.means(gradients, (variable,), by_row=by_row)[0]

    def means(
        self, gradients: Sequence[Gradient], variables: Sequence[int], *, by_row: bool = False
    ) -> list[Value]:
        """The same with respect to several variables."""
        new = [gradient for gradient in gradients if gradient.stack is None]
        if new:
            self._work_out(new)
        if not self._task.has_values:
            return [self._zeros[variable] for variable in variables]
        first = gradients[0].stack
        assert first is not None
        if len(new) == len(gradients) or self._are_a_stack(gradients, first):
            stacks = [first[variable] for variable in variables]
        else:
            stacks = [_stacked([self.value(one, each) for one in gradients]) for each in variables]
        return [_mean(rows, by_row) for rows in stacks]

    def means_of_workers(
        self,
        workers: Sequence[Sequence[Gradient]],
        variables: Sequence[int],
        *,
        of_all: bool = False,
    ) -> list[Value]:
        """The means of what workers have added up, each of some of its micro-batches.

        Each sends its sum divided by the number that there are, rounded if gradients are; these are
        added in the given order. The mean is over the micro-batches computed, one at least of each
        worker, or `of_all`.
        """
        if self._micro_batches == 1:
            return self.means([gradient for (gradient,) in workers], variables)
        computed = [gradient for own in workers for gradient in own]
        new = [gradient for gradient in computed if gradient.stack is None]
        if new:
            self._work_out(new)
        if not self._task.has_values:
            return [self._zeros[variable] for variable in variables]
        number = self._micro_batches * len(workers) if of_all else len(computed)
        return [
            _scaled(_sum(self._sums(workers, variable)), number / self._micro_batches)
            for variable in variables
        ]

    def _sums(self, workers: Sequence[Sequence[Gradient]], variable: int) -> list[Value]:
        """What each worker sends of one variable."""
        sums = [
            _scaled(_sum([self.value(gradient, variable) for gradient in own]), self._micro_batches)
            for own in workers
        ]
        if self._precision is not None and self._micro_batches > 1:
            sums = [_rounded(value, self._precision) for value in sums]
        return sums

    @staticmethod
    def _are_a_stack(gradients: Sequence[Gradient], stack: StackedGradients) -> bool:
        """Whether these are exactly the gradients of a stack, in order."""
        if len(stack[0]) != len(gradients):
            return False
        for row, gradient in enumerate(gradients):
            if gradient.stack is not stack or gradient.row != row:
                return False
        return True

    def _work_out(self, gradients: Sequence[Gradient]) -> StackedGradients:
        """Evaluate gradients in stacks, which become one; their batches are released."""
        self.evaluated += len(gradients)
        if not self._task.has_values:
            for gradient in gradients:
                gradient.stack = self._nothing
            return self._nothing
        parts = [
            self._together(gradients[first : first + self._stack])
            for first in range(0, len(gradients), self._stack)
        ]
        stack = parts[0] if len(parts) == 1 else tuple(map(_joined, zip(*parts, strict=True)))
        for row, gradient in enumerate(gradients):
            gradient.stack = stack
            gradient.row = row
            gradient.batch = _NOTHING
        return stack

    def _together(self, gradients: Sequence[Gradient]) -> StackedGradients:
        batches = _as_stack([gradient.batch for gradient in gradients])
        parameters = gradients[0].read.parameters
        versions = [gradient.read.parameters for gradient in gradients]
        if len(set(map(id, versions))) > 1:
            parameters = tuple(map(_as_stack, zip(*versions, strict=True)))
        stack = self._task.gradients(parameters, batches)
        if not self._trusted:
            self._check(stack, len(gradients))
            self._trusted = not any(isinstance(part, list) for part in stack)
        if self._precision is not None and self._micro_batches == 1:
            return self._rounded(stack, self._precision)
        return stack

    def _rounded(self, stack: StackedGradients, precision: Precision) -> StackedGradients:
        """The gradients of the trained variables in a precision; the others are not looked at."""
        parts = list(stack)
        for variable in self._trained:
            part = parts[variable]
            if isinstance(part, list):
                parts[variable] = [slices.rounded(precision) for slices in part]
            else:
                parts[variable] = rounded(part, precision)
        return tuple(parts)

    def _check(self, stack: StackedGradients, number: int) -> None:
        if len(stack) != len(self._dense):
            raise RefusedValueError(
                "wrong_number", f"gradients of {len(stack)} variables, not of {len(self._dense)}"
            )
        for variable in self._trained:
            try:
                self._check_part(variable, stack[variable], number)
            except DistributionError as error:
                text = f"gradient of variable {variable} of the task: {error}"
                raise RefusedValueError(error.category, text) from None

    def _check_part(self, variable: int, part: Array | list[IndexedSlices], number: int) -> None:
        dense, shape = self._dense[variable], self._shapes[variable]
        if isinstance(part, list):
            for slices in part:
                self._sparse[variable].check(slices)
                self._sparse[variable].check_shape(slices, ())
                if slices.values.ndim != len(shape):
                    raise RefusedValueError(
                        "wrong_shape", f"rows of shape {slices.values.shape[1:]} of one {shape}"
                    )
        else:
            dense.check(part)
        if len(part) != number:
            raise RefusedValueError("wrong_number", f"{len(part)} of them, not {number}")
        if not isinstance(part, list):
            dense.check_shape(part[0], ())


_NOTHING: NDArray[Any] = np.empty(0)


def mean_of_values(values: Sequence[Value], *, by_row: bool = False) -> Value:
    """Mean of gradients of one variable, as `Gradients.mean` takes it of those it evaluates."""
    return _mean(_stacked(values), by_row)


def _mean(rows: Array | list[IndexedSlices], by_row: bool) -> Value:
    if isinstance(rows, list):
        return mean_of_slices(rows, by_row)
    return sum_in_order(rows) / len(rows)


def _stacked(values: Sequence[Value]) -> Array | list[IndexedSlices]:
    """Gradients with respect to one variable, all of one kind, as a task would give them."""
    sparse = [value for value in values if isinstance(value, IndexedSlices)]
    assert len(sparse) in (0, len(values)), "a variable's gradients are sparse always or never"
    return sparse or np.stack([value for value in values if not isinstance(value, IndexedSlices)])


def _as_stack(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """np.stack of arrays of equal shapes, without its view of each."""
    shape = arrays[0].shape
    return np.concatenate(arrays).reshape(len(arrays), *shape) if shape else np.stack(arrays)


def _sum(values: Sequence[Value]) -> Value:
    """Gradients with respect to one variable, added in order."""
    rows = _stacked(values)
    return sum_of_slices(rows)[0] if isinstance(rows, list) else sum_in_order(rows)


def _scaled(value: Value, divisor: float) -> Value:
    """A gradient divided by a number."""
    if isinstance(value, IndexedSlices):
        return IndexedSlices(value.indices, value.values / divisor, value.dense_shape)
    return value / divisor


def _rounded(value: Value, precision: Precision) -> Value:
    if isinstance(value, IndexedSlices):
        return value.rounded(precision)
    return rounded(value, precision)


def _joined(parts: tuple[Array | list[IndexedSlices], ...]) -> Array | list[IndexedSlices]:
    """Stacks of gradients with respect to one variable, one after the other."""
    sparse = [slices for part in parts if isinstance(part, list) for slices in part]
    return sparse or np.concatenate([part for part in parts if not isinstance(part, list)])
