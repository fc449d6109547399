"""The report of a sweep: the answer, its plots, its table."""

from typing import Final

from varsim.report.report import Block, Figure, Media, Report, Source, Text
from varsim.report.report import Table as Shown
from varsim.report.words.sweep import answer, cells, notes
from varsim.study.statistics import CONFIDENCE
from varsim.study.sweep.table import Table, descriptions

MOST_ROWS: Final = 2000  # of the table on the page; results.csv has all
_FILES: Final = {
    "results.csv": "the table, all digits, units in the names of the columns",
    "results.json": "the same, with what each column means, seed and versions",
    "results.parquet": "the same as results.csv",
    "sweep.yaml": "the sweep as it was run, with all changes of the command line",
    "runs.sqlite": "every run, kept as it ended",
}


def report(table: Table, question: str = "") -> Report:
    """What there is to tell of a sweep; `question` is what it was to answer."""
    from varsim.report.plots.sweep.gallery import plots

    sentences, said = tuple(answer(table)), tuple(notes(table))
    left_out = len(table.rows) - MOST_ROWS
    more = [f"{left_out} more rows are in results.csv."] if left_out > 0 else []
    blocks: list[Block] = [Figure(plot, table) for plot in plots(table)]
    blocks += [
        Text(("All points",), "heading", name="rows", on=Media.PAGE),
        _points(table),
        Text((*more, *said), "items", on=Media.PAGE),
        _columns(table),
    ]
    return Report(
        "sweep",
        table.sweep.points[0].scenario.name,
        sentences,
        said,
        tuple(blocks),
        table.document()["provenance"] | {"result_sha256": table.sha256},
        question,
        _setting(table),
        tuple(table.strategies),
        Source(
            table.sweep.yaml,
            "What was swept. It is the file `sweep.yaml` beside this page.",
            "In the folder of this page; the results are the same, byte for byte, for any number "
            "of `--jobs`:",
            "varsim sweep sweep.yaml --out again",
        ),
        _FILES,
    )


def _points(table: Table) -> Shown:
    """Every row, as far as there is room."""
    rows = table.rows[:MOST_ROWS]
    return Shown.of(
        zip((row.strategy for row in rows), cells(table, rows), strict=True),
        "strategy",
        caption=f"Means over the replications, ± half a {100 * CONFIDENCE:g} % confidence interval",
        label="All points",
        on=Media.PAGE,
    )


def _columns(table: Table) -> Text:
    """What the columns of the CSV mean."""
    meanings = descriptions(table)
    return Text(
        tuple(meanings.values()),
        "entries",
        terms=tuple(meanings),
        folded="What the columns of results.csv mean",
        on=Media.PAGE,
    )


def _setting(table: Table) -> str:
    sweep = table.sweep
    counts = [
        (len(table.strategies), "strategy", "strategies"),
        (len(sweep.points), "point", "points"),
        (sum({row.case: row.replications for row in table.rows}.values()), "run", "runs"),
    ]
    return " · ".join(f"{count:,} {one if count == 1 else many}" for count, one, many in counts)
