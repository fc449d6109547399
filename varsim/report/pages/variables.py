"""The report page of a result of variables, and the plots beside it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from varsim.report.pages.page import Row, Section, Table, common, rendered
from varsim.report.words.phrases import time
from varsim.report.words.program.table import seen
from varsim.study.program.metrics import METRICS
from varsim.study.program.values import described, shown
from varsim.units import format_bytes, format_rate

if TYPE_CHECKING:
    from pandas import Series

    from varsim.distribute.program.given import VariableDescription
    from varsim.report.plots.figure import Drawn
    from varsim.study.variables import VariablesResult

MOST_LINKS: Final = 20
MOST_REPLICAS: Final = 64  # that have a row of their own

FILES: Final = {
    "summary.csv": "every measure of every mode, with its interval; as written, then as varied",
    "runs.csv": "one row per run: mode, reads per write, replication; what it took and sent",
    "acts.csv": "one row per act: who did what from when to when, with what, what was seen, and "
    "what the copies held then",
    "sent.csv": "one row per message: what for, from where to where, how many bytes, when",
    "links.csv": "one row per link: what it carried, the creation of the variables included, and "
    "that as a share of what it could",
    "result.json": "the answer, every measure, what was seen, what the columns of the tables "
    "mean, with seed and versions",
    "scenario.yaml": "the scenario, defaults written out",
}


class SeenVariable(NamedTuple):
    """What was seen of one variable: in short, and replica by replica where that says more."""

    name: str
    table: Table
    each: Table | None


def write(
    result: "VariablesResult", directory: Path, question: str = "", beside: Path | None = None
) -> None:
    """Write all plots and report.html into an existing directory; `question` heads the page.

    `beside`: where the files of the run are, if not there.
    """
    from varsim.report.plots.program.gallery import draw_all

    figures = draw_all(result, directory)
    there = directory if beside is None else beside
    files = {name: meaning for name, meaning in FILES.items() if (there / name).exists()}
    text = page(result, figures, files, question)
    (directory / "report.html").write_text(text, encoding="utf-8", newline="\n")


def page(
    result: "VariablesResult",
    figures: "dict[str, Drawn]",
    files: dict[str, str],
    question: str = "",
) -> str:
    """The report as HTML; `figures` as drawn by `draw_all`, `files` lie beside the page."""
    from varsim.report.plots.figure import looks
    from varsim.report.plots.program.gallery import plots

    tables = {"crossover": varied(result)}
    content: dict[str, Any] = {
        "question": question,
        "setting": _setting(result),
        "answer": result.answer().splitlines(),
        "notes": result.notes,
        "comparison": comparison(result),
        "links": links(result),
        "variables": [values(result, variable) for variable in result.scenario.variables],
        "figures": [
            Section.of(plot, figures[plot.name], tables.get(plot.name)) for plot in plots(result)
        ],
        "files": files,
    }
    shared = common(result.scenario, result.provenance, looks(result.modes))
    return rendered("variables.html.j2", shared | content)


def comparison(result: "VariablesResult") -> Table:
    """What a step costs: a row per measure, with its meaning; a column per mode."""
    cells = result.table()
    meanings = {name.replace("_", " "): metric.description for name, metric in METRICS.items()}
    beside = f"time per step, as a multiple of that in '{result.modes[0]}'"
    rows = [
        Row(heading, meanings.get(heading, beside), [str(text) for text in cells[heading]])
        for heading in cells.columns
    ]
    count = result.replications
    over = f"Means over {count} replications, ± the half-width of a 95 % confidence interval"
    return Table(over if count > 1 else "One replication", rows)


def values(result: "VariablesResult", variable: "VariableDescription") -> SeenVariable:
    """What was seen of a variable, a column per mode."""
    cells = seen(result, variable.name)
    meanings = {
        "replicas": "what each read last, replica 0 first",
        "outside": "what it read or saved last",
        "copies at the end": "the copy of replica 0 first",
    }
    rows = [Row(name, meanings[name], list(cells[name])) for name in cells.columns]
    caption = f"'{variable.name}' ({described(variable)})"
    return SeenVariable(variable.name, Table(caption, rows), _each(result, variable, caption))


def varied(result: "VariablesResult") -> Table:
    """The time per step at every number of outside reads per write."""
    rows = [
        Row(
            f"{ratio:g}",
            "",
            [time(result.estimate(mode, "time_per_step", ratio)) for mode in result.modes],
        )
        for ratio in result.ratios
    ]
    return Table("Time per step, a row per number of outside reads per write", rows)


def links(result: "VariablesResult") -> Table:
    """What the busiest links carried, as the mean over replications."""
    means = result.links.groupby(["link", "mode"], sort=False).mean(numeric_only=True)
    busiest = means["utilization"].groupby("link", sort=False).max()
    order = list(busiest.sort_values(ascending=False, kind="stable").index)
    rows = []
    for link in order[:MOST_LINKS]:
        of = means.loc[link]
        speed = format_rate(float(of["bandwidth_bytes_per_s"].iloc[0]))
        cells = [_carried(of.loc[mode]) if mode in of.index else "-" for mode in result.modes]
        rows.append(Row(link, speed, cells))
    caption = (
        "Bytes carried by each link in a run, and that as a share of what it could carry; other "
        "than above, what is sent before step 1 to make the variables is included"
    )
    if len(order) > MOST_LINKS:
        caption += f"; the busiest {MOST_LINKS} of {len(order):,} links"
    return Table(caption, rows)


def _each(result: "VariablesResult", variable: "VariableDescription", caption: str) -> Table | None:
    """What every replica read last and its copy held; None where all are alike."""
    views = [result.view(mode, variable.name) for mode in result.modes]
    count = min(result.scenario.cluster.workers, MOST_REPLICAS)
    rows = []
    for rank in range(count):
        read = [shown(view.replicas[rank]) for view in views]
        held = [
            shown(view.copies[rank]) if rank < len(view.copies) and len(view.copies) > 1 else "-"
            for view in views
        ]
        rows += [Row(f"replica {rank}", "read last", read), Row(f"copy {rank}", "at the end", held)]
    for part in (rows[::2], rows[1::2]):
        if any(row.cells != part[0].cells for row in part):
            of = f", the first {count} replicas" if count < len(views[0].replicas) else ""
            return Table(f"{caption}{of}", [row for row in rows if set(row.cells) != {"-"}])
    return None


def _setting(result: "VariablesResult") -> str:
    scenario = result.scenario
    counts = [
        (scenario.cluster.workers, "replica"),
        (len(result.modes), "mode"),
        (scenario.program.steps, "step"),
        (result.replications, "replication"),
    ]
    said = [f"{count:,} {what}{'s' * (count != 1)}" for count, what in counts]
    return " · ".join([*said, f"seed {scenario.seed}"])


def _carried(row: "Series[float]") -> str:
    return f"{format_bytes(row['moved_bytes'])} ({100 * row['utilization']:.1f} %)"
