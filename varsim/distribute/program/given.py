"""What a variable of a program is, what it starts from, and what is written to it."""

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt, StringConstraints, model_validator

from varsim.distribute.creation import Asked
from varsim.distribute.tensor import Values
from varsim.values.schema import Model
from varsim.values.variable import Aggregation, Synchronization

_MOST_ELEMENTS = 10_000_000
_EXACT = 2**53  # beyond it a number in a file is not what it says


class VariableDescription(Model):
    """One distributed variable; every element starts as `initial`.

    With `synchronization` it is the same under every mode that is compared; without, it takes the
    mode's.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,39}$")]
    shape: tuple[PositiveInt, ...] = Field((), max_length=8)
    dtype: Literal["float32", "float64", "int32", "int64"] = "float32"
    initial: float = 0.0
    synchronization: Literal["on_write", "on_read"] | None = None
    aggregation: Literal["none", "sum", "mean", "only_first_replica"] = "none"

    @model_validator(mode="after")
    def _can_be_made(self) -> Self:
        if np.prod(self.shape, dtype=float) > _MOST_ELEMENTS:
            raise ValueError(f"shape: at most {_MOST_ELEMENTS:,} elements can be simulated")
        check_fits(self.initial, self, "initial")
        return self

    @property
    def whole_numbers(self) -> bool:
        """Whether its dtype holds whole numbers only."""
        return np.dtype(self.dtype).kind == "i"

    @property
    def filled_size(self) -> int:
        """Bytes of one value of it."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    def filled(self, number: float) -> Values:
        """A value of this shape and dtype, every element the same."""
        return np.full(self.shape, number, self.dtype)

    def asked(self, mode: str) -> Asked:
        """The attributes it is created with where `mode` is for those that leave it open."""
        return Asked(
            Synchronization[(self.synchronization or mode).upper()],
            Aggregation[self.aggregation.upper()],
            name=self.name,
        )


class NormalElements(Model):
    """Elements drawn from a normal distribution, new ones for each write and each replica."""

    kind: Literal["normal"] = "normal"
    mean: float = 0.0
    standard_deviation: float = Field(gt=0)


# A number; one number for each replica; or numbers that are drawn.
Given = float | tuple[float, ...] | NormalElements


def check_given(given: Given, variable: VariableDescription, replicas: int | None) -> None:
    """ValueError for a value that the variable cannot be given; `replicas` None: from outside."""
    if isinstance(given, NormalElements):
        if variable.whole_numbers:
            raise ValueError(f"drawn numbers are not whole: {variable.name} is {variable.dtype}")
        check_fits(given.mean, variable, "mean")
        check_fits(given.standard_deviation, variable, "standard_deviation")
        return
    if isinstance(given, tuple):
        if replicas is None:
            raise ValueError("from outside a variable is given one number, not one per replica")
        if len(given) != replicas:
            raise ValueError(f"there are {replicas} replicas: give {replicas} numbers, or one")
    for number in given if isinstance(given, tuple) else (given,):
        check_fits(number, variable, "value")


def check_fits(number: float, variable: VariableDescription, what: str) -> None:
    """ValueError for a number that the variable's dtype cannot hold."""
    if not variable.whole_numbers:
        if abs(number) > float(np.finfo(variable.dtype).max):
            raise ValueError(f"{what} {number:g} is too large for {variable.dtype}")
        return
    if number != int(number):
        raise ValueError(
            f"{what} {number:g} is not a whole number: {variable.name} is {variable.dtype}"
        )
    if abs(number) >= _EXACT:
        raise ValueError(f"{what} {number:g} is too large to be given to the last digit")
    limits = np.iinfo(variable.dtype)
    if not limits.min <= int(number) <= limits.max:
        raise ValueError(f"{what} {number:g} is too large for {variable.dtype}")


def drawn(
    given: Given, variable: VariableDescription, replica: int, generator: np.random.Generator
) -> Values:
    """The value that one replica (or the outside) gives, of the variable's shape and dtype."""
    if isinstance(given, NormalElements):
        numbers = generator.normal(given.mean, given.standard_deviation, variable.shape)
        with np.errstate(over="ignore"):
            return np.asarray(numbers, variable.dtype)
    return variable.filled(given[replica] if isinstance(given, tuple) else given)
