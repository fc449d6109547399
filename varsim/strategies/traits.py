"""What a strategy is, as data: what it sends, what it repeats, and who has the model."""

from typing import Literal, NamedTuple, TypeAlias

# What those who wait for a worker that has died can do.
OnDeath: TypeAlias = Literal["continue_with_fewer"]


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


class Traits(NamedTuple):
    """What a strategy is: checks, memory, pictures and explanations follow from it.

    `overlap`: whether gradients are sent while the backward pass still runs, `forward`: and during
    the next forward pass; `sharding`: of what replicas hold shards that others have whole;
    `on_death`: what those do who wait for a worker that has died. `outlives_workers`: whether
    training goes on, or waits, when hosts fail in its midst and come back, whoever has the model.
    `against_rollback`: why a failure does not end all of it, and what to write instead.
    """

    sends: Sends
    round: Round
    overlap: bool | Literal["forward"] = False
    sharding: str | None = None
    on_death: OnDeath | None = None
    outlives_workers: bool = False
    against_rollback: str = ""


# What strategies are variants of: who holds the model, and who waits for whom.
Family: TypeAlias = Literal[
    "all-reduce", "copies", "asynchronous", "synchronous", "alone", "neighbours"
]
