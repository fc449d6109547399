"""What validation registers is known to no other test."""

from collections.abc import Iterator

import pytest

from varsim.cluster.collectives.choice import COLLECTIVES
from varsim.cluster.topology import NETWORKS


@pytest.fixture(autouse=True, scope="module")
def _forgotten() -> Iterator[None]:
    yield
    NETWORKS.registered.clear()
    COLLECTIVES.registered.clear()
