"""A sweep over the checkpoint interval: the same failures at every point, goodput in the table."""

from pathlib import Path

from sweep.sweeping import BASE, carried_out, sweep

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
