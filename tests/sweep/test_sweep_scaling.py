"""How sure speed-up and efficiency are, by hand; and how progress names the best point."""

import math
from pathlib import Path

import pytest

from tests.sweep.sweeping import carried_out, sweep
from varsim.report.products.sweep import best_so_far
from varsim.study.grid import Grid, times_as_fast


def test_the_interval_about_the_ratio_of_means_holds_that_of_the_pairs() -> None:
    found = times_as_fast([18.0, 33.0], [10.0, 15.0])
    assert found.mean == pytest.approx(51 / 25)
    # Ratios 1.8 and 2.2; t of one degree of freedom at 97.5 % is 12.7062.
    middle = (math.log(1.8) + math.log(2.2)) / 2
    half = 12.7062047 * abs(math.log(2.2) - math.log(1.8)) / 2
    assert found.high == pytest.approx(math.exp(middle + half))
    assert found.low < math.exp(middle - half)
    assert found.mean - found.low == pytest.approx(found.high - found.mean)


def test_what_is_proportional_in_every_replication_is_sure() -> None:
    of_two = times_as_fast([20.0, 30.0], [10.0, 15.0], of=2)
    assert (of_two.mean, of_two.half_width) == (4, 0)
    assert times_as_fast([20.0], [10.0], (True, True)).half_width == 0
    assert math.isnan(times_as_fast([20.0], [10.0]).half_width)
    assert math.isnan(times_as_fast([20.0], [0.0]).mean)


def test_the_table_has_half_widths(tmp_path: Path) -> None:
    table = carried_out(sweep("cluster.workers: [2, 4]\nmost_replications: 3"), tmp_path)
    first, other = (row for row in table.rows if row.strategy == "on_write")
    assert first.scaling["efficiency"].half_width == 0
    assert other.scaling["efficiency"].half_width > 0
    speedup = other.scaling["speedup"]
    assert other.scaling["efficiency"].half_width == pytest.approx(speedup.half_width / 4)
    frame = table.frame()
    assert frame["speedup_half_width"][2] == speedup.half_width


def test_progress_names_only_what_makes_a_difference() -> None:
    asked = sweep(
        "cluster.workers: [2, 4]\nworkload.batch_size: [4]\n"
        "strategies.backup_workers.replicas_to_aggregate: [1, 2]"
    )
    experiment = Grid(asked)
    told = best_so_far(experiment)
    said = {one.label: told(one.case.key, 12.0) for one in experiment.candidates}
    assert said["on_write"] == "all-reduce at workers = 4: 12 examples/s"
    assert said["backup_workers"].endswith(
        " at workers = 4, replicas_to_aggregate = 2: 12 examples/s"
    )
