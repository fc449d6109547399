"""The numbers of other simulators: all of them come out, and a wrong one would be noticed."""

import pytest

from validation.finding import Finding
from validation.peers import GROUPS, ConstantGradient, Row, findings, rows

TABLE = rows()


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Finding]:
    return {(one.name, one.quantity): one for one in findings()}


def test_all_of_the_table_is_run_and_nothing_twice(found: dict[tuple[str, str], Finding]) -> None:
    assert len(found) == len(TABLE) == len(findings()) > 40
    assert {row.group for row in TABLE} == set(GROUPS)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.name}, {row.quantity}")
def test_a_wrong_number_is_noticed(row: Row) -> None:
    half_width = 0.001 * row.expected if row.rule == "random" else None
    digits = len(row.text.partition(".")[2]) if row.rule == "digits" else 0
    last = 0.01 * row.expected if row.rule == "random" else 10.0**-digits

    assert row.keeps(row.expected, half_width)
    assert not row.keeps(row.expected + last, half_width)
    assert not row.keeps(row.expected - last, half_width)
    if row.rule == "random":
        assert not row.keeps(row.expected, 0.01 * row.expected), "an interval that says nothing"


def test_the_gradient_is_constant() -> None:
    task = ConstantGradient().task(0, 0)
    start = task.initial()

    (gradients,) = task.gradients(start, task.batches(0, 0, 1)[:3])
    assert gradients.tolist() == [[-1.0]] * 3
    assert task.loss((start[0] + 2.0,)) == -2.0
