"""What a scenario can choose: refusals, and rough times beside what a run takes."""

from typing import Any, get_args

import pytest
from building import scenario
from pydantic import ValidationError
from walking import a_job

from varsim.cluster.collective import own_links
from varsim.cluster.collectives.choice import Algorithm, Choice, Hop
from varsim.cluster.collectives.plan import Plan
from varsim.cluster.collectives.recurrence import Recurrence

ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
GROUPED = ("hierarchical", "hierarchical_leader")

# A message of 100 MB in parts: bandwidth against latency against additions.
HOPS = (Hop(20e-6, 8e-11, 0.0), Hop(0.0, 8e-10, 0.0), Hop(1e-3, 8e-11, 1e-11))


def choice(algorithm: Algorithm, ranks: int) -> Choice:
    group = next(number for number in (4, 3, 2, 1) if ranks % number == 0)
    return Choice(algorithm, group if algorithm in GROUPED else None)


def simulated(wanted: Choice, ranks: int, size: float, hop: Hop) -> float:
    """Seconds on equal, idle links when all enter at once."""
    made = a_job(ranks, 1 / hop.per_byte, round(hop.latency * 1e9), "first_come")
    rate = 1 / hop.adding if hop.adding else None
    plan = Plan(wanted.schedule(ranks, size), size, own_links(made), rate)
    return max(Recurrence(plan).ends([0] * ranks)) / 1e9


@pytest.mark.parametrize("hop", HOPS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8, 12, 16, 17, 32, 64])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rough_times(algorithm: Algorithm, ranks: int, hop: Hop) -> None:
    wanted = choice(algorithm, ranks)
    for size in (1e3, 1e8):
        exact = simulated(wanted, ranks, size, hop)
        rough = wanted.duration(ranks, size, hop)
        if algorithm == "double_binary_tree":
            assert 0.85 * exact <= rough <= (1.55 if ranks in (3, 5) else 1.15) * exact
        elif ranks & (ranks - 1) and algorithm != "ring":
            # At most what a rank may do while another still adds, or its message is on its way.
            assert exact - 1e-6 <= rough <= (2.0 if size == 1e3 else 1.25) * exact
        else:
            assert rough == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"collective": "hierarchical"}, "needs ranks_per_group"),
        ({"collective": "hierarchical_leader"}, "needs ranks_per_group"),
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
