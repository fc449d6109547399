"""Gradients in fewer bits: how many bytes they take, and what rounding makes of their values."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Precision: TypeAlias = Literal["fp32", "fp16", "bf16"]

# Bytes of one number.
BYTES: Final[Mapping[Precision, int]] = {"fp32": 4, "fp16": 2, "bf16": 2}


def rounded(values: NDArray[np.float64], precision: Precision) -> NDArray[np.float64]:
    """The nearest numbers that the precision has; of two equally near the one that ends in bit 0.

    First to fp32, in which devices compute, from there to fp16 or bf16. What is too large becomes
    infinite: in fp16 from 65,520 on; what is too small becomes 0 (fp16: up to 3e-8).
    """
    with np.errstate(over="ignore", under="ignore"):
        single = values.astype(np.float32)
        if precision == "fp16":
            return single.astype(np.float16).astype(np.float64)
        if precision == "bf16":
            single = _upper_half(single)
        return single.astype(np.float64)


def _upper_half(single: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32 with the lower 16 bits of each rounded away; nan stays nan."""
    bits = single.view(np.uint32)
    last = (bits >> np.uint32(16)) & np.uint32(1)
    upper = (bits + np.uint32(0x7FFF) + last) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(single), single, upper.view(np.float32))
