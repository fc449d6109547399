"""The command line in one process: what each command prints, writes and returns."""

import importlib
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.seams import app as cli
from tests.seams import load_scenario
from varsim.cluster.workers.job import DeadlockError

SMALL = (Path(__file__).parent / "small.yaml").read_text()

Run = Callable[..., Result]


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario file in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def run() -> Run:
    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])

    return invoke


def summary(result: Result) -> dict[str, object]:
    assert result.exit_code == 0, result.stderr
    loaded = json.loads(result.stdout)
    assert isinstance(loaded, dict)
    return loaded


class TestRun:
    def test_ends_with_the_answer_and_the_report(self, small: Path, run: Run) -> None:
        result = run("run", small)
        assert result.exit_code == 0, result.stderr
        lines = result.stdout.splitlines()
        assert lines[-1] == "report: reports/small/report.html"
        assert lines[0].startswith("Fastest: async, ")
        head = next(index for index, line in enumerate(lines) if "examples/s   " in line)
        assert [line.split()[0] for line in lines[head + 2 : head + 4]] == ["async", "all-reduce"]
        saved = small.parent / "reports" / "small" / "scenario.yaml"
        assert load_scenario(saved) == load_scenario(small)
        assert saved.read_text().startswith("# How do two strategies share a slow worker?\n")
        assert (small.parent / "reports" / "small" / "report.html").stat().st_size > 1000
        assert result.stderr == ""

    def test_who_stands_still_is_told_when_all_is_written(self, small: Path, run: Run) -> None:
        kill = "--set", "events=[{at: 500 ms, kill: {worker: 1}}]"
        result = run("run", small, *kill, "--rows")
        assert result.exit_code == 1
        assert result.stderr.startswith("varsim: deadlock: on_write: the run deadlocked at ")
        said = ("waiting for an all-reduce", "because worker 1 was killed at 0.5 s", "to free it")
        for words in said:
            assert words in result.stderr
        assert "Traceback" not in result.stderr
        assert "all-reduce deadlocked" in result.stdout
        assert result.stdout.splitlines()[-1] == "report: reports/small/report.html"
        folder = small.parent / "reports" / "small"
        page = (folder / "report.html").read_text()
        assert "deadlocked" in page
        steps = (folder / "steps.csv").read_text().splitlines()
        # As many examples as 12 updates of three gradients.
        assert sum(line.startswith("async,") for line in steps) == 2 * 36
        assert 0 < sum(line.startswith("on_write,") for line in steps) < 2 * 12
        # The others alone: nothing stands still.
        alone = run("run", small, *kill, "--strategy", "async", "--out", "alone")
        assert (alone.exit_code, alone.stderr) == (0, "")
        saved = run("run", folder / "scenario.yaml", "--format", "json")
        assert saved.exit_code == 1
        assert json.loads(saved.stdout)["runs"][0]["stopped_by"] == "deadlock"

    def test_out_says_where(self, small: Path, run: Run) -> None:
        assert run("run", small, "--out", "some/where").exit_code == 0
        assert (small.parent / "some/where/summary.json").exists()
        assert not (small.parent / "reports").exists()

    def test_seed_and_replications_are_shorthands(self, small: Path, run: Run) -> None:
        run("run", small, "--seed", 9, "--replications", 3, "--out", "a", "--rows")
        sets = ("--set", "seed=9", "--set", "replications=3")
        run("run", small, *sets, "--out", "b", "--rows")
        scenario = load_scenario(small.parent / "a" / "scenario.yaml")
        assert (scenario.seed, scenario.replications) == (9, 3)
        for file in ("summary.json", "updates.csv", "scenario.yaml"):
            assert (small.parent / "a" / file).read_bytes() == (
                small.parent / "b" / file
            ).read_bytes()

    def test_set_reaches_any_key(self, small: Path, run: Run) -> None:
        run("run", small, "--set", "cluster.workers=4", "--set", "stop.global_steps=5")
        scenario = load_scenario(small.parent / "reports/small/scenario.yaml")
        assert scenario.cluster.workers == 4
        assert scenario.stop.global_steps == 5

    @pytest.mark.parametrize("wanted", ["none", "async"])
    def test_strategy_selects_by_kind_or_name(self, small: Path, run: Run, wanted: str) -> None:
        result = run("run", small, "--strategy", wanted)
        assert "async" in result.stdout
        assert "on_write" not in result.stdout
        scenario = load_scenario(small.parent / "reports/small/scenario.yaml")
        assert [strategy.label for strategy in scenario.strategies] == ["async"]

    @pytest.mark.parametrize("jobs", [1, 2])
    def test_jobs_change_nothing(self, small: Path, run: Run, jobs: int) -> None:
        run("run", small, "--out", "one")
        run("run", small, "--out", "many", "--jobs", jobs)
        one = sorted(path.name for path in (small.parent / "one").iterdir())
        assert one == sorted(path.name for path in (small.parent / "many").iterdir())
        for name in one:
            assert (small.parent / "one" / name).read_bytes() == (
                small.parent / "many" / name
            ).read_bytes(), name

    def test_the_question_heads_the_page(self, small: Path, run: Run) -> None:
        run("run", small, "--out", "asked")
        assert "share a slow worker?" in (small.parent / "asked/report.html").read_text()
        small.write_text(SMALL.split("\n", 1)[1])
        run("run", small, "--out", "plain")
        assert (small.parent / "plain/scenario.yaml").read_text().startswith("name: small\n")

    def test_the_resolved_scenario_gives_the_same_files(self, small: Path, run: Run) -> None:
        run("run", small, "--out", "first", "--set", "cluster.workers=4")
        run("run", small.parent / "first/scenario.yaml", "--out", "second")
        for path in (small.parent / "first").iterdir():
            assert (small.parent / "second" / path.name).read_bytes() == path.read_bytes(), path


