"""Reading recordings: what is taken, and one line for each file that is wrong."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.validation.recording import asynchronous, collective, sync, table, write
from varsim.calibration.recorded.runs import (
    CollectiveRun,
    RunFileError,
    compute_tables,
    computes,
    read_run,
    read_runs,
)
from varsim.record import Recorder

SYNC = sync("sync", table(2, 20), 2, updates=5)
ASYNC = asynchronous("async", table(2, 20), updates=5)
COLLECTIVE = collective("collective", table(2, 20), updates=5)


def changed(file: Any, change: Callable[[Any], object]) -> Any:
    copy = json.loads(json.dumps(file))
    change(copy)
    return copy


@pytest.mark.parametrize("file", [SYNC, ASYNC, COLLECTIVE], ids=lambda file: file["kind"])
def test_a_file_is_read(file: Any, tmp_path: Path) -> None:
    write(file, tmp_path)
    (run,) = read_runs(tmp_path)

    assert (run.id, run.kind, run.steps) == (file["id"], file["kind"], 5)
    assert compute_tables(run) == tuple(map(tuple, table(2, 20)))
    assert computes(run)
    assert run.foreign_cores == 0


WRONG: dict[str, tuple[Any, str]] = {
    "no kind": (changed(SYNC, lambda f: f.pop("kind")), "kind is missing"),
    "another kind": (changed(SYNC, lambda f: f.update(kind="horovod")), "'horovod'"),
    "another schema": (changed(SYNC, lambda f: f.update(schema=2)), "schema: Input should be 1"),
    "no steps": (changed(SYNC, lambda f: f.pop("steps")), "steps: Field required"),
    "a number in words": (
        changed(SYNC, lambda f: f["workers"][1]["end"].__setitem__(3, "4 s")),
        "workers[1].end[3]: Input should be a valid number",
    ),
    "a missing entry": (
        changed(SYNC, lambda f: f["workers"][1]["end"].pop()),
        "workers[1]: end has",
    ),
    "too few compute times": (
        changed(SYNC, lambda f: f["workers"][0].update(compute=[0.1])),
        "workers[0]: compute has 1 entries, fewer than",
    ),
    "time runs backwards": (
        changed(SYNC, lambda f: f["workers"][0]["compute_begin"].__setitem__(2, 0.0)),
        "workers[0]: its times run backwards",
    ),
    "updates run backwards": (
        changed(SYNC, lambda f: f["step_done"].reverse()),
        "step_done goes backwards",
    ),
    "too many contributions": (
        changed(SYNC, lambda f: f["contributions"][0].__setitem__(0, 90)),
        "gradients in contributions",
    ),
    "contributions of nobody": (
        changed(SYNC, lambda f: f["contributions"].__setitem__(0, [1])),
        "contributions must have a number for each of 2",
    ),
    "a stranger is killed": (
        changed(SYNC, lambda f: f.update(killed=[{"worker": 2, "at": 0.1}])),
        "killed: there is no worker 2",
    ),
    "an update twice": (
        changed(ASYNC, lambda f: f["workers"][0]["applied_as"].__setitem__(0, 2)),
        "applied_as: the updates 1 to 5 must be there once each",
    ),
    "a step too few": (
        changed(COLLECTIVE, lambda f: f.update(steps=6)),
        "every rank must have an entry for each of 6 steps",
    ),
    "not an object": ([1], "Input should be"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_one_line(case: str, tmp_path: Path) -> None:
    file, said = WRONG[case]
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(file))
    with pytest.raises(RunFileError) as caught:
        read_run(path)

    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "\xff", '{"kind": NaN}'])
def test_what_is_not_json_is_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(RunFileError, match=r"wrong\.json: [^\n]*$"):
        read_run(path)


def test_every_wrong_file_of_a_folder_is_told(tmp_path: Path) -> None:
    right = write(SYNC, tmp_path)
    shutil.copy(right, tmp_path / "again.json")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(RunFileError) as caught:
        read_runs(tmp_path)

    lines = str(caught.value).splitlines()
    assert [Path(line.split(":")[0]).name for line in lines] == [
        *("broken.json", "folder.json", "sync.json")
    ]
    assert "another run 'sync'" in lines[2]


def test_a_folder_without_runs(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match=r"no file \*\.json"):
        read_runs(tmp_path)
    with pytest.raises(RunFileError, match="no such folder"):
        read_runs(tmp_path / "nowhere")


def rank_file(rank: int, before: list[float], after: list[float], **others: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "kind": "rank",
        "run": "two",
        "rank": rank,
        "ranks": 2,
        "clock": "a machine",
        "began": 10.0,
        "bytes": [4096] * len(before),
        "before": before,
        "after": after,
    } | others


def put(folder: Path, *files: dict[str, Any]) -> Path:
    for file in files:
        (folder / f"{file['run']}.rank{file['rank']}.json").write_text(json.dumps(file))
    return folder


FAST = rank_file(0, [11.0, 14.0], [13.0, 16.0])
SLOW = rank_file(1, [12.75, 15.75], [13.0, 16.0])


def test_a_rank_s_own_time_is_what_lies_between_two_collectives(tmp_path: Path) -> None:
    (run,) = read_runs(put(tmp_path, SLOW, FAST))

    assert isinstance(run, CollectiveRun)
    assert (run.id, run.steps, run.payload_bytes) == ("two", 2, 4096)
    assert [rank.compute for rank in run.ranks] == [(1.0, 1.0), (2.75, 2.75)]
    assert [rank.end for rank in run.ranks] == [(3.0, 6.0), (3.0, 6.0)]


def test_clocks_of_other_machines_are_set_by_the_ends_of_collectives(tmp_path: Path) -> None:
    elsewhere = rank_file(1, [112.75, 115.75], [113.0, 116.0], clock="another machine", began=110.0)
    (run,) = read_runs(put(tmp_path, FAST, elsewhere))

    assert isinstance(run, CollectiveRun)
    assert run.ranks[1].compute_end == (2.75, 5.75)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([FAST], "run two: rank 1 of 2 has no file"),
        ([FAST, rank_file(1, [12.0], [13.0])], "rank 1 has 1 collectives of 2 ranks, rank 0 2"),
        ([FAST, SLOW | {"bytes": [4096, 8]}], "collectives of 8 and of 4096 bytes"),
        ([FAST, SLOW | {"rank": 2}], "rank 2 of 2, counted from 0"),
        ([FAST, SLOW | {"after": [13.0, 12.0]}], "its times run backwards"),
    ],
)
def test_files_that_make_no_run_are_told_in_a_line(
    files: list[dict[str, Any]], said: str, tmp_path: Path
) -> None:
    with pytest.raises(RunFileError) as caught:
        read_runs(put(tmp_path, *files))

    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_recorder_writes_what_is_read_back(tmp_path: Path) -> None:
    for rank in range(2):
        with Recorder(tmp_path, "mine", rank=rank, ranks=2) as recorder:
            for _ in range(4):
                with recorder.collective(64):
                    pass
    (run,) = read_runs(tmp_path)

    assert (run.id, run.steps, run.payload_bytes) == ("mine", 3, 64)  # the first one is warm-up
