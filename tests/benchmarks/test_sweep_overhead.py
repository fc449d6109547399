"""What a sweep costs besides its runs: everything that is done to hand them out and keep them.

To be run alone, on a machine that does nothing else (pytest -n 0 -m slow -s tests/benchmarks);
elsewhere it is skipped.
"""

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from varsim.study.sweep.store import STORE

RUNS = 2000
# The runs themselves, summed and divided by the cores, times this: what the sweep may take.
MOST = 1.10

TEXT = """\
# How much does a sweep cost besides its runs?
name: overhead
replications: 2
cluster:
  workers: 8
  compute: {kind: lognormal, mean: 100 ms, sigma: 0.3}
  network: {kind: star, bandwidth: 10 Gbit/s, latency: 20 us}
workload:
  problem: {kind: timing, size: 10 MB}
strategies:
  - {kind: none}
stop: {global_steps: 600}
sweep:
  seed: {from: 1, to: 1000, step: 1}
  most_replications: 2
"""


def busy(cores: int) -> bool:
    """Whether others are at work here, so that times of the clock would say nothing."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return "PYTEST_XDIST_WORKER" in os.environ or load > 0.5 * cores


@pytest.mark.slow
def test_scheduling_costs_little(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert cores is not None
    if busy(cores):
        pytest.skip("the machine is busy: pytest -n 0 -m slow -s tests/benchmarks, on a calm one")
    (tmp_path / "overhead.yaml").write_text(TEXT)
    command = [sys.executable, "-m", "varsim", "sweep", "overhead.yaml", "--out", "out", "--quiet"]
    # What is drawn and told at the end has nothing to do with the number of runs.
    command += ["--jobs", str(cores), "--shard", "1/1"]
    started = time.perf_counter()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    took = time.perf_counter() - started
    assert done.returncode == 0, done.stderr
    base = sqlite3.connect(tmp_path / "out" / STORE)
    count, seconds = base.execute("SELECT COUNT(*), SUM(seconds) FROM runs").fetchone()
    base.close()
    assert count == RUNS
    ratio = took / (seconds / cores)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    with capsys.disabled():
        print(
            f"\n{count} runs of {1000 * seconds / count:.1f} ms on {cores} cores: {took:.2f} s, "
            f"{ratio:.3f} times the runs alone (load {load:.1f})"
        )
    assert ratio <= MOST
