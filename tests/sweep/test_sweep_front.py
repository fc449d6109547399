"""The front of cost and throughput, which sweeps and plans draw and tell of."""

from varsim.study.verdict import front


def test_the_front_is_beaten_by_none() -> None:
    assert front([(1, 1), (2, 3), (2, 2), (3, 3), (4, 5), (0.5, 0.2)]) == [5, 0, 1, 4]
    assert front([]) == []


def test_of_equal_ones_the_first_counts() -> None:
    assert front([(2, 3), (1, 1), (1, 1), (2, 3)]) == [1, 0]
