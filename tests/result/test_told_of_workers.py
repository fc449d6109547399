"""What is told of workers that leave and come back by themselves, beside a job that rolls back."""

from typing import Any

import numpy as np
import pytest

from tests.building import scenario
from varsim.report.plots.life import attempts
from varsim.report.words import life
from varsim.report.words.notes import notes
from varsim.report.words.table import brief
from varsim.study.goodput import metrics
from varsim.study.result import Result
from varsim.study.simulation import simulate
from varsim.study.tables import lives
from varsim.study.why.lives import helps

# Worker 1 fails at 50.25, is away for 20 s, and back at 73.25 s of 100.
FAILURES: dict[str, Any] = {
    "horizon": 100.0,
    "detection": 1.0,
    "recorded": {"failures": ((50.25, "worker", 1),), "repair": 20.0},
}
CASE: dict[str, Any] = {
    "cluster": {"workers": 2, "compute": {"kind": "constant", "value": 1.0}},
    "failures": FAILURES,
    "recovery": {"restart": 2.0},
    "stop": {"global_steps": 16},
}
EASGD = {"kind": "easgd", "period": 2}


@pytest.fixture(scope="module")
def result() -> Result:
    both = (EASGD, {"kind": "on_write"})
    return simulate(
        scenario(EASGD, strategies=both, **CASE, checkpoint={"every": 10.0, "write": 1.0})
    )


def test_each_has_its_share_of_its_own_time(result: Result) -> None:
    # One of two workers loses 1.25 s since copy and centre met, at 49, and is down for 23.
    assert result.estimate("easgd", "life_lost").mean == pytest.approx(1.25 / 200)
    assert result.estimate("easgd", "goodput").mean == pytest.approx(1 - 24.25 / 200)
    assert result.estimate("easgd", "kept_examples_per_s").mean == pytest.approx(
        (100 + 49 + 26) / 100
    )
    assert result.estimate("easgd", "interruptions").mean == 1
    assert result.estimate("easgd", "failures_per_day").mean == pytest.approx(864)
    assert result.estimate("on_write", "life_repair").mean == pytest.approx(0.2)
    assert result.estimate("on_write", "life_checkpoint").mean > 0


def test_sentences_say_whose_time(result: Result) -> None:
    best = max(result.strategies, key=lambda one: result.estimate(one, "kept_examples_per_s").mean)
    assert best == "easgd"
    # The job: 40 s and 4 checkpoints, 6.25 s lost, 23 in recovery, 24.75 s and 2 checkpoints.
    assert life.sentence(result) == (
        "Over 100 s, elastic averaging (easgd) keeps 87.88 % of the time of its workers: 0.6250 % "
        "is lost to failures, 11.50 % goes into recovery; they are interrupted once, which cost "
        "24.25 s, of one worker's time. Mirrored all-reduce (on_write) keeps 64.75 %."
    )


def test_of_several_a_table_tells_the_others(result: Result) -> None:
    shown = brief(result)
    assert shown.column("in recovery") == ("11.50 %", "23 %")
    assert shown.column("cost per interruption")[0] == "24.25 s"
    assert "in checkpoints" in shown.columns  # 0 % of easgd, which has none
    alone = brief(simulate(scenario(EASGD, strategies=(EASGD,), **CASE)))
    assert "examples/s kept" in alone.columns
    assert "goodput" not in alone.columns  # its sentence says that


def test_numbers_say_whose_they_are(result: Result) -> None:
    job = scenario({"kind": "on_write"}, **CASE)

    assert metrics(result.scenario)["cost_per_interruption"].description == (
        "time lost and down for each of them, of the job or of one worker"
    )
    assert (
        metrics(job)["cost_per_interruption"].description == "time lost and down for each of them"
    )


def test_lives_are_told_beside_each_other(result: Result) -> None:
    table = lives(result.scenario, result.traces)
    assert table.worker.tolist() == [0, 1, 1, -1, -1]


def test_attempts_are_drawn_of_worker_0(result: Result) -> None:
    from matplotlib.figure import Figure

    axes = attempts(result, Figure().subplots())

    assert axes.get_xlabel().endswith("attempts of worker 0 or of the job of the first replication")


def test_nothing_is_said_of_queues_where_there_are_none(result: Result) -> None:
    assert not any("queueing" in note for note in notes(result))
    slow = {"bandwidth": 400.0, "latency": 0.0, "sharing": "fair"}
    shared = simulate(scenario(EASGD, **{**CASE, "network": slow, "stop": {"global_steps": 40}}))
    (said,) = [note for note in notes(shared) if "queueing" in note]
    assert said.startswith(
        "While workers of elastic averaging (easgd) are missing, the steps of the others are "
        "taken to be as long as with all running; "
    )


def test_what_would_help_it_is_no_checkpoint() -> None:
    made = scenario(EASGD, **CASE)
    found = helps(made, list(simulate(made).traces))

    assert [one.key for one in found] == ["", "detection", "restart", "spare"]
    gains = [one.gain.mean * 200 for one in found]
    assert gains == pytest.approx([0, 1, 1, 20])


def test_a_loss_is_not_foreseen_whose_copies_come_back_otherwise() -> None:
    made = scenario(EASGD, **{**CASE, "stop": {"global_steps": 40}}, targets={"loss": 0.19})
    result = simulate(made)

    assert not np.isnan(result.estimate("easgd", "time_to_target").mean)
    assert np.isnan(result.estimate("easgd", "life_time_to_target").mean)
