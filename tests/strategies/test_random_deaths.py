"""Whatever dies and comes back, the books are kept, and what is said of a standstill is true."""

import random
import re
from itertools import pairwise
from typing import Any

import pytest

from tests.building import (
    APPLIED,
    DROPPED,
    LOST,
    NO_TIME,
    PARTLY,
    PENDING,
    allows_deaths,
    assert_same,
    computed_until,
    declared,
    example,
    gradient_rows,
    run,
    scenario,
    span_rows,
)
from tests.seams import STRATEGIES, GradientRow, Phase, Trace
from varsim.study.measure import worker_time

Case = dict[str, Any]

WIRES = [
    NO_TIME,
    *(
        {"bandwidth": 4e3, "latency": 1e-3, "sharing": sharing}
        for sharing in ("first_come", "fair")
    ),
]
DISTRIBUTIONS = [{"kind": "constant", "value": 0.1}, {"kind": "exponential", "mean": 0.1}]
PROBLEMS = [{"kind": "quadratic", "noise": 1.0}, {"kind": "linear_regression"}]


def random_events(source: random.Random, workers: int, chief: bool) -> tuple[Case, ...]:
    """A few deaths and restarts, some at one instant, some of them while others are dead."""
    events, dead, time = [], set(), 0.0
    for _ in range(source.randrange(1, 7)):
        time += source.choice([0.0, 0.01, 0.05, 0.1, 0.13, 0.3])
        rank = source.randrange(workers)
        who = "chief" if rank == 0 and chief and source.random() < 0.5 else {"worker": rank}
        events.append({"at": time, ("restart" if rank in dead else "kill"): who})
        dead ^= {rank}
    if chief and 0 not in dead and source.random() < 0.2:
        events.append({"at": time + 0.1, "stop": "chief"})
    return tuple(events)


def strategies(source: random.Random, workers: int) -> list[Case]:
    listed: list[Case] = [
        {"kind": "on_write"},
        {
            "kind": "on_read",
            "read_every": source.randrange(1, 4),
            "write_back": source.random() < 0.5,
            "aggregation": source.choice(["mean", "sum", "only_first_replica"]),
        },
        {"kind": "none"},
        {
            "kind": "sync_replicas",
            "replicas_to_aggregate": source.randrange(1, workers + 2),
            "total_num_replicas": source.randrange(1, workers + 3),
        },
        {"kind": "backup_workers", "replicas_to_aggregate": source.randrange(1, workers + 1)},
        {"kind": "single"},
        {"kind": "on_write", "micro_batches": source.randrange(2, 5)},
        {
            "kind": "on_write",
            "micro_batches": 3,
            "drop_compute": {"threshold": 0.2},
        },
        {"kind": "none", "use_locking": True},
        {"kind": "on_write", "on_death": "continue_with_fewer"},
        {
            "kind": "on_write",
            "on_death": "continue_with_fewer",
            "micro_batches": 2,
            "drop_compute": {"threshold": 0.12},
        },
        {
            "kind": "local_sgd",
            "period": source.randrange(1, 4),
            "on_death": "continue_with_fewer",
        },
    ]
    kinds = {strategy["kind"] for strategy in listed}
    others = [example(kind, workers) for kind in STRATEGIES if kind not in kinds]
    return listed + [strategy for strategy in others if allows_deaths(strategy)]


def random_cases(seed: int) -> list[tuple[Case, Case]]:
    """One of each strategy, and what all of them share."""
    source = random.Random(seed)
    workers = source.randrange(1, 6)
    shared = {
        "cluster": {"workers": workers, "compute": source.choice(DISTRIBUTIONS)},
        "network": source.choice(WIRES),
        "problem": source.choice(PROBLEMS),
        "stop": {"global_steps": 12},
    }
    cluster = scenario({"kind": "none"}, cluster=shared["cluster"]).cluster
    return [
        (
            strategy,
            {
                **shared,
                "events": random_events(
                    source,
                    declared(strategy).workers(cluster),
                    chief=declared(strategy).sends.committed_by == "chief",
                ),
            },
        )
        for strategy in strategies(source, workers)
    ]


