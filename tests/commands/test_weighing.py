"""What takes for ever is refused before anything has begun: a step that lasts for years, too."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.seams import app as cli
from varsim import ScenarioError, load

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
    line = done.stderr.splitlines()[0]
    said = "error: one step of all-reduce takes about 1,230,556 h (553 MB at 1 bit/s), but "
    assert line.startswith(f"{file}:6:36: {said}")
    assert line.endswith("is the unit of cluster.network.bandwidth right?")
    assert not (file.parent / "reports").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("network.bandwidth=1e-300 bit/s", "inf (553 MB at ... the unit of {}.network.bandwidth"),
        ("network.latency=1e30 s", "(2.78e+26 h in 2 rounds) ... the unit of {}.network.latency"),
        ("network.message_overhead=1e30 s", "(overheads alone) ... the unit of {}.network.mess"),
        ("network.slow_links=[{rank: 1, factor: 1e300}]", "1 ... {}.network.slow_links[0].factor"),
        (
            "compute={kind: constant, value: 1e10 s}",
            "(computing alone) ... the unit of {}.compute.value",
        ),
        ("slow_workers=[{rank: 1, factor: 1e11}]", "(worker 1 comp ... {}.slow_workers[0].factor"),
        ("overheads={message: 1e20 s}", "(overheads alone) ... the unit of {}.overheads.message"),
        ("optimizer_time=1e10 s", "(the optimizer alone) ... the unit of {}.optimizer_time"),
        (
            "server_update={rate: 1e-20 B/s}",
            "(a server's update alone) ... the unit of {}.server_update",
        ),
    ],
)
def test_whatever_makes_a_step_too_long_is_named_in_one_line(
    file: Path, change: str, said: str
) -> None:
    enough = ("--set", "cluster.network.bandwidth=1 Gbit/s")
    done = varsim("check", file, *enough, "--set", f"cluster.{change}")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    how, field = said.format("cluster").split(" ... ")
    assert line.startswith(f"--set cluster.{change}: error: one step of ")
    assert how in line
    assert line.partition(", but the clock ends at 1,281,000 h: is ")[2].startswith(field)


def test_a_worker_that_is_slow_for_a_while_only_is_no_step_too_long(file: Path) -> None:
    enough = ("--set", "cluster.network.bandwidth=1 Gbit/s")
    slow = "cluster.slow_workers=[{rank: 1, factor: 1e300, until: 2 s}]"
    assert varsim("check", file, *enough, "--set", slow).exit_code == 0


def test_in_python_too_it_is_an_error_of_the_scenario(file: Path) -> None:
    scenario = load(file, {"cluster.network.bandwidth": "1 Gbit/s"})
    with pytest.raises(ScenarioError, match="the clock ends"):
        scenario.replace({"cluster.network.latency": "1e30 s"})


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
