"""Who takes longer, in words: on paired differences."""

import pytest
from programs import WIRE, add, read, scenario, variable

from varsim.result.program.comparison import LONGER, SHORTER, apart, beside, judged
from varsim.result.statistics import CLOSE, SAME
from varsim.simulation import simulate_variables


@pytest.mark.parametrize(
    ("times", "others", "said"),
    [
        ([2.0], [1.0], LONGER),
        ([1.0], [2.0], SHORTER),
        ([1.0], [1.0], SAME),
        ([1.0, 5.0], [1.0, 5.0], SAME),
        ([1.0, 5.0], [1.0 + 1e-12, 5.0], SAME),
        ([1.1, 5.1, 9.1], [1.0, 5.0, 9.0], LONGER),  # always by 0.1, whatever the ratio
        ([1.0, 5.0, 9.0], [1.1, 5.1, 9.1], SHORTER),
        ([1.0, 5.0, 9.0], [2.0, 4.0, 9.5], CLOSE),
        ([0.0], [0.0], SAME),
    ],
)
def test_judged_by_differences(times: list[float], others: list[float], said: str) -> None:
    assert judged(times, others) == said


@pytest.mark.parametrize(
    ("times", "others", "said"),
    [
        ([2.2], [1.0], "2.20 times as long"),
        ([1.002], [1.0], "as long to 0.2 %"),
        ([1.0 + 1e-7], [1.0], "as long to 0.001 %"),
        ([1.0], [1.0], "as long"),
        ([1.5, 3.0], [1.0, 2.0], "1.50 times as long"),
        ([1.5001, 3.0], [1.0, 2.0], "1.50 times as long"),
        ([1.2, 3.3], [1.0, 3.0], "1.15 times (95 % interval 0.661 to 2.00) as long"),
        ([1.5, 10.5], [1.0, 10.0], "500 ms longer"),  # the interval of the ratio holds 1
    ],
)
def test_how_much_longer(times: list[float], others: list[float], said: str) -> None:
    assert beside(times, others) == said


def test_how_far_apart() -> None:
    assert apart([1.5, 10.5], [1.0, 10.0]) == "500 ms longer"
    assert apart([1.0, 10.0], [1.5, 10.5]) == "500 ms shorter"


def test_a_sure_crossover_and_the_comparison_agree() -> None:
    """Compute varies far more than what the modes spend on messages, but alike in both."""
    law = {"kind": "exponential", "mean": 1e-3}
    found = simulate_variables(
        scenario(
            ({"kind": "compute"}, add(1.0)),
            (read(),),
            steps=2,
            replications=3,
            cluster={"compute": law, "network": WIRE},
            variables=(variable(aggregation="mean"),),
            modes=("on_read", "on_write"),
            vary={"reads_per_write": (0, 1, 20)},
        )
    )
    (crossed,) = found.crossovers()
    where = crossed.reads_per_write
    assert where.high - where.low < 0.01 < 1 < where.low  # and the program reads once
    first, second, *_ = found.answer().splitlines()
    assert "interval" not in first
    assert "the cheapest is 'on_read'" in second
    assert second.endswith(" us longer.")
    assert CLOSE not in found.answer()
    assert found.table()["vs. on_read"].iloc[1].endswith(" us longer)")
