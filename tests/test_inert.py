"""Names of others are shown, and do nothing: on a terminal, a page, in Markdown and in CSV."""

import csv
import gzip
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.seams import app as cli

NAMES = [
    "<script>document.title='PWNED1'</script>",
    "<img src=x onerror=document.title='PWNED2'>",
    "</style><script>document.title='PWNED3'</script>",
    "]]></svg><svg onload=document.title='PWNED4'>",
    "{{7*7}}${7*7}{% raw %}",
    "[red]x[/red][link=http://a]l[/link]",
    "=cmd|' /C calc'!A0",
    "\" onmouseover=document.title='PWNED5' x=\"",
    "+1",
    "@SUM(A1)",
    "-2",
    "'quoted'",
    "\u202egnp.exe",
    "&lt;b&gt;&amp;",
    "|a|b|`x`**z**",
    "![a](http://example.org/a.png)",
    "-->'; DROP",
]
UNSEEN = "\x1b\x9b\x7f\u202e\u202a\u2066\u2069\u200f\u061c\ufeff\U000e0041"
TEXT = f"""\
# <script>document.title='PWNED6'</script> =1+1 ![x](http://example.org/x.png) \u202e|a?
name: inj
seed: 1
replications: 2
cluster:
  workers: 2
  compute: {{kind: lognormal, mean: 100 ms, sigma: 0.2}}
  network: {{kind: star, bandwidth: 10 Gbit/s, latency: 20 us}}
workload: {{problem: {{kind: timing, size: 1 MB}}, batch_size: 8}}
strategies:
{"".join(f"  - {{kind: none, name: {json.dumps(name)}}}{chr(10)}" for name in NAMES)}\
stop: {{global_steps: 4}}
"""


def varsim(*arguments: object) -> str:
    done = CliRunner().invoke(cli.app, list(map(str, arguments)))
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, a sweep and an explanation of strategies with such names."""
    there = tmp_path_factory.mktemp("inert")
    (there / "inj.yaml").write_text(TEXT, encoding="utf-8")
    swept = TEXT + "sweep: {cluster.workers: [2, 3], most_replications: 2}\n"
    (there / "swept.yaml").write_text(swept, encoding="utf-8")
    (there / "run.txt").write_text(varsim("run", there / "inj.yaml", "--out", there / "run", *ROWS))
    (there / "sweep.txt").write_text(
        varsim("sweep", there / "swept.yaml", "--out", there / "swept")
    )
    names = [part for name in NAMES[6:8] for part in ("--strategy", name)]
    varsim("explain", there / "inj.yaml", "--out", there / "why", *names)
    return there


ROWS = ("--rows", "--plots", "svg")


@pytest.mark.parametrize("file", ["run/updates.csv", "run/summary.csv", "swept/results.csv"])
def test_no_cell_of_text_is_a_formula_and_numbers_stay_numbers(directory: Path, file: str) -> None:
    with (directory / file).open(encoding="utf-8", newline="") as lines:
        head, *rows = list(csv.reader(lines))
    strategy = head.index("strategy")
    assert {row[strategy].removeprefix("'") for row in rows} == set(map(visible, NAMES))
    for row in rows:
        assert not row[strategy].startswith(("=", "+", "-", "@"))
        for cell in row:
            if cell.startswith(("=", "+", "-", "@", "\t", "\r")):
                float(cell)


@pytest.mark.parametrize("page", ["run/report.html", "swept/report.html", "why/why.html"])
def test_a_page_runs_no_foreign_script_and_says_so_to_the_browser(
    directory: Path, page: str
) -> None:
    text = (directory / page).read_text(encoding="utf-8")
    policy = text.index('http-equiv="Content-Security-Policy"')
    assert policy < text.index("<title>")
    own = text.count("<script>")  # of every page; the player or the chart
    assert own == (1 if page.startswith("why/") else 2)
    hashes = " ".join(["'sha256-[^' ]*'"] * own)
    assert re.match(rf".*\"default-src 'none'; script-src {hashes}; ", text[policy : policy + 250])
    data = text.count('<script type="application/json"')  # of the player or the chart
    assert data == (0 if page.startswith("why/") else 1)
    assert text.count("<script") == own + data
    for begun in ("<img", "<svg onload", "</style><s"):
        assert begun not in text
    assert not set(UNSEEN) & set(text)


@pytest.mark.parametrize("file", ["run.txt", "sweep.txt"])
def test_nothing_acts_on_a_terminal(directory: Path, file: str) -> None:
    text = (directory / file).read_text()
    assert not set(UNSEEN) & set(text)
    assert r"\u202egnp.exe" in text
    assert "[red]x[/red]" in text


def test_markdown_has_no_markup_of_names(directory: Path) -> None:
    printed = varsim("run", directory / "inj.yaml", "--out", directory / "md", "--format", "md")
    explained = (directory / "why" / "why.md").read_text(encoding="utf-8")
    for text in (printed, explained):
        assert "<" not in text
        assert "](http" not in text
        assert not set(UNSEEN) & set(text)
    assert r"| \|a\|b\|\`x\`\*\*z\*\* |" in printed
    assert "&amp;lt;b&amp;gt;&amp;amp;" in printed


def test_figures_and_traces_have_no_unseen_characters(directory: Path) -> None:
    for path in (directory / "run").glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        assert not set(UNSEEN) & set(text)
        assert "<script" not in text
    with gzip.open(directory / "run" / "trace.json.gz", "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    named = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert named == set(map(visible, NAMES))


def test_complaints_are_shown_alike(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text('strategies: "\u202e\x9b31m"\n', encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["check", str(tmp_path / "a.yaml")])
    assert done.exit_code == 2
    assert not set(UNSEEN) & set(done.stderr)


def visible(text: str) -> str:
    """A text whose letters that act unseen are escaped."""
    return "".join(escape(one) if one in UNSEEN else one for one in text)


def escape(letter: str) -> str:
    """As JSON writes it."""
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
