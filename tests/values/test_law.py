"""Laws of compute times as runs draw them: against theory, and replayed measurements."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy import special

from tests.building import run, scenario, span_rows
from tests.seams import Phase

Law = dict[str, Any]
Numbers = NDArray[np.float64]
BLOCK = 128  # steps that are drawn at a time

UNIT = {"kind": "uniform", "low": 0.0, "high": 1.0}
FAST = {"kind": "constant", "value": 1.0}
SLOW = {"kind": "constant", "value": 3.0}


def law(kind: str, **settings: Any) -> Law:
    return {"kind": kind, **settings}


def times(
    one: Law, steps: int, workers: int = 1, until: float | None = None, **changes: Any
) -> list[Numbers]:
    """What workers compute for, step by step (s), where nothing else takes any time.

    They make so many steps in the mean, or go on `until` then (s).
    """
    trace = run(
        "none",
        cluster={"workers": workers, "compute": one},
        problem={"kind": "timing", "size": 4.0},
        workload={"optimizer": None, **changes},
        stop={"time": until} if until else {"global_steps": steps * workers},
        seed=7,
    )
    rows = [span_rows(trace, worker) for worker in range(workers)]
    computed = [[s.end - s.start for s in own if s.phase == Phase.COMPUTE] for own in rows]
    return [np.array(own) / 1e9 for own in computed]


# Law, mean, variance, distribution function.
THEORY: list[tuple[Law, float, float, Callable[[Numbers], Numbers]]] = [
    (law("uniform", low=1.0, high=4.0), 2.5, 9 / 12, lambda t: (t - 1) / 3),
    # Cut at one deviation below the mean: phi(1) = 0.24197, Phi(1) = 0.84134, ratio 0.28760;
    # mean 2 + 2 * 0.28760, variance 4 (1 - 0.28760 - 0.28760^2).
    (
        law("normal", mean=2.0, std=2.0),
        2.575199942,
        2.518747106,
        lambda t: (special.ndtr((t - 2) / 2) - special.ndtr(-1)) / special.ndtr(1),
    ),
    (law("normal", mean=1.0, std=0.1), 1.0, 0.01, lambda t: special.ndtr((t - 1) / 0.1)),
    (law("exponential", mean=0.5), 0.5, 0.25, lambda t: -np.expm1(-t / 0.5)),
    (
        law("shifted_exponential", minimum=0.1, mean=0.3),
        0.3,
        0.04,
        lambda t: -np.expm1(-(t - 0.1) / 0.2),
    ),
    # Variance mean^2 (exp(sigma^2) - 1).
    (
        law("lognormal", mean=2.0, sigma=0.5),
        2.0,
        4 * math.expm1(0.25),
        lambda t: special.ndtr((np.log(t) - math.log(2) + 0.125) / 0.5),
    ),
    # Variance mean^2 ((mean / median)^2 - 1).
    (
        law("lognormal", mean=2.0, median=1.6),
        2.0,
        4 * (1.25**2 - 1),
        lambda t: special.ndtr(np.log(t / 1.6) / math.sqrt(2 * math.log(1.25))),
    ),
    # A stage of 0 to 1, and in a quarter of all cases another after it: mean 0.5 + 0.25 * 0.5.
    (
        law("stages", first=UNIT, works=0.75, second=UNIT),
        0.625,
        1 / 12 + 0.25 * (1 / 12 + 0.25) - 0.0625 * 0.25,
        lambda t: np.where(t < 1, 0.75 * t + t**2 / 8, 0.75 + (1 - (2 - t) ** 2 / 2) / 4),
    ),
    (law("gamma", mean=2.0, shape=4.0), 2.0, 1.0, lambda t: special.gammainc(4.0, 2 * t)),
    (law("gamma", mean=2.0, shape=0.5), 2.0, 8.0, lambda t: special.gammainc(0.5, t / 4)),
    # Shape 2 is Rayleigh: variance mean^2 (4 / pi - 1), scale mean / gamma(1.5).
    (
        law("weibull", mean=3.0, shape=2.0),
        3.0,
        9 * (4 / math.pi - 1),
        lambda t: -np.expm1(-((t * math.sqrt(math.pi) / 6) ** 2)),
    ),
    # Shape 1/2: scale mean / 2, second moment 24 scale^2.
    (law("weibull", mean=2.0, shape=0.5), 2.0, 20.0, lambda t: -np.expm1(-np.sqrt(t))),
    # Mean alpha / (alpha - 1), variance alpha / ((alpha - 1)^2 (alpha - 2)).
    (law("pareto", minimum=2.0, alpha=6.0), 2.4, 4 * 6 / (25 * 4), lambda t: 1 - (2 / t) ** 6),
    # Variance (pi * scale)^2 / 6, mean location + 0.57722 scale.
    (
        law("gumbel", location=2.0, scale=0.3),
        2.0 + 0.3 * 0.5772156649,
        (math.pi * 0.3) ** 2 / 6,
        lambda t: np.exp(-np.exp(-(t - 2) / 0.3)),
    ),
    # Second moments 1/4 * 2 * 1 + 3/4 * (4^2 + 1/12), mean 1/4 + 3/4 * 4.
    (
        law(
            "mixture",
            components=(
                {"weight": 1.0, "distribution": {"kind": "exponential", "mean": 1.0}},
                {"weight": 3.0, "distribution": {"kind": "uniform", "low": 3.5, "high": 4.5}},
            ),
        ),
        3.25,
        0.5 + 0.75 * (16 + 1 / 12) - 3.25**2,
        lambda t: -0.25 * np.expm1(-t) + 0.75 * np.clip(t - 3.5, 0, 1),
    ),
]


@pytest.mark.parametrize(
    ("one", "mean", "variance", "distribution"), THEORY, ids=[repr(row[0]) for row in THEORY]
)
def test_draws_follow_the_distribution(
    one: Law, mean: float, variance: float, distribution: Callable[[Numbers], Numbers]
) -> None:
    (sample,) = times(one, 64_000)
    n = sample.size
    made = scenario({"kind": "none"}, cluster={"compute": one})
    said = made.cluster.compute_distribution(made.workload).expectation()
    assert said == pytest.approx(mean, rel=1e-8)
    assert abs(sample.mean() - mean) < 4 * math.sqrt(variance / n)
    squares = (sample - mean) ** 2
    assert abs(squares.mean() - variance) < 4 * squares.std() / math.sqrt(n)
    # Kolmogorov-Smirnov: the largest gap exceeds 1.95 / sqrt(n) once in a thousand samples.
    levels = distribution(np.sort(sample))
    gap = max(np.max(np.arange(1, n + 1) / n - levels), np.max(levels - np.arange(n) / n))
    assert gap < 1.95 / math.sqrt(n)


def test_normal_times_are_above_zero_even_if_the_cut_takes_nearly_half() -> None:
    assert times(law("normal", mean=0.01, std=1.0), 25_000)[0].min() > 0


def test_a_curve_over_the_batch_is_a_line() -> None:
    curve = law("batch_curve", fixed=0.012, per_example=0.0014)
    assert set(times(curve, 3, batch_size=32)[0]) == {0.0568}
    (sample,) = times({**curve, "sigma": 0.2}, 6400, batch_size=32)
    error = 0.0568 * math.sqrt(math.expm1(0.04) / 6400)
    assert abs(sample.mean() - 0.0568) < 4 * error
    markov = law("markov", fast=curve, slow=SLOW, to_slow=1.0, to_fast=1.0)
    assert set(times(markov, 9, batch_size=10)[0]) == {0.026, 3.0}


def test_markov_spends_its_shares_and_spells_have_their_lengths() -> None:
    one = law("markov", fast=FAST, slow=SLOW, to_slow=0.05, to_fast=0.2)
    slow = times(one, 128_000)[0] == 3.0
    # Slow share 0.05 / 0.25 = 0.2; neighbours correlate with 1 - 0.25, which widens the error
    # of a share by (1 + 0.75) / (1 - 0.75) = 7.
    assert abs(slow.mean() - 0.2) < 4 * math.sqrt(0.2 * 0.8 * 7 / slow.size)
    # Of the slow steps, one in 5 is followed by a fast one; of the fast, one in 20 by a slow one.
    for state, leaves in ((slow, 0.2), (~slow, 0.05)):
        change = ~state[1:][state[:-1]]
        assert abs(change.mean() - leaves) < 4 * math.sqrt(leaves * (1 - leaves) / change.size)


def test_markov_begins_as_it_goes_on_and_from_block_to_block() -> None:
    one = law("markov", fast=FAST, slow=SLOW, to_slow=0.01, to_fast=0.03)
    first = [own[0] == 3.0 for own in times(one, 1, workers=2000, until=3.5)]
    assert abs(np.mean(first) - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 2000)
    # With changes this rare a block that forgot its state would be slow in half of all cases.
    rare = law("markov", fast=FAST, slow=SLOW, to_slow=1e-4, to_fast=1e-4)
    assert np.count_nonzero(np.diff(times(rare, 20 * BLOCK)[0])) <= 1
    always = law("markov", fast=FAST, slow=SLOW, to_slow=1.0, to_fast=1.0)
    assert np.all(np.abs(np.diff(times(always, 400)[0])) == 2.0)


def test_components_of_one_kind_do_not_share_their_draws() -> None:
    same = {"weight": 1.0, "distribution": UNIT}
    far = {"weight": 1.0, "distribution": {"kind": "uniform", "low": 10.0, "high": 11.0}}
    (block,), (alone,) = times(law("mixture", components=(same, far)), BLOCK), times(UNIT, BLOCK)
    fraction = np.where(block > 5, block - 10, block)
    assert np.abs(np.corrcoef(fraction, alone)[0, 1]) < 4 / math.sqrt(BLOCK)
    assert np.abs(np.corrcoef(fraction, block > 5)[0, 1]) < 4 / math.sqrt(BLOCK)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "constant", "value": 0.0}, "greater than 0"),
        ({"kind": "constant", "value": -1.0}, "greater than 0"),
        ({"kind": "constant", "value": math.inf}, "infinity"),
        ({"kind": "constant"}, "required"),
        ({"kind": "constant", "value": 1.0, "std": 1.0}, "Extra"),
        ({"kind": "uniform", "low": 2.0, "high": 1.0}, "high must be above low"),
        ({"kind": "uniform", "low": 1.0, "high": 1.0}, "kind: constant"),
        ({"kind": "uniform", "low": -1.0, "high": 1.0}, "greater than or equal to 0"),
        ({"kind": "normal", "mean": 1.0, "std": 0.0}, "greater than 0"),
        ({"kind": "normal", "mean": 0.0, "std": 1.0}, "greater than 0"),
        ({"kind": "exponential", "mean": 0.0}, "greater than 0"),
        ({"kind": "shifted_exponential", "minimum": 1.0, "mean": 1.0}, "mean must be above"),
        ({"kind": "lognormal", "mean": 1.0, "sigma": 0.0}, "greater than 0"),
        ({"kind": "lognormal", "mean": 1.0, "sigma": 11.0}, "less than or equal to 10"),
        ({"kind": "lognormal", "mean": 1.0}, "either sigma or median"),
        ({"kind": "lognormal", "mean": 1.0, "sigma": 1.0, "median": 0.5}, "either sigma or median"),
        ({"kind": "lognormal", "mean": 1.0, "median": 1.0}, "below the mean"),
        ({"kind": "stages", "first": FAST, "works": 1.0, "second": FAST}, "less than 1"),
        ({"kind": "gamma", "mean": 1.0, "shape": 0.0}, "greater than or equal to 0.05"),
        ({"kind": "weibull", "mean": 1.0, "shape": 0.0}, "greater than or equal to 0.05"),
        ({"kind": "pareto", "minimum": 1.0, "alpha": 1.0}, "alpha must be above 1"),
        ({"kind": "pareto", "minimum": 0.0, "alpha": 2.0}, "greater than 0"),
        ({"kind": "gumbel", "location": 1.0, "scale": 0.3}, "at least 4 times scale"),
        ({"kind": "batch_curve", "fixed": -1.0, "per_example": 0.1}, "greater than or equal to 0"),
        ({"kind": "batch_curve", "fixed": 1.0, "per_example": 0.0}, "greater than 0"),
        ({"kind": "batch_curve", "fixed": 1.0, "per_example": 0.1, "sigma": 0.0}, "greater than 0"),
        ({"kind": "mixture", "components": ({"weight": 1.0, "distribution": FAST},)}, "at least 2"),
        (
            {"kind": "mixture", "components": ({"weight": 0.0, "distribution": FAST},) * 2},
            "greater than 0",
        ),
        ({"kind": "markov", "fast": FAST, "slow": SLOW, "to_slow": 0.0, "to_fast": 0.5}, "than 0"),
        ({"kind": "markov", "fast": FAST, "slow": SLOW, "to_slow": 0.5, "to_fast": 1.5}, "to 1"),
        ({"kind": "trace"}, "give file"),
        ({"kind": "trace", "file": 7}, "name of a CSV file"),
        ({"kind": "trace", "seconds": ()}, "at least 1"),
        ({"kind": "trace", "seconds": ((1.0,), ())}, "at least 1"),
        ({"kind": "trace", "seconds": ((1.0, 0.0),)}, "greater than 0"),
        ({"kind": "trace", "seconds": (("1.0",),)}, "valid number"),
        ({"kind": "trace", "seconds": ((1.0,),), "replay": "shuffle"}, "cycle"),
        ({"kind": "cauchy"}, "cauchy"),
    ],
    ids=repr,
)
def test_settings_that_make_no_sense_are_refused(wrong: Law, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        scenario({"kind": "none"}, cluster={"compute": wrong})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "steps.csv").write_text("worker,seconds\n0,0.1\n1,0.5\n0,0.2\n\n0, 0.3\n1,0.6\n")
    return tmp_path


def test_a_trace_is_read_and_cycled(folder: Path) -> None:
    found = times(law("trace", file=str(folder / "steps.csv")), 2 * BLOCK, workers=4)
    # Worker 0 has three steps, worker 1 two; worker 3 is the second of the second pair.
    assert found[0][:5].tolist() == [0.1, 0.2, 0.3, 0.1, 0.2]
    assert found[1][:3].tolist() == found[3][:3].tolist() == [0.5, 0.6, 0.5]
    # The second block goes on where the first ended: 128 = 42 * 3 + 2.
    assert found[0][BLOCK : BLOCK + 2].tolist() == [0.3, 0.1]


def test_a_trace_is_resampled_evenly_from_the_workers_own_row(folder: Path) -> None:
    one = law("trace", file=str(folder / "steps.csv"), replay="resample")
    _, second, third = times(one, 12_000, workers=3)
    for value in (0.1, 0.2, 0.3):
        share = np.mean(third == value)
        assert abs(share - 1 / 3) < 4 * math.sqrt(2 / 9 / third.size)
    assert set(second[:-1]) == {0.5, 0.6}  # the last one is cut short


def test_a_relative_trace_without_a_folder_is_in_the_current_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert times(law("trace", file="steps.csv"), 1)[0][0] == 0.1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: the header must be worker,seconds"),
        ("0,0.1\n", "line 1: the header must be worker,seconds"),
        ("worker,seconds\n", "line 2: no times"),
        ("worker,seconds\n0,0.1\n0,fast\n", "line 3: 'fast' is not a number"),
        ("worker,seconds\n0,\n", "line 2: '' is not a number"),
        ("worker,seconds\n0,0.1\n\n0,-0.1\n", "line 4: seconds must be above 0"),
        ("worker,seconds\n0,0\n", "line 2: seconds must be above 0"),
        ("worker,seconds\n0,nan\n", "line 2: seconds must be above 0 and finite"),
        ("worker,seconds\n0,1e999\n", "line 2: seconds must be above 0 and finite"),
        ("worker,seconds\nzero,0.1\n", "line 2: worker must be a number from 0 up"),
        ("worker,seconds\n-1,0.1\n", "line 2: worker must be a number from 0 up"),
        ("worker,seconds\n0,0.1,0.2\n", "line 2: 3 values where worker,seconds are two"),
        ("worker,seconds\n0\n", "line 2: 1 values where worker,seconds are two"),
        ("worker,seconds\n0,0.1\n2,0.1\n", "worker 2 has times but worker 1 has none"),
        ("worker,seconds\n1,0.1\n", "worker 1 has times but worker 0 has none"),
    ],
)
def test_a_broken_trace_is_refused_with_file_and_line(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "broken.csv"
    path.write_text(content)
    with pytest.raises(ValidationError) as caught:
        scenario({"kind": "none"}, cluster={"compute": law("trace", file=str(path))})
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, r"missing\.csv: there is no such file"),
        (".", None, "this is a folder"),
        ("/dev/zero", None, "there is no such file"),
        ("binary.csv", b"worker,seconds\n0,\xff\n", "cannot be read as UTF-8"),
        ("huge.csv", bytes(2**20 + 1), "larger than 1 MiB"),
    ],
)
def test_a_trace_that_cannot_be_read_is_refused(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValidationError, match=message):
        scenario({"kind": "none"}, cluster={"compute": law("trace", file=str(tmp_path / name))})
