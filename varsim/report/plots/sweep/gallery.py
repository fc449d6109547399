"""The plots of a sweep: which there are, what each shows, and how to read it."""

from functools import partial
from typing import TYPE_CHECKING, Final

from matplotlib.axes import Axes

from varsim.report.plots.plot import Plot
from varsim.report.plots.sweep import heat, lines, pareto, scaling
from varsim.report.plots.sweep.axis import main_axis, whisker
from varsim.report.words.phrases import joined

if TYPE_CHECKING:
    from varsim.study.sweep.table import Table

_CAPTION: Final = (
    "Marks: the mean over the replications; whiskers: its 95 % confidence interval, where that is "
    "longer than the mark. A thin line without marks: what is swept makes no difference to the "
    "strategy."
)
_WHISKERS: Final = "Whiskers: 95 % confidence interval, where that is longer than the mark."
_ALONE: Final = (
    "Marks: one number each, exact or from one replication. A thin line without marks: what is "
    "swept makes no difference to the strategy."
)
_WITHOUT_MARK: Final = (
    "No mark: the target loss was not reached before the run ended, in one replication at least."
)


def plots(table: "Table") -> "list[Plot[Table]]":
    """Those that this table has."""
    measured = [("throughput", "Throughput", lines.throughput(table))]
    measured += [
        (name, heading, one)
        for name, heading, one in (
            ("staleness", "Staleness", lines.STALENESS),
            ("wasted", "Wasted work", lines.WASTED),
            ("time_to_target", "Time to the target loss", lines.time_to_target(table)),
        )
        if any(row.mean(one.metric) > 0 for row in table.rows)
    ]
    against = main_axis(table).label
    found = [
        Plot["Table"](
            name,
            heading,
            _caption(table, one),
            partial(_title, f"{heading} against {against}"),
            lines.heights,
            partial(_drawn, one),
            partial(lines.legend, rings=one.best),
        )
        for name, heading, one in measured
    ]
    if heat.is_drawn(table):
        found.append(
            Plot["Table"](
                "heat",
                "Two quantities",
                "Examples per second; in bold the highest mean of a strategy.",
                heat.title,
                heat.heights,
                heat.draw,
                heat.legend,
            )
        )
    if scaling.is_drawn(table):
        found.append(
            Plot["Table"](
                "scaling",
                "Speed-up and efficiency",
                "Throughput as a multiple of one worker's, and that divided by the workers. One "
                "worker is the strategy 'single' if it is swept along; else each of a strategy's "
                f"fewest workers counts as one.{_whiskers(table)}",
                scaling.title,
                scaling.heights,
                scaling.draw,
                scaling.legend,
            )
        )
    if pareto.is_drawn(table):
        found.append(
            Plot["Table"](
                "pareto",
                "Cost and throughput",
                "Every row a mark; the line joins those that no other beats in both.",
                pareto.title,
                pareto.heights,
                pareto.draw,
                pareto.legend,
            )
        )
    return found


def _caption(table: "Table", measured: lines.Measured) -> str:
    every = (row.estimates.get(measured.metric) for row in table.rows)
    said = _CAPTION if any(one and one.high > one.low for one in every) else _ALONE
    said += _beside(table)
    return f"{said} {_WITHOUT_MARK}" if measured.metric == "time_to_target" else said


def _whiskers(table: "Table") -> str:
    """What whiskers of the speed-up are, where there are any."""
    random = any(whisker(row.scaling["speedup"]) > 0 for row in table.rows if row.scaling)
    return f" {_WHISKERS}" if random else ""


def _beside(table: "Table") -> str:
    """What changes along the axis besides what that names, as it is swept in step with it."""
    every, points = table.sweep.quantities, table.sweep.points
    drawn_at = main_axis(table).index
    drawn = every[drawn_at]
    found = {}
    for index, one in enumerate(every):
        name = one.path.rpartition(".")[2]
        if one.group == drawn.group and name != drawn.path.rpartition(".")[2]:
            steps = {point.values[drawn_at].text: point.values[index].text for point in points}
            found[f"{name} ({', '.join(steps.values())})"] = True
    return f" Swept in step with the axis: {joined(list(found))}." if found else ""


def _title(words: str, _: "Table") -> str:
    return words


def _drawn(measured: lines.Measured, table: "Table", panels: list[Axes]) -> list[Axes]:
    return lines.draw(table, panels, measured)
