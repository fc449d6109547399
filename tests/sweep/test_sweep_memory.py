"""A sweep marks what does not fit into memory."""

from dataclasses import replace
from pathlib import Path

from tests.sweep.sweeping import BASE, carried_out, noted, sweep, told


def test_a_sweep_marks_what_does_not_fit(tmp_path: Path) -> None:
    limits = "memory: {server: 1 MB, exceeded: refuse}\n"
    swept = sweep(
        "strategies.backup_workers.replicas_to_aggregate: [1, 2]\n"
        "cluster.parameter_servers: [1, 4]",
        base=BASE + limits,
    )
    table = carried_out(swept, tmp_path)
    fits = dict(zip(table.columns, zip(*table.cells(), strict=True), strict=True))["fits_memory"]
    # 1 MB of the model, and 1 or 2 of gradients; in four parts a quarter of that.
    assert fits == (True, False, True, True, True, False, True, True)
    note = noted(table)["memory-rows"]
    assert note.values == {"who": ("sync PS + backup",), "count": 2, "of": 8}
    best = told(table).table
    (servers,) = (one for one in best.columns if one.key == "parameter_servers")
    assert "1" not in servers.cells, "what does not fit is nobody's best point"
    free = carried_out(sweep("cluster.workers: [2, 4]"), tmp_path / "free")
    assert "fits_memory" not in free.columns


def test_strategies_that_are_left_out_are_no_misfits(tmp_path: Path) -> None:
    limits = "memory: {server: 1 MB, exceeded: refuse}\n"
    swept = sweep("cluster.workers: [2, 4]", base=BASE + limits)
    table = carried_out(swept, tmp_path)
    assert {row.strategy for row in table.too_large} == {"backup_workers"}
    fine = replace(table, rows=tuple(row for row in table.rows if row.strategy == "on_write"))
    assert not fine.too_large
    assert "memory-rows" not in noted(fine)
