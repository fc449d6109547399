"""Goodput of a job among random failures: checkpoints, restarts, spares (Daly, 2006).

Each point is a scenario with `failures`, `checkpoint` and `recovery`; nothing takes time in its
steps but computing. A replication is a life of so many failures.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from validation.points.estimate import (
    Estimate,
    Measured,
    columns,
    exactly,
    inverse,
    times,
    until_sure,
)
from validation.points.parameters import Count, NotNegative, Positive, Whole
from validation.points.scenario import Part, ran, scenario
from varsim.cluster.description.recovery import LONGEST
from varsim.cluster.record.trace import Attempt
from varsim.scenario.training import Scenario
from varsim.study.lives import with_life

_FAILURES: Final = 2_000  # of a replication
_STRIKE: Final = {
    "any_time": "always",
    "not_while_down": "while_running",
    "compute_only": "while_computing",
}
# Half of an interval is to be 0.5 % of a number, but of nothing above this: 0.1 points of error.
_HALF: Final = 0.5
_SHARES: Final = ("productive", "write", "lost", "down")


def blocking(
    step_s: Positive,
    interval_s: Positive,
    write_s: NotNegative,
    mtbf_s: Positive,
    detect_s: NotNegative,
    restart_s: NotNegative,
    failures: str,
) -> Measured:
    """checkpoint_any_time, checkpoint_not_while_down, checkpoint_compute_only."""
    saved = {"every": interval_s, "write": write_s}
    return _goodput(_life(step_s, mtbf_s, detect_s, failures, saved, {"restart": restart_s}))


def nodes(
    step_s: Positive,
    interval_s: Positive,
    write_s: NotNegative,
    mtbf_s: Positive,
    detect_s: NotNegative,
    restart_s: NotNegative,
    nodes: Count,
    node_mtbf_s: Positive,
    failures: str,
) -> Measured:
    """checkpoint_nodes."""
    assert math.isclose(mtbf_s, node_mtbf_s / nodes, rel_tol=1e-9), "M is not m / N"
    saved = {"every": interval_s, "write": write_s}
    described = _life(
        step_s, node_mtbf_s, detect_s, failures, saved, {"restart": restart_s}, workers=nodes
    )
    return _goodput(described)


def asynchronous(
    step_s: Positive,
    interval_s: Positive,
    write_s: NotNegative,
    snapshot_s: NotNegative,
    slowdown: NotNegative,
    mtbf_s: Positive,
    detect_s: NotNegative,
    restart_s: NotNegative,
    failures: str,
) -> Measured:
    """checkpoint_async."""
    saved = {
        "mode": "asynchronous",
        "every": interval_s,
        "write": write_s,
        "snapshot": snapshot_s,
        "slowdown": slowdown,
    }
    return _goodput(_life(step_s, mtbf_s, detect_s, failures, saved, {"restart": restart_s}))


def segment(W: Positive, C: Positive, R: Positive, lam: Positive) -> Measured:
    """ckpt-segment: from one checkpoint to the next."""
    share = blocking(W / 100, W, C, 1 / lam, 0.0, R, "any_time")[""]
    return {"": times(W, inverse(share))}


def optimum(C: Positive, lam: Positive) -> Measured:
    """ckpt-optimum."""
    return optimal_interval(C, 1 / lam, 0.0, 0.0, "any_time")


def optimal_interval(
    write_s: NotNegative,
    mtbf_s: Positive,
    detect_s: NotNegative,
    restart_s: NotNegative,
    failures: str,
) -> Measured:
    """optimal_interval."""
    saved = {"every": "optimal", "write": write_s}
    described = _life(1.0, mtbf_s, detect_s, failures, saved, {"restart": restart_s})
    assert described.checkpoint is not None
    assert described.failures is not None
    rate = described.failures.rate(described.cluster, 1)
    return exactly(described.checkpoint.interval(described.failures, rate, detect_s + restart_s))


def first_order(
    step_s: Positive,
    interval_s: Positive,
    write_s: NotNegative,
    mtbf_s: Positive,
    detect_s: NotNegative,
    restart_s: NotNegative,
    failures: str,
) -> Measured:
    """first_order: formulas for small losses, beside the life that they leave something out of."""
    lived = blocking(step_s, interval_s, write_s, mtbf_s, detect_s, restart_s, failures)
    after = (detect_s + restart_s + interval_s / 2) / mtbf_s
    return {
        "": Estimate((1 - after) / (1 + write_s / interval_s)),
        "additive_first_order": Estimate(1 - write_s / interval_s - after),
        "exact_goodput": lived[""],
    }


def no_spare(
    step_s: Positive,
    interval_s: Positive,
    write_s: NotNegative,
    mtbf_s: Positive,
    detect_s: NotNegative,
    restart_s: NotNegative,
    repair_s: Positive,
    failures: str,
) -> Measured:
    """spares_none."""
    saved = {"every": interval_s, "write": write_s}
    back = {"restart": restart_s}
    waits = _life(step_s, mtbf_s, detect_s, failures, saved, back, repair=repair_s)
    never = _life(step_s, mtbf_s, detect_s, failures, saved, back)
    return _goodput(waits) | {"goodput_always_spare": _goodput(never)[""]}


def pool(nodes: Count, node_mtbf_s: Positive, repair_mean_s: Positive, spares: Whole) -> Measured:
    """spares_pool."""
    described = _life(
        1.0,
        node_mtbf_s,
        0.0,
        "not_while_down",
        None,
        {"spares": {"hot": spares}} if spares else {},
        repair={"kind": "exponential", "mean": repair_mean_s},
        workers=nodes,
    )
    return _goodput(described, "available")


def _life(
    step: float,
    mtbf: float,
    detection: float,
    strike: str,
    checkpoint: Part | None,
    recovery: Part,
    *,
    repair: Any = None,
    workers: int = 1,
) -> Scenario:
    """A job of so many workers that fail, each for itself, _FAILURES times in a replication."""
    away = repair["mean"] if isinstance(repair, dict) else repair or 0.0
    apart = mtbf / workers + detection + recovery.get("restart", 0.0) + away
    source = {"domain": "worker", "mtbf": mtbf, **({"repair": repair} if repair else {})}
    return scenario(
        {"kind": "on_write"},
        workers,
        {"kind": "constant", "value": step},
        {"global_steps": 2},
        life={
            "failures": {
                "horizon": min(_FAILURES * apart, LONGEST),
                "detection": detection,
                "strike": _STRIKE[strike],
                "of": (source,),
            },
            "checkpoint": checkpoint,
            "recovery": recovery,
        },
    )


def _goodput(described: Scenario, quantity: str = "productive") -> Measured:
    """The parts of lives, as shares of their time; `quantity` is that of the point."""
    steps = ran(described)  # the same in every replication

    def replication(number: int) -> tuple[float, ...]:
        life = with_life(described, replace(steps, replication=number)).life
        assert life is not None
        total = dict(zip(Attempt._fields, life.sum(axis=0).tolist(), strict=True))
        down = total["detection"] + total["repair"] + total["restart"]
        parts = [total["productive"], total["checkpoint"], total["lost"], down]
        shares = [part / sum(parts) for part in parts]
        return (*shares, 1 - shares[-1])

    def reduced(rows: Sequence[tuple[float, ...]]) -> Measured:
        found = columns(*_SHARES, "available")(rows)
        main = found[quantity]._replace(scale=min(abs(found[quantity].value), _HALF))
        return {"": main, **{f"shares.{name}": found[name] for name in _SHARES}}

    return until_sure(replication, reduced)
