"""Gradients pushed to servers while they are computed: by hand, with deaths, with each strategy."""

from typing import Any

import pytest

from tests.building import (
    MS,
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

    def test_a_variable_is_there_when_all_its_layers_are(self) -> None:
        # Two variables of 20 kB: the second is the third layer, there at 850; the first at 1050.
        trace = pushed(problem={"kind": "timing", "parts": 2})
        (row,) = gradient_rows(trace)
        assert (row.arrived, row.applied) == (1050 * MS, 1050 * MS)
        # Of eight variables of 5 kB, four are cut out of the third layer.
        many = pushed(problem={"kind": "timing", "parts": 8})
        assert many.steps.tolist() == [1050 * MS]


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
