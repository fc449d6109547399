"""Every sentence and every number as text, once: no other test quotes them but transcripts."""

import math
import re
from pathlib import Path

import pytest

from varsim.report.notes import NOTES, SENTENCES, coded, line, plain
from varsim.report.told import Note, Number, Value
from varsim.report.wording import listed, shown, target

DOCS = Path(__file__).parent.parent.parent / "docs" / "reference" / "notes.md"

PLANNED: dict[str, Value] = {
    "objective": "cost_per_hour",
    "who": "a",
    "value": Number(12, unit="USD/h"),
}
MISSED: dict[str, Value] = PLANNED | {"target": "t", "reached": Number(9)}
TUNED: dict[str, Value] = {"best": "a", "value": Number(3, unit="s"), "rate": "0.5"}
TIED: dict[str, Value] = {"loss": "1", "tied": ("a", "b"), "low": Number(1)}
SPAN: dict[str, Value] = {"low": Number(1, unit="s"), "high": Number(2, unit="s")}
SHORT: dict[str, Value] = {"count": 2, "of": 3, "gradients": Number(4), "who": "a", "more": ""}


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
        (Number(32.0, unit="USD/h"), "32.00 USD/h"),
        (Number(1234.5, unit="EUR"), "1,234.50 EUR"),
        (Number(2093.0, margin=0.028), "2,093 (+2.8 %)"),
        (Number(1477.0, margin=-0.2615), "1,477 (-26 %)"),
        (Number(0.805, unit="share", margin=0.016), "80.5 % (+1.6 points)"),
        (Number(1.0, verdict="baseline"), "1"),
        (Number(1.01, verdict="tie"), "tie"),
    ],
)
def test_a_number(number: Number, text: str) -> None:
    assert shown(number).replace("\N{NO-BREAK SPACE}", " ") == text


@pytest.mark.parametrize(
    ("name", "bound", "text"),
    [
        ("goodput", 0.9999, "goodput at least 99.99 %"),
        ("goodput", 0.95, "goodput at least 95 %"),
        ("throughput", 12345.5, "throughput at least 12,345.5 examples/s"),
        ("step_time_p99", 0.1, "step time p99 at most 100 ms"),
    ],
)
def test_a_target_is_told_as_it_is_given(name: str, bound: float, text: str) -> None:
    assert target(name, bound, None) == text


def test_names() -> None:
    assert listed(("a",)) == "a"
    assert listed(("a", "b", "c")) == "a, b and c"
    assert listed(("n, 1", "n, 2", "n, 3")) == "n, 1; n, 2 and n, 3"
    assert listed(tuple("abcdef")) == "a, b, c, d, e and f"
    long = [name * 20 for name in "abcdef"]
    assert listed(long) == f"{', '.join(long[:3])} and 3 more"


