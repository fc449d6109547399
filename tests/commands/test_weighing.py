"""What takes for ever is refused before anything has begun: a step that lasts for years, too."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.seams import app as cli

SMALL = """\
name: endless
replications: 1
cluster:
  workers: 2
  compute: {kind: constant, value: 100 ms}
  network: {kind: star, bandwidth: 1 bit/s, latency: 20 us, sharing: fair}
workload: {problem: {kind: timing}, model: vgg16, batch_size: 32}
strategies: [{kind: on_write}, {kind: none}]
stop: {global_steps: 3}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "endless.yaml"
    path.write_text(SMALL)
    return path


def varsim(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, arguments)))


@pytest.mark.parametrize("sharing", ["fair", "first_come"])
@pytest.mark.parametrize("command", ["run", "check", "explain", "sweep"])
def test_a_step_of_many_years_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, command: str, sharing: str
) -> None:
    monkeypatch.chdir(file.parent)
    more = ["--set", "cluster.workers=2,3"] if command == "sweep" else []
    done = varsim(command, file, "--set", f"cluster.network.sharing={sharing}", *more)
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("varsim: one step of all-reduce takes about 1,230,556 h (553 MB")
    assert line.endswith("is the unit of cluster.network.bandwidth right?")
    assert not (file.parent / "reports").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("cluster.network.bandwidth=1e-300 bit/s", "takes about inf (553 MB at "),
        ("cluster.compute={kind: constant, value: 1e10 s}", "cluster.compute right?"),
    ],
)
def test_what_no_number_can_say_is_refused_too(file: Path, change: str, said: str) -> None:
    done = varsim("check", file, "--set", change)
    assert done.exit_code == 2
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_run_of_many_long_steps_is_one_line(file: Path) -> None:
    # A step takes 2 years: the clock ends in the 73rd.
    day = "cluster.compute={kind: constant, value: 17520 h}"
    fast = "cluster.network.bandwidth=1 Gbit/s"
    changes = ("--set", day, "--set", fast, "--set", "stop.global_steps=100")
    done = varsim("run", file, *changes, "--strategy", "on_write", "--out", file.parent / "out")
    assert done.exit_code == 2
    (line,) = (text for text in done.stderr.splitlines() if text.startswith("varsim: "))
    assert "on_write: after 146 years" in line
    assert "has made 73 updates and is not over" in line
    assert not (file.parent / "out").exists()
