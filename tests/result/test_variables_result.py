"""What a result of variables says: tables, crossovers, sentences. Times in us (see `programs`)."""

import dataclasses
import math
from typing import Any

import pytest

from tests.programs import MODES, WIRE, add, read, scenario, variable
from varsim.report.words.program.table import by_ratio, copies, seen
from varsim.scenario.variables import VariablesScenario
from varsim.study.program.tables import COLUMNS, METRICS
from varsim.study.simulation import simulate, simulate_variables
from varsim.study.variables import VariablesResult

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

    def test_every_metric_has_a_unit_and_words(self) -> None:
        assert all(metric.unit and metric.description for metric in METRICS.values())


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
    @pytest.mark.parametrize("name", COLUMNS)
    def test_columns_are_the_documented_ones(self, crossed: VariablesResult, name: str) -> None:
        frame = getattr(crossed, name)
        assert list(frame.columns) == list(COLUMNS[name])
        assert not frame.empty
        assert set(frame["mode"]) == set(MODES)
        assert all(COLUMNS[name].values())

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


class TestText:
    def test_the_table_of_costs(self, crossed: VariablesResult) -> None:
        frame = crossed.table()
        assert list(frame["time per step"]) == ["8.100 ms", "23.10 ms", "52.50 ms"]
        assert list(frame["vs. on_read"]) == ["1.00x", "2.85x", "6.48x"]
        assert list(frame["bytes per step"]) == ["8 kB", "64 kB", "52 kB"]
        assert list(frame["messages per step"]) == ["2", "48", "13"]

    def test_what_was_seen(self, counted: VariablesResult) -> None:
        table = seen(counted, "v")
        assert table.column("replicas") == ("6, 2, 4", "12 each", "9, 10, 12")
        assert table.column("outside") == ("12", "12", "12")
        assert table.column("copies at the end") == ("6, 2, 4", "12 each", "12")

    def test_of_many_copies_the_first_are_shown(self) -> None:
        cluster = {"workers": 70, "network": WIRE}
        made = scenario((add(1.0),), modes=("on_read",), cluster=cluster)
        result = simulate_variables(made)
        assert copies(result, "on_read", "v") == "1 each\n(64 of 70 copies)"

    def test_over_ratios(self, crossed: VariablesResult) -> None:
        table = by_ratio(crossed)
        assert [row.label for row in table.rows] == ["0", "0.5", "1", "2"]
        assert table.column("on_read") == ("0 s", "16.20 ms", "32.40 ms", "64.80 ms")
        many = simulate_variables(varied(*(n / 4 for n in range(41)), modes=("on_read",)))
        rows = [row.label for row in by_ratio(many).rows]
        assert (len(rows), rows[0], rows[-1]) == (12, "0", "10")

    def test_a_result_shows_itself(self, counted: VariablesResult) -> None:
        assert "The cheapest is 'on_read'" in repr(counted)
        assert "modes, 1 replication>\n" in repr(counted)
        assert "<table" in counted._repr_html_()


