"""The command line on scenarios of kind variables: what each command prints, writes, returns."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.seams import app as cli
from tests.seams import file_schema, load_scenario
from varsim.report.files.directory import KINDS

SCENARIOS = Path(__file__).parent.parent / "scenarios"
TEXT = """\
# What does it cost to count?
kind: variables
name: count
cluster:
  workers: 3
  network: {kind: star, bandwidth: 1 Gbit/s, latency: 50 us}
variables:
  - {name: correct, aggregation: sum}
  - {name: wide, shape: [1000], aggregation: mean}
modes: [on_read, on_write, none]
program:
  steps: 2
  replicas:
    - {kind: assign_add, variable: correct, value: [3, 1, 2]}
    - {kind: assign, variable: wide, value: [1, 2, 6]}
    - {kind: read, variable: correct}
  outside:
    - {kind: read, variable: correct}
    - {kind: save, every: 2}
"""
RANDOM = TEXT.replace("workers: 3", "workers: 3\n  compute: {kind: exponential, mean: 1 ms}")
RANDOM = RANDOM.replace("  replicas:", "  replicas:\n    - {kind: compute}")

Run = Callable[..., Result]


@pytest.fixture
def count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario file in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "count.yaml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def run() -> Run:
    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])

    return invoke


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


class TestRun:
    def test_writes_all_files(self, count: Path, run: Run) -> None:
        assert run("run", count, "--rows").exit_code == 0
        report = count.parent / "reports" / "count"
        assert set(contents(report)) == {
            *("report.html", "summary.csv", "summary.json", "scenario.yaml", "links.csv"),
            *("acts.csv", "sent.csv", "spans.csv", "steps.csv", "trace.json.gz"),
            *("step_time.png", "time_split.png", "timeline.png"),
        }
        assert load_scenario(report / "scenario.yaml") == load_scenario(count)
        text = (report / "scenario.yaml").read_text()
        assert text.startswith("# What does it cost to count?\nkind: variables\n")
        page = (report / "report.html").read_text()
        assert "What does it cost to count?" in page
        assert '"strategies":[{"name":"on_read"' in page, "the timeline"

    def test_seed_and_replications_are_shorthands(self, count: Path, run: Run) -> None:
        count.write_text(RANDOM)
        run("run", count, "--seed", 9, "--replications", 3, "--out", "a")
        run("run", count, "--set", "seed=9", "--set", "replications=3", "--out", "b")
        scenario = load_scenario(count.parent / "a" / "scenario.yaml")
        assert (scenario.seed, scenario.replications) == (9, 3)
        assert contents(count.parent / "a") == contents(count.parent / "b")

    def test_a_strategy_is_a_mode_with_what_it_uses_alone(self, count: Path, run: Run) -> None:
        assert run("run", count, "--strategy", "on_read", "--out", "a").exit_code == 0
        scenario = load_scenario(count.parent / "a" / "scenario.yaml")
        assert [one.label for one in scenario.strategies] == ["on_read"]
        refused = run("run", count, "--strategy", "on_rea")
        assert refused.exit_code == 2
        assert "no strategy 'on_rea'" in refused.stderr

    def test_jobs_change_nothing(self, count: Path, run: Run) -> None:
        count.write_text(RANDOM)
        for jobs, place in ((1, "one"), (2, "many")):
            assert run("run", count, "--jobs", jobs, "--out", place, "--quiet").exit_code == 0
        assert contents(count.parent / "one") == contents(count.parent / "many")

    @pytest.mark.parametrize("columns", [60, 80, 200])
    def test_tables_fit_the_terminal(
        self, count: Path, run: Run, columns: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        for command in ("run", "explain"):
            lines = run(command, count).stdout.splitlines()
            assert max(map(len, lines)) <= columns

    def test_a_wrong_scenario_is_told_at_its_place(self, count: Path, run: Run) -> None:
        count.write_text(TEXT.replace("every: 2", "every: 3"))
        for command in ("run", "check"):
            result = run(command, count)
            assert result.exit_code == 2
            place = f"{count}:19:20: error: program.outside[1].every 3 is beyond"
            assert result.stderr.startswith(place)
            assert "Traceback" not in result.stderr


class TestFormats:
    def test_json_is_the_whole_output(self, count: Path, run: Run) -> None:
        result = run("run", count, "--format", "json")
        facts = json.loads(result.stdout)
        assert facts["strategies"] == ["on_read", "on_write", "none"]
        assert facts["seen"]["on_read"][0]["outside"] == {"shape": [], "first": [12], "mean": 12}
        assert result.stderr == "report: reports/count/report.html\n"
        written = (count.parent / "reports" / "count" / "summary.json").read_text()
        assert result.stdout == written


class TestCheck:
    def test_writes_nothing_and_needs_no_tables(self, count: Path, run: Run) -> None:
        run("check", count)
        assert list(count.parent.iterdir()) == [count]

    def test_set_is_checked_too(self, count: Path, run: Run) -> None:
        assert ", 2 workers" in run(
            "check", count, "--set", "cluster.workers=2",
            "--set", "program.replicas.0.value=1", "--set", "program.replicas.1.value=1",
        ).stdout  # fmt: skip

    def test_a_file_and_its_report_are_of_one_kind(self, count: Path, run: Run) -> None:
        run("run", count)
        assert run("check", "reports/count/scenario.yaml").exit_code == 0


class TestARunAgain:
    def test_draws_again_what_was_deleted(self, count: Path, run: Run) -> None:
        run("run", count)
        report = count.parent / "reports" / "count"
        before = contents(report)
        drawn = [name for name in before if name.endswith((".png", ".svg", ".html"))]
        assert len(drawn) == 4
        for name in drawn:
            (report / name).unlink()
        result = run("run", report / "scenario.yaml")
        assert result.exit_code == 0, result.stderr
        after = contents(report)
        assert [name for name in before if after.get(name) != before[name]] == []

    def test_a_run_of_training_in_its_place_is_drawn_as_one(self, count: Path, run: Run) -> None:
        small = (Path(__file__).parent / "small.yaml").read_text()
        run("run", count, "--out", "there")
        (count.parent / "small.yaml").write_text(small)
        run("run", "small.yaml", "--out", "there")
        assert set(contents(count.parent / "there")) <= KINDS["run"].files - {
            "acts.csv",
            "sent.csv",
            "step_time.png",
        }


class TestWork:
    def test_a_run_without_end_is_refused(self, count: Path, run: Run) -> None:
        count.write_text(TEXT.replace("[3, 1, 2]", "1").replace("[1, 2, 6]", "1"))
        sets = ("cluster.workers=1000", "variables.1.shape=[100000]", "program.steps=100")
        chosen = [part for one in sets for part in ("--set", one)]
        result = run("run", count, *chosen)
        assert result.exit_code == 2
        (line,) = result.stderr.splitlines()
        assert line.endswith("or give --yes")
        assert not (count.parent / "reports").exists()


class TestOthers:
    def test_the_schema_describes_both_kinds(self, run: Run) -> None:
        schema = json.loads(run("schema").stdout)
        training, variables = (entry["$ref"].removeprefix("#/$defs/") for entry in schema["oneOf"])
        assert (training, variables) == ("Scenario", "VariablesScenario")
        for name in (training, variables):
            assert schema["$defs"][name]["additionalProperties"] is False
        described = schema["$defs"][variables]
        assert described["properties"]["kind"]["const"] == "variables"
        assert "kind" in described["required"]
        assert "kind" not in schema["$defs"][training]["properties"]

    def test_every_reference_of_the_schema_leads_somewhere(self) -> None:
        schema = file_schema()
        text = json.dumps(schema)
        referred = {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}
        assert len(referred) > 30
        assert referred <= set(schema["$defs"])


@pytest.mark.parametrize("name", ["metric_sum", "batch_norm"])
def test_the_scenarios_of_this_kind_run(name: str, tmp_path: Path, run: Run) -> None:
    result = run("run", SCENARIOS / f"{name}.yaml", "--out", tmp_path / name)
    assert result.exit_code == 0, result.stderr
    assert set(contents(tmp_path / name)) >= {"report.html", "summary.json"}


def test_a_check_imports_no_tables_and_no_plots(count: Path) -> None:
    from tests.test_cli_process import imported_by

    assert not imported_by("check", count) & {"pandas", "matplotlib", "multiprocessing", "jinja2"}
