"""What a page shows of a run below its answer: curves of the loss, all numbers, the links."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from varsim.report.products.curves import Against, curves
from varsim.report.told import Cell, Chart, Column, Number, Table

if TYPE_CHECKING:
    from varsim.study.measure import Carried
    from varsim.study.result import Result

# What a run leaves beside its page.
FILES: Final = {
    "summary.csv": "every measure of every strategy, with its interval",
    "summary.json": "the same, with seed and versions",
    "updates.csv": "one row per gradient: when it was read, computed and applied, how stale it was",
    "spans.csv": "one row per stretch of time that a worker spent on one activity",
    "steps.csv": "one row per update of the model",
    "links.csv": "one row per link: what it carried, and as what share of what it could",
    "evaluations.csv": "loss and accuracy, each time they were measured",
    "scenario.yaml": "the scenario, defaults written out",
    "trace.json.gz": "all workers' time, to look at in ui.perfetto.dev",
}

OF_FAILURES: Final = {"lives.csv": "one row per attempt of a job, from a start to the next"}
OF_SENDS: Final = {"sends.csv": "what workers sent while they computed, in the first replication"}
MOST_LINKS: Final = 20  # of the table
_ROW: Final = ("who", "x", "mean", "low", "high")


def charts(result: "Result", named: dict[str, str]) -> Iterator[Chart]:
    """Loss against time and against updates."""
    views: dict[Against, str] = {"time": "time (s)", "global_step": "updates"}
    for by, x in views.items():
        found = curves(result, by)
        rows = [
            (named[one.strategy], *row)
            for one in found
            for row in zip(one.x, one.mean, one.low, one.high, strict=True)
        ]
        if rows:
            data = dict(zip(_ROW, zip(*rows, strict=True), strict=True))
            yield Chart("loss", "lines", data, x, "loss", "who", result.target_loss)


def details(result: "Result", named: dict[str, str]) -> Iterator[Table]:
    """Every metric that exists in some strategy; what the busiest links carried."""
    there = {
        metric: about
        for metric, about in result.metrics.items()
        if any(result.estimate(name, metric).replications for name in result.strategies)
    }
    units = {"fraction": "share", "bytes": "B", "s": "s"}
    yield Table(
        tuple(there),
        tuple(
            Column(
                name,
                named[name],
                tuple(
                    Number.of(result.estimate(name, metric), units.get(about.unit, ""))
                    for metric, about in there.items()
                ),
            )
            for name in result.strategies
        ),
        tuple(about.description for about in there.values()),
        f"All numbers: {len(there)} measures of every strategy",
    )
    if result.carried:
        yield links(result.carried, named)


def links(carried: "Mapping[str, Mapping[str, Carried]]", named: Mapping[str, str]) -> Table:
    """What the busiest links carried, as a share of what they could; `named`: whom, and as what."""
    order = _by_use(carried)
    servers = [link for link in order if link.startswith("ps ")][: MOST_LINKS // 2]
    chosen = sorted(dict.fromkeys([*servers, *order][:MOST_LINKS]), key=order.index)
    return Table(
        tuple(chosen),
        tuple(
            Column(name, said, tuple(_use(carried[link].get(name)) for link in chosen))
            for name, said in named.items()
        ),
        corner=f"Links: share of what each could carry, {len(chosen)} of {len(order)}",
    )


def _use(found: "Carried | None") -> Cell:
    return Number(found.utilization, unit="share") if found and found.utilization >= 0 else "-"


def _by_use(carried: "Mapping[str, Mapping[str, Carried]]") -> list[str]:
    """The links, the busiest of all alternatives first; last those whose use is not known."""
    most = {
        link: max((one.utilization for one in of.values() if one.utilization >= 0), default=-1.0)
        for link, of in carried.items()
    }

    def rank(link: str) -> tuple[float, list[int | str]]:
        """By what is shown, then by name: `worker 2 up` before `worker 10 up`."""
        parts = re.split(r"([0-9]+)", link)
        return -float(f"{most[link]:.2e}"), [int(one) if one.isdecimal() else one for one in parts]

    return sorted(most, key=rank)
