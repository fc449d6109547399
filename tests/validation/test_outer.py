"""Training across slow links: what bandwidth takes how long, and the tables it is held against."""

import pytest

from validation.finding import Verdict
from validation.outer import GROUPS, Row, findings, fitted_bits, grid_point, printed_point
from validation.outer import seconds_to_send as needed

# Two layers; 0.1 s forward, 0.1 s backward each.
STEP = Row("small", 1e9, 2, 0.3, "data_parallel", 1, 1, (1.0, 1.0, 1.0, 1.0, 1.0))
OUTER = STEP._replace(method="diloco", inner_steps=2)


# The last layer is sent from 0.2 s on, the first one after it, from 0.3 s on at the earliest. In
# 0.6 s: 0.2 + 0.4; in 1/3 s: 0.3 + 1/30 for the first. Outer: 0.5 + 0.7 in 1.2 s.
@pytest.mark.parametrize(
    ("row", "busy", "expected"), [(STEP, 0.5, 0.4), (STEP, 0.9, 2 / 30), (OUTER, 0.5, 0.7)]
)
def test_how_long_sending_may_take(row: Row, busy: float, expected: float) -> None:
    assert needed(row, busy) == pytest.approx(expected, rel=1e-4)


def test_fragments_are_sent_one_after_the_other_and_waited_for() -> None:
    turns = OUTER._replace(inner_steps=5, fragments=2)

    assert turns.round == 4  # of 2.5 steps each, which are none
    assert needed(turns, 0.5) == pytest.approx(1.2, rel=1e-4)


def test_bandwidths_lie_on_a_grid() -> None:
    assert [printed_point(one) for one in (0.1, 86.8, 86.9, 1000)] == [0, 36, 36, 49]
    assert [grid_point(one) for one in (0.1, 0.11, 0.13, 86.9)] == [0, 1, 2, 37]


# What 16 bits need, not rounded up to the grid: known to one point of it.
def test_bits_are_those_with_which_what_is_printed_comes_out() -> None:
    row = STEP._replace(printed=tuple(16 / needed(STEP, cu / 100) for cu in (50, 80, 90, 95, 99)))

    assert fitted_bits([row]) == pytest.approx(16, rel=0.21)


@pytest.mark.slow
@pytest.mark.product
def test_tables_come_out_as_well_as_was_promised() -> None:
    lines = findings()
    count = {group: sum(one.group == group for one in lines) for group in GROUPS}
    of = {verdict: sum(one.verdict is verdict for one in lines) for verdict in Verdict}

    assert list(count.values()) == [51, 30, 3]
    assert (of[Verdict.MISS], of[Verdict.PASS], of[Verdict.CALIBRATED]) == (0, 14, 10)
    assert (of[Verdict.REPORTED], of[Verdict.NOT_RUN]) == (40, 20)
    assert all(one.got == pytest.approx(one.expected, rel=0.21) for one in lines[1:11])
