"""Quantities of a file are read exactly; `mistakes.yaml` holds what is said of wrong ones."""

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
    return reduce(getattr, (*path, key), load(given))


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
        ("70 FLOP/s", "flops", 70.0),
        ("1200 examples/s", "throughput", 1200.0),
    ],
)
def test_a_quantity_is_read(text: str, dimension: str, value: float) -> None:
    assert of_file(text, dimension) == value


def test_a_long_text_is_shown_shortened() -> None:
    with pytest.raises(ScenarioError) as caught:
        of_file("9" * 5000 + " s", "time")
    (fault,) = caught.value.problems
    assert "..." + "' is not a time" in fault.message
    assert len(fault.message) < 200
