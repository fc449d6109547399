"""All-reduces between nodes that others measured: the fit of one node, and what is predicted."""

import pytest

from validation.between_nodes import (
    Cluster,
    Inside,
    Row,
    findings,
    fitted,
    measured,
    predicted,
    predicted_inside,
)
from validation.finding import Verdict


def test_links_of_a_node_are_those_that_made_its_rows() -> None:
    # 14 steps of 5 us and an eighth of the bytes at 400 GB/s.
    sizes = [2**power for power in range(20, 33)]
    made = [Row("AWS Batch", 8, size, 14 * (5e-6 + size / 8 / 400e9)) for size in sizes]
    assert fitted(made) == pytest.approx(Inside(400e9, 5e-6))


def test_of_slow_cards_half_as_many_bytes_cross_by_trees_as_by_rings() -> None:
    # 4 GiB: 15/8 of them around a ring, but once to and fro between two nodes by trees, at 0.92.
    cards = Cluster("", "", 8, 1e9, 0.0)
    took = predicted(cards, Inside(1e12, 0.0), 16, 2**32)
    assert took == pytest.approx(2**32 / 8e9 / 0.92, rel=0.01)


def test_a_short_vector_in_a_node_goes_by_ll() -> None:
    # 14 steps of 0.6 us, of 28 bytes at 141 GB/s; a long one as it is: 14 of 5 us and 2**25 bytes.
    inside = Inside(400e9, 5e-6)
    assert predicted_inside(inside, 224) == pytest.approx(6.6e-6 + 14 * 0.6e-6, abs=5e-9)
    assert predicted_inside(inside, 2**28) == pytest.approx(6.6e-6 + 14 * (5e-6 + 2**25 / 400e9))


def test_most_rows_are_predicted_and_misses_are_shown() -> None:
    assert len({row.cluster for row in measured()}) == 4
    whole, *rows = findings()
    assert len(rows) == 23 + 14
    assert whole.got == pytest.approx(0.104, abs=0.005)
    assert whole.verdict is Verdict.PASS
    missed = [one.name for one in rows if one.verdict is Verdict.MISS]
    # One cluster reached half of what the same machines reached elsewhere.
    assert sum("EKS" in name for name in missed) == 5
    assert [name for name in missed if "EKS" not in name] == [
        "2x p4de.24xlarge (8 A100 80 GB each, 4x 100 Gbit/s EFA), 16 MiB"
    ]
