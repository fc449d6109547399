"""Statistics of stragglers: by hand, and of real jobs as others computed them."""

import csv
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.building import run, slow
from tests.seams import Note
from varsim.report.products.measurements import report
from varsim.study.stragglers import Stragglers, Table, compute_times, stragglers

DATA = Path(__file__).parent.parent / "data" / "step_times"
FACTS: dict[str, dict[str, Any]] = json.loads((DATA / "facts.json").read_text())


def recorded(name: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    with (DATA / f"{name}.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    steps = sorted({int(row["step"]) for row in rows})
    workers = sorted({int(row["worker"]) for row in rows})
    table = np.full((len(steps), len(workers)), np.nan)
    for row in rows:
        table[steps.index(int(row["step"])), int(row["worker"])] = float(row["seconds"])
    return table


@pytest.mark.parametrize("name", FACTS)
def test_numbers_of_real_jobs(name: str) -> None:
    facts, found = FACTS[name], stragglers(recorded(name))
    # The table of ByteDance has six digits; the facts come from more.
    near = {"rel": 1e-5, "abs": 1e-5}

    assert found.table.shape == (facts["steps"], facts["workers"])
    assert found.mean == pytest.approx(facts["mean_seconds"], **near)
    assert found.barrier_mean == pytest.approx(facts["barrier_mean_seconds"], **near)
    assert found.slowdown == pytest.approx(facts["barrier_over_mean"], **near)
    assert found.worker_means == pytest.approx(facts["worker_means"], **near)
    assert found.cv_within_step == pytest.approx(facts["cv_within_step_mean"], **near)
    assert found.cv_all == pytest.approx(facts["cv_all"], **near)
    assert found.equal_to_previous == pytest.approx(facts["share_equal_to_previous"], **near)
    assert {str(lag): value for lag, value in found.autocorrelation.items()} == pytest.approx(
        facts["autocorrelation"], **near
    )
    backups = [facts[key] for key in ("one_backup", "two_backups") if key in facts]
    assert [backup._asdict() for backup in found.backups] == [
        pytest.approx(backup, **near) for backup in backups
    ]


def test_by_hand() -> None:
    # Worker 1 is late in the first step, worker 0 in the third; in the second they are alike.
    found = stragglers(np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0]]))

    assert found.slowdown == pytest.approx((3 + 2 + 3) / 3 / 2)
    assert found.worker_slowdowns == pytest.approx(((2 + 2 + 3) / 3 / 2,) * 2)
    assert found.last == pytest.approx((0.5, 0.5))
    assert found.wasted == pytest.approx(2 + 0 + 2)
    assert found.wasted_share == pytest.approx(4 / 16)
    assert found.backups[0].time_saved == pytest.approx(1 - 4 / 8)
    assert len(found.backups) == 1
    assert found.equal_to_previous == 0


def test_equal_times_have_no_stragglers_and_no_correlation() -> None:
    found = stragglers(np.full((5, 3), 0.1))

    assert found.slowdown == pytest.approx(1)
    assert found.autocorrelation == {}
    assert "autocorrelation" not in told(found)


def test_the_barrier_of_independent_draws_is_the_mean_over_all_combinations() -> None:
    for table in ([[1.0, 2.5, 2.0], [4.0, 1.0, 2.0], [3.0, 7.0, 2.0]], [[1.0, 1.0], [2.0, 3.0]]):
        times = np.array(table)
        every = [max(one) for one in product(*times.T.tolist())]

        assert stragglers(times).independent == pytest.approx(np.mean(every) / times.mean())


def told(found: Stragglers) -> dict[str, Note]:
    """The notes by their codes."""
    numbers = range(found.table.shape[1])
    return {note.code: note for note in report(found, "times", numbers, 0).notes}


def common(apart: float, together: float, steps: int = 1000, workers: int = 8) -> Table:
    """Steps of 100 ms that vary by so much in common, and apart."""
    draws = np.random.default_rng(1)
    logs = together * draws.standard_normal((steps, 1))
    return 0.1 * np.exp(logs + apart * draws.standard_normal((steps, workers)))


def test_workers_that_are_slow_together_are_told_from_independent_ones() -> None:
    found, alone = stragglers(common(0.02, 0.2)), stragglers(common(0.2, 0.0))

    assert (found.dependent, alone.dependent) == (True, False)
    assert found.slowdown == pytest.approx(1.028, abs=0.002)
    assert found.independent == pytest.approx(1.30, abs=0.02)
    assert alone.independent == pytest.approx(alone.slowdown, rel=0.01)
    assert told(found)["slow-alike"].values["how"] == "together"
    assert "slow-alike" not in told(alone)


def test_one_worker_after_the_other_is_slow_in_turn() -> None:
    found = stragglers(1 + np.eye(4)[np.arange(40) % 4])

    # Always one of four takes twice as long; apart, none would in (3/4)^4 of the steps.
    assert (found.slowdown, found.independent) == (
        pytest.approx(2 / 1.25),
        pytest.approx((2 - 0.75**4) / 1.25),
    )
    assert told(found)["slow-alike"].values["how"] == "in turn"


def test_times_that_contain_the_barrier_are_equal() -> None:
    draws = np.random.default_rng(2)

    def walls(step: float, vary: float, late: float) -> Table:
        """Steps between barriers, of clocks that are read late by so much."""
        ends = late * draws.standard_normal((61, 4))
        return step + vary * draws.standard_normal((60, 1)) + np.diff(ends, axis=0)

    assert stragglers(np.array([[0.2930, 0.2922, 0.2930, 0.2931]])).equal
    assert stragglers(walls(0.293, 0.003, 0.0008)).equal
    # A spread of 1.4 %, but what is read late is taken back.
    assert stragglers(walls(0.010, 0.001, 0.0001)).equal


@pytest.mark.parametrize("name", FACTS)
def test_computing_alone_is_not_as_equal(name: str) -> None:
    assert not stragglers(recorded(name)).equal
    assert not stragglers(common(0.02, 0.2)).equal
    assert not stragglers(common(0.01, 0.0, steps=60, workers=2)).equal


def test_the_compute_times_of_a_run_are_those_of_its_workers() -> None:
    trace = run("on_write", cluster={"slow_workers": (slow(2, 2.5),)})
    found = compute_times(trace)

    assert found is not None
    assert found.tolist() == [[0.1, 0.1, 0.25]] * 3
    assert stragglers(found).slowdown == pytest.approx(0.25 / 0.15)


def test_a_run_that_gives_computations_up_says_nothing_of_stragglers() -> None:
    backups = {"kind": "backup_workers", "replicas_to_aggregate": 2}
    trace = run(backups, cluster={"slow_workers": (slow(2, 2.5),)})

    assert compute_times(trace) is None
