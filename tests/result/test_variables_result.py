"""What a result of variables says: tables, crossovers, sentences. Times in us (see `programs`)."""

import dataclasses
import math
from typing import Any

import pytest

from tests.programs import MODES, WIRE, add, read, scenario, variable
from tests.seams import Number, VariablesResult, VariablesScenario, simulate, simulate_variables

# 1,000 numbers of 4 bytes. A write of all costs 4 x 1444 us in a ring, 12100 us on a server; a
# read from outside 8100 us where copies are collected, 4100 us from a server.
LARGE = variable(shape=(1000,), aggregation="mean")
RING, SERVED, COLLECTED, FETCHED = 5776, 12100, 8100, 4100


def varied(*ratios: float, **changes: Any) -> VariablesScenario:
    whole: dict[str, Any] = {"variables": (LARGE,), "vary": {"reads_per_write": ratios}, **changes}
    return scenario((add(3.0, 1.0, 2.0, times=4),), (read(),), **whole)


@pytest.fixture(scope="module")
def counted() -> VariablesResult:
    """Two steps of 3, 1 and 2 in every mode."""
    return simulate_variables(scenario((add(3.0, 1.0, 2.0), read()), (read(),), steps=2))


@pytest.fixture(scope="module")
def crossed() -> VariablesResult:
    return simulate_variables(varied(0, 0.5, 1, 2))


@pytest.fixture(scope="module")
def random() -> VariablesResult:
    """Three replications with compute times that differ."""
    law = {"kind": "exponential", "mean": 1e-3}
    cluster = {"workers": 3, "compute": law, "network": WIRE}
    lines = ({"kind": "compute"}, add(3.0, 1.0, 2.0))
    return simulate_variables(
        scenario(
            lines, (read(),), steps=4, replications=3, cluster=cluster, variables=(LARGE,),
            vary={"reads_per_write": (0, 1, 2)},
        )
    )  # fmt: skip


class TestMetrics:
    def test_by_hand(self, crossed: VariablesResult) -> None:
        times = {mode: crossed.values(mode, "time_per_step") for mode in MODES}
        assert times["on_read"] == pytest.approx([COLLECTED * 1e-6])
        assert times["on_write"] == pytest.approx([4 * RING * 1e-6])
        assert times["none"] == pytest.approx([(4 * SERVED + FETCHED) * 1e-6])
        assert crossed.values("on_read", "bytes_per_step") == [8000]
        assert crossed.values("on_write", "messages_per_step") == [4 * 12]

    @pytest.mark.parametrize(("ratio", "reads"), [(0, 0), (0.5, 2), (1, 4), (2, 8)])
    def test_at_every_ratio(self, crossed: VariablesResult, ratio: float, reads: int) -> None:
        found = crossed.estimate("on_read", "time_per_step", ratio)
        assert found.mean == pytest.approx(reads * COLLECTED * 1e-6)
        assert crossed.values("none", "messages_per_step", ratio) == [12 + reads]

    def test_steps_divide(self, counted: VariablesResult) -> None:
        # A scalar: 100 us and 8 bytes for a read from outside, in each of two steps.
        assert counted.estimate("on_read", "time_per_step").mean == pytest.approx(108e-6)
        assert counted.estimate("on_read", "messages_per_step").mean == 2

    def test_several_replications_have_an_interval(self, random: VariablesResult) -> None:
        found = random.estimate("none", "time_per_step")
        assert found.replications == 3
        assert found.low < found.mean < found.high
        assert len(set(random.values("none", "time_per_step"))) == 3
        assert math.isnan(random.estimate("none", "bytes_per_step").half_width) is False


