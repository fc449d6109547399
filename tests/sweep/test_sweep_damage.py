"""Files of a sweep that cannot be read: set aside, told in a line, and their runs made again."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import varsim as package
from tests.sweep.sweeping import SWEPT
from varsim.cli import app as cli
from varsim.study.sweep.case import Finished
from varsim.study.sweep.runs_file import STORE
from varsim.study.sweep.store import Store

RUNS = 40
UNREADABLE = "runs.sqlite.unreadable"


def varsim(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, arguments)))


def a_run(number: int) -> Finished:
    measured = {"examples_per_s": 1 / (3 + number), "final_loss": float("nan")}
    return Finished(f"{number % 8:064x}", number // 8, 0.1 * number, measured, "", f"{number:064x}")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with runs."""
    directory = tmp_path_factory.mktemp("kept")
    with Store(directory) as store:
        store.add(map(a_run, range(RUNS)))
    return directory


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the results of a sweep, and beside it the file that asks."""
    directory = tmp_path_factory.mktemp("swept")
    (directory / "tiny.yaml").write_text(SWEPT)
    assert varsim("sweep", directory / "tiny.yaml", "--out", directory / "out").exit_code == 0
    return directory


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def without_a_page(content: bytes) -> bytes:
    return content[:4096] + bytes(4096) + content[8192:]


def without_a_head(content: bytes) -> bytes:
    return bytes(100) + content[100:]


def garbled(content: bytes) -> bytes:
    assert b'{"examples_per_s"' in content
    return content.replace(b'{"examples_per_s"', b'\xff"examples_per_s"')


def of_somebody_else(_: bytes) -> bytes:
    return b"mine"


@pytest.mark.parametrize("harm", [cut, without_a_page, without_a_head, garbled, of_somebody_else])
def test_what_cannot_be_read_is_set_aside(kept: Path, tmp_path: Path, harm: object) -> None:
    assert callable(harm)
    content = harm((kept / STORE).read_bytes())
    (tmp_path / STORE).write_bytes(content)
    (tmp_path / UNREADABLE).write_text("of an earlier time")
    with Store(tmp_path) as store:
        assert store.aside == tmp_path / f"{UNREADABLE}2"
        assert store.count() == 0
        assert store.told("made again") == (
            f"the runs in {tmp_path / STORE} cannot be read (damaged, or of another version) and "
            f"are made again; the file is kept as {UNREADABLE}2"
        )
        store.add([a_run(1)])
    assert (tmp_path / f"{UNREADABLE}2").read_bytes() == content
    with Store(tmp_path) as store:
        assert (store.aside, store.count()) == (None, 1)


@pytest.mark.parametrize("version", [0, 77])
def test_runs_of_another_version_are_set_aside(kept: Path, tmp_path: Path, version: int) -> None:
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    with sqlite3.connect(tmp_path / STORE) as base:
        base.execute(f"PRAGMA user_version = {version}")
    base.close()
    with Store(tmp_path) as store:
        assert store.count() == 0
        store.add([a_run(1)])
    assert {path.name for path in tmp_path.iterdir()} == {STORE, UNREADABLE}


def test_a_file_that_another_program_holds_is_not_set_aside(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr("varsim.study.sweep.store._PATIENCE", 0.0)
    holder = sqlite3.connect(tmp_path / STORE, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(OSError, match=r"runs\.sqlite: database is locked"), Store(tmp_path):
        pass
    holder.close()
    with Store(tmp_path) as store:
        assert (store.aside, store.count()) == (None, RUNS)


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "interrupted"])
def test_a_sweep_makes_unreadable_runs_again_and_says_so(
    swept: Path, tmp_path: Path, ended: bool
) -> None:
    out = tmp_path / "out"
    shutil.copytree(swept / "out", out)
    expected = (out / "results.csv").read_bytes()
    if not ended:
        for path in out.iterdir():
            if path.name not in (STORE, "sweep.yaml"):
                path.unlink()
    (out / STORE).write_bytes(cut((out / STORE).read_bytes()))
    again = varsim("sweep", swept / "tiny.yaml", "--out", out)
    assert again.exit_code == 0, again.stderr
    assert (
        f"varsim: the runs in {out / STORE} cannot be read (damaged, or of another version) and "
        f"are made again; the file is kept as {UNREADABLE}\n"
    ) in again.stderr
    assert (out / "results.csv").read_bytes() == expected
    assert "cannot be read" not in varsim("sweep", swept / "tiny.yaml", "--out", out).stderr


def test_in_python_it_is_a_warning(swept: Path, tmp_path: Path) -> None:
    (tmp_path / STORE).write_text("no database")
    with pytest.warns(UserWarning, match="cannot be read"):
        package.sweep(swept / "tiny.yaml", directory=tmp_path)


def test_a_store_that_was_not_begun_is_one(swept: Path, tmp_path: Path) -> None:
    """As a machine that loses its power, or a process that is killed, may leave it."""
    for name in (STORE, f"{STORE}-journal", "sweep.yaml"):
        (tmp_path / name).touch()
    done = varsim("sweep", swept / "tiny.yaml", "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "results.csv").read_bytes() == (swept / "out/results.csv").read_bytes()
    assert "cannot be read" not in done.stderr


def test_an_empty_file_among_files_of_others_makes_no_sweep(swept: Path, tmp_path: Path) -> None:
    (tmp_path / STORE).touch()
    (tmp_path / "results.csv").write_text("mine")
    done = varsim("sweep", swept / "tiny.yaml", "--out", tmp_path)
    assert (done.exit_code, (tmp_path / "results.csv").read_text()) == (2, "mine")
    assert "are left alone" in done.stderr


def test_a_database_of_somebody_else_is_left_alone(swept: Path, tmp_path: Path) -> None:
    theirs = sqlite3.connect(tmp_path / STORE)
    theirs.execute("CREATE TABLE accounts (name TEXT)")
    theirs.commit()
    theirs.close()
    before = (tmp_path / STORE).read_bytes()
    done = varsim("sweep", swept / "tiny.yaml", "--out", tmp_path)
    assert (done.exit_code, "are left alone" in done.stderr) == (2, True)
    done = varsim("merge", swept / "tiny.yaml", tmp_path, "--out", tmp_path / "merged")
    assert (done.exit_code, "holds no runs of a sweep" in done.stderr) == (2, True)
    assert (tmp_path / STORE).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [STORE]
