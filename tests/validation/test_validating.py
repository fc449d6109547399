"""python -m validation: which sections, what it prints, writes and returns."""

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.building import scenario
from tests.seams import dump_scenario
from tests.validation.points import point, with_unit
from validation.command import app
from validation.points.point import bundled_points

SCENARIOS = Path(__file__).parent.parent.parent / "scenarios"


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments), "--jobs", "1"])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


MIXED = (
    point(),
    point(id="sync-01", parameters={"mode": "sync", "n": 8, "T": 1.0, "f": 4.0}, expected=2.0),
    point(id="new-01", family="<new|er>", parameters={}),
)


def test_a_file_of_points_that_pass(folder: Path) -> None:
    result = invoke("--points", with_unit(folder, *MIXED))

    assert result.exit_code == 0, result.stderr
    assert "2 of 2 lines keep their bound" in result.stdout
    assert "1 were not run" in result.stdout
    assert "closed forms: 2 of 2 points simulated" in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["points.json"], "a part is not kept"


def test_a_point_that_misses(folder: Path) -> None:
    result = invoke("--points", with_unit(folder, *MIXED, point(id="off", expected=7.3)))

    assert result.exit_code == 3
    assert "missed: slow-worker: off: expected 7.3 1/s, got 7.25, -0.68 %" in result.stdout
    assert result.stderr.splitlines()[-1] == "varsim: 1 lines miss their bound"


def test_only_what_fits(folder: Path) -> None:
    path = with_unit(folder, *MIXED)

    assert "1 of 1 lines" in invoke("--points", path, "--only", "sync-*").stdout
    assert "2 of 2 lines" in invoke("--points", path, "--only", "low-wor").stdout
    nothing = invoke("--points", path, "--only", "absent")
    assert (nothing.exit_code, nothing.stdout) == (2, "")
    assert nothing.stderr.splitlines()[-1].endswith("no family, experiment or point fits 'absent'")


def test_the_report(folder: Path) -> None:
    path = with_unit(folder, *MIXED, point(id="off", expected=7.3))
    result = invoke("--points", path, "--out", "here", "--quiet")

    assert result.stdout.splitlines()[-1] == "report: here/index.html"
    here = folder / "here"
    names = {file.name for file in here.iterdir()}
    assert {"index.md", "index.html", "closed_forms.md", "lines.csv", "agreement.svg"} <= names
    index = (here / "index.md").read_text()
    assert f"Made by `python -m validation --points {path} --out here`." in index
    assert "| Closed forms | 4 | 2 | 1 | 0 | 1 |" in index
    assert "| &lt;new\\|er> | 1 | not run | a family that is not known |" in index
    assert "nothing is random here" in index
    page = (here / "index.html").read_text()
    assert "&lt;new|er&gt;" in page
    assert "<new" not in page
    with (here / "lines.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert [row["verdict"] for row in rows] == ["pass", "pass", "not run", "miss"]
    assert float(rows[0]["got"]) == 7.25

    first = {file.name: file.read_bytes() for file in here.iterdir()}
    invoke("--points", path, "--out", "here", "--quiet")
    assert {file.name: file.read_bytes() for file in here.iterdir()} == first


@pytest.mark.parametrize("option", ["--points", "--published"])
def test_a_file_that_is_not_there(option: str) -> None:
    result = invoke(option, "nowhere.json", "--quiet")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("varsim: nowhere.json: ")
    assert len(result.stderr.splitlines()) == 1


def test_options_that_do_not_go_together(folder: Path) -> None:
    result = invoke("--equivalences", "--points", folder)

    assert result.exit_code == 2
    assert "goes with --scenario" in " ".join(result.stderr.split())


class TestEquivalences:
    def test_of_a_scenario_of_ones_own(self, folder: Path) -> None:
        path = folder / "mine.yaml"
        path.write_text(dump_scenario(scenario({"kind": "none"}, workload={"batch_size": 2})))
        result = invoke("--equivalences", "--scenario", path, "--out", "here")

        assert result.exit_code == 0, result.stderr
        assert "lines keep their bound" in result.stdout
        index = (folder / "here" / "index.md").read_text()
        assert (
            f"Made by `python -m validation --equivalences --scenario {path} --out here`." in index
        )
        assert "| sharding keeps the values | 6 | 6 | 0 |" in index
        assert not (folder / "here" / "agreement.png").exists(), "all are 0, or nearly"

    def test_of_variables(self) -> None:
        result = invoke("--equivalences", "--scenario", SCENARIOS / "batch_norm.yaml")
        assert result.exit_code == 2
        assert "this is kind: variables" in result.stderr


def test_it_replaces_only_what_it_wrote(folder: Path) -> None:
    out = folder / "out"
    command = (
        "--only",
        "coll-tree-*",
        "--points",
        bundled_points()[0],
        "--out",
        out,
        "--quiet",
    )
    for name in ("index.html", "lines.csv", "measured.md", "notes.txt"):
        out.mkdir()
        (out / name).write_text("mine")
        assert invoke(*command).exit_code == 2
        assert [path.name for path in out.iterdir()] == [name]
        assert (out / name).read_text() == "mine"
        (out / name).unlink()
        out.rmdir()
    assert invoke(*command).exit_code == 0
    (out / "README.md").write_text("mine")
    assert invoke(*command).exit_code == 0
    assert (out / "README.md").read_text() == "mine"
