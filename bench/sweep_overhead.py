"""What a sweep costs besides its runs: everything that is done to hand them out and keep them.

    .venv/bin/python -m bench.sweep_overhead

On a machine that does nothing else; exit status 1 if it is more than a tenth of the runs.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from varsim.study.store import STORE

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


def main() -> int:
    """The share of the runs, printed."""
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "overhead.yaml").write_text(TEXT)
        # What is drawn and told at the end has nothing to do with the number of runs: one shard.
        rest = f"sweep overhead.yaml --out out --quiet --jobs {cores} --shard 1/1".split()
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "varsim", *rest], cwd=place, check=True)
        took = time.perf_counter() - started
        lines = (place / "out" / STORE).read_text().splitlines()
        count, seconds = len(lines), sum(json.loads(line)["seconds"] for line in lines)
    assert count == RUNS
    ratio = took / (seconds / cores)
    print(
        f"{count} runs of {1000 * seconds / count:.1f} ms on {cores} cores: {took:.2f} s, "
        f"{ratio:.3f} times the runs alone (load {os.getloadavg()[0]:.1f})"
    )
    return int(ratio > MOST)


if __name__ == "__main__":
    sys.exit(main())
