"""Every recorded case again under simulated links: the same values, and what moves takes time."""

from typing import Literal

import pytest

from tests.conformance.variables.known import DEPENDS_ON_ORDER, check
from tests.conformance.variables.on_cluster import (
    InNoTime,
    OnCluster,
    backwards,
    bounds,
    bytes_by_device,
    moved,
)
from tests.conformance.variables.records import DATA, Case, cases, is_in_sample
from tests.conformance.variables.replay import Replay

BY_NAME = {case.name: case for case in cases(DATA)}


@pytest.mark.parametrize("sharing", ["first_come", "fair"])
def test_recorded_case(recorded: Case, sharing: Literal["first_come", "fair"], ours: bool) -> None:
    on_cluster, in_no_time = OnCluster(sharing), InNoTime()
    check(recorded, Replay(recorded, on_cluster).run(), ours=ours)
    Replay(recorded, in_no_time).run()

    for step, movements in zip(on_cluster.steps, in_no_time.steps, strict=True):
        if not step.ended:
            continue
        rows = moved(movements)
        assert sorted(step.moved) == sorted(rows)
        assert (step.up, step.down) == bytes_by_device(rows)
        least, most = bounds(movements)
        assert least <= step.time <= most


def test_recorded_case_with_the_last_replica_first(recorded: Case, ours: bool) -> None:
    # TensorFlow's order was recorded; where it is another, a difference is no error of ours.
    differences = Replay(recorded, backwards).run()
    if recorded.name in DEPENDS_ON_ORDER:
        assert differences, "its order does not matter: take it off the table"
        pytest.xfail(DEPENDS_ON_ORDER[recorded.name])
    if differences and not ours:
        pytest.xfail("depends on the order of replicas: " + differences[0])
    check(recorded, differences, ours=ours)


def test_what_depends_on_the_order_has_a_reason() -> None:
    assert BY_NAME.keys() >= DEPENDS_ON_ORDER.keys()
    assert all(why.startswith("depends on the order of ") for why in DEPENDS_ON_ORDER.values())


def test_most_cases_move_something() -> None:
    # The others are about one device, plain numbers, local copies, or what is refused.
    def moves(case: Case) -> bool:
        in_no_time = InNoTime()
        Replay(case, in_no_time).run()
        return any(in_no_time.steps)

    sample = list(filter(is_in_sample, BY_NAME.values()))
    assert sum(map(moves, sample)) > len(sample) / 2
