"""A sweep over the checkpoint interval: the same failures at every point, goodput in the table."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sweep.sweeping import BASE, carried_out, sweep

from varsim.cluster.trace import WORKER, Attempt
from varsim.study.simulation import Run, run_one

MORTAL = BASE.replace("{kind: uniform, low: 80 ms, high: 120 ms}", "{kind: constant, value: 1 s}")
MORTAL = MORTAL.replace("  - {kind: backup_workers, replicas_to_aggregate: 2}\n", "") + (
    "failures: {horizon: 20 d, of: [{domain: worker, mtbf: 4 d}]}\n"
    "checkpoint: {every: 30 min, write: 1 min}\n"
)


def test_every_point_meets_the_same_failures(tmp_path: Path) -> None:
    block = "checkpoint.every: [10 min, 30 min, 2 h, optimal]\nmost_replications: 2"
    table, _, _ = carried_out(sweep(block, base=MORTAL), tmp_path)

    frame = table.frame()
    assert frame["interruptions"].nunique() == 1
    assert frame["goodput_fraction"].nunique() == 4
    assert frame["goodput_fraction"].idxmax() in (1, 3)
    assert {"checkpoint_fraction", "lost_fraction", "availability_fraction"} <= set(frame)
    assert table.mattering("on_write") == [0]


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
    table, _, cases = carried_out(swept, tmp_path)
    frame = table.frame()
    assert len(frame) == 4
    assert frame["interruptions"].nunique() == 1
    assert frame["goodput_fraction"].nunique() == 4

    deaths = set()
    for _, _, case in cases:
        life = run_one(Run(case.scenario, 0, 0)).life
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
