"""What a result of variables says: numbers, tables, sentences. Times in us (see `programs`)."""

import math
from typing import Any, TypeAlias

import pytest

from tests.programs import MODES, WIRE, add, read, scenario, variable
from tests.seams import Number, Result, VariablesScenario, simulate, trace_sha256

Ran: TypeAlias = Result[VariablesScenario]

# 1,000 numbers of 4 bytes. A write of all costs 4 x 1444 us in a ring, 12100 us on a server; a
# read from outside 8100 us where copies are collected, 4100 us from a server.
LARGE = variable(shape=(1000,), aggregation="mean")
RING, SERVED, COLLECTED, FETCHED = 5776, 12100, 8100, 4100


def large(**changes: Any) -> VariablesScenario:
    return scenario((add(3.0, 1.0, 2.0, times=4),), (read(),), variables=(LARGE,), **changes)


@pytest.fixture(scope="module")
def counted() -> Ran:
    """Two steps of 3, 1 and 2 in every mode."""
    return simulate(scenario((add(3.0, 1.0, 2.0), read()), (read(),), steps=2))


@pytest.fixture(scope="module")
def crossed() -> Ran:
    return simulate(large())


@pytest.fixture(scope="module")
def random() -> Ran:
    """Three replications with compute times that differ."""
    law = {"kind": "exponential", "mean": 1e-3}
    cluster = {"workers": 3, "compute": law, "network": WIRE}
    lines = ({"kind": "compute"}, add(3.0, 1.0, 2.0))
    return simulate(
        scenario(
            lines, (read(),), steps=4, replications=3, cluster=cluster, variables=(LARGE,),
        )
    )  # fmt: skip


class TestMetrics:
    def test_by_hand(self, crossed: Ran) -> None:
        times = {mode: crossed.values(mode, "step_time_mean") for mode in MODES}
        assert times["on_read"] == pytest.approx([COLLECTED * 1e-6])
        assert times["on_write"] == pytest.approx([4 * RING * 1e-6])
        assert times["none"] == pytest.approx([(4 * SERVED + FETCHED) * 1e-6])
        assert crossed.values("on_read", "bytes_per_step") == [8000]
        assert crossed.values("on_write", "messages_per_step") == [4 * 12]

    def test_steps_divide(self, counted: Ran) -> None:
        # A scalar: 100 us and 8 bytes for a read from outside, in each of two steps.
        assert counted.estimate("on_read", "step_time_mean").mean == pytest.approx(108e-6)
        assert counted.estimate("on_read", "messages_per_step").mean == 2

    def test_several_replications_have_an_interval(self, random: Ran) -> None:
        found = random.estimate("none", "step_time_mean")
        assert found.replications == 3
        assert found.low < found.mean < found.high
        assert len(set(random.values("none", "step_time_mean"))) == 3
        assert math.isnan(random.estimate("none", "bytes_per_step").half_width) is False


class TestTables:
    def test_acts_by_hand(self, counted: Ran) -> None:
        acts = counted.acts[counted.acts["strategy"] == "on_read"]
        assert len(acts) == 2 * 7
        last = acts.iloc[-1]
        assert (last["step"], last["line"], last["actor"]) == (2, "outside.0", "outside")
        assert (last["seen"], last["copies"]) == ("12.0", "6.0 | 2.0 | 4.0")
        assert last["end_s"] - last["begin_s"] == pytest.approx(108e-6)

    def test_messages_by_hand(self, counted: Ran) -> None:
        sent = counted.sent[counted.sent["strategy"] == "on_read"]
        assert list(sent["what"]) == ["initial value"] * 2 + ["reduction to one device"] * 4
        assert list(sent["from"])[2:4] == ["replica 1", "replica 2"]
        assert set(sent["to"][2:]) == {"outside"}

    def test_spans_steps_and_links_are_those_of_any_run(self, crossed: Ran) -> None:
        assert set(crossed.spans["strategy"]) == set(crossed.summary["strategy"]) == set(MODES)
        steps = crossed.steps.set_index("strategy")["time_s"]
        ends = crossed.runs.set_index("strategy")["simulated_time"]
        assert steps.to_dict() == pytest.approx(ends.to_dict())
        row = crossed.links.set_index(["strategy", "link"]).loc["none", "ps 0 down"]
        assert row["moved_bytes"] == 4 * 3 * 4000
        # In 4 x 12100 + 4100 us the link could carry 52,500 bytes.
        assert row["utilization"] == pytest.approx(48_000 / 52_500)

    def test_where_the_time_went_by_hand(self, crossed: Ran) -> None:
        """Of three workers one reads from outside while two wait; making the variables is left."""
        of = {name: crossed.values("on_read", f"share_{name}")[0] for name in ("read", "barrier")}
        assert of == pytest.approx({"read": 1 / 3, "barrier": 2 / 3})
        assert crossed.values("on_write", "share_write") == pytest.approx([1.0])


def codes(result: Ran) -> list[str]:
    return [note.code for note in result.report.headline]


