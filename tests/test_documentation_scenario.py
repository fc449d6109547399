"""Pages on the scenario file: scenarios answer as shown, and what they say to write is valid."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from tests.pages import ROOT, blocks, page
from tests.seams import app as cli
from tests.seams import load_scenario

PAGES = [f"scenario/{path.stem}" for path in sorted((ROOT / "docs/scenario").glob("*.md"))]
# What else a value of this key takes, or takes the place of.
BESIDE = {
    "cluster.compute": ("cluster.device=null",),
    "cluster.device": ("cluster.compute=null",),
    "cluster.partitioner": ("cluster.placement=round_robin",),
    "workload.layers": ("workload.model=null",),
}
# What is marked and is no key, value or name in the tables: rules, a profile, a column, PyTorch's.
OTHERS = {"by_flops", "gnmt", "fits_memory", "no_sync", "run", "check", "explain"}
_READ = YAML(typ="safe", pure=True)


def written(name: str) -> list[tuple[str, ...]]:
    """What a page says to write: changes of its first scenario, as `--set` takes them."""
    found = []
    for section in re.split(r"^## ", page(name), flags=re.M)[1:]:
        found += [tuple(_changes(_READ.load(block))) for block in blocks("yaml", section)]
        heading = re.search(r"`([a-z_.0]+)`", section.partition("\n")[0])
        prose = re.sub(r"^```.*?^```$", "", section, flags=re.M | re.S)
        if heading:
            spans = re.findall(r"`(\[?\{\w+: [^`]*)`", prose)
            found += [(*BESIDE.get(heading[1], ()), f"{heading[1]}={span}") for span in spans]
    return found


def _changes(block: dict[str, Any]) -> list[str]:
    changes = []
    for key, value in block.items():
        nested = key in ("cluster", "workload")
        parts = {f"{key}.{one}": part for one, part in value.items()} if nested else {key: value}
        for path, part in parts.items():
            changes += [*BESIDE.get(path, ()), f"{path}={json.dumps(part)}"]
    return changes


@pytest.mark.parametrize("name", PAGES)
def test_its_scenario_answers_as_shown(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page(name)
    (file,) = re.findall(r"`varsim run ([^` ]*)` answers:", text)
    Path(file).write_text(blocks("yaml", text)[0])
    done = CliRunner().invoke(cli.app, ["run", file, "--no-plots", "--quiet"])
    assert done.exit_code in (0, 3), done.stderr
    (shown,) = blocks("text", text)
    assert " ".join(shown.split()) in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("name", "changes"),
    [(name, changes) for name in PAGES for changes in written(name)],
    ids=lambda part: part if isinstance(part, str) else part[-1],
)
def test_what_it_says_to_write_is_valid(
    name: str, changes: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "steps.csv").write_text("worker,seconds\n0,0.1\n1,0.2\n")
    file = tmp_path / "page.yaml"
    file.write_text(blocks("yaml", page(name))[0])
    load_scenario(file, changes)


def test_every_word_that_it_marks_can_be_written() -> None:
    """Keys, kinds and values of a scenario, names of presets, files and options."""
    known = set(re.findall(r'"([^"]+)"', _output("schema")))
    (tables,) = re.findall(r"There are\s([^.]*)\.", _output("list", "--help"))
    for table in tables.replace("\n", " ").split(","):
        names, _, _ = _output("list", table.strip()).partition("\n\n")
        known |= {line.split()[0] for line in names.splitlines()}
    text = "".join(re.sub(r"^```.*?^```$", "", page(name), flags=re.M | re.S) for name in PAGES)
    marked = set(re.findall(r"`([a-z_0-9]+)`", text))
    assert len(marked) > 100
    assert marked - known == OTHERS


def _output(*words: str) -> str:
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.stderr
    return done.stdout
