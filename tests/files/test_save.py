"""The files of a run: complete or absent, always the same bytes, and enough to start again from."""

import csv
import dataclasses
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.handmade import a_result, a_scenario
from varsim.core import inert
from varsim.report import page
from varsim.report.files.directory import Kind, NotARunError, check_file, check_target
from varsim.report.files.rows import fair_shares, seconds_text
from varsim.report.files.save import save
from varsim.report.formats import render
from varsim.report.notes import coded, line
from varsim.report.told import Report
from varsim.report.wording import unheld
from varsim.scenario.change import in_python
from varsim.scenario.loading import load_scenario
from varsim.study.result import Result, simulate
from varsim.study.tables import COLUMNS, OF_SENDS

FILES = {
    *("summary.json", "summary.csv", "updates.csv", "spans.csv", "evaluations.csv", "steps.csv"),
    *("scenario.yaml", "trace.json.gz", "links.csv"),
}
DRAWN = {f"{name}.png" for name in ("throughput", "time_split", "timeline", "staleness", "loss")}
TABLES = ("summary", "runs", "updates", "spans", "evaluations", "steps", "links", "workers")
AWKWARD = 'a, "b" 100% {x} <i>'


@pytest.fixture
def result() -> Result:
    return a_result({AWKWARD: (1, 2), "none": (2, 3)}, targets={"loss": 1.0})


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def rows_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def events_of(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events: list[dict[str, Any]] = json.load(file, parse_float=str)["traceEvents"]
    return events


def test_all_files_are_written(result: Result, tmp_path: Path) -> None:
    saved = save(result, tmp_path / "deep" / "run")
    assert saved.directory == tmp_path / "deep" / "run"
    assert saved.notes == ()
    assert set(contents(saved.directory)) == FILES
    assert [path.name for path in saved.directory.parent.iterdir()] == ["run"]


def test_the_same_result_gives_the_same_bytes(result: Result, tmp_path: Path) -> None:
    first = contents(save(result, tmp_path / "first").directory)
    again = a_result({AWKWARD: (1, 2), "none": (2, 3)}, targets={"loss": 1.0})
    assert contents(save(again, tmp_path / "second").directory) == first
    assert not any(b"\r" in text for name, text in first.items() if not name.endswith(".gz"))
    # gzip: flags say no file name, and the four bytes of the time are 0.
    assert first["trace.json.gz"][3:8] == bytes(5)


def test_a_saved_run_has_its_scenario_and_what_is_sent_beside(tmp_path: Path) -> None:
    kinds = ({"kind": "on_read", "read_every": 2}, {"kind": "none", "overlap": True})
    late = ({"kind": "sync_replicas", "replicas_to_aggregate": 1},)
    compute = {"kind": "uniform", "low": 0.1, "high": 0.3}
    network = {"kind": "star", "bandwidth": 12345.678, "latency": 1e-5}
    layers = ({"backward": 1.0, "size": 20.0}, {"backward": 1.0, "size": 20.0})
    optimizer = {"kind": "sgd", "learning_rate": 0.1}
    workload = {"problem": {"kind": "quadratic"}, "optimizer": optimizer, "layers": layers}
    scenario = a_scenario(
        strategies=kinds + late,
        workload=workload,
        stop={"global_steps": 20},
        replications=2,
        cluster={"workers": 3, "compute": compute, "network": network},
    )
    result = simulate(scenario)
    save(result, tmp_path / "run")
    assert "sending hidden" in result.table()
    # What is sent beside computation: of the first replication, in a file and on tracks.
    sent = [trace.send_rows.array().tolist() for trace in result.traces]
    assert [bool(rows) for rows in sent] == [False, False, True, False, False, False]
    header, *rows = rows_of(tmp_path / "run" / "sends.csv")
    assert header == list(OF_SENDS["sends"])
    assert len(rows) == len(sent[2])
    events = events_of(tmp_path / "run" / "trace.json.gz")
    lanes = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"].endswith(", sending")
    }
    assert len(lanes) == 3
    drawn = [one for one in events if one["ph"] == "X" and (one["pid"], one["tid"]) in lanes]
    assert len(drawn) == len(rows)
    assert load_scenario(tmp_path / "run" / "scenario.yaml") == scenario