class TestCrossovers:
    def test_by_hand(self) -> None:
        """A step of 4 writes; r reads for each of them."""
        first, second = simulate_variables(varied(0, 1, 4)).crossovers()
        # 4 r COLLECTED = 4 RING.
        assert (first.first, first.second) == ("on_read", "on_write")
        assert first.reads_per_write.mean == pytest.approx(RING / COLLECTED)
        assert first.time_per_step == pytest.approx(4 * RING * 1e-6)
        # 4 r COLLECTED = 4 SERVED + 4 r FETCHED; 4 RING is always less than that.
        assert (second.first, second.second) == ("on_read", "none")
        assert second.reads_per_write.mean == pytest.approx(SERVED / (COLLECTED - FETCHED))
        assert math.isnan(second.reads_per_write.low), "one replication"

    def test_only_where_the_lines_cross(self, crossed: VariablesResult) -> None:
        assert simulate_variables(varied(0, 0.5)).crossovers() == []
        assert [found.second for found in crossed.crossovers()] == ["on_write"]
        assert crossed.crossovers_of("on_read", "none") == []

    def test_without_a_variation_there_are_none(self, counted: VariablesResult) -> None:
        assert (counted.ratios, counted.crossovers()) == ((), [])

    def test_replications_give_an_interval(self, random: VariablesResult) -> None:
        # One write a step, after computing: 1 compute + RING against 1 compute + r COLLECTED.
        (found,) = random.crossovers_of("on_read", "on_write")
        assert found.reads_per_write.replications == 3
        assert found.reads_per_write.low <= found.reads_per_write.mean
        assert found.reads_per_write.mean == pytest.approx(RING / COLLECTED, rel=0.01)

    def test_replications_that_do_not_agree_give_none(self, random: VariablesResult) -> None:
        """One replication in which the modes never change places."""
        traces = list(random.traces)
        per_point = 3 * 3
        for point in range(1, 4):
            place = point * per_point + 1  # on_read, replication 1
            slow = traces[place].end + 10**9
            traces[place] = dataclasses.replace(traces[place], end=slow)
        result = VariablesResult(random.scenario, traces)
        for found in result.crossovers_of("on_read", "on_write"):
            assert math.isnan(found.reads_per_write.low)
            assert found.reads_per_write.note == "in 2 of 3 replications"


class TestTables:
    def test_summary_and_runs_have_all_points(self, crossed: VariablesResult) -> None:
        assert len(crossed.summary) == 5 * 3 * 3
        assert len(crossed.runs) == 5 * 3
        at = crossed.runs[crossed.runs["reads_per_write"] == 2]
        assert list(at["mode"]) == list(MODES)
        assert crossed.runs["reads_per_write"].isna().sum() == 3

    def test_acts_by_hand(self, counted: VariablesResult) -> None:
        acts = counted.acts[counted.acts["mode"] == "on_read"]
        assert len(acts) == 2 * 7
        last = acts.iloc[-1]
        assert (last["step"], last["line"], last["actor"]) == (2, "outside.0", "outside")
        assert (last["seen"], last["copies"]) == ("12.0", "6.0 | 2.0 | 4.0")
        assert last["end_s"] - last["begin_s"] == pytest.approx(108e-6)

    def test_messages_by_hand(self, counted: VariablesResult) -> None:
        sent = counted.sent[counted.sent["mode"] == "on_read"]
        assert list(sent["what"]) == ["initial value"] * 2 + ["reduction to one device"] * 4
        assert list(sent["from"])[2:4] == ["replica 1", "replica 2"]
        assert set(sent["to"][2:]) == {"outside"}
        assert set(counted.sent[counted.sent["mode"] == "none"]["to"]) == {
            "ps 0", "outside", *(f"replica {rank}" for rank in range(3)),
        }  # fmt: skip

    def test_links_by_hand(self, crossed: VariablesResult) -> None:
        links = crossed.links.set_index(["mode", "link"])
        row = links.loc["none", "ps 0 down"]
        assert row["moved_bytes"] == 4 * 3 * 4000
        # In 4 x 12100 + 4100 us the link could carry 52,500 bytes.
        assert row["utilization"] == pytest.approx(48_000 / 52_500)


def codes(result: VariablesResult) -> list[str]:
    return [note.code for note in result.report.headline]


def noted(result: VariablesResult) -> list[str]:
    return [note.code for note in result.report.notes]


