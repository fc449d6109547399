"""Embeddings: made-up ratings of items by users, where a batch touches only a few rows."""

import math
from itertools import accumulate
from typing import ClassVar, Final, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from varsim.core.stream import stream
from varsim.learning.gradient_form import IndexedSlices, Rows
from varsim.learning.task import (
    BLOCK,
    Batches,
    Floats,
    Floor,
    Parameters,
    Problem,
    StackedGradients,
    Task,
    VariableSpec,
    lost,
    tangent,
)

_LARGEST_TABLE: Final = 50_000_000
_START: Final = 0.3  # standard deviation of the start, that of the true rows being about 1


class Embedding(Problem):
    """Mean of 1/2 (row of the user . row of the item - rating)^2 over made-up ratings.

    True rows are normal, such that their products have variance 1; a rating is the product plus
    normal noise of standard deviation `noise`. Users rate equally often; item k is rated in
    proportion to (k + 1)^-skew (Zipf's law), so that some rows get a gradient in every batch and
    others hardly ever. The ratings depend on the seed only, the random start on the replication
    too. Gradients are sparse: `IndexedSlices` of the rows of a batch. Matrix factorisation, Koren,
    Bell and Volinsky, 2009.
    """

    about: ClassVar[str] = "made-up ratings of items by users; gradients are sparse"

    kind: Literal["embedding"] = "embedding"
    users: PositiveInt = Field(300, le=1_000_000)
    """Users, a row each."""
    items: PositiveInt = Field(200, le=1_000_000)
    """Items, a row each."""
    dimension: PositiveInt = Field(8, le=1024, description="length of a row")
    ratings: PositiveInt = Field(5000, le=1_000_000)
    """Examples: who gave which item how much."""
    skew: float = Field(1.0, ge=0, le=10, description="how much more often the first items occur")
    noise: float = Field(0.1, ge=0, description="standard deviation of the ratings' error")

    @model_validator(mode="after")
    def _fits_in_memory(self) -> Self:
        if max(self.users + self.items, self.ratings) * self.dimension > _LARGEST_TABLE:
            raise ValueError(
                "(users + items) x dimension and ratings x dimension must be at most "
                f"{_LARGEST_TABLE:,}"
            )
        return self

    def variables(self) -> tuple[VariableSpec, ...]:
        """`users` (users, dimension) and `items` (items, dimension), a row of each per example."""
        return (
            VariableSpec("users", (self.users, self.dimension), rows_per_example=1),
            VariableSpec("items", (self.items, self.dimension), rows_per_example=1),
        )

    def flops_per_example(self) -> float:
        return 6.0 * self.dimension

    def task(self, seed: int, replication: int) -> "EmbeddingTask":
        return EmbeddingTask(self, seed, replication)


