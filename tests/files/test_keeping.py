"""What lies in or beside the directory of a run when it is written again."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.handmade import a_result
from varsim.report import page
from varsim.report.files.directory import check_target
from varsim.report.files.save import save
from varsim.report.told import Report
from varsim.study.result import Result


def strategy_in(directory: Path) -> str:
    """The first strategy of a saved run."""
    facts = json.loads((directory / "summary.json").read_text())
    found: str = facts["runs"][0]["strategy"]
    return found


@pytest.fixture
def result() -> Result:
    return a_result({"a": (1, 2), "none": (2, 3)})


def with_notes(directory: Path) -> None:
    """What a person may put into the directory of a run."""
    (directory / "notes.txt").write_text("mine")
    (directory / "drafts" / "old").mkdir(parents=True)
    (directory / "drafts" / "old" / "a.txt").write_text("mine too")
    (directory / "drafts" / "gone").symlink_to("nowhere")
    (directory / "latest").symlink_to("drafts")
    (directory / "broken").symlink_to("nowhere")


def assert_notes(directory: Path) -> None:
    assert (directory / "notes.txt").read_text() == "mine"
    assert (directory / "drafts" / "old" / "a.txt").read_text() == "mine too"
    assert (directory / "drafts" / "gone").is_symlink()
    assert (directory / "latest").readlink() == Path("drafts")
    assert (directory / "broken").readlink() == Path("nowhere")


def test_what_somebody_put_beside_an_older_run_is_kept(result: Result, tmp_path: Path) -> None:
    with_notes(save(result, tmp_path / "run").directory)
    save(a_result(), tmp_path / "run")
    assert strategy_in(tmp_path / "run") == "none"
    assert_notes(tmp_path / "run")
    assert list(tmp_path.iterdir()) == [tmp_path / "run"]


def killed_at(call: int, real: Callable[..., Any]) -> Callable[..., Any]:
    """A function that never comes back from its n-th call."""
    left = iter(range(call))

    def function(*arguments: Any, **more: Any) -> Any:
        if next(left, None) is None:
            raise SystemExit("killed")
        return real(*arguments, **more)

    return function


def contents(directory: Path) -> dict[str, bytes]:
    """The files of a run."""
    return {one.name: one.read_bytes() for one in directory.iterdir() if one.suffix == ".csv"}


@pytest.mark.parametrize("name", ["mkdir", "rename", "replace", "unlink", "rmdir"])
def test_a_run_is_whole_or_as_it_was_wherever_one_is_killed(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What comes next sees the older run or the newer one; nobody's notes are lost."""
    new, deaths = contents(save(a_result(), tmp_path / "new", rows=False).directory), 0
    for call in range(4):
        there = tmp_path / str(call) / "run"
        with_notes(save(result, there).directory)
        old = contents(there)
        assert set(new) < set(old), "some files have no successor"
        with monkeypatch.context() as patch:
            patch.setattr("shutil.rmtree", lambda *_, **__: None)  # the dead do not tidy up
            patch.setattr(f"os.{name}", killed_at(call, getattr(os, name)))
            try:
                save(a_result(), there, rows=False)
            except SystemExit:
                deaths += 1
        check_target(there)
        assert contents(there) in (old, new)
        assert_notes(there)
        save(a_result(), there, rows=False)
        assert contents(there) == new
        assert_notes(there)
        assert not list(there.glob(".*"))
    assert deaths > 0


def test_what_dead_processes_left_is_removed(result: Result, tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    mine, dead, alive = (
        tmp_path / f".varsim-{pid}" for pid in (os.getpid(), ended.pid, os.getppid())
    )
    for path in (mine, dead, alive):
        path.mkdir()
    save(result, tmp_path)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == [alive]


def test_an_error_names_the_directory_that_was_asked_for(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(report: Report, directory: Path, beside: Path | None) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page, "write", full)
    with pytest.raises(OSError) as caught:
        save(result, tmp_path / "run", result.report)
    assert caught.value.filename == str(tmp_path / "run")
    assert (caught.value.errno, caught.value.strerror) == (28, "No space left on device")


def test_a_damaged_run_is_replaced_when_it_is_run_again(tmp_path: Path) -> None:
    there = tmp_path / "run"
    a_result({"a": (1, 2), "none": (2, 3)}).save(there)
    text = (there / "summary.json").read_text()
    (there / "summary.json").write_text(text[: len(text) // 2])
    a_result().save(there)
    assert '"strategy": "a"' not in (there / "summary.json").read_text()