def test_csv_files_have_the_documented_columns(result: Result, tmp_path: Path) -> None:
    directory = save(result, tmp_path / "run").directory
    for name in ("summary", "updates", "spans", "evaluations", "steps", "links"):
        header, *rows = rows_of(directory / f"{name}.csv")
        assert header == list(COLUMNS[name])
        assert len(rows) == len(getattr(result, name))
        assert {row[0] for row in rows} == {AWKWARD, "none"}
    updates = rows_of(directory / "updates.csv")
    assert updates[1] == (
        f"{AWKWARD}|0|0|0|0.000000000|0|0.000000000|2.000000000|3.000000000|3.000000000|0|applied|"
        "1.0|0|3.000000000"
    ).split("|")
    pending = updates[5]
    assert pending[-7:] == ["", "", "", "pending", "0.0", "", ""]
    # 250 and 500 bytes in 10 s over 100 bytes/s.
    links = rows_of(directory / "links.csv")[1:3]
    assert links == [
        [AWKWARD, "0", "worker 0 up", "100.0", "250.0", "0.25"],
        [AWKWARD, "0", "worker 0 down", "100.0", "500.0", "0.5"],
    ]
    # No accuracy: empty.
    assert rows_of(directory / "evaluations.csv")[2][-3:] == ["", "0.5", "0"]


def test_the_summary_holds_what_a_reader_needs(result: Result, tmp_path: Path) -> None:
    directory = save(result, tmp_path / "run").directory
    text = (directory / "summary.json").read_text(encoding="utf-8")
    facts = json.loads(text)
    assert facts["provenance"] == result.provenance
    said = [in_python(note["text"]) for note in facts["headline"]]
    assert said == result.answer().splitlines()
    assert facts["runs"][0]["worker_time_ns"][0][0] == 5_000_000_000
    assert facts["runs"][0]["share_of_applied"] == [0.8, 0.2]
    assert facts["runs"][0]["links"]["moved_bytes"] == [250.0, 500.0]
    row = facts["summary"][2]
    assert (row["metric"], row["values"]) == ("updates_per_s", [0.3, 0.15])
    printed = json.loads(render(result.report, "json"))
    for run in facts["runs"]:
        del run["rows"]
    assert printed == facts
    assert render(result.report, "csv") == (directory / "summary.csv").read_text(encoding="utf-8")


def test_markdown_is_the_answer_and_one_table() -> None:
    result = a_result({"a|b": (1,), "c": (2,)})
    lines = render(result.report, "md").splitlines()
    assert lines[0] == inert.markdown(unheld(line(result.report.headline[0])))
    start = next(index for index, one in enumerate(lines) if one.startswith("| a\\|b | 2.50 | 1 |"))
    table = lines[start - 2 : start + 2]
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    assert lines[-1] == f"- {inert.markdown(unheld(coded(result.report.notes[-1])))}"


def failing(error: type[BaseException]) -> Callable[[Report, Path, Path | None], None]:
    """A page that ends in an error when the data of its run have been written."""

    def write(report: Report, directory: Path, beside: Path | None) -> None:
        assert set(contents(directory)) == FILES | DRAWN
        raise error

    return write


def test_the_page_and_the_plots_are_part_of_the_run(result: Result, tmp_path: Path) -> None:
    save(result, tmp_path / "run", result.report)
    assert set(contents(tmp_path / "run")) == FILES | DRAWN | {"report.html"}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_is_interrupted_leaves_nothing(
    result: Result, tmp_path: Path, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "write", failing(error))
    with pytest.raises(error):
        save(result, tmp_path / "run", result.report)
    assert list(tmp_path.iterdir()) == []
    before = contents(save(result, tmp_path / "run").directory)
    with pytest.raises(error):
        save(a_result(), tmp_path / "run", a_result().report)
    assert contents(tmp_path / "run") == before
    assert list(tmp_path.iterdir()) == [tmp_path / "run"]


