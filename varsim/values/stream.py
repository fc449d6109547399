"""Random streams keyed by name, so that adding a worker or a strategy moves no other draw."""

from typing import Final

import numpy as np

# The number of a purpose is part of the stream's key: append, never renumber.
PURPOSES: Final = {
    "compute": 0,
    "batch": 1,
    "noise": 2,
    "problem": 3,
    "initial": 4,
    "program": 5,
    "server update": 6,
    "failure": 7,
    "repair": 8,
    "step": 9,
}


def stream(seed: int, replication: int, purpose: str, *key: int) -> np.random.Generator:
    """The generator of (seed, replication, purpose, key): the same wherever it is asked for.

    Key is for instance (worker, block). The bits are the same on every platform.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(replication, PURPOSES[purpose], *key))
    return np.random.Generator(np.random.PCG64(sequence))