class TestAnswer:
    def test_of_what_was_varied(self, crossed: VariablesResult) -> None:
        assert crossed.answer().splitlines() == [
            "Below 0.713 outside reads per write 'on_read' is cheaper, above that 'on_write'; "
            "at that ratio a step takes 23.10 ms in both.",
            "Between 0 and 2 outside reads per write 'none' is never cheaper than 'on_read' and "
            "'on_write'.",
            "As the program is written, the cheapest is 'on_read': 8.100 ms per step; 'on_write' "
            "takes 2.85 times as long and 'none' takes 6.48 times as long.",
            "A step sends 8 kB in 2 messages in 'on_read', 64 kB in 48 messages in 'on_write', "
            "52 kB in 13 messages in 'none'.",
            "When last read from outside, 'v' was [8, 8, 8, ...] (mean 8) in 'on_read' and "
            "'on_write', "
            "[24, 24, 24, ...] (mean 24) in 'none'.",
        ]

    def test_of_a_program_as_it_is_written(self, counted: VariablesResult) -> None:
        lines = counted.answer().splitlines()
        assert lines[0].startswith("The cheapest is 'on_read': 108 us per step; 'none' takes ")
        assert lines[-1] == "When last read from outside, 'v' was 12 in every mode."

    def test_of_one_mode(self) -> None:
        fixed = variable(synchronization="on_read")
        result = simulate_variables(scenario((add(1.0),), (read(),), variables=(fixed,), modes=()))
        assert result.answer().splitlines() == [
            "A step takes 108 us.",
            "It sends 8 B in 2 messages.",
            "When last read from outside, 'v' was 3.",
        ]
        assert list(result.table().columns) == [
            "time per step", "bytes per step", "messages per step",
        ]  # fmt: skip

    def test_of_modes_that_cost_the_same(self) -> None:
        made = scenario((read(),), modes=("on_read", "on_write"))
        lines = simulate_variables(made).answer().splitlines()
        assert lines == [
            "'on_read' and 'on_write' are equally cheap: no time per step.",
            "A step sends nothing in 'on_read' and 'on_write'.",
        ]

    def test_where_the_cheapest_takes_no_time(self) -> None:
        made = scenario((add(1.0),), modes=("on_write", "on_read"))
        result = simulate_variables(made)
        assert result.answer().splitlines()[0] == (
            "The cheapest is 'on_read': no time per step; 'on_write' takes 416 us."
        )
        assert list(result.table()["vs. on_write"]) == ["1.00x", "-"]

    def test_where_nothing_crosses(self) -> None:
        made = varied(0, 0.5, modes=("on_read", "on_write"))
        assert simulate_variables(made).answer().splitlines()[:2] == [
            "No two modes change places between 0 and 0.5 outside reads per write.",
            "Between 0 and 0.5 outside reads per write 'on_write' is never cheaper than 'on_read'.",
        ]

    def test_with_replications_says_how_sure_it_is(self, random: VariablesResult) -> None:
        lines = random.answer().splitlines()
        assert any("± " in line for line in lines)
        assert (
            "± is the half-width of a 95 % confidence interval over 3 replications." in random.notes
        )


class TestNotes:
    def test_one_replication_of_what_is_random(self) -> None:
        law = {"kind": "exponential", "mean": 1e-3}
        cluster = {"workers": 3, "compute": law, "network": WIRE}
        made = scenario(({"kind": "compute"}, add(1.0)), cluster=cluster)
        assert simulate_variables(made).notes == (
            "One replication: no intervals. More replications show how sure this is.",
        )

    def test_of_what_is_not_random_there_is_nothing_to_say(self, counted: VariablesResult) -> None:
        assert counted.notes == ()

    def test_an_odd_replica_out_is_told(self) -> None:
        made = scenario((add(1.0),), modes=("on_write",), cross_device_ops="hierarchical_copy")
        (note,) = simulate_variables(made).notes
        assert note.startswith("hierarchical_copy leaves replica 2 out of every sum")

    def test_rows_beyond_the_caps_are_left_out_and_it_is_said(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = scenario((add(3.0, 1.0, 2.0), read()), (read(),), steps=5)
        whole = simulate_variables(made)
        # 35 acts in each of three runs, of which 30 are kept; 12, 22 and 35 messages.
        monkeypatch.setattr("varsim.study.simulation.MOST_ACTS", 92)
        monkeypatch.setattr("varsim.study.simulation.MOST_SENT", 36)
        result = simulate_variables(made)
        assert [trace.all_sent for trace in result.traces] == [12, 22, 35]
        assert result.notes == (
            "acts.csv: 90 of 105 rows, the first ones of each run; every other number counts all "
            "of them.",
            "sent.csv: 36 of 69 rows, the first ones of each run; every other number counts all "
            "of them.",
        )
        assert (len(result.acts), len(result.sent)) == (90, 36)
        assert result.answer() == whole.answer()
        # 24 copies are looked at, 3 to an act: 8 acts in all, 2 of each run.
        monkeypatch.setattr("varsim.study.simulation.MOST_GLANCES", 24)
        assert len(simulate_variables(made).acts) == 6
        assert seen(result, "v").column("replicas") == seen(whole, "v").column("replicas")


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
        with pytest.raises(TypeError, match=r"varsim\.simulate_variables"):
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
