"""Scenarios of which only the times are of interest: the same run, with nothing learnt."""

from typing import ClassVar, Literal

from varsim.scenario.training import Scenario
from varsim.values.problem import TimingTask
from varsim.values.task import Problem, VariableSpec


class TimesOnly(Problem):
    """Another problem's variables, sizes and work, with gradients that are not worked out."""

    times_only: ClassVar[bool] = True

    kind: Literal["times_only"] = "times_only"
    original: Problem

    def variables(self) -> tuple[VariableSpec, ...]:
        """Those of the problem it stands for."""
        return self.original.variables()

    def flops_per_example(self) -> float:
        """As of the problem it stands for."""
        return self.original.flops_per_example()

    def task(self, seed: int, replication: int) -> TimingTask:
        """Zeros."""
        return TimingTask(len(self.original.variables()))


def times_only(scenario: Scenario) -> Scenario:
    """A scenario with the same times, which is simulated faster; itself, where a loss ends it."""
    workload = scenario.workload
    if scenario.stop.loss is not None or not workload.has_values:
        return scenario
    problem = TimesOnly.model_construct(original=workload.problem)
    return scenario.model_copy(
        update={"workload": workload.model_copy(update={"problem": problem})}
    )
