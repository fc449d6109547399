"""Quantities of a file are read exactly, and refused with what to type."""

from functools import reduce
from typing import Any, Final

import pytest

from varsim import ScenarioError, load

# A field of each dimension that takes any number from 0 on.
FIELDS: Final = {
    "time": "cluster.network.latency",
    "rate": "cluster.network.bandwidth",
    "bytes": "memory.device",
    "flops": "cluster.device.peak",
    "throughput": "targets.throughput",
}


def of_file(text: str, dimension: str) -> Any:
    """The number that a text is to a scenario."""
    given: dict[str, Any] = {
        "name": "quantities",
        "cluster": {
            "workers": 2,
            "device": {"peak": "1 TFLOP/s"},
            "network": {"bandwidth": "1 Gbit/s", "latency": "1 us"},
        },
        "workload": {"model": "resnet50", "batch_size": 1, "problem": {"kind": "timing"}},
        "strategies": [{"kind": "on_write"}],
        "stop": {"global_steps": 1},
        "memory": {"device": "100 GB", "exceeded": "mark"},
        "targets": {"throughput": "1 examples/s"},
    }
    *path, key = FIELDS[dimension].split(".")
    reduce(dict.__getitem__, path, given)[key] = text
    return reduce(getattr, (*path, key), load(given).scenario)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("100 us", "time", 1e-4),
        ("3 us", "time", 3e-6),
        ("0.3 ms", "time", 3e-4),
        ("7 ns", "time", 7e-9),
        ("1.5 min", "time", 90.0),
        ("2 h", "time", 7200.0),
        ("+5s", "time", 5.0),
        (".5 s", "time", 0.5),
        ("5. s", "time", 5.0),
        ("1e-3 s", "time", 1e-3),
        ("  4  s ", "time", 4.0),
        ("0", "time", 0.0),
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
    assert of_file(text, dimension) == value


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
    with pytest.raises(ScenarioError) as caught:
        of_file(text, dimension)
    (fault,) = caught.value.problems
    assert message in fault.message
    assert len(fault.message) < 200
