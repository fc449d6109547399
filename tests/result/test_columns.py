"""The tables of a result have the columns that are documented."""

import pytest

from tests.handmade import a_result
from varsim.study.tables import COLUMNS

TABLES = ("summary", "runs", "updates", "spans", "evaluations", "steps", "links", "workers")


@pytest.mark.parametrize("name", TABLES)
def test_the_columns_of_a_table_are_the_documented_ones(name: str) -> None:
    table = getattr(a_result(targets={"loss": 1.0}), name)
    assert list(table.columns) == list(COLUMNS[name])
