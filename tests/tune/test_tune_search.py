"""The best learning rate of a strategy: found, measured again, and how sure it is.

A bowl of one dimension without noise: each step leaves (1 - rate) of the distance to the optimum,
so that rate 1 is there after one step, which takes one worker 100 ms. The loss begins at 1/2.
"""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.building import scenario
from tests.seams import simulate
from varsim import Scenario
from varsim.report.formats import render
from varsim.report.products.tune import measured, report
from varsim.report.told import Cell, Note, Number
from varsim.study.pool import Backend, Here, Pool
from varsim.study.runs import Runs
from varsim.study.store import Store
from varsim.study.tune import MORE, BestRates, Rates

BOWL = {"kind": "quadratic", "dimension": 1}
LONG = {"kind": "quadratic", "dimension": 2, "condition_number": 4.0}
NOISY = {"kind": "quadratic", "dimension": 4, "noise": 1.0}


def made(rate: float, *kinds: str, **changes: Any) -> Scenario:
    """Strategies on a bowl, at one rate for all; one worker each unless told otherwise."""
    strategies = tuple({"kind": kind} for kind in kinds or ("single",))
    return scenario(
        strategies[0],
        **{
            "strategies": strategies,
            "cluster": {"workers": 1, "compute": {"kind": "constant", "value": 0.1}},
            "problem": BOWL,
            "workload": {"evaluate_every": 1},
            "optimizer": {"learning_rate": rate},
            "stop": {"time": 3.0},
            "targets": {"loss": 1e-6},
            "replications": 2,
            **changes,
        },
    )


def searched(
    what: Scenario, folder: Path, rates: tuple[float, ...] = (), backend: Backend | None = None
) -> Rates:
    search = BestRates(what, rates)
    with Store(folder) as store, backend or Here() as there:
        return search.run(Runs(store, there))


def column(found: Rates, key: str) -> tuple[Cell, ...]:
    """The cells of a column that is told."""
    (cells,) = (one.cells for one in report(found).table.columns if one.key == key)
    return cells


def said(found: Rates, code: str) -> Note:
    """The only sentence or note of a code."""
    told = report(found)
    every: list[Note] = [*told.headline, *told.notes]
    (note,) = (one for one in every if one.code == code)
    return note


@pytest.mark.parametrize("begin", [1 / 32, 0.25, 1.0, 16.0, 300.0])
def test_it_is_found_from_wherever_the_search_begins(begin: float, tmp_path: Path) -> None:
    found = searched(made(begin), tmp_path)
    (one,) = found.tuned

    assert one.best.rate == pytest.approx(1.0, rel=0.2), "the rung that is next to 1"
    assert one.edge == ""
    tried = [trial.rate for trial in one.trials]
    assert tried == sorted(set(tried))
    # A step at the rate r leaves (1 - r)^2 of the loss: so many until 1/2 is a millionth.
    steps = max(1, math.ceil(math.log(2e-6) / (2 * math.log(abs(1 - one.best.rate) or 1e-9))))
    assert one.fresh is not None
    assert one.fresh.found.mean == pytest.approx(0.1 * steps)
    assert said(found, "tuned").values["rate"] == f"{one.best.rate:g}"


def test_a_time_is_that_of_the_whole_run(tmp_path: Path) -> None:
    what = made(0.3, problem=NOISY, targets={"loss": 0.2}, workload={"batch_size": 4})
    found = searched(what, tmp_path, rates=(0.3, 0.6))
    rows: Any = (dict(zip(found.columns, row, strict=True)) for row in found.cells())
    (again,) = (row for row in rows if row["seeds"] == "fresh")

    chosen = made(
        again["learning_rate"],
        problem=NOISY,
        targets={"loss": 0.2},
        workload={"batch_size": 4},
        seed=again["seed"],
        replications=again["replications"],
    )
    assert simulate(chosen).estimate("single", "time_to_target").mean == again["time_to_target"]


def test_what_was_chosen_is_measured_with_seeds_that_nobody_has_seen(tmp_path: Path) -> None:
    what = made(0.3, problem=NOISY, targets={"loss": 0.2}, seed=4)
    found = searched(what, tmp_path)
    (one,) = found.tuned

    assert one.fresh is not None
    assert (one.best.seed, one.fresh.seed) == (4, 5)
    assert one.fresh.reaches[:2] != one.best.reaches[:2]
    assert one.fresh.replications >= 12
    assert said(found, "fresh-seeds").values == {"count": one.fresh.replications, "seed": "5"}


def test_what_is_close_to_the_best_is_run_more_often(tmp_path: Path) -> None:
    what = made(0.3, problem=NOISY, targets={"loss": 0.2}, replications=4)
    (one,) = searched(what, tmp_path, rates=(0.003, 0.3, 0.31)).tuned

    counts = {trial.rate: trial.replications for trial in one.trials}
    assert counts[0.003] == 4, "not once more: it never gets there"
    assert counts[0.3] == counts[0.31] == 4 * MORE
    assert {one.best.rate, *(tie.rate for tie in one.ties)} == {0.3, 0.31}


def test_rates_that_do_the_same_are_as_good(tmp_path: Path) -> None:
    # After one step the loss is below 0.4 at all of these.
    found = searched(made(1.0, targets={"loss": 0.4}), tmp_path, rates=(0.5, 1.0, 0.8))
    (one,) = found.tuned

    assert (one.best.rate, [tie.rate for tie in one.ties]) == (0.5, [0.8, 1.0])
    assert column(found, "as_good") == ("0.8, 1",)


