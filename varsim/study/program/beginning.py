"""The beginning of a scenario of variables, and how many messages all of it sends."""

from collections.abc import Mapping
from math import prod
from typing import Final, NamedTuple

import numpy as np

from varsim.cluster.programs import run_program
from varsim.distribute.program import Action, Program, VariableDescription
from varsim.distribute.program_run import Mode
from varsim.scenario.variables import VariablesScenario
from varsim.study.program.tables import METRICS
from varsim.units import format_count

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


def begin_program(scenario: VariablesScenario) -> list[ProgramBeginning]:
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


def events(scenario: VariablesScenario) -> float:
    """About how many messages a run of the whole scenario sends, at most."""
    programs = [scenario.program]
    if scenario.vary is not None:
        programs += map(scenario.with_reads_per_write, scenario.vary.reads_per_write)
    total = sum(_acts(scenario, program) * program.steps for program in programs)
    return total * scenario.replications * sum(_messages(scenario, m) for m in scenario.all_modes)


def excess(scenario: VariablesScenario) -> str:
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


def _acts(scenario: VariablesScenario, program: Program) -> float:
    """Reads and writes in an average step."""
    return sum(_often(act, program) * _actors(scenario, place) for place, act in program.actions())


def _values(scenario: VariablesScenario) -> float:
    """What working out the values of an average step takes, in acts: however they are cut."""
    sizes = {variable.name: size_of(variable) for variable in scenario.variables}
    return sum(
        _often(action, scenario.program)
        * _actors(scenario, place)
        * sum(sizes.get(name, 0) for name in action.on(sizes))
        / _BYTES
        for place, action in scenario.program.actions()
    )


def _messages(scenario: VariablesScenario, mode: Mode) -> int:
    """About how many messages an act of a replica takes, at most."""
    ring = mode == "on_write" and scenario.cross_device_ops == "ring"
    return 2 * scenario.cluster.workers if ring else _MESSAGES


def _actors(scenario: VariablesScenario, place: str) -> int:
    return scenario.cluster.workers if place.startswith("replicas") else 1


def _often(action: Action, program: Program) -> float:
    """How often an action is done in an average step."""
    return action.times * (program.steps // action.every) / program.steps
