"""Optimizers as (init, update) pairs of pure functions, with TensorFlow's formulas and defaults."""

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from varsim.core.schema import Model, one_of
from varsim.learning.gradient import Parameters
from varsim.learning.gradient_form import IndexedSlices

Floats = NDArray[np.float64]
State = tuple[Floats, ...]


class Optimizer(Model, ABC):
    """The rule by which a gradient changes one variable.

    It holds settings only. What it remembers between updates is the state, a tuple of arrays that
    `slots` names in order. No argument is ever changed in place, and the value's dtype is kept.
    """

    slots: ClassVar[tuple[str, ...]] = ()

    kind: str
    learning_rate: float = Field(gt=0)
    """Step size."""

    @property
    def told(self) -> str:
        """Its learning rate in words, with its kind where that is not plain SGD."""
        kind = "" if self.kind == "sgd" else f" ({self.kind})"
        return f"learning rate {self.learning_rate:g}{kind}"

    @property
    def numbers_each(self) -> int:
        """How many numbers the state has for each of a variable."""
        value = np.zeros(2)
        return sum(slot.shape == value.shape for slot in self.init(value))

    @abstractmethod
    def init(self, value: Floats) -> State:
        """The state before the first update of a variable that starts at `value`."""

    @abstractmethod
    def update(self, gradient: Floats, state: State, value: Floats) -> tuple[Floats, State]:
        """The new value and the new state."""

    def update_rows(
        self, gradient: IndexedSlices, state: State, value: Floats
    ) -> tuple[Floats, State]:
        """The same for a sparse gradient: only the rows it names, and their slots, change.

        As `_apply_sparse` of TensorFlow's optimizers, which adds up rows named twice first.
        """
        gradient = gradient.summed()
        rows = gradient.indices
        before = tuple(slot[rows] for slot in state)
        new, slots = self.update(gradient.values, before, value[rows])
        return _with_rows(value, rows, new), tuple(
            _with_rows(slot, rows, part) for slot, part in zip(state, slots, strict=True)
        )


class Sgd(Optimizer):
    """x -= learning_rate * gradient."""

    about: ClassVar[str] = "stochastic gradient descent"

    kind: Literal["sgd"] = "sgd"

    def init(self, value: Floats) -> State:
        return ()

    def update(self, gradient: Floats, state: State, value: Floats) -> tuple[Floats, State]:
        return value - self.learning_rate * gradient, state


