"""Handwritten digits, real ones: softmax regression or a small network on 8 x 8 images.

Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI Machine Learning
Repository, CC BY 4.0; see data/DIGITS.md.
"""

import math
from abc import ABC, abstractmethod
from functools import cache
from importlib.resources import files
from typing import ClassVar, Final, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

from varsim.core.stream import stream
from varsim.learning.task import (
    BLOCK,
    Batches,
    Floats,
    Floor,
    Parameters,
    Problem,
    Task,
    VariableSpec,
    tangent,
)

PIXELS: Final = 64
CLASSES: Final = 10
TRAINING: Final = 1437  # the first rows, 80 %, are trained on; the other 360 measure accuracy

_BRIGHTEST: Final = 16
_DEFAULT_HIDDEN: Final = 32
_LARGE: Final = 31 * 2**20  # bytes; glibc learns from blocks up to 32 MiB


class Digits(Problem):
    """Mean cross-entropy of the training images; accuracy is measured on the test images.

    1,797 images of 64 pixels, scaled to 0..1: the first 1,437 for training, the last 360 for
    testing. `softmax` is linear and starts at 0. `mlp` has one hidden layer of rectified linear
    units and starts at random weights (Glorot and Bengio, 2010), different in each replication.
    """

    about: ClassVar[str] = "real handwritten digits, softmax regression or a small network"

    kind: Literal["digits"] = "digits"
    model: Literal["softmax", "mlp"] = "softmax"
    """Softmax regression, or a network with one hidden layer."""
    hidden: PositiveInt | None = Field(
        None, le=4096, description=f"hidden units of the mlp, {_DEFAULT_HIDDEN} if left out"
    )

    @model_validator(mode="before")
    @classmethod
    def _default_hidden(cls, data: object) -> object:
        if isinstance(data, dict) and data.get("model") == "mlp" and data.get("hidden") is None:
            return {**data, "hidden": _DEFAULT_HIDDEN}
        return data

    @model_validator(mode="after")
    def _softmax_has_no_hidden_layer(self) -> Self:
        if self.model == "softmax" and self.hidden is not None:
            raise ValueError("hidden is for model: mlp; softmax has no hidden layer")
        return self

    def variables(self) -> tuple[VariableSpec, ...]:
        """softmax: `weights` (64, 10), `bias` (10,); mlp: those of `hidden/` and `output/`."""
        if self.hidden is None:
            return VariableSpec("weights", (PIXELS, CLASSES)), VariableSpec("bias", (CLASSES,))
        return (
            VariableSpec("hidden/weights", (PIXELS, self.hidden)),
            VariableSpec("hidden/bias", (self.hidden,)),
            VariableSpec("output/weights", (self.hidden, CLASSES)),
            VariableSpec("output/bias", (CLASSES,)),
        )

    def flops_per_example(self) -> float:
        return 6.0 * sum(spec.size for spec in self.variables() if len(spec.shape) == 2)

    def task(self, seed: int, replication: int) -> "DigitsTask":
        if self.hidden is None:
            return SoftmaxTask(self, seed, replication)
        return NetworkTask(self, seed, replication)


class DigitsTask(Task, ABC):
    """The images; a batch is the numbers of its examples.

    Inside, values lie as (batch, unit, example): sums over units then run along whole rows of
    examples, and each batch is a matrix product of its own, whatever is stacked with it.
    """

    def __init__(self, problem: Digits, seed: int, replication: int) -> None:
        self._variables = problem.variables()
        self._key = seed, replication
        images = load_images()
        self._pixels, self._answers = images.training
        self._right = np.flatnonzero(self._answers)
        self._test_pixels, self._test_answers = images.test

    def batches(self, worker: int, block: int, batch_size: int) -> Batches:
        """Example numbers (BLOCK, batch_size), drawn with replacement."""
        generator = stream(*self._key, "batch", worker, block)
        return generator.integers(TRAINING, size=(BLOCK, batch_size))

    def loss(self, parameters: Parameters) -> float:
        scores = self._scores(parameters, self._pixels)
        scores -= np.maximum.reduce(scores.T.copy())[:, None]  # along whole rows, so much sooner
        right = scores.take(self._right)
        return float((np.log(np.exp(scores).sum(axis=1)) - right).mean())

    def accuracy(self, parameters: Parameters) -> float:
        """Share of the test images whose digit has the highest score."""
        guesses = self._scores(parameters, self._test_pixels).argmax(axis=1)
        return float((guesses == self._test_answers.argmax(axis=1)).mean())

    @abstractmethod
    def _scores(self, parameters: Parameters, pixels: Floats) -> Floats:
        """Unnormalised log-probabilities (images, CLASSES), in a new array."""

    def _errors(self, scores: Floats, batches: Batches) -> Floats:
        """Slope of each batch's mean loss along the scores (k, CLASSES, m), which it overwrites."""
        scores -= np.maximum.reduce(scores, axis=1)[:, None]
        np.exp(scores, out=scores)
        scores /= np.add.reduce(scores, axis=1)[:, None]
        scores -= self._answers.take(batches, axis=0).transpose(0, 2, 1)
        scores /= batches.shape[1]
        return scores


