"""What is told of failures: throughput that is kept, members that fail together, spares tried."""

from typing import Any, ClassVar

import pytest

from tests.building import DAY, HOUR, MORTAL, scenario
from tests.reports import noted
from tests.seams import Note, Number, simulate, why


def times(said: Note) -> float:
    """How many failures it tells of."""
    number = said.values["times"]
    assert isinstance(number, Number)
    return number.mean


def test_a_throughput_to_reach_is_that_of_what_is_kept() -> None:
    """Some 95 % of the examples of undisturbed steps are kept, surely less than 99 % of them."""
    plain = simulate(scenario({"kind": "on_write"}, **MORTAL))
    bound = 0.99 * plain.estimate("on_write", "examples_per_s").mean
    result = simulate(scenario({"kind": "on_write"}, **MORTAL, targets={"throughput": bound}))

    (one,) = result.judgements
    assert one.missed
    assert one.mean == result.estimate("on_write", "kept_examples_per_s").mean


def test_members_that_share_a_row_of_a_trace_are_told_of() -> None:
    law: dict[str, Any] = {"kind": "trace", "seconds": ((DAY,), (2 * DAY, DAY))}
    for replay, told in (("cycle", True), ("resample", False)):
        source = {"domain": "worker", "distribution": {**law, "replay": replay}}
        failures = {**MORTAL["failures"], "of": (source,)}
        mortal = {**MORTAL, "failures": failures, "recovery": {"restart": 180.0}}
        said = noted(simulate(scenario({"kind": "on_write"}, **mortal)), "share-rows")
        assert bool(said) == told
        assert [note.values["rows"] for note in said] == [2] * told


def test_members_whose_times_do_not_differ_are_told_of() -> None:
    for law, told in (
        ({"kind": "constant", "value": DAY}, True),
        ({"kind": "exponential", "mean": DAY}, False),
    ):
        failures = {**MORTAL["failures"], "of": ({"domain": "worker", "distribution": law},)}
        mortal = {**MORTAL, "failures": failures, "recovery": {"restart": 180.0}}
        said = noted(simulate(scenario({"kind": "on_write"}, **mortal)), "fail-together")
        assert [note.values["count"] for note in said] == [3] * told


def test_spares_for_all_that_fails_at_once_are_tried() -> None:
    """Of a rack of two one more spare is of no help: the job waits for the second host."""
    source = {"domain": "rack", "mtbf": 3 * DAY, "repair": 6 * HOUR}
    racks = {"kind": "racks", "hosts_per_rack": 2, "oversubscription": 1.0}
    changes = {
        **MORTAL,
        "cluster": {"workers": 4, "compute": {"kind": "constant", "value": 1.0}},
        "network": {**racks, "bandwidth": 1e9, "latency": 0.0},
        "failures": {**MORTAL["failures"], "of": (source,)},
        "recovery": {"restart": 180.0},
        "stop": {"global_steps": 12},
    }
    (account,) = why(scenario({"kind": "on_write"}, **changes)).accounts
    gains = {one.key: one.gain.mean for one in account.helps}
    assert gains["spares"] > gains["spare"] == 0
    (title,) = (one.title for one in account.helps if one.key == "spares")
    assert title == "2 hot spares (a rack takes 2 hosts)"


def test_the_fastest_is_who_keeps_most() -> None:
    """Saved after 400 steps only, jobs lose more to failures than by fewer messages they gain."""
    pair = (
        {"kind": "diloco", "inner_steps": 400, "name": "seldom"},
        {"kind": "on_write"},
    )
    source = {"domain": "worker", "mtbf": 2 * HOUR}
    changes = {
        **MORTAL,
        "cluster": {"workers": 2, "compute": {"kind": "constant", "value": 10.0}},
        "network": {"bandwidth": 1e6, "latency": 0.0},
        "failures": {**MORTAL["failures"], "of": (source,)},
        "checkpoint": {"every": 300.0, "write": 1.0},
        "recovery": {"restart": 60.0},
        "stop": {"global_steps": 801},
    }
    result = simulate(scenario(pair[0], **changes, strategies=pair))
    of = {
        name: [result.estimate(label, name).mean for label in ("seldom", "on_write")]
        for name in ("examples_per_s", "kept_examples_per_s")
    }
    assert of["examples_per_s"][0] > of["examples_per_s"][1]
    assert of["kept_examples_per_s"][0] < of["kept_examples_per_s"][1]
    assert result.report.headline[0].values["best"] == "all-reduce"
    assert result.report.table.rows == ("all-reduce", "seldom")


def test_the_optimal_interval_is_told_as_it_is_taken() -> None:
    """Rounds of 1,000 s: of 3,178 s of work three are made, or four, whichever keeps more."""
    saved = {**MORTAL, "checkpoint": {"every": "optimal", "write": 60.0}}
    cluster = {"workers": 3, "compute": {"kind": "constant", "value": 10.0}}
    rounds = {"kind": "diloco", "inner_steps": 100}
    changes: dict[str, Any] = {**saved, "cluster": cluster, "stop": {"global_steps": 201}}
    one = scenario(rounds, **changes)
    both = simulate(scenario({}, **changes, strategies=({"kind": "on_write"}, rounds)))

    (alone,) = noted(simulate(one), "optimal-interval")
    assert alone.values == {"best": "50 min"}
    (each,) = noted(both, "optimal-interval")
    assert each.values == {"best": "53 min for all-reduce, 50 min for DiLoCo"}


