"""Gradient accumulation and DropCompute by hand: 100 ms a micro-batch, 40 bytes of parameters."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import (
    APPLIED,
    LOST,
    MS,
    gradient_rows,
    kill,
    life,
    losses,
    milliseconds,
    report,
    restart,
    run,
    scenario,
    slow,
)
from tests.reports import cells, checked, noted
from varsim import simulate
from varsim.report.told import Number
from varsim.study.why.account import Account, why
from varsim.study.why.levers import alone

# Two workers in a ring: 50 ms for half a vector, 100 ms for an all-reduce.
WIRE = {"bandwidth": 400.0, "latency": 0.0, "sharing": "first_come"}
BOTH = pytest.mark.parametrize("network", [WIRE, {**WIRE, "sharing": "fair"}], ids=["fcfs", "fair"])
NOISY = {"noise": 1.0}
SERVERS = {"parameter_servers": 2}
PAIR: dict[str, Any] = {"cluster": {"workers": 2}, "network": WIRE}


def accumulating(number: int = 3, **settings: Any) -> dict[str, Any]:
    return {"kind": "on_write", "micro_batches": number, **settings}


def dropping(threshold: float, number: int = 3, **settings: Any) -> dict[str, Any]:
    drop = {"threshold": threshold, **settings}
    return accumulating(number, drop_compute=drop)


class TestAccumulation:
    @BOTH
    def test_micro_batches_then_one_all_reduce(self, network: dict[str, Any]) -> None:
        trace = run(
            accumulating(2),
            cluster={"workers": 2},
            network=network,
            workload={"batch_size": 5},
            stop={"global_steps": 2},
        )
        assert milliseconds(trace.steps) == [300, 600]
        assert life(trace, 0)[:3] == [
            *(("compute", 0, 100), ("compute", 100, 200)),
            ("write", 200, 300),
        ]
        # Two steps of two workers with two micro-batches of five examples.
        assert trace.evaluations[-1].examples == 40
        assert {row.read for row in gradient_rows(trace)} == {0, 300 * MS}

    def test_servers_add_up_what_workers_have_added_up(self) -> None:
        # Half a vector to each server, 100 ms up for both, 100 ms down.
        changes: dict[str, Any] = {"network": {**WIRE, "sharing": "fair"}}
        changes["cluster"] = {"workers": 2, **SERVERS}
        trace = run(accumulating(2, collective="push_pull"), **changes, stop={"global_steps": 2})
        assert milliseconds(trace.steps) == [400, 800]

    def test_values_are_those_of_as_many_workers(self) -> None:
        # Without noise all gradients are equal, but for rounding: one update is one of any size.
        one, other = run("on_write"), run(accumulating(4))
        assert losses(one) == pytest.approx(losses(other), rel=1e-13)

    def test_noise_falls_with_the_batch(self) -> None:
        noisy = {"noise": 1.0}
        steps = {"stop": {"global_steps": 200}, "seed": 3}
        alone = run("on_write", problem=noisy, **steps)
        sixteen = run(accumulating(16), problem=noisy, **steps)
        # Gradients of variance 1: the loss hovers 16 times lower.
        assert np.mean(losses(sixteen)[-10:]) < np.mean(losses(alone)[-10:]) / 4

    def test_only_the_last_backward_pass_overlaps(self) -> None:
        # Forward 40, backward 60: the last layer (20 bytes: 50 ms) is ready at 70 of 100, the first
        # (50 ms) at 100. Two micro-batches: 170 - 220, then 220 - 270; without overlap 200 - 300.
        layers = ({"backward": 0.03, "size": 20.0}, {"backward": 0.03, "size": 20.0})
        changes: dict[str, Any] = {
            "cluster": {
                "workers": 2,
                "compute": {"kind": "phases", "forward": 0.04, "backward": 0.06},
            },
            "network": WIRE,
            "problem": {"kind": "timing"},
            "workload": {"optimizer": None, "layers": layers},
            "stop": {"global_steps": 2},
        }
        split = {"bucketing": "layers"}
        apart = run(accumulating(2, **split), **changes)
        together = run(accumulating(2, overlap=True, **split), **changes)
        assert milliseconds(apart.steps) == [300, 600]
        assert milliseconds(together.steps) == [270, 540]
        assert together.hidden == 4 * 30 * MS

    def test_who_stops_early_sends_all_at_once(self) -> None:
        # Worker 1 takes 160 ms and stops then; worker 0 begins its second at 100, whose layers are
        # ready at 170 and at 200: 170 - 220, 220 - 270.
        layers = ({"backward": 0.03, "size": 20.0}, {"backward": 0.03, "size": 20.0})
        trace = run(
            {**dropping(0.15, number=2), "overlap": True, "bucketing": "layers"},
            cluster={
                "workers": 2,
                "compute": {"kind": "phases", "forward": 0.04, "backward": 0.06},
                "slow_workers": (slow(1, 1.6),),
            },
            network=WIRE,
            problem={"kind": "timing"},
            workload={"optimizer": None, "layers": layers},
            stop={"global_steps": 2},
        )
        assert milliseconds(trace.steps) == [270, 540]
        assert life(trace, 1)[:3] == [
            *(("compute", 0, 160), ("barrier", 160, 170), ("write", 170, 270)),
        ]
        assert trace.hidden == 2 * 30 * MS

    def test_what_is_sent_is_rounded_once(self) -> None:
        sent = {"gradient_precision": "bf16", "round_gradients": True}
        rounded = run(accumulating(3), workload={"batch_size": 1, **sent}, problem=NOISY)
        exact = run(accumulating(3), problem=NOISY)
        assert losses(rounded) != losses(exact)
        assert losses(rounded) == pytest.approx(losses(exact), rel=0.02)

    def test_sparse_rows_are_added_up(self) -> None:
        made: dict[str, Any] = {"problem": {"kind": "embedding", "ratings": 50}}
        made |= {"stop": {"global_steps": 30}, "optimizer": {"learning_rate": 1.0}}
        trace = run(accumulating(2), **made)
        assert losses(trace)[-1] < 0.99 * losses(trace)[0]

    def test_who_dies_loses_what_it_has_added_up(self) -> None:
        # Worker 1 dies at 250, in its third micro-batch, and begins the step anew at 500, once it
        # has the model (400 to 500): its three micro-batches take until 800.
        events = (kill(0.25, 1), restart(0.4, 1))
        trace = run(accumulating(), **PAIR, events=events, stop={"global_steps": 2})
        assert milliseconds(trace.steps) == [900, 1300]
        fates = {row.iteration: row.outcome for row in gradient_rows(trace) if row.worker == 1}
        assert [fates[number] for number in range(9)] == [LOST] * 3 + [APPLIED] * 6
        assert trace.evaluations[-1].examples == 12

    def test_who_dies_in_the_all_reduce_has_offered_all(self) -> None:
        events = (kill(0.35, 1), restart(0.5, 1))
        trace = run(accumulating(), **PAIR, events=events, stop={"global_steps": 1})
        # The model from 500 to 600, and everything is sent again.
        assert milliseconds(trace.steps) == [700]
        assert {row.outcome for row in gradient_rows(trace)} == {APPLIED}


class TestDropCompute:
    # Worker 1 takes 200 ms a micro-batch.
    CLUSTER: dict[str, Any] = {"workers": 2, "slow_workers": (slow(1, 2.0),)}

    @BOTH
    @pytest.mark.parametrize("collective", ["ring", "push_pull"])
    def test_between(self, network: dict[str, Any], collective: str) -> None:
        # At 200, before its second, worker 1 goes on; at 400 it is past the threshold.
        cluster = {**self.CLUSTER, **(SERVERS if collective == "push_pull" else {})}
        trace = run(
            {**dropping(0.3), "collective": collective},
            cluster=cluster,
            network=network,
            stop={"global_steps": 2},
        )
        sent = 100 if collective == "ring" else 200
        assert milliseconds(trace.steps) == [400 + sent, 2 * (400 + sent)]
        assert life(trace, 1)[:3] == [
            *(("compute", 0, 200), ("compute", 200, 400)),
            ("write", 400, 400 + sent),
        ]
        assert life(trace, 0)[3] == ("barrier", 300, 400)
        # 3 + 2 micro-batches a step.
        assert trace.evaluations[-1].examples == 10
        assert {row.outcome for row in gradient_rows(trace)} == {APPLIED}

    def test_how_many_are_dropped_is_told(self) -> None:
        made = scenario(dropping(0.3), cluster=self.CLUSTER, stop={"global_steps": 4})
        result = simulate(made)
        # Of 3 + 3 micro-batches of a step 5 count.
        assert result.table()["micro-batches left out"].tolist() == ["16.7 %"]
        (share,) = cells(checked(made).report, "left_out")
        assert share.mean == pytest.approx(1 / 6)
        assert Account(alone(made, 0)).left_out == pytest.approx(1 / 6)
        (column,) = (one for one in why(made).report.table.columns if one.key == "left_out")
        assert column.cells == (Number(Account(alone(made, 0)).left_out or 0.0, unit="part"),)
        assert Account(alone(made, 0)).compute_times == []

    def test_over_all_or_over_those_computed(self) -> None:
        # One worker whose micro-batches have one gradient: of two of three it is two thirds.
        alone: dict[str, Any] = {"cluster": {"workers": 1}, "stop": {"global_steps": 1}}
        full = run("on_write", **alone)
        computed = run(dropping(0.2), **alone)
        over_all = run(dropping(0.2, divide_by="all"), **alone)
        assert losses(computed) == pytest.approx(losses(full), rel=1e-13)
        slower = run("on_write", **alone, optimizer={"learning_rate": 0.1 * 2 / 3})
        assert losses(over_all) == pytest.approx(losses(slower), rel=1e-13)

    def test_later_steps_meet_the_same_micro_batches(self) -> None:
        law = {"kind": "exponential", "mean": 0.1}
        changes: dict[str, Any] = {"cluster": {"workers": 2, "compute": law}, "seed": 5}

        def first_of_each_step(strategy: dict[str, Any]) -> list[int]:
            found: dict[int, int] = {}
            for row in gradient_rows(run(strategy, **changes)):
                if row.worker == 0 and row.computed >= 0 and row.compute_start == row.read:
                    found[row.read_step] = row.computed - row.compute_start
            return list(found.values())

        assert first_of_each_step(dropping(0.15)) == first_of_each_step(accumulating())

    def test_deaths(self) -> None:
        # As in accumulation, but the threshold counts anew from 500: two are computed until 700.
        events = (kill(0.15, 1), restart(0.4, 1))
        trace = run(dropping(0.15), **PAIR, events=events, stop={"global_steps": 1})
        assert milliseconds(trace.steps) == [800]
        fates = [row.outcome for row in gradient_rows(trace) if row.worker == 1]
        assert fates == [LOST, LOST, APPLIED, APPLIED]
        stuck = run(dropping(0.15), **PAIR, events=events[:1])
        assert report(stuck)[0] == "worker 0: waiting for an all-reduce that 1 of 2 have joined"

    def test_equal_examples(self) -> None:
        made = scenario(
            dropping(0.3),
            strategies=(accumulating(name="all"), dropping(0.3)),
            cluster=self.CLUSTER,
            stop={"global_steps": 10},
        )
        (told,) = noted(made, "equal-examples")
        assert told.values == {"examples": Number(60), "updates": "10 updates", "who": "all"}
        result = simulate(made)
        # Five of six a step: 12 steps.
        assert [trace.global_step for trace in result.traces] == [10, 12]


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        (dropping(0.05, number=1), "drop_compute has no effect with one micro-batch"),
        (dropping(-1.0), "threshold"),
        (accumulating(0), "micro_batches"),
    ],
)
def test_what_is_refused(strategy: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        scenario(strategy)


def test_a_few_steps_of_many_micro_batches_are_short() -> None:
    result = simulate(scenario(accumulating(20), stop={"global_steps": 4}))
    (note,) = (note for note in result.report.notes if note.code == "short-run")
    assert note.values["count"] == Number(4.0)
