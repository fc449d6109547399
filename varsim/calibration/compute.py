"""The distribution of step times: maximum-likelihood fits, the choice, its YAML and its fit.

A family is refused if its p50, p90 or p99 is more than WORST off, however good its likelihood,
since barriers wait for the tail; of the others the one with the least AIC is chosen. p99.9 is
shown only, as few files have enough steps to know it. If all are refused, the empirical
distribution is left.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, Final, NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from varsim.calibration.measurement import MeasuredPart, StepTable, with_unit
from varsim.calibration.steps import (
    FEWEST,
    Rows,
    Slow,
    Times,
    WarmUp,
    dependence,
    equal_times,
    of_common_steps,
    slow_workers,
    warm_up,
)
from varsim.core.csv_file import MOST_ROWS
from varsim.core.units import format_seconds, span
from varsim.study.stragglers import SAMPLED, Stragglers, equal_to_previous

_DIGITS: Final = 6
_STEADY: Final = 1e-3  # half a per mille either way is no variation worth a law
_CUT: Final = 4.0  # standard deviations above 0 from which the cut of a normal law is nothing


class Fit(NamedTuple):
    """Fitted distribution: parameters in seconds and `plain` ones, log likelihood, quantiles."""

    kind: str
    seconds: Mapping[str, float]
    plain: Mapping[str, float]
    likelihood: float
    quantile: Callable[[float], float]

    @property
    def aic(self) -> float:
        """Akaike's criterion: 2 parameters - 2 log likelihood."""
        return 2 * (len(self.seconds) + len(self.plain)) - 2 * self.likelihood


def rounded(value: float) -> float:
    """As it is printed."""
    return float(f"{value:.{_DIGITS}g}")


def fits(times: Times) -> list[Fit]:
    """Every family that can be fitted; only `constant` where times hardly differ."""
    middle = float(np.median(times))
    if float(times.max()) - float(times.min()) <= _STEADY * middle:
        value = rounded(middle)
        return [Fit("constant", {"value": value}, {}, math.inf, lambda share: value)]
    return [
        Fit(kind, seconds, plain, float(law.logpdf(times).sum()), law.ppf)
        for kind, seconds, plain, law in _families(times)
    ]


def _families(times: Times) -> Iterator[tuple[str, dict[str, float], dict[str, float], Any]]:
    """Kind, parameters in seconds and plain ones, and scipy's law with them, as they are printed.

    A minimum is rounded down: above any of the times the likelihood would be 0.
    """
    mean, std = rounded(float(times.mean())), rounded(float(times.std()))
    least, most = _rounded_down(float(times.min())), _rounded_up(float(times.max()))
    logs = np.log(times)
    yield "exponential", {"mean": mean}, {}, stats.expon(scale=mean)
    if 0 < least < mean:
        law = stats.expon(least, mean - least)
        yield "shifted_exponential", {"minimum": least, "mean": mean}, {}, law
    yield "uniform", {"low": least, "high": most}, {}, stats.uniform(least, most - least)
    if 0 < _CUT * std <= mean:
        yield "normal", {"mean": mean, "std": std}, {}, stats.norm(mean, std)
    sigma = rounded(float(logs.std()))
    if 0 < sigma <= 10:
        middle = rounded(math.exp(float(logs.mean()) + sigma**2 / 2))
        law = stats.lognorm(sigma, scale=middle / math.exp(sigma**2 / 2))
        yield "lognormal", {"mean": middle}, {"sigma": sigma}, law
    shape = rounded(float(stats.gamma.fit(times, floc=0)[0]))
    yield "gamma", {"mean": mean}, {"shape": shape}, stats.gamma(shape, scale=mean / shape)
    if (found := _weibull(logs)) is not None:
        shape, scale = found
        of_one = math.gamma(1 + 1 / shape)
        middle = rounded(scale * of_one)
        law = stats.weibull_min(shape, scale=middle / of_one)
        yield "weibull", {"mean": middle}, {"shape": shape}, law
    excess = float(np.log(times / least).sum())
    alpha = rounded(times.size / excess) if excess > 0 else 0.0
    if alpha > 1:
        yield "pareto", {"minimum": least}, {"alpha": alpha}, stats.pareto(alpha, scale=least)


