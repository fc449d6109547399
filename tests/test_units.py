"""Quantities are read exactly, refused with what to type, and written so that they read back."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from varsim.core.schema import Model
from varsim.core.units import (
    DIMENSIONS,
    Bytes,
    BytesPerSecond,
    FlopsPerSecond,
    Seconds,
    format_bytes,
    format_count,
    format_rate,
    format_seconds,
    parse,
    span,
    to_text,
)

dimensions = st.sampled_from(sorted(DIMENSIONS))
quick = settings(deadline=1000, max_examples=200)


class Quantities(Model):
    """One field of each quantity, with and without constraints."""

    time: Seconds = 1.0
    pause: Seconds | None = Field(None, ge=0)
    size: Bytes = Field(0.0, ge=0, le=1e12)
    rate: BytesPerSecond = 1.0
    flops: FlopsPerSecond = Field(1.0, gt=0)


def of_file(**values: object) -> Quantities:
    """Validated as a scenario file is."""
    return Quantities.model_validate(values, context={"text": True})


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [("-20 ms", "time", -0.02), ("0.0", "rate", 0.0)],
)
def test_a_quantity_may_be_0_or_less(text: str, dimension: str, value: float) -> None:
    """Where no field forbids it."""
    assert parse(text, dimension) == value


@quick
@given(
    dimensions.flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(sorted(DIMENSIONS[name].units)))
    ),
    st.decimals(-(10**12), 10**12, allow_nan=False, places=6),
)
def test_a_quantity_is_the_float_nearest_to_it(unit: tuple[str, str], number: Decimal) -> None:
    dimension, name = unit
    exact = Fraction(number) * DIMENSIONS[dimension].units[name]
    assert parse(f"{number:f} {name}", dimension) == float(exact)


@quick
@given(dimensions, st.floats(allow_nan=False, allow_infinity=False))
def test_any_float_survives_being_written(dimension: str, value: float) -> None:
    text = to_text(value, dimension)
    assert parse(text, dimension) == value
    assert text.split()[1] in DIMENSIONS[dimension].units


@quick
@given(dimensions, st.text(max_size=30) | st.from_regex(r"[0-9.]{1,4} ?[A-Za-z/]{0,6}"))
def test_any_text_is_a_finite_number_or_a_value_error(dimension: str, text: str) -> None:
    try:
        value = parse(text, dimension)
    except ValueError:
        return
    assert math.isfinite(value)


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (0.0, "time", "0 s"),
        (-0.0, "rate", "0 B/s"),
        (0.1, "time", "100 ms"),
        (1e-4, "time", "100 us"),
        (90.0, "time", "90 s"),
        (7200.0, "time", "2 h"),
        (-0.02, "time", "-20 ms"),
        (3.125e9, "rate", "25 Gbit/s"),
        (67108864.0, "bytes", "64 MiB"),
        (102e6, "bytes", "102 MB"),
        (1000.5e3, "bytes", "1.0005 MB"),
        (312e12, "flops", "312 TFLOP/s"),
        (1431.5, "throughput", "1431.5 examples/s"),
        (1 / 3, "time", "333.3333333333333 ms"),
    ],
)
def test_a_quantity_is_written_as_people_write_it(value: float, dimension: str, text: str) -> None:
    assert to_text(value, dimension) == text


def test_a_file_needs_units_and_a_program_does_not() -> None:
    assert Quantities(time=5, pause=0.5, size=3).time == 5.0
    assert of_file(time="5 s", pause=0, size=0.0) == Quantities(time=5.0, pause=0.0, size=0.0)
    with pytest.raises(ValidationError, match="5 has no unit: write for example 5 ms"):
        of_file(time=5)
    with pytest.raises(ValidationError, match=r"0\.5 has no unit"):
        of_file(pause=0.5)


@pytest.mark.parametrize("value", [True, None, [1], {"ms": 5}, b"5 s", 1 + 2j])
def test_a_quantity_of_another_type_is_refused(value: object) -> None:
    for read in (of_file, Quantities):
        with pytest.raises(ValidationError, match="must be a time with a unit, such as 20 ms"):
            read(time=value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**400])
def test_infinity_is_refused_from_a_program_too(value: Any) -> None:
    with pytest.raises(ValidationError, match="infinity and nan are not possible"):
        Quantities(time=value)


def test_the_constraints_of_a_field_apply_to_the_number() -> None:
    assert of_file(pause=None).pause is None
    assert of_file(time="-1 s").time == -1.0
    for values in ({"pause": "-1 s"}, {"size": "2 TB"}, {"size": "-1 B"}, {"flops": 0}):
        with pytest.raises(ValidationError, match="Input should be"):
            of_file(**values)


@quick
@given(
    st.builds(
        Quantities,
        time=st.floats(allow_nan=False, allow_infinity=False),
        pause=st.none() | st.floats(0, 1e9),
        size=st.floats(0, 1e12),
        rate=st.floats(0, 1e15),
        flops=st.floats(0, 1e20, exclude_min=True),
    )
)
def test_a_model_survives_being_written(quantities: Quantities) -> None:
    written = quantities.model_dump(mode="json")
    assert of_file(**written) == quantities
    assert all(isinstance(value, str | None) for value in written.values())
    # In a program numbers stay numbers.
    assert quantities.model_dump()["time"] == quantities.time


def test_the_schema_shows_text_with_a_unit_or_zero() -> None:
    import re

    schema = Quantities.model_json_schema()["properties"]["rate"]
    text, zero = schema["anyOf"]
    assert zero == {"const": 0}
    assert re.search(text["pattern"], text["examples"][0])
    assert not re.search(text["pattern"], "25 Gb/s")
    assert "Gbit/s" in schema["description"]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (format_seconds(1.23e-3), "1.23 ms"),
        (format_seconds(0), "0 s"),
        (format_seconds(999.9e-6), "1 ms"),
        (format_seconds(4.2e-8), "42 ns"),
        (format_seconds(1e-12), "0.001 ns"),
        (format_seconds(119), "119 s"),
        (format_seconds(120), "2 min"),
        (format_seconds(9000), "2.5 h"),
        (format_seconds(3.6e7), "10,000 h"),
        (format_seconds(1e30), "2.78e+26 h"),
        (format_seconds(-0.02), "-20 ms"),
        (format_seconds(math.nan), "nan"),
        (format_bytes(102.2e6), "102 MB"),
        (format_bytes(0), "0 B"),
        (format_bytes(999.6e3), "1 MB"),
        (format_bytes(12), "12 B"),
        (format_bytes(5e15), "5,000 TB"),
        (format_rate(25e9 / 8), "25 Gbit/s"),
        (format_rate(1.25e11), "1 Tbit/s"),
        (format_count(12345), "12,345"),
        (format_count(2.5), "2.5"),
        (format_count(0), "0"),
        (format_count(25_557_032), "25.6 million"),
        (format_count(4.09e9), "4.09 billion"),
        (format_count(2e15), "2,000 trillion"),
        (format_count(8e31), "8e+31"),
    ],
)
def test_numbers_are_shown_with_three_digits(shown: str, expected: str) -> None:
    assert shown == expected


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [(0, -1, ""), (3, 3, "3"), (0, 1, "0 and 1"), (0, 2, "0 to 2"), (5, 7, "5 to 7")],
)
def test_numbers_in_a_row_are_told_by_the_first_and_the_last(
    first: int, last: int, said: str
) -> None:
    assert span(first, last) == said
