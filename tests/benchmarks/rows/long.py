"""What takes minutes: large runs, many of them, their memory, other simulators, a cold start."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.cases import scenario
from tests.benchmarks.measuring import Row, Spread, children, command
from tests.benchmarks.rows import peers
from tests.benchmarks.rows.day import beside_before
from tests.benchmarks.rows.engines import alone
from varsim.cluster.flat.rules import ENGINE
from varsim.scenario.writing import dump_scenario

ROOT = Path(__file__).parents[3]
LARGEST = ("none", 1_000_000, 10, 60.0)
# Runs a command with each engine, and prints how many KiB of memory it has taken at most: a process
# of its own, as what is started by a large one counts as large.
PEAKS = f"""
import os, subprocess, sys
for engine in ("simpy", "fast"):
    done = subprocess.Popen(
        [sys.executable, *"-m varsim run run.yaml --yes --jobs 1 --out".split(), engine],
        env=os.environ | {{"{ENGINE}": engine}},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(done.pid, 0)
    assert status == 0
    print(used.ru_maxrss)
"""


def rows(_: bool) -> Iterator[Row]:
    """Memory beside the others: it is measured as well on a busy machine."""
    with TemporaryDirectory() as folder, memory(Path(folder), 1_000, 10_000) as peaks:
        yield from peers.rows()
        yield alone(*LARGEST)
        yield beside_before(Path(folder))
        if find_spec("numba") is not None:
            yield from starts()
        found, _ = peaks.communicate()
    assert peaks.returncode == 0
    for engine, size in zip(("SimPy", "the engine for times alone"), found.split(), strict=True):
        name = f"memory of `varsim run` of 10 million worker-steps, W = 1,000, {engine}"
        yield Row(name, 1_000, Spread.of([int(size) * 1024 / 1e6]), " MB")


def memory(folder: Path, workers: int, steps: int) -> "subprocess.Popen[str]":
    """Begin to run a scenario, its files and its page included, with either engine."""
    text = dump_scenario(scenario("none", workers, steps, "timing"))
    (folder / "run.yaml").write_text(text, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-c", PEAKS],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def starts() -> Iterator[Row]:
    """What machine code takes besides the run: made, and read from where it is kept."""
    run = (
        "from tests.benchmarks.rows.engines import *; flat(scenario('none', 2, 2, 'timing'), {})()"
    )
    with TemporaryDirectory() as kept:
        tasks = {
            "made": command("-c", run.format(False), tree=ROOT, cache=Path(kept)),
            "read": command("-c", run.format(False), tree=ROOT, cache=Path(kept)),
            "without": command("-c", run.format(True), tree=ROOT),
        }
        took = {}
        for name, task in tasks.items():
            before = children()
            task()
            took[name] = children() - before
    for name in ("made", "read"):
        seconds = Spread.of([took[name] - took["without"]])
        yield Row(f"CPU time of machine code that is {name}", None, seconds, " s")
