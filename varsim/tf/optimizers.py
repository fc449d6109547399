"""What trains variables and keeps them: optimizers, accumulators, token queues, checkpoints."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import DTypeLike

from varsim.core.operation import RefusedRuntimeError
from varsim.distribute import accumulator
from varsim.distribute.strategy import ReplicaStrategy
from varsim.distribute.tensor import Values
from varsim.distribute.training import Clip, DistributedOptimizer
from varsim.distribute.variable import restore, save
from varsim.learning import optimizer
from varsim.learning.gradient_form import (
    DenseForm,
    GradientForm,
    IndexedSlices,
    Reduction,
    Shape,
    SparseForm,
)
from varsim.tf.calls import call, current
from varsim.tf.values import NOWHERE, Variable, ledger_of, own

G = TypeVar("G")


class Optimizer:
    """An optimizer of Keras 3: gradients clipped in each replica, summed, applied to every copy.

    Made in the scope of a strategy (RuntimeError outside). Settings are rounded to float32, as
    Keras keeps them.
    """

    def __init__(
        self,
        rule: optimizer.Optimizer,
        clipvalue: float | None = None,
        clipnorm: float | None = None,
    ) -> None:
        strategy = current().strategy
        if not isinstance(strategy, ReplicaStrategy):
            raise RefusedRuntimeError(
                "wrong_context", "an optimizer belongs to a strategy: make it in its scope"
            )
        self._ledger = ledger_of(strategy)
        clip = Clip(clipvalue, clipnorm)
        self.inner: DistributedOptimizer = call(
            "Optimizer", self._ledger, lambda _: DistributedOptimizer.create(strategy, rule, clip)
        )

    @property
    def iterations(self) -> int:
        """How many steps it has made; a step of all replicas counts once."""
        return int(self.inner.iterations.value)

    def apply_gradients(self, grads_and_vars: Sequence[tuple[object, Variable]]) -> None:
        """One step with the gradients of this replica. An error outside of replicas."""
        pairs = [(own(gradient), variable.inner) for gradient, variable in grads_and_vars]
        call("apply_gradients", self._ledger, lambda at: self.inner.apply_gradients(at, pairs))

    def slots(self, variable: Variable) -> dict[str, list[Values]]:
        """The optimizer's slots by name, each with its value beside every copy."""
        return self.inner.slots(variable.inner)


class SGD(Optimizer):
    """Gradient descent, with momentum or Nesterov's (tf.keras.optimizers.SGD)."""

    def __init__(
        self,
        learning_rate: float = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        clipvalue: float | None = None,
        clipnorm: float | None = None,
    ) -> None:
        rule: optimizer.Optimizer = optimizer.Sgd(learning_rate=learning_rate)
        if momentum:
            rule = optimizer.Momentum(
                learning_rate=learning_rate, momentum=momentum, nesterov=nesterov
            )
        super().__init__(rule, clipvalue, clipnorm)


class Adam(Optimizer):
    """Adam (tf.keras.optimizers.Adam)."""

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        clipvalue: float | None = None,
        clipnorm: float | None = None,
    ) -> None:
        rule = optimizer.Adam(
            learning_rate=learning_rate, beta1=beta_1, beta2=beta_2, epsilon=epsilon
        )
        super().__init__(rule, clipvalue, clipnorm)


