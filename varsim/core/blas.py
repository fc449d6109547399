"""BLAS with one thread: how many there are changes the last bits of a product of matrices."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run with one thread, whatever the environment says; as before afterwards.

    More would be slower, too: the matrices of a simulation are small.
    """
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> "ThreadpoolController":
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
