"""Pairs of scenarios that differ in one field of failures, checkpoints or recovery."""

from typing import Any

from tests.knob_cases import MIRRORED, SERVED, Case, two

SOURCE: Case = {"domain": "worker", "mtbf": 50.0, "repair": 5.0}
FAILURES: Case = {"horizon": 200.0, "detection": 1.0, "of": (SOURCE,)}
CHECKPOINT: Case = {"every": 10.0, "write": 1.0}
ASYNCHRONOUS: Case = {**CHECKPOINT, "mode": "asynchronous"}
RACKS: Case = {"kind": "racks", "hosts_per_rack": 2, "oversubscription": 1.0}
MORTAL: Case = {
    **MIRRORED,
    "network": {**MIRRORED["network"], **RACKS},
    "stop": {"global_steps": 6},
    "failures": FAILURES,
    "checkpoint": CHECKPOINT,
    "recovery": {"restart": 2.0},
}


def pair(base: Case, key: str, *values: Any) -> tuple[Case, Case]:
    """Two cases that differ in one key of a part of MORTAL: `part.key`."""
    part, _, name = key.partition(".")
    one, other = ({**base[part], name: value} for value in values)
    return two(base, **{part: (one, other)})


def source(**values: Any) -> tuple[Case, Case]:
    """Two cases whose failures differ in what fails."""
    sides = ({**SOURCE, **{key: value[side] for key, value in values.items()}} for side in (0, 1))
    without = [{key: one for key, one in side.items() if one is not None} for side in sides]
    return pair(MORTAL, "failures.of", *((one,) for one in without))


RECORDED: Case = {"failures": ((30.0, "worker", 0), (60.0, "link", 1)), "repair": 5.0}


def recorded(**values: Any) -> tuple[Case, Case]:
    """Two cases whose recorded failures differ."""
    sides = ({**RECORDED, **{key: value[side] for key, value in values.items()}} for side in (0, 1))
    return pair(MORTAL, "failures.recorded", *sides)


LEMONS: Case = {"share": 0.9, "times": 5.0}
MISTAKEN: Case = {"share": 0.9, "again": 20.0}
WEIBULL: Case = {"kind": "weibull", "mean": 50.0, "shape": 0.7}
SPARES: Case = {"hot": 1, "cold": 1, "swap": 2.0}


AWAY: Case = {**MORTAL, "failures": {**FAILURES, "of": ({**SOURCE, "repair": 100.0},)}}


# The chief dies inside the run, after its first checkpoints.
OF_SERVERS: Case = {
    **SERVED,
    "cluster": {**SERVED["cluster"], "compute": {"kind": "constant", "value": 1.0}},
    "failures": {
        "of": (
            {
                "domain": "worker",
                "law": {"kind": "trace", "seconds": ((5.5,), *((1e6,),) * 3)},
                "repair": 2.0,
            },
        ),
    },
    "checkpoint": {"every": 2.0, "write": 0.25},
    "stop": {"time": 12.0},
}


STAR: Case = {key: MIRRORED["network"][key] for key in ("bandwidth", "latency")}


def spares(key: str, *values: Any) -> tuple[Case, Case]:
    return pair(AWAY, "recovery.spares", *({**SPARES, key: value} for value in values))


OF_LIVES: dict[str, tuple[Case, Case]] = {
    "Scenario.failures": two({**MIRRORED}, failures=(None, FAILURES)),
    "Scenario.checkpoint": two(MORTAL, checkpoint=(None, CHECKPOINT)),
    "Scenario.recovery": two(MORTAL, recovery=(None, {"restart": 2.0})),
    "RandomFailures.horizon": pair(MORTAL, "failures.horizon", 200.0, 300.0),
    "RandomFailures.detection": pair(MORTAL, "failures.detection", 0.0, 1.0),
    "RandomFailures.strike": pair(MORTAL, "failures.strike", "always", "while_running"),
    "RandomFailures.of": pair(MORTAL, "failures.of", (SOURCE,), (SOURCE, SOURCE)),
    "RandomFailures.recorded": pair(MORTAL, "failures.recorded", None, RECORDED),
    "RecordedFailures.failures": recorded(failures=(RECORDED["failures"], ((60.0, "link", 1),))),
    "RecordedFailures.repair": recorded(repair=(5.0, 6.0)),
    "RecordedFailures.since": recorded(since=(0.0, 20.0)),
    "FailureSource.domain": source(domain=("worker", "rack")),
    "FailureSource.mtbf": source(mtbf=(50.0, 60.0)),
    "FailureSource.per_day": source(mtbf=(None, None), per_day=(1500.0, 1600.0)),
    "FailureSource.preset": source(
        mtbf=(50.0, None), preset=(None, "llama3"), domain=("worker", "worker")
    ),
    "FailureSource.law": source(mtbf=(50.0, None), law=(None, WEIBULL)),
    "FailureSource.repair": source(repair=(None, 5.0)),
    "FailureSource.lemons": source(lemons=(None, LEMONS)),
    "Lemons.share": source(lemons=({**LEMONS, "share": 0.01}, LEMONS)),
    "Lemons.times": source(lemons=(LEMONS, {**LEMONS, "times": 20.0})),
    "FailureSource.mistaken": source(mistaken=(None, MISTAKEN)),
    "Mistaken.share": source(mistaken=({**MISTAKEN, "share": 0.01}, MISTAKEN)),
    "Mistaken.again": source(mistaken=(MISTAKEN, {**MISTAKEN, "again": 15.0})),
    "Checkpoint.every": pair(MORTAL, "checkpoint.every", 10.0, "optimal"),
    "Checkpoint.write": pair(MORTAL, "checkpoint.write", 1.0, 2.0),
    "Checkpoint.storage": two(
        MORTAL,
        checkpoint=({"every": 10.0, "storage": 100.0}, {"every": 10.0, "storage": 200.0}),
    ),
    "Checkpoint.mode": pair(MORTAL, "checkpoint.mode", "blocking", "asynchronous"),
    "Checkpoint.snapshot": pair(
        {**MORTAL, "checkpoint": ASYNCHRONOUS}, "checkpoint.snapshot", 0.0, 0.5
    ),
    "Checkpoint.slowdown": pair(
        {**MORTAL, "checkpoint": ASYNCHRONOUS}, "checkpoint.slowdown", 0.0, 0.5
    ),
    "Checkpoint.restore": pair(MORTAL, "checkpoint.restore", 0.0, 1.0),
    "Recovery.restart": pair(MORTAL, "recovery.restart", 1.0, 2.0),
    "Recovery.policy": two(MORTAL, recovery=({"restart": 2.0}, {"policy": "wait", "restart": 2.0})),
    "Recovery.fewest": two(
        AWAY,
        recovery=(
            {"policy": "continue_with_fewer", "fewest": 1},
            {"policy": "continue_with_fewer", "fewest": 2},
        ),
        network=(STAR, STAR),
    ),
    "Recovery.spares": pair(MORTAL, "recovery.spares", None, SPARES),
    "Spares.hot": spares("hot", 0, 1),
    "Spares.cold": spares("cold", 1, 2),
    "Spares.swap": spares("swap", 1.0, 2.0),
}