class TestNewMembers:
    WEIBULL: ClassVar[dict[str, Any]] = {"kind": "weibull", "mean": 8_640_000.0, "shape": 0.7}

    def said(self, **changes: Any) -> list[Note]:
        law = {**self.WEIBULL, **changes.pop("law", {})}
        stop = changes.pop("stop", {"global_steps": 40})
        of = ({"domain": "worker", "distribution": law},)
        failures = {"horizon": 864_000.0, **changes, "of": of}
        strategy = {"kind": "none"} if failures["horizon"] is None else {"kind": "on_write"}
        made = scenario(strategy, failures=failures, stop=stop)
        found = noted(made, "new-at-first")
        assert found == noted(simulate(made), "new-at-first")
        return found

    def test_they_fail_more_often_than_their_mean_says(self) -> None:
        # Of 100 days the first 10: 0.244 failures are expected, not 0.1 (see test_renewals).
        (said,) = self.said()
        assert times(said) == pytest.approx(2.44, abs=0.005)
        assert said.values["lasts"] == Number(10 * DAY, unit="days")

    def test_or_less_often_where_they_wear_out(self) -> None:
        (said,) = self.said(law={"shape": 2.0})
        assert times(said) == pytest.approx(0.0783, abs=0.00005)

    def test_inside_a_run_until_its_end(self) -> None:
        (said,) = self.said(law={"mean": 100.0}, horizon=None, stop={"time": 10.0})
        assert times(said) == pytest.approx(2.44, abs=0.005)
        assert said.values["lasts"] == Number(10.0, unit="days")

    @pytest.mark.parametrize(
        "changes",
        [{"law": {"shape": 1.0}}, {"law": {"mean": 3_600.0}}, {"strike": "while_running"}],
    )
    def test_nothing_where_it_is_no_matter(self, changes: dict[str, Any]) -> None:
        assert self.said(**changes) == []


def test_what_lies_after_the_horizon_is_told() -> None:
    recorded: dict[str, Any] = {
        "failures": ((DAY, "worker", 1), (90 * DAY, "worker", 2)),
        "repair": 30 * DAY,
    }
    failures = {"horizon": 20 * DAY, "recorded": recorded}
    changes = {**MORTAL, "failures": failures, "recovery": {"restart": 60.0}}
    told = simulate(scenario({"kind": "on_write"}, **changes))
    assert len(noted(told, "late-failures")) == len(noted(told, "long-repair")) == 1

    fine = {"failures": recorded["failures"][:1], "repair": HOUR}
    changes["failures"] = {"horizon": 20 * DAY, "recorded": fine}
    told = simulate(scenario({"kind": "on_write"}, **changes))
    assert noted(told, "late-failures") == noted(told, "long-repair") == []


def test_that_nothing_was_ever_saved_is_told() -> None:
    """After 100 days of work: never in a life of some days, though writes of one would be told."""
    for every, told in ((100 * DAY, True), (HOUR, False)):
        saved = {**MORTAL, "checkpoint": {"every": every, "write": 60.0}}
        result = simulate(scenario({"kind": "on_write"}, **saved))
        assert (max(result.values("on_write", "life_checkpoint")) == 0) == told
        assert bool(noted(result, "never-saved")) == told


def test_a_horizon_shorter_than_a_step_is_told() -> None:
    """Of 1 s in which not one step ends; a whole one within it is not told."""
    for share, told in ((0.5, True), (4.0, False)):
        step = simulate(scenario({"kind": "on_write"})).trace("on_write").steps[0] / 1e9
        failing = {**MORTAL["failures"], "horizon": share * step}
        changes = {**MORTAL, "failures": failing}
        changes.pop("checkpoint", None)
        result = simulate(scenario({"kind": "on_write"}, **changes))
        assert (result.estimate("on_write", "kept_examples_per_s").mean == 0) == told
        assert bool(noted(result, "horizon-short")) == told


def test_lives_that_keep_hardly_anything_say_why() -> None:
    """Three workers, each failing every 12 s on average: one of them every 4 s."""
    failing = {
        "horizon": 1 * DAY,
        "detection": 60.0,
        "of": ({"domain": "worker", "mtbf": 12.0},),
    }
    changes = {
        **MORTAL,
        "failures": failing,
        "checkpoint": {"every": HOUR, "write": 60.0},
        "recovery": {"restart": 240.0},
    }
    result = simulate(scenario({"kind": "on_write"}, **changes))
    assert result.estimate("on_write", "goodput").mean < 0.01
    assert result.scenario.cluster.workers == 3
    (told,) = noted(result, "hopeless")
    every, needs = told.values["every"], told.values["needs"]
    assert isinstance(every, Number)
    assert isinstance(needs, Number)
    assert every.mean == pytest.approx(4.0)
    assert needs.mean == 300.0
    mild = {**changes, "failures": {**failing, "of": ({"domain": "worker", "mtbf": 30 * DAY},)}}
    spared = simulate(scenario({"kind": "on_write"}, **mild))
    assert noted(spared, "hopeless") == []
