"""The directory of a sweep: its runs, its table, and the sweep itself, to run or merge it again."""

import importlib.util
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from varsim.report.files.claim import facts_in
from varsim.report.files.keeping import damaged, head
from varsim.scenario.provenance import is_sealed
from varsim.scenario.sweep.space import Sweep
from varsim.scenario.writing import needs_text
from varsim.study.sweep.runs_file import STORE
from varsim.study.sweep.table import Table

SCENARIO: Final = "sweep.yaml"
JSON: Final = "results.json"
PARQUET: Final = "results.parquet"


def parquet(table: Table) -> dict[str, bytes]:
    """The table as the content of a file of Parquet, where pyarrow is installed."""
    if importlib.util.find_spec("pyarrow") is None:
        return {}
    frame = table.frame()
    for column in frame:
        kinds = {type(value) for value in frame[column] if value is not None}
        if str in kinds and len(kinds) > 1:  # numbers, and a word such as optimal
            frame[column] = frame[column].map(str)
    return {PARQUET: frame.to_parquet(index=False)}


def write_sweep(sweep: Sweep, question: str, directory: Path) -> None:
    """Write the sweep as a scenario file, with all changes that were made on the command line."""
    needed = needs_text(*(point.scenario for point in sweep.points))
    put(directory / SCENARIO, head(question) + sweep.yaml + needed)


def holds_sweep(directory: Path) -> bool:
    """Whether a directory has the results of a sweep, perhaps damaged, and the runs behind them."""
    return all((directory / name).is_file() for name in (SCENARIO, JSON, STORE))


def swept_in(directory: Path) -> tuple[list[str], str]:
    """The labels of the strategies of which the results in a directory are, and its sweep's hash.

    Raises NotARunError where they are not as they were written.
    """
    told = facts_in(directory, "sweep")
    if not told or not is_sealed(told):
        raise damaged(directory / JSON)
    return list(dict.fromkeys(row["strategy"] for row in told["rows"])), told["asked_sha256"]


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
