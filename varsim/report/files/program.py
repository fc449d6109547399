"""The files of a run of variables: written all at once or not at all."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from varsim.inert import number_or_cell
from varsim.report.files.keeping import head, put_run
from varsim.report.files.save import Plots, Saved, show
from varsim.report.formats import csv_lines, csv_text
from varsim.report.products.variables import document
from varsim.report.told import Data, Report
from varsim.study.program.tables import COLUMNS, act_rows, sent_rows
from varsim.study.variables import VariablesResult

_SECOND = 1_000_000_000


def save_variables(
    result: VariablesResult,
    directory: Path,
    report: Report | None = None,
    *,
    plots: Plots = "png",
    rows: bool = True,
) -> Saved:
    """Write all files of a run, as `save` does for a training run."""
    from varsim.scenario.writing import dump_scenario

    files: dict[str, Iterable[str] | bytes] = {
        "summary.csv": [csv_text(Data.of(result.summary))],
        "scenario.yaml": [head(report.question if report else ""), dump_scenario(result.scenario)],
    }
    if rows:
        files |= {
            "runs.csv": [csv_text(Data.of(result.runs))],
            "links.csv": [csv_text(Data.of(result.links))],
            "acts.csv": _table("acts", act_rows(result.written)),
            "sent.csv": _table("sent", sent_rows(result.written)),
        }
    shows = None if report is None else partial(show, report, plots)
    put_run(directory, "variables", files, document(result), shows)
    return Saved(directory, tuple(_cut(result)) if rows else ())


def _cut(result: VariablesResult) -> Iterator[str]:
    """Of which runs not every act or message is kept."""
    for name, pairs in (
        ("acts.csv", [(len(trace.acts), trace.all_acts) for _, trace in result.written]),
        ("sent.csv", [(len(trace.sent), trace.all_sent) for _, trace in result.written]),
    ):
        kept, all_of = (sum(column) for column in zip(*pairs, strict=True))
        if kept < all_of:
            yield (
                f"{name}: {kept:,} of {all_of:,} rows, the first ones of each run; every other "
                "number counts all of them"
            )


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
