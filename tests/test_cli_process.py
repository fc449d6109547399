"""The command as the shell sees it: exit codes, pipes, terminals, signals, start-up time."""

import os
import pty
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.seams import app as cli

SMALL = (Path(__file__).parent / "small.yaml").read_text()
VARSIM = [sys.executable, "-m", "varsim"]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def call(
    *arguments: object, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the command with no terminal anywhere."""
    return subprocess.run(
        [*VARSIM, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = line.replace("varsim", f"'{sys.executable}' -m varsim")
    return subprocess.run(
        ["bash", "-c", command],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        # As a user's shell has it: what is printed waits in a buffer.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )


@pytest.mark.parametrize(
    ("command", "left_out"),
    [
        (
            "check small.yaml",
            {"pandas", "scipy", "matplotlib", "jinja2", "rich", "multiprocessing"},
        ),
        (
            "run small.yaml --no-plots --format json",
            {"pandas", "scipy", "matplotlib", "multiprocessing"},
        ),
        ("run small.yaml", {"pandas", "scipy", "matplotlib.pyplot", "multiprocessing"}),
        (
            "run small.yaml --no-plots",
            {"matplotlib", "sqlite3", "varsim.study.cheapest", "varsim.study.grid"}
            | {"varsim.scenario.sweep", "varsim.scenario.variables"},
        ),
    ],
)
def test_nothing_heavy_is_imported_that_is_not_used(
    command: str, left_out: set[str], small: Path
) -> None:
    code = (
        "import sys\n"
        "from varsim.cli.app import main\n"
        "try:\n    main()\n"
        "finally:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command.split()],
        cwd=small.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    imported = set(done.stderr.split())
    assert "numpy" in imported
    assert not imported & left_out


def test_exit_codes(small: Path) -> None:
    assert call("check", small).returncode == 0
    assert call("run").returncode == 2
    assert call("fly").returncode == 2
    small.write_text("name: [")
    wrong = call("run", small, cwd=small.parent)
    assert wrong.returncode == 2
    assert "small.yaml:1:" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_results_go_to_stdout_and_carry_no_colours_into_a_pipe(small: Path) -> None:
    done = call("run", small, cwd=small.parent, TERM="xterm-256color")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert done.stdout.splitlines()[-1] == "report: reports/small/report.html"


def test_an_ascii_pipe_is_no_reason_to_fail(small: Path) -> None:
    done = call("run", small, cwd=small.parent, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert " +- " in done.stdout
    whole = call("run", small, cwd=small.parent, PYTHONIOENCODING="utf-8").stdout
    plain = whole.replace("±", "+-").replace("─", "-")
    assert done.stdout.replace("-", "").split() == plain.replace("-", "").split()


def test_a_reader_that_has_seen_enough_is_no_error(small: Path) -> None:
    done = shell("varsim list | head -n 1; echo ${PIPESTATUS[0]}", small.parent)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["scenarios", "0"]
    assert done.stderr == ""
    gone = shell("varsim run small.yaml | true; echo ${PIPESTATUS[0]}", small.parent)
    assert (gone.stdout, gone.stderr) == ("0\n", "")
    assert (small.parent / "reports/small/report.html").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_one_line(small: Path) -> None:
    done = shell("varsim check small.yaml > /dev/full", small.parent)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr == "varsim: cannot write standard output: No space left on device\n"
    assert shell("varsim --version > /dev/full", small.parent).stderr == done.stderr


def test_closed_streams_are_no_bug(small: Path) -> None:
    assert shell("varsim check small.yaml >&- 2>&-; echo $?", small.parent).stdout == "0\n"
    done = shell("varsim check - <&-; echo $?", small.parent)
    assert (done.stdout, done.stderr) == (
        "2\n",
        "-: error: cannot be read: standard input is closed\n",
    )


def test_a_directory_that_was_removed_is_named(small: Path) -> None:
    done = shell(f"mkdir here; cd here; rmdir ../here; varsim run {small}; echo $?", small.parent)
    assert (done.stdout, done.stderr) == ("1\n", "varsim: the current directory no longer exists\n")


def on_a_terminal(small: Path, **variables: str) -> str:
    """What a person at a terminal sees on stderr while a run of about two seconds goes on."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*VARSIM, "run", "small.yaml", "--set", "stop.global_steps=4000"],
        cwd=small.parent,
        env={**os.environ, "COLUMNS": "80", **variables},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # what Linux says when the other side is closed
        while chunk := os.read(ours, 1000):
            seen += chunk
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return seen.decode()


@pytest.mark.slow
@pytest.mark.product
def test_a_long_run_shows_a_bar_on_a_terminal(small: Path) -> None:
    seen = on_a_terminal(small, TERM="xterm-256color")
    assert "simulating" in seen
    assert "/6" in seen  # two strategies and the yardstick, in two replications
    assert seen.rstrip().endswith(("\x1b[2K", "\x1b[?25h")), "the bar is wiped, the cursor is back"


@pytest.mark.slow
@pytest.mark.product
def test_a_plain_terminal_gets_no_control_codes(small: Path) -> None:
    assert "\x1b" not in on_a_terminal(small, TERM="dumb")


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


PROGRESS = re.compile(r"varsim: .* (runs(, about [\d.]+ (s|min|h) left)?|done after \d+ s)\n")


def stopped(small: Path, number: signal.Signals, jobs: int, steps: int) -> Iterator[str]:
    """Run, send a signal where the generator is asked to go on, yield what stderr then holds.

    But for its progress, which is told on a busy machine.
    """
    process = subprocess.Popen(
        [*VARSIM, "run", "small.yaml", "--set", f"stop.global_steps={steps}", "--jobs", str(jobs)],
        cwd=small.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield ""
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # a terminal sends it to the whole group
    else:
        process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    deadline = time.monotonic() + 10
    while processes_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_of(process.pid) == []
    yield f"{process.returncode} {PROGRESS.sub('', stderr)}"


STOPS = [(signal.SIGINT, "130 varsim: interrupted\n"), (signal.SIGTERM, "143 varsim: terminated\n")]


@pytest.mark.slow
@pytest.mark.product
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(("number", "said"), STOPS)
def test_a_signal_leaves_nothing_behind(
    small: Path, number: signal.Signals, said: str, jobs: int
) -> None:
    going = stopped(small, number, jobs, 100_000)
    next(going)
    time.sleep(2.0 + jobs)
    assert next(going) == said
    assert [p.name for p in small.parent.iterdir() if p.name != "reports"] == ["small.yaml"]
    assert not list(small.parent.glob("reports/*"))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_process_that_is_killed_is_told_in_a_line(small: Path) -> None:
    """As a system short of memory does it; what it was doing cannot be had any more."""
    process = subprocess.Popen(
        [*VARSIM, "run", "small.yaml", "--set", "stop.global_steps=100000", "--jobs", "2"],
        cwd=small.parent,
        env=dict(os.environ),  # not what readline, once imported, adds for children: COLUMNS
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline, made = time.monotonic() + 60, re.compile(rb"--multiprocessing-fork")
    while time.monotonic() < deadline and process.poll() is None:
        children = [one for one in processes_of(process.pid) if made.search(command_of(one))]
        if len(children) == 2:
            os.kill(children[0], signal.SIGKILL)
            break
        time.sleep(0.1)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (1, "")
    assert PROGRESS.sub("", stderr) == (
        "varsim: one of the processes that made the runs was killed (out of memory?), and the "
        "runs with it; try fewer --jobs, workers or steps\n"
    )
    assert not list(small.parent.glob("reports/*"))


def command_of(process: int) -> bytes:
    """Its command line, empty once it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize(("number", "said"), STOPS)
@pytest.mark.parametrize(
    "later", [0.3, *(pytest.param(later, marks=pytest.mark.slow) for later in (0.0, 0.6, 0.9))]
)
def test_a_signal_while_the_report_is_written_is_no_accident(
    small: Path, number: signal.Signals, said: str, later: float
) -> None:
    going = stopped(small, number, 2, 12)
    next(going)
    reports, deadline = small.parent / "reports", time.monotonic() + 30
    while not (reports.exists() and any(reports.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(later)
    assert next(going) in (said, "0 ")
    assert {path.name for path in reports.iterdir()} <= {"small"}


def test_an_error_that_hides_a_signal_is_no_accident(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from extensions of matplotlib, which complain of a matrix and drop the exception."""
    stopper = cli.Stopper()

    def hide(*_: object, **__: object) -> None:
        with suppress(cli.StoppedByUser):
            stopper._stop(signal.SIGTERM, None)
        raise RuntimeError("Invalid affine transformation matrix")

    monkeypatch.setattr(cli.Stopper, "begin", lambda _: None)  # signals are pytest's own here
    monkeypatch.setattr("varsim.study.experiment.simulate", hide)
    result = CliRunner().invoke(cli.app, ["run", str(small)], obj=stopper)
    assert (result.exit_code, result.stderr) == (143, "varsim: terminated\n")


# The command, with Ctrl-C when a module is imported or, without one, when arguments are parsed.
INTERRUPTED = """
import os, signal, sys
from varsim.__main__ import main
where = sys.argv.pop()

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == where:
            os.kill(os.getpid(), signal.SIGINT)

    def parse(self, *arguments, **keywords):
        os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
if where == "":
    from varsim.cli.console import CommandGroup
    CommandGroup.make_context = Interrupting.parse
main()
"""


@pytest.mark.parametrize("module", ["typer", "varsim.cli.options", "", "varsim.study.experiment"])
def test_an_interrupt_while_it_starts_is_one_line(small: Path, module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "check", "small.yaml", module],
        cwd=small.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "varsim: interrupted\n")


def cpu_seconds(*command: str) -> float:
    """Processor time of a process, the best of a few: other load does not count."""
    times = []
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def test_help_comes_at_once_and_a_check_soon(small: Path) -> None:
    """Beside what the libraries alone take on this machine."""
    libraries = cpu_seconds(sys.executable, "-c", "import numpy, simpy, typer, pydantic")
    assert cpu_seconds(*VARSIM, "--help") < 1.5 * libraries
    assert cpu_seconds(*VARSIM, "check", str(small)) < 4 * libraries


def imported_by(*arguments: object) -> set[str]:
    """Top-level packages that the command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "varsim", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines}


def test_help_imports_nothing_heavy() -> None:
    heavy = {
        "numpy",
        "pandas",
        "matplotlib",
        "scipy",
        "pydantic",
        "simpy",
        "rich",
        "multiprocessing",
    }
    assert not imported_by("--help") & heavy
    assert not imported_by("--version") & (heavy - {"pydantic"})  # by typer, for its options
