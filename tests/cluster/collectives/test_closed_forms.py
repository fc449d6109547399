"""Collectives take what theory says: every point of a collective that comes with varsim.

In slow motion, a million times slower: then rounding each message to a whole ns is nothing.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.building import run
from tests.cluster.collectives.walking import a_job, walked
from validation.points.schedules import (
    binomial_broadcast,
    chain,
    leader_all_reduce,
    pairwise,
    scatter_all_gather,
)
from varsim.cluster.collective import own_links
from varsim.cluster.collectives import (
    doubling,
    hierarchy,
    ring,
    tree,
)
from varsim.cluster.collectives.plan import Path as Way
from varsim.cluster.collectives.plan import Paths, Plan
from varsim.cluster.collectives.recurrence import Recurrence
from varsim.cluster.collectives.schedule import Schedule
from varsim.cluster.job import Job
from varsim.cluster.network import network
from varsim.cluster.topology import Star

DATA = Path(__file__).parents[3] / "validation" / "data" / "references" / "closed_forms.json"
SLOWER = 10**6

Point = dict[str, Any]
POINTS: list[Point] = [
    point for point in json.loads(DATA.read_text()) if point["family"].startswith("coll-")
]


def of(*families: str) -> Any:
    """The points of these families, each a test of its own."""
    found = [point for point in POINTS if point["family"] in families]
    return pytest.mark.parametrize("point", found, ids=lambda point: str(point["id"]))


def seconds(ends: list[int]) -> float:
    return max(ends) / 1e9 / SLOWER


def run_of(kind: str, point: Point, slower: int) -> int:
    """The ns that `on_write` spends on the all-reduce in its first step."""
    wanted = point["parameters"]
    gamma = wanted.get("gamma", 0.0)
    overheads = {"reduction": 1 / gamma / slower} if gamma else None
    trace = run(
        {"kind": "on_write", "collective": kind},
        network={
            "bandwidth": 1 / wanted["beta"] / slower,
            "latency": wanted["alpha"] * slower,
            "sharing": "fair",
        },
        cluster={
            "workers": wanted["p"],
            "compute": {"kind": "constant", "value": 1.0},
            "overheads": overheads,
        },
        problem={"kind": "timing", "size": wanted["n"]},
        workload={"optimizer": None},
        stop={"global_steps": 1},
    )
    return int(trace.steps[0]) - 10**9


REDUCED = of(
    "coll-ring-allreduce",
    "coll-recdoubling-allreduce",
    "coll-rabenseifner-allreduce",
    "coll-tree-allreduce",
)
KINDS = {
    "coll-ring-allreduce": "ring",
    "coll-recdoubling-allreduce": "recursive_doubling",
    "coll-rabenseifner-allreduce": "halving_doubling",
    "coll-tree-allreduce": "binomial_tree",
}


@REDUCED
class TestAllReducesOfAScenario:
    def test_in_slow_motion(self, point: Point) -> None:
        took = run_of(KINDS[point["family"]], point, SLOWER)

        assert seconds([took]) == pytest.approx(point["expected"], rel=1e-9)

    def test_at_its_own_pace(self, point: Point) -> None:
        # A message and an addition are rounded to a whole ns each, in every round.
        kind, ranks = KINDS[point["family"]], point["parameters"]["p"]
        rounds = 2 * (ranks - 1) if kind == "ring" else 2 * math.ceil(math.log2(ranks))
        took = run_of(kind, point, 1)

        assert took == pytest.approx(point["expected"] * 1e9, abs=rounds + 0.1)


def hockney(made: Job, alpha: float, beta: float) -> Paths:
    """A message of m bytes keeps both ports busy for alpha + m beta: no latency, but a header."""
    return lambda source, target: own_links(made)(source, target)._replace(header=alpha / beta)


def took(schedule: Schedule, point: Point) -> float:
    """Seconds of a collective on links of a job where ports are busy with every message."""
    wanted = point["parameters"]
    gamma = wanted.get("gamma", 0.0)
    made = a_job(schedule.ranks, 1 / wanted["beta"] / SLOWER, 0, "first_come")
    paths = hockney(made, wanted["alpha"], wanted["beta"])
    plan = Plan(schedule, wanted["n"], paths, 1 / gamma / SLOWER if gamma else None)
    entries = [0] * schedule.ranks
    _, (done,) = walked(made, plan, [entries])
    assert Recurrence(plan).ends(entries) == done
    return seconds(done)


MADE = {
    "coll-ring-allreduce": lambda p, **_: ring.all_reduce(p),
    "coll-ring-reducescatter": lambda p, **_: ring.reduce_scatter(p),
    "coll-recdoubling-allreduce": lambda p, **_: doubling.recursive_doubling(p),
    "coll-rabenseifner-allreduce": lambda p, **_: doubling.halving_doubling(p),
    "coll-tree-allreduce": lambda p, **_: tree.all_reduce(p),
    "coll-binomial-bcast": lambda p, **_: binomial_broadcast(p),
    "coll-vandegeijn-bcast": lambda p, **_: scatter_all_gather(p),
    "coll-chain-bcast": lambda p, m, **_: chain(p, m),
    "coll-alltoall": lambda p, **_: pairwise(p),
}


@of(*MADE)
def test_messages_that_keep_their_ports_busy(point: Point) -> None:
    schedule = MADE[point["family"]](**point["parameters"])

    assert took(schedule, point) == pytest.approx(point["expected"], rel=1e-9)


@of("coll-ring-reducescatter")
def test_an_all_gather_is_a_reduce_scatter_that_adds_nothing(point: Point) -> None:
    wanted = point["parameters"]
    adding = (wanted["p"] - 1) / wanted["p"] * wanted["n"] * wanted["gamma"]

    gathered = took(ring.all_gather(wanted["p"]), point)
    assert gathered == pytest.approx(point["expected"] - adding, rel=1e-9)


@of("coll-chain-bcast-opt")
def test_the_best_number_of_segments(point: Point) -> None:
    # Segments are whole; m of them take alpha (m - m*)^2 / m more than the real-valued optimum m*.
    wanted = point["parameters"]
    ranks, alpha = wanted["p"], wanted["alpha"]
    best = math.sqrt((ranks - 2) * wanted["n"] * wanted["beta"] / alpha)
    for segments in (math.floor(best), math.ceil(best), math.ceil(best) + 5):
        more = alpha * (segments - best) ** 2 / segments
        simulated = took(chain(ranks, segments), point)
        assert simulated - more == pytest.approx(point["expected"], rel=1e-9)
        assert simulated >= point["expected"] * (1 - 1e-9)


@of("coll-crossover")
def test_where_two_all_reduces_take_the_same_time(point: Point) -> None:
    ranks, size = point["parameters"]["p"], point["expected"]
    for factor, order in ((0.9, -1), (1.0, 0), (1.1, 1)):
        at = {**point, "parameters": {**point["parameters"], "n": size * factor}}
        doubled = took(doubling.recursive_doubling(ranks), at)
        halved = took(doubling.halving_doubling(ranks), at)
        if order == 0:
            assert doubled == pytest.approx(halved, rel=1e-9)
        else:
            assert (doubled > halved) == (order > 0)


def two_levels(made: Job, wanted: dict[str, Any]) -> Paths:
    """Inside a node over links of the job, between nodes over network cards of all ranks."""
    between = network(
        made.clock,
        Star(
            bandwidth=1 / wanted["beta2"] / SLOWER,
            latency=wanted["alpha2"] * SLOWER,
            sharing="fair",
        ),
    )
    cards = [
        between.host(f"card {worker.rank}", 1 / wanted["beta2"] / SLOWER) for worker in made.workers
    ]
    inside = own_links(made)

    def path(source: int, target: int) -> Way:
        if source // wanted["g"] == target // wanted["g"]:
            return inside(source, target)
        return Way(between, (cards[source][0], cards[target][1]))

    return path


@of("coll-hier-allreduce", "coll-hier-leader-allreduce")
def test_two_levels(point: Point) -> None:
    wanted = point["parameters"]
    ranks = wanted["k"] * wanted["g"]
    leaders = "leader" in point["family"]
    make = leader_all_reduce if leaders else hierarchy.all_reduce
    latency = round(wanted["alpha1"] * SLOWER * 1e9)
    made = a_job(ranks, 1 / wanted["beta1"] / SLOWER, latency, "fair")
    plan = Plan(make(ranks, wanted["g"]), wanted["n"], two_levels(made, wanted))
    assert not plan.uniform
    _, (done,) = walked(made, plan, [[0] * ranks])

    assert seconds(done) == pytest.approx(point["expected"], rel=1e-9)
    assert Recurrence(plan).ends([0] * ranks) == done


def test_no_point_is_left_out() -> None:
    checked = {*MADE, "coll-chain-bcast-opt", "coll-crossover"}
    checked |= {"coll-hier-allreduce", "coll-hier-leader-allreduce"}

    assert {point["family"] for point in POINTS} == checked
    assert len(POINTS) == 45
