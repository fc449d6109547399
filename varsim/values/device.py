"""Where a copy lives, and the bytes that an operation moves from one place to another."""

from collections.abc import Iterable
from typing import NamedTuple


class Device(NamedTuple):
    """A device of a task: `worker/0/1` is device 1 of worker 0; CPUs and GPUs are told apart."""

    job: str = "worker"
    task: int = 0
    number: int = 0
    kind: str = "cpu"

    def __str__(self) -> str:
        return f"{self.job}/{self.task}/{self.number}"


# The device that is current where nobody says otherwise.
HERE = Device()


class Transfer(NamedTuple):
    """Bytes that go from one device to another."""

    source: Device
    target: Device
    size: int


class Movement(NamedTuple):
    """What an operation moves, in rounds: the transfers of a round run side by side.

    A round starts when the one before has ended. `parties` workers take part; if there are several,
    each of them reports the whole movement, and it is to be counted once.
    """

    what: str
    rounds: tuple[tuple[Transfer, ...], ...]
    parties: int = 1

    @property
    def size(self) -> int:
        """All bytes."""
        return sum(transfer.size for transfers in self.rounds for transfer in transfers)


def movement(what: str, *rounds: Iterable[Transfer], parties: int = 1) -> list[Movement]:
    """The movement made of these rounds, or none if nothing has to leave its device."""
    moving = [
        tuple(one for one in transfers if one.source != one.target and one.size)
        for transfers in rounds
    ]
    kept = tuple(transfers for transfers in moving if transfers)
    return [Movement(what, kept, parties)] if kept else []
