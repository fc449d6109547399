"""Deaths where those who are left go on without the dead, by hand: 100 ms a step."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import (
    APPLIED,
    DROPPED,
    LOST,
    MS,
    gradient_rows,
    kill,
    life,
    milliseconds,
    report,
    restart,
    run,
    scenario,
    slow,
)
from varsim.cluster.failures import Failures
from varsim.cluster.outer import OuterReplicas
from varsim.cluster.present import PresentReplicas
from varsim.cluster.worker import Worker

# 40 bytes of parameters take 100 ms on a link: so long takes an all-reduce of 2 workers.
FAIR = {"bandwidth": 400.0, "latency": 0.0, "sharing": "fair"}
BOTH = pytest.mark.parametrize(
    "network", [FAIR, {**FAIR, "sharing": "first_come"}], ids=["fair", "first_come"]
)


def diloco(**settings: Any) -> dict[str, Any]:
    return {"kind": "diloco", "inner_steps": 2, **settings}


@BOTH
class TestTimes:
    def test_one_who_dies_computing_is_left_out(self, network: dict[str, Any]) -> None:
        # The other two come at 200, and their ring takes 100 ms, not 133 as that of three.
        trace = run(
            diloco(),
            cluster={"workers": 3},
            network=network,
            stop={"global_steps": 4},
            events=(kill(0.15, 2),),
        )

        assert milliseconds(trace.steps) == [100, 200, 400, 500]
        assert life(trace, 0)[2] == life(trace, 1)[2] == ("write", 200, 300)

    def test_who_waits_for_one_who_dies_goes_on(self, network: dict[str, Any]) -> None:
        # Worker 1 takes 300 ms a step; workers 0 and 2 wait for it from 200 until it dies at 400.
        trace = run(
            diloco(),
            cluster={"workers": 3, "slow_workers": (slow(1, 3.0),)},
            network=network,
            stop={"global_steps": 4},
            events=(kill(0.4, 1),),
        )

        assert milliseconds(trace.steps) == [300, 400, 600, 700]
        assert life(trace, 2)[2:4] == [("barrier", 200, 400), ("write", 400, 500)]

    def test_an_all_reduce_with_a_dead_member_fails(self, network: dict[str, Any]) -> None:
        # From 200 to 300; worker 1 dies at 230, and nothing is measured until worker 0's next one.
        trace = run(
            diloco(),
            cluster={"workers": 2},
            network=network,
            stop={"global_steps": 6},
            events=(kill(0.23, 1),),
        )

        assert life(trace, 0)[2:4] == [("write", 200, 230), ("compute", 230, 330)]
        assert milliseconds([row.time for row in trace.evaluations]) == [0, 430, 630]

    def test_once_one_has_the_result_all_get_it(self, network: dict[str, Any]) -> None:
        # Over the slow links of worker 2 a tree takes 200 ms up, and down, and 100 ms for worker 1
        # before and after: worker 2 is done at 700, the others at 800. Worker 1 dies before that.
        settings: dict[str, Any] = {
            "cluster": {"workers": 3},
            "network": {**network, "slow_links": (slow(2, 2.0),)},
            "stop": {"global_steps": 3},
        }
        tree = diloco(collective="binomial_tree")
        late = run(tree, **settings, events=(kill(0.75, 1),))
        early = run(tree, **settings, events=(kill(0.65, 1),))

        assert life(late, 0)[2] == ("write", 200, 800)
        assert life(early, 0)[2] == life(early, 2)[2] == ("write", 200, 650)
        assert [row.global_step for row in late.evaluations] == [0, 2, 3]
        assert [row.global_step for row in early.evaluations] == [0, 3]

    def test_who_is_back_takes_all_from_another_after_a_sync(self, network: dict[str, Any]) -> None:
        # Both sync from 400 to 500, worker 0 alone at 900. Back at 750, worker 1 waits for that,
        # and gets the model, its sync point and the outer velocity, 120 bytes, until 1200: it makes
        # steps 9 to 12 by 1600. Worker 0, which has made them by 1300, waits for it.
        trace = run(
            diloco(inner_steps=4),
            cluster={"workers": 2},
            network=network,
            stop={"global_steps": 13},
            events=(kill(0.55, 1), restart(0.75, 1)),
        )

        assert life(trace, 1)[5:9] == [
            *(("compute", 500, 550), ("down", 550, 750), ("barrier", 750, 900)),
            ("read", 900, 1200),
        ]
        assert life(trace, 0)[-3:] == [
            *(("barrier", 1300, 1600), ("write", 1600, 1700), ("compute", 1700, 1800)),
        ]
        assert milliseconds(trace.steps)[6:] == [800, 900, 1300, 1400, 1500, 1600, 1800]

    def test_a_delayed_sync_under_way_fails_when_it_is_waited_for(
        self, network: dict[str, Any]
    ) -> None:
        # Sent after step 1, at 100, to be there at 200, while step 2 is computed; dead at 150.
        trace = run(
            diloco(delay=1),
            cluster={"workers": 2},
            network=network,
            stop={"global_steps": 4},
            events=(kill(0.15, 1),),
        )

        assert {name for name, *_ in life(trace, 0)} == {"compute"}
        assert milliseconds([row.time for row in trace.evaluations]) == [0, 400]


ON_WRITE = {"kind": "on_write", "on_death": "continue_with_fewer"}
LOCAL = {"kind": "local_sgd", "period": 2, "on_death": "continue_with_fewer"}


@pytest.mark.parametrize("strategy", [ON_WRITE, LOCAL, diloco()], ids=lambda one: one["kind"])
@BOTH
def test_without_one_from_the_start_it_is_as_if_there_were_fewer(
    strategy: dict[str, Any], network: dict[str, Any]
) -> None:
    # Worker 2 dies in its first step: rings and means are of two, to the last bit.
    settings: dict[str, Any] = {"network": network, "problem": {"noise": 1.0}}
    trace = run(
        strategy, **settings, cluster={"workers": 3}, stop={"time": 1.5}, events=(kill(0.05, 2),)
    )
    alone = {key: value for key, value in strategy.items() if key != "on_death"}
    fewer = run(alone, **settings, cluster={"workers": 2}, stop={"time": 1.5})

    assert trace.steps.tolist() == fewer.steps.tolist()
    assert [row.loss for row in trace.evaluations] == [row.loss for row in fewer.evaluations]
    staleness = trace.copy_staleness.tolist()
    del staleness[2:3]  # of worker 2's copy, which it read once
    assert staleness == fewer.copy_staleness.tolist()


@BOTH
class TestOnWrite:
    def test_all_drop_what_they_reduced_with_one_who_dies(self, network: dict[str, Any]) -> None:
        # Three reduce from 100 on, worker 2 dies at 150: what the others computed is dropped, what
        # it did is lost. They compute again, and reduce in 100 ms.
        trace = run(ON_WRITE, cluster={"workers": 3}, network=network, events=(kill(0.15, 2),))

        assert milliseconds(trace.steps) == [350, 550, 750]
        first = [row for row in gradient_rows(trace) if row.iteration == 0]
        assert [(row.worker, row.outcome) for row in first] == [
            *((0, DROPPED), (1, DROPPED), (2, LOST)),
        ]
        rest = [row for row in gradient_rows(trace) if row.iteration > 0]
        assert {row.outcome for row in rest} == {APPLIED}

    def test_who_is_back_has_the_model_of_the_others(self, network: dict[str, Any]) -> None:
        # Workers 0 and 1 update at 200. Worker 2, back at 150, gets their model until 300, and
        # computes the gradient of the second step with them, which they have at 300.
        seen: list[PresentReplicas] = []
        with patch.object(PresentReplicas, "recover", _noting(seen, PresentReplicas.recover)):
            trace = run(
                ON_WRITE,
                cluster={"workers": 3},
                network=network,
                problem={"noise": 1.0},
                stop={"global_steps": 2},
                events=(kill(0.05, 2), restart(0.15, 2)),
            )

        assert life(trace, 2)[1:5] == [
            *(("down", 50, 150), ("barrier", 150, 200), ("read", 200, 300), ("compute", 300, 400)),
        ]
        assert life(trace, 0)[3][:2] == ("barrier", 300)
        assert [row.worker for row in gradient_rows(trace) if row.outcome == APPLIED] == [
            *(0, 1, 0, 1, 2),
        ]
        (copies,) = seen
        assert all(variable.copies_are_equal() for variable in copies.variables)

    def test_they_go_on_when_they_know(self, network: dict[str, Any]) -> None:
        # Worker 2 dies at 50, which the others, who come at 100, know at 350.
        with patch.object(Failures, "detection", 300 * MS):
            trace = run(ON_WRITE, cluster={"workers": 3}, network=network, events=(kill(0.05, 2),))
            sooner = run(
                ON_WRITE,
                cluster={"workers": 3},
                network=network,
                events=(kill(0.05, 2), restart(0.25, 2)),
            )

        assert life(trace, 0)[1:3] == [("barrier", 100, 350), ("write", 350, 450)]
        # When it is back, they know, too.
        assert life(sooner, 0)[1:3] == [("barrier", 100, 250), ("write", 250, 350)]


def _noting(seen: list[Any], function: Any) -> Any:
    def noting(self: Any, *args: Any) -> Any:
        seen.append(self)
        return function(self, *args)

    return noting


def test_an_average_with_a_dead_member_changes_no_copy() -> None:
    # From 200 on; worker 2 dies at 250. The copies go on, and are averaged from 450 to 550.
    trace = run(
        LOCAL,
        cluster={"workers": 3},
        network=FAIR,
        stop={"global_steps": 5},
        events=(kill(0.25, 2),),
    )

    assert life(trace, 0)[2:6] == [
        *(("write", 200, 250), ("compute", 250, 350), ("compute", 350, 450), ("write", 450, 550)),
    ]
    assert milliseconds([row.time for row in trace.evaluations]) == [0, 550, 650]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "on_death has no effect: nobody dies"),
        ({"bucketing": "layers"}, "bucketing does not go with on_death"),
        (
            {"collective": "hierarchical", "ranks_per_group": 2},
            "ranks_per_group does not go with on_death: groups are not equal",
        ),
    ],
)
def test_what_does_not_go_with_those_who_are_left(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        scenario({**ON_WRITE, **settings}, cluster={"workers": 4})


def test_nobody_has_the_model_any_more() -> None:
    # Worker 1 is to get it from 900 to 1200; worker 0 dies as it sends.
    trace = run(
        diloco(inner_steps=4),
        cluster={"workers": 2},
        network=FAIR,
        stop={"global_steps": 20},
        events=(kill(0.55, 1), restart(0.75, 1), kill(1.15, 0)),
    )

    assert milliseconds([trace.end]) == [1200]
    assert report(trace) == [
        "worker 1: waiting for the model, which no running worker has",
        "because worker 0 was killed at 1.15 s while computing",
        "to free it: nothing can, as no running worker has the model any more",
    ]


@contextmanager
def offers(seen: list[tuple[int, int, int, list[float]]]) -> Iterator[None]:
    """See which worker offers which fragment after which step, and its copy."""
    offer = OuterReplicas.offer

    def seen_offer(self: OuterReplicas, worker: Worker, sync: int, fragment: int) -> None:
        rank = worker.rank
        copy = np.concatenate([part.reshape(-1) for part in self.copy(rank)])
        seen.append((rank, self.steps[rank], fragment, copy.tolist()))
        offer(self, worker, sync, fragment)

    with patch.object(OuterReplicas, "offer", seen_offer):
        yield


def test_a_failed_sync_keeps_its_fragment() -> None:
    # Two fragments of 5 numbers each. The first sync fails: the first fragment of worker 0's copy
    # is what it was at the start, and after two more steps again what it was after two; the second
    # goes on.
    seen: list[tuple[int, int, int, list[float]]] = []
    with offers(seen):
        run(
            diloco(inner_steps=4, fragments=2, outer={"kind": "sgd", "learning_rate": 1.0}),
            cluster={"workers": 2},
            network=FAIR,
            problem={"noise": 0.0},
            stop={"global_steps": 9},
            events=(kill(0.22, 1),),
        )
    assert [one[:3] for one in seen] == [
        *((0, 2, 0), (1, 2, 0), (0, 4, 0), (0, 6, 1), (0, 8, 0)),
    ]
    after = {step: np.array(copy) for rank, step, _, copy in seen if rank == 0}
    np.testing.assert_array_equal(after[4][:5], after[2][:5])
    assert (np.abs(after[4][5:]) > np.abs(after[2][5:])).all()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"overlap": True}, "overlap does not go with events .* could not be taken back"),
        (
            {"inner_steps": 4, "fragments": 2, "delay": 2, "convention": "paper"},
            r"delay does not go with events .* unless it is below inner_steps / fragments \(2\)",
        ),
        (
            {"collective": "hierarchical", "ranks_per_group": 2},
            "collective hierarchical does not go with events .* groups are not equal",
        ),
    ],
)
def test_what_does_not_go_with_events(settings: dict[str, Any], says: str) -> None:
    layers = ({"backward": 1.0, "size": 10.0}, {"backward": 1.0, "size": 30.0})
    changes = {"workload": {"layers": layers}} if "overlap" in settings else {}
    with pytest.raises(ValidationError, match=says):
        scenario(diloco(**settings), cluster={"workers": 4}, events=(kill(0.35, 1),), **changes)
