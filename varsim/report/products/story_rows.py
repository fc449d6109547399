"""What one row of a story says: a sentence without its subject, values, and what is sent."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Final, NamedTuple

from varsim.cluster.programs import Sent
from varsim.core.operation import DeviceId
from varsim.core.units import counted
from varsim.distribute.program import MovingAverage, NormalElements, Writing
from varsim.distribute.program_run import Mode, ValueSummary
from varsim.report.told import Note, Number
from varsim.report.wording import shown
from varsim.scenario.variables import VariablesScenario
from varsim.study.steps import StepRow, merges

_MOST_ROUTES: Final = 4
_MOST_TERMS: Final = 8  # of a sum that is written out
_LONGEST_NAME: Final = 12

# What is done to a variable or to copies of it; a moving average moves by a share.
DOES: Final = {
    "assign": "set {to} to {given}",
    "assign_add": "add {given} to {to}",
    "assign_sub": "subtract {given} from {to}",
    "moving_average": "move {to} {share} of the way to {given}",
}
# What a write in which all meet does with what they hand over.
_WRITES: Final = {
    "assign": "every copy is set to {what}",
    "assign_add": "{what} is added to every copy",
    "assign_sub": "{what} is subtracted from every copy",
    "moving_average": "every copy moves {share} of the way to {what}",
}


class RowLook(NamedTuple):
    """A variable under one mode.

    `home`: on_read (copies that are written alone), on_write (copies that a write brings together)
    or none (one copy, on `server`). `merged`: writes of several replicas are brought together.
    `left_out`: the last replica has no part in a reduction. `bits`: of whole numbers, or 0.
    """

    name: str
    aggregation: str
    bits: int
    home: Mode
    replicas: int
    server: int
    merged: bool
    left_out: bool

    @property
    def place(self) -> str:
        """The one copy that is on a server."""
        return f"{self.name} on ps {self.server}"


def looks(scenario: VariablesScenario, mode: Mode) -> dict[str, RowLook]:
    """All variables of a scenario, by name; servers take them in turn."""
    workers, servers = scenario.cluster.workers, scenario.cluster.parameter_servers
    odd = scenario.cross_device_ops == "hierarchical_copy" and workers % 2 == 1
    found = {}
    for index, one in enumerate(scenario.variables):
        merged = workers > 1 and merges(one, mode)
        # An int32 is always reduced to one device.
        left_out = odd and merged and one.dtype != "int32"
        left_out = left_out and one.aggregation != "only_first_replica"
        bits = int(one.dtype.removeprefix("int")) if one.whole_numbers else 0
        own = (one.name, one.aggregation, bits, one.synchronization or mode)
        found[one.name] = RowLook(*own, workers, index % servers, merged, left_out)
    return found


def who(row: StepRow, replicas: int) -> str:
    """The subject: `all`, `0`, `0, 2`, `outside`."""
    if row.outside:
        return "outside"
    said = "all" if len(row.actors) == replicas > 1 else ranges(row.actors)
    return said if len(said) <= _LONGEST_NAME else f"{len(row.actors)} replicas"


def sentence(row: StepRow, there: Mapping[str, RowLook]) -> str:
    """What happened."""
    many = len(row.actors) > 1
    if row.doing == "wait":
        waited = _from_to([row.end - act.begin for act in row.acts])
        last = f"replica{'s' * (len(row.waits_for) > 1)} {ranges(row.waits_for)}"
        return _verb(f"wait {waited} for {last}", many)
    again = counted(len({act.repetition for act in row.acts}), "time") + " more"
    if not row.variable:
        took = _from_to([act.end - act.begin for act in row.acts])
        more = f"{again}, {took} each" if row.doing == "again" else f"for {took}"
        return _verb(f"compute {more}", many)
    look = there[row.variable]
    if row.doing == "start":
        return _creating(row, look)
    said = f"{look.name}: " if len(there) > 1 and look.home != "none" else ""
    if row.doing == "again":
        return said + _again(row, again)
    if row.doing == "others":
        to = look.place if look.home == "none" else "their own copies"
        return said + f"do the same to {to}, one by one"
    if row.outside:
        return said + _outside(row, look)
    if look.home == "none":
        return said + _on_server(row, look)
    if look.merged and isinstance(row.action, Writing):
        return said + _merged(row, look)
    return said + _do(row, "their own copies" if many else "its own copy")


def _do(row: StepRow, to: str) -> str:
    given = beside(_values(row)).removesuffix(" each")
    said = DOES.get(_kind(row), "read {given} from {to}")
    blanks = {"to": to, "given": given, "share": share_of(row.action)}
    return _verb(said.format(**blanks), len(row.actors) > 1)


def _verb(said: str, many: bool) -> str:
    """A sentence with the form of its verb, the first word, that goes with one or with several."""
    verb, _, rest = said.partition(" ")
    return said if many else f"{verb}s {rest}"


def _from_to(times: Sequence[int]) -> str:
    first, last = time(min(times)), time(max(times))
    return first if first == last else f"{first} to {last}"


def _creating(row: StepRow, look: RowLook) -> str:
    value = number(row.copies[0].first[0])
    if look.home == "none":
        return f"creates {look.place}: {value}"
    others = " and copies it to the others" if look.replicas > 1 else ""
    return f"creates {look.name} on replica 0{others}: {value}{' everywhere' * bool(others)}"


def _again(row: StepRow, again: str) -> str:
    """All repetitions but the first."""
    said = f"the same {again}"
    if isinstance(row.action, Writing) and isinstance(row.action.value, NormalElements):
        return f"{said}, with newly drawn numbers"
    seen = [act.seen for act in row.acts if act.seen is not None]
    return f"{said}, at last {text(seen[-1])}" if seen and row.outside else said


# --- replicas -----------------------------------------------------------------------------------


def _merged(row: StepRow, look: RowLook) -> str:
    """All together; what comes of it is written to every copy."""
    kind, handed = _kind(row), _values(row)
    but = f" (hierarchical copy leaves replica {len(handed) - 1} out)" if look.left_out else ""
    if look.aggregation == "only_first_replica":
        what = f"the {text(handed[0])} of replica 0"
    elif kind == "moving_average" and (look.aggregation != "mean" or look.left_out):
        what = f"what each hands over{but}: from {text(row.old[0])} to {text(row.copies[0])}"
    else:
        parts, count = handed[: len(handed) - look.left_out], len(handed)
        total = _reduced(row, look, parts, count if look.aggregation == "mean" else 1)
        how = added_up(total, parts, count if look.aggregation == "mean" else 1)
        what = f"their {look.aggregation} {text(total)}{how}{but}"
    done = _WRITES[kind].format(what=what, share=share_of(row.action))
    return f"hand over {beside(handed)}; {done}"


def _reduced(
    row: StepRow, look: RowLook, parts: Sequence[ValueSummary], count: int
) -> ValueSummary:
    """What every copy was written with, of whole numbers as the copies show it."""
    kind, old, new = _kind(row), row.old[0], row.copies[0]
    if kind == "assign":
        return new
    if look.bits and kind != "moving_average":
        sign, half = -1 if kind == "assign_sub" else 1, 2 ** (look.bits - 1)
        gaps = [sign * (b - a) for a, b in zip(old.first, new.first, strict=True)]
        first = tuple((gap + half) % (2 * half) - half for gap in gaps)
        alike = flat(old) and flat(new)
        return ValueSummary(new.shape, first, first[0] if alike else sign * (new.mean - old.mean))
    columns = zip(*(one.first for one in parts), strict=True)
    first = tuple(sum(column) / count for column in columns)
    return ValueSummary(new.shape, first, sum(one.mean for one in parts) / count)


def _on_server(row: StepRow, look: RowLook) -> str:
    """On the one copy there is, in the order of arrival."""
    said = _do(row, look.place)
    values = {text(one) for one in _values(row)}
    if _kind(row) == "read":
        return said + (", each what had arrived when it asked" if len(values) > 1 else "")
    if len(row.acts) == 1:
        return said
    arrived = [act.replica for act in row.acts]
    order = "" if arrived == sorted(arrived) else f" in the order {_listed(arrived)}"
    held = _listed([text(act.copies[0]) for act in row.acts])
    return f"{said}, one after the other{order}: it then holds {held}"


# --- outside ------------------------------------------------------------------------------------


def _outside(row: StepRow, look: RowLook) -> str:
    kind, (act,) = _kind(row), row.acts
    value = text(act.seen or act.handed)
    if kind in ("read", "save"):
        if look.home == "none":
            return f"{kind}s {value} from {look.place}"
        return f"{kind}s {value}{_of_copies(act.seen or act.copies[0], row, look)}"
    if kind == "restore" and look.home == "none":
        return f"restores {value}: sends it to {look.place}"
    if look.home == "none":
        return _on_server(row, look)
    # Where a value is aggregated when it is read, a write from outside gives back what it made.
    reads = look.home == "on_read" and len(row.sent) > 1 and kind != "restore"
    back = "; TensorFlow reads the new value back" if reads else ""
    if kind in ("assign", "restore"):
        part, whole = row.copies[0], act.seen or act.handed
        share = text(part)
        if look.home == "on_read" and look.aggregation == "sum" and look.replicas > 1 and whole:
            share = _shared_out(whole, look.replicas, part)
        return f"{kind}s {value}: every copy is set to {share}{back}"
    return _do(row, "every copy") + back


def _of_copies(seen: ValueSummary, row: StepRow, look: RowLook) -> str:
    """What a read or a checkpoint from outside takes."""
    if look.home == "on_write" or look.replicas == 1 or look.aggregation == "only_first_replica":
        return ", the copy of replica 0"
    count = len(row.copies) if look.aggregation == "mean" else 1
    return f"{added_up(seen, row.copies, count)}, the {look.aggregation} of all copies"


def _shared_out(total: ValueSummary, count: int, part: ValueSummary) -> str:
    """`6 / 3 = 2`; where the division does not come out even, that it was cut or rounded."""
    if not (flat(total) and flat(part)):
        return f"1/{count} of it"
    whole, share = text(total), text(part)
    if not math.isfinite(total.first[0]) or Decimal(share) * count == Decimal(whole):
        return f"{whole} / {count} = {share}"
    cut = " cut to a whole number," if isinstance(part.first[0], int) else ", about"
    return f"{whole} / {count}{cut} {share}"


def added_up(total: ValueSummary, parts: Sequence[ValueSummary], divided_by: int = 1) -> str:
    """` = 3 + 1 + 2`, or ` = (3 + 1 + 2) / 3`, where that is true to the digit as it is printed."""
    if not 1 < len(parts) <= _MOST_TERMS or not all(map(flat, (total, *parts))):
        return ""
    if not all(math.isfinite(one.first[0]) for one in (total, *parts)):
        return ""
    whole, *terms = map(text, (total, *parts))
    if Decimal(whole) * divided_by != sum(map(Decimal, terms)):
        return ""
    added = " + ".join(f"({term})" if term.startswith("-") else term for term in terms)
    return f" = {added}" if divided_by == 1 else f" = ({added}) / {divided_by}"


# --- what is sent -------------------------------------------------------------------------------


def sending(row: StepRow) -> str:
    """What is sent, from where to where, and how long that takes; empty for nothing."""
    if not row.sent or row.doing in ("again", "others"):
        return total(row.sent)
    what = row.sent[0][0].what
    if what.startswith("ring"):
        return f"{what} in {len(row.sent)} rounds: {total(row.sent)}, {_took(row.sent)}"
    return "; then ".join(map(_round, row.sent))


def total(rounds: Sequence[Sequence[Sent]]) -> str:
    """How much is sent in all."""
    sizes = [one.size for sent in rounds for one in sent]
    return f"{counted(len(sizes), 'message')}, {size(sum(sizes))} in all" if sizes else ""


def size(count: float) -> str:
    """Bytes."""
    return shown(Number(float(count), unit="B"))


def time(nanoseconds: int) -> str:
    """A duration."""
    return shown(Number(nanoseconds / 1e9, unit="s"))


def _round(sent: Sequence[Sent]) -> str:
    routes = [f"{_places([one.source])} -> {_places([one.target])}" for one in sent]
    if len({one.target for one in sent}) == 1 or len({one.source for one in sent}) == 1:
        targets = _places([one.target for one in sent])
        routes = [f"{_places([one.source for one in sent])} -> {targets}"]
    if len({one.size for one in sent}) > 1 or len(routes) > _MOST_ROUTES:
        return f"{total([sent])}, {_took([sent])}"
    each = " each" * (len(sent) > 1)
    return f"{', '.join(routes)}: {size(sent[0].size)}{each}, {_took([sent])}"


def _places(devices: Sequence[DeviceId]) -> str:
    unique = sorted({(device.job, device.task) for device in devices})
    return ", ".join(
        f"{job}{'s' * (len(tasks) > 1)} {ranges(tasks)}"
        for job, some in groupby(unique, lambda pair: pair[0])
        if (tasks := [task for _, task in some])
    )


def _took(rounds: Sequence[Sequence[Sent]]) -> str:
    """From the first to leave to the last to arrive."""
    rows = [one for sent in rounds for one in sent]
    return time(max(one.end for one in rows) - min(one.start for one in rows))


# --- parts --------------------------------------------------------------------------------------


def ranges(ranks: Sequence[int]) -> str:
    """`0, 2 to 5` from rising numbers."""
    runs = [[one for _, one in some] for _, some in groupby(enumerate(ranks), _offset)]
    return ", ".join(shortened(list(_runs(runs))))


def _offset(pair: tuple[int, int]) -> int:
    return pair[1] - pair[0]


def _runs(runs: Sequence[Sequence[int]]) -> Iterator[str]:
    for run in runs:
        yield from [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)


def share_of(action: object) -> str:
    """How far a moving average moves: `10 %` for a momentum of 0.9."""
    if not isinstance(action, MovingAverage):
        return ""
    return f"{number(round(100 * (1 - action.momentum), 9))} %"


def _listed(words: Sequence[object]) -> str:
    return ", ".join(shortened(list(map(str, words))))


def _kind(row: StepRow) -> str:
    assert row.action is not None
    return row.action.kind


def _values(row: StepRow) -> list[ValueSummary]:
    """What each wrote or saw, by rank."""
    acts = sorted(row.acts, key=lambda act: act.replica)
    return [one for act in acts for one in (act.handed or act.seen,) if one is not None]


_MOST: Final = 8  # side by side; of more the first and the last are shown
_FEW: Final = 4  # elements of an array whose elements are shown
_WHOLE: Final = 1e15  # whole numbers below this are written in full
_FLAT: Final = 1e-6


def number(value: float, digits: int = 6) -> str:
    """So many digits, of a large number two decimals; whole numbers below 1e15 in full."""
    if isinstance(value, int) or (value == value // 1 and abs(value) < _WHOLE):
        return str(int(value))
    if 1 < abs(value) < _WHOLE:
        digits = max(digits, len(str(int(abs(value)))) + 2)
    said = f"{value:.{digits}g}"
    return f"{value:#.{digits}g}" if said.lstrip("-").isdecimal() else said


def flat(value: ValueSummary) -> bool:
    """Whether all elements are the same, as far as is known; of a scalar always."""
    first = value.first[0]
    same = all(one == first for one in value.first)
    return value.shape == () or (same and math.isclose(value.mean, first, rel_tol=_FLAT))


def text(value: ValueSummary | None) -> str:
    """`3`, for an array of equal elements, too; `[1, 2]`, or of a large array `[mean 1.5]`."""
    if value is None:
        return "-"
    if flat(value):
        return number(value.first[0])
    if large(value):
        return f"[mean {number(value.mean, 4)}]"
    return f"[{', '.join(number(one, 4) for one in value.first)}]"


def large(value: ValueSummary) -> bool:
    """Whether it is shown by its mean."""
    return not flat(value) and (not value.whole or len(value.first) > _FEW)


def beside(values: Sequence[ValueSummary | None], of: int = 0) -> str:
    """`3 | 1 | 2` in the order of ranks, `6 each`, or of large arrays their means.

    `of`: how many there are in all.
    """
    texts = list(map(text, values))
    more = f" (the first {len(values)} of {of:,})" if len(values) < of else ""
    if len(set(texts)) == 1:
        return (texts[0] if len(texts) == 1 or texts[0] == "-" else f"{texts[0]} each") + more
    if any(one is not None and large(one) for one in values):
        means = ["-" if one is None else number(one.mean, 4) for one in values]
        return f"[means {' | '.join(shortened(means))}]{more}"
    return " | ".join(shortened(texts)) + more


def shortened(texts: Sequence[str]) -> list[str]:
    """All of them; of many the first and the last."""
    return list(texts) if len(texts) <= _MOST else [*texts[: _MOST - 3], "...", texts[-1]]


def of_arrays(values: Iterable[ValueSummary | None]) -> Iterator[Note]:
    """How arrays among these are written."""
    arrays = [one for one in values if one is not None and one.shape]
    if any(map(flat, arrays)):
        yield Note("equal-elements")
    if any(map(large, arrays)):
        yield Note("array-means")
