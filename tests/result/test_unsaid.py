"""What a scenario leaves unsaid is told where it matters, with the key to write."""

from typing import Any, ClassVar

import pytest

from tests.building import scenario
from tests.reports import checked
from tests.seams import Note, Number, simulate, why
from varsim import Scenario
from varsim.report.wording import written
from varsim.study.beginning import optimizer_time, overlap_gains, pushed_late
from varsim.study.why.levers import alone

# Two ranks reduce 32 MB: half of it there and back, 32 ms at 1 GB/s, in 4 layers. Of 96 ms of
# computing the backward pass is 64 ms, of which a layer takes 16 ms.
LAYERS = tuple({"backward": 1.0, "size": 8e6} for _ in range(4))


def comparison(**changes: Any) -> Scenario:
    settings: dict[str, Any] = {
        "cluster": {"workers": 2, "compute": {"kind": "constant", "value": 0.096}},
        "network": {"bandwidth": 1e9, "latency": 0.0, "sharing": "first_come"},
        "workload": {"batch_size": 1, "optimizer": None, "layers": LAYERS},
        "problem": {"kind": "timing"},
        "stop": {"global_steps": 30},
        "strategies": ({"kind": "on_write"}, {"kind": "on_write", "name": "ddp", "overlap": True}),
    }
    return scenario({"kind": "on_write"}, **{**settings, **changes})


def mirrored(index: int = 0, **changes: Any) -> Scenario:
    """One of the two alone: nothing is forgotten that would count with overlap."""
    return alone(comparison(**changes), index)


def on_device(batch_size: int, **device: Any) -> Scenario:
    device = {"preset": "a100_sxm_80gb", "efficiency": 0.4, **device}
    return scenario(
        {"kind": "on_write"},
        cluster={"workers": 8, "compute": None, "device": device},
        network={"bandwidth": 1e11, "latency": 1e-5},
        workload={"batch_size": batch_size, "model": "bert_large", "optimizer": {"kind": "adam"}},
        problem={"kind": "timing"},
        stop={"global_steps": 30},
    )


def of_check(made: Scenario) -> dict[str, Note]:
    """What check says is left out, by its code."""
    return {note.code: note for note in checked(made).report.notes}


class TestOverlap:
    def test_a_run_says_what_ddp_would_gain(self) -> None:
        # The first bucket, of 1 MiB or more, is the last layer: 8 ms, hidden. The three others are
        # the second, 24 ms once the backward pass has ended: 128 ms a step become 120 ms.
        made = mirrored()
        (gain,) = overlap_gains(made).values()
        assert gain == pytest.approx(128 / 120)
        (note,) = (note for note in simulate(made).report.notes if note.code == "overlap")
        assert note.values == {"who": "all-reduce", "times": Number(gain)}

    def test_it_is_what_the_run_with_overlap_makes(self) -> None:
        made = mirrored()
        both = comparison()
        result = simulate(both)
        (gain,) = overlap_gains(made).values()
        measured = (
            result.estimate("ddp", "examples_per_s").mean
            / result.estimate("on_write", "examples_per_s").mean
        )
        assert gain == pytest.approx(measured, rel=1e-9)
        codes = [note.code for note in result.report.notes]
        assert "overlap" not in codes, "a strategy beside it shows it"

    def test_check_and_explain_say_the_same(self) -> None:
        made = mirrored()
        checked = of_check(made)["overlap"]
        (note,) = (note for note in why(made).report.notes if note.code == "overlap")
        assert note.values["who"] == checked.values["who"] == "all-reduce"
        times = note.values["times"]
        assert isinstance(times, Number)
        assert times.mean == pytest.approx(overlap_gains(made)["on_write"])

    def test_nothing_where_it_does_not_matter_or_is_impossible(self) -> None:
        fast = mirrored(network={"bandwidth": 1e11, "latency": 0.0, "sharing": "first_come"})
        assert overlap_gains(fast)["on_write"] < 1.02
        assert of_check(fast) == {}
        assert "overlap" not in [note.code for note in simulate(fast).report.notes]
        assert overlap_gains(mirrored(1)) == {}
        assert overlap_gains(scenario({"kind": "none"})) == {}


class TestPushes:
    """A worker reads and pushes 32 MB in 32 ms each, and computes for 96 ms: 20 % of the time."""

    SERVERS: ClassVar[dict[str, Any]] = {
        "workers": 1,
        "parameter_servers": 1,
        "compute": {"kind": "constant", "value": 0.096},
    }

    def pushing(self, **changes: Any) -> Scenario:
        strategies = ({"kind": "none", **changes},)
        return comparison(cluster=self.SERVERS, strategies=strategies)

    def test_run_check_and_explain_say_what_they_take_and_the_key(self) -> None:
        made = self.pushing()
        checked = of_check(made)["pushed-late"]
        assert checked.values["who"] == ("async PS",)
        assert written(checked.values["share"]) == "20\N{NO-BREAK SPACE}%"
        (note,) = (note for note in simulate(made).report.notes if note.code == "pushed-late")
        assert note.values["who"] == ("async PS",)
        (explained,) = (note for note in why(made).report.notes if note.code == "pushed-late")
        assert explained.values["who"] == ("async PS",)

    def test_it_moves_the_answer(self) -> None:
        # All layers but the last that is made, 24 of 32 ms, are pushed while others are made.
        before, after = (
            simulate(made).estimate("none", "gradients_per_s").mean
            for made in (self.pushing(), self.pushing(overlap=True))
        )
        assert before == pytest.approx(1 / 0.160)
        assert after == pytest.approx(1 / 0.136)

    def test_nothing_where_they_overlap_or_cannot(self) -> None:
        assert of_check(self.pushing(overlap=True)) == {}
        assert pushed_late(self.pushing(overlap=True)) == []
        assert pushed_late(scenario({"kind": "none"})) == [], "all gradients are ready at once"


class TestSigma:
    def test_check_says_what_shared_clusters_would_cost(self) -> None:
        # The largest of 8 lognormals is about 1.42 sigma above their mean.
        note = of_check(on_device(64))["shared-device"]
        assert note.values["sigma"] == "0.1"
        assert "shared-device" not in of_check(on_device(64, sigma=0.05))


class TestOptimizer:
    def test_check_says_what_an_update_takes_where_flops_are_all_that_is_known(self) -> None:
        # A parameter: gradient, value and 2 slots read, value and slots written, 28 bytes.
        made = on_device(2)
        number = made.workload.size() / 4
        assert optimizer_time(made) == pytest.approx(28 * number / 2e12)
        note = of_check(made)["optimizer-time"]
        assert note.values["time"] == Number(optimizer_time(made), unit="s")