class SoftmaxTask(DigitsTask):
    """Softmax regression: the scores are linear in the pixels."""

    def initial(self) -> Parameters:
        return tuple(np.zeros(spec.shape) for spec in self._variables)

    def gradients(self, parameters: Parameters, batches: Batches) -> Parameters:
        weights, bias = parameters
        inputs = self._pixels.take(batches, axis=0).transpose(0, 2, 1)
        scores = np.matmul(weights.swapaxes(-2, -1), inputs)
        scores += bias[..., None]
        errors = self._errors(scores, batches)
        return np.matmul(inputs, errors.transpose(0, 2, 1)), np.add.reduce(errors, axis=2)

    def floor(self, parameters: Parameters, loss: float) -> Floor:
        """The tangent: softmax regression is convex."""
        slope = self.gradients(parameters, np.arange(TRAINING)[None, :])
        return tangent(loss, tuple(part[0] for part in slope), parameters)

    def _scores(self, parameters: Parameters, pixels: Floats) -> Floats:
        weights, bias = parameters
        return pixels @ weights + bias


class NetworkTask(DigitsTask):
    """One hidden layer of rectified linear units."""

    def initial(self) -> Parameters:
        """Weights uniform within sqrt(6 / (inputs + outputs)), biases 0."""
        generator = stream(*self._key, "initial")

        def start(shape: tuple[int, ...]) -> Floats:
            if len(shape) == 1:
                return np.zeros(shape)
            return math.sqrt(6.0 / sum(shape)) * (2.0 * generator.random(shape) - 1.0)

        return tuple(start(spec.shape) for spec in self._variables)

    def gradients(self, parameters: Parameters, batches: Batches) -> Parameters:
        weights, bias, output_weights, output_bias = parameters
        inputs = self._pixels.take(batches, axis=0).transpose(0, 2, 1)
        hidden = np.matmul(weights.swapaxes(-2, -1), inputs)
        hidden += bias[..., None]
        np.maximum(hidden, 0.0, out=hidden)
        scores = np.matmul(output_weights.swapaxes(-2, -1), hidden)
        scores += output_bias[..., None]
        errors = self._errors(scores, batches)
        hidden_errors = np.matmul(output_weights, errors)
        hidden_errors *= hidden > 0.0
        return (
            np.matmul(inputs, hidden_errors.transpose(0, 2, 1)),
            np.add.reduce(hidden_errors, axis=2),
            np.matmul(hidden, errors.transpose(0, 2, 1)),
            np.add.reduce(errors, axis=2),
        )

    def _scores(self, parameters: Parameters, pixels: Floats) -> Floats:
        weights, bias, output_weights, output_bias = parameters
        return np.maximum(pixels @ weights + bias, 0.0) @ output_weights + output_bias


class Images(NamedTuple):
    """Pixels (images, PIXELS) in 0..1 and answers (images, CLASSES), 1 for the right digit."""

    training: tuple[Floats, Floats]
    test: tuple[Floats, Floats]


@cache
def load_images() -> Images:
    """The images that come with varsim, read once per process; nobody may change them."""
    # glibc hands the memory of large arrays back to the system after every use and fetches it
    # again, unless it has once seen a larger one go. Without this the mlp takes 2.5 times as long.
    np.empty(_LARGE, np.uint8)
    with files("varsim").joinpath("data/digits.npz").open("rb") as file, np.load(file) as archive:
        raw_pixels: NDArray[np.uint8] = archive["pixels"]
        labels: NDArray[np.uint8] = archive["labels"]
    pixels = raw_pixels / float(_BRIGHTEST)
    answers = np.eye(CLASSES)[labels]
    for array in (pixels, answers):
        array.setflags(write=False)
    return Images(
        (pixels[:TRAINING], answers[:TRAINING]),
        (pixels[TRAINING:], answers[TRAINING:]),
    )
