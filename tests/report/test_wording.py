"""Every sentence and every number as text, once: no other test quotes them but transcripts."""

import math
import re
from pathlib import Path
from string import Formatter

import pytest

from varsim.report.notes import NOTES, SENTENCES, coded, line, plain
from varsim.report.told import Note, Number
from varsim.report.wording import listed, shown

DOCS = Path(__file__).parent.parent.parent / "docs" / "reference" / "notes.md"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Number(1457.7, 1.8), "1,458"),
        (Number(6.999, 0.0018), "7.00"),
        (Number(0.07, 0.003), "0.070 ± 0.003"),
        (Number(0.2187, 0.003, "share"), "21.9 ± 0.3 %"),
        (Number(0.9997, unit="share"), "100 %"),
        (Number(0.0, unit="share"), "0 %"),
        (Number(2.98, 0.31, "s"), "3.0 ± 0.3 s"),
        (Number(0.04, unit="s"), "40 ms"),
        (Number(0.0, unit="s"), "0 s"),
        (Number(108e9, unit="B"), "108 GB"),
        (Number(864_000.0, unit="days"), "10 days"),
        (Number(465.0, unit="days"), "7.75 min"),
        (Number(3.0, 5.0), "3 ± ?"),
        (Number(1.77e91), "1.77e+91"),
        (Number(123_456_789_012_345.0), "123,456,789,012,345"),
        (Number(-2e40), "-2.00e+40"),
        (Number(7.89e-31, 4e-32), "7.89e-31 ± 4.00e-32"),
        (Number(math.nan), "-"),
        (Number(math.nan, missing="in 1 of 2 replications"), "in 1 of 2 replications"),
        (Number(1.0, verdict="baseline"), "1"),
        (Number(1.01, verdict="tie"), "tie"),
    ],
)
def test_a_number(number: Number, text: str) -> None:
    assert shown(number).replace("\N{NO-BREAK SPACE}", " ") == text


def test_names() -> None:
    assert listed(("a",)) == "a"
    assert listed(("a", "b", "c")) == "a, b and c"
    assert listed(("n, 1", "n, 2", "n, 3")) == "n, 1; n, 2 and n, 3"
    assert listed(tuple("abcdef")) == "a, b, c and 3 more"


@pytest.mark.parametrize(
    ("note", "text"),
    [
        (
            Note("fastest", {"best": "b", "rate": Number(2.5), "times": Number(2), "next": "a"}),
            "Fastest: b, 2.50: 2 times a.",
        ),
        (Note("fastest", {"best": "b", "rate": Number(2.5)}), "Fastest: b, 2.50."),
        (Note("tie", {"tied": ("a", "b"), "rate": Number(2)}), "Tied fastest: a and b, 2."),
        (
            Note("close", {"tied": ("a", "b"), "low": Number(1), "high": Number(2)}),
            "Too close to call: a and b, at 1 to 2.",
        ),
        (
            Note("untold", {"tied": ("a", "b"), "low": Number(1), "high": Number(2), "count": 2}),
            "Two replications are too few to rank a and b (1 to 2); try --set replications=5.",
        ),
        (
            Note("price", {"stale": Number(7), "ages": "updates", "wasted": Number(0.2)}),
            "Its price: gradients are 7 updates stale and 0.200 of its compute is wasted.",
        ),
        (
            Note("life", {"kept": Number(0.9, unit="share"), "lost": Number(0.1, unit="share")}),
            "It keeps 90 % of its time: lost work 10 %.",
        ),
        (
            Note("target", {"target": "Target x", "met": ("a",), "unsure": ("b", "c")}),
            "Target x: met by a; undecided for b and c.",
        ),
        (
            Note("hopeless", {"who": "a", "needs": Number(300, unit="days")}),
            "a keeps hardly anything: 5 min to notice and restart.",
        ),
    ],
)
def test_a_sentence_with_parts(note: Note, text: str) -> None:
    assert line(note).replace("\N{NO-BREAK SPACE}", " ") == text


@pytest.mark.parametrize("code", sorted({**SENTENCES, **NOTES}))
def test_every_other_sentence_is_one_short_line(code: str) -> None:
    template = SENTENCES.get(code) or NOTES[code]
    if not isinstance(template, str):
        return
    fields = {name for _, name, _, _ in Formatter().parse(template) if name}
    text = line(Note(code, dict.fromkeys(fields, "x")))
    assert len(text) <= 110
    assert "{" not in text
    assert plain(Note(code, dict.fromkeys(fields, "x")))["code"] == code


def test_a_note_ends_with_its_code() -> None:
    assert coded(Note("exact")).endswith("  [exact]")


def test_each_note_has_its_paragraph() -> None:
    anchors = re.findall(r"^\(note-([a-z-]+)\)=$", DOCS.read_text(encoding="utf-8"), re.M)
    assert anchors == sorted(NOTES)
