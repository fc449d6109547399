"""Runs of a sweep: how many, kept as they end, the same table however they are made."""

import json
import math
import os
import re
import signal
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.seams import Run, run_one
from tests.sweep.booked import booked
from tests.sweep.sweeping import BASE, noted, sweep, told
from varsim.cluster.record.rows import Rows
from varsim.scenario.space import Sweep
from varsim.scenario.writing import trace_sha256
from varsim.study.candidate import Candidate
from varsim.study.case import CaseTask as Task
from varsim.study.case import Finished, case_of, measured, packed, run_tasks
from varsim.study.grid import Grid
from varsim.study.pool import Here, Pool
from varsim.study.runs import DIED, Runs, Status
from varsim.study.store import STORE, Store
from varsim.study.verdict import student_t


def candidates(what: Sweep) -> list[Candidate]:
    """Every strategy of every point."""
    return Grid(what).candidates


class TestCases:
    def test_what_makes_no_difference_is_no_case_of_its_own(self) -> None:
        found = candidates(sweep())
        keys = {
            each.label: {one.case.key for one in found if one.label == each.label} for each in found
        }
        assert {label: len(own) for label, own in keys.items()} == {
            "on_write": 2,  # for it, only the workers matter
            "backup_workers": 4,
        }

    def test_a_case_alone_gives_the_runs_of_the_scenario(self) -> None:
        text = BASE.replace("- {kind: on_write}", "- {kind: single}").replace(
            "workers: 4", "workers: 5"
        )
        scenario = sweep("seed: [8, 9]", base=text).points[1].scenario
        for index, strategy in enumerate(scenario.strategies):
            alone = case_of(scenario, strategy).scenario
            assert [one.kind for one in alone.strategies] == [strategy.kind]
            for replication in range(2):
                one = measured(scenario, run_one(Run(scenario, index, replication)))
                other = measured(alone, run_one(Run(alone, 0, replication)))
                assert str(one) == str(other)

    def test_one_worker_alone_is_the_same_on_any_number(self) -> None:
        text = BASE.replace("- {kind: on_write}", "- {kind: single}")
        block = "cluster.workers: [2, 4, 8]\ncluster.network.latency: [1 us]"
        found = candidates(sweep(block, base=text))
        assert len({one.case.key for one in found if one.label == "single"}) == 1

    def test_how_results_are_read_changes_no_case(self) -> None:
        whole = sweep("seed: [8]").points[0].scenario
        report = whole.report.model_copy(update={"equal_within": 0.5})
        other = whole.model_copy(update={"report": report})
        assert case_of(whole, whole.strategies[0]) == case_of(other, whole.strategies[0])

    def test_only_some_strategies(self) -> None:
        some = replace(sweep(), strategies=("on_write",))
        assert {one.label for one in candidates(some)} == {"on_write"}

    def test_points_meet_the_same_draws(self) -> None:
        """Worker 0's first step takes as long with 2 workers as with 4, in each replication."""
        swept = sweep("cluster.workers: [2, 4]")
        for replication in range(3):
            first = {
                tuple(trace.spans[0].tolist())
                for point in swept.points
                for trace in [run_one(Run(point.scenario, 0, replication))]
            }
            assert len(first) == 1


class Shuffled(Here):
    """Makes runs at once, but hands them back last first, many at a time."""

    jobs, window = 4, 64

    def submit(self, function: Any, *given: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*given)[::-1])
        return future