def column(table: Any, key: str) -> list[float | str]:
    """The cells of a column; means of numbers."""
    cells = next(one.cells for one in table.columns if one.key == key)
    return [cell.mean if isinstance(cell, Number) else str(cell) for cell in cells]


def last_seen(result: VariablesResult) -> Any:
    return next(one for one in result.report.details if one.corner.startswith("Read last"))


class TestTold:
    def test_costs_are_rows_by_rank(self, crossed: VariablesResult) -> None:
        table = crossed.report.table
        assert (table.rows, table.best) == (("on_read", "on_write", "none"), 1)
        assert column(table, "time_per_step") == pytest.approx([8.1e-3, 23.104e-3, 52.5e-3])
        assert column(table, "time_ratio") == pytest.approx([1, 2.85, 6.48], rel=0.01)
        assert column(table, "bytes_per_step") == [8000, 64000, 52000]
        assert column(table, "messages_per_step") == [2, 48, 13]

    def test_what_was_seen(self, counted: VariablesResult) -> None:
        table = last_seen(counted)
        assert table.rows == ("v, on_read", "v, on_write", "v, none")
        assert column(table, "replicas") == ["6 | 2 | 4", "12 each", "9 | 10 | 12"]
        assert column(table, "outside") == ["12", "12", "12"]
        assert column(table, "copies at the end") == ["6 | 2 | 4", "12 each", "12"]

    def test_of_many_copies_the_first_are_shown(self) -> None:
        cluster = {"workers": 70, "network": WIRE}
        made = scenario((add(1.0),), modes=("on_read",), cluster=cluster)
        held = column(last_seen(simulate_variables(made)), "copies at the end")
        assert held == ["1 each (the first 64 of 70)"]

    def test_over_ratios(self, crossed: VariablesResult) -> None:
        table = crossed.report.details[0]
        assert table.rows == ("0", "0.5", "1", "2")
        assert column(table, "on_read") == pytest.approx([0, 16.2e-3, 32.4e-3, 64.8e-3])
        many = simulate_variables(varied(*(n / 4 for n in range(41)), modes=("on_read",)))
        rows = many.report.details[0].rows
        assert (len(rows), rows[0], rows[-1]) == (12, "0", "10")

    def test_links_by_hand(self, crossed: VariablesResult) -> None:
        links = crossed.report.details[-1]
        place = links.rows.index("ps 0 down")
        assert column(links, "none")[place] == pytest.approx(48_000 / 52_500)

    def test_of_what_was_varied(self, crossed: VariablesResult) -> None:
        over, step, seen = crossed.report.headline
        assert (over.code, step.code, seen.code) == ("fastest-over", "step-fastest", "read-outside")
        assert (over.values["best1"], over.values["best2"]) == (("on_read",), ("on_write",))
        until = over.values["until1"]
        assert isinstance(until, Number)
        assert until.mean == pytest.approx(RING / COLLECTED)
        assert (step.values["best"], step.values["next"]) == ("on_read", "on_write")
        assert seen.values["seen"] == "v 8 in on_read and on_write, 24 in none"

    def test_of_a_program_as_it_is_written(self, counted: VariablesResult) -> None:
        step, seen = counted.report.headline
        assert (step.code, step.values["best"]) == ("step-fastest", "on_read")
        assert seen.values["seen"] == "v 12 in every mode"

    def test_of_one_mode(self) -> None:
        fixed = variable(synchronization="on_read")
        result = simulate_variables(scenario((add(1.0),), (read(),), variables=(fixed,), modes=()))
        step, seen = result.report.headline
        assert (step.code, seen.values["seen"]) == ("step-alone", "v 3")
        keys = [one.key for one in result.report.table.columns]
        assert keys == ["time_per_step", "bytes_per_step", "messages_per_step"]

    def test_of_modes_that_cost_the_same(self) -> None:
        result = simulate_variables(scenario((read(),), modes=("on_read", "on_write")))
        assert codes(result) == ["step-free"]
        assert result.report.table.best == 2

    def test_where_the_fastest_takes_no_time(self) -> None:
        result = simulate_variables(scenario((add(1.0),), modes=("on_write", "on_read")))
        (step,) = result.report.headline
        assert (step.code, step.values["who"]) == ("step-free", ("on_read",))
        assert "time_ratio" not in [one.key for one in result.report.table.columns]

    def test_where_nothing_crosses(self) -> None:
        over = simulate_variables(varied(0, 0.5, modes=("on_read", "on_write"))).report.headline[0]
        assert over.values["best1"] == ("on_read",)
        assert "best2" not in over.values

    def test_a_crossing_of_slower_modes_is_a_note(self) -> None:
        result = simulate_variables(varied(0, 1, 4))
        (note,) = [one for one in result.report.notes if one.code == "others-cross"]
        assert (note.values["first"], note.values["second"]) == ("on_read", "none")
        assert "between-ratios" in noted(result)

    def test_with_replications_says_how_sure_it_is(self, random: VariablesResult) -> None:
        assert noted(random)[0] == "interval"
        (cell, *_) = random.report.table.columns[0].cells
        assert isinstance(cell, Number)
        assert cell.half > 0

    def test_one_replication_of_what_is_random(self) -> None:
        law = {"kind": "exponential", "mean": 1e-3}
        cluster = {"workers": 3, "compute": law, "network": WIRE}
        result = simulate_variables(scenario(({"kind": "compute"}, add(1.0)), cluster=cluster))
        assert (codes(result), noted(result)) == (["too-few"], ["one-run"])

    def test_nor_does_one_tell_where_modes_cross(self) -> None:
        law = {"kind": "exponential", "mean": 1e-3}
        cluster = {"workers": 3, "compute": law, "network": WIRE}
        lines = ({"kind": "compute"}, add(1.0))
        more: dict[str, Any] = {"vary": {"reads_per_write": (0, 1)}, "variables": (LARGE,)}
        made = scenario(lines, (read(),), cluster=cluster, **more)
        over, step, _ = simulate_variables(made).report.headline
        assert (over.values["once"], step.code) == ("yes", "too-few")

    def test_of_what_is_not_random_there_is_nothing_to_say(self, counted: VariablesResult) -> None:
        assert noted(counted) == ["exact"]

    def test_an_odd_replica_out_is_told(self) -> None:
        made = scenario((add(1.0),), modes=("on_write",), cross_device_ops="hierarchical_copy")
        assert "odd-replica" in noted(simulate_variables(made))


