"""Lives of jobs are those of a model that goes through every step, on random cases."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from building import run

from oracle.lives import PARTS, Case, Job, drawn
from varsim.cluster.trace import Attempt

MS = 1_000_000  # ns
SAMPLE = range(500)


def seconds(milliseconds: int) -> float:
    return milliseconds / 1e3


def lived(case: Case) -> dict[str, int]:
    """The sums over all attempts of the same life in varsim."""
    workers = len(case["ages"])
    rows = tuple(tuple(map(seconds, gaps)) for gaps in case["ages"])
    source = {"domain": "worker", "law": {"kind": "trace", "seconds": rows}}
    if case["repair"] is not None:
        source["repair"] = {"kind": "trace", "seconds": (tuple(map(seconds, case["repair"])),)}
    checkpoint = {"every": seconds(case["every"]), "write": seconds(case["write"])}
    if case["asynchronous"]:
        checkpoint |= {
            "mode": "asynchronous",
            "snapshot": seconds(case["snapshot"]),
            "slowdown": float(case["slowdown"]),
        }
    spares = {"hot": case["hot"], "cold": case["cold"], "swap": seconds(case["swap"])}
    life = run(
        "on_write",
        cluster={
            "workers": workers,
            "compute": {"kind": "constant", "value": seconds(case["step"])},
        },
        stop={"global_steps": 2},
        failures={
            "horizon": seconds(case["horizon"]),
            "detection": seconds(case["detection"]),
            "strike": case["strike"],
            "of": (source,),
        },
        checkpoint=checkpoint,
        recovery={
            "restart": seconds(case["restart"]),
            **({"spares": spares} if case["hot"] + case["cold"] else {}),
        },
    ).life
    assert life is not None
    ends = life[:, 1:7].sum(axis=1).cumsum()
    assert (life[1:, 0] == ends[:-1]).all(), "an attempt begins where the one before it ends"
    return dict(zip(Attempt._fields, map(int, life.sum(axis=0)), strict=True))


def compare(seeds: Sequence[int]) -> None:
    for seed in seeds:
        case = drawn(seed)
        found, expected = lived(case), Job(case).run()
        told = {key: Fraction(found[key], MS if key in PARTS else 1) for key in expected}
        assert told == expected, (seed, case)


def test_to_the_nanosecond() -> None:
    compare(SAMPLE[:60])


@pytest.mark.slow
def test_many_to_the_nanosecond() -> None:
    compare(SAMPLE[60:])
