"""The plots of a result of variables: what each shows and how to read it, as PNG and SVG."""

from typing import TYPE_CHECKING, Final

from varsim.report.plots.plot import Plot
from varsim.report.plots.program import cost, crossover, step

if TYPE_CHECKING:
    from varsim.study.variables import VariablesResult

_COST: Final = Plot["VariablesResult"](
    "cost",
    "What a step costs",
    "Bars: mean over the replications; whiskers: its 95 % confidence interval. What is sent before "
    "step 1, to make the variables, does not count.",
    cost.title,
    cost.heights,
    cost.draw,
    lambda result: [],
    one_axis=False,
    alone="Bars: one number each, exact or from one replication. What is sent before step 1, to "
    "make the variables, does not count.",
    spreads=lambda result: any(
        bar.half_width > 0
        for metric in ("time_per_step", "bytes_per_step")
        for bar in cost.costs(result, metric)
    ),
)
_STEP: Final = Plot["VariablesResult"](
    "step",
    "One step",
    "One row per replica, one for the outside, which acts on the machine of replica 0, and one per "
    "server (ps) where messages are drawn; in the first replication. A bar: it took time. A mark: "
    "it took none. Where replicas are a step ahead or behind, all steps since they last met are "
    "shown if they are few, else what they do meanwhile; numbers say which step it is. Panels "
    "without a time axis have that of the last; where lengths differ much, each has its own.",
    step.title,
    step.heights,
    step.draw,
    step.legend,
    one_axis=False,
)
_CROSSOVER: Final = Plot["VariablesResult"](
    "crossover",
    "How often the outside reads",
    "Marks: the mean over the replications of what was run; bands: its 95 % confidence interval; "
    "lines: straight from one to the next (bent where an axis is logarithmic). A ring: two modes "
    "take the same time at so many reads per write.",
    crossover.title,
    crossover.heights,
    lambda result, panels: [crossover.draw(result, *panels)],
    crossover.legend,
)


def plots(result: "VariablesResult") -> "list[Plot[VariablesResult]]":
    """Those that this result has: the crossover only where the outside's reads were varied."""
    return [*([_CROSSOVER] if result.ratios else []), _COST, _STEP]
