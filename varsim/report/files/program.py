"""The files of a run of variables: written all at once or not at all."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from varsim.inert import number_or_cell
from varsim.report.files.keeping import head, put_run
from varsim.report.render import csv_lines, csv_text
from varsim.report.report import Report
from varsim.report.told import Data
from varsim.report.variables import document
from varsim.study.program.tables import COLUMNS, act_rows, sent_rows
from varsim.study.variables import VariablesResult

_SECOND = 1_000_000_000


def save_variables(result: VariablesResult, directory: Path, report: Report | None = None) -> Path:
    """Write all files of a run, as `save` does for a training run; returns the directory."""
    from varsim.scenario.writing import dump_scenario

    written = {"acts": act_rows(result.written), "sent": sent_rows(result.written)}
    files: dict[str, Iterable[str] | bytes] = {
        "summary.csv": [csv_text(Data.of(result.summary))],
        "runs.csv": [csv_text(Data.of(result.runs))],
        "links.csv": [csv_text(Data.of(result.links))],
        "scenario.yaml": [head(report.question if report else ""), dump_scenario(result.scenario)],
        **{f"{name}.csv": _table(name, rows) for name, rows in written.items()},
    }
    put_run(directory, "variables", files, document(result), report)
    return directory


def _table(name: str, rows: Iterable[tuple[object, ...]]) -> Iterator[str]:
    """A long table as CSV."""
    columns = list(COLUMNS[name])
    return csv_lines(columns, _with_seconds(rows, columns))


def _with_seconds(
    rows: Iterable[tuple[object, ...]], columns: Sequence[str]
) -> Iterator[list[object]]:
    """Rows whose times in ns are exact seconds, `1.250000000`."""
    times = [place for place, column in enumerate(columns) if column.endswith("_s")]
    for row in rows:
        cells = [number_or_cell(one) if isinstance(one, str) else one for one in row]
        for place in times:
            time = cells[place]
            assert isinstance(time, int)
            cells[place] = f"{time // _SECOND}.{time % _SECOND:09d}"
        yield cells
