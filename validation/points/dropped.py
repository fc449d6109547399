"""Dropped micro-batches: how long a step of `on_write` takes, and how many of them are computed.

DropCompute (Giladi et al., 2023): of so many micro-batches with exponential times a worker gives up
those for which a threshold leaves no time. Nothing takes time but computing; steps are independent.
"""

from collections.abc import Sequence
from typing import Final

from validation.points import laws
from validation.points.estimate import Measured, mean, until_sure
from validation.points.scenario import NANOSECONDS, column, ran, scenario
from varsim.cluster.record.trace import Outcome

STEP: Final = "step time"
COMPUTED: Final = "completion rate"
_WORK: Final = 4_000  # micro-batches of a replication


def drop_compute(P: int, M: int, mu: float, threshold: float, check: str) -> Measured:  # noqa: N803
    """drop-compute."""
    steps = max(_WORK // (P * M), 10)
    assert check == "between", "the only way that there is"
    drop = {"threshold": threshold}
    described = scenario(
        {"kind": "on_write", "micro_batches": M, "drop_compute": drop},
        P,
        laws.exponential(1 / mu),
        {"global_steps": steps},
    )

    def replication(number: int) -> tuple[float, float]:
        trace = ran(described, number)
        used = int((column(trace, "outcome") == Outcome.APPLIED).sum())
        return trace.end / NANOSECONDS / steps, used / (P * M * steps)

    def reduced(rows: Sequence[tuple[float, float]]) -> Measured:
        times, shares = zip(*rows, strict=True)
        return {STEP: mean(times), COMPUTED: mean(shares)}

    return until_sure(replication, reduced, name=STEP)