class TestFormats:
    def test_json_is_the_whole_output(self, small: Path, run: Run) -> None:
        result = run("run", small, "--format", "json")
        assert "on_write" in json.dumps(summary(result))
        assert "report: reports/small/report.html" in result.stderr


class TestCheck:
    def test_set_is_checked_too(self, small: Path, run: Run) -> None:
        assert ", 5 workers" in run("check", small, "--set", "cluster.workers=5").stdout

    def test_writes_nothing(self, small: Path, run: Run) -> None:
        run("check", small)
        assert list(small.parent.iterdir()) == [small]

    def test_a_broken_scenario_is_shown_without_a_traceback(self, small: Path, run: Run) -> None:
        small.write_text(SMALL.replace("workers: 3", "wrokers: 3"))
        result = run("check", small)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert "small.yaml:6:3: error:" in result.stderr
        assert "workers" in result.stderr
        assert "Traceback" not in result.stderr


def test_version_names_what_decides_a_result(run: Run) -> None:
    from varsim import __version__

    assert run("version").stdout.startswith(f"varsim {__version__} (scenario schema 1, engine ")
    assert run("--version").stdout == run("version").stdout
    assert run("--version").exit_code == 0


class TestARunAgain:
    def test_a_run_is_a_function_of_its_scenario_file(self, small: Path, run: Run) -> None:
        report = small.parent / "reports" / "small"
        run("run", small)
        before = {path.name: path.read_bytes() for path in report.iterdir()}
        assert run("run", report / "scenario.yaml").exit_code == 0
        after = {path.name: path.read_bytes() for path in report.iterdir()}
        assert after.keys() == before.keys()
        assert [name for name in before if after[name] != before[name]] == []


class TestBundled:
    @pytest.mark.parametrize("name", ["quickstart", "slow_worker"])
    def test_a_bundled_scenario_is_found_by_its_name(self, name: str, run: Run) -> None:
        assert run("check", name).stdout.startswith(f"{name} is valid")

    def test_a_file_of_that_name_comes_first(self, small: Path, run: Run) -> None:
        small.rename("quickstart")
        assert run("check", "quickstart").stdout.startswith("small is valid")

    def test_the_nearest_is_offered(self, run: Run) -> None:
        said = run("check", "slow_wrker")
        assert said.exit_code == 2
        assert "did you mean slow_worker" in said.stderr

    def test_each_is_listed_with_its_question(self, run: Run) -> None:
        said = run("list", "scenarios").stdout
        for file in (Path(__file__).parent.parent / "scenarios").glob("*.yaml"):
            assert f"\n{file.stem} " in f"\n{said}"

    def test_they_are_in_the_wheel(self) -> None:
        root = Path(__file__).parent.parent
        project = tomllib.loads((root / "pyproject.toml").read_text())
        included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
        assert included["scenarios"] == "varsim/data/scenarios"


