"""A sweep marks what does not fit into memory."""

from pathlib import Path

from tests.sweep.sweeping import BASE, carried_out, sweep
from varsim.report.words.sweep import notes, shown


def test_a_sweep_marks_what_does_not_fit(tmp_path: Path) -> None:
    limits = "memory: {server: 1 MB, exceeded: refuse}\n"
    swept = sweep(
        "strategies.backup_workers.replicas_to_aggregate: [1, 2]\n"
        "cluster.parameter_servers: [1, 4]",
        base=BASE + limits,
    )
    table, _, _ = carried_out(swept, tmp_path)
    fits = dict(zip(table.columns, zip(*table.cells(), strict=True), strict=True))["fits_memory"]
    # 1 MB of the model, and 1 or 2 of gradients; in four parts a quarter of that.
    assert fits == (True, False, True, True, True, False, True, True)
    large = "sync PS with backup workers (too large for its server)"
    rows = [row[0] for row in shown(table).rows]
    assert rows.count(large) == 2
    assert any("(At 2 of 4 points.)" in note for note in notes(table))
    free, _, _ = carried_out(sweep("cluster.workers: [2, 4]"), tmp_path / "free")
    assert "fits_memory" not in free.columns
