"""How often large jobs are interrupted, and what is left of their time, as operators report it.

Machines of 8 GPUs fail, each for itself, at a rate that one report gives; how often a job on so
many of them is met is what others print, or what follows from their numbers. Failures are drawn by
what draws them in a run; what is left of the time of a job is that of the bundled scenario.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from validation.finding import Finding, Section, Verdict
from validation.points.estimate import Estimate, mean
from validation.references import REFERENCES
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.description.recovery import RandomFailures
from varsim.cluster.failures.strikes import Strikes
from varsim.core import presets
from varsim.scenario.loading import load_scenario
from varsim.scenario.training import Scenario
from varsim.study.result import simulate

SECTION: Final = Section(
    "interruptions",
    "Interruptions of large jobs",
    "How often jobs of 1,024 to 131,072 GPUs are interrupted, and what is left of their time. "
    "Reported figures stand apart from those that were derived from others. A rate per machine is "
    "given; that a job is met as often as all its machines fail is predicted.",
    # Written down before anything was run.
    "Projections of a report at the rate it gives: to their last digit. What was derived from a "
    "rate or a count: inside its 99 % interval. A count from which the rate was derived proves "
    "nothing; what depends on what a report does not say, and the measured 7.9 h of small jobs, of "
    "which it is known that they do not follow the rate, are reported without a bound.",
)
REPORTED: Final = "interruptions, reported"
DERIVED: Final = "interruptions, derived"
GOODPUT: Final = "share of time, reported"
GROUPS: Final = (REPORTED, DERIVED, GOODPUT)
_SCALE: Final = Path(__file__).parents[1] / "scenarios" / "llama_scale.yaml"
_DAY, _HOUR = 86_400.0, 3600.0
_PER_MACHINE: Final = 8  # GPUs
_LIVES: Final = 20
_FAILURES: Final = 1_000  # of each, on average


class _Line(NamedTuple):
    """What is made of a published figure: `rate` of which preset; `decimals` that are printed."""

    group: str
    what: str
    gpus: int
    rate: str
    verdict: Verdict | None = None
    decimals: int | None = None
    why: str = ""


_PROJECTED: Final = "mean time to failure, projected"
_FOLLOWS: Final = "mean time to failure from the RSC-1 rate and 1/N"
_LINES: Final = (
    _Line(
        REPORTED,
        "interruptions in a 54-day snapshot, unexpected",
        16384,
        "llama3",
        Verdict.CALIBRATED,
        why="the rate is derived from this count",
    ),
    _Line(REPORTED, _PROJECTED, 16384, "rsc_1", decimals=1),
    _Line(REPORTED, _PROJECTED, 131072, "rsc_1", decimals=2),
    _Line(
        REPORTED,
        "mean time to failure, measured",
        1024,
        "rsc_1",
        Verdict.REPORTED,
        why="small jobs failed more often than the rate of all machines says",
    ),
    _Line(
        DERIVED,
        "mean time between unexpected interruptions implied by Llama 3",
        16384,
        "llama3",
    ),
    *(_Line(DERIVED, _FOLLOWS, gpus, "rsc_1") for gpus in (1024, 16384, 131072)),
)


def findings() -> list[Finding]:
    """All figures that say how often, or what is left."""
    document = json.loads((REFERENCES / "goodput.json").read_text(encoding="utf-8"))
    published = {(one["what"], one["gpus"]): one for one in document["published"]}
    return [*(_interrupted(line, published) for line in _LINES), *_shares(published)]


@cache
def between(rate: str, machines: int) -> Estimate:
    """Mean time (s) from one failure of a job to its next; `rate`: the preset of a machine's."""
    per_day = presets.failures(rate).per_day
    apart = _DAY / per_day / machines
    failures = RandomFailures.model_validate(
        {"horizon": _FAILURES * apart, "of": ({"domain": "worker", "per_day": per_day},)}
    )
    network = {"kind": "star", "bandwidth": 1e9, "latency": 0.0}
    compute = {"kind": "constant", "value": 1.0}
    described = {"workers": machines, "compute": compute, "network": network}
    cluster = Cluster.model_validate(described)
    horizon = failures.horizon
    assert horizon is not None
    lives = (
        Strikes(failures, None, cluster, machines, seed=1, replication=life)
        for life in range(_LIVES)
    )
    found = mean([float(len(life.until(horizon))) for life in lives])
    assert found.half_width is not None
    time = horizon / found.value
    return Estimate(time, time * found.half_width / found.value)


def _interrupted(line: _Line, published: dict[tuple[str, int], Any]) -> Finding:
    printed = published[line.what, line.gpus]
    found, expected = between(line.rate, line.gpus // _PER_MACHINE), float(printed["value"])
    assert found.half_width is not None
    got, half = found.value / _HOUR, found.half_width / _HOUR
    quantity, unit = "time between interruptions", "h"
    if printed["unit"] == "count":
        got, half = 54 * 24 / got, 54 * 24 / got * half / got
        quantity, unit = "interruptions", ""
    told = Finding(
        line.group,
        f"{line.gpus:,} GPUs, {line.what}",
        quantity,
        unit,
        expected,
        got,
        half,
        source=printed["source"],
    )
    if line.verdict is not None:
        return replace(told, verdict=line.verdict, why=line.why)
    if line.decimals is not None:
        off = 0.5 * 10**-line.decimals
        return told.held(abs(got - expected) <= off, "to the last digit that is printed")
    return told.held(abs(got - expected) <= half, "inside its 99 % interval")


def _shares(published: dict[tuple[str, int], Any]) -> Iterator[Finding]:
    """What is left of the time of jobs."""
    described = load_scenario(_SCALE)
    assert isinstance(described, Scenario)
    found = mean(list(simulate(described).values("on_write", "goodput")))
    llama = published["effective training time", 16384]
    yield Finding(
        GOODPUT,
        "16,384 GPUs, effective training time, more than this",
        "share of time",
        "",
        float(llama["value"].removeprefix(">")),
        found.value,
        found.half_width,
        verdict=Verdict.REPORTED,
        source=llama["source"],
        why="how long checkpoints, detection and restarts took is not given: 10 s, 30 s, 5 min",
    )
    robust = published["cumulative ETTR of a three-month job", 9600]
    yield Finding(
        GOODPUT,
        f"9,600 GPUs, {robust['what']}",
        "share of time",
        "",
        float(robust["value"]),
        source=robust["source"],
        why="neither its failures nor what they cost are given",
    )
