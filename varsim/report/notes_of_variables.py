"""Coded sentences about programs of variables; `notes` has them with all others."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

Values: TypeAlias = Mapping[str, str]
Line: TypeAlias = str | Callable[[Values], str]


def _step(how: str, of: Values) -> str:
    """Which mode has the shortest step, or several that are not told apart."""
    written = " as written" if "written" in of else ""
    rate = of["rate"] if "rate" in of else f"{of['low']} to {of['high']}"
    lead = f"; {of['next']} takes {of['times']} times as long" if "next" in of else ""
    return f"{how}{written}: {of.get('tied', of.get('best'))}, {rate} a step{lead}."


def _fastest_over(of: Values) -> str:
    """Which modes are the fastest over reads per write."""
    head = "Fastest in one replication" if "once" in of else "Fastest"
    if "best2" not in of:
        return f"{head} from {of['least']} to {of['most']} outside reads per write: {of['best1']}."
    said = [f"{of['best1']} below {of['until1']} outside reads per write"]
    number = 2
    while f"best{number + 1}" in of:
        said.append(f"{of[f'best{number}']} from there to {of[f'until{number}']}")
        number += 1
    return f"{head}: {', '.join(said)}, {of[f'best{number}']} above."


def _told_steps(of: Values) -> str:
    """How long the steps that are told take in each mode."""
    steps, every = of["steps"], of["of"]
    one = steps == "1"
    who = f"The first of {every} steps" if one else f"The first {steps} of {every} steps"
    if steps == every:
        who = "The one step" if one else f"All {every} steps"
    more = "" if steps == every else f"; --steps {every} shows all"
    return f"{who} take{'s' * one} {of['took']}{more}."


SENTENCES: Final[dict[str, Line]] = {
    "step-fastest": partial(_step, "Fastest"),
    "step-tie": partial(_step, "Tied fastest"),
    "step-close": partial(_step, "Too close to call"),
    "step-alone": "{best}: {rate} a step.",
    "fastest-over": _fastest_over,
    "told-steps": _told_steps,
    "read-outside": "Last read from outside: {seen}.",
}

NOTES: Final[dict[str, Line]] = {
    "exact-steps": "Times are exact; values are drawn, other ones with another --seed.",
    "first-values": "Values are those of the first replication.",
    "others-cross": "{first} is faster than {second} below {where} outside reads per write.",
    "some-cross": (
        "{first} and {second} swap places at {where} outside reads per write in only {count} of "
        "{of} replications."
    ),
    "between-ratios": "Between the ratios that were run, times are interpolated linearly.",
    "odd-replica": (
        "hierarchical_copy leaves replica {last} out of every sum, as TensorFlow does with an odd "
        "number."
    ),
    "by-rank": "3 | 1 | 2: one value per replica, in order; replica 0 is on worker 0.",
    "who-is-outside": "Outside: the program that drives the replicas, on the machine of worker 0.",
    "first-replication": "This is the first of {of} replications.",
    "array-means": "[mean 2]: the mean of all elements of an array.",
    "equal-elements": "One number for an array: all its elements are equal.",
}
