"""Compute times that depend on the batch."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from varsim.values.distributions import AnyDistribution, Distribution

ADAPTER: TypeAdapter[Distribution] = TypeAdapter(AnyDistribution)
FAST = {"kind": "constant", "value": 1.0}
SLOW = {"kind": "exponential", "mean": 3.0}


def law(kind: str, **settings: Any) -> Distribution:
    return ADAPTER.validate_python({"kind": kind, **settings})


class TestBatches:
    CURVE: dict[str, Any] = {"kind": "batch_curve", "fixed": 0.012, "per_example": 0.0014}

    def test_a_curve_is_a_line(self) -> None:
        assert law(**self.CURVE).for_batch(32) == law("constant", value=0.012 + 0.0014 * 32)
        assert law(**self.CURVE, sigma=0.2).for_batch(32) == law(
            "lognormal", mean=0.012 + 0.0014 * 32, sigma=0.2
        )

    def test_within_other_laws(self) -> None:
        parts = ({"weight": 1.0, "law": self.CURVE}, {"weight": 1.0, "law": FAST})
        mixture = law("mixture", components=parts)
        markov = law("markov", fast=self.CURVE, slow=SLOW, to_slow=0.1, to_fast=0.3)

        assert mixture.needs_batch
        assert mixture.for_batch(10).expectation() == pytest.approx((0.026 + 1) / 2)
        assert markov.needs_batch
        assert markov.for_batch(10).expectation() == pytest.approx(0.75 * 0.026 + 0.25 * 3)

    @pytest.mark.parametrize("one", [law(**FAST), law(**SLOW)], ids=repr)
    def test_most_laws_do_not_ask(self, one: Distribution) -> None:
        assert not one.needs_batch
        assert one.for_batch(7) == one
