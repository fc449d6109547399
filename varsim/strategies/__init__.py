"""Who waits for whom: one file per strategy, and the table of them."""

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Final, TypeAlias

from varsim.core.table import Models, as_kind
from varsim.strategies.backup_workers import BackupWorkers
from varsim.strategies.base import Strategy
from varsim.strategies.diloco import DiLoCo
from varsim.strategies.easgd import ElasticAveraging
from varsim.strategies.gossip import Gossip
from varsim.strategies.k_family import KAsync, KBatchAsync, KBatchSync
from varsim.strategies.local_sgd import LocalSgd
from varsim.strategies.none import NoSynchronization
from varsim.strategies.on_read import OnRead
from varsim.strategies.on_write import OnWrite
from varsim.strategies.single import Single
from varsim.strategies.ssp import StaleSynchronous
from varsim.strategies.sync_replicas import SyncReplicas
from varsim.strategies.traits import Family

__all__ = [
    "ALL_STRATEGIES",
    "STRATEGIES",
    "AnyStrategy",
    "Single",
    "Strategy",
    "chosen",
    "families",
    "family",
    "meant",
]

STRATEGIES: Final[dict[str, type[Strategy]]] = {
    "on_write": OnWrite,
    "on_read": OnRead,
    "none": NoSynchronization,
    "sync_replicas": SyncReplicas,
    "ssp": StaleSynchronous,
    "k_async": KAsync,
    "k_batch_async": KBatchAsync,
    "backup_workers": BackupWorkers,
    "k_batch_sync": KBatchSync,
    "local_sgd": LocalSgd,
    "diloco": DiLoCo,
    "easgd": ElasticAveraging,
    "gossip": Gossip,
    "single": Single,
}

ALL_STRATEGIES: Final = Models("strategies", "strategy", STRATEGIES, __name__, Strategy)


def families(strategies: Iterable[Strategy]) -> dict[str, Family]:
    """The family of each strategy, by its label."""
    return {one.label: one.traits.family for one in strategies}


def family(kind: str) -> Family:
    """The family of a kind of strategy."""
    return (
        STRATEGIES[kind].model_validate({"kind": kind, **STRATEGIES[kind].example(4)}).traits.family
    )


if TYPE_CHECKING:
    AnyStrategy: TypeAlias = Strategy
else:
    AnyStrategy = ALL_STRATEGIES.type()


def meant(strategies: Sequence[Strategy], names: Sequence[str]) -> list[bool]:
    """Which of them are meant: those with these labels, and of a name that is no label that kind.

    Titles are as good as labels. Of no names all are.
    """
    labels = {label for strategy in strategies for label in (strategy.label, strategy.title)}
    of_kind = {each for name in names if name not in labels for each in (name, as_kind(name))}
    return [
        not names
        or not {strategy.label, strategy.title}.isdisjoint(names)
        or strategy.kind in of_kind
        for strategy in strategies
    ]


def chosen(strategies: Sequence[Strategy], names: Sequence[str]) -> tuple[Strategy, ...]:
    """The strategies of these kinds or labels, by default all; ValueError where there is none."""
    for name in names:
        if not any(meant(strategies, [name])):
            there = ", ".join(dict.fromkeys(strategy.label for strategy in strategies))
            raise ValueError(f"no strategy {name!r} in this scenario; it has: {there}")
    return tuple(compress(strategies, meant(strategies, names)))
