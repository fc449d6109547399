"""The numbers of other simulators: all of them come out, and a wrong one would be noticed."""

from dataclasses import replace

import pytest

from validation.finding import Finding, Verdict
from validation.peers import GROUPS, findings
from validation.peers.bookkeeping import ConstantGradient
from validation.peers.table import Row, rows

TABLE = rows()


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Finding]:
    return {(one.name, one.quantity): one for one in findings()}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.name}, {row.quantity}")
def test_a_number_comes_out(row: Row, found: dict[tuple[str, str], Finding]) -> None:
    one = found[row.name, row.quantity]

    assert one.verdict is Verdict.PASS, f"{one.expected} expected, {one.got} got"
    assert (one.expected, one.source) == (float(row.text), row.source)


def test_all_of_the_table_is_run_and_nothing_twice(found: dict[tuple[str, str], Finding]) -> None:
    assert len(found) == len(TABLE) == len(findings()) > 40
    assert {row.group for row in TABLE} == set(GROUPS)


def test_some_of_the_table() -> None:
    only = findings("peers/fair*")

    assert {one.group for one in only} == {"fair sharing"}
    assert findings("closed forms/*") == []


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


def test_a_row_says_what_it_takes() -> None:
    row = TABLE[0]

    assert row.bound == "exact"
    assert replace(row, rule="digits").bound == "all digits shown"
    assert "99 %" in replace(row, rule="random").bound
