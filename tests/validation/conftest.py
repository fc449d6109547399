"""Networks that validation registers are known to no other test."""

from collections.abc import Iterator

import pytest

from varsim.cluster.topology import NETWORKS


@pytest.fixture(autouse=True, scope="module")
def _forgotten() -> Iterator[None]:
    yield
    NETWORKS.registered.clear()
