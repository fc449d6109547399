"""What is recorded does not depend on how it is kept."""

from typing import Any

import pytest

from tests.building import MS, assert_same, kill, restart, run, slow
from tests.seams import HandOver
from varsim.cluster.record import trace as tracing
from varsim.cluster.record.trace import RunRecorder as Recorder

STRATEGIES: list[dict[str, Any]] = [
    {"kind": "on_write"},
    {"kind": "on_read", "read_every": 3},
    {"kind": "none"},
    {"kind": "sync_replicas", "replicas_to_aggregate": 2},
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy["kind"])
def test_packing_changes_nothing(strategy: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    changes: dict[str, Any] = {
        "cluster": {"slow_workers": (slow(2, 1.7),)},
        "network": {"bandwidth": 1e4, "latency": 1e-3, "sharing": "fair"},
        "stop": {"global_steps": 30},
    }
    whole = run(strategy, **changes)
    packed = []
    pack = Recorder.pack

    def noted(self: Recorder) -> None:
        kept = len(self._packed_gradients)
        pack(self)
        packed.append(len(self._packed_gradients) > kept)

    monkeypatch.setattr(tracing, "_MANY", 60)
    monkeypatch.setattr(Recorder, "pack", noted)
    assert_same(run(strategy, **changes), whole)
    assert sum(packed) > 3


@pytest.mark.parametrize("kind", ["none", "backup_workers"])
def test_packing_changes_nothing_of_the_dead(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = {"kind": kind, **({"replicas_to_aggregate": 1} if kind != "none" else {})}
    changes: dict[str, Any] = {
        "cluster": {"compute": {"kind": "exponential", "mean": 0.1}},
        "network": {"bandwidth": 1e4, "latency": 1e-3, "sharing": "first_come"},
        "stop": {"global_steps": 60},
        "events": tuple(turn(0.5 + step, 2) for step in (0, 1) for turn in (kill, restart)),
    }
    whole = run(strategy, **changes)
    monkeypatch.setattr(tracing, "_MANY", 1)
    assert_same(whole, run(strategy, **changes))


def test_who_gets_which_token() -> None:
    """Two tokens of step 0, then two of every step, of which the last is put in as the run ends."""
    tokens = {"kind": "sync_replicas", "replicas_to_aggregate": 2, "total_num_replicas": 2}
    trace = run(tokens, cluster={"slow_workers": (slow(2, 1.5),)}, stop={"global_steps": 2})
    assert trace.hand_overs is not None
    queue = -1
    assert [HandOver(*row) for row in trace.hand_overs.tolist()] == [
        HandOver(0, -1, queue, 0, 2),
        HandOver(100 * MS, -1, 0, 0, 1),
        HandOver(100 * MS, -1, 1, 0, 1),
        HandOver(100 * MS, -1, queue, 1, 2),
        HandOver(150 * MS, -1, 2, 1, 1),
        HandOver(200 * MS, -1, 0, 1, 1),
        HandOver(300 * MS, -1, queue, 2, 2),
    ]


def test_whose_copy_a_worker_takes_that_is_back() -> None:
    trace = run(
        {"kind": "on_write", "on_death": "continue_with_fewer"},
        events=(kill(0.05, 0), restart(0.15, 0)),
        stop={"global_steps": 3},
    )
    assert trace.hand_overs is not None
    ((time, source, *others),) = trace.hand_overs.tolist()
    assert (time, others) == (200 * MS, [0, -1, 1])
    assert source in (1, 2)
