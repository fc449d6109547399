"""What every family of published experiments has: scenarios, a split, a calibration, a bound."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from validation.published.table import SPEEDS, Row, has_size, line_rate, per_host
from varsim.core.units import format_rate, format_seconds
from varsim.scenario.training import Scenario
from varsim.study.simulation import Run, run_one

# Parameters that were fitted, by name. Times in seconds, rates in bytes/s.
Fitted: TypeAlias = Mapping[str, float]
# Keys of a part of a scenario.
Keys: TypeAlias = Mapping[str, Any]

_STEPS: Final = 2
_DIGITS: Final = 4
_MOST_EVALUATIONS: Final = 10


class NotCalibratedError(LookupError):
    """The rows that tell a parameter are not there."""


class Calibrated(dict[str, float]):
    """Parameters by name; NotCalibratedError for one that nothing told."""

    def __missing__(self, name: str) -> float:
        raise NotCalibratedError(f"no row to calibrate on tells {name}")


class Parameter(NamedTuple):
    """Something physical that nobody published: where the search for it starts, and its limits."""

    name: str
    unit: Literal["s", "bytes/s", "share"]
    start: float
    low: float
    high: float
    meaning: str


class Family(ABC):
    """Experiments that are described in one way, known by what their rows say.

    Rows of one `setting` share their constants. Some rows are given: what one worker, or one
    machine, does by itself is an input. The smallest and the largest of the others tell the
    constants, in words `split`; all that are left are predicted. `bound`: the median of the
    absolute errors of the predicted rows of an experiment is at most that. `by_hand`: constants
    that stand in the code. `left_out`: what the others predict, each in turn. `given_alone`:
    whether what one worker does by itself is given. `why`: what explains errors.
    """

    split: ClassVar[str]
    bound: ClassVar[float] = 0.08
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    by_hand: ClassVar[tuple[str, ...]] = ()
    why: ClassVar[str] = ""
    left_out: ClassVar[tuple[Literal["model", "experiment"], ...]] = ("model", "experiment")
    units: ClassVar[tuple[str, ...]] = tuple(f"{name}/s" for name in SPEEDS)
    given_alone: ClassVar[bool] = True

    @abstractmethod
    def knows(self, row: Row) -> bool:
        """Whether a row is one of these."""

    def setting(self, row: Row) -> str:
        """What constants belong to: rows for which this is equal share them."""
        return f"{row.framework or row.system} on {row.hardware}, {row.interconnect}"

    def refuses(self, row: Row) -> str:
        """Which fact is missing for a scenario of a row; nothing where there is one."""
        if not row.workers:
            return "the row does not say on how many workers"
        if not row.batch:
            return "the row does not say its batch"
        return "" if has_size(row.model) else f"{row.model}: its size is not known"

    def is_given(self, row: Row) -> bool:
        """Whether a row is an input of others."""
        return self.given_alone and row.workers == 1

    @abstractmethod
    def told_by(self, rows: Sequence[Row]) -> list[Row]:
        """Of the rows of a setting that are not given, those that tell its constants."""

    @abstractmethod
    def calibrate(self, rows: Sequence[Row]) -> Fitted:
        """Parameters from these rows of a setting, which are given or tell them."""

    @abstractmethod
    def scenario(self, row: Row, fitted: Fitted) -> Scenario:
        """What was measured in a row, to be simulated."""

    def predicted(self, row: Row, fitted: Fitted) -> float:
        """The row's quantity, by simulation: examples per second of all workers."""
        return row.batch * row.workers / step_time(self.scenario(row, fitted))

    def explains(self, row: Row) -> str:
        """What explains an error of a row."""
        return self.why

    def learnt(self, fitted: Fitted) -> list[str]:
        """What was fitted, in words."""
        return [
            f"{name} {_with_unit(fitted[name], parameter.unit)} ({parameter.meaning})"
            for parameter in self.parameters
            for name in fitted
            if name == parameter.name or name.startswith(f"{parameter.name} of ")
        ]

    def label(self, row: Row) -> str:
        """What tells a row from the others of its experiment."""
        gpus = f"{row.workers} worker{'s' if row.workers > 1 else ''}"
        return f"{row.model}, {row.strategy}, batch {row.batch}, {gpus}"


def of_machines(row: Row, *, crossing: bool) -> str:
    """What a row does not say of machines, or of the line if that is crossed; or nothing."""
    gpus = per_host(row)
    if not gpus:
        return f"hardware {row.hardware!r} does not say how many GPUs a machine has"
    if crossing and not line_rate(row):
        return f"interconnect {row.interconnect!r} does not say how fast it is"
    if row.workers > gpus and row.workers % gpus:
        return f"{row.workers} GPUs do not fill machines of {gpus}"
    return ""


