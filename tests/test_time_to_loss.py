"""The time to a loss: that of the first update at or below it, however the loss is measured."""

import math
from typing import Any

import pytest

from tests.building import scenario
from tests.seams import METRICS, Result, Run, run_one, simulate
from varsim import Scenario
from varsim.cluster.workers.job import Job
from varsim.learning.task import Parameters, Task
from varsim.scenario.targets import Targets
from varsim.study.case import case_of, measured

EXPONENTIAL = {
    "workers": 3,
    "compute": {"kind": "shifted_exponential", "minimum": 0.05, "mean": 0.1},
}
KINDS: dict[str, dict[str, Any]] = {
    "none": {"kind": "none"},
    "on_write": {"kind": "on_write"},
    "sync_replicas": {"kind": "sync_replicas", "replicas_to_aggregate": 2},
    "backup_workers": {"kind": "backup_workers", "replicas_to_aggregate": 2},
    "on_read": {"kind": "on_read", "read_every": 7},
    "local SGD": {"kind": "on_read", "read_every": 7, "write_back": True},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def learning(kind: str, evaluate_every: int | None = 30, **changes: Any) -> Scenario:
    """Exact gradients of a bowl whose loss falls from 0.15, update by update."""
    if kind in ("on_read", "local SGD"):
        evaluate_every = None
    workload = {"batch_size": 3, "evaluate_every": evaluate_every}
    made = {
        "cluster": EXPONENTIAL,
        "stop": {"global_steps": 60},
        "targets": {"loss": 0.05},
    }
    return scenario(KINDS[kind], workload=workload, replications=2, **made | changes)


def the_first(result: Result, every: Result, loss: float) -> list[tuple[float, float]]:
    """The (time, update) of the first row at or below a loss, where every update has one."""
    rows = every.evaluations[every.evaluations.loss <= loss]
    firsts = rows.groupby("replication").first()
    return list(zip(firsts.time_s, firsts.global_step.astype(float), strict=True))


# Where copies differ a strategy's own reads say when the loss is measured: no evaluate_every.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("on_read", "local SGD")])
def test_it_does_not_depend_on_how_often_the_loss_is_measured(kind: str) -> None:
    results = [simulate(learning(kind, every)) for every in (3, 30, 300)]
    for metric in ("time_to_target", "updates_to_target"):
        first, *others = [result.values(kind.split()[0], metric) for result in results]
        assert all(map(math.isfinite, first))
        assert others == [first, first]


@pytest.mark.parametrize("kind", ["none", "on_write", "sync_replicas", "backup_workers"])
def test_it_is_the_first_of_all_updates(kind: str) -> None:
    # Batches of 3 examples: with evaluate_every 1 each update is measured anyway.
    every, seldom = simulate(learning(kind, 1)), simulate(learning(kind, 3000))
    found = [seldom.values(kind, metric) for metric in ("time_to_target", "updates_to_target")]
    assert list(zip(*found, strict=True)) == the_first(seldom, every, 0.05)
    # Between start and end only what was looked for is in the table.
    assert seldom.evaluations.off_grid.tolist() == [0, 1, 0] * 2


@pytest.mark.parametrize("kind", ["on_read", "local SGD"])
def test_copies_are_looked_at_at_every_update_too(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, float]] = []
    count = Job.count_step

    def counted(job: Job) -> None:
        count(job)
        seen.append((job.clock.time, job.task.loss(job.model())))

    monkeypatch.setattr(Job, "count_step", counted)
    trace = run_one(Run(learning(kind), 0, 0))
    row = next(row for row in trace.evaluations if row.loss <= 0.05)
    step = next(index for index, (_, loss) in enumerate(seen) if loss <= 0.05)
    assert (row.time, row.global_step) == (seen[step][0], step + 1)
    assert row.global_step % 7, "between two reads"


