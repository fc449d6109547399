"""What every family of published experiments has: scenarios, a split, a calibration, a bound."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import groupby
from statistics import NormalDist
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from validation.published.table import SPEEDS, Row, has_size
from varsim.core.units import format_rate, format_seconds
from varsim.learning.workload import Workload
from varsim.scenario.training import Scenario
from varsim.study.simulation import Run, run_one

# Parameters that were fitted, by name. Times in seconds, rates in bytes/s.
Fitted: TypeAlias = Mapping[str, float]


class NotCalibratedError(LookupError):
    """The rows that tell a parameter are not there."""


class Calibrated(dict[str, float]):
    """Parameters by name; NotCalibratedError for one that nothing told."""

    def __missing__(self, name: str) -> float:
        raise NotCalibratedError(f"no row to calibrate on tells {name}")


_STEPS: Final = 2
_DIGITS: Final = 4
_MOST_EVALUATIONS: Final = 10


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
    that stand in the code. `left_out`: what the others predict, each in turn. `why`: what explains
    errors.
    """

    split: ClassVar[str]
    bound: ClassVar[float] = 0.08
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    by_hand: ClassVar[tuple[str, ...]] = ()
    why: ClassVar[str] = ""
    left_out: ClassVar[tuple[Literal["model", "experiment"], ...]] = ("model", "experiment")
    units: ClassVar[tuple[str, ...]] = tuple(f"{name}/s" for name in SPEEDS)

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
        """Whether a row is an input of others: by default what one worker does by itself."""
        return row.workers == 1

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


def extremes(rows: Sequence[Row], key: Callable[[Row], float]) -> list[Row]:
    """The rows for which a key is smallest, and those for which it is largest."""
    keys = [key(row) for row in rows]
    ends = {min(keys), max(keys)} if keys else set()
    return [row for row, one in zip(rows, keys, strict=True) if one in ends]


def timed(
    name: str,
    workers: int,
    cluster: Mapping[str, Any],
    workload: Mapping[str, Any],
    strategy: Mapping[str, Any],
) -> Scenario:
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
    return {
        name: float(f"{value:.{_DIGITS}g}")
        for name, value in zip(names, np.exp(found.x).tolist(), strict=True)
    }


# Machines with several accelerators: a step inside one of them, and one of many of them.
#
# Frameworks that add up gradients inside a machine first send one gradient per machine. So a worker
# of the outer scenario is a machine, and what it computes takes as long as a step of the inner one.


_AT_ONCE: Final = 1e15  # bytes/s


def unfilled(workers: int, per_host: int) -> str:
    """Why so many workers are not on whole machines, or a part of one; nothing where they are."""
    if workers <= per_host or workers % per_host == 0:
        return ""
    return f"{workers} GPUs do not fill machines of {per_host}"


def parameter_server(workers: int) -> dict[str, Any]:
    """Synchronous replicas in step: no tokens to begin with, so that nobody runs ahead."""
    return {"kind": "sync_replicas", "replicas_to_aggregate": workers, "initial_tokens": 0}


def overlapped_server(workers: int) -> dict[str, Any]:
    """The same, with gradients sent while the backward pass goes on."""
    return parameter_server(workers) | {"overlap": True}


def alone(compute: float) -> dict[str, Any]:
    """The cluster of one worker."""
    return {
        "compute": {"kind": "constant", "value": compute},
        "network": {"bandwidth": 1e9, "latency": 0.0},
    }


def slowest(count: int, spread: float) -> float:
    """How much longer than the mean the slowest of so many computes, on average.

    Their times are normal with a standard deviation of `spread` times the mean (Blom's score).
    """
    if count == 1:
        return 1.0
    return 1 + spread * NormalDist().inv_cdf((count - 0.375) / (count + 0.25))


def one_host(
    name: str,
    model: str,
    batch: int,
    gpus: int,
    compute: float,
    bus: float = 0.0,
    slowest: float = 1.0,
) -> Scenario:
    """All accelerators of a machine, one of them `slowest` times as long at a step as the others.

    `compute`: seconds of a step of one of these. Gradients are added up over the bus, of which each
    has `bus` bytes/s; 0: at once.
    """
    cluster = alone(compute)
    if gpus > 1 and bus:
        cluster["network"] = {"bandwidth": bus, "latency": 0.0, "sharing": "first_come"}
    elif gpus > 1:
        cluster["network"] = {"bandwidth": _AT_ONCE, "latency": 0.0, "sharing": "first_come"}
    if slowest != 1:
        cluster["slow_workers"] = ({"rank": 0, "factor": slowest},)
    workload = {"model": model, "batch_size": batch}
    return timed(name, gpus, cluster, workload, {"kind": "on_write"})


def many_hosts(
    name: str,
    model: str,
    batch: int,
    hosts: int,
    compute: float,
    servers: int,
    network: Mapping[str, Any],
    slowest: float = 1.0,
) -> Scenario:
    """Machines with parameter servers on which whole tensors lie in turn.

    `batch`: examples of one machine; `compute`: seconds of a step of one machine by itself.
    The servers are on the workers' machines, of which one takes `slowest` times as long.
    """
    cluster = _with_servers(compute, servers, network, slowest, "round_robin")
    workload = {"model": model, "batch_size": batch}
    return timed(name, hosts, cluster, workload, overlapped_server(hosts))


def many_exchanging_hosts(
    name: str,
    model: str,
    batch: int,
    hosts: int,
    compute: float,
    servers: int,
    network: Mapping[str, Any],
    slowest: float = 1.0,
    placement: str = "round_robin",
) -> Scenario:
    """The same, where a layer is pulled while others are computed and pushed.

    What the machines pull of a layer goes as soon as all of them have pushed their gradients of it.
    `placement`: how whole layers are dealt to the servers.
    """
    cluster = _with_servers(compute, servers, network, slowest, placement)
    workload = {"layers": layers_of(model), "batch_size": batch}
    strategy = {"kind": "on_write", "collective": "push_pull", "overlap": True}
    return timed(name, hosts, cluster, workload, strategy)


@cache
def layers_of(model: str) -> tuple[Mapping[str, float], ...]:
    """A model layer by layer, as a scenario lists them: tensors that are ready together are one."""
    whole = Workload.model_validate({"model": model, "problem": {"kind": "timing"}})
    tensors = whole.tensors()
    sizes: list[int] = []
    moments: list[float] = []
    for moment, group in groupby(
        zip(whole.ready_after(tensors), tensors, strict=True), key=lambda tensor: tensor[0]
    ):
        moments.append(moment)
        sizes.append(sum(size for _, size in group))
    ends = [*moments[1:], 0.0]
    return tuple(
        {"backward": moment - end, "size": size}
        for moment, end, size in zip(moments, ends, sizes, strict=True)
    )


def _with_servers(
    compute: float, servers: int, network: Mapping[str, Any], slowest: float, placement: str
) -> dict[str, Any]:
    """The cluster of machines that have the servers on them."""
    cluster: dict[str, Any] = {
        "compute": {"kind": "constant", "value": compute},
        "parameter_servers": servers,
        "servers_on": "workers",
        "network": network,
    }
    if servers > 1:
        cluster["placement"] = placement
    if slowest != 1:
        cluster["slow_workers"] = ({"rank": 0, "factor": slowest},)
    return cluster
