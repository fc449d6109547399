"""Goodput of a job among random failures: checkpoints, restarts, spares (Daly, 2006).

Each point is a scenario with `failures`, `checkpoint` and `recovery`; nothing takes time in its
steps but computing. A replication is a life of so many failures.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from validation.points import laws
from validation.points.estimate import (
    Answer,
    Estimate,
    Measured,
    columns,
    family,
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
    failures = {
        "horizon": min(_FAILURES * apart, LONGEST),
        "detection": detection,
        "strike": _STRIKE[strike],
        "of": (source,),
    }
    life = {"failures": failures, "checkpoint": checkpoint, "recovery": recovery}
    return scenario({"kind": "on_write"}, workers, laws.constant(step), 2, life=life)


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


@family("checkpoint_any_time")
@family("checkpoint_not_while_down")
@family("checkpoint_compute_only")
def _blocking(
    step_s: Positive,
    interval_s: Positive,
    write_s: NotNegative,
    mtbf_s: Positive,
    detect_s: NotNegative,
    restart_s: NotNegative,
    failures: str,
) -> Measured:
    saved = {"every": interval_s, "write": write_s}
    return _goodput(_life(step_s, mtbf_s, detect_s, failures, saved, {"restart": restart_s}))


@family("checkpoint_nodes")
def _nodes(
    step_s: Positive,
    interval_s: Positive,
    write_s: NotNegative,
    mtbf_s: Positive,
    detect_s: NotNegative,
    restart_s: NotNegative,
    nodes: Count,
    node_mtbf_s: Positive,
    failures: str,
) -> Answer:
    assert math.isclose(mtbf_s, node_mtbf_s / nodes, rel_tol=1e-9), "M is not m / N"
    saved, back = {"every": interval_s, "write": write_s}, {"restart": restart_s}
    return _goodput(_life(step_s, node_mtbf_s, detect_s, failures, saved, back, workers=nodes))


@family("checkpoint_async")
def _asynchronous(
    step_s: Positive,
    interval_s: Positive,
    write_s: NotNegative,
    snapshot_s: NotNegative,
    slowdown: NotNegative,
    mtbf_s: Positive,
    detect_s: NotNegative,
    restart_s: NotNegative,
    failures: str,
) -> Answer:
    saved = {
        "mode": "asynchronous",
        "every": interval_s,
        "write": write_s,
        "snapshot": snapshot_s,
        "slowdown": slowdown,
    }
    return _goodput(_life(step_s, mtbf_s, detect_s, failures, saved, {"restart": restart_s}))


@family("ckpt-segment")
def _segment(W: Positive, C: Positive, R: Positive, lam: Positive) -> Answer:
    """From one checkpoint to the next."""
    return times(W, inverse(_blocking(W / 100, W, C, 1 / lam, 0.0, R, "any_time")[""]))


@family("optimal_interval")
def _optimal_interval(
    write_s: NotNegative,
    mtbf_s: Positive,
    detect_s: NotNegative,
    restart_s: NotNegative,
    failures: str,
) -> Answer:
    saved = {"every": "optimal", "write": write_s}
    described = _life(1.0, mtbf_s, detect_s, failures, saved, {"restart": restart_s})
    assert described.checkpoint is not None
    assert described.failures is not None
    rate = described.failures.rate(described.cluster, 1)
    return described.checkpoint.interval(described.failures, rate, detect_s + restart_s)


@family("ckpt-optimum")
def _optimum(C: Positive, lam: Positive) -> Answer:
    return _optimal_interval(C, 1 / lam, 0.0, 0.0, "any_time")


@family("first_order")
def _first_order(
    step_s: Positive,
    interval_s: Positive,
    write_s: NotNegative,
    mtbf_s: Positive,
    detect_s: NotNegative,
    restart_s: NotNegative,
    failures: str,
) -> Answer:
    """Formulas for small losses, beside the life that they leave something out of."""
    lived = _blocking(step_s, interval_s, write_s, mtbf_s, detect_s, restart_s, failures)
    after = (detect_s + restart_s + interval_s / 2) / mtbf_s
    return {
        "": Estimate((1 - after) / (1 + write_s / interval_s)),
        "additive_first_order": Estimate(1 - write_s / interval_s - after),
        "exact_goodput": lived[""],
    }


@family("spares_none")
def _no_spare(
    step_s: Positive,
    interval_s: Positive,
    write_s: NotNegative,
    mtbf_s: Positive,
    detect_s: NotNegative,
    restart_s: NotNegative,
    repair_s: Positive,
    failures: str,
) -> Answer:
    saved, back = {"every": interval_s, "write": write_s}, {"restart": restart_s}
    waits = _life(step_s, mtbf_s, detect_s, failures, saved, back, repair=repair_s)
    never = _life(step_s, mtbf_s, detect_s, failures, saved, back)
    return _goodput(waits) | {"goodput_always_spare": _goodput(never)[""]}


@family("spares_pool")
def _pool(nodes: Count, node_mtbf_s: Positive, repair_mean_s: Positive, spares: Whole) -> Answer:
    back = {"spares": {"hot": spares}} if spares else {}
    repair = {"kind": "exponential", "mean": repair_mean_s}
    down = "not_while_down"
    described = _life(1.0, node_mtbf_s, 0.0, down, None, back, repair=repair, workers=nodes)
    return _goodput(described, "available")
