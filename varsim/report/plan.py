"""The page of a plan: the front of cost and throughput, and every cell."""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from varsim.report.formats import lines
from varsim.report.notes import line
from varsim.report.products.plan_cells import speed_named, table, verdict
from varsim.report.report import Figure, Media, Report, Row, Source, Table, Text
from varsim.report.told import Report as Told
from varsim.report.told import Table as Cells
from varsim.report.wording import shown
from varsim.report.words.phrases import DOT
from varsim.study.goodput import metrics, throughput
from varsim.study.plan.findings import trade
from varsim.units import counted

if TYPE_CHECKING:
    from varsim.study.plan.plan import Plan

MOST_CELLS: Final = 2000  # of the table on the page; cells.csv has all
_VERDICT: Final = "whether the cell meets all targets, with 95 % certainty"


def page(plan: "Plan", told: Told, plots: bool = True) -> Report:
    """The blocks of a page, with or without `plots`."""
    from varsim.report.plots.plan.pareto import plot

    picture = plot(plan)
    alternative = f"{picture.heading} of every cell that was run"
    counts = ((len(plan.found.looked_at), "cell"), (plan.made, "run"))
    return Report(
        "plan",
        told.name,
        tuple(map(line, told.headline)),
        lines(told),
        (
            Text(("The best of each strategy",), "heading", name="best", on=Media.PAGE),
            _shown(
                told.table, "The answer, and what the best cell of every other strategy reaches"
            ),
            Text(lines(told), "items", close=True, on=Media.PAGE),
            *[Figure(picture, plan, None, alternative, Media.MARKDOWN | Media.PAGE)] * plots,
            Text(("All cells",), "heading", name="cells", on=Media.PAGE),
            _every(plan),
        ),
        told.provenance,
        told.question,
        DOT.join(counted(count, noun) for count, noun in counts),
        told.families,
        _source(plan, told),
        told.files,
    )


def _shown(found: Cells, caption: str) -> Table:
    """A table of cells as the page shows one."""
    every = zip(*(map(shown, one.cells) for one in found.columns), strict=True)
    rows = tuple(Row(name, cells) for name, cells in zip(found.rows, every, strict=True))
    heads = tuple(one.head for one in found.columns)
    return Table(heads, rows, found.corner, caption, "rows", on=Media.PAGE)


def _every(plan: "Plan") -> Table:
    """Every cell that was run, cheapest first: the front can be pointed at."""
    every, _, front = trade(plan.found)
    cells, base = every[:MOST_CELLS], plan.question.base
    found = table(plan, cells, [verdict(plan.found, one) for one in cells], "strategy")
    # While nothing fails all are as fast: then throughput says little.
    traded = plan.question.targets.goodput is None
    line = (
        "; the line joins those whose mean is higher than that of all that cost less, of those "
        "that meet the other targets"
    )
    left = len(every) - len(cells)
    more = f"; {left:,} more are in cells.csv" if left else ""
    heads = {one.key: one.head for one in found.columns}
    price = next((heads[key] for key in ("cost_per_hour", "machines") if key in heads), "")
    height = heads.get("throughput" if traded else "goodput", "")
    speed = metrics(base)[throughput(base)].description
    return replace(
        _shown(
            found,
            "Every cell that was run, cheapest first; a hollow point is not certain to meet "
            f"every target{line if traded else ''}{more}",
        ),
        label="All cells",
        meanings={heads.get("throughput", speed_named(base)): speed, "verdict": _VERDICT},
        axes=(price, height) if cells and price and height else (),
        front=[index for index, one in enumerate(cells) if traded and one in front],
        hollow=[index for index, one in enumerate(cells) if not one.feasible],
    )


def _source(plan: "Plan", told: Told) -> Source:
    """The answer, or else what was asked, to be run again."""
    assert told.source is not None, "of a plan"
    about = "What the space was laid over, defaults written out."
    how = "With the scenario above, and its plan, saved as `scenario.yaml`:"
    if plan.scenario is not None:
        about = "The answer. It is the file `plan.yaml` beside this page."
        how = "In the folder of this page; the numbers are the same:"
    return Source(told.source.text, about, how, told.source.command)
