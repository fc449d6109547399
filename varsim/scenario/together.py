"""What is known of the strategies of a scenario, taken together."""

from collections.abc import Iterable, Sequence

from varsim.cluster.mortality import Served
from varsim.strategies import Strategy


def served(strategies: Sequence[Strategy]) -> Served:
    """Who has servers, whose workers live apart, and whose copies are the model."""
    return {
        "servers": any(strategy.uses_servers for strategy in strategies),
        "chief": any(strategy.sends.to == "servers" for strategy in strategies),
        "copies": any(one.outlives_workers and not one.uses_servers for one in strategies),
        "apart": all(strategy.lives_apart for strategy in strategies),
    }


def reduces_meanwhile(strategy: Strategy) -> bool:
    """Whether workers send each other gradients while they compute."""
    return strategy.overlaps and strategy.sends[:2] == ("gradients", "workers")


def overheads_of(strategies: Iterable[Strategy]) -> frozenset[str]:
    """The names of all overheads that any of these strategies is subject to."""
    return frozenset[str]().union(*(strategy.subject_to() for strategy in strategies))
