"""Runs of which two are compared: a scenario without luck, and what came out."""

from typing import Any, Final, NamedTuple

import numpy as np

from varsim.cluster.description.cluster import Stop
from varsim.cluster.record.trace import Trace
from varsim.scenario.targets import Targets
from varsim.scenario.training import Scenario
from varsim.strategies import Strategy
from varsim.study.simulation import Run, started
from varsim.values.distribution import Constant
from varsim.values.task import Parameters

STEPS: Final = 20
MOST_WORKERS: Final = 16


class Trial(NamedTuple):
    """One run, and the model that it ended with."""

    trace: Trace
    model: Parameters

    @property
    def losses(self) -> list[float]:
        """Before and after every update."""
        return [row.loss for row in self.trace.evaluations]


def trial(scenario: Scenario, strategy: Strategy) -> Trial:
    """Run one strategy of a scenario once."""
    alone = scenario.with_only((strategy,))
    job, _ = started(Run(alone, 0, 0))
    trace = job.run(strategy.label)
    return Trial(trace, job.model())


def begun(scenario: Scenario) -> Scenario:
    """The scenario's first STEPS updates."""
    steps = min(scenario.stop.global_steps or STEPS, STEPS)
    stop = Stop(global_steps=steps, time=scenario.stop.time)
    return scenario.model_copy(update={"stop": stop})


def calm(scenario: Scenario, strategy: Strategy, **cluster: Any) -> Scenario:
    """The scenario with this strategy, without luck: all compute equally long, nobody dies.

    At most MOST_WORKERS workers and STEPS updates, and the loss is measured after every one.
    `cluster`: what else is different of it.
    """
    described = scenario.cluster
    mean = described.compute_distribution(scenario.workload).expectation()
    workers = min(described.workers, MOST_WORKERS)
    network = described.network.model_copy(update={"slow_links": ()})
    changes: dict[str, Any] = {
        "workers": workers,
        "device": None,
        "compute": Constant(value=mean),
        "slow_workers": (),
        "overheads": None,
        "network": network,
        "parameter_servers": 1,
        "placement": "partitioned",
    }
    for name in ("servers_on", "partitioner", "server_update", "optimizer_time"):
        if name in type(described).model_fields:
            changes[name] = type(described).model_fields[name].get_default()
    evaluated = None if strategy.round.of == "outer step" else 1
    made = scenario.model_copy(
        update={
            "cluster": type(described).model_validate({**dict(described), **changes, **cluster}),
            "workload": scenario.workload.model_copy(update={"evaluate_every": evaluated}),
            "events": (),
            "stop": Stop(global_steps=STEPS, equal_examples=False),
            "targets": Targets(),
            "replications": 1,
        }
    )
    # What this strategy does not use is left out, where a scenario by itself would be refused.
    return made.with_only((strategy,))


def calm_trial(scenario: Scenario, strategy: Strategy, **cluster: Any) -> Trial:
    """A strategy's run in `calm`."""
    return trial(calm(scenario, strategy, **cluster), strategy)


def distance(one: Parameters, other: Parameters) -> float:
    """The largest difference of two parameters, relative to the largest parameter."""
    largest = max(float(np.max(np.abs(value), initial=0.0)) for value in one)
    apart = max(float(np.max(np.abs(a - b), initial=0.0)) for a, b in zip(one, other, strict=True))
    return apart / (largest or 1.0)
