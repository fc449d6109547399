"""Comparisons that leave points out of a sweep: `strategies.none.x <= 2 * cluster.workers`.

Two sums with one of <=, <, >=, >, == or != between them. A sum is made of products with + and -, a
product of values with * and /. A value is a number, a quantity (`10 Gbit/s`), or a path of the
scenario. There are no brackets. Python's `ast` reads what is left once values are names.
"""

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from varsim.core import units

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
_OPERATIONS: Final[Mapping[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.LtE: operator.le,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
}
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


class Token(NamedTuple):
    """One word of a comparison: its kind, its text, and where it begins, from 0."""

    kind: str
    text: str
    start: int

    @property
    def is_value(self) -> bool:
        """Whether it is a path or a number, and no sign."""
        return self.kind in ("quantity", "path")


class ConstraintError(ValueError):
    """A comparison that cannot be read; `start` is where, in characters from 0."""

    def __init__(self, start: int, message: str) -> None:
        super().__init__(message)
        self.start = start


@dataclass(frozen=True, slots=True)
class Constraint:
    """A comparison of two sums; `text` as it was written.

    `values`: by their places in the tree, paths, or numbers in SI with a key of units.DIMENSIONS.
    """

    text: str
    tree: ast.Compare
    values: Mapping[int, tuple[float | str, str]]

    def holds(self, lookup: Lookup) -> bool:
        """Whether it is true where `lookup` says what the paths are; ValueError if it cannot."""
        try:
            return bool(self._worked_out(self.tree, lookup))
        except ZeroDivisionError:
            raise ValueError("division by 0") from None

    @property
    def paths(self) -> list[str]:
        """All paths that occur in it, in order."""
        return [value for value, _ in self.values.values() if isinstance(value, str)]

    def check(self, dimension_of: Callable[[str], str]) -> None:
        """ConstraintError where unlike things are compared or added, such as a time and a rate.

        `dimension_of` says what a path is: a key of units.DIMENSIONS, or empty.
        """
        self._powers(self.tree, dimension_of)

    def _worked_out(self, node: ast.expr, lookup: Lookup) -> float:
        match node:
            case ast.BinOp(left, operation, right) | ast.Compare(left, [operation], [right]):
                sides = (self._worked_out(side, lookup) for side in (left, right))
                return float(_OPERATIONS[type(operation)](*sides))
            case ast.UnaryOp(operation, operand):
                return float(_OPERATIONS[type(operation)](self._worked_out(operand, lookup)))
        value, _ = self.values[node.col_offset]
        return lookup(value) if isinstance(value, str) else value

    def _powers(self, node: ast.expr, dimension_of: Callable[[str], str]) -> _Powers | None:
        """Of what it is a number; None of 0, which needs no unit."""
        match node:
            case ast.BinOp(left, operation, right) | ast.Compare(left, [operation], [right]):
                first, second = (self._powers(side, dimension_of) for side in (left, right))
                if isinstance(operation, ast.Mult | ast.Div):
                    found, sign = Counter(first or {}), 1 if isinstance(operation, ast.Mult) else -1
                    for unit, power in (second or {}).items():
                        found[unit] += sign * power
                    return {unit: power for unit, power in found.items() if power}
                if first is not None and second is not None and first != second:
                    message = f"{_noun(first)} is compared with {_noun(second)}"
                    raise ConstraintError(right.col_offset - 1, message)
                return second if first is None else first
            case ast.UnaryOp(_, operand):
                return self._powers(operand, dimension_of)
        value, dimension = self.values[node.col_offset]
        if value == 0:
            return None
        return _POWERS[dimension_of(value) if isinstance(value, str) else dimension]


def parse(text: str) -> Constraint:
    """The comparison in a text; ConstraintError says what is wrong with it, and where."""
    tokens = list(_tokens(text))
    compared = [token.start for token in tokens if token.kind == "compare"]
    if len(compared) != 1:
        start = compared[1] if compared else 0
        raise ConstraintError(start, f"one comparison per line; {_EXAMPLE}")
    before = ""
    for token in (*tokens, Token("end", "", len(text))):
        if token.is_value and before == "value":
            message = f"{token.text!r} where one of + - * / or a comparison is expected"
            raise ConstraintError(token.start, message)
        if not token.is_value and before != "value" and token.text not in ("+", "-"):
            if token.kind == "sign":
                message = f"{token.text!r} where a path or a number is expected"
                raise ConstraintError(token.start, message)
            message = f"a path or a number is missing here; {_EXAMPLE}"
            raise ConstraintError(token.start, message)
        before = "value" if token.is_value else token.kind
    source = " " * len(text)
    for token in tokens:  # each where it was, so that the tree says where it is
        said = "x" if token.is_value else token.text
        source = source[: token.start] + said + source[token.start + len(said) :]
    tree = ast.parse(f"({source})", mode="eval").body
    assert isinstance(tree, ast.Compare), "there are no other signs"
    values = {token.start + 1: _value(token) for token in tokens if token.is_value}
    return Constraint(text, tree, values)


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


def _noun(powers: _Powers) -> str:
    """What such a number is called, and how it is written."""
    if not powers:
        return "a number without unit"
    for name, known in _POWERS.items():
        if powers == known:
            return f"{units.DIMENSIONS[name].noun} (such as {units.DIMENSIONS[name].example})"
    return "a number in " + " ".join(f"{unit}^{power}" for unit, power in powers.items())
