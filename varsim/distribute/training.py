"""DistributedOptimizer, as in Keras 3: gradients clipped by replica, summed, applied to all copies.

Gradients are summed whatever the aggregation of the variable is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from varsim.core.operation import InvalidArgumentError, Operation, RefusedProgramError
from varsim.distribute.attributes import Aggregation
from varsim.distribute.container import ContainerPart
from varsim.distribute.context import Context
from varsim.distribute.strategy import ReplicaStrategy
from varsim.distribute.tensor import Tensor, Values, kind_of
from varsim.distribute.variable import DistributedVariable, VariableOptions
from varsim.learning.optimizer import Adam, Optimizer


@dataclass(frozen=True, slots=True)
class Clip:
    """Clipping of each replica's gradient before the sum; None: none."""

    value: float | None = None
    norm: float | None = None

    def __call__(self, gradient: Values) -> Values:
        """Elements cut at +-value, or the whole scaled to at most a norm."""
        if self.value is not None:
            return np.clip(gradient, -self.value, self.value)
        if self.norm is not None:
            with np.errstate(all="ignore"):
                length = float(np.sqrt(np.sum(gradient * gradient)))
                return gradient * (self.norm / max(length, self.norm))
        return gradient


class DistributedOptimizer:
    """Optimizer for the variables of a strategy, with slots for each copy.

    `iterations` has aggregation ONLY_FIRST_REPLICA, so a step of all replicas counts once.
    """

    def __init__(
        self,
        rule: Optimizer,
        strategy: ReplicaStrategy,
        iterations: DistributedVariable,
        clip: Clip,
    ) -> None:
        self.rule = rule
        self.iterations = iterations
        self._strategy = strategy
        self._clip = clip

    @classmethod
    def create(
        cls,
        strategy: ReplicaStrategy,
        rule: Optimizer,
        clip: Clip = Clip(),
    ) -> Operation["DistributedOptimizer"]:
        """An optimizer that has made no step.

        Learning rate and momentum are rounded to float32, as Keras keeps them, and the betas of
        Adam where it corrects for the start: for variables of float64, too. (The training
        strategies of a scenario take them as they are given.)
        """
        options = VariableOptions(aggregation=Aggregation.ONLY_FIRST_REPLICA, trainable=False)
        iterations = yield from strategy.create(strategy.scope(), np.array(0, np.int64), options)
        return cls(_in_float32(rule), strategy, iterations, clip)

    def apply_gradients(
        self, context: Context, pairs: Sequence[tuple[object, DistributedVariable]]
    ) -> Operation[None]:
        """One step with a replica's gradients; RefusedProgramError outside of replicas.

        InvalidArgumentError for variables that hold no floats.
        """
        if context.replica is None:
            raise RefusedProgramError(
                "wrong_context",
                "apply_gradients needs a replica: call it inside the function given to run",
            )
        gradients = [self._clipped(gradient) for gradient, _ in pairs]
        sums = yield from self._strategy.all_reduce(context, "SUM", gradients)
        assert isinstance(sums, list)
        for _, variable in pairs:
            if kind_of(variable.dtype) not in "fc":
                raise InvalidArgumentError(
                    "dtype_unsupported",
                    f"an optimizer makes no steps of {variable.dtype}: give it variables of floats",
                )
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

    def _clipped(self, gradient: object) -> object:
        if not isinstance(gradient, Tensor):
            return gradient
        clipped = self._clip(gradient.array)
        return gradient if clipped is gradient.array else Tensor(clipped, gradient.device)


class _KerasAdam(Adam):
    """Adam with the powers of Keras (keras/src/optimizers/adam.py: they are cast via float32)."""

    def rate(self, t: float) -> float:
        root = math.sqrt(1.0 - float(np.float32(self.beta2)) ** t)
        rate: float = self.learning_rate * root / (1.0 - float(np.float32(self.beta1)) ** t)
        return rate


def _in_float32(rule: Optimizer) -> Optimizer:
    """The rule with the numbers that Keras keeps in float32 rounded to it."""
    kept = {name: getattr(rule, name, None) for name in ("learning_rate", "momentum")}
    rounded = {
        name: float(np.float32(number)) for name, number in kept.items() if number is not None
    }
    if isinstance(rule, Adam):
        rule = _KerasAdam(**rule.model_dump())
    return rule.model_copy(update=rounded)


def _apply(context: Context, copy: ContainerPart, gradient: Tensor) -> None:
    with np.errstate(all="ignore"):  # 0/0 is NaN, as in TensorFlow
        copy.variable.apply(copy.index, gradient.array)
