"""A small scenario, one that names an addition of each kind, and varsim in a process."""

import os
import subprocess
import sys
from pathlib import Path

SCENARIO = """\
name: plugins
cluster:
  workers: 2
  parameter_servers: 1
  compute: {kind: constant, value: 10 ms}
  network: {kind: star, bandwidth: 1 Gbit/s, latency: 50 us}
workload: {problem: {kind: quadratic}, optimizer: {kind: sgd, learning_rate: 0.1}}
strategies: [STRATEGY]
stop: {global_steps: 10}
"""
ALL = (
    SCENARIO.replace("{kind: constant,", "{kind: steady,")
    .replace("kind: star", "kind: hub")
    .replace("quadratic", "bowl")
    .replace("  parameter_servers: 1\n", "")
    .replace("STRATEGY", "{kind: on_write, collective: circle}")
)


def python(packages: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )


def varsim(packages: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(packages, "-m", "varsim", *arguments)
