"""What is made of the predictions of an experiment: findings, row by row and in sum."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np

from varsim.validation.finding import Finding, Verdict
from varsim.validation.published.experiment import Family
from varsim.validation.published.table import Row

# A single row may be off by so many times the bound on the median of its experiment.
ROW_FACTOR: Final = 3
OVERALL: Final = 0.08

# Orders: pairs that a measurement tells apart, and the share of them that must come out so.
APART: Final = 0.05
IN_ORDER: Final = 0.9

_RINGS: Final = ("BSP-A2A", "WFBP-A2A", "MG-WFBP", "ByteScheduler-A2A")
_RING_BOUND: Final = 0.04
_NO_SCENARIO: Final = "no scenario describes this experiment"


class Prediction(NamedTuple):
    """A row, and what was simulated for it."""

    row: Row
    got: float
    calibrated_on: bool

    @property
    def error(self) -> float:
        """Relative, without its sign."""
        return abs(self.got / self.row.value - 1)


def judged(family: Family, prediction: Prediction) -> Finding:
    """The finding of one row."""
    row, got, calibrated_on = prediction
    bound = ROW_FACTOR * family.bound
    verdict = Verdict.PASS if prediction.error <= bound else Verdict.MISS
    if calibrated_on:
        verdict = Verdict.CALIBRATED
    return Finding(
        group=row.experiment,
        name=family.label(row),
        quantity=row.metric,
        unit=row.unit,
        expected=row.value,
        got=got,
        half_width=None,
        bound="calibrated on" if calibrated_on else f"within {bound:.0%}",
        verdict=verdict,
        source=row.where,
        why=family.explains(row) if verdict is Verdict.MISS else "",
    )


def not_run(row: Row, label: str, why: str) -> Finding:
    """The finding of a row for which there is no scenario."""
    return Finding(
        group=row.experiment,
        name=label,
        quantity=row.metric,
        unit=row.unit,
        expected=row.value,
        got=None,
        half_width=None,
        bound="",
        verdict=Verdict.NOT_RUN,
        source=row.where,
        why=why,
    )


def unknown(experiment: str, rows: Sequence[Row]) -> Finding:
    """The finding of an experiment that no family knows, all rows in one."""
    return not_run(rows[0], f"{len(rows)} rows", unknown_because(experiment, rows))


def unknown_because(experiment: str, rows: Sequence[Row]) -> str:
    """Why an experiment has no scenario."""
    if all(row.status.startswith("recalled") for row in rows):
        return "recalled from memory by who collected it, and not verified: no target"
    for beginning, why in _WHY_NOT.items():
        if experiment.startswith(beginning):
            return why
    return _NO_SCENARIO


_WHY_NOT: Final = {
    "mxnet2015-": "accuracy of real training on data that are not here",
    "kungfu-": "the values are heights of bars; nothing to calibrate on besides",
    "deepbench-": "one more all-reduce table; vTrain's and nccl-tests' stand for it",
    "nccl-": "output of nccl-tests: that is what varsim calibrate reads",
    "mlengineering-": "output of nccl-tests: that is what varsim calibrate reads",
    "bigscience-": "one bandwidth per row, with nothing to calibrate on besides",
    "vtrain-gpt-": "tensor and pipeline parallelism, which varsim does not simulate",
    "megatron-": "tensor and pipeline parallelism, which varsim does not simulate",
    "mlperf-": "time to train to an accuracy, with data and hyperparameters that are not here",
    "gavel-": "step rates of jobs that share machines with others in ways that are not said",
    "nvdle-": "best results of tuned programs, mixed precision and batch changing with the machine",
    "hkbu-allreduce-fit": "constants of a fit that somebody else made, not a measurement",
    "tf-issue84-": "workers that only read, which no strategy here does",
    "horovod-": "one efficiency per network, with nothing to calibrate on besides",
    "byteps-readme": "gains in percent, with nothing to calibrate on besides",
    "byteps-issue29": "one row per strategy, with nothing to calibrate on besides",
    "goyal2017": "single figures of one system, with nothing to calibrate on besides",
    "zhang2016-": "statements about staleness without a table; closed forms stand for them",
    "chen2016-backup": "a best split by time to accuracy on data that are not here",
}


def summary(
    experiment: str, family: Family, predictions: Sequence[Prediction], learnt: Sequence[str]
) -> list[Finding]:
    """The median error of the rows of an experiment that were predicted; none without any.

    `learnt`: what was fitted, in words.
    """
    source = f"calibrated on {family.split}. Fitted: {'; '.join(learnt) or 'nothing'}"
    found = list(
        _of_all(experiment, "predicted rows", predictions, family.bound, family.why, source)
    )
    if experiment.startswith("hkbu2020-"):
        found += _orders(experiment, family, predictions)
        if experiment.endswith("-10gbe"):
            rings = [one for one in predictions if one.row.system in _RINGS]
            found += _of_all(experiment, "predicted rows of rings", rings, _RING_BOUND, family.why)
    return found


def overall(predictions: Sequence[Prediction]) -> list[Finding]:
    """The same over everything; and of the experiments' medians, as some have many more rows."""
    errors = _errors(predictions)
    if not len(errors):
        return []
    by_experiment: dict[str, list[Prediction]] = {}
    for one in predictions:
        by_experiment.setdefault(one.row.experiment, []).append(one)
    medians = [
        float(np.median(of_one)) for own in by_experiment.values() if len(of_one := _errors(own))
    ]
    return [
        *_of_all("all experiments", "predicted rows", predictions, OVERALL, ""),
        _median("all experiments", f"{len(medians)} medians", medians, OVERALL, "", ""),
    ]


