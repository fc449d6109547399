"""Which law times follow: parameters recovered, wrong tails refused."""

import math

import numpy as np
import pytest

from varsim.calibration.compute import Fit, choose, fits
from varsim.calibration.steps import Times
from varsim.core.distributions import DISTRIBUTIONS, Distribution
from varsim.core.stream import stream

KNOWN = [
    ("exponential", {"mean": 0.2}),
    ("shifted_exponential", {"minimum": 0.1, "mean": 0.12}),
    ("uniform", {"low": 0.1, "high": 0.3}),
    ("normal", {"mean": 0.1, "std": 0.02}),
    ("lognormal", {"mean": 0.1, "sigma": 0.5}),
    ("gamma", {"mean": 0.1, "shape": 2.0}),
    ("weibull", {"mean": 0.1, "shape": 0.7}),
    ("pareto", {"minimum": 0.1, "alpha": 3.0}),
]


def sample(law: Distribution, blocks: int = 40) -> Times:
    """Times drawn by varsim's own law: 128 to a block."""
    return np.concatenate([law.draw(stream(11, 0, "compute", 0, i)) for i in range(blocks)])


def law_of(fit: Fit) -> Distribution:
    return DISTRIBUTIONS[fit.kind].model_validate({"kind": fit.kind, **fit.seconds, **fit.plain})


@pytest.mark.parametrize(("kind", "parameters"), KNOWN, ids=[kind for kind, _ in KNOWN])
class TestEveryFamily:
    def test_is_found_with_its_parameters(self, kind: str, parameters: dict[str, float]) -> None:
        best = choose(sample(DISTRIBUTIONS[kind].model_validate({"kind": kind, **parameters}))).best

        assert best is not None
        assert best.fit.kind == kind
        assert {**best.fit.seconds, **best.fit.plain} == pytest.approx(parameters, rel=0.06)
        assert best.ratios[:2] == pytest.approx((1, 1), abs=0.05)

    def test_agrees_with_the_law_of_varsim(self, kind: str, parameters: dict[str, float]) -> None:
        """Quantiles and mean are those of what varsim draws from the same parameters."""
        times = sample(DISTRIBUTIONS[kind].model_validate({"kind": kind, **parameters}))
        (fit,) = (one for one in fits(times) if one.kind == kind)
        law = law_of(fit)
        drawn = sample(law, blocks=400)

        for share in (0.1, 0.5, 0.9):
            assert float(np.quantile(drawn, share)) == pytest.approx(fit.quantile(share), rel=0.04)
        points = (np.arange(2000) + 0.5) / 2000
        mean = math.fsum(map(fit.quantile, points)) / points.size
        assert mean == pytest.approx(law.expectation(), rel=0.01)

    def test_has_the_likelihood_of_its_quantiles(
        self, kind: str, parameters: dict[str, float]
    ) -> None:
        """The density, by which AIC goes, is the derivative of the inverted quantile function."""
        law = DISTRIBUTIONS[kind].model_validate({"kind": kind, **parameters})
        times = sorted(sample(law, 1)[:64].tolist())
        (fit,) = (one for one in fits(np.array(times)) if one.kind == kind)

        def probability(time: float) -> float:
            low, high = 1e-12, 1 - 1e-12
            for _ in range(50):
                middle = (low + high) / 2
                low, high = (middle, high) if fit.quantile(middle) < time else (low, middle)
            return low

        total = 0.0
        for index, time in enumerate(times):
            # Inwards: a density may begin at the first time, or end at the last.
            width = 1e-5 * time if index < len(times) / 2 else -1e-5 * time
            total += math.log((probability(time + width) - probability(time)) / width)
        assert fit.likelihood == pytest.approx(total, abs=0.05)


def test_a_family_with_a_wrong_tail_is_refused_whatever_its_likelihood() -> None:
    # 2 % of the steps take five times as long: no law of one hump meets p50 and p99.
    times = sample(
        DISTRIBUTIONS["normal"].model_validate({"kind": "normal", "mean": 0.1, "std": 0.001})
    )
    times[::50] *= 5
    choice = choose(times)

    assert choice.best is None
    assert all(one.refused for one in choice.candidates)
    assert [one.fit.aic for one in choice.candidates] == sorted(
        one.fit.aic for one in choice.candidates
    )


def test_a_median_that_is_wrong_refuses_too() -> None:
    # A uniform law meets p99 of these, and nothing else.
    times = np.full(1000, 0.1)
    times += np.linspace(0, 1e-3, 1000)
    times[::33] = 0.3
    (uniform,) = (one for one in choose(times).candidates if one.fit.kind == "uniform")

    assert abs(uniform.ratios[2] - 1) < 0.1
    assert uniform.refused
    assert uniform.farthest[0] in (0.5, 0.9)


def test_times_that_hardly_differ_are_constant() -> None:
    choice = choose(np.array([0.1, 0.10005, 0.1]))

    assert choice.best is not None
    assert (choice.best.fit.kind, choice.best.fit.seconds) == ("constant", {"value": 0.1})


def test_few_steps_choose_no_family() -> None:
    times = sample(
        DISTRIBUTIONS["exponential"].model_validate({"kind": "exponential", "mean": 0.1}), 1
    )

    assert choose(times[:19]).best is None
    assert choose(times[:19]).candidates


def test_a_normal_law_that_would_be_cut_is_not_offered() -> None:
    times = sample(
        DISTRIBUTIONS["exponential"].model_validate({"kind": "exponential", "mean": 0.1})
    )

    assert "normal" not in [one.kind for one in fits(times)]


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e5])
def test_every_fit_is_a_law_at_any_scale(scale: float) -> None:
    times = scale * sample(
        DISTRIBUTIONS["gamma"].model_validate({"kind": "gamma", "mean": 1.0, "shape": 9})
    )
    found = fits(times)

    kinds = [fit.kind for fit in found]
    assert kinds == [
        *("exponential", "shifted_exponential", "uniform", "lognormal", "gamma", "weibull")
    ]
    for fit in found:
        assert law_of(fit).expectation() > 0
        assert math.isfinite(fit.likelihood)
