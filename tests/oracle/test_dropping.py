"""on_write with micro-batches does what the rules of DropCompute make of it, to the last bit.

More: pytest tests/oracle/test_dropping.py --scenarios 10000 --first 1000.
"""

from collections import Counter

import pytest

from tests.conformance.in_between.dropped import drop_compute
from tests.oracle import dropping


def test_micro_batches_to_the_last_bit(seeds: range) -> None:
    for seed in seeds:
        record = dropping.drop_compute(seed)
        try:
            drop_compute(record)
        except AssertionError as error:
            pytest.fail(f"case {seed}: {error}\n{record}")


def test_what_is_drawn() -> None:
    met: Counter[str] = Counter()
    for seed in range(300):
        case = dropping.drop_compute(seed)
        steps = case["expect"]["steps"]
        most = case["micro_batches"] * case["workers"]
        met[case["divide_by"]] += 1
        met["nothing dropped"] += all(step["total"] == most for step in steps)
        met["waits"] += any(case["expect"]["blocked"])
    assert min(met.values()) >= 10, met
    assert len(met) == 4