class EmbeddingTask(Task):
    """The ratings; a batch is the numbers of its ratings."""

    def __init__(self, problem: Embedding, seed: int, replication: int) -> None:
        self._specs = problem.variables()
        self._key = seed, replication
        generator = stream(seed, 0, "problem")
        scale = problem.dimension**-0.25
        users, items = (scale * generator.standard_normal(spec.shape) for spec in self._specs)
        self._users: Rows = generator.integers(problem.users, size=problem.ratings)
        weights = (float(rank) ** -problem.skew for rank in range(1, problem.items + 1))
        shares = np.array(list(accumulate(weights)))
        drawn = generator.random(problem.ratings) * shares[-1]
        self._items: Rows = shares.searchsorted(drawn, side="right")
        # How many of all ratings a row is part of.
        self._user_shares = np.bincount(self._users, minlength=problem.users) / problem.ratings
        self._item_shares = np.bincount(self._items, minlength=problem.items) / problem.ratings
        error = problem.noise * generator.standard_normal(problem.ratings)
        self._ratings = _products(users[self._users], items[self._items]) + error
        self._by_user = _Slope(self._users, self._items)
        self._by_item = _Slope(self._items, self._users)
        # A fresh array of this size for every loss takes longer than the arithmetic.
        shape = problem.ratings, problem.dimension
        self._left, self._right = np.empty(shape), np.empty(shape)

    def initial(self) -> Parameters:
        """Small normal numbers: at 0 every slope would be 0."""
        generator = stream(*self._key, "initial")
        return tuple(_START * generator.standard_normal(spec.shape) for spec in self._specs)

    def batches(self, worker: int, block: int, batch_size: int) -> Batches:
        """Numbers of ratings (BLOCK, batch_size), drawn with replacement."""
        generator = stream(*self._key, "batch", worker, block)
        return generator.integers(len(self._ratings), size=(BLOCK, batch_size))

    def gradients(self, parameters: Parameters, batches: Batches) -> StackedGradients:
        users, items = parameters
        who, what = self._users.take(batches), self._items.take(batches)
        left, right = _looked_up(users, who), _looked_up(items, what)
        residuals = _products(left, right)
        residuals -= self._ratings.take(batches)
        residuals /= batches.shape[1]
        return _sparse(who, residuals[..., None] * right), _sparse(
            what, residuals[..., None] * left
        )

    def loss(self, parameters: Parameters) -> float:
        residuals = self._residuals(parameters)
        return 0.5 * float(residuals @ residuals) / len(residuals)

    def floor(self, parameters: Parameters, loss: float) -> Floor:
        """The tangent, less what the residuals are off a straight line.

        That is, in u'v' = uv + (u' - u)v + u(v' - v) + (u' - u)(v' - v), the last term.
        """
        users, items = parameters
        if math.isnan(loss):
            return lost((self._by_user.rated(users), self._by_item.rated(items)))
        residuals = self._residuals(parameters) / len(self._ratings)
        slopes = (
            self._by_user.of(users, residuals, items, self._left),
            self._by_item.of(items, residuals, users, self._right),
        )
        straight = tangent(loss, slopes, parameters)

        def floor(now: Parameters) -> float:
            user, item = (
                np.einsum("ij,ij->i", moved, moved)
                for moved in (there - here for there, here in zip(now, parameters, strict=True))
            )
            bent = min(
                user.max() * float(self._item_shares @ item),
                item.max() * float(self._user_shares @ user),
            )
            root = math.sqrt(2 * max(0.0, straight(now))) - (1 + 1e-6) * math.sqrt(bent)
            return 0.5 * max(0.0, root) ** 2

        return floor

    def _residuals(self, parameters: Parameters) -> Floats:
        users, items = parameters
        _rows(users, self._users, self._left)
        _rows(items, self._items, self._right)
        residuals = _products(self._left, self._right)
        residuals -= self._ratings
        return residuals


class _Slope:
    """The slope in the rows of one table: of the ratings of each, those with `others` summed."""

    def __init__(self, rows: Rows, others: Rows) -> None:
        self._order = np.argsort(rows, kind="stable")
        self._others = others[self._order]
        self._present, self._starts = np.unique(rows[self._order], return_index=True)

    def rated(self, table: Floats) -> Floats:
        """The table, but 0 in rows of which no rating is part."""
        found = np.zeros_like(table)
        found[self._present] = table[self._present]
        return found

    def of(self, table: Floats, residuals: Floats, others: Floats, scratch: Floats) -> Floats:
        """Residual times the other row, summed row by row; `scratch` (ratings, dimension)."""
        _rows(others, self._others, scratch)
        scratch *= residuals.take(self._order)[:, None]
        slope = np.zeros_like(table)
        slope[self._present] = np.add.reduceat(scratch, self._starts)
        return slope


def _rows(table: Floats, rows: Rows, out: Floats) -> None:
    """Rows of a table, one below the other; all are there: "clip" only spares a copy."""
    np.take(table, rows, axis=0, out=out, mode="clip")


def _products(left: Floats, right: Floats) -> Floats:
    products: Floats = np.matmul(left[..., None, :], right[..., None])[..., 0, 0]
    return products


def _looked_up(table: Floats, rows: Rows) -> Floats:
    """Rows (k, m, dimension) of one table, or of a table for each batch."""
    if table.ndim == 2:
        return table[rows]
    return table[np.arange(len(rows))[:, None], rows]


def _sparse(rows: Rows, values: Floats) -> list[IndexedSlices]:
    """Each batch's gradient, with every row once."""
    return [IndexedSlices(*batch).summed() for batch in zip(rows, values, strict=True)]
