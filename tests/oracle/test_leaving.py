"""Those who are left go on without the dead as an independent model of it does, values included.

More: pytest tests/oracle/test_leaving.py --scenarios 10000 --first 1000.
"""

from collections import Counter
from typing import Any

import pytest

from tests.building import MS, gradient_rows
from tests.conformance.in_between.averaged import run_noting_reads
from tests.conformance.in_between.recorded import Replay
from tests.oracle import leaving
from tests.seams import STRATEGIES, HandOver, Trace
from varsim.cluster.events import ProcessEvent

KINDS = ("on_write", "local_sgd", "diloco")
SCENARIOS = 300  # of each, unless told otherwise


def settings_of(case: leaving.Drawn) -> dict[str, Any]:
    if case["kind"] == "diloco":
        outer = {"kind": "momentum", "learning_rate": 0.7, "momentum": 0.9, "nesterov": True}
        turns = {"inner_steps": case["turn"] * case["fragments"], "fragments": case["fragments"]}
        return {**turns, "outer": outer}
    period = {"period": case["turn"]} if case["kind"] == "local_sgd" else {}
    return {**period, "on_death": "continue_with_fewer"}


def sources_of(trace: Trace) -> dict[tuple[int, float], int]:
    """Of whom a worker that is back, at a moment (ms), takes all it has."""
    assert trace.hand_overs is not None
    rows = [HandOver(*row) for row in trace.hand_overs.tolist()]
    return {(row.target, row.time / MS): row.source for row in rows}


def check(case: leaving.Drawn) -> Counter[str]:
    """Compare all gradients, lost ones too, what they were computed at, and steps."""
    strategy = STRATEGIES[case["kind"]].model_validate(settings_of(case))
    events = [
        ProcessEvent.model_validate(
            {
                "at": one["at_ms"] / 1000,
                ("kill" if one["dies"] else "restart"): {"worker": one["rank"]},
            }
        )
        for one in case["events"]
    ]
    replay = Replay(
        case,
        strategy,
        case.get("fragment_elements"),
        {"time": (leaving.MOST - 0.5) / 1000},
        events,
    )
    read, trace = run_noting_reads(replay)
    sources = sources_of(trace)
    group = leaving.Group(case, lambda rank, now: sources[rank, now])
    group.run()
    found = {
        (row.worker, row.iteration): (row.compute_start / MS, row.computed / MS)
        for row in gradient_rows(trace)
    }
    ended = {
        key: (begun, -1 / MS if end is None else end)
        for key, (begun, end, _) in group.rows.items()
        if end is None or end < leaving.MOST
    }
    assert found == ended
    for key, x in read.items():
        assert x.tolist() == group.rows[key][2], key
    assert [time / MS for time in trace.steps.tolist()] == group.counted
    met = Counter(taken=len(sources), lost=sum(end is None for _, end, _ in group.rows.values()))
    met["nobody left"] += not group.members
    return met


@pytest.mark.parametrize("kind", KINDS)
def test_those_who_are_left_to_the_last_bit(kind: str, seeds: range) -> None:
    met: Counter[str] = Counter()
    for seed in seeds:
        case = leaving.case_of(seed, kind)
        try:
            met += check(case)
        except AssertionError as error:
            pytest.fail(f"case {seed}: {error}\n{case}")
    assert min(met[what] for what in ("taken", "lost", "nobody left")) > 10, met
