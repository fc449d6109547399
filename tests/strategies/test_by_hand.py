"""Schedules worked out by hand, in the tables of `tests/*/by_hand/`; all times in ms.

A case is a scenario, as far as it differs from BASE, and what is expected of its trace: `steps`,
when each update is made, and `updates`, of whose gradients; `spans`, what each worker does, from
when to when, or its first spans, if `...` follows; `fates`, which gradients (`worker#iteration`)
are applied at a time, and which dropped (-), lost (x) or applied in part (~), and `order`, whose
these are, one after the other;
`staleness`, of all that are applied, in that order; `sent`, how long workers were sending, and how
much of that they computed; `moved`, the bytes of some links; `attempts`, the account of failures
without what is 0 (s), all of it or, if `...` follows, the first rows of it: `of` is whose, where
failures strike inside a run, or how many hosts took part. `sends` is from when to when each worker
was sending, `measured` after how many updates the model was, `copies_lack` how many updates copies
had missed, `ends` when and by what the run does, `stands_still` what is said of that. `why` is how
one works it out. `base` is what all cases of a table have in common. With `sharing` a case holds
for links that are shared in each of these ways.
"""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.building import (
    APPLIED,
    DROPPED,
    LOST,
    MS,
    PARTLY,
    fates,
    gradient_rows,
    life,
    milliseconds,
    staleness,
)
from tests.seams import Attempt, Run, Span, Trace, load_scenario, run_one
from varsim import Scenario

KEYS = (
    *("steps", "spans", "updates", "fates", "order", "staleness", "sent", "moved", "attempts"),
    *("sends", "measured", "copies_lack", "ends", "stands_still"),
)
SIGNS = {APPLIED: "", DROPPED: "-", LOST: "x", PARTLY: "~"}
TABLES = sorted(Path(__file__).parents[1].glob("*/by_hand/*.yaml"))
# Three workers of 100 ms a step, and a network that takes no time.
BASE: dict[str, Any] = {
    "name": "by_hand",
    "cluster": {
        "workers": 3,
        "compute": {"kind": "constant", "value": "100 ms"},
        "network": {
            "kind": "star",
            "bandwidth": "8e9 Gbit/s",
            "latency": "0 s",
            "sharing": "first_come",
        },
    },
    "workload": {
        "batch_size": 1,
        "problem": {"kind": "quadratic", "dimension": 10},
        "optimizer": {"kind": "sgd", "learning_rate": 0.1},
    },
    "stop": {"global_steps": 3},
    "report": {"measure_after": "0 s"},
}


def cases() -> list[Any]:
    """Every case of every table."""
    found = []
    for path in TABLES:
        base = BASE
        for case in YAML(typ="safe").load(path):
            base = merged(base, case.get("base", {}))
            if "case" in case:
                whole, name = merged(base, case.get("scenario", {})), f"{path.stem}: {case['case']}"
                for way in case.get("sharing", [None]):
                    change = {"cluster": {"network": {"sharing": way}}} if way else {}
                    one = {**case, "scenario": merged(whole, change)}
                    found.append(pytest.param(one, id=f"{name}, {way}" if way else name))
    return found


def merged(base: Any, change: Any) -> Any:
    """The base with what differs; another kind, or end, replaces all of it."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    whole = {} if change.get("kind", base.get("kind")) != base.get("kind") else deepcopy(base)
    return whole | {
        key: value if key == "stop" else merged(whole.get(key), value)
        for key, value in change.items()
    }


def observed(trace: Trace, expected: dict[str, Any]) -> dict[str, Any]:
    """What is asked of a trace, in the form of the table."""
    found: dict[str, Any] = {"steps": milliseconds(trace.steps), "staleness": staleness(trace)}
    found["spans"] = {
        worker: [f"{what} {start:g}-{end:g}" for what, start, end in life(trace, worker)]
        for worker in range(trace.workers)
    }
    moments: dict[float, str] = {}
    for fate in fates(trace):
        told = f"{SIGNS[fate.outcome]}{fate.worker}#{fate.iteration}"
        moments[fate.time] = f"{moments.get(fate.time, '')} {told}".strip()
    found["fates"] = moments
    found["updates"] = {
        time: sorted(
            row.worker
            for row in gradient_rows(trace)
            if (row.applied_step, row.outcome) == (step, APPLIED)
        )
        for step, time in enumerate(found["steps"])
    }
    found["order"] = [fate.worker for fate in fates(trace)]
    found["sent"] = milliseconds([trace.sending, trace.hidden])
    carried = {link.name: link.moved for link in trace.links}
    found["moved"] = {name: carried[name] for name in expected.get("moved", {})}
    found["sends"] = {worker: [] for worker in range(trace.workers)}
    for part in trace.send_rows.parts():
        for span in (Span(*row) for row in part.tolist()):
            found["sends"][span.worker].append(f"{span.start / MS:g}-{span.end / MS:g}")
    found["measured"] = [row.global_step for row in trace.evaluations]
    found["copies_lack"] = trace.copy_staleness.tolist()
    found["ends"] = [trace.end / MS, trace.stopped_by]
    still = [] if trace.standstill is None else trace.standstill.report.splitlines()[1:]
    found["stands_still"] = [line.strip() for line in still]
    found["attempts"] = attempts(trace)
    if expected.get("attempts", [""])[-1] == "...":
        found["attempts"][len(expected["attempts"]) - 1 :] = ["..."]
    for worker, spans in expected.get("spans", {}).items():
        if spans[-1] == "...":
            found["spans"][worker][len(spans) - 1 :] = ["..."]
    found["spans"] = {worker: found["spans"][worker] for worker in expected.get("spans", {})}
    return {key: found[key] for key in expected}


def attempts(trace: Trace) -> list[Any]:
    """The rows of a life, without what is 0; times in s."""
    rows = [] if trace.life is None else trace.life.tolist()
    told = [dict(zip((*Attempt._fields, "of"), row, strict=False)) for row in rows]
    times = Attempt._fields[:7]
    return [{k: v / 1e9 if k in times else v for k, v in row.items() if v} for row in told]


@pytest.mark.parametrize("case", cases())
def test_the_schedule_is_the_one_worked_out_by_hand(case: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "case.yaml"
    file.write_text(json.dumps(case["scenario"]), encoding="utf-8")
    expected = {key: case[key] for key in KEYS if key in case}
    assert expected, "a case expects something"
    scenario = load_scenario(file)
    assert isinstance(scenario, Scenario)
    assert observed(run_one(Run(scenario, 0, 0)), expected) == expected
