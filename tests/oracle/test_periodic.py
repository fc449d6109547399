"""Strategies that average now and then do what the rules of the recorded cases make of them.

More: pytest tests/oracle/test_periodic.py --scenarios 10000 --first 1000.
"""

from collections import Counter

import pytest

from tests.conformance.in_between.averaged import local_sgd
from tests.conformance.in_between.outer import diloco
from tests.oracle import periodic

SAMPLE = range(300)


def test_local_sgd_to_the_last_bit(seeds: range) -> None:
    for seed in seeds:
        record = periodic.local_sgd(seed)
        try:
            local_sgd(record)
        except AssertionError as error:
            pytest.fail(f"case {seed}: {error}\n{record}")


def test_diloco_to_the_last_bit(seeds: range) -> None:
    for seed in seeds:
        record = periodic.diloco(seed)
        try:
            diloco(record)
        except AssertionError as error:
            pytest.fail(f"case {seed}: {error}\n{record}")


def test_what_is_drawn_of_diloco() -> None:
    met: Counter[str] = Counter()
    for seed in SAMPLE:
        case = periodic.diloco(seed)
        met[case["convention"]] += 1
        met["streaming"] += case["fragments"] > 1
        met["delay"] += case["delay"] > 0
        met["several under way"] += case["delay"] > case["inner_steps"] // case["fragments"]
        met["mixing"] += 0 < case["mixing"] < 1
        met["sent in vain"] += case["expect"]["left"] > 0
        met["waits"] += any(case["expect"]["blocked"])
    assert min(met.values()) >= 3, met
    assert len(met) == 8


def test_what_is_drawn() -> None:
    met: Counter[str] = Counter()
    for seed in SAMPLE:
        case = periodic.local_sgd(seed)
        met[case["convention"]] += 1
        met["warm-up"] += case.get("before_warmup") == "all_reduce" and case["warmup_steps"] > 0
        met["alone"] += case["workers"] == 1
        met["waits"] += any(case["expect"]["blocked"])
    assert min(met.values()) >= 20, met
    assert len(met) == 5
