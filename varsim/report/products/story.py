"""What happens to variables, step by step: the setting, then for each mode a table of its rows."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, pairwise
from math import prod
from typing import Any, Final

import numpy as np

from varsim.cluster.description.stragglers import Straggler
from varsim.core.units import format_rate, format_seconds
from varsim.distribute.program import (
    Action,
    NormalElements,
    OnVariable,
    Program,
    VariableDescription,
    Writing,
    WrittenValue,
)
from varsim.distribute.program_run import MOST_COPIES
from varsim.report.notes import plain
from varsim.report.products.story_rows import (
    DOES,
    RowLook,
    beside,
    looks,
    number,
    of_arrays,
    sending,
    sentence,
    share_of,
    shortened,
    size,
    time,
    who,
)
from varsim.report.told import Column, Data, Note, Number, Report, Table, Value
from varsim.report.wording import listed, ranks
from varsim.scenario.variables import VariablesScenario
from varsim.scenario.writing import MADE_BY, provenance
from varsim.study.steps import StepRow, Story, Telling

_MOST_DECIMALS: Final = 3
_WIDE: Final = 18  # copies that take more have a line of their own
_UNITS: Final = ((10**9, "s"), (10**6, "ms"), (10**3, "us"), (1, "ns"))
_COLUMNS: Final = ("mode", "step", "begin_s", "end_s", "who", "what", "sent", "copies")
_DOES: Final = {
    **DOES,
    "compute": "compute",
    "read": "read {to}",
    "save": "save a checkpoint",
    "restore": "restore it",
}


def report(story: Story) -> Report:
    """What there is to tell of it."""
    scenario = story.scenario
    labels = dict(zip(scenario.all_modes, scenario.labels, strict=True))
    told = {labels[one.mode]: one for one in story}
    rows = [row for label, one in told.items() for row in _data(scenario, label, one)]
    tables = [_table(scenario, label, one) for label, one in told.items()]
    steps, every = story[0].steps, scenario.program.steps
    took = tuple(f"{time(_took(one))} in {label}" for label, one in told.items())
    done: dict[str, Value] = {"steps": steps, "of": every, "took": took}
    return Report(
        "story",
        scenario.name,
        (Note("steps-shown", done),),
        _summary(told, steps, every),
        tuple(_notes(story)),
        details=(_setting(scenario), *tables),
        always=1 + len(tables),
        provenance=provenance(scenario),
        families={one.label: one.traits.family for one in scenario.strategies},
        data=Data(_COLUMNS, rows),
        facts=partial(document, story, rows),
    )


def document(story: Story, rows: Sequence[tuple[object, ...]]) -> dict[str, Any]:
    """The rows as plain data."""
    return {
        "made_by": MADE_BY,
        "kind": "story",
        "name": story.scenario.name,
        "provenance": provenance(story.scenario),
        "headline": [plain(note) for note in story.report.headline],
        "notes": [plain(note) for note in story.report.notes],
        "rows": [dict(zip(_COLUMNS, row, strict=True)) for row in rows],
    }


def _data(
    scenario: VariablesScenario, label: str, told: Telling
) -> Iterator[tuple[str, int, float, float, str, str, str, str]]:
    """The rows of a mode; times in s."""
    there, replicas = looks(scenario, told.mode), scenario.cluster.workers
    for row in told.rows:
        of = replicas if len(row.copies) == MOST_COPIES else 0
        copies = beside(row.copies, of) if row.copies else ""
        texts = (who(row, replicas), sentence(row, there), sending(row), copies)
        yield (label, row.step, row.begin / 1e9, row.end / 1e9, *texts)


def _summary(told: Mapping[str, Telling], steps: int, every: int) -> Table:
    """What the steps that are shown took and sent, a row per mode; its corner says which."""
    times, sizes, counts = [], [], []
    for one in told.values():
        rows = [row for row in one.rows if row.step]
        sent = [each.size for row in rows for some in row.sent for each in some]
        times.append(Number(_took(one) / 1e9 / one.steps, unit="s"))
        sizes.append(Number(sum(sent) / one.steps, unit="B"))
        counts.append(Number(len(sent) / one.steps))
    columns = (
        Column("time_per_step", "a step", tuple(times)),
        Column("bytes_per_step", "sent a step", tuple(sizes)),
        Column("messages_per_step", "messages a step", tuple(counts)),
    )
    which = "mode, step 1" if steps == 1 else f"mode, steps 1 to {steps}"
    return Table(tuple(told), columns, corner="mode" if steps == every else which)


def _took(told: Telling) -> int:
    """How long the steps that are shown take, ns."""
    return max((row.end for row in told.rows if row.step), default=told.began) - told.began


def _notes(story: Story) -> Iterator[Note]:
    """What there is beyond the tables, and how to read them."""
    scenario = story.scenario
    if scenario.cluster.workers > 1:
        yield Note("by-rank")
    yield Note("who-is-outside")
    yield from of_arrays([value for one in story for row in one.rows for value in row.copies])
    if scenario.replications > 1:
        yield Note("first-replication", {"of": scenario.replications})


# --- the rows of a mode -------------------------------------------------------------------------


def _table(scenario: VariablesScenario, label: str, told: Telling) -> Table:
    """All rows in the order of their ends, below what the mode means for the variables."""
    there = looks(scenario, told.mode)
    above = list(_about(there, told.rows, scenario.program))
    rows = list(_data(scenario, label, told))
    unit, times = _times(told.rows)
    before = [0, *(row.step for row in told.rows)]
    steps = [str(now) * (now != last) for last, now in pairwise(before)]
    said, copies = [row[5] for row in rows], [row[7] for row in rows]
    if wide := max(map(len, copies), default=0) > _WIDE:
        held = [f"\ncopies: {one}" if one else "" for one in copies]
        said = [f"{one}{more}" for one, more in zip(said, held, strict=True)]
    sent = [f"\nsent: {row[6]}" if row[6] else "" for row in rows]
    said = [f"{one}{more}" for one, more in zip(said, sent, strict=True)]
    columns = {"step": steps, "who": [row[4] for row in rows], "what happens": said}
    if not wide:
        columns["copies after"] = copies
    return Table(
        tuple(times),
        tuple(Column(key, key, tuple(own), prose=key != "step") for key, own in columns.items()),
        corner=f"{label}, {unit}",
        above=(f"{label}: {above[0]}", *above[1:]),
    )


def _times(rows: Sequence[StepRow]) -> tuple[str, list[str]]:
    """A unit, and when each row is in it, with as many decimals as tell all times apart."""
    every = [time for row in rows for time in (row.begin, row.end)]
    scale, unit = next((pair for pair in _UNITS if max(every) >= pair[0]), _UNITS[-1])
    texts: dict[int, str] = {}
    for decimals in range(_MOST_DECIMALS + 1):
        texts = {time: f"{time / scale:.{decimals}f}" for time in every}
        exact = all(time * 10**decimals % scale == 0 for time in every)
        if exact or (decimals and len(set(texts.values())) == len(texts)):
            break
    pairs = [(texts[row.begin], texts[row.end]) for row in rows]
    return unit, [end if begin == end else f"{begin} to {end}" for begin, end in pairs]


def _about(
    there: Mapping[str, RowLook], rows: Sequence[StepRow], program: Program
) -> Iterator[str]:
    """What the mode means for the variables: a paragraph for those of one sort."""

    def sort(look: RowLook) -> tuple[str, str, bool, int]:
        if look.home == "none":  # nothing is aggregated, however it would be
            return look.home, str(look.aggregation == "none"), False, look.server
        return look.home, look.aggregation, look.left_out, 0

    for _, some in groupby(sorted(there.values(), key=sort), sort):
        sorts = list(some)
        names = {look.name for look in sorts}
        kinds = {action.kind for action in program.outside if names & set(action.on(there))}
        yield " ".join(_sentences(sorts, rows, kinds))


def _sentences(some: Sequence[RowLook], rows: Sequence[StepRow], kinds: set[str]) -> Iterator[str]:
    look, names = some[0], listed([one.name for one in some])
    whole = any(one.bits for one in some)
    if look.home == "none":
        yield (
            f"One copy of {names} is on ps {look.server}. Replicas write and read it over the "
            "network without waiting for each other: a write counts when it arrives, a read sees "
            "the writes that arrived before it began; ties go to the lower replica number."
        )
        if look.aggregation != "none" and look.replicas > 1:
            yield "Nothing is aggregated: the write of every replica counts in full."
    elif look.replicas == 1:
        yield f"There is one replica, and one copy of {names}: nothing has to be sent."
    elif look.home == "on_read":
        yield (f"Every replica writes and reads its own copy of {names} and never waits.")
        if look.aggregation == "only_first_replica":
            yield "From outside, only the copy of replica 0 counts."
        elif {"read", "save"} & kinds:
            yield (
                f"From outside, the value is the {look.aggregation} of all copies: for every read "
                "and checkpoint they are sent to worker 0."
            )
        if "restore" in kinds and look.aggregation == "sum":
            cut = ", cut to a whole number" if whole else ""
            yield f"A restored value is divided by the number of replicas, {look.replicas}{cut}."
    elif not look.merged:
        yield (
            f"Every replica has a copy of {names}. Unaggregated, each replica writes only its "
            "own, and the copies drift apart; from outside, only the copy of replica 0 counts."
        )
    else:
        what = f"the {look.aggregation} of the values handed over"
        if look.aggregation == "only_first_replica":
            what = "the value of replica 0"
        yield (
            f"Every replica has a copy of {names}. At a write all wait for each other, and every "
            f"copy is written with {what}{_how(some, rows)}. So the copies stay equal; a read is "
            "local and sends nothing."
        )
        if look.left_out:
            yield (
                f"Hierarchical copy adds an even number of parts: what replica {look.replicas - 1} "
                "hands over is lost, as in TensorFlow."
            )


def _how(some: Sequence[RowLook], rows: Sequence[StepRow]) -> str:
    """How a ring brings it together, as the first write shows."""
    names = {look.name for look in some}
    first = next((row.sent for row in rows if row.together and row.variable in names), ())
    if not first or not first[0][0].what.startswith("ring"):
        return ""
    said = f" by a ring all-reduce in 2 ({some[0].replicas} - 1) = {len(first)} rounds"
    single = all(len(sent) == 1 for sent in first)
    return said + (", one worker at a time, as this is too small to be parted" if single else "")


# --- the setting --------------------------------------------------------------------------------


def _setting(scenario: VariablesScenario) -> Table:
    """What the whole scenario is: the machines, the variables, the program."""
    program, workers = scenario.program, scenario.cluster.workers
    entries = [("machines", _machines(scenario))]
    entries += [(f"variable {one.name}", _variable(one)) for one in scenario.variables]
    whose = "every replica: " if workers > 1 else "the replica: "
    for said, actions in ((whose, program.replicas), ("then outside: ", program.outside)):
        if actions:
            doing = "; ".join(_does(action, program.steps) for action in actions)
            entries.append(("each step", said + doing))
    names, texts = zip(*entries, strict=True)
    return Table(names, (Column("setting", "", texts, prose=True),), corner="setting")


def _machines(scenario: VariablesScenario) -> str:
    network, workers = scenario.cluster.network, scenario.cluster.workers
    count = f"{workers} workers with a replica each" if workers > 1 else "1 worker, 1 replica"
    rate, delay = format_rate(network.worker_rate), format_seconds(network.delay)
    parts = [f"{count}; links of {rate} each way, latency {delay}"]
    if network.server_bandwidth is not None:
        parts.append(f"links of servers {format_rate(network.server_rate)}")
    parts += [f"link of worker {one.rank}: 1/{one.factor:g} of that" for one in network.slow_links]
    alike: dict[Straggler, list[int]] = {}
    for one in scenario.cluster.stragglers:
        alike.setdefault(one._replace(rank=0), []).append(one.rank)
    for (_, factor, after, end), slow in alike.items():
        until = "" if end is None else f" until {format_seconds(end)}"
        when = f" from {format_seconds(after)} on{until}" if after or until else ""
        who = f"worker {slow[0]} computes" if len(slow) == 1 else f"workers {ranks(slow)} compute"
        parts.append(f"{who} {factor:g} times as long{when}")
    return "; ".join(parts)


def _variable(one: VariableDescription) -> str:
    count = prod(one.shape)
    what = f"{count:,} x {one.dtype}" if one.shape else f"one {one.dtype}"
    own = f", {one.synchronization} in every mode" if one.synchronization else ""
    held = size(count * np.dtype(one.dtype).itemsize)
    return f"{what} ({held}), starts as {number(one.initial)}; aggregation {one.aggregation}{own}"


def _does(action: Action, steps: int) -> str:
    """What an action is, and how often."""
    blanks = {
        "to": action.variable if isinstance(action, OnVariable) else "",
        "given": _given(action.value) if isinstance(action, Writing) else "",
        "share": share_of(action),
    }
    often = [f"{action.times} times"] if action.times > 1 else []
    if action.every > 1:
        first = [str(step) for step in range(action.every, steps + 1, action.every)[:3]]
        when = f"{first[0]}, {first[1]}, ..." if len(first) > 2 else " and ".join(first)
        often.append(f"in step{'s' * (len(first) > 1)} {when}")
    return _DOES[action.kind].format(**blanks) + (f" ({', '.join(often)})" if often else "")


def _given(given: WrittenValue) -> str:
    if isinstance(given, NormalElements):
        deviation = number(given.standard_deviation)
        return f"numbers around {number(given.mean)} (standard deviation {deviation})"
    if isinstance(given, tuple):
        return " | ".join(shortened([number(one) for one in given]))
    return number(given)
