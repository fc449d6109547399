"""Scenarios of variables to be told, made from a few lines."""

from collections.abc import Sequence
from typing import Any

import varsim
from tests.seams import ProgramTrace, VariablesScenario, load_text, run_of_program

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
    return run_of_program(made, made.all_modes[mode], replication)


def story(made: VariablesScenario, mode: int = 0) -> Any:
    """The whole run of one of its modes, told."""
    return varsim.explain(made, strategies=[made.labels[mode]], steps=made.program.steps)


def all_rows(made: VariablesScenario, mode: int = 0) -> list[Any]:
    """What is told of one of its modes, the creation of the variables first."""
    (telling,) = story(made, mode)
    found: list[Any] = telling.rows
    return found


def rows(made: VariablesScenario, mode: int = 0) -> list[Any]:
    """The same without the creation of the variables."""
    return [row for row in all_rows(made, mode) if row.step]


def sentences(made: VariablesScenario, mode: int = 0) -> list[str]:
    """What is said of one of its modes, without the creation of the variables."""
    rows = story(made, mode).report.facts()["rows"]
    return [row["what"] for row in rows if row["step"]]
