"""Small plans for tests: a scenario of times only, quick to run."""

from collections.abc import Sequence
from pathlib import Path

from tests.seams import Note
from varsim.scenario.plan import Question, question_of_text
from varsim.study.cheapest import Cheapest
from varsim.study.plan import Plan
from varsim.study.pool import Backend, Here
from varsim.study.runs import Runs
from varsim.study.store import Store

BASE = """\
# What is the cheapest?
name: tiny
seed: 3
replications: 2
cluster:
  workers: 4
  compute: {kind: uniform, low: 80 ms, high: 120 ms}
  parameter_servers: 1
  network: {kind: star, bandwidth: 10 Gbit/s, latency: 20 us, sharing: first_come}
workload:
  problem: {kind: timing, size: 20 MB}
  batch_size: 4
strategies:
  - {kind: on_write}
  - {kind: none}
stop: {time: 2 s}
targets: {throughput: 150 examples/s}
prices: {device_hour: 2.0, server_hour: 0.7}
"""
BLOCK = """\
minimize: cost_per_hour
space:
  cluster.workers: [3, 4, 5, 6, 7, 8]
  cluster.parameter_servers: [1, 2]
most_replications: 8
"""


def text(block: str = BLOCK, base: str = BASE) -> str:
    """A scenario with a plan; rates are those of whole runs."""
    plan = "".join(f"  {line}\n" for line in block.splitlines())
    return f"{base}plan:\n{plan}report: {{measure_after: 0 s}}\n"


def question(block: str = BLOCK, sets: Sequence[str] = (), base: str = BASE) -> Question:
    """What the small scenario asks with this block."""
    return question_of_text(text(block, base), sets=sets)


def searched(
    asked: Question,
    directory: Path,
    backend: Backend | None = None,
    *,
    exhaustive: bool = False,
) -> tuple[Plan, Runs]:
    """What is found, with the runs in `directory`."""
    with Store(directory) as store, backend or Here() as maker:
        runs = Runs(store, maker)
        return Cheapest(asked, exhaustive).run(runs), runs


def note(plan: Plan, code: str) -> Note:
    """The only note or sentence of this code that is told of a plan."""
    told: list[Note] = [*plan.report.headline, *plan.report.notes]
    (found,) = (one for one in told if one.code == code)
    return found


def codes(plan: Plan) -> list[str]:
    """Of all sentences and notes that are told of it."""
    return [one.code for one in (*plan.report.headline, *plan.report.notes)]
