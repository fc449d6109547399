"""The page of a sweep: its answer, its plots, all points."""

from varsim.report import told
from varsim.report.formats import lines
from varsim.report.notes import line
from varsim.report.parts import MEANS, NO_PLOTS, ONE
from varsim.report.products.sweep_points import MOST_ROWS, points, speed
from varsim.report.report import Figure, Media, Report, Row, Source, Text
from varsim.report.report import Table as Shown
from varsim.report.wording import shown
from varsim.study.sweep.table import Table, descriptions
from varsim.units import counted


def page(table: Table, report: told.Report, plots: bool = True) -> Report:
    """The blocks of its page, with or without `plots`."""
    rest = len(table.rows) - MOST_ROWS
    more = [f"{rest} more rows are in results.csv."] if rest > 0 else []
    blocks = (
        *(_figures(table) if plots else NO_PLOTS),
        Text(("All points",), "heading", name="rows", on=Media.PAGE),
        _points(table),
        Text((*more, *lines(report)), "items", on=Media.PAGE),
        _columns(table),
    )
    source = report.source
    return Report(
        "sweep",
        report.name,
        tuple(map(line, report.headline)),
        lines(report),
        blocks,
        report.provenance,
        report.question,
        _setting(table),
        report.families,
        source
        and Source(
            source.text,
            "What was swept. It is the file `sweep.yaml` beside this page.",
            "In the folder of this page; the results are the same, byte for byte, for any number "
            "of `--jobs`:",
            source.command,
        ),
        report.files,
        report.facts,
        report.data,
    )


def _figures(table: Table) -> list[Figure]:
    from varsim.report.plots.sweep.gallery import plots

    return [Figure(plot, table) for plot in plots(table)]


def _points(table: Table) -> Shown:
    """Every row, as far as there is room."""
    rows, all_points = table.rows[:MOST_ROWS], points(table)
    places: dict[str, set[str]] = {"replications": set()}
    for row in rows:
        for name, value in table.place(row).items():
            places.setdefault(name, set()).add(value)
    fastest = next(one.head for one in all_points.columns if one.key == speed(rows[0]))
    cells = zip(*(map(shown, one.cells) for one in all_points.columns), strict=True)
    return Shown(
        tuple(one.head for one in all_points.columns),
        tuple(Row(name, own) for name, own in zip(all_points.rows, cells, strict=True)),
        "strategy",
        caption=MEANS if any(row.replications > 1 for row in rows) else ONE,
        marked="rows",
        label="All points",
        axes=(max(places, key=lambda name: len(places[name])), fastest),
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
    runs = sum({row.case: row.replications for row in table.rows}.values())
    return " · ".join(
        (
            counted(len(table.strategies), "strategy", "strategies"),
            counted(len(table.sweep.points), "point"),
            counted(runs, "run"),
        )
    )
