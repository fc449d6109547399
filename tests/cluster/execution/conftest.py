"""What tests of the cluster share."""

import pytest

from tests.pricing import Priced, Sharing


@pytest.fixture(params=["first_come", "fair"])
def cluster(request: pytest.FixtureRequest) -> Priced:
    """A cluster on which costs can be added up by hand, with links of both kinds in turn."""
    sharing: Sharing = request.param
    return Priced(sharing)
