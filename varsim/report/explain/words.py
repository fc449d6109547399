"""What one row says: a sentence without its subject, which stands in front of it."""

from collections.abc import Mapping, Sequence
from typing import Final

from varsim.distribute.program import MovingAverage, NormalElements, Writing
from varsim.distribute.program_run import ValueSummary
from varsim.report.explain.look import Look
from varsim.report.explain.numbers import (
    added_up,
    beside,
    glance,
    listed,
    number,
    per_cent,
    ranks,
    reduced,
    sending,
    several,
    shared_out,
    time,
    total,
)
from varsim.study.program.rows import Row

_LONGEST_NAME: Final = 12

# What many do one by one; the blank is what they do it to.
_OTHERS: Final = {
    "read": "read {}",
    "assign": "set {}",
    "assign_add": "add to {}",
    "assign_sub": "subtract from {}",
    "moving_average": "move {}",
}


def who(row: Row, replicas: int) -> str:
    """The subject: `all`, `0`, `0, 2`, `outside`."""
    if row.outside:
        return "outside"
    text = ranks(row.actors, replicas)
    return text if len(text) <= _LONGEST_NAME else f"{len(row.actors)} replicas"


def sentence(row: Row, there: Mapping[str, Look]) -> str:
    """What happened."""
    if row.doing == "wait":
        times = _from_to([row.end - act.begin for act in row.acts])
        return f"{_verb(row, 'wait')} {times} for {several('replica', row.waits_for)}"
    if not row.variable:
        return _computing(row)
    look = there[row.variable]
    row = look.plain(row)
    if row.doing == "start":
        return _creating(row, look)
    name = f"{look.name}: " if len(there) > 1 else ""
    if row.doing == "again":
        return name + _again(row, look)
    if row.doing == "others":
        return _others(row, look) if look.home == "none" else name + _others(row, look)
    said = _outside(row, look) if row.outside else _in_replicas(row, look)
    return said if look.home == "none" else name + said


def sent(row: Row) -> str:
    """What was sent for it, if anything."""
    return total(row.sent) if row.doing in ("again", "others") else sending(row.sent)


def _verb(row: Row, many: str) -> str:
    """The form of a verb that goes with one or with several actors."""
    if len(row.actors) > 1:
        return many
    return f"{many}es" if many.endswith("o") else f"{many}s"


def _computing(row: Row) -> str:
    span = _from_to([act.end - act.begin for act in row.acts])
    often = f"{_repetitions(row)} times more, " if row.doing == "again" else ""
    each = " each time" if often else ""
    return f"{_verb(row, 'compute')} {often}for {span}{each}"


def _from_to(times: Sequence[int]) -> str:
    """The shortest and the longest."""
    first, last = time(min(times)), time(max(times))
    return first if first == last else f"{first} to {last}"


def _creating(row: Row, look: Look) -> str:
    value = number(row.copies[0].first[0], look.spelling)
    if look.home == "none":
        return f"creates {look.name} on ps {look.server}: {value}"
    if look.replicas == 1:
        return f"creates {look.name} on replica 0: {value}"
    return f"creates {look.name} on replica 0 and copies it to the others: {value} everywhere"


def _again(row: Row, look: Look) -> str:
    """All repetitions but the first."""
    said = f"the same {_repetitions(row)} times more"
    if isinstance(row.action, Writing) and isinstance(row.action.value, NormalElements):
        return f"{said}, with newly drawn numbers"
    seen = [act.seen for act in row.acts if act.seen is not None]
    if seen and row.outside:
        return f"{said}, at last {glance(seen[-1], look.spelling)}"
    return said


def _others(row: Row, look: Look) -> str:
    """What is left of many replicas that each did the same at another moment."""
    own = f"{look.name} on ps {look.server}" if look.home == "none" else "their own copies"
    return f"{_OTHERS[_kind(row)].format(own)}, one by one"


def _repetitions(row: Row) -> int:
    return len({act.repetition for act in row.acts})


# Replicas


