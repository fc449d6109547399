"""Quantities: text with a unit in a scenario file, SI numbers in code, one closed table between.

Numbers are read as exact fractions and rounded once, so `100 us` is the float nearest to 1e-4.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Annotated, Final, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, ValidationInfo, WithJsonSchema


@dataclass(frozen=True, slots=True)
class Dimension:
    """One kind of quantity: what to call it, its units in SI, an example to type."""

    noun: str
    units: Mapping[str, Fraction]
    example: str

    def __hash__(self) -> int:
        """By name: the types below carry their dimension, and types must be hashable."""
        return hash(self.noun)


_DECIMAL: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}

# The base unit of each dimension is the one worth 1; `to_text` relies on there being one.
DIMENSIONS: Final[Mapping[str, Dimension]] = {
    "time": Dimension(
        "a time",
        {
            "s": Fraction(1),
            "ms": Fraction(1, 10**3),
            "us": Fraction(1, 10**6),
            "ns": Fraction(1, 10**9),
            "min": Fraction(60),
            "h": Fraction(3600),
            "d": Fraction(86_400),
        },
        "20 ms",
    ),
    "bytes": Dimension(
        "a size",
        {
            **{f"{prefix}B": Fraction(_DECIMAL[prefix]) for prefix in ("", *"kMGT")},
            **{f"{prefix}B": Fraction(size) for prefix, size in _BINARY.items()},
        },
        "64 MiB",
    ),
    "rate": Dimension(
        "a rate",
        {
            **{f"{prefix}bit/s": Fraction(_DECIMAL[prefix], 8) for prefix in ("", *"kMGT")},
            **{f"{prefix}B/s": Fraction(_DECIMAL[prefix]) for prefix in ("", *"kMG")},
            **{f"{prefix}B/s": Fraction(_BINARY[prefix]) for prefix in ("Ki", "Mi", "Gi")},
        },
        "25 Gbit/s",
    ),
    "flops": Dimension(
        "a computing rate",
        {f"{prefix}FLOP/s": Fraction(_DECIMAL[prefix]) for prefix in ("", *"GTP")},
        "312 TFLOP/s",
    ),
    "throughput": Dimension(
        "a throughput",
        {"examples/s": Fraction(1)},
        "1200 examples/s",
    ),
}


def parse(text: str, dimension: str) -> float:
    """The SI value of a quantity such as `25 Gbit/s`, rounded once from the exact fraction.

    `dimension` is a key of DIMENSIONS. Raises ValueError saying what to type instead.
    """
    known = DIMENSIONS[dimension]
    wanted = f"write {known.noun} such as {known.example}"
    text = text.strip()
    match = _QUANTITY.fullmatch(text)
    if match is None or len(match["number"]) > _LONGEST_NUMBER:
        if _COMMA.match(text):
            raise ValueError(f"{_short(text)} has a comma: write 1000 and 0.5, not 1,000 and 0,5")
        if _NO_NUMBER.match(text):
            raise ValueError(f"infinity and nan are not possible: {wanted}")
        raise ValueError(f"{_short(text)} is not {known.noun}: {wanted}")
    number, unit = Decimal(match["number"]), match["unit"]
    if not unit:
        if number == 0:
            return 0.0
        raise ValueError(_bare(match["number"], known))
    if unit not in known.units:
        raise ValueError(_unknown_unit(unit, dimension))
    if number == 0:
        return 0.0
    # Checked before the exact arithmetic, which would build a number of that many digits.
    if abs(number.adjusted()) > _LARGEST_EXPONENT:
        raise ValueError(f"{_short(text)} is beyond what a number can hold")
    try:
        value = float(Fraction(number) * known.units[unit])
    except OverflowError:
        value = 0.0
    if value == 0.0:
        raise ValueError(f"{_short(text)} is beyond what a number can hold")
    return value


def to_text(value: float, dimension: str) -> str:
    """The shortest readable text with a unit from which `parse` gives exactly this float."""
    if value == 0:
        return f"0 {next(unit for unit, size in DIMENSIONS[dimension].units.items() if size == 1)}"
    exact, best, cost = Fraction(value), "", math.inf
    for unit, size in DIMENSIONS[dimension].units.items():
        try:
            scaled = float(exact / size)
            digits = repr(scaled).removesuffix(".0")
            same = float(Fraction(digits) * size) == value
        except OverflowError:
            continue
        # Two more digits are accepted for a number that stays between 1 and 1000.
        this = len(digits) + (0 if 1 <= abs(scaled) < 1000 else 2)
        if same and this < cost:
            best, cost = f"{digits} {unit}", this
    return best


def format_seconds(value: float) -> str:
    """A time for people, three digits: `1.23 ms`."""
    if abs(value) >= 7200:
        return _scaled(value, {"h": 3600})
    if abs(value) >= 120:
        return _scaled(value, {"min": 60})
    return _scaled(value, {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9})


def format_bytes(value: float) -> str:
    """A size for people, three digits, in powers of 1000: `102 MB`."""
    return _scaled(value, {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1})


def format_rate(value: float) -> str:
    """Bytes/s for people, three digits, in bits as links are sold: `25 Gbit/s`."""
    names = {"Tbit/s": 1e12, "Gbit/s": 1e9, "Mbit/s": 1e6, "kbit/s": 1e3, "bit/s": 1}
    return _scaled(value * 8, names)


def format_operations(value: float) -> str:
    """Floating-point operations for people, three digits: `24.5 GFLOP`."""
    names = {"PFLOP": 1e15, "TFLOP": 1e12, "GFLOP": 1e9, "MFLOP": 1e6, "kFLOP": 1e3, "FLOP": 1}
    return _scaled(value, names)


def counted(count: int, one: str, many: str = "") -> str:
    """`1 worker`, `8 workers`; `many`: where that is not `one` with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def span(first: int, last: int) -> str:
    """Numbers in a row, as ranks of workers: `3`, `0 and 1`, `0 to 6`; of none nothing."""
    if last - first < 2:
        return " and ".join(map(str, range(first, last + 1)))
    return f"{first} to {last}"


