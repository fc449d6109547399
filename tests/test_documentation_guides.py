"""What the guides show is what happens: printed output, exit codes; words lead to their places."""

import csv
import importlib
import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import varsim
from tests.pages import ROOT, blocks, page
from tests.seams import app as cli
from varsim import __version__
from varsim.cluster.network.topologies import NETWORKS
from varsim.learning.problem import ALL_PROBLEMS
from varsim.report import wording
from varsim.report.told import Number

# Words of the glossary that stand otherwise where they show.
STEMS = {
    "confidence interval": "interval",
    "global step": "global_step",
    "inner and outer step": "*outer*",
    "mirrored variable": "mirrored copies",
    "speed-up": "speedup",
    "time split": "where the time went",
}


def test_parts_of_ones_own_print_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    text = page("how_to/own_problem")
    names: dict[str, object] = {"__name__": "own_problem"}
    try:
        for code in blocks("python", text):
            exec(compile(code, "own_problem.md", "exec"), names)
    finally:
        for table in (ALL_PROBLEMS, NETWORKS):
            table.registered.clear()
    assert capsys.readouterr().out == "".join(blocks("text", text))


def test_a_trace_is_read_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    text = page("how_to/trace")
    (command,) = re.findall(r"^\$ varsim (.*)$", text, re.M)
    assert CliRunner().invoke(cli.app, [*shlex.split(command), "--quiet"]).exit_code == 0
    (code,) = blocks("python", text)
    capsys.readouterr()
    exec(compile(code, "trace.md", "exec"), {})
    assert capsys.readouterr().out == blocks("text", text)[0]


def test_recorded_runs_become_a_scenario_that_predicts_others_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "validation").symlink_to(ROOT / "validation")
    said = ""
    for command in re.findall(r"^\$ varsim (.*)$", page("how_to/record"), re.M):
        done = CliRunner().invoke(cli.app, shlex.split(command))
        assert done.exit_code == 0, done.stderr
        said += done.stdout
    (shown,) = blocks("text", page("how_to/record"))
    assert " ".join(shown.split()) in " ".join(said.split())
    assert CliRunner().invoke(cli.app, ["run", "measured.yaml", "--no-plots"]).exit_code == 0


