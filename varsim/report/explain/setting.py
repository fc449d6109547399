"""What stands above the table: the machines, the variables, the program, and what a mode is."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import prod

import numpy as np

from varsim.distribute.program import (
    Action,
    MovingAverage,
    NormalElements,
    OnVariable,
    VariableDescription,
    Writing,
    WrittenValue,
)
from varsim.report.explain.look import Look, spellings
from varsim.report.explain.numbers import PLAIN, Spelling, number, per_cent, shortened
from varsim.report.words.phrases import joined
from varsim.scenario.variables import VariablesScenario
from varsim.study.program.rows import Row
from varsim.units import format_bytes, format_rate, format_seconds

_DOES = {
    "compute": "compute",
    "assign": "set {variable} to {value}",
    "assign_add": "add {value} to {variable}",
    "assign_sub": "subtract {value} from {variable}",
    "moving_average": "move {variable} {share} of the way to {value}",
    "read": "read {variable}",
    "save": "save a checkpoint",
    "restore": "restore it",
}


def setting(
    scenario: VariablesScenario, spelled: Mapping[str, Spelling] | None = None
) -> Iterator[tuple[str, str]]:
    """What the whole scenario is: pairs of a heading and a text.

    `spelled`: how the numbers of a variable are written.
    """
    spelled = spellings(scenario, ()) if spelled is None else spelled
    yield "machines", _machines(scenario)
    for one in scenario.variables:
        yield "variable", _variable(one, spelled[one.name])
    program, workers = scenario.program, scenario.cluster.workers
    if program.replicas:
        every = "every replica: " if workers > 1 else "the replica: "
        yield "each step", every + _doing(program.replicas, program.steps, spelled)
    if program.outside:
        then = "then " if program.replicas else ""
        done = ", when all replicas are done" if program.replicas and workers > 1 else ""
        yield (
            "" if program.replicas else "each step",
            f"{then}outside{done}: {_doing(program.outside, program.steps, spelled)}",
        )
    yield (
        "who",
        "all replicas, some by their numbers, or outside: the program that drives them, which "
        "runs on the machine of worker 0",
    )
    if workers > 1:
        yield "a | b | c", "one value for each replica, in the order of their numbers"


def about(
    there: Mapping[str, Look], rows: Sequence[Row], outside: Sequence[Action]
) -> Iterator[str]:
    """What the mode means for the variables: a paragraph for those of one sort.

    `outside`: what is done outside of the replicas.
    """
    sorts: dict[tuple[str, str, bool], list[Look]] = defaultdict(list)
    for look in there.values():
        aggregation = "" if look.home == "none" else look.aggregation
        sorts[look.home, aggregation, look.left_out].append(look)
    for looks in sorts.values():
        names = {look.name for look in looks}
        kinds = {action.kind for action in outside if names & set(action.on(there))}
        yield " ".join(_sort(looks, rows, kinds))
    arrays = [look for look in there.values() if look.description.shape]
    if flat := [look.name for look in arrays if look.uniform]:
        yield f"All elements of {joined(flat)} are equal at all times: one number stands for them."
    if rough := [look.name for look in arrays if not look.uniform]:
        yield f"Of {joined(rough)} the first elements are shown, and the average of all."


def _sort(looks: Sequence[Look], rows: Sequence[Row], kinds: set[str]) -> Iterator[str]:
    """Sentences about variables of one sort."""
    if looks[0].home == "none":
        return _server(looks, rows)
    if looks[0].replicas == 1:
        return _alone(looks)
    return _on_read(looks, kinds) if looks[0].home == "on_read" else _on_write(looks, rows, kinds)


def _on_read(looks: Sequence[Look], kinds: set[str]) -> Iterator[str]:
    look, names = looks[0], joined([one.name for one in looks])
    own, that = ("copies", "those") if len(looks) > 1 else ("copy", "that one")
    yield (
        f"Every replica has its own {own} of {names}; it writes and reads {that} alone, and waits "
        "for nobody."
    )
    reads = [kind for kind in ("read", "save") if kind in kinds]
    if reads and look.aggregation == "only_first_replica":
        yield "From outside, only the copy of replica 0 counts."
    elif reads:
        how = "added up" if look.aggregation == "sum" else "averaged"
        yield (
            f"From outside, the value is the {look.aggregation} of all copies: for every "
            f"{joined(reads)} they are sent to worker 0 and {how} there."
        )
    if "restore" in kinds and look.aggregation == "sum":
        cut = any(one.description.whole_numbers for one in looks)
        yield (
            f"What is restored is divided by the number of replicas, {look.replicas}"
            f"{', and cut to a whole number' if cut else ''}: the copies add up to "
            f"{'the same or less' if cut else 'it again'}."
        )


def _on_write(looks: Sequence[Look], rows: Sequence[Row], kinds: set[str]) -> Iterator[str]:
    look, names = looks[0], joined([one.name for one in looks])
    yield f"Every replica has a copy of {names}."
    if not look.merged:
        yield (
            "As nothing is to be aggregated, a replica writes only its own copy, and the copies "
            "drift apart."
        )
        if {"read", "save"} & kinds:
            yield "From outside, the copy of replica 0 counts, whatever the others hold."
        return
    what = {
        "sum": "what they hand over is added up, and every copy is written with the sum",
        "mean": "what they hand over is averaged, and every copy is written with the mean",
        "only_first_replica": "every copy is written with what replica 0 hands over",
    }[look.aggregation]
    yield f"At a write all replicas wait for each other; {what}."
    yield from _how(looks, rows)
    yield "So the copies stay equal; a read takes the one on its own machine, and sends nothing."
    if look.left_out:
        yield (
            f"Hierarchical copy adds an even number of parts: what replica {look.replicas - 1} "
            "hands over is lost, as in TensorFlow."
        )


def _how(looks: Sequence[Look], rows: Sequence[Row]) -> Iterator[str]:
    """How it is brought together, as the first write shows."""
    ints = [look.name for look in looks if look.description.dtype == "int32"]
    if ints and looks[0].aggregation != "only_first_replica":
        of = "" if len(ints) == len(looks) else f"Of {joined(ints)}: "
        yield f"{of}int32 always goes to one device, as in TensorFlow."
    names = {look.name for look in looks} - set(ints)
    first = next((row.sent for row in rows if row.together and row.variable in names), ())
    if not first or not first[0][0].what.startswith("ring"):
        return
    count = looks[0].replicas
    said = (
        f"That is a ring all-reduce: 2 ({count} - 1) = {len(first)} rounds, in which the workers "
    )
    said += "pass parts on to their neighbours"
    if all(len(some) == 1 for some in first):
        said += "; something as small as this is one part, so that only one of them sends at a time"
    yield f"{said}."


def _server(looks: Sequence[Look], rows: Sequence[Row]) -> Iterator[str]:
    """One copy on a parameter server."""
    for server, some in groupby(sorted(looks, key=lambda one: one.server), lambda one: one.server):
        names = [one.name for one in some]
        each = " each" if len(names) > 1 else ""
        yield f"One copy{each} of {joined(names)} is on parameter server ps {server}."
    yield (
        "All write and read it over the network, and nobody waits for anybody else: a write counts "
        "when it arrives, and a read sees what had arrived when it began."
    )
    used = [one for one in looks if one.aggregation != "none"]
    if used and looks[0].replicas > 1:
        yield (
            f"The aggregation of {joined([one.name for one in used])} is not used under none: "
            "every replica's write counts in full."
        )
    if any(_tied(row) for row in rows if row.variable in {one.name for one in looks}):
        yield (
            "What comes at the same moment is served by replica number; a read takes what its own "
            "server had done when it asked."
        )


def _tied(row: Row) -> bool:
    """Whether it matters who is served first: they read other values, or the last one stays."""
    if len({act.begin for act in row.acts}) == len(row.acts) or row.action is None:
        return False
    if row.action.kind == "read":
        return len({repr(act.seen) for act in row.acts}) > 1
    return row.action.kind == "assign" and len({repr(act.handed) for act in row.acts}) > 1


def _alone(looks: Sequence[Look]) -> Iterator[str]:
    """One replica."""
    names = joined([one.name for one in looks])
    yield f"There is one replica, and one copy of {names}: nothing has to be sent."


def _machines(scenario: VariablesScenario) -> str:
    network, workers = scenario.cluster.network, scenario.cluster.workers
    count = f"{workers} workers with one replica each" if workers > 1 else "1 worker, 1 replica"
    rate, delay = format_rate(network.worker_rate), format_seconds(network.delay)
    parts = [f"{count}; links of {rate} each way, latency {delay}"]
    if network.server_bandwidth is not None:
        parts.append(f"the links of servers {format_rate(network.server_rate)}")
    parts += [
        f"the link of worker {slow.rank} has 1/{slow.factor:g} of that"
        for slow in network.slow_links
    ]
    for slow in scenario.cluster.slow_workers:
        until = "" if slow.until is None else f" until {format_seconds(slow.until)}"
        when = f" from {format_seconds(slow.after)} on{until}" if slow.after or until else ""
        parts.append(f"worker {slow.rank} computes {slow.factor:g} times as long{when}")
    return "; ".join(parts)


def _variable(one: VariableDescription, spelling: Spelling) -> str:
    size = prod(one.shape)
    what = f"{size:,} x {one.dtype}" if one.shape else f"one {one.dtype}"
    own = f" ({one.synchronization} in every mode)" if one.synchronization else ""
    return (
        f"{one.name}{own}: {what} ({format_bytes(size * np.dtype(one.dtype).itemsize)}), starts as "
        f"{number(_held(one), spelling)}; aggregation {one.aggregation}"
    )


def _held(one: VariableDescription) -> float:
    """The first value, whole where the variable is."""
    return int(one.initial) if one.whole_numbers else one.initial


def _doing(actions: Sequence[Action], steps: int, spelled: Mapping[str, Spelling]) -> str:
    """What happens in a step, in its order."""
    return "; ".join(_does(action, steps, spelled) for action in actions)


def _does(action: Action, steps: int, spelled: Mapping[str, Spelling]) -> str:
    """What an action is, and how often."""
    blanks = {"variable": action.variable if isinstance(action, OnVariable) else ""}
    if isinstance(action, Writing):
        blanks["value"] = _given(action.value, spelled.get(action.variable, PLAIN))
    if isinstance(action, MovingAverage):
        blanks["share"] = per_cent(action.momentum)
    notes = [f"{action.times} times"] if action.times > 1 else []
    if action.every > 1:
        happens = list(range(action.every, steps + 1, action.every))
        last = ", ..." if len(happens) > 3 else ""
        shown = joined([str(step) for step in happens]) if not last else "{}, {}".format(*happens)
        notes.append(f"in step{'s' if len(happens) > 1 else ''} {shown}{last}")
    return _DOES[action.kind].format(**blanks) + (f" ({', '.join(notes)})" if notes else "")


def _given(given: WrittenValue, spelling: Spelling) -> str:
    if isinstance(given, NormalElements):
        return (
            f"numbers drawn around {number(given.mean, spelling)} (standard deviation "
            f"{number(given.standard_deviation, spelling)})"
        )
    if isinstance(given, tuple):
        return " | ".join(shortened([number(one, spelling) for one in given]))
    return number(given, spelling)
