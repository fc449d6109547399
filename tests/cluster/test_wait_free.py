"""Gradients pushed to servers while they are computed: by hand, with deaths, with each strategy."""

from typing import Any

import pytest

from tests.building import (
    LOST,
    MS,
    Fate,
    fates,
    gradient_rows,
    kill,
    life,
    losses,
    phase_time,
    restart,
    run,
    slow,
)
from tests.seams import Outcome, Phase, Trace

Case = dict[str, Any]

# Three layers of 10, 10 and 20 kB, backward passes of 100, 100 and 200 ms after 50 ms forward; a kB
# takes 10 ms. So they are ready at 250 (the third), 350 and 450 ms after the begin.
LAYERS = (
    {"backward": 1.0, "size": 10e3},
    {"backward": 1.0, "size": 10e3},
    {"backward": 2.0, "size": 20e3},
)
CHANGES: Case = {
    "network": {"bandwidth": 1e5, "latency": 0.0, "sharing": "first_come"},
    "problem": {"kind": "timing"},
    "workload": {"optimizer": None, "layers": LAYERS},
    "stop": {"global_steps": 1},
}
ONE: Case = {"workers": 1, "compute": {"kind": "phases", "forward": 0.05, "backward": 0.4}}
TWO: Case = {**ONE, "workers": 2}


def pushed(kind: str = "none", **changes: Any) -> Trace:
    strategy = {"kind": kind, "overlap": True, **changes.pop("strategy", {})}
    return run(strategy, **{**CHANGES, "cluster": ONE, **changes})


class TestOneWorker:
    """It reads until 400, computes until 850; layers are ready at 650, 750, 850 and take 200, 100,
    100 ms: 650 - 850, 850 - 950, 950 - 1050.
    """

    @pytest.mark.parametrize("sharing", ["first_come", "fair"])
    def test_each_layer_is_sent_once_it_is_ready(self, sharing: str) -> None:
        trace = pushed(network={**CHANGES["network"], "sharing": sharing})
        assert trace.steps.tolist() == [1050 * MS]
        assert life(trace, 0) == [
            ("read", 0, 400),
            ("compute", 400, 850),
            ("write", 850, 1050),
        ]
        # From 650 on it is sending, until 850 it computes.
        assert (trace.sending, trace.hidden) == (400 * MS, 200 * MS)
        assert trace.send_rows.array().tolist() == [[0, Phase.WRITE, 650 * MS, 1050 * MS, 0]]

    def test_what_is_sent_with_a_pause_between(self) -> None:
        # Layers of 2, 10 and 2 kB are ready at 100 + 50 + 100, ... = 390, 490, 590 and take 20,
        # 100 and 20 ms: 390 - 410, 490 - 590, 590 - 610.
        sizes = ({"backward": 1.0, "size": 2e3}, {"backward": 1.0, "size": 10e3})
        trace = pushed(
            workload={"optimizer": None, "layers": (*sizes, {"backward": 2.0, "size": 2e3})}
        )
        assert trace.steps.tolist() == [610 * MS]
        assert (trace.sending, trace.hidden) == (140 * MS, 120 * MS)
        # From 490 to 610 something is on its way all the time.
        assert trace.send_rows.array()[:, 2:4].tolist() == [
            [390 * MS, 410 * MS],
            [490 * MS, 610 * MS],
        ]

    def test_without_overlap_all_is_sent_after_the_backward_pass(self) -> None:
        trace = run("none", **{**CHANGES, "cluster": ONE, "workload": SIZED})
        assert trace.steps.tolist() == [1250 * MS]
        assert len(trace.send_rows) == 0

    def test_a_variable_is_there_when_all_its_layers_are(self) -> None:
        # Two variables of 20 kB: the second is the third layer, there at 850; the first at 1050.
        trace = pushed(problem={"kind": "timing", "parts": 2})
        (row,) = gradient_rows(trace)
        assert (row.arrived, row.applied) == (1050 * MS, 1050 * MS)
        # Of eight variables of 5 kB, four are cut out of the third layer.
        many = pushed(problem={"kind": "timing", "parts": 8})
        assert many.steps.tolist() == [1050 * MS]

    def test_a_latency_comes_once_on_top(self) -> None:
        trace = pushed(network={**CHANGES["network"], "latency": 0.003})
        # 3 ms for the read, 3 for the last message.
        assert trace.steps.tolist() == [1056 * MS]

    def test_a_slow_worker_stretches_its_backward_pass(self) -> None:
        # Twice as long: ready at 900, 1100, 1300: 900 - 1100, 1100 - 1200, 1300 - 1400.
        trace = pushed(cluster={**ONE, "slow_workers": (slow(0, 2.0),)})
        assert trace.steps.tolist() == [1400 * MS]
        assert life(trace, 0)[1:] == [("compute", 400, 1300), ("write", 1300, 1400)]

    def test_tensors_in_turn_go_to_servers_of_their_own(self) -> None:
        # Layers 1 and 3 on the first server, 2 on the second; the worker's link is what counts.
        placed = {**ONE, "parameter_servers": 2, "placement": "round_robin"}
        assert pushed(cluster=placed).steps.tolist() == [1050 * MS]
        # Servers with half the bandwidth: the read takes 600 ms for the 30 kB of the first, until
        # 1050 is computed. It takes 850 - 1250 and 1250 - 1450, the second 950 - 1150.
        half = {**CHANGES["network"], "server_bandwidth": 5e4}
        trace = pushed(cluster=placed, network=half)
        assert trace.steps.tolist() == [1450 * MS]

    def test_servers_handle_each_variable_once(self) -> None:
        # 5 ms of attention for the read, 2 for each variable once it is there.
        handled = {**ONE, "overheads": {"pull": 0.005, "push": 0.002}}
        trace = pushed(cluster=handled, problem={"kind": "timing", "parts": 2})
        assert trace.steps.tolist() == [(5 + 1050 + 2) * MS]
        updated = {**ONE, "server_update": {"rate": 1e6}}
        # 20 kB at 1 MB/s take 20 ms; the first variable comes last.
        trace = pushed(cluster=updated, problem={"kind": "timing", "parts": 2})
        assert trace.steps.tolist() == [1070 * MS]

    def test_locked_updates_wait_for_all_of_a_gradient(self) -> None:
        locked = {**ONE, "overheads": {"commit": 0.05}}
        trace = pushed(cluster=locked, strategy={"use_locking": True})
        assert trace.steps.tolist() == [1100 * MS]


