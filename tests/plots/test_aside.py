"""Work that a copy of the process does meanwhile, and figures drawn so."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.handmade import a_result
from varsim.report.plots import plot
from varsim.report.plots.aside import aside
from varsim.report.plots.gallery import PLOTS

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="a system that forks"),
    # Threads of the test's own process are none of this: can_fork asks, where it matters.
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
]


def test_a_copy_does_the_work() -> None:
    with aside(os.getpid) as found:
        copy = found()
    assert copy not in (None, os.getpid())
    with pytest.raises(ProcessLookupError):
        os.kill(copy or 0, 0)


def fails() -> int:
    raise ValueError("never seen")


def dies() -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 1


@pytest.mark.parametrize("work", [fails, dies])
def test_of_a_copy_that_fails_comes_nothing(
    work: Callable[[], int], capfd: pytest.CaptureFixture[str]
) -> None:
    with aside(work) as found:
        assert found() is None
    assert capfd.readouterr() == ("", "")


def test_without_room_for_a_process_there_is_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> int:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(os, "fork", full)
    with aside(os.getpid) as found:
        assert found() is None


def test_whoever_is_interrupted_leaves_no_copy(tmp_path: Path) -> None:
    def work() -> None:
        (tmp_path / "new").write_text(str(os.getpid()))
        (tmp_path / "new").rename(tmp_path / "copy")
        time.sleep(600)

    def interrupted() -> None:
        while not (tmp_path / "copy").exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), aside(work):
        interrupted()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "copy").read_text()), 0)


@pytest.mark.parametrize("copies_fail", [False, True])
def test_two_draw_what_one_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies_fail: bool
) -> None:
    here, draw_one, whole = os.getpid(), plot.draw_one, []
    result = a_result()
    pairs = [(one, result) for one in PLOTS if one.shows(result)][:4]

    def drawn(one: plot.Plot[object], result: object, directory: Path) -> object:
        if os.getpid() == here:
            whole.append(one.name)
        elif copies_fail:
            (directory / f"{one.name}.svg").write_text("half of i")
            os._exit(1)
        return draw_one(one, result, directory)

    monkeypatch.setattr(plot, "draw_one", drawn)
    found = []
    for forks in (False, True):
        monkeypatch.setattr(plot, "can_fork", lambda forks=forks: forks)
        directory = tmp_path / str(forks)
        directory.mkdir()
        made = plot.draw_all(pairs, directory)
        found.append((made, {path.name: path.read_bytes() for path in directory.iterdir()}))
    assert found[0] == found[1]
    assert len(whole) == 4 + (4 if copies_fail else 2)