def _weibull(logs: Times) -> tuple[float, float] | None:
    """Shape and scale of greatest likelihood, to all digits, which scipy's search has not."""
    relative = logs - logs.max()  # so that no power overflows

    def slope(log_shape: float) -> float:
        powers = np.exp(math.exp(log_shape) * relative)
        return float((powers @ logs) / powers.sum()) - math.exp(-log_shape) - float(logs.mean())

    ends = math.log(0.05), math.log(1e6)
    if not slope(ends[0]) * slope(ends[1]) < 0:
        return None
    shape = rounded(math.exp(float(brentq(slope, *ends, xtol=1e-12))))
    mean_power = float(np.exp(shape * relative).mean())
    return shape, math.exp(float(logs.max())) * mean_power ** (1 / shape)


def _rounded_down(value: float) -> float:
    near = rounded(value)
    return near if near <= value else rounded(near - _last_digit(value))


def _rounded_up(value: float) -> float:
    near = rounded(value)
    return near if near >= value else rounded(near + _last_digit(value))


def _last_digit(value: float) -> float:
    return 10.0 ** (math.floor(math.log10(value)) + 1 - _DIGITS)


WORST: Final = 0.10
SHARES: Final = (0.5, 0.9, 0.99, 0.999)
_CHECKED: Final = SHARES[:3]


class FittedDistribution(NamedTuple):
    """Fitted family with the ratios of its quantiles to the measured ones (at SHARES)."""

    fit: Fit
    ratios: tuple[float, ...]

    @property
    def refused(self) -> bool:
        """Is one of the quantiles up to p99 too far off?"""
        return self.farthest[1] > WORST

    @property
    def farthest(self) -> tuple[float, float]:
        """Probability and relative error of the worst quantile up to p99."""
        off = [abs(ratio - 1) for ratio in self.ratios[: len(_CHECKED)]]
        return _CHECKED[off.index(max(off))], max(off)


class ChosenDistribution(NamedTuple):
    """All families by AIC; `best` is None where only the empirical distribution is left."""

    candidates: tuple[FittedDistribution, ...]
    best: FittedDistribution | None
    quantiles: tuple[float, ...]


def choose(times: Times) -> ChosenDistribution:
    """Choice of a distribution for independent times (s)."""
    measured = tuple(float(value) for value in np.quantile(times, SHARES))
    candidates = []
    for fit in fits(times):
        pairs = zip(SHARES, measured, strict=True)
        candidates.append(
            FittedDistribution(fit, tuple(fit.quantile(p) / value for p, value in pairs))
        )
    candidates.sort(key=lambda one: one.fit.aic)
    fine = [one for one in candidates if not one.refused]
    constant = bool(candidates) and candidates[0].fit.kind == "constant"
    best = fine[0] if fine and (constant or times.size >= FEWEST) else None
    return ChosenDistribution(tuple(candidates), best, measured)


_MOST_INLINE: Final = 200
_ENOUGH: Final = 10  # samples beyond a quantile from which it is known well


def compute_part(table: StepTable, beside: str | None) -> MeasuredPart:
    """Distribution of a table's step times; `beside`: file name of a CSV, if one is needed."""
    whole: Rows = dict(enumerate(table.rows.values()))
    warm = warm_up(whole)
    rows = whole if warm is None else _without(whole, warm.steps)
    slow = slow_workers(rows)
    factors = {one.worker: one.factor for one in slow}
    alike = {
        worker: (np.array(row) / factors.get(worker, 1.0)).tolist() for worker, row in rows.items()
    }
    choice = choose(np.concatenate([np.array(row) for row in alike.values()]))
    similar = dependence(alike)
    comments = [*_described(table, rows), *_warned(warm, slow)]
    steps = of_common_steps(table, 0 if warm is None else warm.steps)
    if steps is not None and (note := equal_times(table, steps)):
        comments += [f"  {line}" for line in wrap(note, 98)]
        comments.append("  what follows takes waiting and communication for compute")
    together = steps is not None and steps.dependent
    if together:
        assert steps is not None
        comments += _dependent_workers(steps)
        rows = {worker: column.tolist() for worker, column in enumerate(steps.table.T)}
    elif similar is not None:
        comments += _dependent(rows, similar)
    in_order = together or similar is not None
    comments += _compared(choice, drawn=not in_order)
    if choice.best is not None and not in_order:
        yaml = f"compute: {_law(choice.best.fit)}"
        return MeasuredPart(tuple(comments), (yaml, *_slower(slow)))
    return _played(table, rows, comments, beside, "cycle" if in_order else "resample")


