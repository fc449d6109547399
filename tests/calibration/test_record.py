"""`varsim.record` stamps the collectives of a rank, and writes them at the end."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from varsim.record import Recorder


def test_a_recorder_writes_one_file_of_its_rank(tmp_path: Path) -> None:
    with Recorder(tmp_path, "mine", rank=1, ranks=2, slow=2) as recorder:
        for _ in range(4):
            with recorder.collective(64):
                pass
    found = json.loads((tmp_path / "mine.rank1.json").read_text())

    assert (found["run"], found["rank"], found["ranks"], found["slow"]) == ("mine", 1, 2, 2.0)
    assert found["bytes"] == [64] * 3  # the first one is warm-up
    moments = [found["began"], *sum(zip(found["before"], found["after"], strict=True), ())]
    assert moments == sorted(moments)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"run": "a/b"}, "run 'a/b'"),
        ({"rank": 2}, "rank 2 is not one of 2"),
        ({"warm_up": -1}, "warm_up is -1"),
        ({"slow": 0}, "slow is 0; it is a factor"),
        ({"rank": None}, "which rank is this"),
    ],
)
def test_a_recorder_refuses(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    values: dict[str, Any] = {"run": "mine", "rank": 0, "ranks": 2} | changes
    with pytest.raises(ValueError, match=said):
        Recorder(tmp_path, **values)


def test_torchrun_says_which_rank_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")

    recorder = Recorder(tmp_path, "mine")
    assert (recorder.rank, recorder.ranks) == (3, 4)


def test_what_ends_without_closing_is_written_all_the_same(tmp_path: Path) -> None:
    code = (
        "from varsim.record import Recorder\n"
        f"recorder = Recorder({str(tmp_path)!r}, 'mine', rank=0, ranks=2, warm_up=0)\n"
        "with recorder.collective(8): pass\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))

    assert json.loads((tmp_path / "mine.rank0.json").read_text())["bytes"] == [8]
    assert [path.name for path in tmp_path.iterdir()] == ["mine.rank0.json"]


def test_only_a_ddp_model_is_watched(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="int is not a DistributedDataParallel model"):
        Recorder(tmp_path, "mine", rank=0, ranks=2).watch(3)


@pytest.mark.slow
def test_ddp_is_recorded_and_its_slow_rank_is_told_from_who_waits(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not here")
    root = Path(__file__).parents[2]
    command = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "validation/loop.py"]
    options = [str(tmp_path), "two", "--slow", "3", "--steps", "20"]
    paths = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run(
        [sys.executable, *command, *options],
        cwd=root,
        env=os.environ | {"PYTHONPATH": paths},
        check=True,
        capture_output=True,
        timeout=120,
    )
    fast, slow = (json.loads((tmp_path / f"two.rank{rank}.json").read_text()) for rank in (0, 1))

    def waited(found: dict[str, Any]) -> float:
        """Seconds that a rank was in collectives."""
        return float(sum(found["after"]) - sum(found["before"]))

    assert len(fast["before"]) == len(slow["before"]) == 19
    assert waited(fast) > 19 * 0.03 > waited(slow)
