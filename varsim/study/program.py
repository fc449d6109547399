"""What programs of variables have beside ordinary runs: acts, messages, and how they begin."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from varsim.cluster.programs import ProgramTrace
from varsim.cluster.record.trace import Trace
from varsim.core.operation import DEFAULT_DEVICE, DeviceId
from varsim.core.units import format_count
from varsim.distribute.program_run import CROSS_REPLICA, Mode, ValueSummary
from varsim.study.gradients import NANOSECONDS, window
from varsim.study.metrics import measure_program, worker_time
from varsim.study.tables import OF_ACTS

if TYPE_CHECKING:
    from pandas import DataFrame

    from varsim.scenario.variables import VariablesScenario


def of_program(trace: Trace) -> ProgramTrace:
    """A trace of a program, with what it has beside others."""
    assert isinstance(trace, ProgramTrace), "programs have traces of their own"
    return trace


def act_rows(traces: Iterable[ProgramTrace]) -> Iterator[tuple[object, ...]]:
    """The rows of acts.csv in the order in which acts ended, their times in ns."""
    for trace in traces:
        for act in trace.acts:
            yield (
                trace.strategy,
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


def sent_rows(traces: Iterable[ProgramTrace]) -> Iterator[tuple[object, ...]]:
    """The rows of sent.csv in the order in which messages arrived, their times in ns."""
    for trace in traces:
        for row in trace.sent_rows:
            places = (place(row.source), place(row.target))
            numbers = (row.movement, row.round, row.what)
            whose = (trace.strategy, trace.replication)
            yield (*whose, *numbers, *places, row.size, row.start, row.end)


def frame(name: str, rows: Iterable[tuple[object, ...]]) -> "DataFrame":
    """One of the tables of OF_ACTS, with times in s, from its rows."""
    from pandas import DataFrame

    found = DataFrame(list(rows), columns=list(OF_ACTS[name]))
    times = [column for column in found.columns if column.endswith("_s")]
    found[times] = found[times] / NANOSECONDS
    return found


def actor(replica: int) -> str:
    """Who acted."""
    return "outside" if replica == CROSS_REPLICA else f"replica {replica}"


def place(device: DeviceId) -> str:
    """Where bytes came from or went to."""
    if device.job == "ps":
        return f"ps {device.task}"
    return "outside" if device == DEFAULT_DEVICE else f"replica {device.task}"


def exact(glance: ValueSummary) -> str:
    """A value to be read back: `1.0 2.0`, or `1.0 1.0 1.0 ... mean 1.5`."""
    first = " ".join(map(repr, glance.first))
    return first if glance.whole else f"{first} ... mean {glance.mean!r}"


# More messages than these, somebody has to want (--yes); some ten thousand a second.
MOST_EVENTS: Final = 1e8
STEPS: Final = 20  # or more, where something happens less often
# Acts and messages of all modes together, about a third of a second; so many bytes of the values
# that are worked out in an act count as one more.
WORK: Final = 18_000
_BYTES: Final = 50_000
_MESSAGES: Final = 3  # of a replica, for a write that all merge; a ring takes more


class ProgramBeginning(NamedTuple):
    """What the first steps of a program showed under one mode; each metric by its name.

    `steps`: how many there were; 0 where even one does more than there is room for. `beyond`:
    whether something happens for the first time only after them.
    """

    mode: str
    steps: int
    beyond: bool
    measured: Mapping[str, float]


def begin_program(scenario: "VariablesScenario") -> list[ProgramBeginning]:
    """The first steps under every mode, in the first replication."""
    program, found = scenario.program, []
    for index, mode in enumerate(scenario.all_modes):
        room = int(WORK / len(scenario.all_modes) * program.steps / _work(scenario, mode))
        steps = min(program.steps, max(STEPS, program.longest), room)
        if program.longest < steps < program.steps:
            steps -= steps % program.longest
        measured: dict[str, float] = {}
        if steps:
            trace = scenario.run_of(index, steps=steps)
            span = window(scenario, trace)
            measured = measure_program(trace, worker_time(trace, span), span)
        beyond = steps < program.longest
        found.append(ProgramBeginning(scenario.labels[index], steps, beyond, measured))
    return found


def excess(scenario: "VariablesScenario") -> str:
    """Why so many reads, writes and messages are too much to be meant; or nothing."""
    number = work(scenario)
    if number <= MOST_EVENTS:
        return ""
    return (
        f"about {format_count(number)} reads, writes and messages to simulate, which may take "
        "hours: lower program.steps, replications or cluster.workers, or give --yes"
    )


def work(scenario: "VariablesScenario") -> float:
    """About how many reads, writes and messages all runs of a scenario take, at most."""
    acts = scenario.acts(scenario.program.steps) * scenario.replications
    return float(acts * sum(_messages(scenario, mode) for mode in scenario.all_modes))


def _work(scenario: "VariablesScenario", mode: Mode) -> float:
    """What all steps take: acts, each with its messages, and the values worked out in them."""
    program = scenario.program
    sizes = {variable.name: variable.filled_size for variable in scenario.variables}
    values = sum(
        scenario.often(place, action, program.steps) * sum(sizes.get(one, 0) for one in on)
        for place, action in program.actions()
        for on in [action.on(sizes)]
    )
    messages = _messages(scenario, mode) * scenario.acts(program.steps)
    return messages + _MESSAGES * values / _BYTES


def _messages(scenario: "VariablesScenario", mode: Mode) -> int:
    """About how many messages an act of a replica takes, at most."""
    ring = mode == "on_write" and scenario.cross_device_ops == "ring"
    return 2 * scenario.cluster.workers if ring else _MESSAGES
