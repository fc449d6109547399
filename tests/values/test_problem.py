"""Problems: gradients against finite differences, the same bits in any stack, known optima."""

import hashlib
import math
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from tests.building import problem_of, scenario
from tests.seams import Parameters, stream

BLOCK = 64  # batches that are drawn at a time

EVERY: list[Any] = [
    problem_of("quadratic"),
    problem_of("quadratic", dimension=1),
    problem_of("quadratic", dimension=7, condition_number=100.0, noise=0.5, distance=3.0),
    problem_of("linear_regression"),
    problem_of("linear_regression", features=1, examples=5, noise=0.0),
    problem_of("linear_regression", features=33, examples=200),
    problem_of("embedding"),
    problem_of("embedding", users=1, items=3, dimension=1, ratings=5, noise=0.0),
    problem_of("embedding", users=7, items=40, dimension=33, ratings=200, skew=0.0),
    problem_of("digits"),
    problem_of("digits", model="mlp"),
    problem_of("digits", model="mlp", hidden=1),
    problem_of("digits", model="mlp", hidden=7),
]
every = pytest.mark.parametrize("problem", EVERY, ids=repr)


def somewhere(problem: Any, seed: int = 3) -> Parameters:
    """Parameters away from the start, where nothing is 0 or symmetric."""
    generator = np.random.default_rng(seed)
    return tuple(np.array(0.3 * generator.normal(size=s.shape)) for s in problem.variables())


def descend(task: Any, rate: float, steps: int, batch: NDArray[Any]) -> Parameters:
    parameters = task.initial()
    for _ in range(steps):
        slopes = task.gradients(parameters, batch)
        parameters = tuple(p - rate * g[0] for p, g in zip(parameters, slopes, strict=True))
    return parameters


def whole(gradient: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """A gradient with all its rows."""
    return gradient.dense(shape) if hasattr(gradient, "dense") else np.asarray(gradient)


def bits(gradients: Any) -> list[list[bytes]]:
    """The bits of each gradient, by variable; of a sparse one those of its rows and values."""

    def of(one: Any) -> bytes:
        parts = (one.indices, one.values) if hasattr(one, "dense") else (one,)
        return b"".join(part.tobytes() for part in parts)

    return [[of(one) for one in stack] for stack in gradients]


def everything(task: Any) -> NDArray[Any]:
    """The one batch whose gradient is that of the loss: every example once, or no noise."""
    for examples in ("_targets", "_ratings", "_pixels"):
        if hasattr(task, examples):
            return np.arange(len(getattr(task, examples)))[None]
    return np.zeros((1, task.initial()[0].size))


@every
def test_the_gradient_is_the_slope_of_the_loss(problem: Any) -> None:
    task = problem.task(1, 0)
    parameters = somewhere(problem)
    gradients = task.gradients(parameters, everything(task))
    generator = np.random.default_rng(5)
    for index, spec in enumerate(problem.variables()):
        for place in generator.integers(spec.size, size=min(spec.size, 15)):
            step = np.zeros(spec.size)
            step[place] = 1e-6
            step = step.reshape(spec.shape)
            up, down = (
                task.loss((*parameters[:index], parameters[index] + s, *parameters[index + 1 :]))
                for s in (step, -step)
            )
            found = whole(gradients[index][0], spec.shape).reshape(-1)[place]
            assert found == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-8)


@every
@pytest.mark.parametrize("batch_size", [1, 2, 3, 32, 33])
def test_a_stack_has_the_same_bits_as_one_by_one(problem: Any, batch_size: int) -> None:
    for seed in range(3):
        task = problem.task(seed, 0)
        parameters = somewhere(problem, seed)
        batches = task.batches(0, 0, batch_size)
        alone = [bits(task.gradients(parameters, batches[i : i + 1])) for i in range(BLOCK)]
        for k in (1, 2, 3, 8, 31, 64):
            together = bits(task.gradients(parameters, batches[:k]))
            for index in range(len(parameters)):
                assert together[index] == [one[index][0] for one in alone[:k]]