def format_count(value: float) -> str:
    """A number of things for people: `12,345`, `25.6 million`, `1.11e+32`."""
    if 1e18 <= abs(value) < math.inf:
        return f"{value:.3g}"
    if abs(value) < 1e6:
        return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
    return _scaled(value, {"trillion": 1e12, "billion": 1e9, "million": 1e6})


def _scaled(value: float, names: Mapping[str, float]) -> str:
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return f"0 {next(name for name, size in names.items() if size == 1)}"
    # Rounded before the unit is chosen, so that 999.9 us becomes 1 ms.
    value = float(f"{value:.3g}")
    name, size = next(
        ((name, size) for name, size in names.items() if abs(value) >= size * (1 - 1e-12)),
        list(names.items())[-1],
    )
    scaled = value / size
    digits = f"{scaled:,.0f}" if 999.5 <= abs(scaled) < 1e15 else f"{scaled:.3g}"
    return f"{digits} {name}"


_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?)"
    r"[ \t]*(?P<unit>[^\s0-9.,+-]\S{0,19})?"
)
_COMMA: Final = re.compile(r"[+-]?[0-9]+,[0-9]")
_NO_NUMBER: Final = re.compile(r"[+-]?\.?(inf|infinity|nan)\b", re.IGNORECASE)
_LONGEST_NUMBER: Final = 400
_LARGEST_EXPONENT: Final = 400

# What people write for a time.
_TIME_WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("msec", "msecs", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("usec", "usecs", "microsecond", "microseconds", "mus"), "us"),
    **dict.fromkeys(("\u00b5s", "\u03bcs", "\u00b5sec", "\u03bcsec"), "us"),
    **dict.fromkeys(("nsec", "nsecs", "nanosecond", "nanoseconds"), "ns"),
    **dict.fromkeys(("mins", "minute", "minutes", "mn"), "min"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    "m": "min or ms",
}
# What people write behind the prefix of another unit, and what they may mean by it.
_BODIES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "time": {},
    "bytes": {
        "": ("B", "iB"),
        **dict.fromkeys(("B", "byte", "bytes"), ("B",)),
        **dict.fromkeys(("iB", "ib", "ibyte", "ibytes"), ("iB",)),
    },
    "rate": {
        **dict.fromkeys(("", "b", "b/s", "bps", "b/sec"), ("bit/s", "B/s")),
        **dict.fromkeys(("bit", "bits", "bit/s", "bits/s", "bit/sec", "bits/sec"), ("bit/s",)),
        **dict.fromkeys(("B", "B/s", "Bps", "B/sec", "byte/s", "bytes/s"), ("B/s",)),
        **dict.fromkeys(("iB", "iB/s", "iBps", "ib", "ib/s", "ibps"), ("iB/s",)),
    },
    "flops": dict.fromkeys(
        ("", "flop", "flops", "flop/s", "flops/s", "flop/sec", "op/s", "ops"), ("FLOP/s",)
    ),
    "throughput": {},
}
_PREFIXED: Final = re.compile(r"([kmgtp]?)(i?b.*|op.*|flop.*|)", re.IGNORECASE)