class TestNew:
    def test_what_is_written_runs(self, small: Path, run: Run) -> None:
        assert run("new", "my first.yaml").exit_code == 0
        assert run("new", "-").stdout.startswith("# Which way")
        assert not Path("-").exists()
        assert len(Path("my first.yaml").read_text().splitlines()) == 11
        done = run("run", "my first.yaml", "--no-plots")
        assert done.exit_code == 0
        assert done.stdout.splitlines()[-1] == "report: reports/my_first/report.html"

    def test_a_bundled_one_to_begin_with(self, small: Path, run: Run) -> None:
        run("new", "mine.yaml", "--like", "overlap")
        bundled = Path(__file__).parent.parent / "scenarios" / "overlap.yaml"
        assert Path("mine.yaml").read_text() == bundled.read_text()

    def test_nothing_is_overwritten(self, small: Path, run: Run) -> None:
        before = small.read_bytes()
        assert run("new", str(small)).exit_code == 2
        assert small.read_bytes() == before

    def test_an_unknown_name_is_refused(self, small: Path, run: Run) -> None:
        assert run("new", "mine.yaml", "--like", "overlp").exit_code == 2
        assert not Path("mine.yaml").exists()


class TestEndings:
    """Whatever goes wrong in a run is one clear message and an exit code."""

    @pytest.fixture
    def failing(self, small: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
        def invoke(error: BaseException) -> Result:
            def fail(*_: object, **__: object) -> None:
                raise error

            simulation = importlib.import_module("varsim.study.experiment")
            monkeypatch.setattr(simulation, "simulate", fail)
            return run("run", small)

        return invoke

    def test_a_deadlock_is_told(self, failing: Run) -> None:
        result = failing(DeadlockError("sync_replicas: the run deadlocked at 1 s\n  worker 0"))
        assert result.exit_code == 1
        assert result.stderr.startswith("varsim: deadlock: sync_replicas: the run deadlocked")
        assert "Traceback" not in result.stderr

    def test_a_full_disk_is_one_line(self, failing: Run) -> None:
        result = failing(OSError(28, "No space left on device", "reports/small"))
        assert result.exit_code == 1
        assert result.stderr == "varsim: cannot write reports/small: No space left on device\n"

    @pytest.mark.parametrize("wrapped", [False, True])
    def test_a_signal_is_one_line(self, failing: Run, wrapped: bool) -> None:
        error: BaseException = cli.StoppedByUser(15)
        if wrapped:  # as Python does where a class is being made
            outer = RuntimeError("Error calling __set_name__")
            outer.__cause__, error = error, outer
        result = failing(error)
        assert (result.exit_code, result.stderr) == (143, "varsim: terminated\n")

    def test_an_interrupt_is_one_line(self, failing: Run, small: Path) -> None:
        result = failing(KeyboardInterrupt())
        assert result.exit_code == 130
        assert result.stderr == "varsim: interrupted\n"
        assert list(small.parent.iterdir()) == [small]

    def test_too_little_memory_is_one_line(self, failing: Run) -> None:
        result = failing(MemoryError())
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1

    def test_a_bug_shows_where_and_asks_for_a_report(self, failing: Run) -> None:
        result = failing(ZeroDivisionError("spans"))
        assert result.exit_code == 1
        assert "ZeroDivisionError: spans" in result.stderr
        assert result.stderr.splitlines()[-1].startswith("varsim: this is a bug in varsim")

    def test_an_impossible_directory_is_refused_before_the_run(
        self, small: Path, run: Run, failing: Run
    ) -> None:
        failing(AssertionError("simulated although the directory cannot be written"))
        result = run("run", small, "--out", small / "below" / "a" / "file")
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1
        assert "Traceback" not in result.stderr

    def test_a_directory_of_something_else_is_not_replaced(self, small: Path, run: Run) -> None:
        other = small.parent / "precious"
        other.mkdir()
        (other / "thesis.txt").write_text("do not delete")
        result = run("run", small, "--out", other)
        assert result.exit_code == 2
        assert [path.name for path in other.iterdir()] == ["thesis.txt"]


class TestWork:
    """What would take for ever is refused."""

    @pytest.mark.parametrize("command", ["run", "explain"])
    @pytest.mark.parametrize("limit", ["time=1e15 s", "global_steps=200000000000"])
    def test_a_run_without_end_is_refused(
        self, small: Path, run: Run, command: str, limit: str
    ) -> None:
        text = SMALL.replace("{global_steps: 12}", "{" + limit.replace("=", ": ") + "}")
        small.write_text(text.replace("replications: 2", "replications: 1"))
        result = run(command, small)
        assert result.exit_code == 2
        (line,) = result.stderr.splitlines()
        assert "gradients to compute" in line
        assert line.endswith("or give --yes")
        assert not (small.parent / "reports").exists()

    def test_the_smallest_limit_counts(self, small: Path, run: Run) -> None:
        for limit in ("time=1e15 s", "examples=1000000000000000"):
            result = run("run", small, "--set", f"stop.{limit}", "--out", limit[:4])
            assert (result.exit_code, result.stderr) == (0, "")