class Momentum(Optimizer):
    """velocity = momentum * velocity + gradient; x -= learning_rate * velocity.

    With `nesterov`, x -= learning_rate * (gradient + momentum * velocity), with the new velocity.
    TensorFlow has no default for `momentum`; 0.9 is the customary value.
    """

    about: ClassVar[str] = "gradient descent with momentum, also Nesterov's"
    slots: ClassVar[tuple[str, ...]] = ("velocity",)

    kind: Literal["momentum"] = "momentum"
    momentum: float = Field(0.9, gt=0, lt=1)
    """How much of the velocity is kept."""
    nesterov: bool = False
    """Nesterov's form: the step looks ahead along the velocity."""

    def init(self, value: Floats) -> State:
        return (np.zeros_like(value),)

    def update(self, gradient: Floats, state: State, value: Floats) -> tuple[Floats, State]:
        velocity = self.momentum * state[0] + gradient
        step = gradient + self.momentum * velocity if self.nesterov else velocity
        return value - self.learning_rate * step, (velocity,)


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square (Kingma and Ba, 2015).

    m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
    x -= learning_rate sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon), t counted from 1.
    This is TensorFlow's `form`: epsilon is added before v is corrected for its start. PyTorch's is
    the paper's: x -= learning_rate m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon).
    """

    about: ClassVar[str] = "Adam: steps scaled by running means of gradient and square"
    slots: ClassVar[tuple[str, ...]] = ("m", "v", "t")

    kind: Literal["adam"] = "adam"
    learning_rate: float = Field(0.001, gt=0)
    """Step size."""
    beta1: float = Field(0.9, ge=0, lt=1)
    """How much of the mean gradient is kept."""
    beta2: float = Field(0.999, ge=0, lt=1)
    """How much of the mean square is kept."""
    epsilon: float = Field(1e-8, gt=0)
    """Added to the root, against division by 0."""
    form: Literal["tensorflow", "pytorch"] = "tensorflow"
    """Where epsilon is added: TensorFlow's form or PyTorch's."""

    def init(self, value: Floats) -> State:
        return np.zeros_like(value), np.zeros_like(value), np.zeros(())

    def update(self, gradient: Floats, state: State, value: Floats) -> tuple[Floats, State]:
        t = float(state[2]) + 1.0
        m = self.beta1 * state[0] + (1.0 - self.beta1) * gradient
        v = self.beta2 * state[1] + (1.0 - self.beta2) * (gradient * gradient)
        if self.form == "pytorch":
            root = np.sqrt(v / (1.0 - self.beta2**t)) + self.epsilon
            step = self.learning_rate * (m / (1.0 - self.beta1**t)) / root
        else:
            step = self.rate(t) * m / (np.sqrt(v) + self.epsilon)
        return value - step, (m, v, np.array(t))

    def rate(self, t: float) -> float:
        """The factor of the t-th step (from 1), which corrects m and v for their start at 0."""
        rate: float = self.learning_rate * math.sqrt(1.0 - self.beta2**t) / (1.0 - self.beta1**t)
        return rate

    def update_rows(
        self, gradient: IndexedSlices, state: State, value: Floats
    ) -> tuple[Floats, State]:
        """All rows: m and v decay, and x moves, also where there is no gradient.

        As `_apply_sparse_shared` in TensorFlow's python/training/adam.py.
        """
        return self.update(gradient.dense(value.shape), state, value)


class Adagrad(Optimizer):
    """accumulator += g^2; x -= learning_rate * g / sqrt(accumulator) (Duchi et al., 2011)."""

    about: ClassVar[str] = "Adagrad: steps shrink with the sum of squared gradients"
    slots: ClassVar[tuple[str, ...]] = ("accumulator",)

    kind: Literal["adagrad"] = "adagrad"
    initial_accumulator: float = Field(0.1, gt=0)
    """Where the sum of squares begins."""

    def init(self, value: Floats) -> State:
        return (np.full_like(value, self.initial_accumulator),)

    def update(self, gradient: Floats, state: State, value: Floats) -> tuple[Floats, State]:
        accumulator = state[0] + gradient * gradient
        return value - self.learning_rate * gradient / np.sqrt(accumulator), (accumulator,)


class RmsProp(Optimizer):
    """Steps scaled by the root of a running mean square (Tieleman and Hinton, 2012).

    mean_square = decay mean_square + (1 - decay) g^2, starting at 1;
    velocity = momentum velocity + learning_rate g / sqrt(mean_square + epsilon); x -= velocity.
    TensorFlow's name for the velocity is `momentum`, and so the slot is called here.
    """

    about: ClassVar[str] = "RMSProp: steps scaled by a running mean square"
    slots: ClassVar[tuple[str, ...]] = ("mean_square", "momentum")

    kind: Literal["rmsprop"] = "rmsprop"
    decay: float = Field(0.9, ge=0, lt=1)
    """How much of the mean square is kept."""
    momentum: float = Field(0.0, ge=0, lt=1)
    """How much of the velocity is kept."""
    epsilon: float = Field(1e-10, gt=0)
    """Added to the mean square, against division by 0."""

    def init(self, value: Floats) -> State:
        return np.ones_like(value), np.zeros_like(value)

    def update(self, gradient: Floats, state: State, value: Floats) -> tuple[Floats, State]:
        mean_square = self.decay * state[0] + (1.0 - self.decay) * (gradient * gradient)
        scaled = self.learning_rate * gradient / np.sqrt(mean_square + self.epsilon)
        velocity = self.momentum * state[1] + scaled
        return value - velocity, (mean_square, velocity)


def _with_rows(whole: Floats, rows: NDArray[np.int64], part: Floats) -> Floats:
    changed = whole.copy()
    changed[rows] = part
    return changed


OPTIMIZERS: Final[dict[str, type[Optimizer]]] = {
    "sgd": Sgd,
    "momentum": Momentum,
    "adam": Adam,
    "adagrad": Adagrad,
    "rmsprop": RmsProp,
}

if TYPE_CHECKING:
    AnyOptimizer: TypeAlias = Optimizer
else:
    AnyOptimizer = one_of(OPTIMIZERS)


class VariableAverages(Model):
    """Averages to be kept of all variables: average += (1 - decay) (variable - average).

    With `num_updates`, decay is at most (1 + step) / (10 + step), so that the first updates count
    for more; step is the global step after the update.
    """

    decay: float = Field(gt=0, lt=1)
    """How much of an average is kept in each update."""
    num_updates: bool = False
    """Whether the decay is smaller in the first updates."""

    def at(self, step: int) -> float:
        """The decay after the update that raised the global step to `step`."""
        return min(self.decay, (1 + step) / (10 + step)) if self.num_updates else self.decay


class MovingAverages:
    """The averages of one run; they begin as what the variables begin as."""

    def __init__(self, settings: VariableAverages, initial: Parameters) -> None:
        self._settings = settings
        self._step = 0
        self.values = initial  # one array per variable

    @property
    def state(self) -> tuple[int, Parameters]:
        """The global step that was taken in last, and the averages."""
        return self._step, self.values

    def restore(self, state: tuple[int, Parameters]) -> None:
        """All is as it was."""
        self._step, self.values = state

    def update(self, step: int, variables: Parameters) -> None:
        """Take in the variables of a global step, once, however often it is asked for."""
        if step == self._step:
            return
        self._step = step
        part = 1.0 - self._settings.at(step)
        self.values = tuple(
            [
                average - part * (average - variable)
                for average, variable in zip(self.values, variables, strict=True)
            ]
        )
