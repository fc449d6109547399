"""What is trained: the problem that gives the values, the model profile that gives the sizes."""

from itertools import accumulate
from typing import Final, Self

from pydantic import Field, PositiveInt, model_validator

from varsim import presets
from varsim.schema import Model
from varsim.values.optimizer import AnyOptimizer, Optimizer, Sgd
from varsim.values.problem import AnyProblem, VariableSpec
from varsim.values.timing import Timing

_ROW_NUMBER: Final = 8  # bytes; TensorFlow's int64


class Workload(Model):
    """A problem with real gradients, timed with the sizes and FLOPs of a model profile.

    Without `model` the problem's own sizes are used. `batch_size` is per worker and step.
    Loss and accuracy are measured each time another `evaluate_every` examples have been applied
    (default: ten batches of every worker), at no cost in time.
    """

    problem: AnyProblem
    model: str | None = None
    batch_size: PositiveInt = 32
    optimizer: AnyOptimizer | None = None
    evaluate_every: PositiveInt | None = None
    bytes_per_parameter: PositiveInt = Field(4, le=8)

    @model_validator(mode="after")
    def _model_exists(self) -> Self:
        if self.model is not None:
            presets.model(self.model)
        return self

    @model_validator(mode="after")
    def _values_need_an_optimizer(self) -> Self:
        if not self.has_values:
            if (self.model is None) == (self._timed_size is None):
                raise ValueError("problem timing needs a model or a size, which says what is sent")
            if self.model is None and self.bytes_per_parameter != 4:
                raise ValueError("bytes_per_parameter has no effect: problem timing has a size")
            if self.optimizer is not None:
                raise ValueError("optimizer has no effect: problem timing has no values")
        elif self.optimizer is None:
            raise ValueError("optimizer is missing (for example {kind: sgd, learning_rate: 0.1})")
        return self

    @property
    def has_values(self) -> bool:
        """False where only times are simulated and nothing is learnt."""
        return not isinstance(self.problem, Timing)

    def examples_between_evaluations(self, workers: int) -> int:
        """How many examples are applied from one measurement of the loss to the next."""
        return self.evaluate_every or 10 * workers * self.batch_size

    def update_rule(self) -> Optimizer:
        """The optimizer; plain SGD on the zeros of a problem without values."""
        return self.optimizer if self.optimizer is not None else Sgd(learning_rate=1.0)

    def flops_per_example(self) -> float:
        """FLOPs of forward and backward pass for one example."""
        if self.model is not None:
            return presets.model(self.model).train_flops_per_example
        return self.problem.flops_per_example()

    def size(self) -> int:
        """Bytes of all parameters, which is what a gradient or a copy takes on a link."""
        return sum(sum(sizes) for sizes in self.tensor_sizes())

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
        if self.model is None:
            return [[spec.size * self.bytes_per_parameter] for spec in variables]
        tensors = [n * self.bytes_per_parameter for n in presets.model(self.model).tensors]
        return _dealt(tensors, variables)


def _dealt(tensors: list[int], variables: tuple[VariableSpec, ...]) -> list[list[int]]:
    total, parameters = sum(tensors), sum(spec.size for spec in variables)
    borders = [total * before // parameters for before in accumulate(s.size for s in variables)]
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
