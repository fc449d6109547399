"""What tests of the cluster share."""

import pytest
from pricing import Priced, Sharing

from varsim.cluster.flat.rules import ENGINE


@pytest.fixture(params=["first_come", "fair"])
def cluster(request: pytest.FixtureRequest) -> Priced:
    """A cluster on which costs can be added up by hand, with links of both kinds in turn."""
    sharing: Sharing = request.param
    return Priced(sharing)


@pytest.fixture
def compared_with_simpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs on the engine for times alone are compared with is made on SimPy."""
    monkeypatch.setenv(ENGINE, "simpy")
