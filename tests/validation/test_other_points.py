"""Closed forms at other parameters than those of the bundled points: edges, and beyond them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.validation.points import point, with_unit
from validation.finding import Finding, Verdict
from validation.points import PointFileError, findings, read_points
from validation.points import families as table
from validation.points.estimate import Estimate, Measured
from validation.points.scenario import slow_motion

NS = 1e-9


def judged(folder: Path, family: str, expected: Any = 1.0, **more: Any) -> list[Finding]:
    """The lines of one point; other words than `quantity`, `unit` and `also` are parameters."""
    words = {key: more.pop(key) for key in ("quantity", "unit", "also") if key in more}
    path = with_unit(folder, point(family=family, parameters=more, expected=expected, **words))
    return [one for one in findings(read_points(path)) if one.group == family]


RING = {"alpha": 1e-5, "beta": 1e-10, "gamma": 0.0}
BCAST = {"alpha": 1e-5, "beta": 1e-10}
INSIDE = {"alpha1": 1e-6, "beta1": 1e-9, "alpha2": 1e-5, "beta2": 1e-11}
# (family, parameters, expected): the formula, written out.
EXACT: list[tuple[str, Mapping[str, Any], float]] = [
    # Tiny and huge: rounding to a ns, and the end of the clock.
    ("ps-det", {"N": 7, "Z": 0.123456789123, "S": 0.0345678912345}, 1 / 0.0345678912345),
    ("ps-det", {"N": 2, "Z": 3 * NS, "S": 0.7 * NS}, 2 / (3.7 * NS)),
    ("sync-serial-ps-det", {"N": 5, "c": 2, "Z": 1.1 * NS, "S": 0.3 * NS}, 2.0 * NS),
    ("coll-chain-bcast", {"p": 5, "n": 1e6 + 1, "m": 333, "alpha": 0.0, "beta": 1e-12},
     336 * (1e6 + 1) * 1e-12 / 333),
    ("coll-alltoall", {"p": 7, "n": 1e6 + 1, "alpha": 0.0, "beta": 1e-12}, 6e-12 * (1e6 + 1) / 7),
    ("coll-ring-allreduce", {"p": 3, "n": 1e13, "alpha": 1.0, "beta": 1e-6, "gamma": 1e-7},
     4.0 + 4e7 / 3 + 2e6 / 3),
    ("coll-ring-reducescatter", {"p": 3, "n": 1e13, "alpha": 1.0, "beta": 1e-6, "gamma": 1e-7},
     2.0 + 2e7 / 3 + 2e6 / 3),
    ("coll-ring-allreduce", {"p": 100, "n": 17.0, "alpha": 1e-9, "beta": 1e-12, "gamma": 0.0},
     198e-9 + 1.98 * 17e-12),
    ("coll-crossover", {"p": 128, "alpha": 1e-9, "beta": 1e-7}, 0.07 / (7 - 254 / 128)),
    ("ps-dedicated-sync", {"w": 20, "k": 1, "M": 1e12, "B": 1e6}, 2e7),
    ("ps-colocated-sync", {"w": 2, "M": 4.0, "B": 1.25e12}, 4 / 1.25e12),
    ("weak-scaling-eff", {"tc": 1e-6, "p": 3, "n": 17.0, "alpha": 0.0, "beta": 1e-11},
     1e-6 / (1e-6 + 4 / 3 * 17e-11)),
    ("local-comm-saving", {"tc": 1 / 3, "tm": 1 / 7, "H": 5}, (10 / 21) / (1 / 3 + 1 / 35)),
    ("local-comm-saving", {"tc": 1e-6, "tm": 0.0, "H": 3}, 1.0),
    # Trees in which somebody has no partner.
    ("coll-tree-allreduce", {"p": 7, "n": 1e6, **RING}, 3 * 2.2e-4),
    ("coll-tree-allreduce", {"p": 100, "n": 1e4, **RING}, 7 * 2 * 1.1e-5),
    ("coll-hier-leader-allreduce", {"k": 5, "g": 6, "n": 1e7, **INSIDE},
     6 * (1e-6 + 1e-2) + 8 * (1e-5 + 2e-5)),
    ("coll-hier-leader-allreduce", {"k": 3, "g": 1, "n": 1e6, **INSIDE}, 4 * (1e-5 + 1e-5 / 3)),
    # Bytes that take no time, and nothing that does.
    ("coll-ring-allreduce", {"p": 5, "n": 1e6, "alpha": 1e-6, "beta": 0.0, "gamma": 0.0}, 8e-6),
    ("coll-tree-allreduce", {"p": 5, "n": 1e6, "alpha": 1e-6, "beta": 0.0, "gamma": 0.0}, 6e-6),
    ("coll-alltoall", {"p": 5, "n": 1e6, "alpha": 0.0, "beta": 0.0}, 0.0),
    ("coll-ring-allreduce", {"p": 5, "n": 1e6, "alpha": 0.0, "beta": 0.0, "gamma": 0.0}, 0.0),
    ("coll-hier-leader-allreduce", {"k": 2, "g": 3, "n": 8.0, **INSIDE, "beta1": 0.0, "beta2": 0.0},
     4 * 1e-6 + 2 * 1e-5),
    # Counts that do not fit into a window of ten slow steps.
    ("slow-worker", {"mode": "sync", "n": 3, "T": 0.7, "f": 1.37}, 3 / (1.37 * 0.7)),
    ("slow-worker", {"mode": "async", "n": 3, "T": 0.7, "f": 1.37}, (2 + 1 / 1.37) / 0.7),
    ("slow-worker", {"mode": "async", "n": 3, "T": 0.7, "f": 0.37}, (2 + 1 / 0.37) / 0.7),
    ("slow-worker", {"mode": "backup1", "n": 3, "T": 0.7, "f": 1.37}, 2 / 0.7),
    ("slow-worker", {"mode": "backup1", "n": 3, "T": 1e-9, "f": 1.0}, 2e9),
    # One worker, or two, send as many bytes as eight.
    ("vol-bytes", {"kind": "ps", "p": 1, "n": 12345.0}, 12345.0),
    ("vol-bytes", {"kind": "ps", "p": 3, "n": 12345.0}, 12345.0),
    ("vol-bytes", {"kind": "ring-local", "p": 5, "n": 1e6, "H": 7}, 8 / 5 * 1e6 / 7),
    # Passes and exchanges that take no time.
    ("overlap-wfbp", {"tf": 0.0, "tb": [0.01], "tc": [0.02]}, 0.03),
    ("overlap-wfbp", {"tf": 0.05, "tb": [0.01, 0.0, 0.01], "tc": [0.0, 0.02, 0.03]}, 0.11),
    ("overlap-wfbp", {"tf": 0.0, "tb": [1e-7, 2e-7], "tc": [3e-7, 1e-7]}, 6e-7),
    ("overlap-uniform", {"tf": 1 / 3, "L": 100, "b": 1 / 700, "c": 1 / 900},
     1 / 3 + 1 / 7 + 1 / 900),
    # Two powers that are equal, none at all, and what is left after a start-up of several rounds.
    ("delay-rate", {"tau": 2, "a": 4 / 27}, 2 / 3),
    ("delay-rate", {"tau": 7, "a": 7**7 / 8**8}, 7 / 8),
    ("delay-rate", {"tau": 0, "a": 1.0}, 0.0),
    ("async-quad-mean", {"N": 3, "a": 0.3, "x0": 2.0, "t": 0}, 2.0),
    ("async-quad-mean", {"N": 1, "a": 0.3, "x0": -1.0, "t": 5}, -(0.7**5)),
    ("quad-sgd-moment", {"x0": -3.0, "eta": 0.3, "lam": 0.5, "sigma2": 0.0, "n": 3, "t": 4},
     9 * 0.85**8),
    ("quad-sgd-moment", {"x0": 3.0, "eta": 0.3, "lam": 0.5, "sigma2": 1.0, "n": 3, "t": 0}, 9.0),
    ("stale-async-mean", {"P": 400, "law": "deterministic"}, 399.0),
    ("os-twopoint", {"n": 8, "k": 8, "base": 1.0, "slow": 5.0, "p": 0.0}, 1.0),
    ("os-twopoint", {"n": 8, "k": 8, "base": 1.0, "slow": 5.0, "p": 1.0}, 5.0),
    ("rt-ksync", {"P": 6, "K": 3, "law": "deterministic", "mean": 0.7}, 0.7),
    ("rt-kbatchasync", {"P": 7, "K": 1, "law": "deterministic", "mean": 0.3}, 0.3 / 7),
    ("rt-kbatchasync", {"P": 9, "K": 6, "law": "deterministic", "mean": 0.3}, 0.2),
    ("rt-kbatchsync", {"P": 9, "K": 12, "law": "deterministic", "mean": 0.3}, 0.6),
    ("rt-kasync", {"P": 9, "K": 3, "law": "deterministic", "mean": 0.3}, 0.1),
    # Nobody is faster than the slowest, for a while or ever; a lead that takes long to build up.
    ("ssp-det", {"times": [0.3, 0.3], "s": 2}, 2 / 0.3),
    ("ssp-det", {"times": [0.7], "s": 0}, 1 / 0.7),
    ("ssp-det", {"times": [0.99, 1.0, 1.0], "s": 3}, 3.0),
]  # fmt: skip


@pytest.mark.parametrize(("family", "parameters", "expected"), EXACT)
def test_what_is_not_random_is_exact(
    tmp_path: Path, family: str, parameters: Mapping[str, Any], expected: float
) -> None:
    (line,) = judged(tmp_path, family, expected, **parameters)

    kind = 1e-6 if family == "delay-rate" else 1e-9
    assert line.got == pytest.approx(expected, rel=kind, abs=0)
    assert line.half_width is None


def test_the_fewest_servers_without_incast_may_be_more_than_workers(tmp_path: Path) -> None:
    push, least = judged(
        tmp_path,
        "ps-incast",
        5e6 / 2e9,
        also={"smallest_k_without_incast": 10},
        **{"w": 5, "k": 2, "M": 1e6, "b": 2e9, "B": 1e9},
    )

    assert push.verdict is Verdict.PASS
    assert least.got == 10


# tau = 5, a = 0.25: 20.913 by scipy.linalg.solve_discrete_lyapunov of the companion matrix; near
# the limit of 0.285 a start-up takes hundreds of updates. Without delay v/(a(2-a)).
@pytest.mark.slow
@pytest.mark.product
@pytest.mark.parametrize(
    ("tau", "a", "expected"), [(5, 0.25, 20.912637828668377), (0, 1.9, 1 / 0.19), (0, 1.0, 1.0)]
)
def test_a_start_up_ends_however_close_to_instability(
    tmp_path: Path, tau: int, a: float, expected: float
) -> None:
    (line,) = judged(tmp_path, "delay-noise-floor", expected, tau=tau, a=a, v=1.0)

    assert line.verdict is Verdict.PASS


# (1 - 1)^2 = 0: only the last noise is left, eta^2 sigma2 / n.
def test_a_bowl_whose_bottom_is_reached_in_one_step(tmp_path: Path) -> None:
    (line,) = judged(tmp_path, "quad-sgd-floor", 1 / 3, eta=0.5, lam=2.0, sigma2=4.0, n=3)

    assert line.verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("family", "parameters", "why"),
    [
        ("coll-recdoubling-allreduce", {"p": 6, "n": 1e6, **RING}, "for p a power of two"),
        ("coll-rabenseifner-allreduce", {"p": 6, "n": 1e6, **RING}, "for p a power of two"),
        ("coll-vandegeijn-bcast", {"p": 6, "n": 1e6, **BCAST}, "for p a power of two"),
        ("coll-tree-allreduce", {"p": 6, "n": 1e6, **RING, "gamma": 1e-9}, "whole rounds"),
        ("coll-crossover", {"p": 6, **BCAST}, "for p a power of two"),
        ("coll-crossover", {"p": 2, **BCAST}, "at any n"),
        ("coll-crossover", {"p": 8, "alpha": 0.0, "beta": 1.0}, "at 0 bytes"),
        ("coll-chain-bcast", {"p": 1, "n": 1e6, "m": 3, **BCAST}, "nobody to send to"),
        ("coll-chain-bcast-opt", {"p": 2, "n": 1e6, **BCAST}, "one is best"),
        ("coll-chain-bcast-opt", {"p": 4, "n": 1e6, "alpha": 0.0, "beta": 1.0}, "no m*"),
        ("coll-chain-bcast-opt", {"p": 99, "n": 1e15, **BCAST}, "takes too long"),
        ("stale-kasync", {"P": 8, "K": 4, "law": "deterministic"}, "at the same instants"),
        ("ssp-det", {"times": [1.0, 1.0 + 1e-9], "s": 3}, "takes too long"),
        ("slow-worker", {"mode": "sync", "n": 4, "T": 1.0, "f": 0.5}, "f below 1"),
        ("slow-worker", {"mode": "async", "n": 4, "T": 1.0, "f": 1e9}, "takes too long"),
        ("delay-noise-floor", {"tau": 1, "a": 1.2, "v": 1.0}, "diverges"),
        ("quad-sgd-floor", {"eta": 2.5, "lam": 1.0, "sigma2": 1.0, "n": 1}, "diverges"),
        ("quad-time-to-target", {**{"n": 2, "k": 2, "mu": 1.0, "shift": 0.0, "x0": 1.0},
          "eta": 1e-4, "lam": 1.0, "sigma2": 0.1, "eps": 0.01}, "within 1000 steps"),
        ("quad-time-to-target", {**{"n": 2, "k": 2, "mu": 1.0, "shift": 0.0, "x0": 1.0},
          "eta": 1.0, "lam": 1.0, "sigma2": 0.1, "eps": 0.05}, "too close to eps at step"),
        ("os-pareto", {"n": 8, "k": 8, "xm": 1.0, "alpha": 0.9}, "the mean is infinite"),
        ("os-pareto", {"n": 8, "k": 8, "xm": 1.0, "alpha": 1.9}, "the variance is infinite"),
        ("os-pareto", {"n": 8, "k": 4, "xm": 1.0, "alpha": 0.9}, "without a mean"),
        ("stale-hetero-worker", {"rates": [1e7, 1.0]}, "rounding them to whole ns"),
        ("async-quad-mean", {"N": 2, "a": 0.1, "x0": 0.0, "t": 5}, "x0 is 0"),
        ("coll-crossover", {"p": 8, "alpha": 1.0, "beta": 0.0}, "without beta"),
        ("stale-async-p0", {"P": 200_000}, "takes too long"),
        ("os-twopoint", {"n": 4, "k": 3, "base": 1.0, "slow": 0.5, "p": 0.5}, "slow is below 1"),
        ("os-gumbel-max", {"n": 8, "k": 5, "loc": 1.0, "scale": 0.1}, "k = n"),
        ("os-gumbel-max", {"n": 8, "k": 8, "loc": 0.3, "scale": 0.1}, "below 0"),
        ("os-normal", {"n": 8, "k": 1, "mean": 1.0, "sd": 0.5}, "below 0"),
        ("os-exp", {"n": 2, "k": 2, "mu": 1e12}, "rounding them to whole ns"),
    ],
)  # fmt: skip
def test_what_no_formula_is_for_is_not_run_and_says_why(
    tmp_path: Path, family: str, parameters: Mapping[str, Any], why: str
) -> None:
    (line,) = judged(tmp_path, family, unit="s", **parameters)

    assert line.verdict is Verdict.NOT_RUN
    assert line.got is None
    assert why in line.why


@pytest.mark.parametrize(
    ("family", "parameters", "problem"),
    [
        ("os-exp", {"n": 0, "k": 1, "mu": 1.0}, "parameters.n must be above 0, not 0"),
        ("os-exp", {"n": 4, "k": 9, "mu": 1.0}, "parameters.k must be at most parameters.n"),
        ("os-exp", {"n": 4, "k": 3, "mu": -1.0}, "parameters.mu must be above 0, not -1"),
        ("os-twopoint", {"n": 4, "k": 3, "base": 1.0, "slow": 2.0, "p": 1.5}, "a probability"),
        ("os-uniform", {"n": 4, "k": 3, "a": 2.0, "b": 1.0}, "must be below parameters.b"),
        ("rt-ksync", {"P": 4, "K": 5, "law": "exponential", "mean": 1.0}, "most parameters.P"),
        ("stale-async-mean", {"P": 4, "law": "normal"}, "parameters.law must be one of"),
        ("stale-hetero-worker", {"rates": [1.0, 0.0]}, "parameters.rates must be above 0"),
        ("coll-ring-allreduce", {"p": 4, "n": 1.0, **RING, "alpha": -1.0}, "must be 0 or more"),
        ("overlap-wfbp", {"tf": 0.1, "tb": [0.1], "tc": [0.1, 0.2]}, "a number for each layer"),
        ("overlap-wfbp", {"tf": 0.1, "tb": [0.0], "tc": [0.1]}, "must not all be 0"),
        ("slow-worker", {"mode": "now", "n": 2, "T": 1.0, "f": 2.0}, "parameters.mode must be"),
        ("slow-worker", {"mode": "backup1", "n": 1, "T": 1.0, "f": 2.0}, "no backup"),
        ("vol-bytes", {"kind": "tree", "p": 2, "n": 8.0}, "parameters.kind must be one of"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    tmp_path: Path, family: str, parameters: Mapping[str, Any], problem: str
) -> None:
    with pytest.raises(PointFileError) as raised:
        judged(tmp_path, family, **parameters)

    (line,) = str(raised.value).splitlines()
    assert "point 1" in line
    assert problem in line


@pytest.mark.parametrize(
    ("family", "parameters", "problem"),
    [
        (
            "coll-ring-allreduce",
            {"p": 10**7, "n": 1e6, **RING},
            "cluster: workers: at most 1,000,000 can be simulated",
        ),
        ("coll-ring-allreduce", {"p": 2, "n": 1e300, **RING, "beta": 1e300}, "no clock counts it"),
        ("coll-ring-allreduce", {"p": 2, "n": 0.3, **RING}, "size must be at least 1 byte"),
        ("os-weibull", {"n": 1, "k": 1, "scale": 1.0, "shape": 1e-9}, "too large or too small"),
        (
            "ps-det",
            {"N": 2_000_000, "Z": 1.0, "S": 1.0},
            "workers: at most 1,000,000 can be simulated",
        ),
        ("delay-rate", {"tau": 1, "a": 1e200}, "beyond all numbers"),
        ("ddp-buckets", {"model": "none", "bucket_cap_mb": 25, "first_bucket_mb": 1}, "unknown"),
    ],
)
def test_what_makes_no_scenario_is_not_run_and_says_why(
    tmp_path: Path, family: str, parameters: Mapping[str, Any], problem: str
) -> None:
    (line,) = judged(tmp_path, family, **parameters)

    assert line.verdict is Verdict.NOT_RUN
    assert line.why.startswith("cannot be simulated: ")
    assert problem in line.why
    assert "pydantic" not in line.why


def given(monkeypatch: pytest.MonkeyPatch, got: Estimate) -> None:
    """A family that measures just this."""

    def measure(mode: str, n: int, T: float, f: float) -> Measured:  # noqa: N803
        return {"": got}

    monkeypatch.setitem(table.FAMILIES, "slow-worker", measure)


PARAMETERS: Mapping[str, Any] = {"mode": "async", "n": 2, "T": 1.0, "f": 2.0}


@pytest.mark.parametrize(
    ("got", "half", "verdict"),
    [(100.0, 0.0, "pass"), (100.0 + 5e-8, 1e-12, "pass"), (100.0 + 2e-7, 0.0, "miss")],
)
def test_what_comes_out_the_same_every_time_is_not_random(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, got: float, half: float, verdict: str
) -> None:
    given(monkeypatch, Estimate(got, half))
    (line,) = judged(tmp_path, "slow-worker", 100.0, **PARAMETERS)

    assert line.verdict == verdict
    assert line.half_width is None
    assert line.bound == "within 1e-09 of it"


def test_a_quantity_that_nobody_measures_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, Estimate(1.0))
    lines = judged(
        tmp_path,
        "slow-worker",
        [1.0, 2.0],
        quantity="[speed, width]",
        unit="[1/s, m]",
        **PARAMETERS,
    )

    assert [one.verdict for one in lines] == [Verdict.NOT_RUN] * 2
    assert {one.why for one in lines} == {"not what is measured of this family: one number"}


@pytest.mark.parametrize("seconds", [1e-12, 1e-3, 1.0, 99.0, 3e7, 1e15])
def test_slow_motion_lasts_long_and_not_too_long(seconds: float) -> None:
    assert 1e7 * (1 - 1e-12) <= seconds * slow_motion(seconds) <= 1e8 * (1 + 1e-12)


def test_what_takes_no_time_is_not_slowed() -> None:
    assert slow_motion(0.0) == 1.0
    with pytest.raises(ValueError, match="no clock counts it"):
        slow_motion(float("inf"))