def extremes(rows: Sequence[Row], key: Callable[[Row], float]) -> list[Row]:
    """The rows for which a key is smallest, and those for which it is largest."""
    keys = [key(row) for row in rows]
    ends = {min(keys), max(keys)} if keys else set()
    return [row for row, one in zip(rows, keys, strict=True) if one in ends]


def timed(name: str, workers: int, cluster: Keys, workload: Keys, strategy: Keys) -> Scenario:
    """A scenario in which only times count; every step takes as long, so two of them do."""
    problem = {"kind": "timing", **workload.get("problem", {})}
    return Scenario.model_validate(
        {
            "name": "".join(c if c.isalnum() or c in "_.-" else "-" for c in name)[:64],
            "replications": 1,
            "cluster": {"workers": workers, **cluster},
            "workload": {"batch_size": 1, **workload, "problem": problem},
            "strategies": (strategy,),
            "stop": {"global_steps": _STEPS},
        }
    )


def alone(compute: float) -> dict[str, Any]:
    """The cluster of one worker."""
    return {"compute": constant(compute), "network": {"bandwidth": 1e9, "latency": 0.0}}


def constant(seconds: float) -> Keys:
    """Always the same time."""
    return {"kind": "constant", "value": seconds}


def late(factor: float) -> Keys:
    """A cluster in which one takes that much longer."""
    return {} if factor == 1 else {"slow_workers": ({"rank": 0, "factor": factor},)}


def slowest(count: int, spread: float) -> float:
    """How much longer than the mean the slowest of so many computes, on average.

    Their times are normal with a standard deviation of `spread` times the mean (Blom's score).
    """
    if count == 1:
        return 1.0
    return 1 + spread * NormalDist().inv_cdf((count - 0.375) / (count + 0.25))


def parameter_server(workers: int) -> dict[str, Any]:
    """Synchronous replicas in step: no tokens to begin with, so that nobody runs ahead."""
    return {"kind": "sync_replicas", "replicas_to_aggregate": workers, "initial_tokens": 0}


def overlapped_server(workers: int) -> dict[str, Any]:
    """The same, with gradients sent while the backward pass goes on."""
    return parameter_server(workers) | {"overlap": True}


def step_time(scenario: Scenario) -> float:
    """Seconds from the first update to the second, which is the time of a step."""
    return _step_time(scenario.model_copy(update={"name": "timed"}))


@lru_cache(maxsize=20_000)
def _step_time(scenario: Scenario) -> float:
    steps = run_one(Run(scenario, 0, 0), record=False).steps
    return float(steps[1] - steps[0]) / 1e9


def fit(
    parameters: Sequence[Parameter],
    rows: Sequence[Row],
    predicted: Callable[[Row, Fitted], float],
    known: Fitted = MappingProxyType({}),
) -> dict[str, float]:
    """Parameters with which the logarithms of what is predicted are closest to the rows'.

    Least squares; an error above 10 % counts less than its square. `known`: other parameters that
    predictions need; a row that needs others is left out. The same rows give the same four digits
    everywhere; no rows tell nothing.
    """
    first = Calibrated({**known, **{parameter.name: parameter.start for parameter in parameters}})
    rows = [row for row in rows if _can_be(predicted, row, first)]
    if not rows:
        return {}
    from scipy.optimize import least_squares

    names = [parameter.name for parameter in parameters]
    start, low, high = (
        np.log([getattr(parameter, field) for parameter in parameters])
        for field in ("start", "low", "high")
    )

    def misses(point: NDArray[np.float64]) -> NDArray[np.float64]:
        values = Calibrated({**known, **dict(zip(names, np.exp(point).tolist(), strict=True))})
        return np.array([np.log(predicted(row, values) / row.value) for row in rows])

    found = least_squares(
        misses,
        start,
        bounds=(low, high),
        diff_step=[1e-3] * len(names),
        loss="soft_l1",
        f_scale=0.1,
        xtol=1e-3,
        ftol=1e-4,
        max_nfev=_MOST_EVALUATIONS,
    )
    values = zip(names, np.exp(found.x).tolist(), strict=True)
    return {name: float(f"{value:.{_DIGITS}g}") for name, value in values}


def _can_be(predicted: Callable[[Row, Fitted], float], row: Row, fitted: Fitted) -> bool:
    """Whether there is a scenario for a row."""
    try:
        predicted(row, fitted)
    except (NotCalibratedError, ValidationError):
        return False
    return True


def _with_unit(value: float, unit: str) -> str:
    if unit == "share":
        return f"{value:.3g}"
    return format_seconds(value) if unit == "s" else format_rate(value)