def _law(fit: Fit) -> str:
    """YAML of a fitted distribution."""
    values = [
        f"kind: {fit.kind}",
        *(f"{name}: {with_unit(value, 'time')}" for name, value in fit.seconds.items()),
        *(f"{name}: {value!r}" for name, value in fit.plain.items()),
    ]
    return f"{{{', '.join(values)}}}"


def _dependent(rows: Rows, similar: float) -> Iterator[str]:
    """Comments on autocorrelated steps: possible causes, and what keeps them."""
    yield (
        f"  a step is like the one before it (autocorrelation {similar:.2f}): "
        "drawing each step independently is wrong here"
    )
    repeated = equal_to_previous(list(rows.values()))
    if repeated >= SAMPLED:
        yield (
            f"  {100 * repeated:.0f} % of the steps take exactly as long as the one before: that "
            "looks like samples, not like every step measured; part of the autocorrelation is that"
        )
    yield "  the measured times are played in order (kind: trace, replay: cycle)"


def _without(rows: Rows, steps: int) -> Rows:
    """Rows without their first steps, unless they have no others."""
    return {worker: row[steps:] if len(row) > steps else row for worker, row in rows.items()}


def _described(table: StepTable, rows: Rows) -> list[str]:
    counts = [len(row) for row in rows.values()]
    low, high = min(counts), max(counts)
    steps = f"{low} to {high} steps" if low < high else _counted(high, "step")
    lines = [f"compute, from {table.source}: {steps} of {_counted(len(rows), 'worker')}"]
    known = [p for p in SHARES if sum(counts) * (1 - p) >= _ENOUGH]
    if unknown := [f"p{100 * p:g}" for p in SHARES if p not in known]:
        lines.append(
            f"  fewer than {_ENOUGH} times lie beyond {', '.join(unknown)}: measure more to "
            "know the tail"
        )
    numbers = list(table.rows)
    if numbers != list(range(len(numbers))):
        shown = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
        if len(numbers) == 1:
            lines.append(f"  worker {shown} of the file is rank 0 here")
        else:
            here = span(0, len(numbers) - 1)
            lines.append(f"  workers {shown} of the file are ranks {here} here")
    return [*lines, *(f"  {note}" for note in table.notes)]


def _warned(warm: WarmUp | None, slow: Sequence[Slow]) -> list[str]:
    lines = []
    if warm is not None:
        lines.append(
            f"  left out, to warm up: the first {_counted(warm.steps, 'step')} of each worker; the "
            f"very first takes {format_seconds(warm.excess)} more than others"
        )
        if warm.steps == 1:
            excess = float(f"{warm.excess:.3g}")
            lines.append(
                f"  (overheads: {{first_iteration: {with_unit(excess, 'time')}}} brings it back)"
            )
    for one in slow:
        lines.append(
            f"  rank {one.worker} is slow: {one.factor:.4g} times the others' median (99 % "
            f"interval {one.low:.4g} to {one.high:.4g})"
        )
        if abs(one.tail / one.factor - 1) > WORST:
            lines.append(f"    but {one.tail:.3g} times their p90: it is not a constant factor")
    if slow:
        lines.append("  its times are divided by that before fitting")
    return lines