SIZED: Case = {"optimizer": None, "layers": LAYERS}


class TestTwoWorkers:
    def test_what_the_other_holds_up_is_queueing(self) -> None:
        # Both read at half the speed until 800, and compute until 1250. With one port at the
        # server: each has half of it from 1050 on, and needs 400 ms of it: until 1850, 600 ms
        # after it has computed; alone it would take 200.
        network = {**CHANGES["network"], "sharing": "fair"}
        trace = pushed(cluster=TWO, network=network, stop={"global_steps": 3})
        for worker in (0, 1):
            assert life(trace, worker)[1:5] == [
                ("read", 400, 800),
                ("compute", 800, 1250),
                ("queue", 1250, 1650),
                ("write", 1650, 1850),
            ]
        assert [time / MS for time in trace.steps[:2].tolist()] == [1850, 1850]

    def test_first_come_ports_take_layers_as_they_come(self) -> None:
        # Worker 0 reads 0 - 400, worker 1 400 - 800; the port has 650 - 850 (0), 850 - 950 (0),
        # 950 - 1050 (0); worker 1 is ready at 1050, 1150, 1250: 1050 - 1250, - 1350, - 1450.
        trace = pushed(cluster=TWO, stop={"global_steps": 2})
        assert [time / MS for time in trace.steps.tolist()] == [1050, 1450]

    def test_a_layer_keeps_its_place_in_line(self) -> None:
        # 400 ms forward: worker 0 has layers at 1000, 1100, 1200. Worker 1, who reads second,
        # needs 0.55 of that: 1130, 1185, 1240. The port takes them in turn: 1000 - 1200 (0),
        # - 1300 (0), - 1500 (1), - 1600 (1), - 1700 (0), - 1800 (1).
        even = {"kind": "phases", "forward": 0.4, "backward": 0.4}
        quicker = {**TWO, "compute": even, "slow_workers": (slow(1, 0.55),)}
        trace = pushed(cluster=quicker, stop={"global_steps": 2})
        assert [time / MS for time in trace.steps.tolist()] == [1700, 1800]


class TestStrategies:
    WORKERS: Case = {
        "workers": 4,
        "parameter_servers": 2,
        "compute": {"kind": "exponential", "mean": 0.1},
    }
    REAL: Case = {
        "cluster": WORKERS,
        "network": {"bandwidth": 1e9, "latency": 1e-5, "sharing": "fair"},
        "problem": {"kind": "digits", "model": "mlp"},
        "workload": {"model": "resnet50", "batch_size": 8},
        "stop": {"global_steps": 12},
    }
    SERVED = (
        {"kind": "none"},
        {"kind": "none", "use_locking": True},
        {"kind": "sync_replicas", "replicas_to_aggregate": 3},
        {"kind": "backup_workers", "replicas_to_aggregate": 3},
    )

    @pytest.mark.parametrize("strategy", SERVED, ids=str)
    @pytest.mark.parametrize("sharing", ["first_come", "fair"])
    def test_it_saves_time_and_loses_no_byte(self, strategy: Case, sharing: str) -> None:
        changes = {
            "cluster": self.WORKERS,
            "network": {"bandwidth": 4e9, "latency": 1e-5, "sharing": sharing},
            "problem": {"kind": "timing", "parts": 4},
            "workload": {"model": "resnet50", "optimizer": None},
            "stop": {"global_steps": 30},
        }
        plain = run(strategy, **changes)
        trace = run({**strategy, "overlap": True}, **changes)

        assert trace.end < plain.end
        assert sum(phase_time(trace, phase) for phase in Phase) == 4 * trace.end
        assert trace.global_step == 30

    def test_synchronous_values_are_those_without_overlap(self) -> None:
        strategy = {"kind": "sync_replicas", "replicas_to_aggregate": 4}
        one = {**self.REAL, "cluster": {**self.WORKERS, "compute": ONE["compute"]}}
        plain, trace = (run({**strategy, "overlap": way}, **one) for way in (False, True))
        # All gradients of a step come in the order of the ranks, or that of sharing.
        assert losses(trace) == pytest.approx(losses(plain), rel=1e-12)

    @pytest.mark.parametrize("strategy", SERVED, ids=str)
    def test_it_repeats(self, strategy: Case) -> None:
        one, other = (run({**strategy, "overlap": True}, **self.REAL) for _ in range(2))
        assert one.steps.tolist() == other.steps.tolist()
        assert losses(one) == losses(other)


