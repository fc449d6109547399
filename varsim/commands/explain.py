"""Telling what happens to variables, step by step."""

from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final

from varsim.commands.console import write

if TYPE_CHECKING:
    from varsim.explain.page import Form
    from varsim.scenario import Scenario
    from varsim.variables import VariablesScenario

# Wider lines are hard to read; narrower ones are torn, and so they are in a pipe.
WIDEST: Final = 100
NARROWEST: Final = 80


def explain(
    scenario: "Scenario | VariablesScenario",
    file: Path,
    question: str,
    modes: Sequence[str],
    steps: int | None,
    form: "Form",
) -> None:
    """Print what each copy holds, what is sent where, and when."""
    from varsim.explain.page import explanation

    columns = get_terminal_size((NARROWEST, 0)).columns
    width = max(NARROWEST, min(columns, WIDEST))
    for line in explanation(
        scenario, str(file), question, modes=modes, steps=steps, form=form, width=width
    ):
        write(line)
