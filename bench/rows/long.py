"""What takes minutes: large runs, many of them, their memory, other simulators, a cold start."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.cases import scenario
from bench.measuring import Row, Spread, children, command
from bench.rows import peers
from bench.rows.day import beside_before
from bench.rows.engines import alone
from varsim.cluster.fast import ENGINE
from varsim.scenario.writing import dump_scenario

ROOT = Path(__file__).parents[2]
LARGEST = ("none", 1_000_000, 10, 60.0)
# Runs a scenario with an engine, and prints how many KiB of memory that takes at most: a process of
# its own, as what is started by a large one counts as large.
PEAK = f"""
import os, subprocess, sys
engine = sys.argv[1]
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
    """Memory, the other engine's beside the rest: it is measured as well on a busy machine."""
    with TemporaryDirectory() as folder:
        text = dump_scenario(scenario("none", 1_000, 10_000, "timing"))
        Path(folder, "run.yaml").write_text(text, encoding="utf-8")
        with peak("simpy", folder) as slow:
            yield from peers.rows()
            yield alone(*LARGEST)
            yield beside_before(Path(folder))
            if find_spec("numba") is not None:
                yield from starts()
                with peak("fast", folder) as fast:
                    yield memory("the engine for times alone", fast)
            yield memory("SimPy", slow)


def peak(engine: str, folder: str) -> "subprocess.Popen[str]":
    """Begin to run the scenario in a folder, its files and its page included."""
    return subprocess.Popen(
        [sys.executable, "-c", PEAK, engine],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def memory(engine: str, run: "subprocess.Popen[str]") -> Row:
    """Most memory that a run has taken, when it has ended."""
    kib, _ = run.communicate()
    assert run.returncode == 0
    name = f"memory of `varsim run` of 10 million worker-steps, W = 1,000, {engine}"
    return Row(name, 1_000, Spread.of([int(kib) * 1024 / 1e6]), " MB")


def starts() -> Iterator[Row]:
    """What machine code takes besides the run: made, and read from where it is kept."""
    run = "from bench.rows.engines import *; flat(scenario('none', 2, 2, 'timing'), {})()"
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
