"""What is recorded does not depend on how it is kept."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.building import MS, assert_same, kill, restart, run, slow
from tests.seams import HandOver, Phase
from varsim.cluster import trace as tracing
from varsim.cluster.trace import GOES_ON, Recorder, code_of

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
    gathered, packed = [], []
    pack = Recorder.pack

    def noted(self: Recorder) -> None:
        listed, kept = len(self.gradients), len(self._packed_gradients)
        pack(self)
        gathered.append(len(self.gradients) < listed)
        packed.append(len(self._packed_gradients) > kept)

    monkeypatch.setattr(tracing, "_FEW", 25)
    monkeypatch.setattr(tracing, "_MANY", 60)
    monkeypatch.setattr(Recorder, "pack", noted)
    assert_same(run(strategy, **changes), whole)
    assert sum(gathered) > sum(packed) > 3


def test_spans_tile_a_life_and_end_with_it() -> None:
    recorder = Recorder()
    first, second = code_of(0, 0), code_of(1, -1)
    recorder.spans += (10, first + Phase.COMPUTE, 5, second + Phase.TOKEN)
    recorder.spans += (10, first + Phase.QUEUE, 20, second + Phase.DOWN)
    recorder.spans += (25, code_of(0, 1) + Phase.READ)
    assert recorder.span_rows(2, 20).array().tolist() == [
        *([0, 0, 0, 10, 0], [0, Phase.READ, 10, 20, 1]),
        *([1, Phase.TOKEN, 0, 5, -1], [1, Phase.DOWN, 5, 20, -1]),
    ]


def test_a_span_that_goes_on_is_one_with_the_one_before_of_its_kind() -> None:
    recorder = Recorder()
    first, second = code_of(0, 0), code_of(1, 7)
    recorder.spans += (5, first, 6, second, 9, first + GOES_ON, 20, first + GOES_ON)
    recorder.spans += (9, second + Phase.READ, 20, second + GOES_ON)
    assert recorder.span_rows(2, 20).array().tolist() == [
        [0, Phase.COMPUTE, 0, 20, 0],
        *([1, Phase.COMPUTE, 0, 6, 7], [1, Phase.READ, 6, 9, 7], [1, Phase.COMPUTE, 9, 20, 7]),
    ]


def test_a_life_with_a_gap_is_noticed() -> None:
    own, other = code_of(0, 0), (20, code_of(1, 0))
    recorder = Recorder()
    recorder.spans += (10, own + Phase.COMPUTE, *other)
    with pytest.raises(AssertionError, match="worker 0 is not recorded to the end"):
        recorder.span_rows(2, 20)
    recorder = Recorder()
    recorder.spans += (10, own + Phase.COMPUTE, *other, 5, own + Phase.READ, 20, own + Phase.WRITE)
    with pytest.raises(AssertionError, match="worker 0 runs backwards"):
        recorder.span_rows(2, 20)


def test_spans_that_are_not_kept() -> None:
    recorder = Recorder(spans=False)
    recorder.spans += (10, code_of(0, 0))
    assert recorder.span_rows(1, 10).array().shape == (0, 5)
    assert recorder.gradient_rows().array().shape == (0, 11)
    assert recorder.gradient_rows().array().dtype == np.int64


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
def test_what_is_to_come_can_be_taken_back(
    time: int, left: list[int], packed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    other = code_of(1, 0)
    parts = sorted({0, len(WRITTEN), *packed})
    for start, stop in pairwise(parts):
        for end, phase in WRITTEN[start:stop]:
            recorder.spans += (end, code_of(0, 3) + phase, end, other)
        if stop in packed:
            monkeypatch.setattr(tracing, "_FEW", 1)
            monkeypatch.setattr(tracing, "_MANY", 1)
            recorder.pack()
            recorder.pack()
    recorder.take_back(0, time)
    recorder.spans += (90, code_of(0, 4) + Phase.DOWN, 90, other)

    rows = recorder.span_rows(2, 90).array()
    assert rows[rows[:, 0] == 1].tolist()[-1] == [1, 0, 70, 90, 0]
    rows = rows[rows[:, 0] == 0]
    assert rows[:, 3].tolist() == [*left, 90]
    assert rows[:-1, 1].tolist() == [phase for _, phase in WRITTEN[: len(left)]]
    assert rows[-1].tolist() == [0, Phase.DOWN, max(left, default=0), 90, 4]


def test_nothing_is_taken_back_of_what_is_not_kept() -> None:
    recorder = Recorder(spans=False)
    recorder.gradients += [0] * 11 * tracing._MANY
    recorder.pack()
    recorder.take_back(0, 5)
    assert recorder.span_rows(1, 10).array().shape == (0, 5)


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
    monkeypatch.setattr(tracing, "_FEW", 1)
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
