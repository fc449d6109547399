"""Lines through times over sizes: through all of them, or those around one."""

import math

import pytest

from varsim.calibration.fragment import around, fit
from varsim.calibration.measurement import COLLECTIVES, pattern, transfer
from varsim.calibration.measurement import MeasuredTransfer as Transfer
from varsim.core.stream import stream

SIZES = [2.0**power for power in range(6, 28)]


def message(size: float, seconds: float) -> Transfer:
    return Transfer(size, seconds, 1, size)


def times(latency: float, bandwidth: float, sizes: list[float], noise: float = 0) -> list[Transfer]:
    draw = stream(3, 0, "noise")
    factors = [1 + noise * float(draw.standard_normal()) for _ in sizes]
    return [
        message(size, (latency + size / bandwidth) * factor)
        for size, factor in zip(sizes, factors, strict=True)
    ]


def test_two_times_are_met_exactly() -> None:
    # 1 ms + 2 s, 1 ms + 4 s at 1 byte per second
    line = fit([message(2, 2.001), message(4, 4.001)])

    assert line.latency == pytest.approx(1e-3)
    assert line.bandwidth == pytest.approx(1.0)


def test_latency_and_bandwidth_are_found_under_noise() -> None:
    measured = times(20e-6, 3e9, SIZES, noise=0.02)
    line = fit(measured)

    assert line.latency == pytest.approx(20e-6, rel=0.02)
    assert line.bandwidth == pytest.approx(3e9, rel=0.02)
    assert 0.01 < max(abs(line.error(one)) for one in measured) < 0.1


def test_errors_count_relative_to_the_time() -> None:
    # By absolute errors the last time would decide alone, and latency would be off by 10 times.
    measured = times(20e-6, 3e9, SIZES)
    measured[-1] = measured[-1]._replace(seconds=measured[-1].seconds * 1.05)

    assert fit(measured).latency == pytest.approx(20e-6, rel=0.01)


def test_neither_falls_below_zero() -> None:
    # The line through both begins at -1. From 0, (2 x - 1)^2 + (4 x / 3 - 1)^2 is least at 15 / 26.
    steep = fit([message(2, 1), message(4, 3)])
    falling = fit([message(2, 3), message(4, 1)])

    assert steep.latency == 0.0
    assert steep.per_byte == pytest.approx(15 / 26)
    assert falling.per_byte == 0.0
    assert falling.bandwidth == math.inf
    assert falling.latency == pytest.approx(1.2)  # (1/3 + 1) / (1/9 + 1)


def test_one_size_is_all_bandwidth() -> None:
    line = fit([message(100, 1), message(100, 1)])

    assert line.latency == 0.0
    assert line.per_byte == pytest.approx(0.01)


def test_a_protocol_switch_does_not_reach_sizes_far_from_it() -> None:
    small, large = SIZES[:11], SIZES[11:]  # to 64 kB, from 128 kB
    measured = [*times(5e-6, 1e9, small), *times(40e-6, 10e9, large)]
    below, above = fit(around(measured, 4e3)), fit(around(measured, 4e6))

    assert below.latency == pytest.approx(5e-6)
    assert below.bandwidth == pytest.approx(1e9)
    assert above.latency == pytest.approx(40e-6)
    assert above.bandwidth == pytest.approx(10e9)


def test_around_a_size_are_those_up_to_eight_times_it_and_three_at_least() -> None:
    measured = times(5e-6, 1e9, [1e3, 1e4, 2e4, 4e4, 8e4, 1e8])

    assert [one.size for one in around(measured, 1e4)] == [1e4, 2e4, 4e4, 8e4]
    assert [one.size for one in around(measured, 1e12)] == [4e4, 8e4, 1e8]
    assert around(measured[:1] * 3, 7) == measured[:1] * 3


def test_different_ranks_and_collectives_share_one_line() -> None:
    # 3 us and 5 GB/s, as each of them shows it.
    measured = [
        transfer(name, ranks, size, p.messages * 3e-6 + p.share * size / 5e9)
        for name in COLLECTIVES
        for ranks in (2, 8)
        for size in (1e3, 1e6, 1e9)
        for p in [pattern(name, ranks)]
    ]
    line = fit(measured)

    assert line.latency == pytest.approx(3e-6)
    assert line.bandwidth == pytest.approx(5e9)
    assert max(abs(line.error(one)) for one in measured) < 1e-9


@pytest.mark.parametrize(
    ("name", "messages", "share"),
    [
        ("all_reduce", 6, 1.5),
        ("all_gather", 3, 0.75),
        ("reduce_scatter", 3, 0.75),
        ("alltoall", 3, 0.75),
        ("broadcast", 3, 1.0),
        ("reduce", 3, 1.0),
        ("sendrecv", 1, 1.0),
    ],
)
def test_what_four_ranks_send(name: str, messages: int, share: float) -> None:
    found = pattern(name, 4)

    assert (found.messages, found.share, found.bus) == (messages, share, share)
