"""Random streams keyed by name, so that adding a worker or a strategy moves no other draw."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence
from numpy.typing import NDArray

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
    "lemon": 10,
    "mistaken": 11,
    "again": 12,
    "step factor": 13,
    "node factor": 14,
    "worker factor": 15,
    "strategy": 16,  # what one draws for itself
}

_Words: TypeAlias = NDArray[np.uint32]

# Of numpy's SeedSequence (O'Neill's seed_seq_fe).
_POOL: Final = 4
_INIT_A, _MULT_A, _INIT_B, _MULT_B = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
_MIX_L, _MIX_R = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_SHIFT: Final = np.uint32(16)

# The first workers' seeds are hashed one by one, all others' in groups of at most so many.
_FEW, _TOGETHER = 32, 4096


def stream(seed: int, replication: int, purpose: str, *key: int) -> np.random.Generator:
    """The generator of (seed, replication, purpose, key): the same wherever it is asked for.

    Key is for instance (worker, block). The bits are the same on every platform.
    """
    whole = seed, (replication, PURPOSES[purpose], *key)
    if len(key) == 2 and _FEW <= key[0] < 1 << 32:
        number, block = key
        group = min(1 << number.bit_length() - 1, _TOGETHER)
        states = _states(seed, replication, purpose, number // group, group, block)
        return _generator(states[number % group], *whole)
    return np.random.Generator(np.random.PCG64(_sequence(*whole)))


def keyed(
    seed: int, replication: int
) -> Callable[[str, int], Callable[[int], np.random.Generator]]:
    """The streams of a run: by purpose and number, block by block."""
    return lambda purpose, number: lambda block: stream(seed, replication, purpose, number, block)


def streams(
    seed: int, replication: int, purpose: str, numbers: Sequence[int], block: int
) -> Iterator[np.random.Generator]:
    """The generators of (seed, replication, purpose, number, block), for one number after another.

    Each is that of `stream`, but made in a tenth of the time: all seeds are hashed at once. Numbers
    must be below 2^32.
    """
    before = replication, PURPOSES[purpose]
    states = _hashed(seed, before, np.asarray(numbers), block)
    for number, state in zip(numbers, states, strict=True):
        yield _generator(state, seed, (*before, number, block))


class _Hashed(ISpawnableSeedSequence):
    """A seed sequence of which the state that PCG64 begins with is known."""

    def __init__(self, state: NDArray[np.uint64], seed: int, key: tuple[int, ...]) -> None:
        self._state, self._key = state, (seed, key)

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        """See numpy."""
        if (n_words, dtype) == (len(self._state), self._state.dtype):
            return self._state
        return self._sequence.generate_state(n_words, dtype)

    def spawn(self, n_children: int) -> list[Any]:
        """See numpy."""
        return self._sequence.spawn(n_children)

    @cached_property
    def _sequence(self) -> np.random.SeedSequence:
        return _sequence(*self._key)


def _sequence(seed: int, key: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=key)


def _generator(state: NDArray[np.uint64], seed: int, key: tuple[int, ...]) -> np.random.Generator:
    seeded = _Hashed(state, seed, key)
    return np.random.Generator(np.random.PCG64(seeded))  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def _states(
    seed: int, replication: int, purpose: str, group: int, size: int, block: int
) -> NDArray[np.uint64]:
    """What the generators of a group of so many numbers begin with."""
    numbers = np.arange(group * size, (group + 1) * size)
    return _hashed(seed, (replication, PURPOSES[purpose]), numbers, block)


def _hashed(
    seed: int, key: tuple[int, ...], numbers: NDArray[np.int64], block: int
) -> NDArray[np.uint64]:
    """The state (numbers, 4) that SeedSequence generates for (seed, key, number, block)."""
    pool = _sequence(seed, key).pool[:, np.newaxis]
    before = max(_POOL, len(_words(seed))) + sum(len(_words(number)) for number in key)
    last = np.array(_words(block), dtype=np.uint32)[:, np.newaxis]
    for word in (numbers.astype(np.uint32), *last):
        value = _scrambled(word, _INIT_A, _MULT_A, _POOL * before, _POOL)
        pool = pool * _MIX_L - value * _MIX_R
        pool ^= pool >> _SHIFT
        before += 1
    state = _scrambled(np.tile(pool, (2, 1)), _INIT_B, _MULT_B, 0, 2 * _POOL)
    return np.ascontiguousarray(state.T).astype("<u4").view("<u8")


def _scrambled(value: _Words, initial: int, factor: int, first: int, count: int) -> _Words:
    """The hashes of words by so many constants of a sequence, row by row."""
    constants = [initial * pow(factor, first + place, 1 << 32) for place in range(count + 1)]
    column = np.array(constants, dtype=np.uint64).astype(np.uint32)[:, np.newaxis]
    found: _Words = (value ^ column[:-1]) * column[1:]
    found ^= found >> _SHIFT
    return found


def _words(number: int) -> list[int]:
    """The words of 32 bits of a number, the lowest first."""
    words = [number & 0xFFFFFFFF]
    while number := number >> 32:
        words.append(number & 0xFFFFFFFF)
    return words
