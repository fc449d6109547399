"""Errors of operations that TensorFlow refuses, with its type of error and a category.

Every error says what to do instead. `category` is the reason, independent of words; `tensorflow`
the name of the type that TensorFlow raises, which the error also is where Python has that type.
"""

from typing import ClassVar


class DistributionError(Exception):
    """An operation on distributed values that TensorFlow refuses as well."""

    tensorflow: ClassVar[str] = "Exception"

    def __init__(self, category: str, message: str) -> None:
        super().__init__(message)
        self.category = category


class RefusedValueError(DistributionError, ValueError):
    """TensorFlow raises ValueError."""

    tensorflow = "ValueError"


class RefusedTypeError(DistributionError, TypeError):
    """TensorFlow raises TypeError."""

    tensorflow = "TypeError"


class RefusedRuntimeError(DistributionError, RuntimeError):
    """TensorFlow raises RuntimeError."""

    tensorflow = "RuntimeError"


class RefusedAttributeError(DistributionError, AttributeError):
    """TensorFlow raises AttributeError, by accident: a Python number used as a tensor."""

    tensorflow = "AttributeError"


class RefusedIndexError(DistributionError, IndexError):
    """TensorFlow raises IndexError, by accident: a part that is not there."""

    tensorflow = "IndexError"


class RefusedAssertionError(DistributionError, AssertionError):
    """TensorFlow fails an internal assertion, without words."""

    tensorflow = "AssertionError"


class RefusedNotImplementedError(DistributionError, NotImplementedError):
    """TensorFlow raises NotImplementedError."""

    tensorflow = "NotImplementedError"


class InvalidArgumentError(DistributionError):
    """TensorFlow's own tf.errors.InvalidArgumentError."""

    tensorflow = "InvalidArgumentError"