class Deadly(Here):
    """Its processes die whenever one of some runs is among those under way."""

    jobs, window = 4, 8
    deaths = (BrokenPipeError,)

    def __init__(self, deadly: set[tuple[str, int]], times: int = 1_000_000) -> None:
        self.deadly, self.times, self.jobs_seen = deadly, times, [self.jobs]

    def submit(self, function: Any, *given: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.times and any((task.key, task.replication) in self.deadly for task in given[0]):
            self.times -= 1
            future.set_exception(BrokenPipeError())
        else:
            future.set_result(function(*given))
        return future

    def replace(self, jobs: int) -> None:
        self.jobs = jobs
        self.jobs_seen.append(jobs)


class TestTheSameTable:
    def test_in_any_order(self, tmp_path: Path) -> None:
        one, _ = booked(sweep(), tmp_path / "one")
        other, _ = booked(sweep(), tmp_path / "other", Shuffled())
        assert [*one.cells()] == [*other.cells()]
        assert len(one.rows) == 8
        assert one.sha256 == other.sha256

    def test_in_two_processes(self, tmp_path: Path) -> None:
        one, _ = booked(sweep(), tmp_path / "one")
        other, _ = booked(sweep(), tmp_path / "other", Pool(2))
        assert one.sha256 == other.sha256

    @pytest.mark.slow
    @pytest.mark.product
    def test_after_a_process_was_killed(self, tmp_path: Path) -> None:
        one, _ = booked(sweep(), tmp_path / "one")
        killed: list[int] = []
        with Store(tmp_path / "other") as store, Pool(2) as backend:

            def kill_once(status: Status) -> None:
                if status.done and not killed:
                    processes: Any = backend._executor._processes
                    killed.append(next(iter(processes)))
                    os.kill(killed[0], signal.SIGKILL)

            runs = Runs(store, backend, kill_once)
            Grid(sweep()).begin(runs)
            runs.make()
            assert backend.jobs == 1
        other, _ = booked(sweep(), tmp_path / "other")
        assert killed
        assert one.sha256 == other.sha256

    def test_on_a_cluster_of_dask(self, tmp_path: Path, scheduler: str) -> None:
        from varsim.study.pool import Dask

        one, _ = booked(sweep(), tmp_path / "one")
        dask = Dask(scheduler)
        assert dask.jobs == 2
        other, _ = booked(sweep(), tmp_path / "other", dask)
        assert one.sha256 == other.sha256


def longer_tails(degrees: int, comparisons: int = 1) -> float:
    """Student's t as another version of a library gives it: 4e-11 more."""
    return student_t(degrees, comparisons) * (1 + 4e-11)


class TestTheHash:
    def test_it_is_of_what_was_simulated_not_of_what_statistics_make_of_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, _ = booked(sweep(), tmp_path / "one")
        monkeypatch.setattr("varsim.study.verdict.student_t", longer_tails)
        other, _ = booked(sweep(), tmp_path / "other")
        assert [*one.cells()] != [*other.cells()]
        assert one.sha256 == other.sha256

    def test_another_seed_or_another_swept_value_is_another_hash(self, tmp_path: Path) -> None:
        blocks = ["seed: [1, 2]", "seed: [1, 3]", "workload.batch_size: [4, 5]"]
        found = [booked(sweep(block), tmp_path)[0].sha256 for block in blocks]
        assert len(set(found)) == 3

    def test_one_nanosecond_is_another_hash(self, tmp_path: Path) -> None:
        trace = run_one(Run(sweep().points[0].scenario, 0, 0))
        later = trace.spans.copy()
        later[-1, 3] += 1
        assert trace_sha256(trace) != trace_sha256(replace(trace, span_rows=Rows.of(later)))
        assert trace_sha256(trace) == trace_sha256(replace(trace, heap_events=0))


class TestHowOften:
    def often(self, directory: Path, block: str) -> list[int]:
        table, _ = booked(sweep(f"seed: [1, 2]\n{block}"), directory)
        return [row.replications for row in table.rows]

    def test_precision_adds_replications_and_the_cap_ends_them(self, tmp_path: Path) -> None:
        assert self.often(tmp_path / "a", "precision: 90 %") == [2] * 4
        fine = self.often(tmp_path / "b", "precision: 1 %\nmost_replications: 12")
        assert min(fine) > 2
        assert self.often(tmp_path / "c", "precision: 0.01 %\nmost_replications: 5") == [5] * 4

    def test_rows_say_whether_they_are_precise(self, tmp_path: Path) -> None:
        block = "seed: [1, 2]\nprecision: 0.01 %\nmost_replications: 3"
        table, _ = booked(sweep(block), tmp_path)
        assert not any(row.precise for row in table.rows)
        wide = noted(table)["wide"].values
        assert (wide["count"], wide["of"], wide["most"]) == (4, 4, 3)


class TestDeaths:
    def test_a_run_that_kills_its_process_twice_is_marked(self, tmp_path: Path) -> None:
        key = candidates(sweep())[1].case.key
        backend = Deadly({(key, 1)})
        table, books = booked(sweep(), tmp_path, backend)
        assert {row.candidate.case.key for row in table.failed} == {key}
        assert table.failed[0].failure == DIED
        assert books.status.failed == 1
        assert backend.jobs_seen[:2] == [4, 1]
        assert backend.jobs_seen[-1] == 2, "it goes on with fewer jobs"
        # Tried again by the next call, it may well do.
        again, _ = booked(sweep(), tmp_path)
        assert not again.failed

    def test_a_run_whose_process_died_once_counts(self, tmp_path: Path) -> None:
        key = candidates(sweep())[1].case.key
        one, _ = booked(sweep(), tmp_path / "one")
        other, _ = booked(sweep(), tmp_path / "other", Deadly({(key, 1)}, times=1))
        assert one.sha256 == other.sha256


def test_a_failing_point_does_not_stop_the_rest(tmp_path: Path) -> None:
    """Where both workers are needed, the death of one leaves the run standing still."""
    base = BASE + "events:\n  - {at: 150 ms, kill: {worker: 1}}\n"
    swept = sweep(
        "strategies.backup_workers.replicas_to_aggregate: [1, 2]", ["cluster.workers=2"], base
    )
    table, books = booked(swept, tmp_path)
    assert [(row.strategy, bool(row.failure)) for row in table.rows] == [
        ("on_write", True), ("backup_workers", False), ("on_write", True), ("backup_workers", True)
    ]  # fmt: skip
    assert "the run deadlocked at" in table.rows[3].failure
    assert math.isnan(table.rows[3].mean("examples_per_s"))
    assert table.rows[1].mean("examples_per_s") > 0
    assert books.status.failed == 4, "two cases in two replications"


def test_an_error_in_a_run_is_its_failure() -> None:
    case = candidates(sweep())[0].case
    broken = case.scenario.model_copy(update={"strategies": ()})
    (done,) = run_tasks([Task("k", 0, packed(case._replace(scenario=broken)))])
    assert done.failure.startswith("IndexError: ")
    assert done.measured == {}


def test_another_engine_is_refused() -> None:
    with pytest.raises(RuntimeError, match="engine"):
        run_tasks([], engine=-1)


class Noting(Here):
    """Makes no runs, says that each took so long, and notes how many were handed out together."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.counts = seconds, list[int]()

    def submit(self, function: Any, *given: Any, **named: Any) -> Future[Any]:
        self.counts.append(len(given[0]))
        future: Future[Any] = Future()
        ends = [(one.key, one.replication, self.seconds) for one in given[0]]
        future.set_result([Finished(*end, {"examples_per_s": 1.0}) for end in ends])
        return future


class Forgetting(Store):
    """Keeps nothing."""

    def add(self, runs: Iterable[Finished]) -> None:
        pass


class TestTogether:
    """How many runs go to a process at once."""

    @pytest.mark.parametrize(
        ("seconds", "first", "most"), [(0.03, 1, 10), (1.0, 1, 1), (1e-6, 1, 64), (0.0, 1, 64)]
    )
    def test_as_many_as_take_a_third_of_a_second(
        self, tmp_path: Path, seconds: float, first: int, most: int
    ) -> None:
        whole = sweep("seed: {from: 1, to: 400, step: 1}\nmost_replications: 2")
        maker = Noting(seconds)
        with Forgetting(tmp_path) as store:
            runs = Runs(store, maker)
            Grid(replace(whole, strategies=("on_write",))).begin(runs)
            runs.make()
        assert sum(maker.counts) == 800
        assert (maker.counts[0], max(maker.counts)) == (first, most)
        assert maker.counts[-1] == 1, "few towards the end, so that all end together"


class Stops(Here):
    """Is interrupted when so many batches have been made."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def submit(self, function: Any, *given: Any, **named: Any) -> Future[Any]:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return super().submit(function, *given, **named)


class TestStore:
    def test_what_is_there_is_not_run_again(self, tmp_path: Path) -> None:
        whole, _ = booked(sweep(), tmp_path / "whole")
        with pytest.raises(KeyboardInterrupt):
            booked(sweep(), tmp_path / "parts", Stops(3))
        with Store(tmp_path / "parts") as store:
            kept = store.count()
        assert kept >= 3
        table, books = booked(sweep(), tmp_path / "parts")
        assert books.resumed == kept
        assert table.sha256 == whole.sha256
        _, books = booked(sweep(), tmp_path / "parts", Stops(0))
        assert books.resumed == books.status.done == books.status.total

    def test_a_wider_sweep_uses_the_runs_of_a_narrower_one(self, tmp_path: Path) -> None:
        _, first = booked(sweep("cluster.workers: [2, 4]"), tmp_path)
        _, second = booked(sweep("cluster.workers: [2, 4, 6]"), tmp_path)
        assert second.resumed == first.status.done

    def test_another_seed_is_another_run(self, tmp_path: Path) -> None:
        booked(sweep("cluster.workers: [2, 4]"), tmp_path)
        _, second = booked(sweep("cluster.workers: [2, 4]", ["seed=99"]), tmp_path)
        assert second.resumed == 0

    def test_numbers_come_back_as_they_were(self, tmp_path: Path) -> None:
        run = Finished("key", 3, 0.1, {"a": 0.1 + 0.2, "b": math.nan, "c": 1e-300}, "x\ny", "ab")
        with Store(tmp_path) as store:
            store.add([run])
            (found,) = store.runs()
        assert str(found) == str(run)

    def test_what_is_added_is_there_for_others_at_once(self, tmp_path: Path) -> None:
        with Store(tmp_path) as store:
            store.add([Finished("key", 0, 0.1, {}, "")])
            (line,) = (tmp_path / STORE).read_text().splitlines()
            assert json.loads(line)["key"] == "key"
            assert [path.name for path in tmp_path.iterdir()] == [STORE]

    def test_what_cannot_be_written_says_why(self, tmp_path: Path) -> None:
        with Store(tmp_path) as store:
            (tmp_path / STORE).symlink_to("/dev/full")
            with pytest.raises(OSError, match=r"cannot write \S+runs\.jsonl: No space left"):
                store.add([Finished("key", 0, 0.1, {}, "")])
            assert store.count() == 0

    def test_one_at_a_time(self, tmp_path: Path) -> None:
        with Store(tmp_path) as store:
            store.add([Finished("key", 0, 0.1, {}, "")])
            with pytest.raises(OSError, match="another sweep is at work in"), Store(tmp_path):
                pass
        with Store(tmp_path) as store:
            assert store.count() == 1

    def test_without_a_run_nothing_is_left(self, tmp_path: Path) -> None:
        with Store(tmp_path / "a" / "b") as store:
            store.add([])
        assert list(tmp_path.iterdir()) == []


def test_the_scenario_travels_once_to_a_process(tmp_path: Path) -> None:
    """A case is unpacked once however often it is run."""
    from varsim.study import case as module

    module._unpacked.cache_clear()
    table, books = booked(sweep(), tmp_path)
    assert module._unpacked.cache_info().misses == len(books.cases)
    assert books.status.done > len(books.cases)
    assert isinstance(table.sweep, Sweep)


def test_short_rows_are_told_and_no_answer_comes_of_those_below_two_rounds(tmp_path: Path) -> None:
    """A gradient takes 80 to 120 ms: 600 ms hold a few rounds, 150 ms one."""
    block = "cluster.workers: [2, 4]"
    base = BASE.replace("stop: {global_steps: 10}", "stop: {time: 600 ms}")
    table, _ = booked(sweep(block, base=base), tmp_path / "short")
    assert told(table).headline[0].code != "too-short"
    said = noted(table)["short-rows"].values
    assert (said["count"], said["of"]) == (4, 4)
    assert "out" not in said
    longer = re.search(r"; for longer runs: --set 'stop.time=([0-9.]+) s'$", str(said["more"]))
    assert longer is not None
    assert 1.0 < float(longer[1]) < 3.0
    table, _ = booked(sweep(block, base=base, sets=["stop.time=150 ms"]), tmp_path / "one")
    assert [note.code for note in told(table).headline] == ["too-short"]
    assert noted(table)["short-rows"].values["out"] == 4
    table, _ = booked(sweep("stop.time: [0.15 s, 3 s]", base=base), tmp_path / "both")
    (first,) = told(table).headline
    assert "0.15 s" not in str(first.values)
    said = noted(table)["short-rows"].values
    assert (said["count"], said["more"]) == (2, "")  # the length is what is swept
    table, _ = booked(sweep(block, base=base, sets=["stop.time=3 s"]), tmp_path / "long")
    assert "short-rows" not in noted(table)


@pytest.mark.parametrize("axis", ["cluster.workers: [2, 4]", "seed: [1, 2]"])
def test_points_share_their_draws_where_they_have_one_seed(axis: str, tmp_path: Path) -> None:
    table, _ = booked(sweep(axis), tmp_path)
    assert ("shared-draws" in noted(table)) == ("seed" not in axis)
