"""Text of a report: CSV with all digits, lines of a terminal."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO, TextIOWrapper

import pytest
from rich.cells import cell_len

from varsim.core import inert
from varsim.report.formats import csv_text, html, markdown
from varsim.report.screen import fitting, flow, folded, grid, marked, terminal
from varsim.report.told import Column, Data, Note, Number, Report, Table
from varsim.report.wording import unheld


def test_csv_has_all_digits_and_no_formulas() -> None:
    data = Data(["=name", "x"], [["-1", 0.1], ["b", math.nan], ["c", None], [True, 3]])
    assert csv_text(data) == "'=name,x\n'-1,0.1\nb,\nc,\ntrue,3\n"


def test_a_negative_number_is_a_number() -> None:
    assert inert.row([-2, -0.5, "-2", "=1", "a"]) == [-2, -0.5, "'-2", "'=1", "a"]
    assert inert.number_or_cell("-2.5") == "-2.5"
    assert inert.number_or_cell("-a") == "'-a"


@pytest.mark.parametrize(
    "letter", "\x1b\x9b\x7f\u202e\u202a\u2066\u2069\u200f\u061c\ufeff\U000e0041"
)
def test_what_acts_unseen_is_shown_as_its_escape(letter: str) -> None:
    shown = inert.visible(f"a{letter}b")
    assert shown.isascii()
    assert shown.startswith("a\\u")
    assert json.loads(f'"{shown}"') == f"a{letter}b"


def test_lines_end_where_a_terminal_does_and_quantities_stay_whole() -> None:
    said = "It is 2.98 ± 0.31 s, which 95 % of all would call fast."
    assert [unheld(one) for one in flow(said, 30)] == [
        *("It is 2.98 ± 0.31 s, which", "  95 % of all would call fast.")
    ]
    assert flow(said, None) == [said]


@pytest.mark.parametrize("room", [20, 31])
def test_letters_of_two_columns_count_as_two(room: int) -> None:
    assert max(map(cell_len, flow("模型 " * 30, room))) <= room


def of_three(metric: str, *numbers: float, main: bool = False) -> list[Column]:
    """A column of each of three strategies, the same number in both rows."""
    return [
        Column(metric, f"{who}: {metric}", (Number(number), Number(number)), of=who, main=main)
        for who, number in zip("abc", numbers, strict=True)
    ]


def test_what_is_never_left_out_stands_in_a_block_of_its_own() -> None:
    columns = [*of_three("rate", 1, 2, 3, main=True), *of_three("stale", 4, 5, 6)]
    table = Table(("1", "2"), tuple(columns), fold=False)
    assert fitting(table, table.brief()[0], 20) == columns[:3]
    many = Table(("1", "2"), tuple(columns[:3] * 3), fold=False)
    assert many.brief()[0] == columns[:3] * 3


def test_what_is_the_same_of_all_is_said_once() -> None:
    columns = [*of_three("wasted", 0, 0, 0), *of_three("stale", 0, 7, 0)]
    table = Table(("1", "2"), tuple(columns))
    assert folded(columns, table) == "The same for all: wasted 0, stale 0 (a and c), stale 7 (b)."
    bounded = Column("p99", "stale p99 <= 16", (Number(0.0, margin=1.0),) * 2)
    assert unheld(folded([bounded], table)) == "The same for all: stale p99 <= 16: 0 (+100 %)."


def test_notes_on_columns_have_letters_whatever_stands_before_them() -> None:
    columns = [Column("a", "a", (), note="marks"), Column("b", "b", ()), Column("c", "c", ())]
    columns[2] = columns[2]._replace(note="as-good")
    notes = [Note(code, {}) for code in ("exact", "marks", "interval", "as-good")]
    assert marked(columns, notes) == {"marks": "[a]", "as-good": "[b]"}
    assert marked(columns[2:], notes) == {"as-good": "[a]"}


AXES = Table(
    ("async", "sync"),
    (
        Column("b", "bandwidth", ("10", "25")),
        Column("x", "examples per second", (Number(12.0, 3.0), Number(7.0)), rank=1),
        Column("y", "stale", (Number(3), Number(4))),
    ),
    corner="best point of",
    keys=1,
)


def test_every_part_of_a_table_has_its_axes() -> None:
    heads = [one.split()[3:] for one in grid(AXES, AXES.columns, 41) if "bandwidth" in one]
    assert heads == [["bandwidth", "second"], ["bandwidth", "stale"]]


def test_heads_are_torn_before_columns_go_and_then_those_of_a_higher_rank() -> None:
    columns = list(AXES.columns)
    assert [one.rstrip() for one in grid(AXES, columns, 49)][:2] == [
        "                            examples per",
        "best point of   bandwidth         second   stale",
    ]
    assert fitting(AXES, columns, 49) == columns
    assert fitting(AXES, columns, 40) == [columns[0], columns[2]]


def test_words_that_have_no_room_stand_under_their_row_and_numbers_are_counted() -> None:
    words = Column("w", "would help most", ("no stragglers 2.97x", "-"))
    table = replace(AXES, columns=(*AXES.columns[:2], words), keys=0, corner="")
    lines = terminal(Report("why", "", (), table, ()), width=20).splitlines()
    rows, more = lines[lines.index("─" * 17) + 1 : -3], "".join(lines[-2:])
    assert rows == [
        "async          10",
        "  would help most:",
        "    no stragglers",
        "    2.97x",
        "sync           25",
    ]
    assert more == "1 more column:  --all."


@pytest.mark.parametrize("render", [html, markdown])
def test_columns_have_the_marks_of_their_notes(render: Callable[[Report], str]) -> None:
    table = replace(AXES, columns=(AXES.columns[1]._replace(note="exact"),))
    said = unheld(render(Report("why", "", (), table, (Note("exact"),))))
    assert "examples per second [a]" in said
    assert "[a] Exact" in said


def test_signs_that_are_lacking_are_replaced_before_columns_are_aligned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ascii = TextIOWrapper(BytesIO(), "ascii")
    monkeypatch.setattr("sys.stdout", ascii)
    noted = AXES.columns[1]._replace(note="interval")
    head, rule, *rows = grid(AXES, [noted], None, marked([noted], [Note("interval", {"count": 3})]))
    assert head.endswith(" [a]".replace(" ", "\N{NO-BREAK SPACE}"))
    assert {len(one) for one in (head, *rows)} == {len(rule)}
    assert "+-" in rows[0]


def test_what_is_to_be_typed_is_not_torn() -> None:
    typed = "--set 'stop={examples: 35840}'"
    assert any(typed in unheld(one) for one in flow(f"For equal work {typed}.", 40))
