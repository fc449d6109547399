"""The result of a scenario of variables: metrics, tables, and how its program begins."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np

from varsim.cluster.programs import ProgramTrace, run_program
from varsim.core.operation import DEFAULT_DEVICE, Device
from varsim.core.units import format_count
from varsim.distribute.program import Action, Program, VariableDescription
from varsim.distribute.program_run import CROSS_REPLICA, Mode, ValueSummary, VariableView
from varsim.scenario.fault import check_replication, known
from varsim.scenario.targets import EQUAL_WITHIN
from varsim.scenario.writing import provenance
from varsim.strategies import family
from varsim.study.gradients import NANOSECONDS
from varsim.study.metrics import Carried, carried, utilization
from varsim.study.shown import Shown
from varsim.study.simulation import check_jobs, mapped
from varsim.study.verdict import Estimate, Ranking, interval, ranked

if TYPE_CHECKING:
    from pandas import DataFrame

    from varsim.cluster.programs import ProgramTrace
    from varsim.distribute.program_run import Mode
    from varsim.scenario.variables import VariablesScenario


class Crossover(NamedTuple):
    """Where two modes take the same time per step."""

    first: str  # cheaper below
    second: str  # cheaper above
    reads_per_write: Estimate
    time_per_step: float  # s


class Crossing(NamedTuple):
    """Where two lines through points cross."""

    place: float
    height: float
    rises: bool  # whether the first line is the lower one before, the higher one after


def crossings(
    places: Sequence[float], first: Sequence[float], second: Sequence[float]
) -> list[Crossing]:
    """All crossings, on the straight lines between points; `places` rise.

    Lines that touch and part again do not cross; those that lie on one another for a while, and
    cross by that, do so where they meet first.
    """
    found = []
    last: tuple[float, float, float] | None = None  # the last point where they differed
    touching: tuple[float, float] | None = None  # the first point since then where they did not
    for place, one, other in zip(places, first, second, strict=True):
        gap = one - other
        if gap == 0:
            touching = touching or (place, one)
            continue
        if last is not None and last[2] * gap < 0:
            share = last[2] / (last[2] - gap)
            between = (last[0] + share * (place - last[0]), last[1] + share * (one - last[1]))
            found.append(Crossing(*(touching or between), rises=last[2] < 0))
        last, touching = (place, one, gap), None
    return found


@dataclass(frozen=True, repr=False, eq=False)
class VariablesResult(Shown):
    """Result of a scenario of variables; see COLUMNS for the tables.

    `traces`: first the program as it is written, mode by mode, each by replication; then the same
    for each entry of vary.reads_per_write, of which only the totals are kept.
    """

    product: ClassVar = "variables"

    scenario: "VariablesScenario"
    traces: list[ProgramTrace]

    def __post_init__(self) -> None:
        assert [(trace.mode, trace.replication) for trace in self.traces] == [
            (mode, number)
            for _ in (None, *self.ratios)
            for mode in self.scenario.all_modes
            for number in range(self.replications)
        ], "traces go point by point, mode by mode, each by replication from 0"

    @property
    def modes(self) -> tuple[str, ...]:
        """What was compared, in the order of the scenario."""
        return self.scenario.labels

    @property
    def families(self) -> Mapping[str, str]:
        """Of each mode the family of the strategy that is called so."""
        pairs = zip(self.modes, self.scenario.all_modes, strict=True)
        return {label: family(mode) for label, mode in pairs}

    @property
    def ratios(self) -> tuple[float, ...]:
        """The outside reads per write that were tried."""
        return self.scenario.vary.reads_per_write if self.scenario.vary is not None else ()

    @property
    def replications(self) -> int:
        """How often each mode was run."""
        return self.scenario.replications

    @cached_property
    def provenance(self) -> dict[str, str | int]:
        """Enough to know whether two results may be compared."""
        return provenance(self.scenario)

    @property
    def written(self) -> list[tuple[str, ProgramTrace]]:
        """The runs of the program as it is written, each with the label of its mode."""
        labels = [mode for mode in self.modes for _ in range(self.replications)]
        return list(zip(labels, self.traces, strict=False))

    def trace(self, mode: str, replication: int = 0) -> ProgramTrace:
        """One run of the program as it is written."""
        check_replication(replication, self.replications)
        return self._traces(mode, None)[replication]

    def view(self, mode: str, variable: str) -> VariableView:
        """What could be seen of a variable at the end of replication 0."""
        return next(view for view in self.trace(mode).views if view.variable == variable)

    def estimate(self, mode: str, metric: str, ratio: float | None = None) -> Estimate:
        """One metric of one mode over the replications; at a ratio, or as written."""
        return interval(self.values(mode, metric, ratio))

    def values(self, mode: str, metric: str, ratio: float | None = None) -> list[float]:
        """One metric of one mode, a value per replication."""
        steps = self.scenario.program.steps
        return [METRICS[metric].of(trace, steps) for trace in self._traces(mode, ratio)]

    def crossovers(self) -> list[Crossover]:
        """Every ratio where two modes change places, each on the straight line between two points.

        Between two points the times are taken as straight lines, which they are where the outside
        reads one after the other. With several replications: of the mean times, with the interval
        of the replications' own crossovers if each has as many.
        """
        pairs = combinations(self.modes, 2)
        return [found for pair in pairs for found in self.crossovers_of(*pair)]

    def crossovers_of(self, mode: str, other: str) -> list[Crossover]:
        """Every ratio where these two modes change places."""
        first, second = (
            [self.values(one, "time_per_step", at) for at in self.ratios] for one in (mode, other)
        )
        means = crossings(
            self.ratios, *([_mean(times) for times in one] for one in (first, second))
        )
        own = [
            crossings(self.ratios, *([times[number] for times in one] for one in (first, second)))
            for number in range(self.replications)
        ]
        found = []
        for index, (ratio, time, rises) in enumerate(means):
            alike = [one[index].place for one in own if len(one) == len(means)]
            if len(alike) == len(own):
                spread = interval(alike)._replace(mean=ratio)
            else:
                note = f"in {len(alike)} of {len(own)} replications"
                spread = Estimate(ratio, math.nan, math.nan, len(alike), note)
            cheaper, dearer = (mode, other) if rises else (other, mode)
            found.append(Crossover(cheaper, dearer, spread, time))
        return found

    def ranking(self, metric: str, *, highest: bool = False) -> Ranking[str] | None:
        """The modes by one metric of the program as it is written."""
        known("metric", metric, METRICS)
        values = {mode: self.values(mode, metric) for mode in self.modes}
        return ranked(values, equal_within=EQUAL_WITHIN, highest=highest)

    def frame(self) -> "DataFrame":
        """The summary."""
        return self.summary

    @cached_property
    def summary(self) -> "DataFrame":
        """One row per mode, number of reads per write and metric."""
        return summary(self.modes, self.ratios, self.estimate)

    @cached_property
    def runs(self) -> "DataFrame":
        """One row per run, one column per metric."""
        points = [(ratio, mode) for ratio in (None, *self.ratios) for mode in self.modes]
        labels = [point for point in points for _ in range(self.replications)]
        rows = [
            (mode, ratio, trace) for (ratio, mode), trace in zip(labels, self.traces, strict=True)
        ]
        return runs(rows, self.scenario.program.steps)

    @cached_property
    def acts(self) -> "DataFrame":
        """One row per act in the runs of the program as it is written."""
        return acts(self.written)

    @cached_property
    def sent(self) -> "DataFrame":
        """One row per message in the runs of the program as it is written."""
        return sent(self.written)

    @cached_property
    def links(self) -> "DataFrame":
        """One row per link in the runs of the program as it is written."""
        return links(self.written)

    @cached_property
    def carried(self) -> dict[str, dict[str, Carried]]:
        """By link, what it carried under every mode."""
        return carried((mode, trace.end, trace.links) for mode, trace in self.written)

    def _traces(self, mode: str, ratio: float | None) -> list[ProgramTrace]:
        point = 0 if ratio is None else 1 + self.ratios.index(ratio)
        start = (point * len(self.modes) + self.modes.index(mode)) * self.replications
        return self.traces[start : start + self.replications]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


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
# More messages than these, somebody has to want (--yes); some ten thousand a second.
MOST_EVENTS: Final = 1e8
STEPS: Final = 20  # or more, where something happens less often
# Acts and messages of all modes together, about a quarter of a second; so many bytes of the values
# that are worked out in an act count as one more.
WORK: Final = 14_000
_BYTES: Final = 50_000
_MESSAGES: Final = 3  # of a replica, for a write that all merge; a ring takes more


class ProgramBeginning(NamedTuple):
    """What the first steps of a program showed under one mode; each of METRICS by its name.

    `steps`: how many there were; 0 where even one does more than there is room for. `beyond`:
    whether something happens for the first time only after them.
    """

    mode: str
    steps: int
    beyond: bool
    measured: Mapping[str, float]


def begin_program(scenario: "VariablesScenario") -> list[ProgramBeginning]:
    """The first steps under every mode, in the first replication; what is over goes to the next."""
    left, modes, longest = float(WORK), list(scenario.all_modes), scenario.program.longest
    acts, values = _acts(scenario, scenario.program), _values(scenario)
    costs = [_messages(scenario, mode) * acts + _MESSAGES * values for mode in modes]
    found: dict[int, ProgramBeginning] = {}
    # The cheapest first: what they leave goes to those that need it.
    for index in sorted(range(len(modes)), key=costs.__getitem__):
        mode, label, each = modes[index], scenario.labels[index], costs[index]
        room = int(left / (len(modes) - len(found)) / each)
        steps = min(scenario.program.steps, max(STEPS, longest), room)
        if longest < steps < scenario.program.steps:
            steps -= steps % longest
        left -= each * steps
        measured = _measured(scenario, mode, steps) if steps else {}
        found[index] = ProgramBeginning(label, steps, steps < longest, measured)
    return [found[index] for index in range(len(modes))]


def events(scenario: "VariablesScenario") -> float:
    """About how many messages a run of the whole scenario sends, at most."""
    programs = [scenario.program]
    if scenario.vary is not None:
        programs += map(scenario.with_reads_per_write, scenario.vary.reads_per_write)
    total = sum(_acts(scenario, program) * program.steps for program in programs)
    return total * scenario.replications * sum(_messages(scenario, m) for m in scenario.all_modes)


def excess(scenario: "VariablesScenario") -> str:
    """Why so many reads, writes and messages are too much to be meant; or nothing."""
    number = events(scenario)
    if number <= MOST_EVENTS:
        return ""
    return (
        f"about {format_count(number)} reads, writes and messages to simulate, which may take "
        "hours: lower program.steps, replications or cluster.workers, or give --yes"
    )


def size_of(variable: VariableDescription) -> int:
    """Bytes of one copy."""
    return prod(variable.shape) * np.dtype(variable.dtype).itemsize


def _measured(scenario: "VariablesScenario", mode: Mode, steps: int) -> dict[str, float]:
    trace = run_program(
        scenario.cluster,
        scenario.program.model_copy(update={"steps": steps}),
        scenario.variables,
        mode,
        seed=scenario.seed,
        replication=0,
        algorithm=scenario.cross_device_ops,
        most_acts=0,
        most_sent=0,
    )
    return {name: metric.of(trace, steps) for name, metric in METRICS.items()}


def _acts(scenario: "VariablesScenario", program: Program) -> float:
    """Reads and writes in an average step."""
    return sum(_often(act, program) * _actors(scenario, place) for place, act in program.actions())


def _values(scenario: "VariablesScenario") -> float:
    """What working out the values of an average step takes, in acts: however they are cut."""
    sizes = {variable.name: size_of(variable) for variable in scenario.variables}
    return sum(
        _often(action, scenario.program)
        * _actors(scenario, place)
        * sum(sizes.get(name, 0) for name in action.on(sizes))
        / _BYTES
        for place, action in scenario.program.actions()
    )


def _messages(scenario: "VariablesScenario", mode: Mode) -> int:
    """About how many messages an act of a replica takes, at most."""
    ring = mode == "on_write" and scenario.cross_device_ops == "ring"
    return 2 * scenario.cluster.workers if ring else _MESSAGES


def _actors(scenario: "VariablesScenario", place: str) -> int:
    return scenario.cluster.workers if place.startswith("replicas") else 1


def _often(action: Action, program: Program) -> float:
    """How often an action is done in an average step."""
    return action.times * (program.steps // action.every) / program.steps


# What is kept of all runs of the program of a scenario of variables, at most about 100 MB of text:
# acts, the copies that are looked at in them, and messages.
MOST_ACTS, MOST_GLANCES, MOST_SENT = 200_000, 800_000, 300_000


class ProgramPoint(NamedTuple):
    """One program under one mode in one replication of a scenario of variables.

    `reads_per_write` None: the program as it is written.
    """

    scenario: "VariablesScenario"
    reads_per_write: float | None
    mode: "Mode"
    replication: int


def simulate_variables(
    scenario: "VariablesScenario", jobs: int = 1, progress: Callable[[int, int], None] | None = None
) -> "VariablesResult":
    """Run a scenario of kind variables under each of its modes; otherwise as `simulate`."""
    from varsim.scenario.variables import VariablesScenario

    if not isinstance(scenario, VariablesScenario):
        raise TypeError("simulate_variables takes a scenario of kind variables; see simulate")
    check_jobs(jobs)

    ratios = scenario.vary.reads_per_write if scenario.vary is not None else ()
    points = [
        ProgramPoint(scenario, ratio, mode, replication)
        for ratio in (None, *ratios)
        for mode in scenario.all_modes
        for replication in range(scenario.replications)
    ]
    traces = []
    for trace in mapped(run_point, points, min(jobs, len(points))):
        traces.append(trace)
        if progress is not None:
            progress(len(traces), len(points))
    return VariablesResult(scenario, traces)


def run_point(point: ProgramPoint) -> "ProgramTrace":
    """One run of a program, from start to end; where it is varied, without its rows."""
    from varsim.cluster.programs import run_program
    from varsim.distribute.program_run import MOST_COPIES

    scenario, ratio, mode, replication = point
    runs = len(scenario.all_modes) * scenario.replications
    copies = min(scenario.cluster.workers, MOST_COPIES)
    most_acts = max(1, min(MOST_ACTS, MOST_GLANCES // copies) // runs)
    trace = run_program(
        scenario.cluster,
        scenario.program if ratio is None else scenario.with_reads_per_write(ratio),
        scenario.variables,
        mode,
        seed=scenario.seed,
        replication=replication,
        algorithm=scenario.cross_device_ops,
        most_acts=most_acts if ratio is None else 0,
        most_sent=max(1, MOST_SENT // runs) if ratio is None else 0,
    )
    return trace if ratio is None else trace.totals()
