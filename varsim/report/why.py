"""The page of why a scenario's strategies are as slow as they are."""

from typing import TYPE_CHECKING, Literal

from varsim.report import told
from varsim.report.formats import lines
from varsim.report.notes import line
from varsim.report.report import Block, Figure, Media, Report, Row, Source, Table, Text
from varsim.report.wording import shown
from varsim.units import counted

if TYPE_CHECKING:
    from varsim.study.why.account import Why


def page(why: "Why", report: told.Report, plots: bool = True) -> Report:
    """The blocks of a page, with or without `plots`."""
    workers, strategies = why.scenario.cluster.workers, len(why.accounts)
    source = report.source
    return Report(
        "why",
        report.name,
        tuple(map(line, report.headline)),
        lines(report),
        tuple(_blocks(why, report, plots)),
        report.provenance,
        report.question,
        f"{counted(workers, 'worker')} · {counted(strategies, 'strategy', 'strategies')}",
        report.families,
        source
        and Source(
            source.text,
            "Everything that was simulated, defaults written out.",
            "With the scenario above saved as `scenario.yaml`; the numbers are the same, byte for "
            "byte:",
            source.command,
        ),
        report.files,
        report.facts,
    )


def _blocks(why: "Why", report: told.Report, plots: bool) -> list[Block]:
    notes = Text(lines(report), "items", close=True, on=Media.PAGE)
    head = Text(("Comparison",), "heading", name="comparison", on=Media.PAGE)
    blocks: list[Block] = [head, _table(report.table, "rows"), notes]
    if plots:
        from varsim.report.plots.why import PLOT

        blocks.append(Figure(PLOT, why))
    details = Text(("Strategy by strategy",), "heading", name="details", on=Media.PAGE)
    return [*blocks, details, *(_table(one) for one in report.details)]


def _table(table: told.Table, marked: Literal["rows", ""] = "") -> Table:
    cells = zip(*(map(shown, one.cells) for one in table.columns), strict=True)
    rows = tuple(Row(name, row) for name, row in zip(table.rows, cells, strict=True))
    heads = tuple(one.head for one in table.columns)
    return Table(heads, rows, table.corner, marked=marked, on=Media.PAGE)
