"""What a run takes of the machine it is made on: foreseen from sizes, before anything begins.

Rates are of one core of 2024 and generous; whoever decides by them decides about factors of ten.
"""

import os
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from varsim.scenario.randomness import runs_made
from varsim.scenario.training import Scenario
from varsim.study.estimate import expected_gradients
from varsim.values.gradient import EXAMPLES, STACK
from varsim.values.problem import VariableSpec

# Seconds and bytes: of a gradient, a worker.
_GRADIENT: Final = (25e-6, 1000.0)
_WORKER: Final = (250e-6, 20e3)
_FLOPS: Final = 1e9  # a second, in small matrices
_BASE: Final = 150e6  # bytes of the program itself
_NUMBER: Final = 8  # bytes


class Effort(NamedTuple):
    """Gradients of some runs, seconds of one core, bytes of memory; about."""

    gradients: float
    seconds: float
    memory: float

    @classmethod
    def one_by_one(cls, parts: "Iterable[tuple[Effort, float]]") -> Self:
        """Of runs that are forgotten when they have ended, each made so many times."""
        rows = list(parts)
        return cls(
            sum(each.gradients * often for each, often in rows),
            sum(each.seconds * often for each, often in rows),
            max(each.memory for each, _ in rows),
        )


def effort(scenario: Scenario) -> Effort:
    """What all runs of a scenario take, which keeps the rows of all until the end."""
    workload = scenario.workload
    often = [runs_made(scenario, strategy) for strategy in scenario.strategies]
    workers = [strategy.workers(scenario.cluster_of(strategy)) for strategy in scenario.strategies]
    gradients = expected_gradients(scenario)
    seconds = gradients * _GRADIENT[0] + max(often) * sum(workers) * _WORKER[0]
    memory = _BASE + gradients * _GRADIENT[1] + max(workers) * _WORKER[1]
    if workload.has_values:
        batch = workload.batch_size
        seconds += gradients * batch * workload.problem.flops_per_example() / _FLOPS
        together = max(batch, min(EXAMPLES, STACK * batch))
        example = _NUMBER * sum(map(_activations, workload.problem.variables()))
        memory += max(workers) * batch * _NUMBER + 3 * together * example
    return Effort(gradients, seconds, memory)


def memory_there() -> float:
    """Bytes of memory that this machine has; infinite where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def _activations(spec: VariableSpec) -> float:
    """Numbers that an example has before and behind a variable."""
    if spec.rows_per_example is not None:
        return spec.rows_per_example * spec.size / spec.shape[0]
    return float(sum(spec.shape))
