"""Every number in a sentence is one of the run, and every formula holds as it is printed."""

import re
from fractions import Fraction

import pytest

from tests.explain.telling import acting, rows, sentences
from tests.seams import VariablesScenario

WRITES = ["assign, value: [3, 1, 2]", "add, value: [3, 1, 2]", "sub, value: 1"]
MOVE = "moving_average, momentum: 0.9, value: [3, 1, 2]"
OUTSIDE = ["read", "save", "restore"]


def everything() -> list[tuple[str, VariablesScenario]]:
    """Every mode with every aggregation, with round and with drawn numbers, scalars and arrays."""
    drawn = "{kind: normal, mean: 1, standard_deviation: 2}"
    found = []
    for mode in ("on_read", "on_write", "none"):
        for aggregation in ("none", "sum", "mean", "only_first_replica"):
            outside = OUTSIDE if (mode, aggregation) != ("on_read", "none") else []
            for shape in ("[]", "[2]", "[100]"):
                for last in ((), (f"add, value: {drawn}", f"sub, value: {drawn}")):
                    acts = [*WRITES, MOVE, "read", *last]
                    more = (f"variables.0.shape={shape}", "variables.0.initial=0.5")
                    made = acting(mode, aggregation, acts, outside, *more, "program.steps=2")
                    found.append((f"{mode} {aggregation} {shape} {len(last)}", made))
    return found


TERMS = r"((?:\(*-?[\d.]*\d\)*(?: [-+/] )?)+)"
FORMULA = re.compile(f"{TERMS} = {TERMS}")


def test_there_are_formulas_to_check() -> None:
    found = [text for _, made in everything() for text in sentences(made) if FORMULA.search(text)]
    assert len(found) > 30


def close(text: str, value: float) -> bool:
    """Is this the value, as it is printed?"""
    return abs(float(text) - value) <= 0.0006 * abs(value) + 1e-12


def exactly(terms: str) -> Fraction:
    """What a formula gives, with its numbers as they are printed."""
    value = eval(re.sub(r"[\d.]+", r"Fraction('\g<0>')", terms), {"Fraction": Fraction})
    assert isinstance(value, Fraction)
    return value


@pytest.mark.parametrize(("name", "made"), everything(), ids=lambda value: str(value)[:40])
class TestEveryNumberIsTrue:
    def test_formulas_hold_to_the_digit(self, name: str, made: VariablesScenario) -> None:
        for text in sentences(made):
            for left, right in FORMULA.findall(text):
                assert exactly(left) == exactly(right), (left, right)

    def test_what_is_read_was_seen(self, name: str, made: VariablesScenario) -> None:
        for row, text in zip(rows(made), sentences(made), strict=True):
            if made.variables[0].shape or row.action is None or row.action.kind not in OUTSIDE:
                continue
            (seen,) = {act.seen for act in row.acts} if row.outside else {row.acts[0].seen}
            number = re.search(r"-?\d[\d.e+-]*(?= |$|,|:)", text.split("ps 0: ")[-1])
            assert number is not None
            assert seen is not None
            assert close(number[0].rstrip("."), seen.first[0]), text

    def test_copies_become_what_was_written(self, name: str, made: VariablesScenario) -> None:
        for row, text in zip(rows(made), sentences(made), strict=True):
            if made.variables[0].shape or "is added to every copy" not in text:
                continue
            (written,) = re.findall(
                r"(?:their \w+|the) (-?[\d.e-]+)(?: = .*)?(?: of replica 0)? is", text
            )
            for before, after in zip(row.old, row.copies, strict=True):
                assert abs(after.first[0] - before.first[0] - float(written)) < 0.001 * (
                    abs(float(written)) + abs(after.first[0])
                )


def test_whole_numbers_wrap_around() -> None:
    more = ("variables.0.dtype=int32", "variables.0.initial=2000000000")
    (said,) = sentences(acting("on_write", "sum", ["add, value: 1000000000"], (), *more))
    assert "; their sum -1294967296 is added to every copy" in said
