"""Scenarios of closed forms: one strategy, often on a network that takes no time; their runs."""

import math
import zlib
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.record.trace import GradientRow, Span, Trace
from varsim.scenario.training import Scenario
from varsim.study.simulation import Run, run_one

Part: TypeAlias = Mapping[str, Any]
Floats: TypeAlias = NDArray[np.float64]

# A message takes no time: that of anything here rounds to 0 ns.
IDEAL: Final[Part] = {"bandwidth": 1e18, "latency": 0.0, "sharing": "first_come"}
NANOSECONDS: Final = 1e9
_LONG: Final = 1e8  # seconds of a run in slow motion; the clock counts to 4.6e9

# Of the point that is being measured: every point has random numbers of its own.
SEED: ContextVar[int] = ContextVar("SEED", default=0)


def seed_of(point: str) -> int:
    """The seed of a point, from its name."""
    return zlib.crc32(point.encode())


def slow_motion(seconds: float) -> float:
    """How much slower a run of `seconds` is to go, so that rounding to whole ns is nothing.

    A power of ten. The run then lasts 1e7 to 1e8 s, whatever the sizes and rates of a point are.
    """
    if not math.isfinite(seconds):
        raise ValueError("so long that no clock counts it")
    return 10.0 ** math.floor(math.log10(_LONG / seconds)) if seconds > 0 else 1.0


def sent(size: float) -> Part:
    """Nothing is learnt, and a gradient is so many bytes."""
    return {"problem": {"kind": "timing", "size": float(size)}}


# Nothing is learnt, and little is sent.
TIMES: Final[Part] = sent(4)


def layered(layers: tuple[Part, ...]) -> Part:
    """Nothing is learnt, and gradients are those of these layers."""
    return {"problem": {"kind": "timing"}, "layers": layers}


def scenario(
    strategy: Part,
    workers: int,
    compute: Part,
    stop: int | Part,
    *,
    network: Part = IDEAL,
    workload: Part = TIMES,
    life: Any = MappingProxyType({}),
    **cluster: Any,
) -> Scenario:
    """A scenario of one strategy; `stop`: after so many updates, unless it says how.

    `life`: its failures; `cluster`: more keys of that.
    """
    described = {"workers": workers, "compute": compute, "network": network, **cluster}
    return Scenario.model_validate(
        {
            "name": "point",
            "seed": SEED.get(),
            "replications": 1,
            "cluster": described,
            "workload": {"batch_size": 1, **workload},
            "strategies": (strategy,),
            "stop": {"global_steps": stop} if isinstance(stop, int) else stop,
            **life,
        }
    )


def ran(described: Scenario, replication: int = 0, *, record: bool = False) -> Trace:
    """One replication, as `simulate` runs it; spans only with `record`."""
    return run_one(Run(described, 0, replication), record=record)


def step_seconds(trace: Trace) -> Floats:
    """Seconds from update to update, the first from 0."""
    return np.diff(trace.steps, prepend=0) / NANOSECONDS


def period(trace: Trace, first: int = 0, last: int = -1) -> float:
    """Seconds from one update to another."""
    return int(trace.steps[last] - trace.steps[first]) / NANOSECONDS


def column(trace: Trace, name: str) -> NDArray[np.int64]:
    """One column of the gradients, a field of GradientRow, in order of their end."""
    return trace.gradients[:, GradientRow._fields.index(name)]


def spans(trace: Trace) -> Mapping[str, NDArray[np.int64]]:
    """The columns of the spans of a recorded run, by name."""
    return dict(zip(Span._fields, trace.spans.T, strict=True))
