"""The directory of a plan: its runs, its cells, what it says, and the answer as a scenario."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from varsim.report.files.keeping import head
from varsim.report.files.sweep import put
from varsim.report.plan import PlanText
from varsim.scenario.loading import dump_scenario

SCENARIO: Final = "plan.yaml"
JSON: Final = "plan.json"
MARKDOWN: Final = "plan.md"
CSV: Final = "cells.csv"


def write_plan(plan: PlanText, question: str, directory: Path, picture: str) -> list[Path]:
    """Write all of it but the picture; the scenario is taken away where there is no answer.

    Each file is there whole or as it was before; OSError if it cannot be written.
    """
    texts = {CSV: plan.csv(), JSON: plan.json(), MARKDOWN: plan.markdown(question, picture)}
    scenario = plan.plan.scenario
    if scenario is None:
        (directory / SCENARIO).unlink(missing_ok=True)
    else:
        asked = head(question) + head(plan.sentences[0])
        texts[SCENARIO] = asked + dump_scenario(scenario)
    return [put(directory / name, _writer(text)) for name, text in texts.items()]


def _writer(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text, encoding="utf-8", newline="\n")
