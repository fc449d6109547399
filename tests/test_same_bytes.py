"""The same run gives the same bytes in every file, wherever the system puts a process."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.test_scenarios import EVERY_FILE, OF_VARIABLES, PLANS, SWEEPS

PROCESSES = 10
FEW = ("--set", "replications=2", "--jobs", "1")
SHORT = (*FEW, "--set", "stop={global_steps: 8}")
# Runs all commands, one line each, that it is given on stdin.
CHILD = """\
import sys
from typer.testing import CliRunner
from varsim.cli import app as cli
for line in sys.stdin.read().splitlines():
    done = CliRunner().invoke(cli.app, line.split("\\t"))
    assert done.exit_code == 0, (line, done.stderr)
"""


def made(path: Path, out: Path) -> list[str]:
    """The command that makes the short run, sweep or plan of a scenario."""
    if path in PLANS:
        return ["plan", str(path), "--out", str(out), "--jobs", "1", "--quiet"]
    if path in SWEEPS:
        short = (*SHORT, "--most-replications", "2")
        return ["sweep", str(path), "--out", str(out), *short, "--quiet"]
    of_a_life = "\nfailures:" in path.read_text()  # it is made of many steps
    short = () if path in OF_VARIABLES else FEW if of_a_life else SHORT
    rows = () if path in OF_VARIABLES else ("--rows",)
    return ["run", str(path), "--out", str(out), *short, *rows, "--quiet"]


def again(path: Path, out: Path) -> list[str]:
    """The command that writes its files again from what was saved."""
    return made(path, out) if path in PLANS else ["plot", str(out)]


def in_a_fresh_process(seed: int, commands: Sequence[Sequence[str]]) -> None:
    lines = "\n".join("\t".join(command) for command in commands)
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    subprocess.run(
        [sys.executable, "-c", CHILD], input=lines, text=True, env=environment, check=True
    )


def contents(directory: Path) -> dict[str, bytes]:
    """All files but the store, which also says how long each run took."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in files
        if path.suffix != ".jsonl"
    }


@pytest.mark.slow
def test_every_bundled_scenario_is_drawn_alike_in_ten_processes(tmp_path: Path) -> None:
    """One makes it, and again in a second; eight others draw it from what was saved."""
    first = tmp_path / "0"
    in_a_fresh_process(0, [made(path, first / path.stem) for path in EVERY_FILE])

    def differing(seed: int) -> list[str]:
        there = tmp_path / str(seed)
        shutil.copytree(first, there)
        in_a_fresh_process(seed, [again(path, there / path.stem) for path in EVERY_FILE])
        found, expected = contents(there), contents(first)
        shutil.rmtree(there)
        names = sorted(found.keys() | expected.keys())
        return [name for name in names if found.get(name) != expected.get(name)]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(differing, range(1, PROCESSES))) == [[]] * (PROCESSES - 1)
