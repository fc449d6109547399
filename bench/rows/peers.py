"""The engine for times alone beside SimGrid: an established simulator, in C++.

`simgrid.cpp` has the same cluster and compute times as SimGrid's documentation would have it: an
actor for each worker, a mutex for each port. It keeps times only, records nothing, and is handed
its draws. It is compiled here, where SimGrid and a compiler are installed.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from bench.cases import draws_of, scenario, told_all
from bench.measuring import Row, Task, children, in_turn
from bench.rows.engines import flat
from varsim.scenario.training import Scenario

SOURCE = Path(__file__).parents[1] / "simgrid.cpp"
GOAL = 0.5
# Kind, workers, steps of each.
CASES = [("none", 16_383, 20), ("none", 512, 500), ("sync_replicas", 4_096, 100)]
APART = 1e-6  # seconds that the ends of equal runs may be apart: SimGrid counts in floats


class Peer(NamedTuple):
    """SimGrid's run of a scenario: what makes it, and when it ended (s)."""

    task: Task
    end: float


def rows() -> Iterator[Row]:
    """CPU of a whole run beside SimGrid's, machine code from the cache."""
    with TemporaryDirectory() as folder:
        program, reason = built(Path(folder))
        for kind, workers, steps in CASES:
            name = f"compiled / SimGrid, {kind}, {workers:,} workers x {steps} steps"
            if program is None:
                yield Row(name, GOAL, None, remark=reason)
                continue
            what = scenario(kind, workers, steps, "timing")
            peer, run = beside(what, steps, program), flat(what)
            apart = abs(run().end / 1e9 - peer.end)
            assert apart <= APART, f"{name}: the runs end {apart} s apart"
            turns = in_turn({"varsim": run, "SimGrid": peer.task}, 2, both, warm=True)
            yield Row(name, GOAL, turns.ratio("varsim", "SimGrid"))


def built(folder: Path) -> tuple[Path | None, str]:
    """The compiled program, or why there is none."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        return None, "no C++ compiler here"
    if find_spec("numba") is None:
        return None, "without numba"
    program = folder / "simgrid"
    command = [compiler, "-O2", "-std=c++17", str(SOURCE), "-lsimgrid", "-o", str(program)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return None, "SimGrid is not installed here (Debian: libsimgrid-dev)"
    return program, ""


def beside(what: Scenario, steps: int, program: Path) -> Peer:
    """The same scenario and draws by the program."""
    draws = program.with_name("draws")
    most = 3 * steps + 100  # more than anybody needs
    times = [list(islice(own, most)) for own in draws_of(what)]
    np.array(times, dtype=np.int64).tofile(draws)
    (strategy,) = what.strategies
    of_all = told_all(what, 1)
    numbers = (
        *(what.cluster.workers, of_all["updates"]),
        *(getattr(strategy, "replicas_to_aggregate", 1), of_all["hold"]),
    )
    command = [str(program), strategy.kind, *map(str, numbers), str(draws)]

    def run() -> float:
        return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout)

    return Peer(run, run())


def both() -> float:
    """The clock of what this process and those that it started took."""
    return time.process_time() + children()
