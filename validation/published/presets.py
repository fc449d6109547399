"""How far answers from presets alone are off what was published: the table beside such answers.

Nothing is fitted. A device by its name makes the step time, links by theirs the network, and
gradients are all-reduced in the backward pass, as those systems did. What is compared is how well
many GPUs scale; `varsim/data/preset_errors.csv` keeps it for notes on runs from presets alone.
"""

import csv
import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from validation.finding import Finding, Section, Verdict
from validation.published.table import bundled_rows
from varsim.scenario.loading import load_text
from varsim.scenario.training import Scenario
from varsim.study.beginning import begin

SECTION: Final = Section(
    "presets",
    "Presets alone",
    "Scaling of all-reduced training to 256 and 512 GPUs, from presets alone: a device, links and "
    "a model by their names, nothing fitted. Runs from presets alone tell these errors "
    "(varsim/data/preset_errors.csv).",
    "None: what comes out is the margin that such runs tell.",
)
GROUP: Final = "presets alone"
GROUPS: Final = (GROUP,)
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


class Scaling(NamedTuple):
    """The scaling efficiency of a job: throughput per GPU on the most, over that on the fewest."""

    job: Job
    measured: float
    simulated: float
    where: str  # it was published

    @property
    def error(self) -> float:
        """How much more is simulated than was measured, as a share of that."""
        return self.simulated / self.measured - 1


@cache
def scalings() -> tuple[Scaling, ...]:
    """All jobs, simulated, once."""
    found = []
    for job in JOBS:
        (row,) = (
            one
            for one in bundled_rows()
            if (one.experiment, one.model) == (job.experiment, job.model)
            and one.metric.startswith("scaling efficiency")
        )
        found.append(Scaling(job, row.value / 100, _scaling(job), row.where))
    return tuple(found)


def lead() -> str:
    """By how much each is off, in a sentence."""
    each = ", ".join(f"{one.job.model} {100 * one.error:+.1f} %" for one in scalings())
    return f"Off by {each}."


def findings() -> list[Finding]:
    """A line for each job; none has a bound."""
    return [
        Finding(
            GROUP,
            f"{one.job.experiment}: {one.job.model}, {one.job.most} GPUs, {one.job.link}",
            "scaling efficiency",
            "%",
            100 * one.measured,
            100 * one.simulated,
            verdict=Verdict.REPORTED,
            source=one.where,
        )
        for one in scalings()
    ]


def table(of: Sequence[Scaling]) -> str:
    """The table as CSV: a row for each job, with the error of its throughput."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    columns = "experiment model workers link measured simulated error source"
    writer.writerow(columns.split())
    for one in of:
        job, numbers = one.job, (f"{one.measured:g}", f"{one.simulated:.3f}", f"{one.error:+.3f}")
        writer.writerow((job.experiment, job.model, job.most, job.link, *numbers, one.where))
    return file.getvalue()


def write() -> Path:
    """Write the table to where the package reads it."""
    TABLE.write_text(table(scalings()), encoding="utf-8", newline="\n")
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
