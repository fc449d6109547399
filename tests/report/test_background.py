"""What a scenario says of itself stands on its page as long as nothing makes it wrong."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.seams import app as cli

SMALL = (Path(__file__).parent.parent / "small.yaml").read_text(encoding="utf-8")
FIRST = "Is it fast?"
HEAD = f"""\
# {FIRST}
# It makes 12 updates,
# and <b>none</b> is lost.
#
# That is all.

# This is no part of it.
"""
SWEEP = "sweep:\n  cluster.workers: [3, 4]\n"


def page_of(*arguments: object) -> str:
    told = CliRunner().invoke(cli.app, [str(one) for one in arguments])
    assert told.exit_code == 0, told.output
    return (Path(str(arguments[3])) / "report.html").read_text(encoding="utf-8")


def said(page: str) -> list[str]:
    asked = re.findall(r"<h1>[^<]*? · (.*?)</h1>", page)
    return asked + re.findall(r'<p class="(?:question|background)">(.*?)</p>', page)


WHOLE = [FIRST, "It makes 12 updates, and &lt;b&gt;none&lt;/b&gt; is lost.", "That is all."]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(HEAD + SMALL.partition("\n")[2], encoding="utf-8")
    return path


def test_all_of_it_is_told_of_the_file_as_it_is(file: Path, tmp_path: Path) -> None:
    page = page_of("run", file, "--out", tmp_path / "out")
    assert said(page) == WHOLE
    again = page_of("run", tmp_path / "out/scenario.yaml", "--out", tmp_path / "again")
    assert said(again) == WHOLE, "the written scenario begins with it, too"


@pytest.mark.parametrize(
    "option",
    ["--seed=9", "--replications=1", "--strategy=none"],
)
def test_of_a_changed_one_the_first_line_alone(file: Path, tmp_path: Path, option: str) -> None:
    page = page_of("run", file, "--out", tmp_path / "out", option)
    assert said(page) == [FIRST]
    assert (tmp_path / "out/scenario.yaml").read_text().startswith(f"# {FIRST}\nname")


def test_of_one_changed_by_set_nothing(file: Path, tmp_path: Path) -> None:
    """Numbers and words of the file are of the file alone."""
    page = page_of("run", file, "--out", tmp_path / "out", "--set=cluster.workers=4")
    assert said(page) == []
    assert (tmp_path / "out/scenario.yaml").read_text().startswith("name")
    file.write_text(file.read_text(encoding="utf-8") + SWEEP, encoding="utf-8")
    changed = "--set=cluster.workers=4,5"
    assert said(page_of("sweep", file, "--out", tmp_path / "sweep", "--quiet", changed)) == []


def test_of_a_sweep_too(file: Path, tmp_path: Path) -> None:
    file.write_text(file.read_text(encoding="utf-8") + SWEEP, encoding="utf-8")
    out, other = tmp_path / "out", tmp_path / "other"
    assert said(page_of("sweep", file, "--out", out, "--quiet")) == WHOLE
    assert said(page_of("sweep", file, "--out", other, "--quiet", "--seed=4")) == [FIRST]


def test_a_file_that_says_nothing_has_none(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(re.sub("(?m)^#.*\n", "", SMALL), encoding="utf-8")
    assert said(page_of("run", path, "--out", tmp_path / "out")) == []


def test_its_items_and_commands_stay_what_they_are(file: Path, tmp_path: Path) -> None:
    more = """\
#
# Of two kinds:
# - the first, which goes
#   on in a second line
# - the second
#
#   varsim run small.yaml \\
#       --set 'seed=<3>'
"""
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("#\n# That is all.\n", more + "#\n# That is all.\n"), "utf-8")
    page = page_of("run", file, "--out", tmp_path / "out")
    assert said(page) == [*WHOLE[:2], "Of two kinds:", WHOLE[2]]
    (items,) = re.findall(r'<ul class="background">(.*?)</ul>', page, re.DOTALL)
    assert re.findall("<li>(.*)</li>", items) == [
        "the first, which goes on in a second line",
        "the second",
    ]
    command = "varsim run small.yaml \\\n    --set &#x27;seed=&lt;3&gt;&#x27;</code></pre>"
    assert f'aria-label="A command"><code>{command}' in page
    written = (tmp_path / "out/scenario.yaml").read_text(encoding="utf-8")
    assert more in written, "and in the written scenario"
