"""What validation registers is known to no other test."""

from collections.abc import Iterator

import pytest

from tests.seams import forget


@pytest.fixture(autouse=True, scope="module")
def _forgotten() -> Iterator[None]:
    yield
    forget()
