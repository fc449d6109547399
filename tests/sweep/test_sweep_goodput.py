"""A sweep over the checkpoint interval: the same failures at every point, goodput in the table."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from tests.seams import Attempt, Run, run_one
from tests.sweep.sweeping import BASE, carried_out, noted, sweep, with_values
from varsim import load
from varsim.cluster.record.trace import WORKER
from varsim.report.products.sweep_points import points
from varsim.study.grid import Grid, descriptions
from varsim.study.lives import INTERVAL

MORTAL = BASE.replace("{kind: uniform, low: 80 ms, high: 120 ms}", "{kind: constant, value: 1 s}")
MORTAL = MORTAL.replace("  - {kind: backup_workers, replicas_to_aggregate: 2}\n", "") + (
    "failures: {horizon: 20 d, of: [{domain: worker, mtbf: 4 d}]}\n"
    "checkpoint: {every: 30 min, write: 1 min}\n"
)


def test_every_point_meets_the_same_failures(tmp_path: Path) -> None:
    block = "checkpoint.every: [10 min, 30 min, 2 h, optimal]\nmost_replications: 2"
    table = carried_out(sweep(block, base=MORTAL), tmp_path)

    frame = table.frame()
    assert frame["interruptions"].nunique() == 1
    assert frame["goodput"].nunique() == 4
    assert frame["goodput"].idxmax() in (1, 3)
    assert {"life_checkpoint", "life_lost", "availability"} <= set(frame)
    assert table.mattering("on_write") == [0]


def test_what_optimal_means_is_told_of_each_point(tmp_path: Path) -> None:
    """The interval t that keeps most: of t / (e^((t + write) / mtbf) - 1), found by search."""
    block = (
        "checkpoint.every: [30 min, optimal]\ncheckpoint.write: [1 min, 4 min]\n"
        "most_replications: 2"
    )
    table = carried_out(sweep(block, base=MORTAL), tmp_path)

    told = table.frame()["checkpoint_interval"].tolist()
    assert all(map(math.isnan, told[:2]))
    for found, write in zip(told[2:], (60.0, 240.0), strict=True):
        mean = 4 * 86_400 / 4  # of the job: there are four workers
        best = minimize_scalar(
            lambda tau, mean=mean, write=write: -tau / math.expm1((tau + write) / mean),
            bounds=(60, 20_000),
            method="bounded",
            options={"xatol": 1e-3},
        )
        assert found == pytest.approx(best.x, rel=1e-4)
    (chosen,) = (one for one in points(table).columns if one.key == INTERVAL)
    assert [cell if isinstance(cell, str) else cell.unit for cell in chosen.cells] == [
        *("-", "-", "days", "days")
    ]
    assert "every: optimal chose" in descriptions(table)["checkpoint_interval"]


def test_an_interval_of_whole_rounds_is_told(tmp_path: Path) -> None:
    """Of rounds of 1,000 s, and no column where no interval is chosen."""
    base = (
        MORTAL.replace("{kind: on_write}", "{kind: diloco, inner_steps: 1000}")
        .replace("every: 30 min", "every: optimal")
        .replace("{global_steps: 10}", "{global_steps: 2001}")
    )
    block = "checkpoint.write: [1 min, 4 min]\nmost_replications: 2"
    table = carried_out(sweep(block, base=base), tmp_path)
    rounds = table.frame()["checkpoint_interval"] / 1000
    best = [
        max(
            range(1, 20),
            key=lambda number, write=write: number / math.expm1((1000 * number + write) / 86_400),
        )
        for write in (60, 240)
    ]
    assert rounds.round(1).tolist() == best

    plain = "checkpoint.every: [30 min, 1 h]\nmost_replications: 2"
    table = carried_out(sweep(plain, base=MORTAL), tmp_path / "plain")
    assert not [name for name in table.columns if "interval" in name]
    assert INTERVAL not in [one.key for one in points(table).columns]


INSIDE = BASE.replace("  - {kind: backup_workers, replicas_to_aggregate: 2}\n", "").replace(
    "{kind: on_write}", "{kind: none}"
) + (
    "failures: {of: [{domain: worker, mtbf: 20 s, repair: 2 s}, {domain: server, mtbf: 30 s}]}\n"
    "checkpoint: {every: 5 s, write: 100 ms}\n"
)


def test_inside_a_run_every_point_meets_the_same_failures(tmp_path: Path) -> None:
    """Worker by worker: when each died, in both replications, whatever the network or the saves."""
    base = INSIDE.replace("{global_steps: 10}", "{time: 60 s}")
    swept = sweep(
        "checkpoint.every: [1 s, 20 s]\ncluster.network.bandwidth: [1 Gbit/s, 10 Gbit/s]\n"
        "most_replications: 2",
        base=base,
    )
    table = carried_out(swept, tmp_path)
    frame = table.frame()
    assert len(frame) == 4
    assert frame["interruptions"].nunique() == 1
    assert frame["goodput"].nunique() == 4

    deaths = set()
    for made in [case.scenario for case in Grid(load(swept)).distinct]:
        life = run_one(Run(made, 0, 0)).life
        assert life is not None
        of_each = [life[life[:, WORKER] == rank] for rank in range(4)]
        deaths.add(tuple(tuple(_ends(rows)) for rows in of_each))
    ((*workers,),) = deaths
    assert sum(map(len, workers)) > 10


def _ends(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """When the attempts of a worker ended (ns), those that a failure ended."""
    works = ["productive", "checkpoint", "lost"]
    worked = rows[:-1, [Attempt._fields.index(name) for name in works]].sum(axis=1)
    return rows[:-1, 0] + worked


def test_few_common_runs_are_told_of(tmp_path: Path) -> None:
    """Three runs of one, twelve of the other, whose intervals are apart: three decide nothing."""
    block = "failures.of.0.mtbf: [4 d, 40 d]\nmost_replications: 2"
    table = carried_out(sweep(block, base=MORTAL), tmp_path)
    best, other = (100.0, 101.0, 102.0), (50.0, 99.0, 100.0, *[60.0] * 9)

    def told(*values: tuple[float, ...]) -> tuple[str, set[str]]:
        rows = [
            with_values(row, own, "kept_examples_per_s")
            for row, own in zip(table.rows, values, strict=True)
        ]
        changed = replace(table, rows=tuple(rows))
        return changed.report.headline[0].code, {*noted(changed)}

    few = "few-in-common"
    assert told(best, other)[0] == "close"
    assert few in told(best, other)[1]
    assert told(best, other[:3])[0] == "close"
    assert few not in told(best, other[:3])[1]  # as many of both
    assert few not in told(best, (100.5, 102.0, 90.0, *[101.5] * 9))[1]  # not apart


def test_one_exact_row_is_one(tmp_path: Path) -> None:
    """Of failures at times that are known, and at random."""
    block = (
        "failures.of.0.distribution:\n"
        "  [{kind: constant, value: 3 d}, {kind: exponential, mean: 3 d}]\n"
        "most_replications: 2"
    )
    base = MORTAL.replace("mtbf: 4 d", "distribution: {kind: constant, value: 3 d}")
    table = carried_out(sweep(block, base=base), tmp_path)
    assert noted(table)["exact-rows"].values == {"count": 1, "of": 2}


def test_horizons_within_a_step_and_targets_are_told(tmp_path: Path) -> None:
    """A step takes a second; what is no target, or lives for days, is not told of."""
    block = "failures.horizon: [100 ms, 20 d]\nmost_replications: 2"
    base = MORTAL.replace("mtbf: 4 d", "mtbf: 400 d") + "targets: {goodput: 95 %}\n"
    table = carried_out(sweep(block, base=base), tmp_path)
    found = noted(table)
    assert found["unjudged"].values == {"targets": ("goodput at least 95 %",)}
    who = "all-reduce at horizon = 100 ms"
    assert found["no-step"].values == {"who": who, "count": 1, "of": 2}
    block = block.replace("100 ms", "10 d")
    table = carried_out(sweep(block, base=MORTAL), tmp_path / "long")
    assert not {"unjudged", "no-step"} & {*noted(table)}
