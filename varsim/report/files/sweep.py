"""The directory of a sweep: its runs, its table, and the sweep itself, to run or merge it again."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from varsim.report.files.keeping import head
from varsim.scenario.sweep.space import Sweep
from varsim.scenario.writing import needs_text

SCENARIO: Final = "sweep.yaml"
JSON: Final = "results.json"


def write_sweep(sweep: Sweep, question: str, directory: Path) -> None:
    """Write the sweep as a scenario file, with all changes that were made on the command line."""
    needed = needs_text(*(point.scenario for point in sweep.points))
    put(directory / SCENARIO, head(question) + sweep.yaml + needed)


def put(path: Path, text: str) -> None:
    """Write one file: it is there whole or as it was before. OSError names it."""
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8", newline="\n")
        partial.replace(path)
    except OSError as error:
        if error.strerror is not None:
            error.filename = str(path)
            del error.filename2
        raise
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
