"""What there is to know of a variable under one mode, before anything happens to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import isclose, isfinite
from typing import Final

from varsim.distribute.program import VariableDescription
from varsim.distribute.program_run import Mode, ValueSummary
from varsim.report.explain.numbers import PLAIN, Spelling, number
from varsim.scenario.variables import VariablesScenario
from varsim.study.program.rows import Copies, Row, merges

_FLAT: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Look:
    """A variable under one mode.

    `home`: on_read (copies that are written alone), on_write (copies that a write brings together)
    or none (one copy, on `server`). `left_out`: the last replica has no part in a reduction.
    `uniform`: at all times all elements were the same. `spelling`: how its numbers are written.
    """

    description: VariableDescription
    home: Mode
    replicas: int
    server: int
    left_out: bool
    uniform: bool
    spelling: Spelling

    @property
    def name(self) -> str:
        """What it is called."""
        return self.description.name

    @property
    def aggregation(self) -> str:
        """As it was described."""
        return self.description.aggregation

    @property
    def merged(self) -> bool:
        """Whether writes of several replicas are brought together."""
        return self.replicas > 1 and merges(self.description, self.home)

    def plain(self, row: Row) -> Row:
        """The row with numbers in the place of arrays whose elements are all the same."""
        if not self.uniform:
            return row
        acts = [
            act._replace(
                handed=None if act.handed is None else _number(act.handed),
                seen=None if act.seen is None else _number(act.seen),
                copies=_numbers(act.copies),
            )
            for act in row.acts
        ]
        return replace(row, acts=tuple(acts), old=_numbers(row.old), copies=_numbers(row.copies))


def spellings(scenario: VariablesScenario, rows: Sequence[Row]) -> Mapping[str, Spelling]:
    """How the numbers of each variable are written: with what tells before from after."""
    return {one.name: _spelling(one, rows) for one in scenario.variables}


def _spelling(description: VariableDescription, rows: Sequence[Row]) -> Spelling:
    """Four digits, or as many more as it takes."""
    single = description.dtype == "float32"
    spelling = Spelling(whole=1e9 if single else 1e16, single=single)
    if description.whole_numbers:
        return spelling
    changes = {
        pair
        for row in rows
        if row.variable == description.name and row.old
        for pair in zip(row.old, row.copies, strict=True)
        if pair[0] != pair[1]
    }
    most = 9 if single else 17
    while spelling.digits < most and not all(_told_apart(*pair, spelling) for pair in changes):
        spelling = spelling._replace(digits=spelling.digits + 1)
    if spelling.digits > PLAIN.digits:
        scalars = {one.first[0] for pair in changes for one in pair if one.shape == ()}
        while spelling.digits < most and any(_looks_whole(one, spelling) for one in scalars):
            spelling = spelling._replace(digits=spelling.digits + 1)
    return spelling


def _looks_whole(value: float, spelling: Spelling) -> bool:
    """Whether a number with a fraction is printed without one."""
    return isfinite(value) and value != int(value) and "." not in number(value, spelling)


def _told_apart(before: ValueSummary, after: ValueSummary, spelling: Spelling) -> bool:
    """Whether what is printed of them differs, or nothing of that is a number."""
    values = [*zip(before.first, after.first, strict=True), (before.mean, after.mean)]
    if before.shape == ():
        values = values[:1]
    changed = [pair for pair in values if pair[0] != pair[1] and all(map(isfinite, pair))]
    texts = [[Decimal(number(value, spelling)) for value in pair] for pair in changed]
    return not texts or any(before != after for before, after in texts)


def looks(
    scenario: VariablesScenario,
    mode: Mode,
    rows: Sequence[Row],
    spelled: Mapping[str, Spelling] | None = None,
) -> Mapping[str, Look]:
    """All variables of a scenario, by name; servers take them in turn.

    `spelled`: how numbers are written; without it as these rows need it.
    """
    spelled = spellings(scenario, rows) if spelled is None else spelled
    workers, servers = scenario.cluster.workers, scenario.cluster.parameter_servers
    odd = scenario.cross_device_ops == "hierarchical_copy" and workers % 2 == 1 and workers > 1
    return {
        one.name: Look(
            one,
            one.synchronization or mode,
            workers,
            index % servers,
            odd
            and merges(one, mode)
            and one.aggregation != "only_first_replica"
            and one.dtype != "int32",  # which is always reduced to one device
            bool(one.shape) and all(map(_flat, _glances(one.name, rows))),
            spelled[one.name],
        )
        for index, one in enumerate(scenario.variables)
    }


def _glances(name: str, rows: Sequence[Row]) -> Sequence[ValueSummary]:
    """All that was seen of a variable."""
    acts = [act for row in rows if row.variable == name for act in row.acts]
    seen = [one for act in acts for one in (act.handed, act.seen, *act.copies) if one is not None]
    return [*seen, *(one for row in rows if row.variable == name for one in row.copies)]


def _flat(value: ValueSummary) -> bool:
    """Do its elements look the same?"""
    first = value.first[0]
    return all(one == first for one in value.first) and isclose(value.mean, first, rel_tol=_FLAT)


def _numbers(copies: Copies) -> Copies:
    return tuple(map(_number, copies))


def _number(value: ValueSummary) -> ValueSummary:
    return ValueSummary((), value.first[:1], value.mean)