def _dependent_workers(steps: Stragglers) -> Iterator[str]:
    """Comments on workers whose times in a step are not independent."""
    measured, drawn = steps.slowdown, steps.independent
    how, change = ("together", "longer") if measured < drawn else ("in turn", "shorter")
    percent = 100 * abs(drawn / measured - 1)
    yield (
        f"  workers are slow {how}: the slowest of a step takes {measured:.4g} times the mean; if "
        f"each worker's times were drawn by themselves, {drawn:.4g}"
    )
    yield (
        f"    drawing each worker alone makes a barrier {percent:.0f} % {change}: "
        "whole steps are played, in order"
    )
    yield "    (replay: resample draws whole steps; for more workers write kind: correlated)"


def _compared(choice: ChosenDistribution, *, drawn: bool) -> list[str]:
    """Table of all families with AIC and quantile ratios; where none is `drawn`, none is chosen."""
    names = "".join(f"{f'p{100 * p:g}':>9}" for p in SHARES)
    measured = "".join(f"{format_seconds(value):>9}" for value in choice.quantiles)
    lines = [f"  {'':<20}{'AIC':>11}{names}", f"  {'measured':<20}{'':>11}{measured}"]
    for one in choice.candidates:
        ratios = "".join(f"{ratio:>9.3f}" for ratio in one.ratios)
        aic = f"{one.fit.aic:>11.1f}" if np.isfinite(one.fit.aic) else f"{'-':>11}"
        fate = "  chosen" if one is choice.best and drawn else ""
        if one.refused:
            share, off = one.farthest
            fate = f"  refused: p{100 * share:g} is {100 * off:.0f} % off"
        lines.append(f"  {one.fit.kind:<20}{aic}{ratios}{fate}")
    anew = "" if drawn else ", if each step were drawn anew"
    lines.insert(0, f"  by maximum likelihood{anew}; quantiles are fitted / measured:")
    if choice.best is None and drawn:
        fine = any(not one.refused for one in choice.candidates)
        why = (
            f"fewer than {FEWEST} times cannot tell families apart"
            if fine
            else f"no family has p50, p90 and p99 within {100 * WORST:.0f} %"
        )
        lines.append(f"  {why}: the measured times themselves are used")
    return lines


def _played(
    table: StepTable, rows: Rows, comments: Sequence[str], beside: str | None, replay: str
) -> MeasuredPart:
    """Measured times as the law: from the file that has just these, from a new CSV, or inline."""
    lines = list(comments)
    whole = [len(row) for row in rows.values()] == [len(row) for row in table.rows.values()]
    steps = sum(map(len, rows.values()))
    if table.file is not None and whole and steps <= MOST_ROWS:
        lines.append(f"  {table.file} has to be beside the scenario")
        law = f"compute: {{kind: trace, file: {_quoted(table.file)}, replay: {replay}}}"
        return MeasuredPart(tuple(lines), (law,))
    workers, each = list(rows.values())[:MOST_ROWS], steps
    if steps > MOST_ROWS:
        each = MOST_ROWS // len(workers)
        lines.append(
            f"  a scenario may have {MOST_ROWS} times: of {steps} each worker's first {each} are "
            "played"
        )
    kept = [[_shown(value) for value in row[:each]] for row in workers]
    if beside is not None:
        csv = "".join(f"{i},{value}\n" for i, row in enumerate(kept) for value in row)
        lines.append(f"  {beside} has to be beside the scenario")
        law = f"compute: {{kind: trace, file: {_quoted(beside)}, replay: {replay}}}"
        return MeasuredPart(tuple(lines), (law,), f"worker,seconds\n{csv}")
    if steps > _MOST_INLINE:
        lines.append("  --out puts the times into a file of their own")
    inline = ["compute:", "  kind: trace", f"  replay: {replay}", "  seconds:"]
    inline += [f"    - [{', '.join(row)}]" for row in kept]
    return MeasuredPart(tuple(lines), tuple(inline))


def _slower(slow: Sequence[Slow]) -> list[str]:
    """YAML of the slow workers."""
    listed = [f"  - {{rank: {one.worker}, factor: {one.factor:.4g}}}" for one in slow]
    return ["slow_workers:", *listed] if slow else []


def _shown(value: float) -> str:
    return repr(rounded(value))


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
