"""Stragglers: as a scenario gives them, by rank or by node, and one by one, as a run has them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, ClassVar, Final, NamedTuple, TypeAlias

from pydantic import Field

from varsim.cluster.network.topologies import Nodes
from varsim.cluster.network.topology import Topology
from varsim.core.refusal import RefusalError, refused
from varsim.core.schema import Grown, InWords
from varsim.core.units import Seconds

_ONE: Final = "give exactly one of rank (3), ranks (8-15 or [1, 3]) and node (1)"

Ranks: TypeAlias = Annotated[
    Annotated[str, Field(pattern=r"^[0-9]{1,7}-[0-9]{1,7}$")]
    | Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)],
    InWords("a range such as 8-15 or a list such as [1, 3]"),
]


class Straggler(NamedTuple):
    """One worker that computes `factor` times as long from `after` to `until` (s, or the end)."""

    rank: int
    factor: float
    after: float
    until: float | None


class SlowWorker(Grown):
    """Stragglers: their compute takes `factor` times as long, always or between two times.

    One of `rank`, `ranks` and `node` says who. Where several entries for one worker overlap in
    time, their factors multiply.
    """

    later: ClassVar[tuple[str, ...]] = ("ranks", "node")

    rank: int | None = Field(None, ge=0)
    """Which worker."""
    ranks: Ranks | None = None
    """Which workers, instead of `rank`: from the first to the last (`8-15`), or a list."""
    node: int | None = Field(None, ge=0)
    """All workers of which node, from 0, instead of `rank`; with a network of kind `nodes`."""
    factor: float = Field(gt=0)
    """How many times as long each of them computes."""
    after: Seconds = Field(0.0, ge=0)
    """From when on."""
    until: Seconds | None = None
    """Until when; by default to the end."""

    def refusals(self) -> Iterator[RefusalError | str]:
        if [self.rank, self.ranks, self.node].count(None) != 2:
            yield _ONE
        elif isinstance(self.ranks, str) and not self.named:
            first, last = self.ranks.split("-")
            yield refused("ranks", f"{self.ranks} is empty: write {last}-{first}")
        elif isinstance(self.ranks, tuple) and len(set(self.ranks)) < len(self.ranks):
            yield refused("ranks", "names a worker twice: another entry for it multiplies")
        if self.until is not None and self.until <= self.after:
            yield refused("until", "must be later than after")

    @property
    def named(self) -> Sequence[int]:
        """The ranks that are given; none of a node."""
        if isinstance(self.ranks, str):
            first, last = map(int, self.ranks.split("-"))
            return range(first, last + 1)
        return self.ranks or (() if self.rank is None else (self.rank,))


def stragglers(
    given: Iterable[SlowWorker], workers: int, network: Topology
) -> tuple[Straggler, ...]:
    """Every worker that is given, in this order."""
    return tuple(
        Straggler(rank, one.factor, one.after, one.until)
        for one in given
        for rank in one.named or _of_node(one, workers, network)
    )


def check_ranks(workers: int, given: Iterable[SlowWorker], network: Topology) -> None:
    """Raise RefusalError for a rank, or a node, that a cluster does not have."""
    for index, one in enumerate(given):
        for at, rank in enumerate(one.named):
            path = ("rank",) if one.rank is not None else ("ranks", at)
            _check_rank(rank, workers, "slow_workers", index, *path)
        if one.node is not None:
            _check_node(one.node, workers, network, "slow_workers", index, "node")
    for index, link in enumerate(network.slow_links):
        _check_rank(link.rank, workers, "network", "slow_links", index, "rank")


def _check_rank(rank: int, workers: int, *path: str | int) -> None:
    if rank >= workers:
        message = f"rank {rank} does not exist: ranks go from 0 to {workers - 1}"
        raise RefusalError(f"{message} (workers: {workers})", *path)


def _check_node(node: int, workers: int, network: Topology, *path: str | int) -> None:
    if not isinstance(network, Nodes):
        message = f"node goes with a network of kind nodes, not {network.kind}: give ranks"
        raise RefusalError(message, *path)
    size = network.workers_per_node
    if node * size >= workers:
        message = f"node {node} does not exist: nodes go from 0 to {(workers - 1) // size}"
        raise RefusalError(f"{message} (workers: {workers}, workers_per_node: {size})", *path)


def _of_node(one: SlowWorker, workers: int, network: Topology) -> Sequence[int]:
    assert one.node is not None
    assert isinstance(network, Nodes)
    first = one.node * network.workers_per_node
    return range(first, min(first + network.workers_per_node, workers))
