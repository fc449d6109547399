"""Sharded training that others measured: its units, its calibration, and what comes out."""

import csv

import pytest

from validation.finding import Verdict
from validation.sharded import _FILE, Row, calibrated, findings, predicted, rows

FSDP = Row("setup", "7b", 16, "h100_80gb", 2048, 6, 1, "FULL_SHARD", False, 1.6e5)


def test_units_have_the_parameters_of_the_models() -> None:
    with _FILE.open(encoding="utf-8", newline="") as lines:
        told = [int(cells["parameters"]) for cells in csv.DictReader(lines)]
    sizes = [sum(unit["size"] for unit in row.layers()) for row in rows()]
    assert sizes == [2.0 * parameters for parameters in told]


def test_a_step_is_computing_and_what_is_left_of_gathers_and_scatters() -> None:
    # 16 GPUs compute for 6 x 2,048 x 100 us = 1.23 s. All is hidden but the first gather and the
    # last scatter, of 429 MB of embeddings (1 ms each), and the last norm's gather back and forth.
    seconds = 100e-6
    each = 16 * FSDP.work / predicted(FSDP, seconds)
    slowest = 1.02  # of 16 whose steps vary by 1 %
    assert FSDP.work * seconds < each < slowest * FSDP.work * seconds + 0.01


def test_micro_batches_are_steps_of_their_own_but_for_the_update() -> None:
    four = FSDP._replace(micro_batches=4)
    assert predicted(four, 100e-6) == pytest.approx(predicted(FSDP, 100e-6), rel=0.01)


@pytest.mark.parametrize("sharding", ["FULL_SHARD", "SHARD_GRAD_OP"])
def test_what_is_calibrated_is_predicted(sharding: str) -> None:
    row = FSDP._replace(sharding=sharding)
    assert predicted(row, calibrated(row)) == pytest.approx(row.speed, rel=2e-3)


@pytest.mark.slow
def test_rows_come_out_as_well_as_was_seen() -> None:
    lines = findings()
    of = {verdict: sum(one.verdict is verdict for one in lines) for verdict in Verdict}
    assert (of[Verdict.CALIBRATED], of[Verdict.PASS], of[Verdict.MISS]) == (8, 15, 5)
    assert all(one.why for one in lines if one.verdict is Verdict.MISS)
