"""The beginning of a scenario of variables, and how much all of it does: acts and messages.

How many messages an act sends is known from how a variable is synchronized; so what is too much
is told before anything is built.
"""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from varsim.cluster.program import run_program
from varsim.distribute.program import Action, MovingAverage, Program, VariableDescription, Writing
from varsim.distribute.program_run import Mode
from varsim.scenario.variables import VariablesScenario
from varsim.study.program.tables import METRICS

STEPS: Final = 20  # or more, where something happens less often
# Acts and messages of all modes together, about a quarter of a second; so many bytes of the values
# that are worked out in an act count as one more.
WORK: Final = 14_000
_BYTES: Final = 50_000
_ALIGNMENT: Final = 64  # bytes of which a ring's chunks are multiples


Part: TypeAlias = Literal["read", "write", "restore"]


class ProgramBeginning(NamedTuple):
    """What the first steps of a program showed under one mode; each of METRICS by its name.

    `steps`: how many there were; 0 where even one does more than there is room for. `beyond`:
    whether something happens for the first time only after them.
    """

    mode: str
    steps: int
    beyond: bool
    measured: Mapping[str, float]


def begin_program(scenario: VariablesScenario) -> list[ProgramBeginning]:
    """The first steps under every mode, in the first replication; what is over goes to the next."""
    found, left, modes = [], float(WORK), list(scenario.all_modes)
    longest = scenario.program.longest
    for index, (mode, label) in enumerate(zip(modes, scenario.labels, strict=True)):
        each = _acts(scenario, scenario.program, values=True)
        each += _messages(scenario, scenario.program, mode)
        room = int(left / (len(modes) - index) / each)
        steps = min(scenario.program.steps, max(STEPS, longest), room)
        if longest < steps < scenario.program.steps:
            steps -= steps % longest
        left -= each * steps
        measured = _measured(scenario, mode, steps) if steps else {}
        found.append(ProgramBeginning(label, steps, steps < longest, measured))
    return found


def expected_events(scenario: VariablesScenario) -> float:
    """About how much a run of the whole scenario has to do: reads, writes and messages."""
    programs = [scenario.program]
    if scenario.vary is not None:
        programs += map(scenario.with_reads_per_write, scenario.vary.reads_per_write)
    total = sum(
        (_acts(scenario, program) + _messages(scenario, program, mode)) * program.steps
        for program in programs
        for mode in scenario.all_modes
    )
    return total * scenario.replications


def size_of(variable: VariableDescription) -> int:
    """Bytes of one copy."""
    return prod(variable.shape) * np.dtype(variable.dtype).itemsize


def _measured(scenario: VariablesScenario, mode: Mode, steps: int) -> dict[str, float]:
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


def _acts(scenario: VariablesScenario, program: Program, values: bool = False) -> float:
    """Reads and writes in an average step; with `values`, what working them out takes besides."""
    sizes = {variable.name: size_of(variable) for variable in scenario.variables}
    found = 0.0
    for place, action in program.actions():
        often = _often(action, program) * _actors(scenario, place)
        found += often
        if values:
            found += often * sum(sizes.get(name, 0) for name in action.on(sizes)) / _BYTES
    return found


def _messages(scenario: VariablesScenario, program: Program, mode: Mode) -> float:
    """Messages in an average step."""
    there = {variable.name: variable for variable in scenario.variables}
    return sum(
        _often(action, program) * _sent(scenario, there[name], mode, part, inside)
        for place, action in program.actions()
        for inside in [place.startswith("replicas")]
        for name in action.on(there)
        if name in there
        for part in _parts(action)
    )


def _parts(action: Action) -> Iterator[Part]:
    """What an action is made of."""
    if isinstance(action, MovingAverage) or action.kind in ("read", "save"):
        yield "read"
    if isinstance(action, Writing):
        yield "write"
    if action.kind == "restore":
        yield "restore"


def _sent(
    scenario: VariablesScenario, variable: VariableDescription, mode: Mode, part: Part, inside: bool
) -> int:
    """Messages of one part of an action on a variable, by all replicas or from outside."""
    replicas, others = scenario.cluster.workers, scenario.cluster.workers - 1
    if mode == "none":
        return replicas if inside else 1
    first = variable.aggregation == "only_first_replica"
    if (variable.synchronization or mode) == "on_read":
        reading = 0 if first or part == "restore" else others
        return 0 if inside else reading + (0 if part == "read" else others)
    if part == "read" or (inside and variable.aggregation == "none"):
        return 0
    if first or not inside:
        return others
    if variable.dtype == "int32" or scenario.cross_device_ops == "reduction_to_one_device":
        return 2 * others
    if scenario.cross_device_ops == "ring":
        size = size_of(variable)
        chunk = min(size, (-(-size // replicas) // _ALIGNMENT + 1) * _ALIGNMENT)
        return 2 * others * -(-size // chunk)
    return 4 * (replicas // 2 - 1) + 2 + replicas % 2 if others else 0


def _actors(scenario: VariablesScenario, place: str) -> int:
    return scenario.cluster.workers if place.startswith("replicas") else 1


def _often(action: Action, program: Program) -> float:
    """How often an action is done in an average step."""
    return action.times * (program.steps // action.every) / program.steps
