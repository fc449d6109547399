"""Copies are saved and restored as an independent model of it has it, values and all time.

More: pytest tests/oracle/test_leading.py --scenarios 10000 --first 1000.
"""

import random
from collections import Counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.building import MS
from tests.conformance.in_between.recorded import Replay
from tests.oracle import leading
from tests.oracle.leading import PARTS, UNTIL
from tests.oracle.periodic import Drawn, optimizer
from tests.oracle.test_leaving import settings_of, sources_of
from varsim.cluster.interruptions import Rules
from varsim.cluster.recovery import Checkpoint, RandomFailures, Recovery
from varsim.cluster.trace import Attempt, GradientRow, Outcome, Trace
from varsim.strategies import STRATEGIES

KINDS = ("on_write", "local_sgd", "diloco")
COLUMNS = [
    Attempt._fields.index(name) for name in ("start", *PARTS, "steps", "steps_lost", "checkpoints")
]
SCENARIOS = 200  # of each, unless told otherwise


def drawn(seed: int, kind: str) -> Drawn:
    """A random case; all workers fail now and then, some alone; many ties."""
    source = random.Random(f"{seed} {kind} leading")
    whole = source.randint
    workers, size = whole(1, 4), whole(1, 3)

    def vector() -> list[float]:
        return [round(source.uniform(-3, 3), 2) for _ in range(size)]

    asynchronous = source.random() < 0.4
    repair = 5 * whole(1, 20) if source.random() < 0.6 else None
    case: Drawn = {
        "id": "drawn",
        "kind": kind,
        "workers": workers,
        "turn": whole(1, 3),
        "step_ms": [[20 * whole(1, 3) for _ in range(whole(1, 3))] for _ in range(workers)],
        "problem": {
            "initial": vector(),
            "gradient": "quadratic_micro",
            "a": [
                [round(source.uniform(0.2, 1.6), 2) for _ in range(size)] for _ in range(workers)
            ],
            "micro_target": [[vector() for _ in range(whole(1, 5))] for _ in range(workers)],
        },
        "optimizer": optimizer(source, 0.08),
        "deaths": [[5 * whole(20, 400) for _ in range(whole(1, 3))] for _ in range(workers)],
        "shocks": sorted({5 * whole(4, UNTIL // 5) for _ in range(whole(1, 5))}),
        "repair": repair,
        "detection": 5 * whole(0, 4),
        "restart": 5 * whole(0, 6),
        "every": 10 * whole(3, 25),
        "write": 5 * whole(0, 6),
        "snapshot": 5 * whole(0, 3) if asynchronous else None,
        "restore": 5 * whole(0, 4),
        "on_host": repair is not None and source.random() < 0.3,
        "fragments": 1,
    }
    if kind == "diloco":
        case["fragments"] = whole(1, size)
        elements = np.array_split(np.arange(size), case["fragments"])
        case["fragment_elements"] = [part.tolist() for part in elements]
        case["outer"] = {"name": "momentum", "lr": 0.7, "momentum": 0.9, "nesterov": True}
    return case


def rules_of(case: Drawn) -> Rules:
    repair = {} if case["repair"] is None else {"repair": case["repair"] / 1e3}
    ranks = range(case["workers"])
    gaps = tuple(tuple(gap / 1e3 for gap in row) for row in case["deaths"])
    shocks = tuple((at / 1e3, "worker", rank) for at in case["shocks"] for rank in ranks)
    failures = {
        "detection": case["detection"] / 1e3,
        "of": ({"domain": "worker", "law": {"kind": "trace", "seconds": gaps}, **repair},),
        "recorded": {"failures": shocks, **repair},
    }
    checkpoint = {key: case[key] / 1e3 for key in ("every", "write", "restore")}
    if case["snapshot"] is not None:
        beside = {"snapshot": case["snapshot"] / 1e3, "slowdown": 0.25}
        checkpoint |= {"mode": "asynchronous", **beside}
    if case["on_host"]:
        checkpoint["keep_on"] = "host"
    return Rules(
        RandomFailures.model_validate(failures),
        Checkpoint.model_validate(checkpoint),
        Recovery.model_validate({"restart": case["restart"] / 1e3}),
        copies=True,
    )


def check(case: Drawn) -> Counter[str]:
    """Compare gradients, what they were computed at, updates, and what all time went into."""
    if case["kind"] == "on_write":
        case["turn"] = 1
    strategy = STRATEGIES[case["kind"]].model_validate(settings_of(case))
    parts, stop = case.get("fragment_elements"), {"time": UNTIL / 1e3}
    replay = Replay(case, strategy, parts, stop, rules=rules_of(case))
    read: dict[tuple[int, int], list[Any]] = {}
    gradient = replay.task.gradient

    def computed(worker: int, number: int, x: Any) -> Any:
        read.setdefault((worker, number), []).append(np.array(x).tolist())
        return gradient(worker, number, x)

    with patch.object(replay.task, "gradient", computed):
        trace = replay.run()
    sources = sources_of(trace)
    expected = leading.Run(case, lambda rank, now: sources[rank, now])
    compare_gradients(trace, expected, read)
    times = [time / MS for time in trace.steps.tolist()]
    assert [*zip(times, trace.kept_steps.tolist(), strict=True)] == [
        (time, kept) for time, kept in expected.counted
    ]
    assert trace.global_step == sum(kept for _, kept in expected.counted)
    assert trace.life is not None
    found = [
        [*(time / MS for time in row[:7]), *row[7:]] for row in trace.life[:, COLUMNS].tolist()
    ]
    assert found == expected.accounts()
    met = Counter(restored=expected.restored, host=expected.went, taken=expected.taken)
    met["written by others"] = sum(len(worker.complete) for worker in expected.workers[1:])
    met["undone"] = sum(not kept for _, kept in expected.counted)
    return met


def compare_gradients(trace: Trace, expected: leading.Run, read: dict[Any, list[Any]]) -> None:
    of = GradientRow._fields.index
    found = {
        (row[0], row[1]): (row[of("compute_start")] / MS, row[of("computed")] / MS)
        for row in trace.gradients.tolist()
    }
    ended = {
        key: (one.start, one.end if one.end <= cut else -1 / MS)
        for key, one in expected.rows()
        for cut in [one.cut]
        if one.end <= UNTIL or cut <= UNTIL
    }
    assert found == ended
    used = trace.gradients[:, of("outcome")] == Outcome.APPLIED
    kept = trace.gradients[used & trace.kept_gradients][:, :2].tolist()
    assert sorted(map(tuple, kept)) == sorted(
        key for key, one in expected.rows() if one.used and one.kept
    )
    begun: dict[tuple[int, int], list[Any]] = {}
    for (rank, _), one in expected.rows():
        begun.setdefault((rank, one.batch), []).append(one.x.tolist())
        assert not one.used or one.x.tolist() in read[rank, one.batch]
    assert all(x in begun[key] for key, values in read.items() for x in values)


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_of_copies_to_the_last_bit(kind: str, seeds: range) -> None:
    met: Counter[str] = Counter()
    for seed in seeds:
        case = drawn(seed, kind)
        try:
            met += check(case)
        except AssertionError as error:
            pytest.fail(f"case {seed}: {error}\n{case}")
    assert min(met[what] for what in ("restored", "host", "taken", "written by others")) > 1, met
