"""The report of a sweep: the answer, its plots, its table."""

from dataclasses import replace
from functools import partial
from typing import Any, Final

from varsim.report.parts import MEANS, NO_PLOTS, ONE
from varsim.report.report import Block, Figure, Media, Report, Source, Text
from varsim.report.report import Table as Shown
from varsim.report.told import Data
from varsim.report.words.sweep import answer, cells, left_out, meanings, notes, shown, speed
from varsim.scenario.provenance import MADE_BY, provenance_of_many
from varsim.study.statistics import CONFIDENCE
from varsim.study.sweep.table import Table, descriptions

MOST_ROWS: Final = 2000  # of the table on the page; results.csv has all
_FILES: Final = {
    "results.csv": "the table, all digits, units in the names of the columns",
    "results.json": "the same, with what each column means, seed and versions",
    "sweep.yaml": "the sweep as it was run, with all changes of the command line",
    "runs.sqlite": "every run, kept as it ended",
}


def report(table: Table, question: str = "", *, plots: bool = True) -> Report:
    """What there is to tell of a sweep, with or without `plots`; `question`: it was to answer."""
    sentences, said = tuple(answer(table)), tuple(notes(table))
    blocks: list[Block] = [
        Text(sentences, on=Media.TERMINAL),
        replace(shown(table), on=Media.TEXT),
        Text((*left_out(table), *said), close=True, on=Media.TEXT),
        Text(sentences, on=Media.MARKDOWN),
        *(_figures(table) if plots else NO_PLOTS),
    ]
    rest = len(table.rows) - MOST_ROWS
    more = [f"{rest} more rows are in results.csv."] if rest > 0 else []
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
        _provenance(table) | {"result_sha256": table.sha256},
        question,
        _setting(table),
        {table.strategy(label).title: of for label, of in table.families.items()},
        Source(
            table.sweep.yaml,
            "What was swept. It is the file `sweep.yaml` beside this page.",
            "In the folder of this page; the results are the same, byte for byte, for any number "
            "of `--jobs`:",
            "varsim sweep sweep.yaml --out again",
        ),
        _FILES,
        partial(document, table),
        Data(table.columns, list(table.cells())),
    )


def _figures(table: Table) -> list[Figure]:
    from varsim.report.plots.sweep.gallery import plots

    return [Figure(plot, table) for plot in plots(table)]


def _provenance(table: Table) -> dict[str, str | int]:
    return provenance_of_many([point.scenario for point in table.sweep.points])


def document(table: Table) -> dict[str, Any]:
    """The table with all that is needed to read it, as plain data."""
    return {
        "made_by": MADE_BY,
        "kind": "sweep",
        "name": table.sweep.name,
        "provenance": _provenance(table),
        "result_sha256": table.sha256,
        "asked_sha256": table.sweep.sha256,
        "confidence": CONFIDENCE,
        "precision": table.sweep.precision,
        "most_replications": table.sweep.most_replications,
        "answer": answer(table),
        "columns": descriptions(table),
        "rows": [dict(zip(table.columns, cells, strict=True)) for cells in table.cells()],
    }


def _points(table: Table) -> Shown:
    """Every row, as far as there is room."""
    rows = table.rows[:MOST_ROWS]
    places: dict[str, set[str]] = {"replications": set()}
    for row in rows:
        for name, value in table.place(row).items():
            places.setdefault(name, set()).add(value)
    return Shown.of(
        zip((table.strategy(row.strategy).title for row in rows), cells(table, rows), strict=True),
        "strategy",
        caption=MEANS if any(row.replications > 1 for row in rows) else ONE,
        label="All points",
        meanings=meanings(table.sweep.points[0].scenario),
        axes=(max(places, key=lambda name: len(places[name])), speed(rows)),
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
