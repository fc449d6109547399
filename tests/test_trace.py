"""What is recorded does not depend on how it is kept."""

from typing import Any

import numpy as np
import pytest
from building import assert_same, run, slow

from varsim import trace as tracing
from varsim.trace import PHASE_BITS, Phase, Recorder

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
