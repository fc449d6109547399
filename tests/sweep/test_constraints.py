"""A line of `where`: what holds, what can be compared, and what is refused and where."""

import pytest

from varsim.core.units import DIMENSIONS
from varsim.scenario.where import ConstraintError, parse


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("a.b <= 3", True),
        ("a.b < 3", False),
        ("a.b - 1 == 2", True),
        ("2 * a.b + 1 >= 14 / 2", True),
        ("-a.b != 3", True),
        ("10 Gbit/s == 1250 MB/s", True),
        ("a.b * 20 ms > 59 ms", True),
        ("1.5e1 > a.b * 5", False),
    ],
)
def test_what_holds(text: str, holds: bool) -> None:
    assert parse(text).holds({"a.b": 3.0}.__getitem__) is holds


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("a.time <= 3 ms", True),
        ("a.time <= 3", False),
        ("a.time > 0", True),
        ("a.size / a.rate <= a.time", True),
        ("a.size * a.rate <= a.time", False),
        ("2 * a.count - 1 < a.count / 3", True),
        ("a.count / a.time < 5 examples/s", True),
        ("a.time + a.size < 3 s", False),
        ("a.flops * a.time > 1", False),
    ],
)
def test_like_is_compared_with_like(text: str, fits: bool) -> None:
    dimensions = {"a.time": "time", "a.size": "bytes", "a.rate": "rate", "a.flops": "flops"}
    if fits:
        parse(text).check(lambda path: dimensions.get(path, ""))
        return
    with pytest.raises(ConstraintError, match="is compared with"):
        parse(text).check(lambda path: dimensions.get(path, ""))


def test_every_unit_can_be_compared() -> None:
    for name, dimension in DIMENSIONS.items():
        parse(f"a <= {dimension.example}").check({"a": name}.__getitem__)


def test_the_paths_in_it() -> None:
    assert parse("a.b * 2 + c[0].d < e_f.1.g").paths == ["a.b", "c[0].d", "e_f.1.g"]


@pytest.mark.parametrize(
    ("text", "start", "said"),
    [
        ("a < b < c", 6, "one comparison per line"),
        ("a", 0, "one comparison per line"),
        ("a = 3", 2, "write == for"),
        ("a < __import__('os')", 14, "has no meaning here"),
        ("a b < 3", 2, "'b' where one of"),
        ("a < 3 +", 7, "a path or a number is missing"),
        ("< 3", 0, "a path or a number is missing"),
        ("a < * 3", 4, "'*' where a path or a number"),
        ("a < " + "1 + " * 200 + "1", 0, "more than 400 characters"),
    ],
)
def test_what_is_refused_and_where(text: str, start: int, said: str) -> None:
    with pytest.raises(ConstraintError, match=said.replace("*", r"\*")) as refused:
        parse(text)
    assert refused.value.start == start


def test_division_by_nothing() -> None:
    with pytest.raises(ValueError, match="division by 0"):
        parse("1 / a < 1").holds(lambda path: 0.0)