class TestGivingUp:
    def test_who_is_late_sends_no_more(self) -> None:
        # Worker 1 takes thrice as long and is at its backward pass when the step ends, at 1050;
        # it has read at 800 and would have sent its third layer at 800 + 150 + 600.
        trace = pushed(
            "backup_workers",
            strategy={"replicas_to_aggregate": 1},
            cluster={**TWO, "slow_workers": (slow(1, 3.0),)},
        )
        up = {link.name: link.moved for link in trace.links}
        assert trace.steps.tolist() == [1050 * MS]
        assert up["worker 1 up"] == 0
        assert up["worker 0 up"] == 40e3

    def test_what_was_handed_over_is_carried_and_thrown_away(self) -> None:
        # Worker 1 is a little slower, and reads second: it is sending when a step ends.
        trace = pushed(
            "backup_workers",
            strategy={"replicas_to_aggregate": 1},
            cluster={**TWO, "slow_workers": (slow(1, 1.1),)},
            stop={"global_steps": 3},
        )
        outcomes = [fate.outcome for fate in fates(trace)]
        assert outcomes.count(Outcome.APPLIED) == 3
        assert sum(phase_time(trace, phase) for phase in Phase) == 2 * trace.end


class TestDeaths:
    """A worker that dies in its backward pass: what is there of its gradient stays."""

    def trace(self, *events: Case, parts: int = 2, **changes: Any) -> Trace:
        return pushed(problem={"kind": "timing", "parts": parts}, events=events, **changes)

    def test_before_anything_is_sent_the_gradient_is_lost(self) -> None:
        # It dies at 600, 50 before its third layer is ready; back at 700: 700 + 1050.
        trace = self.trace(kill(0.6, 0), restart(0.7, 0))
        assert fates(trace)[0] == Fate(0, 0, 600, LOST)
        assert trace.steps.tolist() == [1750 * MS]
        assert life(trace, 0)[:3] == [("read", 0, 400), ("compute", 400, 600), ("down", 600, 700)]

    def test_a_variable_that_is_there_is_applied(self) -> None:
        # It dies at 900: the second variable was there at 850, half of the first is under way.
        trace = self.trace(kill(0.9, 0), restart(1.0, 0))
        first = gradient_rows(trace)[0]
        assert (first.outcome, first.parts_applied) == (Outcome.PARTLY, 1)

    def test_in_the_backward_pass_with_a_part_applied(self) -> None:
        # Backward passes of 20, 20, 360: the third layer is ready at 410 + ..., there long before
        # the end. Computing until 850; the third is ready at 400 + 50 + 100 and there at 750.
        quick = (
            {"backward": 3.0, "size": 10e3},
            {"backward": 3.0, "size": 10e3},
            {"backward": 2.0, "size": 20e3},
        )
        trace = self.trace(
            kill(0.8, 0), restart(0.9, 0), workload={"optimizer": None, "layers": quick}
        )
        first = gradient_rows(trace)[0]
        assert (first.outcome, first.parts_applied, first.computed) == (Outcome.PARTLY, 1, -1)
        assert life(trace, 0)[:3] == [("read", 0, 400), ("compute", 400, 800), ("down", 800, 900)]

    @pytest.mark.parametrize("sharing", ["first_come", "fair"])
    @pytest.mark.parametrize("at", range(20, 2000, 60))
    def test_whenever_it_dies_the_others_go_on(self, at: int, sharing: str) -> None:
        # Job.run asserts that no gradient is lost, and that spans tile.
        for strategy in (
            {"use_locking": False},
            {"use_locking": True},
        ):
            trace = self.trace(
                kill(at / 1e3, 0),
                restart(at / 1e3 + 0.3, 0),
                strategy=strategy,
                cluster=TWO,
                stop={"global_steps": 4},
                network={**CHANGES["network"], "sharing": sharing},
            )
            assert trace.global_step == 4
            assert trace.stopped_by == "global_steps"
