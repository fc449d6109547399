"""Made-up ratings: who is rated how often, which rows a batch touches, and that they are learnt."""

import numpy as np
import pytest

from varsim.values.embedding import Embedding, EmbeddingTask
from varsim.values.gradient_form import IndexedSlices
from varsim.values.optimizer import Adagrad, Adam, Optimizer, Sgd


def test_a_gradient_is_of_the_rows_of_its_batch_each_once_in_order() -> None:
    task = Embedding(users=9, items=5).task(1, 0)
    batches = task.batches(0, 0, 16)
    for stack, rows in zip(
        task.gradients(task.initial(), batches), (task._users, task._items), strict=True
    ):
        for gradient, batch in zip(stack, batches, strict=True):
            assert isinstance(gradient, IndexedSlices)
            assert gradient.indices.tolist() == sorted(set(rows[batch].tolist()))


def test_a_rating_is_the_product_of_two_rows_and_noise() -> None:
    # Products of variance 1, an error of 0.5 on top: 1.25; 4 standard errors, roughly.
    task = Embedding(users=3000, items=3000, ratings=50_000, skew=0.0, noise=0.5).task(0, 0)
    assert float(np.var(task._ratings)) == pytest.approx(1.25, abs=0.06)
    assert abs(float(np.mean(task._ratings))) < 0.03


@pytest.mark.parametrize("skew", [0.0, 1.0, 2.0])
def test_items_are_rated_by_zipfs_law(skew: float) -> None:
    task = Embedding(items=4, ratings=40_000, skew=skew).task(0, 0)
    weights = np.arange(1.0, 5.0) ** -skew
    found = np.bincount(task._items, minlength=4) / 40_000
    np.testing.assert_allclose(found, weights / weights.sum(), atol=0.01)  # 4 standard errors
    assert len(found) == 4


def test_users_rate_equally_often() -> None:
    task = Embedding(users=5, ratings=40_000).task(0, 0)
    np.testing.assert_allclose(np.bincount(task._users) / 40_000, [0.2] * 5, atol=0.01)


@pytest.mark.parametrize(
    "optimizer",
    [Sgd(learning_rate=4.0), Adam(learning_rate=0.01), Adagrad(learning_rate=1.0)],
    ids=lambda optimizer: optimizer.kind,
)
def test_training_comes_near_the_noise(optimizer: Optimizer) -> None:
    # Half the variance of the ratings, about 0.5, at the start; half that of the noise is 0.005.
    task = Embedding(users=60, items=40, ratings=3000).task(1, 0)
    values = list(task.initial())
    states = [optimizer.init(value) for value in values]
    assert 0.3 < task.loss(tuple(values)) < 1.0
    for block in range(30):
        for batch in task.batches(0, block, 32):
            stacks = task.gradients(tuple(values), batch[None])
            for index, (gradient,) in enumerate(stacks):
                values[index], states[index] = optimizer.update_rows(
                    gradient, states[index], values[index]
                )
    assert task.loss(tuple(values)) < 0.02


def test_the_ratings_are_those_of_the_seed_and_the_start_that_of_the_replication() -> None:
    def ratings(seed: int, replication: int) -> bytes:
        return Embedding().task(seed, replication)._ratings.tobytes()

    assert ratings(1, 0) == ratings(1, 1) != ratings(2, 0)
    problem: EmbeddingTask = Embedding().task(1, 0)
    assert problem.initial()[0].tobytes() != Embedding().task(1, 1).initial()[0].tobytes()
