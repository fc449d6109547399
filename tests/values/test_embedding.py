"""Made-up ratings: who is rated how often, which rows a batch touches, and that they are learnt."""

import numpy as np
import pytest

from tests.building import problem_of


def test_a_gradient_is_of_the_rows_of_its_batch_each_once_in_order() -> None:
    task = problem_of("embedding", users=9, items=5).task(1, 0)
    batches = task.batches(0, 0, 16)
    for stack, rows in zip(
        task.gradients(task.initial(), batches), (task._users, task._items), strict=True
    ):
        for gradient, batch in zip(stack, batches, strict=True):
            assert gradient.indices.tolist() == sorted(set(rows[batch].tolist()))


def test_a_rating_is_the_product_of_two_rows_and_noise() -> None:
    # Products of variance 1, an error of 0.5 on top: 1.25; 4 standard errors, roughly.
    task = problem_of(
        "embedding", users=3000, items=3000, ratings=50_000, skew=0.0, noise=0.5
    ).task(0, 0)
    assert float(np.var(task._ratings)) == pytest.approx(1.25, abs=0.06)
    assert abs(float(np.mean(task._ratings))) < 0.03


@pytest.mark.parametrize("skew", [0.0, 1.0, 2.0])
def test_items_are_rated_by_zipfs_law(skew: float) -> None:
    task = problem_of("embedding", items=4, ratings=40_000, skew=skew).task(0, 0)
    weights = np.arange(1.0, 5.0) ** -skew
    found = np.bincount(task._items, minlength=4) / 40_000
    np.testing.assert_allclose(found, weights / weights.sum(), atol=0.01)  # 4 standard errors
    assert len(found) == 4


def test_the_ratings_are_those_of_the_seed_and_the_start_that_of_the_replication() -> None:
    def ratings(seed: int, replication: int) -> object:
        return problem_of("embedding").task(seed, replication)._ratings.tobytes()

    assert ratings(1, 0) == ratings(1, 1) != ratings(2, 0)
    problem = problem_of("embedding").task(1, 0)
    assert (
        problem.initial()[0].tobytes() != problem_of("embedding").task(1, 1).initial()[0].tobytes()
    )
