"""What of a run is random: whose replications must be equal, because nothing is drawn for them."""

from varsim.scenario.training import Scenario
from varsim.strategies import Strategy


def times_are_random(scenario: Scenario, strategy: Strategy) -> bool:
    """Whether when things happen may differ between replications of a strategy.

    Compute times and the servers' own are all that is drawn; values matter where they end a run.
    """
    cluster = scenario.cluster_of(strategy)
    update = cluster.server_update if strategy.uses_servers else None
    return (
        cluster.compute_distribution(scenario.workload).is_random
        or (update is not None and update.time is not None and update.time.is_random)
        or (scenario.stop.loss is not None and scenario.workload.problem.is_random)
    )


def is_random(scenario: Scenario, strategy: Strategy) -> bool:
    """Whether anything in the replications of a strategy may differ, times or values."""
    return scenario.workload.problem.is_random or times_are_random(scenario, strategy)


def runs_made(scenario: Scenario, strategy: Strategy) -> int:
    """How often a strategy is run: once where every replication would be the same."""
    return scenario.replications if is_random(scenario, strategy) else 1
