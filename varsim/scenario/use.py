"""Which setting of a scenario matters to which strategy: one table; who has servers.

Where none of the strategies uses what is set, it is refused; where some are chosen, or one is run
alone, what only the others use is left out. A strategy's own settings are its own matter.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from varsim.cluster.description.cluster import Cluster
from varsim.cluster.description.recovery import ServedBy
from varsim.cluster.description.servers import Overheads
from varsim.core.distributions import Distribution
from varsim.core.measured_times import MeasuredTimes
from varsim.core.schema import Model
from varsim.strategies import Strategy

M = TypeVar("M", bound=Model)


class Use(NamedTuple):
    """A setting, by its path, the strategies that use it, and why it has no effect on others.

    `by` takes a strategy and the scenario. `only`: what is not of this type matters to all.
    """

    path: str
    by: Callable[[Strategy, Any], bool]
    why: str
    only: type = object


def _sends(strategy: Strategy, scenario: Any) -> bool:
    return strategy.traits.uses_servers or strategy.workers(scenario.cluster_of(strategy)) > 1


def _has_own_servers(strategy: Strategy, scenario: Any) -> bool:
    return strategy.traits.uses_servers and scenario.cluster_of(strategy).servers_on == "dedicated"


def _subject_to(overhead: str) -> Callable[[Strategy, Any], bool]:
    return lambda one, _: overhead in one.subject_to()


_NO_SERVERS: Final = "none of the strategies uses parameter servers"
_NO_GRADIENTS: Final = "none of the strategies sends gradients"
_NO_OVERLAP: Final = (
    "none of the strategies overlaps communication with the backward pass (overlap: true)"
)
_NO_ALL_REDUCE: Final = (
    "in none of the strategies are gradients all-reduced during the backward pass (overlap: true, "
    "without servers)"
)
_NO_COPIES: Final = (
    "in none of the strategies does a worker update a copy of its own (cluster.server_update says "
    "what servers need)"
)
_NO_REDUCTION: Final = "in none of the strategies do workers reduce anything among themselves"
_OF_SERVERS: Final = (
    *("parameter_servers", "placement", "partitioner", "server_update", "servers_on"),
    "network.server_bandwidth",
)
_OF_VALUES: Final = (
    "stop.loss",
    "targets.loss",
    "targets.time_to_target",
    "workload.evaluate_every",
)
USES: Final = (
    *(
        Use(f"cluster.{key}", lambda one, _: one.traits.uses_servers, _NO_SERVERS)
        for key in _OF_SERVERS
    ),
    Use("memory.server", lambda one, _: one.traits.uses_servers, _NO_SERVERS),
    Use("workload.gradient_precision", lambda one, _: one.sends.what == "gradients", _NO_GRADIENTS),
    Use("workload.round_gradients", lambda one, _: one.sends.what == "gradients", _NO_GRADIENTS),
    Use("cluster.backward_share", lambda one, _: one.traits.looks_at_layers, _NO_OVERLAP),
    Use("workload.layers", lambda one, _: one.traits.looks_at_layers, _NO_OVERLAP, only=str),
    Use("cluster.network.protocols", lambda one, _: one.sends.to == "workers", _NO_REDUCTION),
    Use("cluster.overlap_pace", lambda one, _: reduces_meanwhile(one), _NO_ALL_REDUCE),
    Use("cluster.optimizer_time", lambda one, _: one.traits.updates_copies, _NO_COPIES),
    Use(
        "prices.server_hour",
        _has_own_servers,
        "none of the strategies has parameter servers of their own",
    ),
    Use("prices.gigabyte", _sends, "none of the strategies sends anything"),
    *(
        Use(f"cluster.overheads.{name}", _subject_to(name), "it occurs in none of the strategies")
        for name in Overheads.model_fields
    ),
    Use(
        "workload.evaluate_every",
        lambda one, _: one.round.of != "outer step",
        "every strategy is only evaluated when read",
    ),
    *(
        Use(key, lambda _, of: of.workload.has_values, "problem timing has no loss")
        for key in _OF_VALUES
    ),
)


def unused(scenario: Model, strategies: Sequence[Strategy]) -> Iterator[Use]:
    """What is set in a scenario of training and used by none of these of its strategies."""
    for use in USES:
        *above, key = use.path.split(".")
        owner: Any = scenario
        for step in above:
            owner = getattr(owner, step, None)
        field = None if owner is None else type(owner).model_fields.get(key)
        given = None if field is None else getattr(owner, key)
        if field is None or given == field.default or not isinstance(given, use.only):
            continue
        if not any(use.by(strategy, scenario) for strategy in strategies):
            yield use


def without_unused(scenario: M, strategies: Sequence[Strategy]) -> M:
    """The scenario with all that is `unused` as it is by default."""
    for use in list(unused(scenario, strategies)):
        scenario = _without(scenario, use.path.split("."))
    return scenario


def _without(model: M, path: Sequence[str]) -> M:
    """A model with the default at a path; a part in which nothing is left is left out."""
    key, *rest = path
    value: Any = type(model).model_fields[key].default
    if rest:
        value = _without(getattr(model, key), rest)
        if getattr(value, "given", None) == []:
            value = None
    return model.model_copy(update={key: value})


def served(strategies: Sequence[Strategy]) -> ServedBy:
    """Who has servers, and whose have the model."""
    return {
        "servers": any(strategy.traits.uses_servers for strategy in strategies),
        "chief": any(strategy.sends.to == "servers" for strategy in strategies),
    }


def reduces_meanwhile(strategy: Strategy) -> bool:
    """Whether workers send each other gradients while they compute."""
    return strategy.traits.overlaps and strategy.sends[:2] == ("gradients", "workers")


def replays_in_queues(strategy: Strategy, cluster: Cluster) -> bool:
    """Whether recorded compute times meet in queues, where a nanosecond decides who is first.

    Every such run is the same, but its numbers are no exact answer.
    """
    queues = strategy.traits.uses_servers and strategy.workers(cluster) > 1
    return queues and cluster.compute is not None and _is_played(cluster.compute)


def _is_played(law: Distribution) -> bool:
    return isinstance(law, MeasuredTimes) or any(map(_is_played, law.parts()))
