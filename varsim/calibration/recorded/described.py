"""A recorded run as a whole scenario, with times that are fitted to what was recorded.

Ranks, bytes, strategy and steps are the recording's. Compute times are those of the run that is
described; how long communication takes is fitted to all runs of its family. Comments say what was
measured, how well it fits, and what nobody measured and is assumed.
"""

from collections.abc import Sequence
from itertools import groupby
from statistics import median
from typing import Final, NamedTuple

from varsim.calibration.compute import compute_part
from varsim.calibration.fragment import Fragment, Line, fit, rounded
from varsim.calibration.measurement import (
    MeasuredPart,
    StepTable,
    UnreadableError,
    transfer,
    with_unit,
)
from varsim.calibration.recorded.comparison import family_of
from varsim.calibration.recorded.overheads import Fitted, calibrate, measured_latencies
from varsim.calibration.recorded.runs import (
    CollectiveRun,
    Rank,
    RecordedWorker,
    Replay,
    Run,
    compute_tables,
    computes,
    description,
)
from varsim.core.units import format_bytes, format_seconds
from varsim.scenario.fault import UnknownNameError, known
from varsim.scenario.writing import block

# Before the names of the runs that a scenario was fitted to, in a comment of it.
FITTED_TO: Final = "# Fitted to: "
_NO_NETWORK: Final = "network: {kind: star, bandwidth: 1000000 Gbit/s, latency: 0}"
_MOST_SHOWN: Final = 3


def described(
    runs: Sequence[Run], name: str | None = None, beside: str | None = None, head: str = ""
) -> Fragment:
    """The scenario of the run called `name`, or of the one with most ranks and steps.

    `beside`: name of a CSV that may be written beside the scenario; without one all is in the YAML.
    `head`: a comment for its second line. Raises UnreadableError where runs are of several jobs and
    none is named, or there is no run of that name.
    """
    run = _chosen(runs, name)
    alike = [one for one in runs if family_of(one) == family_of(run)]
    compute, times = compute_part(_own_times(run), beside), _communication(alike)
    told = Replay(run).scenario().model_dump(mode="json", exclude_unset=True)
    cluster = {key: told["cluster"][key] for key in description(run)["cluster"]}
    cluster.pop("slow_workers", None)  # found in the times
    count = len(compute_tables(run))
    lines = [
        f"# How long do {run.steps} steps of {count} {_WHO[isinstance(run, CollectiveRun)]} take?",
        *([head] if head else []),
        f"{FITTED_TO}{', '.join(one.id for one in alike)}",
        f"# Recorded: what is sent, by whom, for how many steps; as in {run.id}.",
        *(f"# {line}" for line in _ASSUMED[isinstance(run, CollectiveRun)]),
        f"name: {run.id}",
        "cluster:",
        *block(cluster, "  "),
    ]
    for part in (compute, times):
        lines += [f"  # {line}" for line in part.comments]
        lines += [f"  {line}" for line in part.yaml]
    rest = {key: told[key] for key in ("workload", "strategies", "events", "stop") if told.get(key)}
    return Fragment((*lines, *block(rest)), compute.csv)


def fitted_to(text: str) -> list[str]:
    """The runs that a scenario was fitted to, as a comment of its text says."""
    lines = (line for line in text.splitlines() if line.startswith(FITTED_TO))
    return [name for line in lines for name in line.removeprefix(FITTED_TO).split(", ")]


_WHO: Final = ("workers", "ranks")
_ASSUMED: Final = (
    ("Assumed: a batch size of 1, since none is recorded; examples/s then counts steps.",),
    (
        "Assumed: the all-reduce is a ring and begins when all gradients are there, and every rank",
        "is a host of its own. A batch size of 1, since none is recorded: examples/s counts steps.",
    ),
)


