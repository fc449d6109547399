"""What lies in or beside the directory of a run when it is written again."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.handmade import a_result
from varsim.report import sheet
from varsim.report.files.save import save
from varsim.report.report import Report
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


@pytest.mark.parametrize("links", [True, False])
def test_what_somebody_put_beside_an_older_run_is_kept(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    if not links:
        monkeypatch.setattr("os.link", no_links)
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


@pytest.mark.parametrize("name", ["mkdir", "link", "rename"])
def test_notes_survive_being_killed_at_any_step(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    deaths = 0
    for call in range(8):
        there = tmp_path / str(call) / "run"
        with_notes(save(result, there).directory)
        with monkeypatch.context() as patch:
            patch.setattr("shutil.rmtree", lambda *_, **__: None)  # the dead do not tidy up
            patch.setattr(f"os.{name}", killed_at(call, getattr(os, name)))
            try:
                save(a_result(), there)
            except SystemExit:
                deaths += 1
        assert_notes(there if there.exists() else there.with_name(".run.previous"))
        save(a_result(), there)
        assert_notes(there)
        assert strategy_in(there) == "none"
        assert list(there.parent.iterdir()) == [there]
    assert deaths > 1


def test_what_dead_processes_left_is_removed(result: Result, tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    mine, dead, alive = (
        tmp_path / f".run.partial-{pid}" for pid in (os.getpid(), ended.pid, os.getppid())
    )
    other, odd = tmp_path / f".run2.partial-{ended.pid}", tmp_path / ".run.partial-x"
    for path in (mine, dead, alive, other, odd):
        path.mkdir()
    save(result, tmp_path / "run")
    assert set(tmp_path.iterdir()) == {alive, other, odd, tmp_path / "run"}


def test_an_error_names_the_directory_that_was_asked_for(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(report: Report, directory: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sheet, "write", full)
    with pytest.raises(OSError) as caught:
        save(result, tmp_path / "run", result.report)
    assert caught.value.filename == str(tmp_path / "run")
    assert (caught.value.errno, caught.value.strerror) == (28, "No space left on device")
