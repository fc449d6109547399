"""Steps that are like the one before are played in order."""

import csv
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np

from varsim.calibration.compute import compute_part
from varsim.calibration.measurement import StepTable
from varsim.core.distribution import Lognormal
from varsim.core.distributions import Markov
from varsim.core.stream import stream

DATA = Path(__file__).parent.parent / "data" / "step_times"
TRUE = Markov(
    fast=Lognormal(mean=0.1, sigma=0.05),
    slow=Lognormal(mean=0.2, sigma=0.05),
    to_slow=0.02,
    to_fast=0.1,
)


def drawn(worker: int, steps: int) -> list[float]:
    blocks = TRUE.blocks(worker, lambda block: stream(3, 0, "compute", worker, block))
    return list(islice(chain.from_iterable(block.tolist() for block in blocks), steps))


def table(rows: Mapping[int, Sequence[float]]) -> StepTable:
    numbers = {worker: tuple(range(len(row))) for worker, row in rows.items()}
    return StepTable("steps.csv", {w: tuple(row) for w, row in rows.items()}, numbers)


def recorded(name: str) -> StepTable:
    rows: dict[int, list[float]] = {}
    with (DATA / name).open() as lines:
        for line in csv.DictReader(lines):
            rows.setdefault(int(line["worker"]), []).append(float(line["seconds"]))
    return table(rows)


def test_spells_are_played_in_order() -> None:
    """The measured times keep what a law that forgets would lose."""
    part = compute_part(table({worker: drawn(worker, 2000) for worker in range(4)}), "steps.csv")

    assert part.yaml == ("compute: {kind: trace, file: 'steps.csv', replay: cycle}",)
    text = "\n".join(part.comments)
    assert "drawing each step independently is wrong here" in text
    assert "the measured times are played in order" in text
    assert not any(line.endswith("  chosen") for line in part.comments)


def test_steps_that_rise_and_rise_are_played_in_order() -> None:
    part = compute_part(table({0: np.linspace(0.1, 0.3, 100).tolist()}), None)

    assert "  replay: cycle" in part.yaml
    assert "played in order" in "\n".join(part.comments)


def test_real_steps_that_depend_on_each_other() -> None:
    text = "\n".join(compute_part(recorded("alibaba_job1.csv"), None).comments)

    assert "a step is like the one before it (autocorrelation 0.74)" in text
    assert (
        "41 % of the steps take exactly as long as the one before: that looks like samples" in text
    )
