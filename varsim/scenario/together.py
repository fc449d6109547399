"""What is known of the strategies of a scenario, taken together."""

from collections.abc import Sequence

from varsim.cluster.description.cluster import Cluster
from varsim.cluster.description.refusals import Served
from varsim.strategies import Strategy
from varsim.values.distributions import Distribution
from varsim.values.measured_times import MeasuredTimes


def served(strategies: Sequence[Strategy]) -> Served:
    """Who has servers, and whose have the model."""
    return {
        "servers": any(strategy.uses_servers for strategy in strategies),
        "chief": any(strategy.sends.to == "servers" for strategy in strategies),
    }


def reduces_meanwhile(strategy: Strategy) -> bool:
    """Whether workers send each other gradients while they compute."""
    return strategy.overlaps and strategy.sends[:2] == ("gradients", "workers")


def replays_in_queues(strategy: Strategy, cluster: Cluster) -> bool:
    """Whether recorded compute times meet in queues, where a nanosecond decides who is first.

    Every such run is the same, but its numbers are no exact answer.
    """
    queues = strategy.uses_servers and strategy.workers(cluster) > 1
    return queues and cluster.compute is not None and _is_played(cluster.compute)


def _is_played(law: Distribution) -> bool:
    return isinstance(law, MeasuredTimes) or any(map(_is_played, law.parts()))
