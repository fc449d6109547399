"""No command replaces, changes or removes what it did not write, whatever it is called."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.commands.test_places import BASE, PLAN, SWEEP
from tests.seams import app as cli
from tests.storing import KINDS

STEPS = "worker,step,seconds\n" + "".join(
    f"{worker},{step},{0.1 + 0.01 * ((7 * step + worker) % 5)}\n"
    for step in range(60)
    for worker in range(2)
)
# What writes into a directory: the command, and what kind of results that are.
WRITERS = {
    "run": ["run", "plain.yaml"],
    "sweep": ["sweep", "sweep-tiny.yaml"],
    "plan": ["plan", "plan-tiny.yaml"],
    "why": ["explain", "plain.yaml"],
    "stragglers": ["stragglers", "steps.csv"],
}
every_writer = pytest.mark.parametrize("kind", list(WRITERS))


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the commands are given."""
    monkeypatch.chdir(tmp_path)
    texts = {"plain": BASE, "sweep-tiny": SWEEP, "plan-tiny": PLAN}
    for name, text in texts.items():
        Path(f"{name}.yaml").write_text(text)
    Path("steps.csv").write_text(STEPS)


def varsim(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, arguments)))


def written(kind: str, out: Path, *more: str) -> Result:
    return varsim(*WRITERS[kind], "--out", out, *more)


def contents(directory: Path) -> dict[str, object]:
    """All there is, links as such."""
    return {
        str(path.relative_to(directory)): os.readlink(path)
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in directory.rglob("*")
    }


@every_writer
def test_files_of_somebody_are_refused_whatever_they_are_called(kind: str, tmp_path: Path) -> None:
    for name in [*sorted(KINDS[kind].files), ".lock", "notes.txt"]:  # type: ignore[index]
        out = tmp_path / "theirs" / name.replace(".", "_")
        out.mkdir(parents=True)
        (out / name).write_text("mine")
        done = written(kind, out)
        assert done.exit_code == 2, (name, done.stderr)
        assert str(out) in done.stderr
        assert "name another directory" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert contents(out) == {name: b"mine"}


@every_writer
def test_what_somebody_put_beside_results_is_kept(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert written(kind, out).exit_code == 0
    theirs = {".lock": "mine", "notes.txt": "mine", "report.html.bak": "mine"}
    for name, text in theirs.items():
        (out / name).write_text(text)
    (out / "drafts").mkdir()
    (out / "drafts" / "summary.json").write_text("mine")
    (out / "latest").symlink_to("drafts")
    before = contents(out)
    assert written(kind, out).exit_code == 0
    after = contents(out)
    assert after.keys() == before.keys()
    for name in (*theirs, "drafts/summary.json", "latest", "drafts"):
        assert after[name] == before[name]


@every_writer
@pytest.mark.parametrize("what", ["link", "directory"])
def test_a_link_or_directory_under_one_of_our_names_is_left_alone(
    kind: str, what: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert written(kind, out).exit_code == 0
    name = sorted(name for name in KINDS[kind].files if name.endswith(".png"))[0]  # type: ignore[index]
    (out / name).unlink(missing_ok=True)
    (tmp_path / "elsewhere").write_text("mine")
    if what == "link":
        (out / name).symlink_to(tmp_path / "elsewhere")
    else:
        (out / name).mkdir()
        (out / name / "a.txt").write_text("mine")
    before = contents(out)
    done = written(kind, out)
    assert done.exit_code == 2
    assert done.stderr == (
        f"varsim: {out / name} is {'a link' if what == 'link' else 'no file'}; it is left alone: "
        "name another directory, or move it away\n"
    )
    assert contents(out) == before
    assert (tmp_path / "elsewhere").read_text() == "mine"


@every_writer
def test_the_root_is_no_place_for_results(kind: str) -> None:
    done = written(kind, Path("/"))
    assert done.exit_code == 2
    assert done.stderr.startswith("varsim: / holds files that are not ")
    assert not Path("/.lock").exists()


@every_writer
def test_results_of_one_kind_are_not_replaced_by_another(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert written(kind, out).exit_code == 0
    before = contents(out)
    for other in WRITERS:
        if other != kind:
            assert written(other, out).exit_code == 2
            assert contents(out) == before


@pytest.mark.parametrize("kind", ["run", "sweep", "plan", "why"])
def test_it_is_said_which_results_are_replaced(kind: str, tmp_path: Path) -> None:
    out, (_, file) = tmp_path / "out", WRITERS[kind]
    assert written(kind, out, "--quiet").stderr == ""
    assert written(kind, out, "--quiet").stderr == "", "the same again"
    text = Path(file).read_text()
    Path(file).write_text(text.replace("seed: 3", "seed: 4"))
    assert "'tiny' in " in (said := written(kind, out, "--quiet").stderr)
    assert "made with other settings or by another version" in said
    Path(file).write_text(text.replace("name: tiny", "name: other"))
    said = written(kind, out, "--quiet").stderr
    assert f" of 'tiny' in {out} with that of 'other'" in said


def test_calibrate_replaces_only_what_it_wrote(tmp_path: Path) -> None:
    out = tmp_path / "law.yaml"
    out.write_text("mine")
    done = varsim("calibrate", "steps.csv", "--out", out, "--quiet")
    assert (done.exit_code, done.stderr) == (
        2,
        f"varsim: {out} already exists, and was not written by varsim calibrate: "
        "name another file\n",
    )
    assert out.read_text() == "mine"
    out.unlink()
    assert varsim("calibrate", "steps.csv", "--out", out, "--quiet").exit_code == 0
    first = out.read_bytes()
    assert varsim("calibrate", "steps.csv", "--out", out, "--quiet").exit_code == 0
    assert out.read_bytes() == first
    assert varsim("calibrate", "steps.csv", "--out", tmp_path / "no" / "law.yaml").exit_code == 2
    out.unlink()
    out.symlink_to(tmp_path / "elsewhere.yaml")
    assert varsim("calibrate", "steps.csv", "--out", out, "--quiet").exit_code == 2
    assert not (tmp_path / "elsewhere.yaml").exists()


def test_calibrate_leaves_a_table_of_somebody_else_alone(tmp_path: Path) -> None:
    """Times that no law fits go to a table beside."""
    times = "\n".join(f"{100 + 1e-4 * s + 400 * (s % 37 == 0):.4f}" for s in range(3_000))
    Path("odd.csv").write_text(f"time_ms\n{times}\n")
    out, beside = tmp_path / "law.yaml", tmp_path / "law.csv"
    beside.write_text("mine")
    done = varsim("calibrate", "odd.csv", "--out", out)
    assert done.exit_code == 2, done.stdout
    assert f"{beside} already exists" in done.stderr
    assert beside.read_text() == "mine"
    assert not out.exists()
    beside.unlink()
    for _ in range(2):
        assert varsim("calibrate", "odd.csv", "--out", out).exit_code == 0
    assert beside.exists()


@pytest.mark.parametrize("kind", ["run", "sweep"])
def test_another_run_leaves_links_alone(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert written(kind, out).exit_code == 0
    (tmp_path / "elsewhere").write_text("mine")
    (out / "report.html").unlink()
    (out / "report.html").symlink_to(tmp_path / "elsewhere")
    done = written(kind, out)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"varsim: {out / 'report.html'} is a link; it is left alone")
    assert (tmp_path / "elsewhere").read_text() == "mine"
