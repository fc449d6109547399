"""What a scenario can choose, and what is refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import scenario
from varsim.cluster.collectives.choice import Choice


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"collective": "hierarchical"}, "needs ranks_per_group"),
        ({"collective": "hierarchical", "ranks_per_group": 0}, "greater than 0"),
        (
            {"collective": "hierarchical", "ranks_per_group": 2},
            "ranks_per_group 2 does not divide 3 workers evenly",
        ),
        ({"ranks_per_group": 3}, "ranks_per_group has no effect: collective ring has no groups"),
        (
            {"collective": "binomial_tree", "segment_size": 10.0},
            "segment_size has no effect: collective binomial_tree has no segments",
        ),
        ({"collective": "double_binary_tree", "segment_size": 0.0}, "greater than 0"),
        ({"collective": "tree"}, "collective"),
        (
            {"collective": "double_binary_tree", "segment_size": 9.9e-3},
            "segment_size is too small: either half of 40 B may have at most 2,000 segments",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        scenario({"kind": "on_write", **settings})


def test_segments_are_as_large_as_they_may_be() -> None:
    # Halves of 5 MB in segments of at most 1 MB, of half a MiB unless it says so; never none.
    # And never more than 2,000.
    for size, wanted, segments in (
        *((1e7, 1e6, 5), (1e7, None, 10), (8.0, None, 1), (1e7, 3e6, 2)),
        *((1e10, None, 2_000), (4e6, 1e3, 2_000)),
    ):
        chosen = Choice("double_binary_tree", segment_size=wanted)
        assert chosen.schedule(4, size).cut == 2 * segments
