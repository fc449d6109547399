"""What is trained: the problem that gives the values, the model profile that gives the sizes."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import Final, Self

from pydantic import Field, PositiveInt, model_validator

from varsim.core import presets
from varsim.core.schema import Model
from varsim.learning import layers
from varsim.learning.gradient_form import BYTES, Precision
from varsim.learning.layers import Layer, Layers
from varsim.learning.optimizer import AnyOptimizer, Optimizer, Sgd
from varsim.learning.problem import AnyProblem, Timing, VariableSpec

_ROW_NUMBER: Final = 8  # bytes; TensorFlow's int64


class Workload(Model):
    """A problem with real gradients, timed with the sizes and FLOPs of a model profile.

    `gradient_precision`: in which gradients are sent (default: as parameters, `bytes_per_parameter`
    each); with `round_gradients` each worker's values are rounded to it, too, before anything is
    added up, which is done in float64, and not rounded again.
    Without `model` the problem's own sizes are used. `batch_size` is per worker and step, or
    per micro-batch.
    Loss and accuracy are measured each time another `evaluate_every` examples have been applied
    (default: ten batches of every worker), at no cost in time. When a loss is reached does not
    depend on that: until then every update is looked at. `optimizer` is that of all strategies
    without one of their own.
    `layers` says when in a backward pass which gradient is ready: the name of a layer profile,
    `by_flops`, `by_bytes`, or a list of layers, whose sizes then are those of the model. Default:
    the model's own profile, else by its FLOPs; without a model by bytes.
    """

    problem: AnyProblem
    """What gradients are computed from."""
    model: str | None = None
    """Model whose tensors and FLOPs are timed: `varsim list models`; by default the problem's own.
    """
    batch_size: PositiveInt = 32
    """Examples of one gradient."""
    optimizer: AnyOptimizer | None = None
    """How gradients change the variables."""
    evaluate_every: PositiveInt | None = None
    """Examples between two measurements of the loss; by default ten batches of every worker."""
    bytes_per_parameter: PositiveInt = Field(4, le=8)
    """What a parameter takes on the network when it is read."""
    gradient_precision: Precision | None = None
    """Precision in which gradients are sent; by default that of the parameters."""
    round_gradients: bool = False
    """Whether each gradient is rounded to that precision for real."""
    layers: Layers | None = None
    """When in the backward pass which gradient is ready: a profile's name, a rule, or a list."""

    @model_validator(mode="after")
    def _model_exists(self) -> Self:
        if self.model is not None:
            presets.model(self.model)
        if self.layers is not None:
            layers.check(self.layers, self.model)
        if self._listed is not None:
            if self.bytes_per_parameter != 4:
                raise ValueError("bytes_per_parameter has no effect: layers say all sizes")
            if not all(map(sum, self.tensor_sizes())):
                raise ValueError("layers: there are fewer bytes than variables of the problem")
        return self

    @model_validator(mode="after")
    def _times_need_sizes(self) -> Self:
        if not self.has_values:
            sources = (self.model, self._timed_size, self._listed)
            if sum(source is not None for source in sources) != 1:
                raise ValueError(
                    "problem timing needs one of a model, a size and a list of layers, which says "
                    "what is sent"
                )
            if self.model is None and self.bytes_per_parameter != 4:
                raise ValueError("bytes_per_parameter has no effect: problem timing has a size")
        return self

    @model_validator(mode="after")
    def _precision_has_numbers(self) -> Self:
        if self.round_gradients:
            if self.gradient_precision is None:
                raise ValueError("round_gradients needs gradient_precision (for example bf16)")
            if not self.has_values:
                raise ValueError("round_gradients has no effect: problem timing has no values")
        if self.gradient_precision is not None and self.sized:
            raise ValueError(
                "gradient_precision has no effect: sizes are given in bytes, not as numbers of "
                "parameters"
            )
        return self

    @property
    def has_values(self) -> bool:
        """False where only times are simulated and nothing is learnt."""
        return not isinstance(self.problem, Timing)

    def examples_between_evaluations(self, workers: int) -> int:
        """How many examples are applied from one measurement of the loss to the next."""
        return self.evaluate_every or 10 * workers * self.batch_size

    def with_optimizer(self, optimizer: Optimizer | None) -> "Workload":
        """The workload with another optimizer, or with none."""
        return self.model_copy(update={"optimizer": optimizer})

    def update_rule(self) -> Optimizer:
        """The optimizer; plain SGD on the zeros of a problem without values."""
        if self.optimizer is None or not self.has_values:
            return Sgd(learning_rate=1.0)
        return self.optimizer

    def flops_per_example(self) -> float:
        """FLOPs of forward and backward pass for one example."""
        if self.model is not None:
            return presets.model(self.model).train_flops_per_example
        return self.problem.flops_per_example()

    def size(self) -> int:
        """Bytes of all parameters, which is what a gradient or a copy takes on a link."""
        return sum(sum(sizes) for sizes in self.tensor_sizes())

    def tensors(self) -> list[int]:
        """The bytes of all tensors in forward order, whatever variables they are dealt to."""
        if self._listed is not None:
            return [round(layer.size) for layer in self._listed]
        if self.model is not None:
            return [n * self.bytes_per_parameter for n in presets.model(self.model).tensors]
        return list(chain.from_iterable(self.tensor_sizes()))

    def blocks(self) -> list[int]:
        """How many of the tensors make up each block of the model, such as a transformer layer.

        Without a model each tensor, which is a variable or a layer, is one.
        """
        if self.model is not None:
            return list(presets.model(self.model).blocks)
        return [1] * len(self.tensors())

    def gradient_size(self) -> int:
        """Bytes of a whole gradient on a link."""
        return sum(self.gradient_tensors())

    def gradient_tensors(self, number_bytes: float | None = None) -> list[int]:
        """The bytes of the gradients of all tensors in forward order, of one number so many."""
        number_bytes = number_bytes or self.gradient_bytes
        if number_bytes == self.bytes_per_parameter:
            return self.tensors()
        return [
            math.ceil(size // self.bytes_per_parameter * number_bytes) for size in self.tensors()
        ]

    @property
    def gradient_bytes(self) -> int:
        """Bytes of one number in a gradient."""
        if self.gradient_precision is None:
            return self.bytes_per_parameter
        return BYTES[self.gradient_precision]

    def gradient_ratios(self) -> list[float]:
        """For every variable the bytes a worker sends as a gradient, per byte that it reads."""
        if self.gradient_precision is None:
            return [1.0 for _ in self.problem.variables()]
        return [self._gradient_ratio(spec) for spec in self.problem.variables()]

    def _gradient_ratio(self, spec: VariableSpec) -> float:
        sent, read = self.gradient_bytes, self.bytes_per_parameter
        if spec.rows_per_example is None:
            return sent / read
        columns = spec.size // spec.shape[0]
        return (sent * columns + _ROW_NUMBER) / (read * columns + _ROW_NUMBER)

    def ready_after(self, tensors: Sequence[int]) -> list[float]:
        """For every tensor the share of a backward pass after which its gradient is there.

        `tensors`: the bytes of all, or of their parts, in forward order.
        """
        parts = layers.parts(self.layers, self.model, self.tensors())
        return layers.ready_after(parts, tensors)

    def sent_shares(self) -> list[float]:
        """For every variable the part of its bytes that a worker reads, or sends as a gradient.

        All of it; of a sparse variable only the rows of a batch, each with its number (8 bytes).
        """
        return [self._sent_share(spec) for spec in self.problem.variables()]

    def _sent_share(self, spec: VariableSpec) -> float:
        if spec.rows_per_example is None:
            return 1.0
        rows = min(spec.shape[0], self.batch_size * spec.rows_per_example)
        row = self.bytes_per_parameter * spec.size // spec.shape[0]
        return rows * (row + _ROW_NUMBER) / (self.bytes_per_parameter * spec.size)

    @property
    def sized(self) -> bool:
        """Whether sizes are given in bytes, and no numbers of parameters are known."""
        return self._timed_size is not None or self._listed is not None

    @property
    def _listed(self) -> tuple[Layer, ...] | None:
        return None if isinstance(self.layers, str) else self.layers

    @property
    def _timed_size(self) -> float | None:
        """Bytes of a problem without values that says so itself."""
        return self.problem.size if isinstance(self.problem, Timing) else None

    def tensor_sizes(self) -> list[list[int]]:
        """For every variable of the problem the bytes of the tensors that stand for it.

        A profile's tensors are dealt to the problem's variables in order, by bytes: every variable
        gets its share, and a tensor on the border between two is cut there.
        """
        variables = self.problem.variables()
        if self._timed_size is not None:
            return _dealt([round(self._timed_size)], variables)
        if self.model is None and self._listed is None:
            return [[spec.size * self.bytes_per_parameter] for spec in variables]
        return _dealt(self.tensors(), variables)


def _dealt(tensors: list[int], variables: tuple[VariableSpec, ...]) -> list[list[int]]:
    return list(map(list, _dealt_once(tuple(tensors), tuple(spec.size for spec in variables))))


@lru_cache(maxsize=64)
def _dealt_once(tensors: tuple[int, ...], sizes: tuple[int, ...]) -> list[list[int]]:
    """What runs of one workload ask again and again; nobody changes it."""
    total, parameters = sum(tensors), sum(sizes)
    borders = [total * before // parameters for before in accumulate(sizes)]
    dealt: list[list[int]] = []
    waiting = iter(tensors)
    size, start = next(waiting), 0
    for border in borders:
        parts: list[int] = []
        while start < border:
            part = min(size, border - start)
            parts.append(part)
            start += part
            size -= part
            if size == 0:
                size = next(waiting, 0)
        dealt.append(parts)
    return dealt