@every
def test_shapes_and_types_are_as_declared_and_nothing_given_is_changed(problem: Any) -> None:
    task = problem.task(1, 0)
    specs = problem.variables()
    for parameters in (task.initial(), somewhere(problem)):
        batches = task.batches(0, 0, 4)
        given = (*parameters, batches)
        before = [array.copy() for array in given]
        for array in given:
            array.setflags(write=False)
        gradients = task.gradients(parameters, batches)
        loss, accuracy = task.loss(parameters), task.accuracy(parameters)
        for array, copy in zip(given, before, strict=True):
            np.testing.assert_array_equal(array, copy)
        assert type(loss) is float
        assert type(accuracy) is float
        assert batches.shape[0] == BLOCK
        for spec, value, gradient in zip(specs, parameters, gradients, strict=True):
            assert value.shape == spec.shape
            assert value.dtype == np.float64
            assert spec.size == value.size
            assert len(gradient) == BLOCK
            assert isinstance(gradient, list) == (spec.rows_per_example is not None)
            for one in gradient:
                assert whole(one, spec.shape).shape == spec.shape
                values = one.values if hasattr(one, "dense") else one
                assert values.dtype == np.float64
                assert not any(np.shares_memory(values, array) for array in given)
    assert len({spec.name for spec in specs}) == len(specs)


@pytest.mark.parametrize("problem", [p for p in EVERY if getattr(p, "noise", 1)], ids=repr)
def test_batches_are_keyed_by_seed_replication_worker_and_block(problem: Any) -> None:
    keys = [(1, 0, 0, 0), (2, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1)]
    drawn = []
    for seed, replication, worker, block in keys:
        task = problem.task(seed, replication)
        drawn.append(task.batches(worker, block, 8).tobytes())
        task.batches(worker, block + 1, 8)
        assert task.batches(worker, block, 8).tobytes() == drawn[-1]
    assert len(set(drawn)) == len(keys)


@pytest.mark.parametrize(
    "problem", [problem_of("linear_regression"), problem_of("digits")], ids=repr
)
def test_a_batch_gradient_is_on_average_that_of_the_loss(problem: Any) -> None:
    task = problem.task(1, 0)
    parameters = somewhere(problem)
    batches = np.concatenate([task.batches(0, block, 16) for block in range(20)])
    for found, exact in zip(
        task.gradients(parameters, batches),
        task.gradients(parameters, everything(task)),
        strict=True,
    ):
        error = found.std(axis=0) / math.sqrt(len(batches))
        assert np.all(np.abs(found.mean(axis=0) - exact[0]) <= 5 * error + 1e-15)


# Quadratic


def test_the_quadratic_is_as_described() -> None:
    # Curvatures 1/100, 1/10, 1; optimum 2 / sqrt(3) in every coordinate; loss at the start
    # 1/2 * 1.11 * 4/3.
    problem = problem_of("quadratic", dimension=3, condition_number=100.0, distance=2.0)
    task = problem.task(0, 0)
    (slope,) = task.gradients(task.initial(), task.batches(0, 0, 1)[:1])
    np.testing.assert_allclose(slope[0], -2 / math.sqrt(3) * np.array([0.01, 0.1, 1.0]))
    assert task.loss(task.initial()) == pytest.approx(0.74)
    (optimum,) = task.optimum()
    assert np.linalg.norm(optimum - task.initial()[0]) == pytest.approx(2.0)
    assert task.loss((optimum,)) == 0.0


def test_gradient_descent_on_the_quadratic_shrinks_as_theory_says() -> None:
    # Each coordinate's error shrinks by 1 - rate * curvature: (1 - 0.5)^10 and (1 - 0.05)^10.
    task = problem_of("quadratic", dimension=2, condition_number=10.0).task(0, 0)
    (found,) = descend(task, 0.5, 10, np.zeros((1, 2)))
    (optimum,) = task.optimum()
    np.testing.assert_allclose((optimum - found) / optimum, [0.95**10, 0.5**10], rtol=1e-10)


def test_the_quadratics_noise_is_that_of_a_mean_over_the_batch() -> None:
    task = problem_of("quadratic", dimension=50, noise=2.0).task(1, 0)
    for batch_size in (1, 16):
        rows = np.concatenate([task.batches(0, block, batch_size) for block in range(20)])
        expected = 2.0 / math.sqrt(batch_size)
        # The standard deviation of n normals has the relative error 1 / sqrt(2 n).
        assert abs(rows.std() / expected - 1) < 4 / math.sqrt(2 * rows.size)
        assert abs(rows.mean()) < 4 * expected / math.sqrt(rows.size)


# Linear regression


