"""The tables of a result of variables: metrics, columns, and how they come out of its traces."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from varsim.cluster.programs import ProgramTrace
from varsim.distribute.program_run import CROSS_REPLICA, ValueSummary
from varsim.study.measure import NANOSECONDS, utilization
from varsim.study.statistics import Estimate
from varsim.values.operation import DEFAULT_DEVICE, Device

if TYPE_CHECKING:
    from pandas import DataFrame


# The runs of the program as it is written, each with its mode.
Written: TypeAlias = Sequence[tuple[str, ProgramTrace]]

_WHOSE: Final = {
    "mode": "how variables that leave it open are synchronized; 'as written': none does",
    "replication": "number of the replication, from 0",
}
_RATIO: Final = (
    "reads from outside for each write of a replica; empty for the program as it is written"
)
_VALUE: Final = (
    "all elements of a small value, else the first three, then '...' and the mean of all"
)
# What every column of every table means: table -> column -> description with unit.
COLUMNS: Final[dict[str, dict[str, str]]] = {
    "summary": {
        "mode": _WHOSE["mode"],
        "reads_per_write": _RATIO,
        "metric": "what is measured",
        "unit": "unit of mean, low and high",
        "mean": "mean over replications",
        "low": "lower end of the 95 % confidence interval (Student t over replications)",
        "high": "upper end of the 95 % confidence interval",
        "replications": "number of replications",
        "description": "what the metric means",
    },
    "runs": {
        "mode": _WHOSE["mode"],
        "reads_per_write": _RATIO,
        "replication": _WHOSE["replication"],
        "began_s": "when the variables were there and step 1 began, s",
        "end_s": "when the last step had ended, s",
        "time_per_step_s": "(end_s - began_s) / steps, s",
        "bytes_per_step": "bytes sent over the network from step 1 on / steps, bytes",
        "messages_per_step": "messages sent over the network from step 1 on / steps, messages",
    },
    "acts": {
        **_WHOSE,
        "step": "number of the step, from 1",
        "line": "the action's place in the program: its part, and its number in it from 0",
        "repetition": "which of its `times` it is, from 0",
        "actor": "who acted: a replica, or the outside",
        "action": "what was done",
        "variable": "the variable it was done to; empty for compute",
        "begin_s": "start, s",
        "end_s": "end, s",
        "handed": f"what it was done with: {_VALUE}",
        "seen": f"what was read, saved or restored: {_VALUE}",
        "copies": "the first 64 copies of the variable at that moment, with ' | ' between them",
        "movements": "numbers of the movements made for it, as in sent.csv",
    },
    "sent": {
        **_WHOSE,
        "movement": "number of the movement in the run, from 0: one operation's messages",
        "round": "number of the round of the movement, from 0; rounds follow one another",
        "what": "the operation",
        "from": "who sent: a replica, the outside (on the machine of replica 0) or a server (ps)",
        "to": "who received",
        "bytes": "size, bytes",
        "start_s": "when it was sent, s",
        "end_s": "when it had arrived, s",
    },
    "links": {
        **_WHOSE,
        "link": "name of the link",
        "bandwidth_bytes_per_s": "what it can carry, bytes/s",
        "moved_bytes": "what it carried in the whole run, the creation of the variables included, "
        "bytes",
        "utilization": "moved_bytes / (bandwidth x end_s), 0 to 1; before began_s too",
    },
}


def summary(
    modes: Sequence[str],
    ratios: Sequence[float],
    estimate: Callable[[str, str, float | None], Estimate],
) -> "DataFrame":
    """All estimates, of the program as it is written first."""
    from pandas import DataFrame

    rows = [
        (mode, ratio, metric, about.unit, *estimate(mode, metric, ratio)[:4], about.description)
        for ratio in (None, *ratios)
        for mode in modes
        for metric, about in METRICS.items()
    ]
    frame = DataFrame(rows, columns=list(COLUMNS["summary"]))
    return frame.astype({"reads_per_write": float})


def runs(runs: Iterable[tuple[str, float | None, ProgramTrace]], steps: int) -> "DataFrame":
    """Every run, of the program as it is written first; of each its mode and reads per write."""
    from pandas import DataFrame

    rows = [
        (
            mode,
            ratio,
            trace.replication,
            trace.began / NANOSECONDS,
            trace.end / NANOSECONDS,
            *(about.of(trace, steps) for about in METRICS.values()),
        )
        for mode, ratio, trace in runs
    ]
    frame = DataFrame(rows, columns=list(COLUMNS["runs"]))
    return frame.astype({"reads_per_write": float})


def acts(written: Written) -> "DataFrame":
    """Every act that is kept, in the order in which they ended."""
    return _frame("acts", act_rows(written))


def sent(written: Written) -> "DataFrame":
    """Every message that is kept, in the order in which they arrived."""
    return _frame("sent", sent_rows(written))


def act_rows(written: Written) -> Iterator[tuple[object, ...]]:
    """The rows of `acts`, their times in ns."""
    for mode, trace in written:
        for act in trace.acts:
            yield (
                mode,
                trace.replication,
                act.step,
                f"{act.part}.{act.number}",
                act.repetition,
                actor(act.replica),
                act.kind,
                act.variable,
                act.begin,
                act.end,
                "" if act.handed is None else exact(act.handed),
                "" if act.seen is None else exact(act.seen),
                " | ".join(map(exact, act.copies)),
                " ".join(map(str, act.moved)),
            )


def sent_rows(written: Written) -> Iterator[tuple[object, ...]]:
    """The rows of `sent`, their times in ns."""
    for mode, trace in written:
        for row in trace.sent:
            places = (place(row.source), place(row.target))
            numbers = (row.movement, row.round, row.what)
            yield (mode, trace.replication, *numbers, *places, row.size, row.start, row.end)


def links(written: Written) -> "DataFrame":
    """Every link of every run."""
    from pandas import DataFrame

    rows = [
        (
            mode,
            trace.replication,
            link.name,
            link.bandwidth,
            link.moved,
            utilization(link.moved, link.bandwidth, trace.end),
        )
        for mode, trace in written
        for link in trace.links
    ]
    return DataFrame(rows, columns=list(COLUMNS["links"]))


def actor(replica: int) -> str:
    """Who acted."""
    return "outside" if replica == CROSS_REPLICA else f"replica {replica}"


def place(device: Device) -> str:
    """Where bytes came from or went to."""
    if device.job == "ps":
        return f"ps {device.task}"
    return "outside" if device == DEFAULT_DEVICE else f"replica {device.task}"


def exact(glance: ValueSummary) -> str:
    """A value to be read back: `1.0 2.0`, or `1.0 1.0 1.0 ... mean 1.5`."""
    first = " ".join(map(repr, glance.first))
    return first if glance.whole else f"{first} ... mean {glance.mean!r}"


def _frame(name: str, rows: Iterable[tuple[object, ...]]) -> "DataFrame":
    """A table of rows whose times are in ns."""
    from pandas import DataFrame

    frame = DataFrame(list(rows), columns=list(COLUMNS[name]))
    for column in frame.columns:
        if column.endswith("_s"):
            frame[column] = frame[column] / NANOSECONDS
    return frame


class ProgramMetric(NamedTuple):
    """One number of a run of a program."""

    unit: str
    description: str
    of: Callable[[ProgramTrace, int], float]  # the trace and its number of steps


METRICS: Final = {
    "time_per_step": ProgramMetric(
        "s",
        "from the moment the variables are there to the end, divided by the steps",
        lambda trace, steps: (trace.end - trace.began) / 1e9 / steps,
    ),
    "bytes_per_step": ProgramMetric(
        "bytes",
        "bytes sent over the network once the variables are there, divided by the steps",
        lambda trace, steps: trace.moved / steps,
    ),
    "messages_per_step": ProgramMetric(
        "messages",
        "messages sent over the network once the variables are there, divided by the steps",
        lambda trace, steps: trace.messages / steps,
    ),
}
