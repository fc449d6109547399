"""Asynchronous training among failures is what a model makes of it ms by ms, on random cases."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tests.building import run
from tests.oracle.mortal import PARTS, UNTIL, Case, Run, drawn
from tests.seams import Attempt, Trace

MS = 1_000_000  # ns
SAMPLE = range(500)


def trace_of(rows: Sequence[Sequence[int]]) -> dict[str, Any]:
    return {"kind": "trace", "seconds": tuple(tuple(one / 1e3 for one in row) for row in rows)}


def simulated(case: Case) -> Trace:
    repair = {} if case["repair"] is None else {"repair": trace_of([case["repair"]])}
    checkpoint: Any = None
    if case["every"] is not None:
        keys = ("every", "write", "restore")
        checkpoint = {key: case[key] / 1e3 for key in keys}  # type: ignore[literal-required]
        if case["snapshot"] is not None:
            beside = {"snapshot": case["snapshot"] / 1e3, "slowdown": 0.25}
            checkpoint |= {"mode": "asynchronous", **beside}
    momentum = {"momentum": case["momentum"]} if case["momentum"] else {}
    return run(
        "none",
        cluster={
            "workers": len(case["steps"]),
            "parameter_servers": len(case["losses"]),
            "compute": trace_of(case["steps"]),
        },
        problem={"kind": "quadratic", "dimension": 1},
        optimizer={
            "kind": "momentum" if momentum else "sgd",
            "learning_rate": case["rate"],
            **momentum,
        },
        workload={"evaluate_every": 1},
        failures={
            "detection": case["detection"] / 1e3,
            "of": (
                {"domain": "worker", "distribution": trace_of(case["deaths"]), **repair},
                {"domain": "server", "distribution": trace_of(case["losses"]), **repair},
            ),
        },
        checkpoint=checkpoint,
        recovery={"restart": case["restart"] / 1e3},
        stop={"time": UNTIL / 1e3},
    )


def compare(seeds: Sequence[int]) -> None:
    for seed in seeds:
        case = drawn(seed)
        expected, trace = Run(case), simulated(case)
        found = [(row.time / MS, row.global_step, row.loss) for row in trace.evaluations]
        assert found == expected.losses, f"case {seed}: {case}"
        assert trace.life is not None
        columns = [Attempt._fields.index(name) for name in ("start", *PARTS)]
        rows = [
            [*(time / MS for time in row[: len(columns)]), *row[len(columns) :]]
            for row in trace.life[:, [*columns, *map(Attempt._fields.index, COUNTS)]].tolist()
        ]
        assert rows == expected.accounts(), f"case {seed}: {case}"


COUNTS = ("steps", "steps_lost")


def test_values_and_accounts() -> None:
    compare(SAMPLE[:60])


@pytest.mark.slow
def test_many_values_and_accounts() -> None:
    compare(SAMPLE[60:])


def test_what_is_drawn() -> None:
    met: Counter[str] = Counter()
    for seed in SAMPLE[:60]:
        made = Run(drawn(seed))
        met["saved"] += made.complete > 0
        for _, *parts, _, undone in made.accounts():
            met.update(name for name, part in zip(PARTS, parts, strict=True) if part)
            met["undone"] += undone > 0
    assert all(met[name] >= 20 for name in ("saved", "undone", *PARTS)), met
