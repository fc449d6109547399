"""Exponential moving averages of variables.

TensorFlow: tf.train.ExponentialMovingAverage (python/training/moving_averages.py).
"""

from pydantic import Field

from varsim.values.gradient import Parameters
from varsim.values.schema import Model


class VariableAverages(Model):
    """Averages to be kept of all variables: average += (1 - decay) (variable - average).

    With `num_updates`, decay is at most (1 + step) / (10 + step), so that the first updates count
    for more; step is the global step after the update.
    """

    decay: float = Field(gt=0, lt=1)
    num_updates: bool = False

    def at(self, step: int) -> float:
        """The decay after the update that raised the global step to `step`."""
        return min(self.decay, (1 + step) / (10 + step)) if self.num_updates else self.decay


class MovingAverages:
    """The averages of one run; they begin as what the variables begin as."""

    def __init__(self, settings: VariableAverages, initial: Parameters) -> None:
        self._settings = settings
        self._step = 0
        self.values = initial  # one array per variable

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