@pytest.mark.parametrize(
    ("note", "text"),
    [
        (
            Note("fastest", {"best": "b", "rate": Number(2.5), "times": Number(2), "next": "a"}),
            "Fastest: b, 2.50: 2 times a.",
        ),
        (Note("fastest", {"best": "b", "rate": Number(2.5)}), "Fastest: b, 2.50."),
        (
            Note("plan-answer", PLANNED | {"targets": 2, "where": "workers = 6"}),
            "Cheapest to meet both targets: 12.00 USD/h, a with workers = 6.",
        ),
        (
            Note("plan-answer", PLANNED | {"targets": 0, "large": "device"}),
            "Cheapest: 12.00 USD/h, a (too large for its device).",
        ),
        (
            Note("in-its-way", MISSED | {"off": Number(0.05, unit="share"), "side": "below"}),
            "Binding target: t; a, at 12.00 USD/h, reaches 9, 5 % below.",
        ),
        (
            Note("closest", MISSED | {"where": "n = 6"}),
            "Closest: a with n = 6, at 12.00 USD/h, reaches 9, but not with 95 % confidence (t).",
        ),
        (
            Note("closest", PLANNED | {"target": "t"}),
            "Closest: a, at 12.00 USD/h, does not reach the target in every replication (t).",
        ),
        (
            Note("nothing-lower", {"objective": "workers", "who": "a"}),
            "Nothing lower with a in the space: widen it?",
        ),
        (
            Note("tuned", TUNED | {"loss": "0.1", "edge": 1, "next": "b", "times": Number(2)}),
            "First to loss 0.1, each at its best learning rate of those tried: a, 3 s at 0.5; "
            "b takes 2 times as long.",
        ),
        (
            Note("tuned", TUNED | {"end": Number(9, unit="s"), "next": "b", "times": Number(2)}),
            "Lowest loss at 9 s, each at its best learning rate: a, 3 s at 0.5; "
            "b ends at 2 times the loss.",
        ),
        (
            Note("tuned-close", TIED | {"high": Number(2)}),
            "First to loss 1, each at its best learning rate: too close to call, a and b (1 to 2).",
        ),
        (
            Note("tuned-tie", TIED),
            "First to loss 1, each at its best learning rate: a and b tie at 1.",
        ),
        (
            Note("tuned-none", {"end": Number(9, unit="s")}),
            "No strategy has a finite loss at 9 s in every fresh run, "
            "even at its best learning rate.",
        ),
        (
            Note("no-answer", {"targets": 3}),
            "No answer: no configuration meets all 3 targets with 95 % confidence.",
        ),
        (
            Note("short-configurations", SHORT),
            "Short runs in 2 of 3 configurations, as few as 4 gradients per worker (a).",
        ),
        (Note("few-steps", {"count": 1}), "Only 1 step: too few to be representative."),
        (
            Note("times-left-out", {"count": 1}),
            "Left out: 1 time of steps that some workers do not have.",
        ),
        (
            Note("too-short", {"count": 1, "who": "a", "more": ""}),
            "Too short to rank: 1 gradient per worker with a.",
        ),
        (
            Note(
                "soonest-too-few",
                {"target": "0.4", "tied": ("a", "b"), "time": "5 s", "last": "9 s", "count": 2},
            ),
            "2 replications are too few to say which is first to loss 0.4: a and b, "
            "after 5 s to 9 s.",
        ),
        (
            Note("short-configurations", SHORT | {"out": 1}),
            "Short runs in 2 of 3 configurations, as few as 4 gradients per worker (a); 1 too "
            "short to judge.",
        ),
        (
            Note("other-speed", {"speed": "0.5", "missed": ("t", "u"), "again": "--set x"}),
            "At 0.5 times the guessed speed, the answer misses t and u; to plan for that: --set x.",
        ),
        (
            Note("other-speed", {"speed": "1.5", "met": 2}),
            "At 1.5 times the guessed speed, the answer still meets every target.",
        ),
        (
            Note("other-speed", {"speed": "1.5", "rate": Number(9, unit="examples/s")}),
            "At 1.5 times the guessed speed, the answer does 9 examples/s.",
        ),
        (
            Note("other-speed", {"speed": "1.5", "failed": "it broke"}),
            "At 1.5 times the guessed speed, the answer fails: it broke.",
        ),
        (
            Note("close-to-answer", {"count": 1}),
            "Too close to call; others that qualify: 1. The answer has the lowest mean.",
        ),
        (
            Note("busiest", {"what": ("a",), "time": "compute 100 %", "alive": 1}),
            "Busiest in the answer: a. Worker time while nothing fails: compute 100 %.",
        ),
        (Note("busiest", {"time": "compute 100 %"}), "Worker time: compute 100 %."),
        (
            Note(
                "configurations-run",
                {"count": 1, "of": 2, "runs": 3, "left": 1, "objective": "step_time_mean"},
            ),
            "1 of 2 configurations tried, 3 runs; no other can be faster.",
        ),
        (Note("tie", {"tied": ("a", "b"), "rate": Number(2)}), "Tied fastest: a and b, 2."),
        (
            Note("close", {"tied": ("a", "b"), "low": Number(1), "high": Number(2)}),
            "Too close to call: a and b, at 1 to 2.",
        ),
        (
            Note("too-few", SPAN | {"tied": ("a", "b"), "count": 2, "more": "x"}),
            "2 replications are too few to rank a and b (1 to 2 s); try x.",
        ),
        (
            Note("price", {"stale": Number(7), "ages": "updates", "wasted": Number(0.2)}),
            "Trade-off: gradients are 7 updates stale and 0.200 of compute is wasted.",
        ),
        (
            Note("goodput", {"kept": Number(0.9, unit="share"), "lost": Number(0.1, unit="share")}),
            "Goodput 90 %; the rest: lost work 10 %.",
        ),
        (
            Note("target", {"target": "Target x", "met": ("a",), "unsure": ("b", "c")}),
            "Target x: met by a; undecided for b and c.",
        ),
        (
            Note("hopeless", {"who": "a", "needs": Number(300, unit="days")}),
            "a hardly progresses: 5 min to detect and restart.",
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
    fields = re.findall(r"(?:\{|\.\.)(\w+)", template)
    text = line(Note(code, dict.fromkeys(fields, "x")))
    assert len(text) <= 150, "with all its parts"
    assert not set("{}<>") & set(text)
    assert plain(Note(code, dict.fromkeys(fields, "x")))["code"] == code


def test_a_note_ends_with_its_code() -> None:
    assert coded(Note("exact")).endswith("  [exact]")


def test_each_note_has_its_paragraph() -> None:
    anchors = re.findall(r"^\(note-([a-z-]+)\)=$", DOCS.read_text(encoding="utf-8"), re.M)
    assert anchors == sorted(NOTES)