def _unknown_unit(unit: str, dimension: str) -> str:
    """What to type instead of this unit."""
    known, said, all_units = DIMENSIONS[dimension], _short(unit), _listed(dimension)
    if dimension == "time" and unit.lower() in _TIME_WORDS:
        return f"unknown unit {said}: write {_TIME_WORDS[unit.lower()]}"
    # Bits are not taken for bytes: the advice would be wrong by a factor of 8.
    if dimension == "bytes" and re.fullmatch(r"[kKmMgGtT]?i?b(its?)?", unit):
        return f"{said} may mean bits; a size is in bytes, 8 bits each: {all_units}"
    options = _meant(unit, dimension)
    if len(options) > 1:
        return f"{said} is ambiguous: write {' or '.join(options)}"
    if options:
        return f"unknown unit {said}: write {options[0]}"
    for other in DIMENSIONS.values():
        if unit in other.units:
            return f"{said} is the unit of {other.noun}; {known.noun} is needed: {all_units}"
    # Perhaps a prefix we do not have, as in TB/s or MFLOP/s.
    near = [name for name in known.units if len(unit) > 2 and name[1:] == unit[1:]]
    near = near or get_close_matches(unit, known.units, n=1)
    guess = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"unknown unit {said}{guess} (units: {all_units})"


def _meant(unit: str, dimension: str) -> list[str]:
    """The units the writer may have had in mind, none if there is no telling."""
    units = DIMENSIONS[dimension].units
    match, bodies = _PREFIXED.fullmatch(unit), _BODIES[dimension]
    forms: tuple[str, ...] = ()
    prefix = ""
    if match is not None:
        prefix, body = match.groups()
        forms = bodies.get(body) or bodies.get(body.lower(), ())
        # K is kilo to some and 1024 to others; M, G and T are taken at their word.
        if prefix == "K":
            forms = (*forms, *(f"i{form}" for form in forms if form[0] == "B"))
    options = [_prefix(prefix, form) + form for form in dict.fromkeys(forms)]
    found = [option for option in options if option in units]
    return found or [name for name in units if name.lower() == unit.lower()][:1]


def _prefix(letter: str, form: str) -> str:
    return "k" if letter in ("k", "K") and form[0] != "i" else letter.upper()


def _listed(dimension: str) -> str:
    return ", ".join(DIMENSIONS[dimension].units)


def _bare(number: str, known: Dimension) -> str:
    unit, said = known.example.partition(" ")[2], _short(number, quoted=False)
    longer = f" or {said} s" if "s" in known.units else ""
    return (
        f"{said} has no unit: write for example {said} {unit}{longer} "
        f"(units: {', '.join(known.units)})"
    )


def _short(text: str, *, quoted: bool = True) -> str:
    shown = text if len(text) <= 40 else text[:37] + "..."
    return repr(shown) if quoted else shown


def _validator(dimension: str) -> Callable[[object, ValidationInfo], object]:
    """Turns what a scenario or a caller gave into a float, before the field's own constraints."""
    known = DIMENSIONS[dimension]

    def read(value: object, info: ValidationInfo) -> object:
        if isinstance(value, str):
            return parse(value, dimension)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"must be {known.noun} with a unit, such as {known.example}")
        in_file = bool(info.context and info.context.get("text"))
        if in_file and value != 0:
            raise ValueError(_bare(repr(value), known))
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise ValueError(f"infinity and nan are not possible: write {known.example}")
        return number

    return read


def _schema(dimension: str) -> WithJsonSchema:
    known = DIMENSIONS[dimension]
    units = "|".join(re.escape(unit) for unit in known.units)
    return WithJsonSchema(
        {
            "anyOf": [
                {
                    "type": "string",
                    "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
                    rf"[ \t]*({units})$",
                    "examples": [known.example],
                },
                {"const": 0},
            ],
            "description": f"{known.noun} with its unit: {', '.join(known.units)}",
        }
    )


def _read_as(dimension: str) -> tuple[object, ...]:
    """Metadata of a quantity's type: what it is, how it is read, written, and in the schema."""
    return (
        DIMENSIONS[dimension],
        BeforeValidator(_validator(dimension)),
        PlainSerializer(lambda value: to_text(value, dimension), str, "json"),
        _schema(dimension),
    )


Seconds: TypeAlias = Annotated[float, *_read_as("time")]
Bytes: TypeAlias = Annotated[float, *_read_as("bytes")]
BytesPerSecond: TypeAlias = Annotated[float, *_read_as("rate")]
FlopsPerSecond: TypeAlias = Annotated[float, *_read_as("flops")]
ExamplesPerSecond: TypeAlias = Annotated[float, *_read_as("throughput")]