class ConditionalAccumulator:
    """Gradients of one variable, dropped if they are stale (tf.compat.v1.ConditionalAccumulator).

    `shape`: of every gradient, or None. `reduction_type`: MEAN or SUM. InvalidArgumentError for a
    dtype that is no float.
    """

    def __init__(
        self, dtype: DTypeLike = np.float32, shape: Shape = None, reduction_type: Reduction = "MEAN"
    ) -> None:
        self._form = DenseForm(dtype, shape, reduction_type)
        self._inner = accumulator.ConditionalAccumulator(self._form)

    def apply_grad(self, grad: object, local_step: int = 0) -> bool:
        """Offer a gradient; False if it was dropped, because its step is behind the accumulator's.

        ValueError for another dtype, InvalidArgumentError for another shape.
        """
        return self._inner.add(np.asarray(grad, self._form.dtype), local_step)

    def take_grad(self, num_required: int) -> Values:
        """The mean or sum of what is inside, at least `num_required`; the step goes up by one.

        RuntimeError if there are fewer: TensorFlow waits, and here nobody else would bring more.
        """
        return _taken(self._inner, self._form, num_required)

    def num_accumulated(self) -> int:
        """How many gradients are inside."""
        return len(self._inner)

    def set_global_step(self, new_global_step: int) -> None:
        """Set the step that gradients must not be behind."""
        self._inner.set_global_step(new_global_step)


class SparseConditionalAccumulator:
    """The same for gradients of some rows (tf.compat.v1.SparseConditionalAccumulator)."""

    def __init__(
        self, dtype: DTypeLike = np.float32, shape: Shape = None, reduction_type: Reduction = "MEAN"
    ) -> None:
        self._form = SparseForm(dtype, shape, reduction_type)
        self._inner = accumulator.ConditionalAccumulator(self._form)

    def apply_indexed_slices_grad(self, grad: IndexedSlices, local_step: int = 0) -> bool:
        """Offer a gradient of some rows; False if it was dropped as stale."""
        return self._inner.add(grad, local_step)

    def take_indexed_slices_grad(self, num_required: int) -> IndexedSlices:
        """As `ConditionalAccumulator.take_grad`; a row is the mean of those that have it."""
        return _taken(self._inner, self._form, num_required)

    def num_accumulated(self) -> int:
        """How many gradients are inside."""
        return len(self._inner)

    def set_global_step(self, new_global_step: int) -> None:
        """Set the step that gradients must not be behind."""
        self._inner.set_global_step(new_global_step)


def _taken(inner: accumulator.ConditionalAccumulator[G], form: GradientForm[G], required: int) -> G:
    served: list[G] = []
    take = inner.take(required, served.extend)
    if not served:
        inner.cancel(take)
        raise RuntimeError(
            f"a take of {required} gradients would wait for ever: only {len(inner)} have come; "
            "apply more first"
        )
    return form.aggregate(served)


class FIFOQueue:
    """First in, first out, without bound: the sync token queue of SyncReplicasOptimizer."""

    def __init__(self) -> None:
        self._inside: deque[object] = deque()

    def enqueue(self, value: object) -> None:
        """Put one value at the end."""
        self._inside.append(value)

    def enqueue_many(self, values: Sequence[object]) -> None:
        """Put several values at the end, in order."""
        self._inside.extend(values)

    def dequeue(self) -> object:
        """Take the first value. RuntimeError if there is none: TensorFlow would wait."""
        if not self._inside:
            raise RuntimeError("a dequeue would wait for ever: the queue is empty")
        return self._inside.popleft()

    def size(self) -> int:
        """How many values are inside."""
        return len(self._inside)


class Checkpoint:
    """Variables that are saved and restored by name (tf.train.Checkpoint)."""

    def __init__(self, **variables: Variable) -> None:
        self._variables = {name: variable.inner for name, variable in variables.items()}
        first = next(iter(self._variables.values()), None)
        self._ledger = NOWHERE if first is None else ledger_of(first.strategy)

    def save(self) -> dict[str, Values]:
        """Every variable as it is read from outside; ValueError for ON_READ without aggregation."""
        return call("save", self._ledger, lambda at: save(self._variables, at))

    def restore(self, saved: Mapping[str, Values]) -> None:
        """Set the variables that `saved` names; the sum of an ON_READ variable is shared out.

        ValueError for another shape, InvalidArgumentError for another dtype.
        """
        call("restore", self._ledger, lambda _: restore(saved, self._variables))
