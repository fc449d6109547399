"""The command: every way to run a sweep gives one result, whatever happens in between."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas
import pytest
from typer.testing import CliRunner

from tests.seams import app as cli
from tests.storing import FILE as STORE
from tests.storing import Store
from tests.sweep.sweeping import BASE, SWEPT

FAILED = 4  # how a sweep ends of which not all is there
VARSIM = [sys.executable, "-m", "varsim"]
QUICK = ("--no-plots", "--quiet")  # drawing takes longer than all the rest of a small one
SLOW_RUNS = ["--set", "stop.global_steps=1500", "--most-replications", "6"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(SWEPT)
    return path


def varsim(*arguments: object, code: int = 0) -> str:
    """What the command prints to stdout."""
    done = CliRunner().invoke(cli.app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done.stdout


def complaint(*arguments: object, code: int) -> str:
    done = CliRunner().invoke(cli.app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done.stderr


def sha256(printed: str) -> str:
    (line,) = (line for line in printed.splitlines() if line.startswith("result sha256: "))
    return line.removeprefix("result sha256: ")


def test_one_result_however_it_is_run(file: Path, tmp_path: Path, scheduler: str) -> None:
    def swept(name: str, *options: object) -> str:
        out = ("--out", tmp_path / name, *QUICK)
        return sha256(varsim("sweep", file, *out, *options))

    serial = swept("serial", "--jobs", 1)
    assert swept("jobs", "--jobs", 2) == serial
    assert swept("auto", "--jobs", "auto") == serial
    assert swept("dask", "--backend", "dask", "--scheduler", scheduler) == serial
    parts = [tmp_path / f"part{number}" for number in (1, 2)]
    for number, part in enumerate(parts, 1):
        said = varsim("sweep", file, "--out", part, "--shard", f"{number}/2", *QUICK)
        assert said.startswith(f"part {number} of 2: ")
        assert not (part / "results.csv").exists()
    assert (
        sha256(varsim("merge", file, *parts, "--out", tmp_path / "merged", "--no-plots")) == serial
    )
    one, other = (tmp_path / name / "results.csv" for name in ("serial", "merged"))
    assert one.read_bytes() == other.read_bytes()


def test_what_is_missing_after_a_merge_can_be_run(file: Path, tmp_path: Path) -> None:
    part, merged = tmp_path / "part", tmp_path / "merged"
    varsim("sweep", file, "--out", part, "--shard", "1/2", *QUICK)
    said = complaint("merge", file, part, "--out", merged, code=FAILED)
    assert "are missing; to make them: varsim sweep" in said
    again = complaint("sweep", file, "--out", merged, "--no-plots", code=0)
    assert "already there" in again
    assert "holds no runs of a sweep" in complaint("merge", file, tmp_path, code=2)


def test_the_files_of_a_sweep(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = varsim("sweep", file, "--quiet")
    out = Path("reports/tiny-sweep")
    assert f"results: {out / 'results.csv'}, {out / 'results.json'}" in printed
    table = pandas.read_csv(out / "results.csv")
    assert list(table.columns[:6]) == [
        "cluster.workers", "strategies.backup_workers.replicas_to_aggregate", "strategy",
        "replications", "precise", "examples_per_s",
    ]  # fmt: skip
    assert len(table) == 8
    assert {"examples_per_s_half_width", "staleness_p99", "speedup"} <= set(table.columns)
    told = json.loads((out / "results.json").read_text())
    assert told["result_sha256"] == sha256(printed)
    assert set(told["columns"]) == set(table.columns) == set(told["rows"][0])
    assert [row["examples_per_s"] for row in told["rows"]] == table.examples_per_s.tolist()
    assert told["headline"][0]["text"] in printed
    assert {"throughput.png", "wasted.png", "heat.png", "scaling.png"} <= {
        path.name for path in out.iterdir()
    }
    again = varsim("sweep", out / "sweep.yaml", "--out", tmp_path / "again", "--quiet")
    assert sha256(again) == sha256(printed)


def test_formats(file: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out", *QUICK)
    varsim("sweep", file, *out)
    assert (
        varsim("sweep", file, *out, "--format", "csv") == (tmp_path / "out/results.csv").read_text()
    )
    assert json.loads(varsim("sweep", file, *out, "--format", "json"))["kind"] == "sweep"


def test_sets_and_options(tmp_path: Path) -> None:
    path = tmp_path / "base.yaml"
    path.write_text(BASE)
    printed = varsim(
        *("sweep", path, "--set", "cluster.workers=2,3", "--set", "stop.global_steps=5"),
        *("--strategy", "on_write", "--replications", 3, "--most-replications", 3, "--seed", 8),
        *("--precision", "50%", "--out", tmp_path / "out", *QUICK, "--format", "csv"),
    )
    rows = [line.split(",")[:3] for line in printed.splitlines()[1:]]
    assert rows == [["2", "on_write", "3"], ["3", "on_write", "3"]]
    said = complaint("sweep", path, "--set", "seed=1,2", "--strategy", "nobody", code=2)
    assert "no strategy 'nobody' in this scenario; it has: on_write, backup_workers" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shard", "3/2"], "is not a part of a sweep"),
        (["--shard", "2"], "is not a part of a sweep"),
        (["--jobs", "many"], "neither auto nor a number"),
        (["--jobs", "0"], "neither auto nor a number"),
        (["--precision", "2"], "not a percentage"),
        (["--backend", "dask"], "go together"),
        (["--scheduler", "tcp://1"], "go together"),
        (["--backend", "dask", "--scheduler", "x", "--jobs", "2"], "--jobs is for this machine"),
        (["--backend", "dask", "--scheduler", "x", "--shard", "1/2"], "without a common scheduler"),
    ],
)
def test_options_that_are_refused(file: Path, options: list[str], said: str) -> None:
    assert said in " ".join(complaint("sweep", file, *options, code=2).split())


def test_a_failed_row_ends_with_4(file: Path, tmp_path: Path) -> None:
    file.write_text(SWEPT + "events:\n  - {at: 150 ms, kill: {worker: 1}}\n")
    done = CliRunner().invoke(cli.app, ["sweep", str(file), "--out", str(tmp_path / "o"), *QUICK])
    assert done.exit_code == FAILED
    assert "rows failed" in done.stderr
    assert "all-reduce at workers = 2: on_write: the run deadlocked at" in done.stdout
    assert "deadlocked" in (tmp_path / "o/results.csv").read_text()


def test_check_tells_what_is_swept(file: Path) -> None:
    facts = json.loads(varsim("check", file, "--format", "json"))
    assert facts["rows"][0]["row"] == "cluster.workers"
    assert facts["rows"][0]["values"] == "2, 4"
    (valid,) = facts["headline"]
    counts = ("points", "rows", "different", "low", "high")
    assert [valid[key] for key in counts] == [4, 8, 6, 12, 24]


def test_run_says_what_to_type(file: Path) -> None:
    assert f"run it with 'varsim sweep {file}'" in complaint("run", file, code=2)


def test_the_schema_knows_the_block() -> None:
    block = json.loads(varsim("schema"))["$defs"]["Scenario"]["properties"]["sweep"]
    assert set(block["properties"]) == {"zip", "where", "precision", "most_replications"}


# Interruption


def processes_of(session: int) -> list[int]:
    """All processes of a session that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def started(file: Path, *options: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*VARSIM, "sweep", file.name, *SLOW_RUNS, *map(str, options)],
        cwd=file.parent,
        env=dict(os.environ),  # not what readline, once imported, adds for children: COLUMNS
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(true: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return true()


def kept(directory: Path) -> int:
    """How many runs a store has, seen from outside."""
    path = directory / STORE
    return path.read_bytes().count(b"\n") if path.exists() else 0


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


@needs_proc
@pytest.mark.parametrize(
    ("number", "code", "word", "jobs"),
    [(signal.SIGINT, 130, "interrupted", 2), (signal.SIGTERM, 143, "terminated", 1)],
)
def test_a_signal_ends_it_soon_and_whole(
    file: Path, number: signal.Signals, code: int, word: str, jobs: int
) -> None:
    out = file.parent / "out"
    process = started(file, "--out", out, "--jobs", jobs)
    assert wait_for(lambda: kept(out) > 0, 60)
    begun = time.monotonic()
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # a terminal sends it to the whole group
    else:
        process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    # Two seconds on a machine that does nothing else.
    assert time.monotonic() - begun < 2 + 4 * max(0.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert process.returncode == code
    assert wait_for(lambda: not processes_of(process.pid), 10)
    assert {path.name for path in out.iterdir()} == {STORE, "sweep.yaml"}
    *progress, resume, last = stderr.splitlines()
    assert all(" runs, about " in line for line in progress), "told on a busy machine"
    assert last == f"varsim: {word}"
    runs = "1 run is" if kept(out) == 1 else f"{kept(out)} runs are"
    assert resume == (f"varsim: {runs} kept in {out / STORE}; run the same command again to resume")


@needs_proc
def test_killed_it_leaves_no_process_and_keeps_its_runs(file: Path) -> None:
    out = file.parent / "out"
    process = started(file, "--out", out, "--jobs", 2)
    assert wait_for(lambda: kept(out) > 1, 60)
    assert len(processes_of(process.pid)) >= 3
    process.kill()
    process.communicate(timeout=60)
    assert wait_for(lambda: not processes_of(process.pid), 10)
    with Store(out) as store:
        assert store.count() > 1
        assert all(run.measured for run in store.runs())


@needs_proc
@pytest.mark.slow
def test_killed_twenty_times_it_gives_the_same_result(file: Path) -> None:
    """At moments all over the sweep, each time with what was kept before."""
    import random

    chance = random.Random(6)
    whole = started(file, "--out", file.parent / "whole", "--jobs", 2)
    expected = sha256(whole.communicate(timeout=600)[0])
    total = kept(file.parent / "whole")
    out, kills, before = file.parent / "out", 0, 0
    while kills < 20:
        process = started(file, "--out", out, "--jobs", 2)
        aim = min(total - 1, before + max(1, round(chance.random() * 2 * total / 20)))
        wait_for(lambda aim=aim, one=process: kept(out) >= aim or one.poll() is not None, 120)
        time.sleep(chance.random() * 0.2)
        if process.poll() is not None:
            process.communicate()
            break
        process.kill()
        process.communicate(timeout=60)
        kills += 1
        assert wait_for(lambda one=process: not processes_of(one.pid), 10)
        after = kept(out)
        assert after >= before, "nothing that was kept is lost"
        before = after
    last = started(file, "--out", out, "--jobs", 2)
    printed, said = last.communicate(timeout=600)
    assert kills >= 15
    assert sha256(printed) == expected
    assert "already there" in said


# Output that cannot be written


def limited() -> None:
    """No file may grow beyond this: as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, 6_000))


@pytest.mark.skipif(os.name != "posix", reason="limits the size of files")
def test_a_full_disk_is_one_line(file: Path) -> None:
    done = subprocess.run(
        [*VARSIM, "sweep", file.name, "--out", "out", "--quiet", "--jobs", "1"],
        cwd=file.parent,
        capture_output=True,
        text=True,
        preexec_fn=limited,
        timeout=120,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("varsim: cannot write out/")
    left = {path.name for path in (file.parent / "out").glob("*")}
    assert not any("partial" in name or name.startswith("results") for name in left)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a place nobody can write to")
def test_a_place_that_cannot_be_written_is_one_line(file: Path) -> None:
    said = complaint("sweep", file, "--out", "/proc/nowhere/out", code=1)
    (line,) = said.splitlines()
    assert line.startswith("varsim: cannot write /proc/nowhere")
