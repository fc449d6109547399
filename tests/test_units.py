"""Quantities are read exactly, refused with what to type, and written so that they read back."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from varsim.units import (
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
from varsim.values.schema import Model

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
    [
        ("100 us", "time", 1e-4),
        ("3 us", "time", 3e-6),
        ("0.3 ms", "time", 3e-4),
        ("7 ns", "time", 7e-9),
        ("1.5 min", "time", 90.0),
        ("2 h", "time", 7200.0),
        ("-20 ms", "time", -0.02),
        ("+5s", "time", 5.0),
        (".5 s", "time", 0.5),
        ("5. s", "time", 5.0),
        ("1e-3 s", "time", 1e-3),
        ("  4  s ", "time", 4.0),
        ("0", "time", 0.0),
        ("0.0", "rate", 0.0),
        ("0e99999 s", "time", 0.0),
        ("1 B", "bytes", 1.0),
        ("3 kB", "bytes", 3e3),
        ("64 MiB", "bytes", 67108864.0),
        ("1 TiB", "bytes", 2.0**40),
        ("25 Gbit/s", "rate", 3.125e9),
        ("8 bit/s", "rate", 1.0),
        ("1 Tbit/s", "rate", 1.25e11),
        ("10 GB/s", "rate", 1e10),
        ("1 GiB/s", "rate", 2.0**30),
        ("312 TFLOP/s", "flops", 312e12),
        ("1.979 PFLOP/s", "flops", 1.979e15),
        ("7 FLOP/s", "flops", 7.0),
        ("1200 examples/s", "throughput", 1200.0),
    ],
)
def test_a_quantity_is_read(text: str, dimension: str, value: float) -> None:
    assert parse(text, dimension) == value


@pytest.mark.parametrize(
    ("text", "dimension", "message"),
    [
        # a unit spelt in another way
        ("5 sec", "time", "unknown unit 'sec': write s"),
        ("5 Seconds", "time", "write s"),
        ("5 msec", "time", "write ms"),
        ("5 mS", "time", "write ms"),
        ("5 MS", "time", "write ms"),
        ("5 usec", "time", "write us"),
        ("5 \u00b5s", "time", "write us"),
        ("5 \u03bcs", "time", "write us"),
        ("5 m", "time", "write min or ms"),
        ("5 minutes", "time", "write min"),
        ("5 hr", "time", "write h"),
        ("5 H", "time", "write h"),
        ("1 day", "time", "write d"),
        ("5 fortnights", "time", "unknown unit 'fortnights' (units: s, ms, us, ns, min, h, d)"),
        ("1 MIB", "bytes", "write MiB"),
        ("1 mB", "bytes", "write MB"),
        ("1 bytes", "bytes", "write B"),
        ("25 gbit/s", "rate", "write Gbit/s"),
        ("25 Gbit", "rate", "write Gbit/s"),
        ("25 Gbits/s", "rate", "write Gbit/s"),
        ("25 GB", "rate", "write GB/s"),
        ("25 GBps", "rate", "write GB/s"),
        ("2 gib/s", "rate", "write GiB/s"),
        ("312 TFLOPS", "flops", "write TFLOP/s"),
        ("312 tflop/s", "flops", "write TFLOP/s"),
        ("312 T", "flops", "write TFLOP/s"),
        ("312 TOPS", "flops", "write TFLOP/s"),
        # one that could be two things
        ("25 Gb/s", "rate", "'Gb/s' is ambiguous: write Gbit/s or GB/s"),
        ("25 Gbps", "rate", "'Gbps' is ambiguous: write Gbit/s or GB/s"),
        ("25 G", "rate", "'G' is ambiguous: write Gbit/s or GB/s"),
        ("1 KB/s", "rate", "'KB/s' is ambiguous: write kB/s or KiB/s"),
        ("1 KB", "bytes", "'KB' is ambiguous: write kB or KiB"),
        ("1 M", "bytes", "'M' is ambiguous: write MB or MiB"),
        ("1 Mb", "bytes", "'Mb' may mean bits; a size is in bytes, 8 bits each"),
        ("1 Mbit", "bytes", "'Mbit' may mean bits"),
        ("1 Mib", "bytes", "'Mib' may mean bits"),
        # a prefix or a dimension that is not there
        ("1 TB/s", "rate", "unknown unit 'TB/s'; did you mean kB/s or MB/s or GB/s?"),
        ("1 MFLOP/s", "flops", "did you mean GFLOP/s or TFLOP/s or PFLOP/s?"),
        ("1 bit/m", "rate", "unknown unit 'bit/m'; did you mean bit/s?"),
        ("5 GB", "time", "'GB' is the unit of a size; a time is needed: s, ms"),
        ("5 ms", "rate", "'ms' is the unit of a time; a rate is needed: bit/s"),
        # no unit, no number
        ("32", "time", "32 has no unit: write for example 32 ms or 32 s (units: s, ms"),
        ("32", "rate", "32 has no unit: write for example 32 Gbit/s"),
        ("", "time", "'' is not a time: write a time such as 20 ms"),
        ("s", "time", "'s' is not a time"),
        ("five s", "time", "'five s' is not a time"),
        ("5 s s", "time", "'5 s s' is not a time"),
        ("5-6 s", "time", "'5-6 s' is not a time"),
        ("0x10 s", "time", "'0x10 s' is not a time"),
        ("1_000 s", "time", "'1_000 s' is not a time"),
        ("1h30", "time", "unknown unit 'h30'"),
        ("1,5 s", "time", "'1,5 s' has a comma: write 1000 and 0.5"),
        ("1,000 B", "bytes", "'1,000 B' has a comma"),
        ("\u0661\u0662 s", "time", "is not a time"),
        ("5 s; rm -rf", "time", "is not a time"),
        # no such number
        ("inf s", "time", "infinity and nan are not possible: write a time such as 20 ms"),
        ("-.inf", "time", "infinity and nan are not possible"),
        ("NaN s", "time", "infinity and nan are not possible"),
        ("1e999 s", "time", "'1e999 s' is beyond what a number can hold"),
        ("1e-999 s", "time", "'1e-999 s' is beyond what a number can hold"),
        ("1e300 TB", "bytes", "'1e300 TB' is beyond what a number can hold"),
        ("1e-320 ns", "time", "'1e-320 ns' is beyond what a number can hold"),
        ("1e999999999 s", "time", "'1e999999999 s' is not a time"),
        ("9" * 5000 + " s", "time", "..." + "' is not a time"),
    ],
)
def test_anything_else_is_refused_with_what_to_type(
    text: str, dimension: str, message: str
) -> None:
    with pytest.raises(ValueError) as caught:
        parse(text, dimension)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 200


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
