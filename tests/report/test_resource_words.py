"""What resources are called: a link is not down because it is one that a node receives by."""

import pytest

from varsim.report.wording import resource
from varsim.study.why.resources import ResourceUse as Use


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("node 1 down", "the link of node 1, receiving"),
        ("rack 0..2 up", "the links of racks 0 to 2, sending"),
        ("rack 0..1 up", "the links of racks 0 and 1, sending"),
        ("rack 0, 1, 3..5 up", "the links of racks 0, 1 and 3 to 5, sending"),
        ("card 0 of node 2 up", "the link of card 0 of node 2, sending"),
        ("ps 0..3 down", "the servers' ports (ps 0 to 3, receiving)"),
        ("worker 3 up", "worker 3's link, sending"),
        ("worker 2 to worker 3", "worker 2 to worker 3"),
        ("inside node 1", "inside node 1"),
        ("core", "core"),
    ],
)
def test_a_link_is_told_by_whose_it_is_and_its_direction(name: str, said: str) -> None:
    assert resource(Use.of_link(name, 0.5)) == said
