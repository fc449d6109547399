"""Training worked out with problem and optimizer alone: no clock, no cluster, no laziness."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from varsim.scenario.training import Scenario
from varsim.values.gradient_form import IndexedSlices
from varsim.values.task import BLOCK, Parameters


class Replica:
    """A device that trains on one worker's batches, one after the other."""

    def __init__(self, scenario: Scenario, rank: int) -> None:
        self._workload = workload = scenario.workload
        self._rank = rank
        self._task = workload.problem.task(scenario.seed, 0)
        self._optimizer = workload.update_rule()
        self._trained = [spec.has_gradient for spec in workload.problem.variables()]
        self.values: Parameters = self._task.initial()
        self._states = [self._optimizer.init(value) for value in self.values]

    def batch(self, iteration: int) -> NDArray[Any]:
        """What its worker computes on in an iteration; (1, m)."""
        block, row = divmod(iteration, BLOCK)
        batches = self._task.batches(self._rank, block, self._workload.batch_size)
        return batches[row : row + 1]

    def train(self, steps: int) -> None:
        """Make the first so many steps."""
        for iteration in range(steps):
            self.step(self.batch(iteration))

    def step(self, batch: NDArray[Any]) -> None:
        """Update the variables with the gradient of one batch."""
        stacked = self._task.gradients(self.values, batch)
        values = list(self.values)
        for index, of_all in enumerate(stacked):
            if not self._trained[index]:
                continue
            gradient = of_all[0]
            rule = self._optimizer
            update: Any = rule.update_rows if isinstance(gradient, IndexedSlices) else rule.update
            values[index], self._states[index] = update(
                gradient, self._states[index], values[index]
            )
        self.values = tuple(values)


def of_all(scenario: Scenario) -> Parameters:
    """The model after one update with all workers' first batches as one."""
    replicas = [Replica(scenario, rank) for rank in range(scenario.cluster.workers)]
    replicas[0].step(_together([replica.batch(0) for replica in replicas]))
    return replicas[0].values


def _together(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Of numbers of examples all of them; of noise its mean, which is that of the big batch."""
    if np.issubdtype(batches[0].dtype, np.integer):
        return np.concatenate(batches, axis=1)
    mean: NDArray[Any] = np.mean(np.stack(batches), axis=0)
    return mean
