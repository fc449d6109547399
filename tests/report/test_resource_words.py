"""What resources are called: a link is not down because it is one that a node receives by."""

import pytest

from varsim.report.words.resources import resource
from varsim.study.why.resources import Use


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("node 1 down", "the link of node 1, receiving"),
        ("rack 0..2 up", "the links of racks 0 to 2, sending"),
        ("rack 0..1 up", "the links of racks 0 and 1, sending"),
        ("rack 0, 1, 3..5 up", "the links of racks 0, 1 and 3 to 5, sending"),
        ("core", "core"),
    ],
)
def test_a_shared_link_has_a_direction(name: str, said: str) -> None:
    assert resource(Use(name, "shared", 0.5)) == said