@pytest.mark.parametrize(
    ("rates", "edge", "cell", "hint"),
    [
        ((0.1, 0.2), "upper", "0.2 (highest tried)", "0.2,0.4,0.8"),
        ((1.2, 1.6), "lower", "1.2 (lowest tried)", "0.3,0.6,1.2"),
        ((0.2,), "lower", "0.2 (only one tried)", "0.1,0.2,0.4"),
    ],
)
def test_a_best_rate_at_the_edge_says_so(
    rates: tuple[float, ...], edge: str, cell: str, hint: str, tmp_path: Path
) -> None:
    found = searched(made(0.3), tmp_path, rates=rates)
    one = found.tuned[0]

    assert one.edge == edge
    assert said(found, "edge-rate").values["rates"] == hint
    assert column(found, "learning_rate") == (cell,)
    assert "edge" in said(found, "tuned").values


def test_a_best_rate_between_others_needs_no_word(tmp_path: Path) -> None:
    found = searched(made(0.3), tmp_path, rates=(0.5, 1.0, 1.5))
    assert column(found, "learning_rate") == ("1",)
    assert "edge" not in said(found, "tuned").values


def test_a_loss_between_reads_need_not_have_been_read(tmp_path: Path) -> None:
    what = made(0.5, "on_read", "none", problem=NOISY, targets={"loss": 0.3})
    assert said(searched(what, tmp_path), "unread").values == {"who": ("sync on read",)}


def test_a_loss_that_no_rate_reaches_is_told_of(tmp_path: Path) -> None:
    what = made(0.01, problem=NOISY, targets={"loss": 1e-9}, stop={"time": 1.0})
    found = searched(what, tmp_path)
    (one,) = found.tuned

    assert not one.best.sound
    assert 0.1 < one.best.rate < 2, "where the loss is lowest at last"
    assert said(found, "tuned-none").values["loss"] == "1e-09"
    assert said(found, "rates-in-vain").values["count"] == len(one.trials)
    assert column(found, "time_to_target") == ("in 0 of 12",)


def test_a_rate_that_gets_there_now_and_then_is_no_best_one(tmp_path: Path) -> None:
    what = made(0.3, problem=NOISY, targets={"loss": 0.12}, replications=8)
    (one,) = searched(what, tmp_path, rates=(0.05, 0.6)).tuned
    steady, wild = one.trials

    assert 0 < wild.reached < wild.replications
    assert min(value for value in wild.reaches if value == value) < min(steady.reaches)
    assert one.best is steady


def test_strategies_are_compared_each_at_its_best(tmp_path: Path) -> None:
    # Two workers: what both send at once is half of it stale, so that smaller steps are better.
    what = made(
        0.5,
        "on_write",
        "none",
        cluster={"workers": 2},
        network={"bandwidth": 1e6, "latency": 1e-6},
        problem=LONG,
    )
    found = searched(what, tmp_path)
    rates = {one.label: one.best.rate for one in found.tuned}
    of = said(found, "tuned").values

    assert rates["none"] < rates["on_write"] == pytest.approx(1.6, rel=0.2)
    assert (of["best"], of["next"]) == ("async PS", "all-reduce")
    times = of["times"]
    assert isinstance(times, Number)
    assert times.mean == pytest.approx(13 / 9, rel=0.01), "steps of 100 ms"
    assert found.tuned_scenario().workload.optimizer is None
    assert {
        one.label: one.optimizer.learning_rate
        for one in found.tuned_scenario().strategies
        if one.optimizer is not None
    } == rates


def test_without_a_target_the_loss_at_the_common_end_counts(tmp_path: Path) -> None:
    # One worker takes 200 ms: 8 gradients are 4 steps of 0.2 s, or of nobody's waiting 0.6 s.
    what = made(
        0.5,
        "on_write",
        "none",
        cluster={"workers": 2, "slow_workers": ({"rank": 1, "factor": 2.0},)},
        problem=LONG,
        targets={},
        stop={"global_steps": 4},
        network={"bandwidth": 1e9, "latency": 0.0},
    )
    found = searched(what, tmp_path)

    assert found.goal.end == pytest.approx(0.6, rel=1e-3)
    assert measured(found.goal) == "loss at 600 ms"
    assert "loss" not in report(found).headline[0].values
    assert all(one.fresh is not None and one.fresh.sound for one in found.tuned)


def test_a_strategy_that_stands_still_is_told_of(tmp_path: Path) -> None:
    what = made(
        0.5,
        "on_write",
        "single",
        cluster={"workers": 2},
        events=({"at": 0.05, "kill": {"worker": 1}},),
        targets={"loss": 1e-3},
    )
    found = searched(what, tmp_path)

    assert found.tuned[0].fresh is None
    assert said(found, "rates-fail").values["who"] == "all-reduce"
    assert "failed" in column(found, "time_to_target")


def test_it_is_the_same_on_any_number_of_processes(tmp_path: Path) -> None:
    what = made(0.3, "single", "none", problem=NOISY, targets={"loss": 0.2})
    here = searched(what, tmp_path / "one")
    there = searched(what, tmp_path / "two", backend=Pool(2))

    assert render(report(here), "csv") == render(report(there), "csv")
    assert render(report(here), "json") == render(report(there), "json")
