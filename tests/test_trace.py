"""What is recorded does not depend on how it is kept."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from building import assert_same, kill, restart, run, slow

from varsim.cluster import trace as tracing
from varsim.cluster.trace import PHASE_BITS, Phase, Recorder

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
        before = len(self.gradients)
        pack(self)
        packed.append(len(self.gradients) < before)

    monkeypatch.setattr(tracing, "_MANY", 60)
    monkeypatch.setattr(Recorder, "pack", noted)
    assert_same(run(strategy, **changes), whole)
    assert sum(packed) > 3


def test_spans_tile_a_life_and_end_with_it() -> None:
    recorder = Recorder()
    written = recorder.worker_spans(0)
    written += (10, Phase.COMPUTE, 10, Phase.QUEUE, 25, 1 << PHASE_BITS | Phase.READ)
    assert recorder.spans(20).tolist() == [[0, 0, 0, 10, 0], [0, Phase.READ, 10, 20, 1]]


def test_a_life_with_a_gap_is_noticed() -> None:
    recorder = Recorder()
    written = recorder.worker_spans(0)
    written += (10, Phase.COMPUTE)
    with pytest.raises(AssertionError, match="to the end"):
        recorder.spans(20)
    written += (5, Phase.READ, 20, Phase.WRITE)
    with pytest.raises(AssertionError, match="backwards"):
        recorder.spans(20)


def test_spans_that_are_not_kept() -> None:
    recorder = Recorder(spans=False)
    written = recorder.worker_spans(0)
    written += (10, Phase.COMPUTE)
    assert recorder.spans(10).shape == (0, 5)
    assert recorder.gradient_rows().shape == (0, 11)
    assert recorder.gradient_rows().dtype == np.int64


# Ends and phases of one worker; the last two are still to come at 50.
WRITTEN = [(10, Phase.READ), (40, Phase.COMPUTE), (60, Phase.QUEUE), (70, Phase.WRITE)]


@pytest.mark.parametrize(
    ("time", "left"),
    [
        (80, [10, 40, 60, 70]),
        (70, [10, 40, 60, 70]),
        (65, [10, 40, 60, 65]),
        (50, [10, 40, 50]),
        (40, [10, 40]),
        (5, [5]),
        (0, []),
    ],
)
@pytest.mark.parametrize("packed", [[], [1], [2, 0, 3], [4]])
def test_what_is_to_come_can_be_taken_back(time: int, left: list[int], packed: list[int]) -> None:
    recorder = Recorder()
    spans = recorder.worker_spans(0)
    parts = sorted({0, len(WRITTEN), *packed})
    for start, stop in pairwise(parts):
        for end, phase in WRITTEN[start:stop]:
            spans += (end, 3 << PHASE_BITS | phase)
        if stop in packed:
            recorder.gradients += [0] * 11 * tracing._MANY
            recorder.pack()
            recorder.pack()
    recorder.take_back(0, time)
    spans += (90, 4 << PHASE_BITS | Phase.DOWN)

    rows = recorder.spans(90)
    assert rows[:, 3].tolist() == [*left, 90]
    assert rows[:-1, 1].tolist() == [phase for _, phase in WRITTEN[: len(left)]]
    assert rows[-1].tolist() == [0, Phase.DOWN, max(left, default=0), 90, 4]


def test_nothing_is_taken_back_of_what_is_not_kept() -> None:
    recorder = Recorder(spans=False)
    recorder.worker_spans(0)
    recorder.gradients += [0] * 11 * tracing._MANY
    recorder.pack()
    recorder.take_back(0, 5)
    assert recorder.spans(10).shape == (0, 5)


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