def rows_of(trace: Trace, worker: int) -> list[GradientRow]:
    rows = [row for row in gradient_rows(trace) if row.worker == worker]
    return sorted(rows, key=lambda row: row.iteration)


def check_books(trace: Trace) -> None:
    """Every gradient has one end, every worker's time is accounted for."""
    worker_time(trace)
    rows = gradient_rows(trace)
    ends = [row.applied for row in rows if row.outcome != PENDING]
    assert ends == sorted(ends)
    for row in rows:
        if row.outcome == LOST:
            assert row.parts_applied == 0
            assert row.computed == -1 or row.computed <= row.applied
        elif row.outcome in (APPLIED, PARTLY):
            assert row.parts_applied == trace.variables or row.outcome == PARTLY
            assert row.computed <= row.arrived <= row.applied
    for worker in range(trace.workers):
        mine = rows_of(trace, worker)
        assert [row.iteration for row in mine] == list(range(len(mine)))
        for one, other in pairwise(mine):
            # A worker of K-batch-sync goes on at what it read as long as there is no update, and
            # micro-batches share a read.
            several = trace.strategy in ("k_batch_sync", "on_write")
            keeps = several and one.read == other.read
            assert computed_until(one) <= (other.compute_start if keeps else other.read)
            assert other.read <= other.compute_start
        computing = [(s.start, s.end) for s in span_rows(trace, worker) if s.phase == Phase.COMPUTE]
        known = [(row.compute_start, computed_until(row)) for row in mine]
        assert computing[: len(known)] == known
        assert len(computing) <= len(known) + 1


def check_death(trace: Trace, events: tuple[Case, ...]) -> None:
    """From its death to its return, or the end, a worker is down."""
    down_since: dict[int, int] = {}
    expected: dict[int, int] = {}
    for event in events:
        who = event.get("kill") or event.get("restart") or event["stop"]
        rank = 0 if who == "chief" else who["worker"]
        time = min(round(event["at"] * 1e9), trace.end)
        if "restart" in event:
            expected[rank] = expected.get(rank, 0) + time - down_since.pop(rank)
        else:
            down_since[rank] = time
    for rank, time in down_since.items():
        expected[rank] = expected.get(rank, 0) + trace.end - time
    seen = worker_time(trace)[:, Phase.DOWN].tolist()
    stopped = any("stop" in event for event in events)
    for rank, time in enumerate(seen):
        assert time == expected.get(rank, 0) or (stopped and time > expected.get(rank, 0))


def check_before(trace: Trace, strategy: Case, shared: Case) -> None:
    """Until the first death nothing is different."""
    first = round(shared["events"][0]["at"] * 1e9)
    alive = {key: value for key, value in strategy.items() if key != "on_death"}
    whole = run(alive, **{**shared, "events": ()})
    for field in ("applied", "steps"):
        if field == "steps":
            one, other = trace.steps, whole.steps
        else:
            one, other = trace.gradients, whole.gradients
            one = one[(one[:, 7] >= 0) & (one[:, 7] < first)]
            other = other[(other[:, 7] >= 0) & (other[:, 7] < first)]
        if field == "steps":
            one, other = one[one < first], other[other < first]
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize("seed", range(60))
def test_the_books_are_kept(seed: int) -> None:
    for strategy, shared in random_cases(seed):
        trace = run(strategy, **shared)
        assert trace.stopped_by in ("global_steps", "deadlock", "chief")
        check_books(trace)
        check_death(trace, shared["events"])
        check_before(trace, strategy, shared)
        if strategy.get("use_locking"):
            assert all(row.outcome != PARTLY for row in gradient_rows(trace))
        assert_same(trace, run(strategy, **shared))


# What takes time besides, where a strategy is subject to it.
OVERHEADS: Case = {
    **{"pull": 1e-3, "push": 2e-3, "wake": 1e-3, "payload": 1e6, "commit": 3e-3},
    **{"message": 1e-3, "reduction": 1e6, "first_iteration": 0.02},
}


