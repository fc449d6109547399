"""Comparisons that leave points out of a sweep: `strategies.none.x <= 2 * cluster.workers`.

A comparison is a sum, one of <=, <, >=, >, == or !=, and a sum. A sum is made of products with
+ and -, a product of values with * and /. A value is a number, a quantity (`10 Gbit/s`), or a
path of the scenario. There are no brackets.
"""

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from varsim import units

# Says what a path is at a point: a number in SI. Raises ValueError where it is none.
Lookup: TypeAlias = Callable[[str], float]

_EXAMPLE: Final = "write a comparison such as 'cluster.parameter_servers <= cluster.workers'"
_LONGEST: Final = 400
_UNITS: Final = sorted(
    {unit for dimension in units.DIMENSIONS.values() for unit in dimension.units},
    key=len,
    reverse=True,
)
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<compare><=|>=|==|!=|<|>)"
    r"|(?P<quantity>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    rf"(?:[ \t]*(?:{'|'.join(map(re.escape, _UNITS))})(?![A-Za-z0-9_.]))?)"
    r"|(?P<path>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+|\[[0-9]+\])*)"
    r"|(?P<sign>[-+*/]))"
)
_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


class Token(NamedTuple):
    """One word of a comparison: its kind, its text, and where it begins, from 0."""

    kind: str
    text: str
    start: int


class ConstraintError(ValueError):
    """A comparison that cannot be read; `start` is where, in characters from 0."""

    def __init__(self, start: int, message: str) -> None:
        super().__init__(message)
        self.start = start


class Factor(NamedTuple):
    """A number in SI or a path, whether it multiplies or divides, and where it begins."""

    operation: str
    value: float | str
    dimension: str  # of a number: a key of units.DIMENSIONS, or empty
    start: int


_Product: TypeAlias = tuple[Factor, ...]
_Sum: TypeAlias = tuple[tuple[str, _Product], ...]
# What a number counts: exponents of seconds, bytes and so on; none for a plain number.
_Powers: TypeAlias = Mapping[str, int]
_POWERS: Final[Mapping[str, _Powers]] = {
    "": {},
    "time": {"s": 1},
    "bytes": {"B": 1},
    "rate": {"B": 1, "s": -1},
    "flops": {"FLOP": 1, "s": -1},
    "throughput": {"s": -1},
}


@dataclass(frozen=True, slots=True)
class Constraint:
    """A comparison of two sums; `text` as it was written."""

    text: str
    left: _Sum
    compare: str
    right: _Sum

    def holds(self, lookup: Lookup) -> bool:
        """Whether it is true where `lookup` says what the paths are; ValueError if it cannot."""
        return _COMPARE[self.compare](_sum(self.left, lookup), _sum(self.right, lookup))

    @property
    def paths(self) -> list[str]:
        """All paths that occur in it, in order."""
        factors = (factor for _, product in (*self.left, *self.right) for factor in product)
        return [factor.value for factor in factors if isinstance(factor.value, str)]

    def check(self, dimension_of: Callable[[str], str]) -> None:
        """ConstraintError where unlike things are compared or added, such as a time and a rate.

        `dimension_of` says what a path is: a key of units.DIMENSIONS, or empty.
        """
        first: _Powers | None = None
        for _, product in (*self.left, *self.right):
            if all(factor.value == 0 for factor in product):  # 0 needs no unit
                continue
            powers = _powers(product, dimension_of)
            if first is None:
                first = powers
            elif powers != first:
                one, other = _noun(first), _noun(powers)
                raise ConstraintError(product[0].start, f"{one} is compared with {other}")


def parse(text: str) -> Constraint:
    """The comparison in a text; ConstraintError says what is wrong with it, and where."""
    tokens = list(_tokens(text))
    where = [index for index, token in enumerate(tokens) if token.kind == "compare"]
    if len(where) != 1:
        if re.search(r"(?<![<>=!])=(?!=)", text):
            raise ConstraintError(text.index("="), "write == for 'is equal to'")
        start = tokens[where[1]].start if where else 0
        raise ConstraintError(start, f"one comparison per line; {_EXAMPLE}")
    middle = where[0]
    compare = tokens[middle]
    end = Token("end", "", len(text))
    left = _parsed_sum([*tokens[:middle], compare])
    return Constraint(text, left, compare.text, _parsed_sum([*tokens[middle + 1 :], end]))


def _tokens(text: str) -> Iterator[Token]:
    if len(text) > _LONGEST:
        raise ConstraintError(0, f"more than {_LONGEST} characters; {_EXAMPLE}")
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            if text[start] == "=":
                raise ConstraintError(start, "write == for 'is equal to'")
            raise ConstraintError(start, f"{text[start]!r} has no meaning here; {_EXAMPLE}")
        kind = match.lastgroup
        assert kind is not None
        yield Token(kind, match[kind], match.start(kind))
        position = match.end()


def _parsed_sum(tokens: list[Token]) -> _Sum:
    """The sum that a list of tokens says; its last token stands behind the sum."""
    products: list[tuple[str, _Product]] = []
    factors: list[Factor] = []
    sign, operation = "+", "*"
    expects_value = True
    for token in tokens[:-1]:
        if expects_value and token.kind in ("quantity", "path"):
            factors.append(Factor(operation, *_value(token), token.start))
        elif expects_value and token.text in "+-" and not products and not factors:
            sign = token.text
            continue
        elif not expects_value and token.text in "*/":
            operation = token.text
        elif not expects_value and token.text in "+-":
            products.append((sign, tuple(factors)))
            factors, sign, operation = [], token.text, "*"
        else:
            wanted = "a path or a number" if expects_value else "one of + - * / or a comparison"
            raise ConstraintError(token.start, f"{token.text!r} where {wanted} is expected")
        expects_value = not expects_value
    if expects_value:
        raise ConstraintError(tokens[-1].start, f"a path or a number is missing here; {_EXAMPLE}")
    return (*products, (sign, tuple(factors)))


def _value(token: Token) -> tuple[float | str, str]:
    """A path, or a number in SI and its dimension."""
    if token.kind == "path":
        return token.text, ""
    number = re.match(r"[0-9.]+(?:[eE][+-]?[0-9]+)?", token.text)
    assert number is not None
    unit = token.text[number.end() :].strip()
    if not unit:
        return float(token.text), ""
    (dimension,) = (name for name, known in units.DIMENSIONS.items() if unit in known.units)
    return units.parse(token.text, dimension), dimension


def _powers(product: _Product, dimension_of: Callable[[str], str]) -> _Powers:
    found: Counter[str] = Counter()
    for factor in product:
        path = factor.value
        dimension = dimension_of(path) if isinstance(path, str) else factor.dimension
        for unit, power in _POWERS[dimension].items():
            found[unit] += power if factor.operation == "*" else -power
    return {unit: power for unit, power in found.items() if power}


def _noun(powers: _Powers) -> str:
    """What such a number is called, and how it is written."""
    if not powers:
        return "a number without unit"
    for name, known in _POWERS.items():
        if powers == known:
            return f"{units.DIMENSIONS[name].noun} (such as {units.DIMENSIONS[name].example})"
    return "a number in " + " ".join(f"{unit}^{power}" for unit, power in powers.items())


def _sum(terms: _Sum, lookup: Lookup) -> float:
    total = 0.0
    for sign, product in terms:
        value = 1.0
        for factor in product:
            number = lookup(factor.value) if isinstance(factor.value, str) else factor.value
            if factor.operation == "/" and number == 0:
                raise ValueError("division by 0")
            value = value / number if factor.operation == "/" else value * number
        total += -value if sign == "-" else value
    return total
