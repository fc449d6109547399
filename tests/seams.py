"""What tests may use besides the public package: how a run is made, and what it records.

A test that imports `varsim`, this file and other tests alone names nothing inside, and outlives it:
see `test_seams.py`, which counts them. So only that belongs here which any varsim would have: a
scenario (or many: a sweep, a plan) from its text and back, one run of it, its rows, the streams of
its draws (for a model that has to draw the same), the table of strategies, and the command.
"""

from typing import Literal

from varsim.cli import app as app
from varsim.cluster.collectives.choice import COLLECTIVES
from varsim.cluster.failures.life import PaceError as PaceError
from varsim.cluster.network.topologies import NETWORKS
from varsim.cluster.programs import ProgramTrace as ProgramTrace
from varsim.cluster.record.rows import Rows as Rows
from varsim.cluster.record.trace import Attempt as Attempt
from varsim.cluster.record.trace import EvaluationRow as EvaluationRow
from varsim.cluster.record.trace import GradientRow as GradientRow
from varsim.cluster.record.trace import HandOver as HandOver
from varsim.cluster.record.trace import LinkRow as LinkRow
from varsim.cluster.record.trace import Outcome as Outcome
from varsim.cluster.record.trace import Phase as Phase
from varsim.cluster.record.trace import Span as Span
from varsim.cluster.record.trace import Standstill as Standstill
from varsim.cluster.record.trace import Trace as Trace
from varsim.cluster.workers.job import TooLongError as TooLongError
from varsim.core.stream import keyed as keyed
from varsim.core.stream import stream as stream
from varsim.learning.gradient import Parameters as Parameters
from varsim.report.told import Cell as Cell
from varsim.report.told import Note as Note
from varsim.report.told import Number as Number
from varsim.report.told import Report as Report
from varsim.scenario.load import file_schema as file_schema
from varsim.scenario.loading import load_scenario as load_scenario
from varsim.scenario.loading import load_text as load_text
from varsim.scenario.plan import question_of_text as question_of_text
from varsim.scenario.sweep import sweep_of_text as sweep_of_text
from varsim.scenario.variables import VariablesScenario as VariablesScenario
from varsim.scenario.writing import dump_scenario as dump_scenario
from varsim.scenario.writing import trace_sha256 as trace_sha256
from varsim.strategies import STRATEGIES as STRATEGIES
from varsim.study.grid import Grid as Grid
from varsim.study.metrics import METRICS as METRICS
from varsim.study.result import Result as Result
from varsim.study.result import simulate as simulate
from varsim.study.simulation import Run as Run
from varsim.study.simulation import run_one as run_one
from varsim.study.simulation import started as started
from varsim.study.why.account import why as why


def trained(run: Run) -> tuple[Trace, Parameters]:
    """What a run records, and the model that it ends with, variable by variable."""
    job, strategy = started(run)
    return job.run(strategy.label), job.model()


def run_of_program(
    scenario: VariablesScenario,
    mode: Literal["on_read", "on_write", "none"],
    replication: int = 0,
) -> ProgramTrace:
    """One run of a program on variables, as it is written."""
    return scenario.run_of(scenario.all_modes.index(mode), replication, whole=True)


def ready(run: Run) -> object:
    """All that a run holds before anything has happened."""
    return started(run)


def forget() -> None:
    """What was registered of networks and collectives is unknown again."""
    NETWORKS.registered.clear()
    COLLECTIVES.registered.clear()
