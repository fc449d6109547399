"""One small report, shown on everything that shows reports."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from varsim.report import page
from varsim.report.plots.plot import Plot
from varsim.report.render import csv_text, markdown, render
from varsim.report.report import (
    Block,
    Data,
    Figure,
    Media,
    Report,
    Row,
    Source,
    Table,
    Text,
)
from varsim.report.terminal import terminal

TABLE = Table.of([("a", {"rate": "3", "loss": "-"}), ("b|c", {"rate": "12", "loss": "1"})], "name")
PLOT = Plot[str](
    "heat_map",
    "A picture",
    "How to read it",
    lambda said: said,
    lambda said: [1.0],
    lambda said, panels: panels,
    lambda said: [],
)


def report(*blocks: Block, **more: object) -> Report:
    made = {"varsim": "1", "seed": 7}
    source = Source("seed: 7\n", "It is `here`.", "Run it:", "varsim run")
    whole = Report("stragglers", "small", ("The answer.",), ("A note.",), blocks, made)
    return replace(whole, source=source, alternatives={"a": "", "b|c": ""}, **more)


class TestTable:
    def test_it_can_be_laid_on_its_side(self) -> None:
        turned = TABLE.turned({"rate": "per second"}, caption="All")
        assert turned.columns == ("a", "b|c")
        assert turned.rows == (Row("rate", ("3", "12"), "per second"), Row("loss", ("-", "1")))
        assert (turned.caption, turned.marked, TABLE.marked) == ("All", "columns", "rows")

    def test_it_is_a_frame_for_who_wants_one(self) -> None:
        frame = TABLE.frame()
        assert frame.loc["b|c", "rate"] == "12"
        assert (frame.index.name, list(frame.columns)) == ("name", ["rate", "loss"])
        assert TABLE.column("loss") == ("-", "1")

    def test_one_without_rows_has_no_columns(self) -> None:
        assert Table.of([], "name") == Table((), (), "name", marked="rows")


class TestTerminal:
    def test_blocks_stand_apart_but_for_those_that_belong_to_what_is_before(self) -> None:
        told = report(
            replace(TABLE, caption="Of `x`:"),
            Text(("± is a half-width.",), close=True),
            Text(("The answer.", "And more.")),
        )
        head, rule, *rows = terminal(told).splitlines()[1:5]
        assert terminal(told).splitlines()[0] == "Of 'x':"
        assert (head.split(), set(rule), rows[0].split()) == (
            ["rate", "loss"],
            {"─"},
            ["a", "3", "-"],
        )
        assert terminal(told).endswith("\n± is a half-width.\n\nThe answer.\nAnd more.\n")

    def test_nothing_acts_unseen(self) -> None:
        told = report(Text(("a\x1b[31mb",)), Table(("x\u202e",), (Row("y", ("z\x07",)),)))
        assert "\x1b" not in terminal(told)
        assert "\\u202e" in terminal(told)
        assert "\\u0007" in terminal(told)

    def test_sentences_end_where_a_terminal_does(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told = report(Text(("It is 2.98 ± 0.31 s, which 95 % of all would call fast.",)))
        assert terminal(told) == "It is 2.98 ± 0.31 s, which 95 % of all would call fast.\n"
        monkeypatch.setenv("COLUMNS", "30")
        assert terminal(told).splitlines() == [
            *("It is 2.98 ± 0.31 s, which", "  95 % of all would call fast.")
        ]

    def test_as_a_text_to_read_on(self) -> None:
        told = report(
            Text(("Title",), "title"),
            Text(("one two three four five",), "paragraphs"),
            Text(("what it is",), "entries", terms=("it",)),
            Text(("part",), "heading"),
            Text(("one two three four five",)),
            replace(TABLE, holds="numbers"),
            Text(("The end.",)),
        )
        assert terminal(told, 20).splitlines() == [
            *("Title", "one two three four", "five", ""),
            *("it         what it", "           is", ""),
            *("== part ============", "one two three four", "  five", ""),
            *("name  rate  loss", "----  ----  ----", "a        3     -", "b|c     12     1", ""),
            "The end.",
        ]


class TestMarkdown:
    def test_every_sort_of_block(self) -> None:
        told = report(
            Text(("Title",), "title"),
            Text(("*a*", "b"), "paragraphs"),
            Text(("a", "b"), "items"),
            Text(("3 | 1",), "entries", terms=("a | b",), plain=True),
            Text(()),
            replace(TABLE, holds="numbers", caption="All:"),
            Figure(PLOT, "said", alternative="A heat map", on=Media.ALL),
        )
        assert markdown(told, pictures=True).split("\n\n") == [
            "# Title",
            "\\*a\\*",
            "b",
            "- a\n- b",
            "- a | b: 3 | 1",
            "All:",
            "| name | rate | loss |\n| --- | ---: | ---: |\n| a | 3 | - |\n| b\\|c | 12 | 1 |",
            "![A heat map](heat_map.png)\n",
        ]
        assert "heat_map" not in markdown(told)

    def test_only_what_is_meant_for_it(self) -> None:
        told = report(Text(("a",), on=Media.TERMINAL), Text(("b",), on=Media.TEXT))
        assert markdown(told) == "b\n"
        assert terminal(told) == "a\n\nb\n"


def test_csv_has_all_digits_and_no_formulas() -> None:
    data = Data(["=name", "x"], [["-1", 0.1], ["b", math.nan], ["c", None], [True, 3]])
    assert csv_text(data) == "'=name,x\n'-1,0.1\nb,\nc,\ntrue,3\n"
    assert render(report(data=data), "csv") == csv_text(data)


def test_json_is_all_of_it() -> None:
    assert render(report(facts=lambda: {"a": [1, 2]}), "json") == '{\n "a": [1, 2]\n}\n'


class TestFiles:
    def test_the_page_has_a_part_for_each_heading_and_figure(self, tmp_path: Path) -> None:
        told = report(
            Text(("First",), "heading", name="first", on=Media.PAGE),
            replace(TABLE, caption="All", folded="More"),
            Text(("A note.",), "items"),
            Figure(PLOT, "What it shows", table=replace(TABLE, folded="As a table")),
            kind="why",
            files={"there.csv": "the data", "absent.csv": "none"},
        )
        (tmp_path / "there.csv").touch()
        page.write(told, tmp_path)
        text = (tmp_path / "why.html").read_text()
        assert text.index('<h2 id="first">First') < text.index('<h2 id="heat_map">A picture')
        assert text.count("<details>") == 2
        assert "It is <code>here</code>." in text
        assert 'href="there.csv"' in text
        assert "absent" not in text
        assert text.count('<span class="dot c') == 4, "alternatives are marked in their rows"

    def test_a_number_on_the_page_stays_with_its_interval_and_its_unit(
        self, tmp_path: Path
    ) -> None:
        cells = ("938 ± 238 USD", "12.00 USD/h", "1.5 ms", "40 %", "3 US states")
        heading = Text(("All",), "heading", name="all", on=Media.PAGE)
        page.write(report(heading, Table(("a",) * 5, (Row("a", cells),)), kind="why"), tmp_path)
        held = [cell.replace(" ", "\u00a0") for cell in cells[:4]]
        found = (tmp_path / "why.html").read_text(encoding="utf-8")
        assert re.findall("<td>([^<]+)</td>", found) == [*held, cells[4]]