@pytest.mark.parametrize("seed", range(300, 330))
def test_the_books_are_kept_with_overheads(seed: int) -> None:
    for strategy, shared in random_cases(seed):
        overheads = {name: OVERHEADS[name] for name in sorted(declared(strategy).subject_to())}
        cluster = {**shared["cluster"], "overheads": overheads}
        trace = run(strategy, **{**shared, "cluster": cluster})
        check_books(trace)
        assert trace.stopped_by in ("global_steps", "deadlock", "chief")
        assert_same(trace, run(strategy, **{**shared, "cluster": cluster}))


FREED = re.compile(r"restart (?:(\d+|any) of )?(?:the (chief)|workers? ([\d, ]+))")


def remedy_of(report: str) -> list[int] | None:
    """The ranks that a report says to restart; nothing where it says that nothing helps."""
    (line,) = (line.strip() for line in report.splitlines() if line.startswith("  to free it: "))
    if line.startswith("to free it: nothing"):
        return None
    match = FREED.search(line)
    assert match is not None, line
    if match[2]:
        return [0]
    ranks = [int(rank) for rank in match[3].rstrip(", ").split(", ")]
    return ranks if match[1] is None else ranks[: 1 if match[1] == "any" else int(match[1])]


@pytest.mark.parametrize("seed", range(100, 160))
def test_what_is_said_to_free_a_run_does(seed: int) -> None:
    for strategy, shared in random_cases(seed):
        stuck = run(strategy, **shared)
        if stuck.standstill is None:
            continue
        freed = remedy_of(stuck.standstill.report)
        later = max(stuck.end / 1e9, shared["events"][-1]["at"]) + 0.1
        everybody = [
            {"at": later, "restart": {"worker": rank}}
            for rank in range(stuck.workers)
            if rank in dead_after(shared["events"])
        ]
        back = [event for event in everybody if freed and event["restart"]["worker"] in freed]
        again = run(strategy, **{**shared, "events": (*shared["events"], *back)})
        if freed is None:
            tried = run(strategy, **{**shared, "events": (*shared["events"], *everybody)})
            assert tried.global_step == stuck.global_step
        else:
            assert again.global_step > stuck.global_step
            # With one fewer it would not have been enough, unless who goes on by itself comes to
            # the end before it has to wait.
            if len(back) > 1 and declared(strategy).round.of != "iteration":
                fewer = run(strategy, **{**shared, "events": (*shared["events"], *back[1:])})
                assert fewer.stopped_by == "deadlock"


def dead_after(events: tuple[Case, ...]) -> set[int]:
    dead: set[int] = set()
    for event in events:
        who = event.get("kill") or event.get("restart") or {"worker": 0}
        rank = 0 if who == "chief" else who["worker"]
        dead = dead | {rank} if "kill" in event else dead - {rank}
    return dead


@pytest.mark.parametrize("seed", range(200, 230))
def test_with_so_many_backups_it_goes_on(seed: int) -> None:
    # What the report of a run of sync_replicas or backup_workers says would have helped.
    for strategy, shared in random_cases(seed):
        trace = run(strategy, **shared)
        said = "" if trace.standstill is None else trace.standstill.report
        match = re.search(r"with replicas_to_aggregate: (\d+) it would have gone on", said)
        if match is None:
            continue
        workers = shared["cluster"]["workers"]
        total = strategy.get("total_num_replicas", workers)
        more = {**strategy, "replicas_to_aggregate": int(match[1])}
        if strategy["kind"] == "sync_replicas":
            more["total_num_replicas"] = max(total, strategy["replicas_to_aggregate"])
        assert run(more, **shared).global_step > trace.global_step


def test_dropped_gradients_are_no_lost_ones() -> None:
    # Backup workers give up gradients, which are dropped; only the dead lose theirs.
    strategy = {"kind": "backup_workers", "replicas_to_aggregate": 1}
    events = ({"at": 0.55, "kill": {"worker": 2}},)
    cluster = {"compute": {"kind": "exponential", "mean": 0.1}}
    trace = run(strategy, cluster=cluster, stop={"global_steps": 30}, events=events)
    outcomes = [(row.worker, row.outcome) for row in gradient_rows(trace)]
    assert outcomes.count((2, LOST)) == 1
    assert sum(outcome == LOST for _, outcome in outcomes) == 1
    assert sum(outcome == DROPPED for _, outcome in outcomes) > 20