def _in_replicas(row: Row, look: Look) -> str:
    if look.home == "none":
        return _on_server(row, look)
    if look.merged and isinstance(row.action, Writing):
        return _merged(row, look)
    return _alone(row, look)


def _alone(row: Row, look: Look) -> str:
    """On the own copy, at once."""
    comma = ", each" if len(row.actors) > 1 else ""
    own = "their own copies" if len(row.actors) > 1 else "its own copy"
    kind, given = _kind(row), _handed(row, look)
    if kind == "read":
        return f"{_verb(row, 'read')} {_seen(row, look)}{comma} from its own copy"
    if kind == "assign":
        return f"{_verb(row, 'set')} {own} to {given}"
    if kind == "assign_add":
        return f"{_verb(row, 'add')} {given}{comma} to its own copy"
    if kind == "assign_sub":
        return f"{_verb(row, 'subtract')} {given}{comma} from its own copy"
    return f"{_verb(row, 'move')} {own} {_share(row)} of the way to {given}"


def _merged(row: Row, look: Look) -> str:
    """All together; what comes of it is written to every copy."""
    kind, handed = _kind(row), _values(row)
    given = f"{_handed(row, look)}{' each' if len(set(map(glance, handed))) == 1 else ''}"
    but = f" (hierarchical copy leaves replica {len(handed) - 1} out)" if look.left_out else ""
    if kind == "moving_average":
        return f"bring {given}; {_moved(row, look, handed)}"
    if look.aggregation == "only_first_replica":
        what = f"the {glance(handed[0], look.spelling)} of replica 0"
    else:
        written = _written(row, look, handed)
        some, count = handed[:-1] if look.left_out else handed, len(handed)
        count = count if look.aggregation == "mean" else 1
        how = added_up(written, some, count, look.spelling)
        what = f"their {look.aggregation} {glance(written, look.spelling)}{how}{but}"
    end = {
        "assign": f"every copy is set to {what}",
        "assign_add": f"{what} is added to every copy",
        "assign_sub": f"{what} is subtracted from every copy",
    }
    return f"hand over {given}; {end[kind]}"


def _moved(row: Row, look: Look, handed: Sequence[ValueSummary]) -> str:
    """What a merged moving average does."""
    if look.aggregation == "only_first_replica":
        goal = glance(handed[0], look.spelling)
        return f"every copy moves {_share(row)} of the way to the {goal} of replica 0"
    if look.aggregation == "mean" and not look.left_out:
        mean = _mean(handed)
        how = added_up(mean, handed, len(handed), look.spelling)
        goal = f"{glance(mean, look.spelling)}{how}"
        return f"every copy moves {_share(row)} of the way to their mean {goal}"
    but = f" (without replica {len(handed) - 1})" if look.left_out else ""
    divided = f", divided by {len(handed)}" if look.aggregation == "mean" else ""
    span = f"from {glance(row.old[0], look.spelling)} to {glance(row.copies[0], look.spelling)}"
    return f"every copy moves by the sum of {_share(row)} of the way to each{but}{divided}: {span}"


def _mean(values: Sequence[ValueSummary]) -> ValueSummary:
    columns = zip(*(one.first for one in values), strict=True)
    first = tuple(sum(column) / len(values) for column in columns)
    return ValueSummary(values[0].shape, first, sum(one.mean for one in values) / len(values))


def _written(row: Row, look: Look, handed: Sequence[ValueSummary]) -> ValueSummary:
    """What every copy was written with: what they hold now, or what was added to them."""
    new, old = row.copies[0], row.old[0]
    if _kind(row) == "assign":
        return new
    sign, count = _sign(row), len(handed) if look.aggregation == "mean" else 1
    some = handed[:-1] if look.left_out else handed
    return reduced(some, count, old, new, sign, look.description.dtype)


def _sign(row: Row) -> int:
    return -1 if _kind(row) == "assign_sub" else 1


