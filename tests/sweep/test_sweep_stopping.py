"""How often a case is run: until all that is asked of it is known well enough."""

import math
from pathlib import Path

from tests.sweep.booked import booked
from tests.sweep.sweeping import BASE, carried_out, noted, sweep, told
from varsim.study.runs import precise, replications
from varsim.study.verdict import interval


class TestStopping:
    def test_equal_values_need_no_more_than_the_first(self) -> None:
        assert replications([5.0, 5.0], 2, 9, 0.01) == (2, True)

    def test_more_are_wanted_where_the_interval_is_wide(self) -> None:
        # 9 and 11: mean 10, half-width 12.7 x 1 = 12.7; 127 times 10 %: at most twice as many.
        assert replications([9.0, 11.0], 2, 30, 0.1) == (4, False)
        assert replications([9.0, 11.0], 2, 3, 0.1) == (3, False)

    def test_the_number_follows_from_the_scatter(self) -> None:
        values = [9.0, 11.0] * 8
        half = interval(values).half_width
        wanted = math.ceil(16 * (half / 0.4) ** 2)
        assert 16 < wanted < 32
        assert replications(values, 16, 100, 0.04) == (wanted, False)

    def test_the_cap_ends_it(self) -> None:
        assert replications([9.0, 11.0, 9.0], 2, 3, 0.001) == (3, True)
        assert not precise([9.0, 11.0, 9.0], 0.001)

    def test_values_beyond_the_number_change_nothing(self) -> None:
        assert replications([5.0, 5.0, 90.0], 2, 9, 0.01) == (2, True)

    def test_one_replication_has_no_interval(self) -> None:
        assert replications([5.0], 1, 1, 0.01) == (1, True)
        assert replications([5.0], 1, 9, 0.01) == (2, False)

    def test_all_that_is_asked_for_is_to_be_precise(self) -> None:
        """The time to a loss steers, too; where it does not exist there is nothing to wait for."""
        steady, wide, missing = [5.0, 5.0], [9.0, 11.0], [9.0, math.nan]
        assert replications(steady, 2, 9, 0.1, steady) == (2, True)
        assert replications(steady, 2, 9, 0.1, wide) == (4, False)
        assert replications(steady, 2, 9, 0.1, missing) == (2, True)

    def test_no_throughput_at_all(self) -> None:
        assert replications([0.0, 0.0], 2, 8, 0.1) == (2, True)
        assert replications([math.nan, math.nan], 2, 8, 0.1) == (4, False)


LEARNING = BASE.replace("{kind: timing, size: 1 MB}", "{kind: quadratic, noise: 1}").replace(
    "batch_size: 4", "batch_size: 4\n  optimizer: {kind: sgd, learning_rate: 0.5}"
)
CONSTANT = "{kind: constant, value: 100 ms}"


class TestWhatSteers:
    def test_the_time_to_the_target_loss(self, tmp_path: Path) -> None:
        """Throughput is known at once here; until the loss is reached is not."""
        base = LEARNING.replace("{kind: uniform, low: 80 ms, high: 120 ms}", CONSTANT)
        base = base.replace("global_steps: 10", "global_steps: 60")
        block = "cluster.workers: [2, 4]\nmost_replications: 7"
        plain = carried_out(sweep(block, base=base), tmp_path / "plain")
        aimed = carried_out(sweep(block, base=base + "targets: {loss: 0.1}\n"), tmp_path)
        assert {row.replications for row in plain.rows} == {2}
        assert {row.replications for row in aimed.rows} == {7}
        wide = [row for row in aimed.rows if not row.precise]
        assert all(row.replications == 7 for row in wide)
        assert noted(aimed)["wide"].values["count"] == len(wide)
        soonest = told(aimed).headline[1]
        assert soonest.code == "reached-unranked", "updates of different sizes at one rate"
        assert soonest.values["target"] == "0.1"

    def test_what_is_not_random_is_run_once_and_is_exact(self, tmp_path: Path) -> None:
        base = BASE.replace("{kind: uniform, low: 80 ms, high: 120 ms}", CONSTANT)
        table, books = booked(sweep("cluster.workers: [2, 4]", base=base), tmp_path)
        assert {row.replications for row in table.rows} == {1}
        assert books.status.done == len(table.rows)
        assert all(row.precise for row in table.rows)
        assert all(row.estimate("examples_per_s").half_width == 0 for row in table.rows)
        assert "exact" in noted(table)
        assert not {"wide", "interval-rows", "exact-rows"} & {*noted(table)}
