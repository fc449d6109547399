"""What is fitted of workers that are slow together, or that all wait for the slowest."""

import math
from pathlib import Path

import numpy as np
import pytest

from tests.building import run
from tests.statistical import step_times
from varsim import calibrate
from varsim.calibration.compute import compute_part
from varsim.calibration.measurement import StepTable
from varsim.study.stragglers import stragglers

WORKERS = 8


def times(steps: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Steps of 100 ms that vary by 20 % in common, and by 2 % apart."""
    draws = np.random.default_rng(1)
    logs = 0.2 * draws.standard_normal((steps, 1)) + 0.02 * draws.standard_normal((steps, WORKERS))
    return 0.1 * np.exp(logs)


def table(
    rows: np.ndarray[tuple[int, int], np.dtype[np.float64]], *, alone: bool = False
) -> StepTable:
    numbers = {worker: tuple(range(len(rows))) for worker in range(rows.shape[1])}
    columns = {worker: tuple(column) for worker, column in enumerate(rows.T.tolist())}
    return StepTable("steps.csv", columns, numbers, alone=alone)


@pytest.mark.parametrize("replay", ["cycle", "resample"])
def test_what_is_printed_waits_as_long_as_what_was_measured(tmp_path: Path, replay: str) -> None:
    measured = times(1000)
    file = tmp_path / "steps.csv"
    lines = [f"{w},{time!r}\n" for row in measured.tolist() for w, time in enumerate(row)]
    file.write_text(f"worker,seconds\n{''.join(lines)}")
    found = calibrate([file])

    assert "  compute: {kind: trace, file: 'steps.csv', replay: cycle}" in found.lines
    text = "\n".join(found.lines)
    assert "workers are slow together: the slowest of a step takes 1.029 times the mean" in text
    assert "27 % longer" in text
    assert not any(line.endswith("  chosen") for line in found.lines)

    law = {"kind": "trace", "file": str(file), "replay": replay}
    cluster = {"workers": WORKERS, "compute": law}
    whole = step_times(run("on_write", cluster=cluster, stop={"global_steps": 1000}))
    slowdown = stragglers(measured).slowdown
    error = 0.2 / math.sqrt(1000)  # of the mean of steps drawn anew
    assert whole.mean() / measured.mean() == pytest.approx(slowdown, rel=4 * error)


def test_without_a_file_the_steps_stand_in_the_fragment_whole_and_in_order() -> None:
    measured = times(400)
    part = compute_part(table(measured), None)
    rows = [line.split("[")[1].rstrip("]").split(", ") for line in part.yaml if "[" in line]

    assert "  replay: cycle" in part.yaml
    np.testing.assert_allclose(np.array(rows, dtype=float).T, measured, rtol=1e-5)
    assert part.comments[-1] == "  --out puts the times into a file of their own"


def test_workers_that_are_slow_each_on_its_own_keep_a_law() -> None:
    draws = np.random.default_rng(3)
    part = compute_part(table(0.1 * np.exp(0.2 * draws.standard_normal((400, WORKERS)))), None)

    assert part.yaml[0].startswith("compute: {kind: lognormal")
    assert "slow together" not in "\n".join(part.comments)


def test_equal_times_ask_for_times_before_the_collective() -> None:
    draws = np.random.default_rng(2)
    ends = 0.0008 * draws.standard_normal((61, 4))
    walls = 0.293 + 0.003 * draws.standard_normal((60, 1)) + np.diff(ends, axis=0)
    said = " ".join(line.strip() for line in compute_part(table(walls), None).comments)

    assert "equal times prove nothing about stragglers" in said
    assert "what follows takes waiting and communication for compute" in said
    # Of traces what collectives take is left out: there equal times are an answer.
    alone = compute_part(table(walls, alone=True), None)
    assert "equal times" not in " ".join(alone.comments)