def _on_server(row: Row, look: Look) -> str:
    """On the one copy there is, in the order of arrival."""
    kind, given, there = _kind(row), _handed(row, look), f"{look.name} on ps {look.server}"
    if kind == "read":
        unlike = len({glance(one) for one in _values(row)}) > 1
        order = ", each what had arrived when it asked" if unlike else ""
        return f"{_verb(row, 'read')} {there}: {_seen(row, look)}{order}"
    if kind == "assign":
        said = f"{_verb(row, 'set')} {there} to {given}"
    elif kind == "assign_add":
        said = f"{_verb(row, 'add')} {given} to {there}"
    elif kind == "assign_sub":
        said = f"{_verb(row, 'subtract')} {given} from {there}"
    else:
        back = f"{_verb(row, 'send')} back what moves it {_share(row)} of the way to {given}"
        said = f"{_verb(row, 'read')} {there} and {back}"
    if len(row.acts) == 1:
        return said
    arrived = [act.replica for act in row.acts]
    order = "" if arrived == sorted(arrived) else f" in the order {listed(arrived)}"
    held = listed([glance(act.copies[0], look.spelling) for act in row.acts])
    return f"{said}, one after the other{order}: it then holds {held}"


# Outside


def _outside(row: Row, look: Look) -> str:
    kind, given = _kind(row), _handed(row, look)
    if look.home == "none":
        if kind == "save":
            return f"saves {look.name} as it is on ps {look.server}: {_seen(row, look)}"
        if kind == "restore":
            return f"restores {look.name}: sends {_seen(row, look)} to ps {look.server}"
        return _on_server(row, look)
    if kind in ("read", "save"):
        return f"{_verb(row, kind)} {_got(row, look)}"
    if kind == "restore":
        return f"restores {_seen(row, look)}: {_spread(row, look, row.acts[0].seen)}"
    # Where a value is aggregated when it is read, a write from outside gives back what it made.
    back = (
        "; TensorFlow reads the new value back"
        if look.home == "on_read" and len(row.sent) > 1
        else ""
    )
    if kind == "assign":
        return f"assigns {given}: {_spread(row, look, row.acts[0].handed)}{back}"
    verb = "adds {} to" if kind == "assign_add" else "subtracts {} from"
    return f"{verb.format(given)} every copy{back}"


def _got(row: Row, look: Look) -> str:
    """What a read or a checkpoint takes, and what that is."""
    (seen,) = [act.seen for act in row.acts]
    assert seen is not None
    if look.home == "on_write" or look.replicas == 1:
        return f"{glance(seen, look.spelling)}, the copy of replica 0"
    if look.aggregation == "only_first_replica":
        return f"{glance(seen, look.spelling)}, the copy of replica 0"
    count = len(row.copies) if look.aggregation == "mean" else 1
    how = added_up(seen, row.copies, count, look.spelling)
    return f"{glance(seen, look.spelling)}{how}, the {look.aggregation} of all copies"


def _spread(row: Row, look: Look, value: ValueSummary | None) -> str:
    """What the copies become when the whole is set to a value."""
    assert value is not None
    part = row.copies[0]
    if look.home == "on_read" and look.aggregation == "sum" and look.replicas > 1:
        return f"every copy is set to {shared_out(value, look.replicas, part, look.spelling)}"
    return f"every copy is set to {glance(part, look.spelling)}"


# What was done


def _kind(row: Row) -> str:
    assert row.action is not None
    return row.action.kind


def _share(row: Row) -> str:
    assert isinstance(row.action, MovingAverage)
    return per_cent(row.action.momentum)


def _values(row: Row) -> list[ValueSummary]:
    """What each wrote or saw, by rank."""
    acts = sorted(row.acts, key=lambda act: act.replica)
    return [one for act in acts for one in (act.handed or act.seen,) if one is not None]


def _handed(row: Row, look: Look) -> str:
    return beside(_values(row), look.spelling) if isinstance(row.action, Writing) else ""


def _seen(row: Row, look: Look) -> str:
    return beside(_values(row), look.spelling)