def test_linear_regression_reaches_its_optimum() -> None:
    task = problem_of("linear_regression", features=3, examples=50).task(1, 0)
    found = descend(task, 0.3, 500, everything(task))
    for one, best in zip(found, task.optimum(), strict=True):
        np.testing.assert_allclose(one, best, rtol=1e-9)
    # The errors of 50 targets with 4 parameters fitted: half of 0.1^2 * 46 / 50.
    assert task.loss(found) == pytest.approx(0.5 * 0.01 * 46 / 50, rel=0.5)


def test_linear_regression_has_the_same_data_in_every_replication() -> None:
    problem = problem_of("linear_regression")
    losses = [
        problem.task(s, r).loss(problem.task(s, r).initial()) for s, r in ((1, 0), (1, 1), (2, 0))
    ]
    assert losses[0] == losses[1] != losses[2]


# Digits


def test_the_digits_are_the_published_ones() -> None:
    path = files("varsim").joinpath("data/digits.npz")
    assert hashlib.sha256(path.read_bytes()).hexdigest() in files("varsim").joinpath(
        "data/DIGITS.md"
    ).read_text(encoding="utf-8")
    with path.open("rb") as file, np.load(file) as archive:
        pixels, labels = archive["pixels"], archive["labels"]
    assert pixels.shape == (1797, 64)
    # How often each digit occurs, as listed by the source for its test set of 1,797.
    counts = np.bincount(labels)
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert (pixels.min(), pixels.max()) == (0, 16)
    # The first image, a nought: its top row is 0 0 5 13 9 1 0 0 of 16.
    assert pixels[0, :8].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    assert labels[0] == 0


def test_the_network_starts_within_glorots_limits_anew_in_every_replication() -> None:
    problem = problem_of("digits", model="mlp", hidden=50)
    first, second = problem.task(1, 0).initial(), problem.task(1, 1).initial()
    for spec, one, other in zip(problem.variables(), first, second, strict=True):
        if spec.name.endswith("bias"):
            assert not one.any()
            continue
        limit = math.sqrt(6 / sum(spec.shape))
        assert 0.95 * limit < np.abs(one).max() <= limit
        # The mean of n numbers uniform within +-limit has standard deviation limit / sqrt(3 n).
        assert abs(one.mean()) < 4 * limit / math.sqrt(3 * one.size)
        assert not np.array_equal(one, other)


def test_large_scores_do_not_overflow() -> None:
    task = problem_of("digits").task(0, 0)
    parameters = (np.full((64, 10), 1e4) * np.arange(10), np.zeros(10))
    gradients = task.gradients(parameters, task.batches(0, 0, 4))
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)
    assert math.isfinite(task.loss(parameters))


def test_flops_are_three_forward_passes() -> None:
    assert problem_of("quadratic", dimension=10).flops_per_example() == 60
    assert problem_of("linear_regression", features=20).flops_per_example() == 120
    assert problem_of("embedding", dimension=8).flops_per_example() == 48
    assert problem_of("digits").flops_per_example() == 3 * 2 * 64 * 10
    assert problem_of("digits", model="mlp", hidden=8).flops_per_example() == 3 * 2 * (
        64 * 8 + 8 * 10
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "quadratic", "dimension": 0},
        {"kind": "quadratic", "dimension": 10**9},
        {"kind": "quadratic", "condition_number": 0.5},
        {"kind": "quadratic", "noise": -1.0},
        {"kind": "quadratic", "distance": 0.0},
        {"kind": "linear_regression", "features": 0},
        {"kind": "linear_regression", "features": 10_000, "examples": 1_000_000},
        {"kind": "linear_regression", "noise": -0.1},
        {"kind": "embedding", "users": 0},
        {"kind": "embedding", "skew": -0.1},
        {"kind": "embedding", "noise": -0.1},
        {"kind": "embedding", "users": 1_000_000, "dimension": 1000},
        {"kind": "digits", "model": "resnet50"},
        {"kind": "digits", "model": "mlp", "hidden": 0},
        {"kind": "mnist"},
    ],
    ids=repr,
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        scenario({"kind": "none"}, workload={"problem": wrong})


def test_the_first_batches_are_what_the_stream_of_that_name_gives() -> None:
    # Written out so that a change of the key, which would change every result, is noticed.
    expected = stream(5, 1, "batch", 2, 3).integers(1437, size=(64, 32))
    np.testing.assert_array_equal(problem_of("digits").task(5, 1).batches(2, 3, 32), expected)
