"""The path of a step is the chain that determines it, and fills it exactly."""

from itertools import pairwise
from typing import Any

import pytest

from tests.building import MS, run, slow
from tests.why.hand import saturated, timed
from varsim.cluster.record.trace import Trace
from varsim.scenario.training import Scenario
from varsim.study.simulation import Run, run_one
from varsim.study.why.path import (
    CriticalPath as Path,
)
from varsim.study.why.path import (
    enders,
    iterations,
    shares,
    step_paths,
    typical,
)

Told = list[tuple[int, str, float]]


def told(path: Path) -> Told:
    """Who did what for how many ms."""
    return [(p.worker, p.activity, (p.end - p.start) / MS) for p in path.pieces]


def traced(made: Scenario) -> Trace:
    return run_one(Run(made, 0, 0))


def test_a_step_of_mirrored_copies_waits_for_the_straggler_then_for_the_all_reduce() -> None:
    # 3 ranks: a ring moves 2 x 2 / 3 of 75 MB, at 1 GB/s 100 ms.
    trace = traced(timed("on_write", 75e6, cluster={"slow_workers": (slow(2, 3.0),)}))
    paths = step_paths(trace, servers=False)
    assert [told(path)[0] for path in paths] == [(2, "compute", 300)] * 3
    assert [told(path)[1][1:] for path in paths] == [("write", pytest.approx(100, abs=1e-3))] * 3
    assert enders(paths) == {2: 1.0}
    assert shares(paths) == {"compute": pytest.approx(0.75), "write": pytest.approx(0.25)}


def test_a_step_of_synchronous_replicas_goes_through_the_port_to_the_last() -> None:
    # All three read at 0, through one port: worker 2 has read at 300 ms, after 200 ms in the queue.
    # It pushes last, when the others have long pushed.
    made = timed({"kind": "sync_replicas", "replicas_to_aggregate": 3}, stop={"global_steps": 1})
    (path,) = step_paths(traced(made), servers=True)
    assert told(path) == [
        (2, "queue", 200),
        (2, "read", 100),
        (2, "compute", 100),
        (2, "write", 100),
    ]


def test_what_began_before_the_step_is_cut_off() -> None:
    # N = 2 of 3: worker 2 takes 250 ms. Updates at 100 and, after the next gradients of the others
    # that are not stale, every 100 ms; who comes third does not count.
    strategy = {"kind": "backup_workers", "replicas_to_aggregate": 2}
    trace = run(strategy, cluster={"slow_workers": (slow(2, 2.5),)}, stop={"global_steps": 4})
    paths = step_paths(trace, servers=True)
    assert [path.length / MS for path in paths] == [100] * 4
    assert 2 not in enders(paths)


def test_the_server_ends_a_step_that_it_has_to_commit() -> None:
    made = timed(
        {"kind": "sync_replicas", "replicas_to_aggregate": 3},
        cluster={"overheads": {"commit": 0.005}},
        stop={"global_steps": 1},
    )
    (path,) = step_paths(traced(made), servers=True)
    assert told(path)[-1][1:] == ("server", 5)
    assert path.length == 505 * MS


def test_an_iteration_of_who_waits_for_nobody() -> None:
    trace = traced(saturated())
    found = typical(iterations(trace))
    # 400 ms between two turns at the port: 100 ms each of reading, computing, pushing.
    assert found.length == 400 * MS
    assert sum(ms for _, name, ms in told(found) if name == "queue") == 100
    for path in iterations(trace):
        assert {worker for worker, *_ in told(path)} == {path.pieces[0].worker}


@pytest.mark.parametrize(
    ("strategy", "changes"),
    [
        ({"kind": "on_write"}, {}),
        ({"kind": "on_write"}, {"cluster": {"workers": 1}}),
        ({"kind": "on_read", "read_every": 3, "write_back": True}, {}),
        (
            {"kind": "on_read", "read_every": 2, "aggregation": "only_first_replica"},
            {},
        ),
        ({"kind": "sync_replicas", "replicas_to_aggregate": 2}, {}),
        ({"kind": "sync_replicas", "replicas_to_aggregate": 7}, {}),
        ({"kind": "backup_workers", "replicas_to_aggregate": 2}, {}),
        ({"kind": "none"}, {}),
        ({"kind": "none", "use_locking": True}, {"cluster": {"overheads": {"commit": 0.01}}}),
        ({"kind": "single"}, {}),
    ],
)
def test_pieces_fill_every_step_without_gap_or_overlap(
    strategy: dict[str, Any], changes: dict[str, Any]
) -> None:
    cluster = {
        "compute": {"kind": "exponential", "mean": 0.1},
        "overheads": {"first_iteration": 0.02},
        **changes.get("cluster", {}),
    }
    network = {"bandwidth": 1e9, "latency": 0.001}
    made = timed(strategy, 1e7, cluster=cluster, network=network, stop={"global_steps": 60})
    trace = traced(made)
    paths = step_paths(trace, servers=made.strategies[0].traits.uses_servers)
    ends = [0, *trace.steps.tolist()]
    assert [(p.start, p.end) for p in paths] == [(a, b) for a, b in pairwise(ends) if a < b]
    for path in [*paths, *iterations(trace)]:
        edges = [path.start, *(piece.end for piece in path.pieces)]
        assert [piece.start for piece in path.pieces] == edges[:-1]
        assert edges[-1] == path.end
        assert all(piece.start < piece.end for piece in path.pieces)
    assert sum(shares(paths).values()) == pytest.approx(1)
