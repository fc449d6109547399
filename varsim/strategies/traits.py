"""What a strategy is, as data: what it sends, what it repeats, and who has the model."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from varsim.core.refusal import Refusal, no_effect

# What those who wait for a worker that has died can do.
OnDeath: TypeAlias = Literal["continue_with_fewer"]


OF_THE_DEAD: Final[Sequence[Refusal]] = (
    no_effect(
        "on_death",
        "no events",
        "nobody dies inside the run (events, or failures without a horizon)",
    ),
)


class Sends(NamedTuple):
    """What a strategy sends, and where to.

    `to`: "servers": parameter servers, which have the model; "sums": servers that add gradients up
    for workers with copies of their own; "centre": servers with a model that such copies exchange
    with; "workers": all reduce it among themselves; "neighbours": each sends it to some; "copies":
    one worker broadcasts it; "nobody". `committed_by`: by whom updates are made one after the
    other, an update loop in worker 0's process, or whoever holds a lock; else they are made as they
    come.
    """

    what: Literal["gradients", "parameters", "nothing"]
    to: Literal["servers", "sums", "centre", "workers", "neighbours", "copies", "nobody"]
    committed_by: Literal["", "chief", "lock"] = ""


class Round(NamedTuple):
    """What a strategy repeats: what is timed, and what rates are measured between.

    `of`: "step": one update of the model, to which workers come together; "iteration": each
    worker's own, from read to read; "outer step": replicas go on by themselves for so many `steps`,
    then meet, and only then the model is measured. `gradients`: in one update; by default one of
    every worker. `micro_batches`: of which a worker adds up the gradients for each that it sends;
    `varies`: or fewer. `ages_by`: what a gradient's staleness counts: updates of the model, or
    exchanges of others with the copy that it is of, where no copy has all updates.
    """

    of: Literal["step", "iteration", "outer step"]
    steps: int = 1
    gradients: int | None = None
    micro_batches: int = 1
    varies: bool = False
    ages_by: Literal["updates", "exchanges"] = "updates"


# What strategies are variants of: who holds the model, and who waits for whom.
Family: TypeAlias = Literal[
    "all-reduce", "copies", "asynchronous", "synchronous", "alone", "neighbours"
]


class Traits(NamedTuple):
    """What a strategy is: checks, memory, pictures and explanations follow from it.

    `overlap`: whether gradients are sent while the backward pass still runs, `forward`: and during
    the next forward pass; `sharding`: of what replicas hold shards that others have whole;
    `on_death`: what those do who wait for a worker that has died. `outlives`: whether training goes
    on, or waits, when hosts fail in its midst and come back, though no server has the model.
    `no_rollback`: why a failure does not end all of it, and what to write instead.
    """

    sends: Sends
    round: Round
    overlap: bool | Literal["forward"] = False
    sharding: str | None = None
    on_death: OnDeath | None = None
    outlives: bool = False
    no_rollback: str = ""

    @property
    def family(self) -> Family:
        """What it is a variant of: by this, strategies are alike in pictures."""
        if self.sends.to == "neighbours":
            return "neighbours"
        if self.drifts:
            return "copies"
        if self.sends.to == "nobody":
            return "alone"
        if self.sends.to in ("workers", "sums"):
            return "all-reduce"
        return "synchronous" if self.round.of == "step" else "asynchronous"

    @property
    def uses_servers(self) -> bool:
        """Whether anything is sent to parameter servers."""
        return self.sends.to in ("servers", "sums", "centre")

    @property
    def served(self) -> bool:
        """Whether servers have the model."""
        return self.sends.to in ("servers", "centre")

    @property
    def updates_copies(self) -> bool:
        """Whether replicas update copies of the model of their own."""
        return self.sends.to != "servers"

    @property
    def drifts(self) -> bool:
        """Whether a worker goes on with its own copy, so that a step ends when all go on."""
        return self.sends.what == "parameters" or self.round.of == "outer step"

    @property
    def overlaps(self) -> bool:
        """Whether gradients are sent while the backward pass still runs: the key `overlap`."""
        return bool(self.overlap)

    @property
    def leaves_out_the_dead(self) -> bool:
        """Whether those who are left go on without a dead worker: the key `on_death`."""
        return self.on_death is not None

    @property
    def shards(self) -> bool:
        """Whether replicas hold shards of what others have whole: the key `sharding`."""
        return self.sharding is not None

    @property
    def looks_at_layers(self) -> bool:
        """Whether it matters when in a pass which layer is computed."""
        return self.overlaps or self.sharding == "parameters"

    @property
    def by_layers(self) -> bool:
        """Whether computation beside which there is communication may be a forward pass, too."""
        return self.shards or self.overlap == "forward"

    @property
    def outlives_workers(self) -> bool:
        """Whether training goes on, or waits, when hosts fail in its midst and come back.

        Servers have the model; or, without the dead, those who are left.
        """
        return self.served or self.outlives or self.leaves_out_the_dead

    @property
    def against_rollback(self) -> str:
        """Why a failure does not end all of it, and what to write instead; empty where it does."""
        if not self.served:
            return self.no_rollback
        return (
            "servers keep the model when a worker dies, and nothing is rolled back: leave "
            "failures.horizon out, then hosts fail inside the run"
        )

    def dies_with_workers(self, hosts: int) -> str:
        """Why nobody has what a dead worker had; empty where each has all of the model."""
        if self.overlap == "forward":
            return (
                "those who are left may have some layers of the model before an update, others "
                "after it"
            )
        if self.drifts:
            return "every worker has a copy of its own, which dies with it"
        if self.shards:
            return "a worker that dies takes its shard with it"
        return "there is one host, and nobody else has the model" if hosts == 1 else ""


class Deaths(Protocol):
    """What ends processes of a run: an event, or failures that strike inside it."""

    @property
    def cause(self) -> str:
        """What it is, in words."""

    @property
    def ends_workers(self) -> bool:
        """Whether these are random failures, and not of servers alone."""


class Vain(NamedTuple):
    """So many gradients that are in vain; `why`, and what would change it."""

    gradients: int = 0
    why: str = ""


class Pair(NamedTuple):
    """Pair of settings that differ in one field, and that make a difference to a run."""

    one: Mapping[str, object]
    other: Mapping[str, object]