class TestRunning:
    def test_jobs_change_nothing(self, random: VariablesResult) -> None:
        assert simulate_variables(random.scenario, jobs=2).traces == random.traces

    def test_progress_is_told(self) -> None:
        told: list[tuple[int, int]] = []
        simulate_variables(varied(0, 1), progress=lambda *pair: told.append(pair))
        assert told == [(done, 9) for done in range(1, 10)]

    def test_of_varied_runs_only_totals_are_kept(self, crossed: VariablesResult) -> None:
        written = len(crossed.written)
        assert all(trace.acts and trace.links for trace in crossed.traces[:written])
        assert not any(trace.acts or trace.sent for trace in crossed.traces[written:])

    def test_the_other_kind_is_named(self) -> None:
        with pytest.raises(TypeError, match=r"varsim\.run"):
            simulate(varied(0, 1))  # type: ignore[arg-type]

        with pytest.raises(TypeError, match="takes a scenario of kind variables"):
            simulate_variables("read_or_write.yaml")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="jobs must be at least 1"):
            simulate_variables(varied(0, 1), jobs=0)

    def test_traces_in_another_order_are_refused(self, crossed: VariablesResult) -> None:
        with pytest.raises(AssertionError, match="mode by mode"):
            VariablesResult(crossed.scenario, crossed.traces[::-1])

    def test_provenance_names_what_was_simulated(
        self, counted: VariablesResult, crossed: VariablesResult
    ) -> None:
        assert set(counted.provenance) == {"scenario_sha256", "seed", "varsim", "schema", "engine"}
        assert counted.provenance != crossed.provenance
