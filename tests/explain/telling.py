"""Scenarios of variables to be told, made from a few lines."""

from collections.abc import Sequence

from varsim.cluster.program import ProgramTrace, run_program
from varsim.scenario.loading import load_text
from varsim.scenario.variables import VariablesScenario
from varsim.study.experiment import Program
from varsim.study.program.rows import Row, rows_of

# 4 B take 32 ns on a link of 1 Gbit/s, and 50 us until they are there.
TEXT = """
kind: variables
name: told
cluster:
  workers: 3
  network: {kind: star, bandwidth: 1 Gbit/s, latency: 50 us}
variables: [{name: x}]
modes: [on_read]
program: {steps: 1, replicas: [], outside: []}
"""


def scenario(*sets: str) -> VariablesScenario:
    """The text above with some changes, as after --set."""
    made = load_text(TEXT, sets=sets)
    assert isinstance(made, VariablesScenario)
    return made


def acting(
    mode: str,
    aggregation: str,
    replicas: Sequence[str] = (),
    outside: Sequence[str] = (),
    *more: str,
) -> VariablesScenario:
    """One variable x, and what is done to it: `add, value: 3`, without `assign_` and variable."""
    program = f"{{steps: 1, replicas: [{_actions(replicas)}], outside: [{_actions(outside)}]}}"
    return scenario(
        f"modes=[{mode}]", f"variables.0.aggregation={aggregation}", f"program={program}", *more
    )


def _actions(texts: Sequence[str]) -> str:
    return ", ".join(map(_action, texts))


def _action(text: str) -> str:
    kind = text.split(",")[0]
    full = f"assign_{text}" if kind in ("add", "sub") else text
    on = "" if kind in ("compute", "save", "restore") else ", variable: x"
    return f"{{kind: {full}{on}}}"


def traced(made: VariablesScenario, mode: int = 0, replication: int = 0) -> ProgramTrace:
    """The run of one of its modes."""
    return run_program(
        made.cluster,
        made.program,
        made.variables,
        made.all_modes[mode],
        seed=made.seed,
        replication=replication,
        algorithm=made.cross_device_ops,
    )


def rows(made: VariablesScenario, mode: int = 0) -> list[Row]:
    """What is told of one of its modes, without the creation of the variables."""
    return [row for row in rows_of(made, traced(made, mode)) if row.step]


def sentences(made: VariablesScenario, mode: int = 0) -> list[str]:
    """What is said of one of its modes, without the creation of the variables."""
    story = Program(made).explain(modes=[made.all_modes[mode]], steps=made.program.steps)
    rows = story.report.facts()["rows"]
    return [row["what"] for row in rows if row["step"]]
