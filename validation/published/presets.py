"""How far answers from presets alone are off what was published: the table beside such answers.

Nothing is fitted. A device by its name makes the step time, links by theirs the network, and
gradients are all-reduced in the backward pass, as those systems did. What is compared is how well
many GPUs scale; `varsim/data/preset_errors.csv` keeps it for notes on runs from presets alone.
"""

import csv
import io
from pathlib import Path
from typing import Final, NamedTuple

from validation.published.table import bundled_rows
from varsim.scenario.loading import load_text
from varsim.scenario.training import Scenario
from varsim.study.beginning import begin

TABLE: Final = Path(__file__).parents[2] / "varsim" / "data" / "preset_errors.csv"
_EVENTS: Final = 400_000


class Job(NamedTuple):
    """A published job: how it scaled from so few to so many GPUs, on what, with what batch."""

    experiment: str
    model: str
    batch: int
    fewest: int
    most: int
    per_node: int
    link: str
    inside: str


# Horovod's GPUs ("Pascal") and batch are those of its own description of the benchmark.
JOBS: Final = (
    Job("horovod-512", "inception_v3", 64, 1, 512, 4, "25gbe", "pcie_3_x16"),
    Job("horovod-512", "resnet101", 64, 1, 512, 4, "25gbe", "pcie_3_x16"),
    Job("horovod-512", "vgg16", 64, 1, 512, 4, "25gbe", "pcie_3_x16"),
    Job("goyal2017", "resnet50", 32, 8, 256, 8, "50gbe", "nvlink_1"),
)
_SCENARIO: Final = """\
name: presets
cluster:
  workers: {workers}
  device: p100_sxm2
  network:
    kind: nodes
    workers_per_node: {per_node}
    preset: {link}
    latency: 20 us
    inside: {{preset: {inside}}}
workload: {{model: {model}, batch_size: {batch}, problem: {{kind: timing}}}}
strategies: [{{kind: on_write, overlap: true}}]
stop: {{global_steps: 20}}
"""


def table() -> str:
    """The table as CSV: a row for each job, with the error of its throughput."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        ("experiment", "model", "workers", "link", "measured", "simulated", "error", "source")
    )
    for job in JOBS:
        (row,) = (
            one
            for one in bundled_rows()
            if (one.experiment, one.model) == (job.experiment, job.model)
            and one.metric.startswith("scaling efficiency")
        )
        measured, got = row.value / 100, _scaling(job)
        numbers = (f"{measured:g}", f"{got:.3f}", f"{got / measured - 1:+.3f}")
        writer.writerow((job.experiment, job.model, job.most, job.link, *numbers, row.where))
    return file.getvalue()


def write() -> Path:
    """Write the table to where the package reads it."""
    TABLE.write_text(table(), encoding="utf-8", newline="\n")
    return TABLE


def _scaling(job: Job) -> float:
    """Throughput on the most GPUs over that on the fewest, for each GPU."""
    steps = []
    for workers in (job.fewest, job.most):
        scenario = _described(job, workers)
        if workers == 1:
            distribution = scenario.cluster.compute_distribution(scenario.workload)
            steps.append(distribution.expectation())
        else:
            steps.append(begin(scenario, _EVENTS)[0].update)
    return steps[0] / steps[1]


def _described(job: Job, workers: int) -> Scenario:
    per_node = min(job.per_node, workers)
    text = _SCENARIO.format(**{**job._asdict(), "workers": workers, "per_node": per_node})
    return load_text(text)  # type: ignore[return-value]