@every_kind
def test_looking_for_a_loss_changes_nothing_else(kind: str) -> None:
    with_target, without = simulate(learning(kind)), simulate(learning(kind, targets={}))
    about = {"time_to_target", "updates_to_target", "time_to_target_ratio"}
    left = [name for name in METRICS if name not in about]
    assert with_target.runs[left].equals(without.runs[left])
    regular = with_target.evaluations.query("off_grid == 0").reset_index(drop=True)
    assert regular.equals(without.evaluations)


@every_kind
def test_a_run_ends_at_the_update_that_reaches_the_loss(kind: str) -> None:
    label = KINDS[kind]["kind"]
    found = simulate(learning(kind)).values(label, "time_to_target")
    for every in (3, 300):
        stop = {"global_steps": 60, "loss": 0.05}
        ended = simulate(learning(kind, every, stop=stop, targets={}))
        assert [trace.end / 1e9 for trace in ended.traces] == found
        assert [trace.stopped_by for trace in ended.traces] == ["loss"] * 2
        assert ended.values(label, "time_to_target") == found
        # The end is measured once.
        last = ended.traces[0].evaluations[-2:]
        assert last[0].global_step < last[1].global_step == ended.traces[0].global_step


def test_a_target_and_a_loss_that_ends_the_run_are_both_found() -> None:
    stop = {"global_steps": 60, "loss": 0.02}
    result = simulate(learning("none", 3000, stop=stop, targets={"loss": 0.05}))
    (time, _), end = result.values("none", "time_to_target"), result.traces[0].end / 1e9
    alone = simulate(learning("none", 3000, stop=stop, targets={})).traces[0]
    assert time == simulate(learning("none", 3)).values("none", "time_to_target")[0]
    assert time < end == alone.end / 1e9


@pytest.mark.parametrize("problem", ["digits", "linear_regression", "embedding"])
def test_updates_that_cannot_have_reached_it_are_not_measured(
    problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = {"digits": 0.01, "linear_regression": 0.002, "embedding": 1.0}
    made = learning(
        "none",
        3000,
        problem={"kind": problem},
        optimizer={"kind": "sgd", "learning_rate": rates[problem]},
        stop={"global_steps": 300},
    )
    task = made.workload.problem.task(0, 0)
    kind, goal = type(task), 0.93 * task.loss(task.initial())
    made = made.model_copy(update={"targets": Targets(loss=goal)})
    measured_often = []
    loss = kind.loss

    def counted(task: Task, parameters: Parameters) -> float:
        measured_often.append(1)
        return loss(task, parameters)

    monkeypatch.setattr(kind, "loss", counted)
    with_bound = run_one(Run(made, 0, 0)).evaluations
    few = len(measured_often)
    monkeypatch.setattr(kind, "floor", Task.floor)
    without = run_one(Run(made, 0, 0)).evaluations
    assert list(map(repr, with_bound)) == list(map(repr, without))
    assert len(with_bound) == 3, "it was reached"
    assert few < (len(measured_often) - few) * (1 if problem == "embedding" else 0.5)


def test_a_sweep_finds_the_same_time() -> None:
    made = learning("none", 300)
    case = case_of(made, made.strategies[0])
    found = measured(case.scenario, run_one(Run(case.scenario, 0, 1)))["time_to_target"]
    assert found == simulate(made).values("none", "time_to_target")[1]


class TestWords:
    def test_when_copies_were_really_read_at_or_below_it(self) -> None:
        result = simulate(learning("on_read"))
        reads = result.evaluations.query("off_grid == 0 and loss <= 0.05")
        first = reads.groupby("replication").time_s.first().mean()
        (cell,) = result.table()["first read that good"]
        assert float(cell.split()[0]) == pytest.approx(first, rel=0.2)
        assert first > result.estimate("on_read", "time_to_target").mean
        assert "first read that good" not in simulate(learning("none")).table()

    def test_a_run_that_ends_before_a_read(self) -> None:
        result = simulate(learning("on_read", stop={"global_steps": 60, "loss": 0.05}))
        assert "first read that good" not in result.table()