@pytest.mark.slow
@pytest.mark.product
@pytest.mark.parametrize(
    ("command", "printed"),
    re.findall(r"^\$ varsim ([^\n]*)\n```\n\n```text\n(.*?)^```$", page("tutorials"), re.M | re.S),
    ids=lambda text: text.partition(".yaml")[0].partition("/")[2],
)
def test_a_tutorial_shows_what_is_printed(
    command: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    out = [] if command.startswith("explain") else ["--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli.app, [*shlex.split(command), *out, "--quiet"])
    assert done.exit_code == 0, done.stderr
    assert " ".join(printed.split()) in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "name",
    [
        "reference/command_line",
        pytest.param("how_to/plan", marks=pytest.mark.slow),  # 25 s
        pytest.param("how_to/sweep", marks=[pytest.mark.slow, pytest.mark.product]),
        pytest.param("how_to/tune", marks=[pytest.mark.slow, pytest.mark.product]),
    ],
)
def test_a_guide_shows_what_its_first_command_prints(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")
    command = re.findall(r"^\$ varsim (.*)$", page(name), re.M)[0]
    out = ["--out", str(tmp_path / "out")] if command.startswith(("plan", "sweep")) else []
    done = CliRunner().invoke(cli.app, [*shlex.split(command), *out])
    assert done.exit_code == 0, done.stderr
    shown, *_ = blocks("text", page(name))
    assert " ".join(shown.split()) in " ".join(done.stdout.split())


@pytest.mark.slow
@pytest.mark.product
@pytest.mark.parametrize(("name", "files"), [("how_to/real_job", 2), ("recipes", 4)])
def test_files_of_a_page_answer_as_shown(
    name: str, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page(name)
    commands = re.findall(r"`varsim ((?:run|sweep|explain) [^`]*)` answers:", text)
    assert len(commands) == files
    for command, file, shown in zip(
        commands, blocks("yaml", text), blocks("text", text), strict=True
    ):
        (tmp_path / shlex.split(command)[1]).write_text(file)
        done = CliRunner().invoke(cli.app, [*shlex.split(command), "--quiet"])
        assert done.exit_code == 0, done.stderr
        assert " ".join(shown.split()) in " ".join(done.stdout.split())


@pytest.mark.slow
@pytest.mark.product
def test_what_a_month_keeps_is_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page("how_to/failures")
    (tmp_path / "thousand_gpus.yaml").write_text(blocks("yaml", text)[0])
    (command,) = re.findall(r"`varsim (run [^`]*)` says:", text)
    done = CliRunner().invoke(cli.app, [*shlex.split(command), "--quiet"])
    assert done.exit_code == 3, done.stderr  # the target is undecided
    assert " ".join(blocks("text", text)[0].split()) in " ".join(done.stdout.split())
    for command, shown in re.findall(r"`varsim (sweep [^`]*)` has\s([^%]*) %", text):
        done = CliRunner().invoke(cli.app, [*shlex.split(command), "--quiet", "--format", "csv"])
        assert done.exit_code == 0, done.stderr
        rows = [*csv.DictReader(done.stdout.splitlines())]
        for row, said in zip(rows, re.findall(r"[0-9.]+", shown), strict=True):
            kept = 100 * float(row["goodput"])
            assert f"{kept:.{len(said.partition('.')[2])}f}" == said


def test_what_a_month_keeps_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page("how_to/failures")
    month, _, swept = blocks("yaml", text)
    (tmp_path / "month.yaml").write_text(month + swept)
    base = ["month.yaml", "--quiet"]
    done = CliRunner().invoke(
        cli.app, ["sweep", *base, "--no-plots", "--jobs", "1", "--format", "csv"]
    )
    rows = [*csv.DictReader(done.stdout.splitlines())]
    beside, stopping = re.findall(
        r"asynchronous write leaves ([0-9.]+) % instead\s+of ([0-9.]+) %", text
    )[0]
    kept = [f"{100 * float(row['goodput']):.1f}" for row in rows]
    assert kept == [stopping, beside]
    (tmp_path / "month.yaml").write_text(month)
    (best,) = re.findall(r"say how long that is, ([0-9.]+ min) of\s+work", text)
    done = CliRunner().invoke(cli.app, ["check", "month.yaml"])
    assert f"The optimal checkpoint interval is {best}." in done.stdout


@pytest.mark.slow
@pytest.mark.product
def test_what_many_months_keep_and_what_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page("how_to/failures")
    (tmp_path / "month.yaml").write_text(blocks("yaml", text)[0])
    base = ["month.yaml", "--quiet"]
    many = ["--no-plots", "--replications", "200", "--format", "json"]
    done = CliRunner().invoke(cli.app, ["run", *base, *many])
    assert done.exit_code == 0, done.stderr  # the target is met
    (worst,) = re.findall(r"the worst month keeps ([0-9.]+ %)", text)
    (kept,) = (one for one in json.loads(done.stdout)["summary"] if one["metric"] == "goodput")
    assert f"{min(kept['values']):.1%}".replace("%", " %") == worst
    said = " ".join(CliRunner().invoke(cli.app, ["explain", *base, "--all"]).stdout.split())
    (gains,) = re.findall(r"faster writes, .*? spares, [0-9.]+[0-9]", text, re.S)
    for gain in re.findall(r"[0-9]\.[0-9]+", gains):
        assert f"{gain} ±" in said
    assert re.search("one hot spare more [0-9.]+ % 0 points", said)


@pytest.mark.slow
def test_a_plan_of_a_month_takes_what_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page("how_to/failures")
    (tmp_path / "month.yaml").write_text("".join(blocks("yaml", text)[:2]))
    done = CliRunner().invoke(cli.app, ["plan", "month.yaml", "--quiet"])
    assert done.exit_code == 0, done.stderr
    told = re.search(r"takes (\d+) spares .* with (\d+) it is ([0-9.]+) % cheaper, but then", text)
    assert told
    said = " ".join(done.stdout.split())
    best, fewer, cheaper = told.groups()
    answer = re.search(rf"target: ([0-9.]+) USD [a-z -]+, .* with hot = {best}, every = opt", said)
    closest = re.search(rf"hot = {fewer}, every = optimal, at ([0-9.]+) USD, reaches", said)
    assert answer
    assert closest
    assert f"{100 * (1 - float(closest[1]) / float(answer[1])):.1f}" == cheaper


@pytest.mark.parametrize("name", ["how_to/real_job", "validation"])
def test_errors_that_are_told_are_those_of_the_last_validation(name: str) -> None:
    index = (ROOT / "reports" / "validation" / "index.md").read_text(encoding="utf-8")
    told = " ".join(page(name).split())
    found = re.search(r"constant of their own: (\d+) rows of (\d+) models off by (\S+)%", index)
    measured = re.search(r"## Measured runs.*?Median error (\S+ %)", index, re.S)
    closed = re.search(r"(\d+) of (\d+) lines keep their bound", index)
    assert found
    assert measured
    assert closed
    rows, models, error = found.groups()
    for said in (f"{error} %", measured[1]):
        assert said in told
    if name == "validation":
        assert f"{int(closed[2]) - int(closed[1])} of {closed[2]} lines" in told
    else:
        assert f"{rows} published rows of {models} models" in told


def test_the_first_answer_is_what_is_read_line_by_line() -> None:
    (printed,) = blocks("text", (ROOT / "README.md").read_text(encoding="utf-8"))
    said = re.findall(r"^- \*([^*]+)\*:", page("start"), re.M)
    assert len(said) == 4
    for words in said:
        assert words in " ".join(printed.split()), words


def test_the_first_question_of_ones_own_has_the_answer_that_is_told() -> None:
    (text,) = blocks("yaml", page("start"))
    told = " ".join(page("start").split())
    result = varsim.load(text, strategies=["no backup", "one backup"]).run()

    def said(name: str, metric: str, unit: str = "") -> str:
        number = Number.of(result.estimate(name, metric), unit)
        return wording.unheld(wording.shown(number))

    for name in result.strategies:
        for number in (said(name, "examples_per_s"), said(name, "time_to_target", "s")):
            assert number in told, (name, number)
    wasted = said("one backup", "wasted_compute", "share")
    assert f"{wasted} of the computing is wasted" in told


def test_a_target_decides_how_a_run_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = re.findall(r"^\$ varsim (.*)$", page("how_to/targets"), re.M)
    ends = [
        CliRunner().invoke(cli.app, [*shlex.split(one), "--out", str(tmp_path)]).exit_code
        for one in shown
    ]
    assert ends == [0, 3]


def test_what_is_cited_is_this_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    (entry,) = blocks("bibtex", page("citing"))
    for said in (f"version: {__version__}\n", f'title: "{re.search("title   = {(.*)}", entry)[1]}'):  # type: ignore[index]
        assert said in citation
    assert f"version = {{{__version__}}}" in entry


def test_every_word_of_the_glossary_leads_to_where_it_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    directives = importlib.import_module("generated").DIRECTIVES
    rows = re.findall(r"^\| (.+?) \| .* \| \[.*?\]\((\S+?)\) \|$", page("glossary"), re.M)
    words = [word for word, _ in rows]
    assert len(words) > 30
    assert words == sorted(words, key=str.lower)
    for word, target in rows:
        there = page(target.removesuffix(".md"))
        made = [directives[name]() for name in re.findall(r"^```\{(varsim-[\w-]+)\}", there, re.M)]
        there = "\n".join([there, *(line for lines in made for line in lines)]).lower()
        assert STEMS.get(word, word).lower() in there, (word, target)
