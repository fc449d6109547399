"""varsim.record: what a real training job took, from every rank, in three lines.

>>> from varsim.record import Recorder
>>> recorder = Recorder("runs", "four-ranks", rank=0, ranks=1)
>>> with recorder.collective(4096):
...     pass  # torch.distributed.all_reduce(gradient)
>>> len(recorder)
1

A recorder stamps the time **before** each collective and after it. What lies between the end of one
and the beginning of the next is a rank's own time; what lies within is the message and the wait for
the slowest rank. So a straggler is told from those that it makes wait, which the lengths of steps
alone never show.

A model in PyTorch's DistributedDataParallel needs no `collective`: `recorder.watch(model)` hooks
its all-reduce. Rank and number of ranks are those of `torch.distributed`, where the job uses it, or
of the variables RANK and WORLD_SIZE that `torchrun` sets.

Each rank writes one small file, `RUN.rank0.json` and so on, when its recorder is closed, or when
the program ends. `varsim calibrate --runs DIR` and `varsim validate --runs DIR` read them.
"""

import atexit
import json
import os
import platform
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

# As in the files of recordings: a name that is a file's on every system.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MOST: Final = 1_000_000  # collectives of a recording


class Recorder:
    """Stamps the collectives of one rank, and writes them to `directory` at the end.

    directory: for the files of all ranks and runs; made if it is not there.
    run: the name of this run, the same on every rank; letters, digits, `_`, `.` and `-`.
    rank, ranks: which rank this is, of how many; by default as the job itself says.
    slow: how many times as long as usual this rank computes, where you know or made it so. A
        prediction of the run is told of it; by default nothing is said.
    warm_up: how many collectives at the beginning are left out; first steps compile and allocate.

    ValueError: a bad name, rank or factor, or nothing says which rank this is.

    A recorder is a context, too: `with Recorder(...) as recorder`.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        run: str,
        *,
        rank: int | None = None,
        ranks: int | None = None,
        slow: float = 1.0,
        warm_up: int = 1,
    ) -> None:
        if not _NAME.fullmatch(run):
            raise ValueError(f"run {run!r}: at most 64 letters, digits, '_', '.' and '-'")
        if warm_up < 0:
            raise ValueError(f"warm_up is {warm_up}; it counts collectives, from 0")
        if not 0.01 <= slow <= 100:
            raise ValueError(f"slow is {slow}; it is a factor from 0.01 to 100")
        own, all_of_them = _place() if rank is None or ranks is None else (rank, ranks)
        self.rank = own if rank is None else rank
        self.ranks = all_of_them if ranks is None else ranks
        if not 0 <= self.rank < self.ranks:
            raise ValueError(f"rank {self.rank} is not one of {self.ranks}, counted from 0")
        self.run, self.slow = run, float(slow)
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._left_out = warm_up
        self._before: list[float] = []
        self._after: list[float] = []
        self._bytes: list[int] = []
        self._buckets: list[tuple[float, int]] = []
        self._began = time.monotonic()
        self._closed = False
        atexit.register(self.close)

    @contextmanager
    def collective(self, size: int) -> Iterator[None]:
        """What is inside is one collective that all ranks take part in, of `size` bytes each."""
        before = time.monotonic()
        yield
        self._add(before, time.monotonic(), size)

    def watch(self, model: Any) -> None:
        """Stamp the all-reduces of a model in torch.nn.parallel.DistributedDataParallel.

        DDP sends gradients in buckets while the backward pass goes on: a step's own time ends when
        its last bucket is full, and its collective when the last result is there. On a GPU the
        recorder waits for the device at both moments, so that nothing overlaps while it records:
        record some dozens of steps, not the whole training.

        TypeError: not such a model.
        """
        if not hasattr(model, "register_comm_hook"):
            raise TypeError(f"{type(model).__name__} is not a DistributedDataParallel model")
        # A lambda, since DDP accepts no annotations but its own.
        model.register_comm_hook(None, lambda group, bucket: self._send(group, bucket))

    def _send(self, group: Any, bucket: Any) -> Any:
        """All-reduce one bucket as DDP itself would, with a stamp when it is full."""
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
            allreduce_hook,
        )

        values, is_last = bucket.buffer(), bucket.is_last()
        _wait_for(values)
        self._buckets.append((time.monotonic(), values.numel() * values.element_size()))

        def done(future: Any) -> Any:
            result = future.value()[0]
            _wait_for(result)
            if is_last:
                self._step_ended()
            return result

        return allreduce_hook(group, bucket).then(done)

    def close(self) -> None:
        """Write the file; nothing if it is written, or nothing was recorded."""
        atexit.unregister(self.close)
        if self._closed or not self._before:
            return
        self._closed = True
        found = {
            "schema": 1,
            "kind": "rank",
            "run": self.run,
            "rank": self.rank,
            "ranks": self.ranks,
            "slow": self.slow,
            "clock": _clock(),
            "began": round(self._began, 6),
            "bytes": self._bytes,
            "before": [round(moment, 6) for moment in self._before],
            "after": [round(moment, 6) for moment in self._after],
        }
        path = self.directory / f"{self.run}.rank{self.rank}.json"
        half = path.with_suffix(f".{os.getpid()}.tmp")
        half.write_text(json.dumps(found) + "\n", encoding="utf-8")
        half.replace(path)

    def _step_ended(self) -> None:
        (before, _), total = self._buckets[-1], sum(size for _, size in self._buckets)
        self._buckets.clear()
        self._add(before, time.monotonic(), total)

    def _add(self, before: float, after: float, size: int) -> None:
        if self._left_out:
            self._left_out -= 1
            self._began = after
        elif len(self._before) < _MOST:
            self._before.append(before)
            self._after.append(after)
            self._bytes.append(size)

    def __len__(self) -> int:
        return len(self._before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _place() -> tuple[int, int]:
    """Rank and number of ranks, as torch.distributed or the environment says."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        raise ValueError(
            "which rank is this, of how many? Give rank= and ranks=, or make the recorder after "
            "torch.distributed.init_process_group"
        ) from None


def _wait_for(values: Any) -> None:
    """Until a GPU has done what it was given."""
    if values.is_cuda:
        sys.modules["torch"].cuda.synchronize(values.device)


def _clock() -> str:
    """Names the clock: processes that name the same one read the same time."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return platform.node()