def _chosen(runs: Sequence[Run], name: str | None) -> Run:
    there = [run for run in runs if computes(run)]
    if not there:
        raise UnreadableError("nothing is computed in any of these runs")
    if name is not None:
        try:
            known("recorded run", name, [run.id for run in there])
        except UnknownNameError as error:
            raise UnreadableError(str(error)) from None
        return next(run for run in there if run.id == name)
    jobs: dict[tuple[str, int], list[str]] = {}
    for run in there:
        jobs.setdefault((run.kind, run.payload_bytes), []).append(run.id)
    if len(jobs) > 1:
        shown = [
            f"{names[0]} ({kind}, {format_bytes(size)})" for (kind, size), names in jobs.items()
        ]
        more = ", ..." if len(shown) > _MOST_SHOWN else ""
        raise UnreadableError(
            f"these runs are of {len(jobs)} jobs, a scenario is of one: name a run with --run; "
            f"one of each: {', '.join(shown[:_MOST_SHOWN])}{more}"
        )
    return max(there, key=lambda run: (not _slow(run), len(compute_tables(run)), run.steps, run.id))


def _slow(run: Run) -> bool:
    """Is one of its ranks slow, as the recording says?"""
    return isinstance(run, CollectiveRun) and any(rank.slow != 1 for rank in run.ranks)


def _own_times(run: Run) -> StepTable:
    """Compute times of each rank or worker, as far as it came."""
    actors: Sequence[Rank | RecordedWorker] = (
        run.ranks if isinstance(run, CollectiveRun) else run.workers
    )
    rows = {rank: one.compute[: len(one.begin)] for rank, one in enumerate(actors)}
    numbers = {rank: tuple(range(len(row))) for rank, row in rows.items()}
    return StepTable(f"run {run.id}", rows, numbers, alone=True)


class _Fit(NamedTuple):
    """A model of communication: its YAML, and of each run mean times, measured and fitted (s)."""

    what: str
    yaml: tuple[str, ...]
    times: tuple[Fitted, ...]

    @property
    def error(self) -> float:
        """Median of the relative errors."""
        return median(abs(one.fitted / one.measured - 1) for one in self.times if one.measured)


def _communication(runs: Sequence[Run]) -> MeasuredPart:
    """Network and overheads: of a ring on a star, or of one machine, whichever fits better."""
    fits = [one for one in (_star(runs), _overheads(runs)) if one is not None]
    if not fits:
        return MeasuredPart(("communication: nothing is to be learnt",), (_NO_NETWORK,))
    best = min(fits, key=lambda one: one.error)
    lines = [
        f"{one.what}: median error {100 * one.error:.0f} %{', chosen' * (one is best)}"
        for one in fits
    ]
    lines.append("  mean times, measured and with these numbers:")
    for run, times in groupby(best.times, key=lambda one: one.run):
        pairs = (
            f"{one.latency} {format_seconds(one.measured)} {format_seconds(one.fitted)}"
            for one in times
        )
        lines.append(f"    {run}: {', '.join(pairs)}")
    return MeasuredPart(tuple(lines), best.yaml)


def _star(runs: Sequence[Run]) -> _Fit | None:
    """A ring on a star: latency and bandwidth of a link; None where no bandwidth is seen."""
    rings = [run for run in runs if isinstance(run, CollectiveRun)]
    seen = {
        run.id: transfer("all_reduce", len(run.ranks), run.payload_bytes, time)
        for run in rings
        if (time := measured_latencies(run).collective)
    }
    line = fit(list(seen.values())) if seen else Line(0.0, 0.0)
    if line.per_byte <= 0:
        return None
    line = rounded(line)
    times = (Fitted(who, "all-reduce", one.seconds, line.time(one)) for who, one in seen.items())
    rate, latency = with_unit(line.bandwidth, "rate"), with_unit(line.latency, "time")
    yaml = f"network: {{kind: star, bandwidth: {rate}, latency: {latency}}}"
    untold = "" if line.latency else " (no latency can be told from these sizes)"
    return _Fit(f"network, a ring over links of their own{untold}", (yaml,), tuple(times))


def _overheads(runs: Sequence[Run]) -> _Fit | None:
    """Overheads on a network that takes no time, as the links of one machine hardly do."""
    found = calibrate(runs)
    if found is None:
        return None
    texts = found.overheads.model_dump(mode="json", exclude_none=True)
    given = ", ".join(f"{name}: {texts[name]}" for name in found.overheads.given)
    yaml = (f"overheads: {{{given}}}", _NO_NETWORK)
    idle = " with nothing else to do" if found.load else ""
    return _Fit(f"overheads, as of processes on one machine{idle}", yaml, found.residuals)
