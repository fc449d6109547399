"""Optimizers on per-replica gradients: clipped alone, summed over replicas, applied to every copy.

As in Keras 3. Gradients are summed whatever the aggregation of the variable says.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from varsim.values.distribute.component import Component
from varsim.values.distribute.context import Context
from varsim.values.distribute.creation import Asked
from varsim.values.distribute.refusal import RefusedAttributeError
from varsim.values.distribute.strategy import Strategy
from varsim.values.distribute.tensor import Tensor, Values
from varsim.values.distribute.variable import DistributedVariable
from varsim.values.operation import Operation
from varsim.values.optimizer import Optimizer
from varsim.values.variable import Aggregation


@dataclass(frozen=True, slots=True)
class Clip:
    """How each replica clips its own gradient, before the sum; None: not at all."""

    value: float | None = None
    norm: float | None = None

    def __call__(self, gradient: Values) -> Values:
        """Elements cut at +-value, or the whole scaled to at most a norm."""
        if self.value is not None:
            return np.clip(gradient, -self.value, self.value)
        if self.norm is not None:
            length = float(np.sqrt(np.sum(gradient * gradient)))
            return gradient * (self.norm / max(length, self.norm))
        return gradient


class DistributedOptimizer:
    """An optimizer for the variables of a strategy; its slots stand beside each copy.

    `iterations` is a variable with ONLY_FIRST_REPLICA: all replicas ask, it counts once.
    """

    def __init__(
        self, rule: Optimizer, strategy: Strategy, iterations: DistributedVariable, clip: Clip
    ) -> None:
        self.rule = rule
        self.iterations = iterations
        self._strategy = strategy
        self._clip = clip

    @classmethod
    def create(
        cls,
        strategy: Strategy,
        rule: Optimizer,
        clip: Clip = Clip(),
    ) -> Operation["DistributedOptimizer"]:
        """An optimizer that has made no step."""
        asked = Asked(aggregation=Aggregation.ONLY_FIRST_REPLICA, trainable=False)
        iterations = yield from strategy.create(strategy.scope(), np.array(0, np.int64), asked)
        return cls(rule, strategy, iterations, clip)

    def apply_gradients(
        self, context: Context, pairs: Sequence[tuple[Tensor, DistributedVariable]]
    ) -> Operation[None]:
        """One step with a replica's gradients; AttributeError outside of replicas."""
        if context.replica is None:
            raise RefusedAttributeError(
                "wrong_context",
                "apply_gradients needs a replica: call it inside the function given to run",
            )
        gradients: list[object] = [self._clipped(gradient) for gradient, _ in pairs]
        sums = yield from self._strategy.all_reduce(context, "SUM", gradients)
        assert isinstance(sums, list)
        for (_, variable), total in zip(pairs, sums, strict=True):
            variable.train_with(self.rule)
            yield from self._strategy.update(context, variable, _apply, (total,))
        yield from self.iterations.assign_add(context, 1)

    def slots(self, variable: DistributedVariable) -> dict[str, list[Values]]:
        """The optimizer's slots by name, each with its value beside every copy."""
        return {
            name: [state[index] for state in variable.states]
            for index, name in enumerate(self.rule.slots)
        }

    def _clipped(self, gradient: Tensor) -> Tensor:
        clipped = self._clip(gradient.array)
        return gradient if clipped is gradient.array else Tensor(clipped, gradient.device)


def _apply(context: Context, copy: Component, gradient: Tensor) -> None:
    """One step on one copy."""
    copy.variable.apply(copy.index, gradient.array)
