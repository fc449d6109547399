"""Damaged files of a sweep: what is unreadable is made again and counted, nothing wrong is used."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.damage import damage
from tests.seams import app as cli
from tests.sweep.sweeping import SWEPT
from varsim.study.sweep.case import Finished
from varsim.study.sweep.store import STORE, Store

RUNS = 40


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


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_of_damaged_stores_every_run_that_is_given_is_right(
    kept: Path, tmp_path: Path, count: int
) -> None:
    expected = {str(a_run(number)) for number in range(RUNS)}
    told = 0
    for seed in range(count):
        directory = tmp_path / str(seed)
        shutil.copytree(kept, directory)
        damage(directory / STORE, seed)
        before = (directory / STORE).read_bytes()
        try:
            with Store(directory) as store:
                found = {str(run) for run in store.runs()}
                assert found <= expected, seed
                assert store.count() == len(found)
                if store.damage is None:
                    assert found == expected, seed
                    continue
                told += 1
                if store.damage.lost is not None:
                    assert store.damage.lost == RUNS - len(found), seed
                store.add([a_run(RUNS)])
            with Store(directory) as store:
                assert (store.count(), store.damage) == (len(found) + 1, None), seed
        except OSError as error:
            refused = str(error)
        else:
            continue
        assert "is not a file of runs of varsim; it is left alone" in refused, seed
        assert (directory / STORE).read_bytes() == before
    assert told > count / 2


def test_one_flipped_bit_of_a_number_loses_one_run(kept: Path, tmp_path: Path) -> None:
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    content = (tmp_path / STORE).read_bytes()
    assert content.count(b"0.14285714285714285") == 1
    (tmp_path / STORE).write_bytes(content.replace(b"0.14285714285714285", b"0.15285714285714285"))
    with Store(tmp_path) as store:
        assert store.damage is not None
        assert store.damage.told("made again") == (
            f"1 run in {tmp_path / STORE} was unreadable and is made again; the damaged file is "
            "kept as runs.sqlite.damaged"
        )
        assert store.count() == RUNS - 1
    assert (tmp_path / "runs.sqlite.damaged").read_bytes().count(b"0.15285714285714285") == 1


@pytest.mark.slow
@pytest.mark.product
def test_a_sweep_makes_unreadable_runs_again_and_counts_them(swept: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(swept / "out", out)
    expected = (out / "results.csv").read_bytes()
    with sqlite3.connect(out / STORE) as base:
        base.execute("UPDATE runs SET measured = replace(measured, '1', '2') WHERE replication = 1")
    base.close()
    again = varsim("sweep", swept / "tiny.yaml", "--out", out)
    assert again.exit_code == 0
    lost, rest = again.stderr.split(" ", 2)[1:]
    assert int(lost) >= 6
    assert rest.startswith(f"runs in {out / STORE} were unreadable and are made again; ")
    assert (out / "results.csv").read_bytes() == expected
    assert "unreadable" not in varsim("sweep", swept / "tiny.yaml", "--out", out).stderr


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "interrupted"])
def test_an_emptied_store_is_made_again(swept: Path, tmp_path: Path, ended: bool) -> None:
    """As a machine that loses its power may leave it."""
    out = tmp_path / "out"
    shutil.copytree(swept / "out", out)
    expected = (out / "results.csv").read_bytes()
    if not ended:
        for path in out.iterdir():
            if path.name not in (STORE, "sweep.yaml"):
                path.unlink()
    (out / STORE).write_bytes(b"")
    again = varsim("sweep", swept / "tiny.yaml", "--out", out)
    assert again.exit_code == 0, again.stderr
    assert (
        f"varsim: some runs in {out / STORE} were unreadable and are made again; the damaged file "
        "is kept as runs.sqlite.damaged\n"
    ) in again.stderr
    assert (out / "results.csv").read_bytes() == expected


def test_an_empty_file_among_files_of_others_makes_no_sweep(swept: Path, tmp_path: Path) -> None:
    (tmp_path / STORE).touch()
    (tmp_path / "results.csv").write_text("mine")
    done = varsim("sweep", swept / "tiny.yaml", "--out", tmp_path)
    assert (done.exit_code, (tmp_path / "results.csv").read_text()) == (2, "mine")
    assert "are left alone" in done.stderr


def test_a_database_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    theirs = sqlite3.connect(tmp_path / STORE)
    theirs.execute("CREATE TABLE accounts (name TEXT)")
    theirs.commit()
    theirs.close()
    before = (tmp_path / STORE).read_bytes()
    with pytest.raises(OSError, match="is not a file of runs of varsim"), Store(tmp_path):
        pass
    assert (tmp_path / STORE).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [STORE]


def test_a_log_without_its_database_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "runs.sqlite-wal").write_text("mine")
    with pytest.raises(OSError, match=r"runs\.sqlite-wal belongs to a database"), Store(tmp_path):
        pass
    assert (tmp_path / "runs.sqlite-wal").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["runs.sqlite-wal"]


def test_runs_of_an_earlier_version_are_kept_apart(tmp_path: Path) -> None:
    old = sqlite3.connect(tmp_path / STORE)
    old.execute("CREATE TABLE about (format TEXT NOT NULL)")
    old.execute("INSERT INTO about VALUES ('varsim sweep 1')")
    old.execute("CREATE TABLE runs (key TEXT NOT NULL)")
    old.execute("INSERT INTO runs VALUES ('a'), ('b')")
    old.commit()
    old.close()
    before = (tmp_path / STORE).read_bytes()
    with Store(tmp_path) as store:
        assert store.count() == 0
        assert store.damage is not None
        assert store.damage.told("made again").startswith(
            f"2 runs in {tmp_path / STORE} were made by an earlier varsim, with other answers, and "
        )
    assert (tmp_path / "runs.sqlite.old").read_bytes() == before


def test_a_store_of_a_later_version_is_refused(kept: Path, tmp_path: Path) -> None:
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    with sqlite3.connect(tmp_path / STORE) as base:
        base.execute("DROP TABLE about")
        base.execute("CREATE TABLE about AS SELECT 'varsim sweep 77' AS format")
    base.close()
    with pytest.raises(OSError, match="by a later version of varsim"), Store(tmp_path):
        pass
