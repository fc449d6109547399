"""Files of a sweep that cannot be read: set aside, told in a line, and their runs made again."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import varsim as package
from tests.seams import app as cli
from tests.storing import FILE as STORE
from tests.storing import Store, a_run
from tests.sweep.sweeping import SWEPT

RUNS = 40
UNREADABLE = "runs.jsonl.unreadable"


def varsim(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, arguments)))


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


def garbled(content: bytes) -> bytes:
    """One line of it is none any more."""
    return content.replace(b'"examples_per_s": 0.25', b'"examples_per_s": 0.35')


def of_another_version(content: bytes) -> bytes:
    return content.replace(b'"check": ', b'"check": 1')


def of_somebody_else(_: bytes) -> bytes:
    return b"mine"


@pytest.mark.parametrize(
    ("harm", "left"), [(garbled, RUNS - 1), (of_another_version, 0), (of_somebody_else, 0)]
)
def test_what_cannot_be_read_is_set_aside(
    kept: Path, tmp_path: Path, harm: Callable[[bytes], bytes], left: int
) -> None:
    content = harm((kept / STORE).read_bytes())
    (tmp_path / STORE).write_bytes(content)
    (tmp_path / UNREADABLE).write_text("of an earlier time")
    with Store(tmp_path) as store:
        assert store.aside == tmp_path / f"{UNREADABLE}2"
        assert store.count() == left
        assert store.told("made again") == (
            f"runs in {tmp_path / STORE} cannot be read (damaged, or of another version) and "
            f"are made again; the file is kept as {UNREADABLE}2"
        )
        store.add([a_run(1)])
    assert (tmp_path / f"{UNREADABLE}2").read_bytes() == content
    with Store(tmp_path) as store:
        assert (store.aside, store.count()) == (None, max(1, RUNS * (left > 0)))


def test_every_flipped_byte_loses_the_line_it_is_in_and_no_other(
    kept: Path, tmp_path: Path
) -> None:
    content = (kept / STORE).read_bytes()
    chance = random.Random(3)
    for number, place in enumerate(chance.sample(range(len(content)), 50)):
        folder = tmp_path / str(number)
        folder.mkdir()
        flipped = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        (folder / STORE).write_bytes(flipped)
        with Store(folder) as store:
            both = content[place : place + 1] == b"\n" and place + 1 < len(content)
            assert store.count() == RUNS - 1 - both
            assert set(map(str, store.runs())) < {str(a_run(run)) for run in range(RUNS)}


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
    content = (out / STORE).read_bytes()
    (out / STORE).write_bytes(content.replace(b'"replication": 0', b'"replication": 7'))
    again = varsim("sweep", swept / "tiny.yaml", "--out", out)
    assert again.exit_code == 0, again.stderr
    assert (
        f"varsim: runs in {out / STORE} cannot be read (damaged, or of another version) and "
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
    for name in (STORE, "sweep.yaml"):
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


def test_a_file_of_somebody_else_is_left_alone(swept: Path, tmp_path: Path) -> None:
    (tmp_path / STORE).write_text('{"account": 3}\n')
    done = varsim("sweep", swept / "tiny.yaml", "--out", tmp_path)
    assert (done.exit_code, "are left alone" in done.stderr) == (2, True)
    done = varsim("merge", swept / "tiny.yaml", tmp_path, "--out", tmp_path / "merged")
    assert (done.exit_code, "holds no runs of a sweep" in done.stderr) == (2, True)
    assert (tmp_path / STORE).read_text() == '{"account": 3}\n'
    assert [path.name for path in tmp_path.iterdir()] == [STORE]
