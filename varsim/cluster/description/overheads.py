"""Software overheads: named times and rates that a real runtime adds to the ideal model."""

from collections.abc import Iterator
from typing import Final

from pydantic import Field

from varsim.units import BytesPerSecond, Seconds
from varsim.values.schema import Model

# What a strategy can be subject to, by what it uses.
OF_ALL: Final = frozenset({"first_iteration"})
OF_SERVERS: Final = frozenset({"pull", "push", "wake", "payload"})
OF_AN_UPDATE_LOOP: Final = frozenset({"commit"})
OF_COLLECTIVES: Final = frozenset({"message", "payload"})
OF_REDUCTIONS: Final = OF_COLLECTIVES | {"reduction"}

_RATES: Final = ("payload", "reduction")


class Overheads(Model):
    """What is not computation and not the network; nothing unless given.

    `first_iteration`: every worker begins that much later (its graph is built, its connections are
    made). A parameter server handles one request after the other: `pull` is how long reading the
    variables holds it, `push` a gradient of one variable, `wake` telling a worker to go on (its
    token; where there are none, that its gradient is applied). So the more workers go on at one
    moment, the longer it takes. `commit`: from the last gradient that an update needs to the new
    global_step; where updates are locked, the lock is held so long. `message`: one message of a
    collective; those of all workers take turns, as on one machine. `payload`: the rate at which a
    server copies what is read and pushed, in addition to the above, and at which the workers of a
    collective copy their messages, while others wait for their turn. `reduction`: the rate at which
    a worker adds what it was sent in an all-reduce to its own, before it sends that on.
    """

    first_iteration: Seconds = Field(0.0, ge=0)
    """Before each worker's first iteration."""
    pull: Seconds = Field(0.0, ge=0)
    """A server's time for a read."""
    push: Seconds = Field(0.0, ge=0)
    """A server's time for a variable's gradient."""
    commit: Seconds = Field(0.0, ge=0)
    """Between the last gradient of an update and the new global step."""
    wake: Seconds = Field(0.0, ge=0)
    """A server's time to let one worker go on."""
    message: Seconds = Field(0.0, ge=0)
    """Additional time for each message of a collective."""
    payload: BytesPerSecond | None = None
    """Rate at which what is sent and received is copied."""
    reduction: BytesPerSecond | None = None
    """Rate at which a worker of an all-reduce adds what it was sent."""

    def refusals(self) -> Iterator[str]:
        for name in _RATES:
            rate = getattr(self, name)
            if rate is not None and rate <= 0:
                yield f"{name} must be above 0"

    @property
    def given(self) -> list[str]:
        """The names of those that add something."""
        return [name for name in type(self).model_fields if getattr(self, name)]

    def copying(self, size: float) -> float:
        """Seconds that `size` bytes take to be copied."""
        return 0.0 if self.payload is None else size / self.payload

    def adding(self, size: float) -> float:
        """Seconds that `size` bytes take to be added up."""
        return 0.0 if self.reduction is None else size / self.reduction

    def only(self, names: frozenset[str]) -> "Overheads":
        """These of them."""
        return Overheads(**{name: getattr(self, name) for name in self.given if name in names})

    def stretched(self, factor: float) -> "Overheads":
        """All of them `factor` times as long."""
        values = {
            name: getattr(self, name) * (1 / factor if name in _RATES else factor)
            for name in self.given
        }
        return Overheads(**values)


def collective_overhead(overheads: Overheads, messages: float, size: float) -> float:
    """Seconds that the messages of a collective, which carry `size` bytes in all, add to it.

    One rank copies while another waits for its turn, so what takes longer counts.
    """
    return max(messages * overheads.message, overheads.copying(size))


def broadcast_overhead(overheads: Overheads, ranks: int, size: float) -> float:
    """Seconds that messages and copies add to a broadcast of `size` bytes from one rank to all."""
    return collective_overhead(overheads, ranks - 1, (ranks - 1) * size)