def test_an_older_run_is_replaced_whole(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(report: Report, directory: Path, beside: Path | None) -> None:
        (directory / "links.svg").write_text(report.question)

    monkeypatch.setattr(page, "write", write)
    save(result, tmp_path / "run", dataclasses.replace(result.report, question="old"))
    save(a_result(), tmp_path / "run", dataclasses.replace(a_result().report, question="new"))
    assert set(contents(tmp_path / "run")) == FILES | DRAWN | {"links.svg"}
    assert (tmp_path / "run" / "links.svg").read_text() == "new"
    assert '"strategy": "none"' in (tmp_path / "run" / "summary.json").read_text()
    assert list(tmp_path.iterdir()) == [tmp_path / "run"]


def test_other_peoples_files_are_left_alone(result: Result, tmp_path: Path) -> None:
    thesis = tmp_path / "home" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.write_text("x")
    (tmp_path / "home" / "summary.json").write_text('{"made_by": "me"}')
    for directory in (tmp_path / "home", thesis, thesis / "below"):
        with pytest.raises(OSError, match=r"thesis\.tex|home"):
            save(result, directory)
    with pytest.raises(NotARunError, match="not a varsim run"):
        check_target(tmp_path / "home")
    assert thesis.read_text() == "x"
    assert sorted(path.name for path in thesis.parent.iterdir()) == ["summary.json", "thesis.tex"]


def test_an_empty_directory_may_be_written_to(result: Result, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    check_target(tmp_path / "run")
    check_target(tmp_path / "nowhere")
    save(result, tmp_path / "run")
    check_target(tmp_path / "run")
    assert set(contents(tmp_path / "run")) == FILES


def test_a_link_to_a_directory_stays_a_link(result: Result, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save(result, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert set(contents(tmp_path / "real")) == FILES


def test_a_place_nobody_may_write_to_is_said_before_simulating(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)  # root may everything
    with pytest.raises(NotARunError, match="no permission to write in"):
        check_target(tmp_path / "new" / "run")


@pytest.mark.parametrize("kind", ["run", "sweep"])
def test_an_older_report_that_is_protected_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path / "run")
    with pytest.raises(NotARunError, match=re.escape(f"to write in {tmp_path / 'run'}")):
        check_target(tmp_path / "run", kind)


def test_a_file_nobody_may_write_is_said_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    with pytest.raises(NotARunError, match=r"no permission to write .*tuned\.yaml"):
        check_file(tmp_path / "tuned.yaml", "# made", "varsim tune")


def test_spans_beyond_the_cap_are_left_out_and_it_is_said(tmp_path: Path) -> None:
    # 12 spans a run. 40 are: replication 0 of both, and 8 each of replication 1.
    result = a_result({"a": (1, 1, 1), "b": (1, 1, 1)})
    saved = save(result, tmp_path / "run", most_spans=40)
    assert saved.notes == (
        "spans.csv: 40 of 72 spans, the first ones of replication 0 before those of replication "
        "1, and so on; every other file counts all of them",
    )
    facts = json.loads((saved.directory / "summary.json").read_text(encoding="utf-8"))
    assert facts["remarks"] == list(saved.notes)
    spans = pd.read_csv(saved.directory / "spans.csv")
    counts = spans.groupby(["strategy", "replication"]).size()
    assert counts.to_dict() == {("a", 0): 12, ("a", 1): 8, ("b", 0): 12, ("b", 1): 8}
    cut = spans[(spans["strategy"] == "a") & (spans["replication"] == 1)]
    assert cut["start_s"].max() == 6.0  # those that start first, of all workers


def test_the_trace_has_a_process_per_strategy_and_a_thread_per_worker(
    result: Result, tmp_path: Path
) -> None:
    events = events_of(save(result, tmp_path / "run").directory / "trace.json.gz")
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert processes == {1: AWKWARD, 2: "none"}
    threads = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"
    }
    assert threads[2, 1] == "worker 0"
    assert 0 not in {tid for _, tid in threads}
    assert threads[2, 3] == "model"
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == 2 * (12 + 4), "spans, and the model before and after three updates"
    assert {(event["pid"], event["tid"]) for event in slices} == set(threads)
    losses = [event["args"]["loss"] for event in events if event["name"] == "loss"]
    assert losses == ["2.0", "1.0", "0.5"] * 2


@given(some.lists(some.integers(-1, 10**15)))
def test_times_in_text_are_exact(times: list[int]) -> None:
    texts = seconds_text(np.array(times, dtype=np.int64))
    for text, time in zip(texts, times, strict=True):
        assert text == "" if time < 0 else float(text) == time / 1e9


@given(some.lists(some.integers(0, 50), min_size=1), some.integers(0, 200))
def test_shares_are_fair(wanted: list[int], available: int) -> None:
    given_out = fair_shares(wanted, available)
    assert sum(given_out) == min(sum(wanted), available)
    assert all(got <= want for got, want in zip(given_out, wanted, strict=True))
    largest = max(given_out)
    # Who did not get what it wanted got as much as anybody, but for the remainder.
    assert all(
        got >= largest - 1 for got, want in zip(given_out, wanted, strict=True) if got < want
    )