def _of_all(
    group: str,
    what: str,
    predictions: Sequence[Prediction],
    bound: float,
    why: str,
    source: str = "",
) -> Iterable[Finding]:
    errors = _errors(predictions)
    if len(errors):
        tail, worst = np.quantile(errors, 0.9), max(errors)
        said = f"90 % of them within {tail:.1%}, the worst off by {worst:.1%}"
        yield _median(group, f"{len(errors)} {what}", errors, bound, said, why, source)


def _median(
    group: str,
    name: str,
    errors: Sequence[float],
    bound: float,
    said: str,
    why: str,
    source: str = "",
) -> Finding:
    got = float(np.median(errors))
    kept = got <= bound
    return Finding(
        group=group,
        name=name,
        quantity="median of absolute errors",
        unit="",
        expected=0.0,
        got=got,
        half_width=None,
        bound=f"at most {bound:.0%}",
        verdict=Verdict.PASS if kept else Verdict.MISS,
        source=source,
        why=". ".join(filter(None, (said, "" if kept else why))),
    )


def _errors(predictions: Sequence[Prediction]) -> list[float]:
    return [one.error for one in predictions if not one.calibrated_on]


def _orders(experiment: str, family: Family, predictions: Sequence[Prediction]) -> list[Finding]:
    """Whether methods come out in the measured order: with all GPUs, and with any number."""
    most = max((one.row.workers for one in predictions), default=0)
    largest = [one for one in predictions if one.row.workers == most]
    return [
        *_order(experiment, family, f"on {most} GPUs", largest),
        *_order(experiment, family, "on as many GPUs", predictions),
    ]


def _order(
    experiment: str, family: Family, which: str, predictions: Sequence[Prediction]
) -> Iterable[Finding]:
    """Pairs of methods on equally many GPUs, one of them predicted at least, told apart."""
    pairs, wrong, because = 0, [], dict[str, None]()
    for first, second in combinations(predictions, 2):
        both_known = first.calibrated_on and second.calibrated_on
        if first.row.workers != second.row.workers or both_known:
            continue
        fast, slow = sorted((first, second), key=lambda one: -one.row.value)
        if fast.row.value >= (1 + APART) * slow.row.value:
            pairs += 1
            if fast.got <= slow.got:
                wrong.append(f"{fast.row.system} above {slow.row.system} ({fast.row.workers})")
                farthest = max(first, second, key=lambda one: one.error)
                because[family.explains(farthest.row)] = None
    if not pairs:
        return
    share = 1 - len(wrong) / pairs
    yield Finding(
        group=experiment,
        name=f"{pairs} pairs of methods {which}, more than {APART:.0%} apart",
        quantity="share in the measured order",
        unit="",
        expected=1.0,
        got=share,
        half_width=None,
        bound=f"at least {IN_ORDER:.0%}",
        verdict=Verdict.PASS if share >= IN_ORDER else Verdict.MISS,
        source="",
        why=f"not so predicted: {'; '.join(wrong)}. {' '.join(because)}" if wrong else "",
    )