def noted(result: Ran) -> list[str]:
    return [note.code for note in result.report.notes]


def column(table: Any, key: str) -> list[float | str]:
    """The cells of a column; means of numbers."""
    cells = next(one.cells for one in table.columns if one.key == key)
    return [cell.mean if isinstance(cell, Number) else str(cell) for cell in cells]


def last_seen(result: Ran) -> Any:
    return next(one for one in result.report.details if one.corner.startswith("Read last"))


class TestTold:
    def test_costs_are_rows_by_rank(self, crossed: Ran) -> None:
        table = crossed.report.table
        assert (table.rows, table.best) == (("on_read", "on_write", "none"), 1)
        assert column(table, "step_time_mean") == pytest.approx([8.1e-3, 23.104e-3, 52.5e-3])
        assert column(table, "time_ratio") == pytest.approx([1, 2.85, 6.48], rel=0.01)
        assert column(table, "bytes_per_step") == [8000, 64000, 52000]
        assert column(table, "messages_per_step") == [2, 48, 13]

    def test_what_was_seen(self, counted: Ran) -> None:
        table = last_seen(counted)
        assert table.rows == ("v, on_read", "v, on_write", "v, none")
        assert column(table, "replicas") == ["6 | 2 | 4", "12 each", "9 | 10 | 12"]
        assert column(table, "outside") == ["12", "12", "12"]
        assert column(table, "copies at the end") == ["6 | 2 | 4", "12 each", "12"]

    def test_of_many_copies_the_first_are_shown(self) -> None:
        cluster = {"workers": 70, "network": WIRE}
        made = scenario((add(1.0),), modes=("on_read",), cluster=cluster)
        held = column(last_seen(simulate(made)), "copies at the end")
        assert held == ["1 each (the first 64 of 70)"]

    def test_links_by_hand(self, crossed: Ran) -> None:
        links = crossed.report.appendix[-1]
        place = links.rows.index("ps 0 down")
        assert column(links, "none")[place] == pytest.approx(48_000 / 52_500)

    def test_of_the_fastest_and_what_was_seen(self, counted: Ran) -> None:
        step, seen = counted.report.headline
        assert (step.code, step.values["best"]) == ("step-fastest", "on_read")
        assert seen.values["seen"] == "v 12 in every mode"

    def test_of_one_mode(self) -> None:
        fixed = variable(synchronization="on_read")
        result = simulate(scenario((add(1.0),), (read(),), variables=(fixed,), modes=()))
        step, seen = result.report.headline
        assert (step.code, seen.values["seen"]) == ("step-alone", "v 3")
        keys = [one.key for one in result.report.table.columns]
        assert keys == ["step_time_mean", "bytes_per_step", "messages_per_step", "time"]

    def test_of_modes_that_cost_the_same(self) -> None:
        result = simulate(scenario((read(),), modes=("on_read", "on_write")))
        assert codes(result) == ["step-free"]
        assert result.report.table.best == 2

    def test_where_the_fastest_takes_no_time(self) -> None:
        result = simulate(scenario((add(1.0),), modes=("on_write", "on_read")))
        (step,) = result.report.headline
        assert (step.code, step.values["who"]) == ("step-free", ("on_read",))
        assert "time_ratio" not in [one.key for one in result.report.table.columns]

    def test_with_replications_says_how_sure_it_is(self, random: Ran) -> None:
        assert noted(random)[0] == "interval"
        (cell, *_) = random.report.table.columns[0].cells
        assert isinstance(cell, Number)
        assert cell.half > 0

    def test_one_replication_of_what_is_random(self) -> None:
        law = {"kind": "exponential", "mean": 1e-3}
        cluster = {"workers": 3, "compute": law, "network": WIRE}
        result = simulate(scenario(({"kind": "compute"}, add(1.0)), cluster=cluster))
        assert (codes(result), noted(result)) == (["too-few"], ["one-run"])

    def test_of_what_is_not_random_there_is_nothing_to_say(self, counted: Ran) -> None:
        assert noted(counted) == ["exact"]

    def test_an_odd_replica_out_is_told(self) -> None:
        made = scenario((add(1.0),), modes=("on_write",), cross_device_ops="hierarchical_copy")
        assert "odd-replica" in noted(simulate(made))


class TestRunning:
    def test_jobs_change_nothing(self, random: Ran) -> None:
        again = simulate(random.scenario, jobs=2).traces
        assert list(map(trace_sha256, again)) == list(map(trace_sha256, random.traces))

    def test_progress_is_told(self) -> None:
        told: list[tuple[int, int]] = []
        simulate(large(), progress=lambda *pair: told.append(pair))
        assert told == [(done, 3) for done in range(1, 4)]

    def test_provenance_names_what_was_simulated(self, counted: Ran, crossed: Ran) -> None:
        assert set(counted.provenance) == {"scenario_sha256", "seed", "varsim", "schema", "engine"}
        assert counted.provenance != crossed.provenance
