"""Words of the validation report."""

from dataclasses import replace

from tests.validation.published import ROWS
from validation.index.words import sources
from validation.published.judging import not_run


def test_lines_of_one_file_are_named_together() -> None:
    source = ROWS[0].source
    chosen = [ROWS[index] for index in (0, 3, 1, 2, 7)]
    findings = [not_run(row, "", "") for row in chosen]

    assert {row.source for row in chosen} == {source}
    assert sources(findings) == f"{source} (published.csv, lines 2 to 5, 9)"
    assert sources(findings[:1] * 2) == f"{source} (published.csv, line 2)"
    assert sources([]) == ""


def test_a_source_without_a_line_stays_as_it_is() -> None:
    one = not_run(ROWS[0], "", "")
    other = replace(one, source="a book; page 3")
    assert sources([one, other]) == f"{one.source}; a book; page 3"
