"""Readme and documentation say what is: commands parse, scenarios and code run, files exist."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from tests.pages import blocks, fenced, page
from tests.seams import STRATEGIES, VariablesScenario, load_scenario, simulate
from tests.seams import app as cli
from validation import command as validation
from varsim.distribute.program import (
    CROSS_REPLICA_ACTIONS,
    REPLICA_ACTIONS,
    NormalElements,
    Program,
    VariableDescription,
)
from varsim.scenario import plan as plan_question
from varsim.scenario.load import file_schema
from varsim.scenario.plan import MOST_CELLS, TRIALS, load_question, question_of_text
from varsim.scenario.sweep import load_sweep
from varsim.scenario.targets import EQUAL_WITHIN
from varsim.study.cheapest import FRESH
from varsim.study.explore import PROPOSED as BATCH
from varsim.study.why.account import (
    LEAST_ROUNDS,
    MOST_GRADIENTS,
    MOST_GRADIENTS_OF_EVENTS,
    MOST_REPLICATIONS,
)

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
SMALL = ROOT / "tests" / "small.yaml"


def in_first_column(table: str) -> list[str]:
    """Every `code` word in the first column of the Markdown tables in a text."""
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row)]


EVERYTHING = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
CONSOLE = [line for block in blocks("console", EVERYTHING) for line in block.splitlines()]
OF_VARSIM, OF_VALIDATION = (
    [shlex.split(line.removeprefix(start)) for line in CONSOLE if line.startswith(start)]
    for start in ("$ varsim ", "$ python -m validation")
)


def test_what_contributing_runs_and_names_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:tests|varsim|validation|bench)/[\w/.]*\w", text))
    assert len(named) > 20
    assert sorted(name for name in named if not list(ROOT.glob(f"{name}*"))) == []


class TestSetUp:
    def test_two_blocks_come_first_and_do_it_all(self) -> None:
        readme = README.read_text(encoding="utf-8")
        assert [label for label, _ in fenced(readme)[:2]] == ["sh", "sh"]
        run, test, site = blocks("sh", readme)
        assert site.endswith("sphinx-build -q docs reports/documentation\n")
        for block in (run, test):
            assert block.startswith("python3 -m venv .venv && .venv/bin/pip install -q -e ")
            assert len(block.splitlines()) == 1
        assert run.rstrip().endswith("&& .venv/bin/varsim run scenarios/quickstart.yaml")
        assert ".[dev]" in test
        assert ".venv/bin/pytest" in test

    def test_continuous_integration_runs_the_second(self) -> None:
        extract = re.search(r"^tests=\$\((awk .*)\)$", (ROOT / ".ci/run").read_text(), re.M)
        assert extract is not None
        done = subprocess.run(["bash", "-c", extract[1]], cwd=ROOT, capture_output=True, text=True)
        assert done.stdout == blocks("sh", README.read_text(encoding="utf-8"))[1]

    def test_readme_is_short(self) -> None:
        assert len(README.read_text(encoding="utf-8").splitlines()) <= 120

    def test_what_its_run_prints(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        readme = README.read_text(encoding="utf-8")
        (command,) = re.findall(r"^\$ varsim (.*)$", readme, re.M)
        (printed,) = blocks("text", readme)
        monkeypatch.setenv("COLUMNS", "100")
        arguments = [*command.split(), "--no-plots", "--out", str(tmp_path / "out"), "--quiet"]
        done = CliRunner().invoke(cli.app, arguments)
        assert done.exit_code == 0, done.stderr
        assert printed in done.stdout

    def test_every_console_line_is_a_command_of_varsim_or_of_its_validation(self) -> None:
        assert len(OF_VARSIM) > 8
        assert len(OF_VARSIM) + len(OF_VALIDATION) == len(CONSOLE)


@pytest.mark.parametrize("arguments", OF_VALIDATION, ids=" ".join)
def test_a_shown_validation_exists_with_its_options(arguments: list[str]) -> None:
    context = typer.main.get_command(validation.app).make_context("validation", arguments)
    files = [value for value in context.params.values() if isinstance(value, Path)]
    assert all((ROOT / path).exists() for path in files if not path.is_absolute())


@pytest.mark.parametrize("arguments", OF_VARSIM, ids=" ".join)
def test_a_shown_command_exists_with_its_options(arguments: list[str]) -> None:
    group = typer.main.get_command(cli.app)
    name, *rest = arguments
    command = group.commands[name]
    context = command.make_context(name, list(rest))
    if name in {"run", "check", "explain"}:
        file, sets = context.params["file"], context.params["sets"]
        if file.suffix:
            assert file.is_relative_to("scenarios")
            assert (ROOT / file).exists()
        scenario = load_scenario(ROOT / file if file.suffix else file, tuple(sets))
        if isinstance(scenario, VariablesScenario):
            assert set(context.params.get("mode", [])) <= set(scenario.labels)
            return
        wanted = context.params.get("strategy", [])
        assert set(wanted) <= {
            name for one in scenario.strategies for name in (one.kind, one.label)
        }


def test_the_files_of_a_run_are_those_listed(tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "out"), "--rows", "--animate"]
    done = CliRunner().invoke(cli.app, ["run", str(SMALL), *out])
    assert done.exit_code == 0, done.stderr
    written = {path.name for path in (tmp_path / "out").iterdir()}
    listed = in_first_column(page("reference/files"))
    plots = [name for name in listed if "." not in name]
    files = {name for name in listed if "." in name}
    assert files | {f"{plot}.png" for plot in plots} == written
    again = CliRunner().invoke(cli.app, ["run", str(SMALL), *out[:2], "--plots", "svg"])
    assert again.exit_code == 0, again.stderr
    written = {path.name for path in (tmp_path / "out").iterdir()}
    few = {"report.html", "summary.csv", "summary.json", "scenario.yaml"}
    assert written == few | {f"{plot}.svg" for plot in plots}


def test_a_question_of_ones_own_is_valid_and_runs(tmp_path: Path) -> None:
    (scenario,) = blocks("yaml", page("start"))
    assert scenario.startswith("# ")
    file = tmp_path / "backup.yaml"
    file.write_text(scenario)
    result = simulate(load_scenario(file, ("replications=1", "stop.time=2 s")))
    assert len(result.strategies) == len(load_scenario(file).strategies)


class TestWhyIsItSlow:
    """The section shows what the command prints, and names the files it writes."""

    TEXT = page("how_to/explain")

    def test_what_explain_prints(self) -> None:
        """The matrix, and the details of one strategy."""
        whole, one, *_ = re.findall(r"^\$ varsim (.*)$", self.TEXT, re.M)
        matrix, details = re.findall(r"^```text\n(.*?)^```$", self.TEXT, re.M | re.S)
        wide = {"COLUMNS": "100"}
        done = CliRunner().invoke(cli.app, [*shlex.split(whole), "--quiet"], env=wide)
        assert done.stdout.startswith(matrix)
        done = CliRunner().invoke(cli.app, [*shlex.split(one), "--quiet"])
        assert details in done.stdout

    def test_how_much_is_looked_at(self) -> None:
        words = " ".join(self.TEXT.split())
        assert MOST_REPLICATIONS == 3
        assert f"{MOST_GRADIENTS} gradients, or {LEAST_ROUNDS} of each worker" in words
        assert f"{MOST_GRADIENTS_OF_EVENTS:,} where something happens" in words


class TestSweeps:
    TEXT = page("how_to/sweep")

    def test_the_block_sweeps_the_quickstart(self, tmp_path: Path) -> None:
        (block,) = re.findall(r"^```yaml\n(.*?)^```$", self.TEXT, re.M | re.S)
        path = tmp_path / "swept.yaml"
        path.write_text((ROOT / "scenarios/quickstart.yaml").read_text() + block)
        sweep = load_sweep(path)
        assert len(sweep.points) == 2 * (2 + 3 + 4 + 5)
        assert sweep.precision == 0.02

    def test_every_shown_sweep_is_one(self) -> None:
        shown = [command for command in OF_VARSIM if command[0] == "sweep"]
        assert len(shown) > 4
        for _, file, *rest in shown:
            sets = [rest[i + 1] for i, word in enumerate(rest) if word == "--set"]
            assert load_sweep(ROOT / file, sets).points

    def test_every_key_of_the_block_and_of_a_range(self) -> None:
        schema = file_schema()["$defs"]["Scenario"]["properties"]["sweep"]
        keys = {*schema["properties"], *schema["additionalProperties"]["anyOf"][1]["properties"]}
        prose = re.sub(r"^```.*?^```$", "", self.TEXT, flags=re.M | re.S)
        words = re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", prose)))
        assert keys <= set(words)

    def test_the_files_are_those_listed(self, tmp_path: Path) -> None:
        prices = "prices={device_hour: 2, gigabyte: 0.1}"
        sets = ["cluster.workers=3,4", "cluster.network.latency=1 us,9 us", prices]
        sets += ["targets.loss=0.1", "workload.evaluate_every=4"]
        options = [word for change in sets for word in ("--set", change)]
        out = tmp_path / "out"
        arguments = ["sweep", str(SMALL), *options, "--strategy", "async", "--out", str(out), "-q"]
        done = CliRunner().invoke(cli.app, arguments)
        assert done.exit_code == 0, done.output
        listed = in_first_column(self.TEXT)
        files = {name for name in listed if "." in name}
        plots = {f"{name}.png" for name in listed if "." not in name}
        # Nothing is wasted there.
        assert {path.name for path in out.iterdir()} == (files | plots) - {"wasted.png"}


class TestPlans:
    TEXT = page("how_to/plan")

    def test_the_block_plans_the_small_scenario(self) -> None:
        (block,) = re.findall(r"^```yaml\n(.*?)^```$", self.TEXT, re.M | re.S)
        asked = question_of_text(SMALL.read_text() + block)
        assert asked.combinations == 4 * 3 * 2
        assert asked.tolerance == 0.01
        assert asked.at((0, 2)) is None, "where leaves it out"

    def test_every_shown_plan_is_one(self) -> None:
        shown = [command for command in OF_VARSIM if command[0] == "plan"]
        assert len(shown) >= 2
        for _, file, *rest in shown:
            sets = [rest[i + 1] for i, word in enumerate(rest) if word == "--set"]
            assert load_question(ROOT / file, sets).enumerated

    def test_every_key_and_default(self) -> None:
        schema = file_schema()["$defs"]["Scenario"]["properties"]["plan"]
        prose = re.sub(r"^```.*?^```$", "", self.TEXT, flags=re.M | re.S)
        words = re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", prose)))
        assert set(schema["properties"]) <= set(words)
        said = " ".join(prose.split())
        assert (
            f"Of more than {MOST_CELLS:,} configurations `trials` are tried (default: {TRIALS})"
            in said
        )
        assert f"`most_replications` (default: {plan_question.MOST_REPLICATIONS})" in said
        assert f"`tolerance` (default: {100 * EQUAL_WITHIN:g} %)" in said
        assert f"at least {FRESH} times" in said
        assert f"in batches of {BATCH}" in said

    def test_the_files_are_those_listed(self, tmp_path: Path) -> None:
        (block,) = re.findall(r"^```yaml\n(.*?)^```$", self.TEXT, re.M | re.S)
        path = tmp_path / "planned.yaml"
        path.write_text(SMALL.read_text() + block.replace("300 examples/s", "40 examples/s"))
        out = tmp_path / "out"
        done = CliRunner().invoke(cli.app, ["plan", str(path), "--out", str(out), "-q"])
        assert done.exit_code == 0, done.output
        listed = in_first_column(self.TEXT)
        files = {name for name in listed if "." in name}
        plots = {f"{name}.png" for name in listed if "." not in name}
        assert {path.name for path in out.iterdir()} == files | plots


class TestWatchingVariables:
    """The section shows what the commands print, and every key there is."""

    TEXT = page("how_to/variables")
    PRINTED = re.findall(r"^```text\n(.*?)^```$", TEXT, re.M | re.S)
    COMMANDS = re.findall(r"^\$ varsim (.*)$", TEXT, re.M)

    def words(self) -> set[str]:
        """All `code`, word by word."""
        tables = re.sub(r"^```.*?^```$", "", self.TEXT, flags=re.M | re.S)
        return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", tables))))

    def test_what_run_prints(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "100")
        out = ["--out", str(tmp_path / "out"), "--quiet", "--rows"]
        arguments = [*self.COMMANDS[0].split(), *out]
        done = CliRunner().invoke(cli.app, arguments)
        assert done.exit_code == 0, done.stderr
        *lines, report = (line.rstrip() for line in done.stdout.splitlines())
        assert report.startswith("report: ")
        assert "\n".join(lines) + "\n" == self.PRINTED[0]
        files = re.findall(r"`(\w+\.\w+)`", self.TEXT.partition("- A run writes ")[2])
        assert len(files) > 4
        assert set(files) <= {path.name for path in (tmp_path / "out").iterdir()}

    def test_what_explain_prints(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "100")
        done = CliRunner().invoke(cli.app, self.COMMANDS[1].split())
        assert done.exit_code == 0, done.stderr
        assert done.stdout.endswith(self.PRINTED[1])
        assert self.PRINTED[1].startswith("on_read: ")

    def test_every_key_and_every_action(self) -> None:
        general = {"kind", "name", "seed", "replications"}
        first = in_first_column(self.TEXT)
        own = set(VariablesScenario.model_fields) - general
        assert set(first) == own | set(REPLICA_ACTIONS) | set(CROSS_REPLICA_ACTIONS)
        models = [VariableDescription, Program, NormalElements]
        models += [*REPLICA_ACTIONS.values(), *CROSS_REPLICA_ACTIONS.values()]
        keys = {key for model in models for key in model.model_fields} - {"kind", "variable"}
        assert keys <= self.words()
        values = {"on_write", "on_read", "none", "ring", "hierarchical_copy", "float32", "float64"}
        values |= {"reduction_to_one_device", "int32", "int64", "sum", "mean", "only_first_replica"}
        assert values <= self.words()
        assert {"workers", "network", "compute", "slow_workers"} <= self.words()

    def test_who_may_do_what(self) -> None:
        rows = [line.split("|")[1:3] for line in self.TEXT.splitlines() if line.startswith("| `")]
        told = {
            kind: by.strip()
            for kinds, by in rows
            for kind in re.findall("`(.*?)`", kinds)
            if by.strip() in {"replicas", "outside", "both"}
        }
        allowed = dict.fromkeys(REPLICA_ACTIONS, "replicas")
        for kind in CROSS_REPLICA_ACTIONS:
            allowed[kind] = "both" if kind in allowed else "outside"
        assert told == allowed


def test_the_strategies_are_those_of_the_table() -> None:
    assert in_first_column(page("reference/strategies"))[:1] == ["on_write"]
    kinds = [
        line.split("`")[1]
        for line in page("reference/strategies").splitlines()
        if line.startswith("| `")
    ]
    own = {kind for kind, model in STRATEGIES.items() if model.__module__.startswith("varsim.")}
    assert set(kinds) <= own


def test_the_python_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    names: dict[str, Any] = {}
    for example in blocks("python", page("how_to/python")):
        exec(compile(example, "python.md", "exec"), names)
    assert "on_write" in capsys.readouterr().out
    assert len(names["waiting"]) > 0
    assert names["page"].exists()
    assert (tmp_path / "timeline.html").exists()
    assert names["waits"]["on_write"].mean == 5


@pytest.mark.slow
@pytest.mark.product
def test_two_places_make_a_strategy(tmp_path: Path) -> None:
    """The shown file and its line in the table are all that a copy of the package needs."""
    shutil.copytree(
        ROOT / "varsim", tmp_path / "varsim", ignore=shutil.ignore_patterns("__pycache__")
    )
    own = page("how_to/own_strategy")
    (source,) = blocks("python", own)
    (tmp_path / "varsim/strategies/lazy_reader.py").write_text(source)
    table = tmp_path / "varsim/strategies/__init__.py"
    line = re.search(r"`(\"lazy_reader\": LazyReader)`", own)
    assert line is not None
    text, count = re.subn(
        r"(STRATEGIES.*= \{\n)",
        "from varsim.strategies.lazy_reader import LazyReader\n\\1    " + line[1] + ",\n",
        table.read_text(),
    )
    assert count == 1
    table.write_text(text)
    scenario = tmp_path / "lazy.yaml"
    scenario.write_text(
        SMALL.read_text().replace("{kind: on_write}", "{kind: lazy_reader, read_every: 3}")
    )

    def varsim(*arguments: str) -> str:
        command = [sys.executable, "-m", "varsim", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "only every few steps" in varsim("list", "strategies")
    assert "lazy_reader" in varsim("schema")
    a_step_and_an_update = r"lazy_reader +[0-9.]+ ms +[0-9.]+ ms "  # as its round is one worker's
    assert re.search(a_step_and_an_update, varsim("check", "lazy.yaml"))
    assert "lazy_reader" in varsim("run", "lazy.yaml")
