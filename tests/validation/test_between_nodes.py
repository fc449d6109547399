"""All-reduces between nodes that others measured: the fit of one node, and what is predicted."""

import pytest

from validation.between_nodes import Cluster, Inside, Row, findings, fitted, measured, predicted
from validation.finding import Verdict


def test_links_of_a_node_are_those_that_made_its_rows() -> None:
    # 14 steps of 5 us and an eighth of the bytes at 400 GB/s.
    sizes = [2**power for power in range(20, 33)]
    made = [Row("AWS Batch", 8, size, 14 * (5e-6 + size / 8 / 400e9)) for size in sizes]
    assert fitted(made) == pytest.approx(Inside(400e9, 5e-6))


def test_of_slow_cards_half_as_many_bytes_cross_in_a_pipeline_as_in_a_ring() -> None:
    # 4 GiB: 15/8 of them around a ring, but once to and fro between the two nodes by a pipeline.
    cards = Cluster("", "", 8, 1e9)
    took = predicted(cards, Inside(1e12, 0.0), 16, 2**32)
    assert took == pytest.approx(2**32 / 8e9, rel=0.01)


def test_most_rows_are_predicted_and_misses_are_shown() -> None:
    assert len({row.cluster for row in measured()}) == 4
    whole, *rows = findings()
    assert len(rows) == 23
    assert whole.got == pytest.approx(0.18, abs=0.005)
    assert whole.verdict is Verdict.MISS
    missed = [one.name for one in rows if one.verdict is Verdict.MISS]
    assert len(missed) == 10
    # One cluster reached half of what the same machines reached elsewhere.
    assert sum("EKS" in name for name in missed) == 5
