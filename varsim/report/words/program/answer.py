"""The answer of a result of variables, in sentences to read out, and what else must be known."""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final

from varsim.distribute.program import NormalElements
from varsim.report.words.phrases import (
    Wording,
    capital,
    digits,
    joined,
    margin,
    plus_minus,
    quoted,
    time,
    told,
)
from varsim.report.words.program.table import longer, number, ranking_of, shown, size, step_time
from varsim.study.variables import Crossover
from varsim.study.verdict import WORSE

if TYPE_CHECKING:
    from varsim.study.variables import VariablesResult

_MOST_VARIABLES = 4  # whose values are told in a sentence


CHEAPEST: Final = Wording(
    "The cheapest is {name}: {value}",
    "Which is the cheapest",
    "step time",
    next="",
    by="",
    headline="; {name} takes {times} as long",
    equal="are equally cheap",
)


def answer(result: "VariablesResult") -> str:
    """Which mode is cheapest, from where on, and by how much; plain sentences, one per line."""
    sentences = [*_changes(result), _cheapest(result), _traffic(result), *_outside(result)]
    return "\n".join(sentence for sentence in sentences if sentence)


def notes(result: "VariablesResult") -> tuple[str, ...]:
    """Remarks that belong under the tables."""
    return tuple(_notes(result))


def _cheapest(result: "VariablesResult") -> str:
    """The mode with the shortest step, and how much longer the others take."""
    ranking = ranking_of(result)
    written = "As the program is written, " if result.ratios else ""
    if not ranking.rivals:
        return capital(f"{written}a step takes {_time(result, ranking.best)}.")
    text = told(ranking, CHEAPEST, quoted, lambda mode: f"{_time(result, mode)} per step")
    others = [f"'{rival.key}' {longer(result, ranking, rival)}" for rival in ranking.of(WORSE)]
    text = written + (text[0].lower() + text[1:] if written else text)
    return f"{text}; {joined(others)}." if others else f"{text}."


def _traffic(result: "VariablesResult") -> str:
    """What is sent in a step."""
    said: dict[str, list[str]] = {}
    for mode in result.modes:
        messages = result.estimate(mode, "messages_per_step")
        text = "nothing"
        if messages.mean:
            many = "message" if messages.mean == 1 else "messages"
            moved = size(result.estimate(mode, "bytes_per_step"))
            text = f"{moved} in {plus_minus(messages)} {many}"
        said.setdefault(text, []).append(mode)
    if len(result.modes) == 1:
        return f"It sends {next(iter(said))}."
    return f"A step sends {', '.join(f'{text} in {_and(who)}' for text, who in said.items())}."


def _outside(result: "VariablesResult") -> Iterator[str]:
    """What the outside saw last, mode by mode."""
    read = [
        variable.name
        for variable in result.scenario.variables
        if any(result.view(mode, variable.name).outside for mode in result.modes)
    ]
    told = read[:_MOST_VARIABLES]
    for name in told:
        said: dict[str, list[str]] = {}
        for mode in result.modes:
            seen = result.view(mode, name).outside
            said.setdefault("nothing" if seen is None else shown(seen), []).append(mode)
        if len(said) == 1:
            which = "" if len(result.modes) == 1 else " in every mode"
            yield f"When last read from outside, '{name}' was {next(iter(said))}{which}."
        else:
            each = ", ".join(f"{text} in {_and(modes)}" for text, modes in said.items())
            yield f"When last read from outside, '{name}' was {each}."


def _changes(result: "VariablesResult") -> Iterator[str]:
    """Where pairs of modes change places as the outside reads more often."""
    if not result.ratios:
        return
    lowest, highest = number(result.ratios[0]), number(result.ratios[-1])
    if len(result.modes) == 1:
        return
    crossing = {pair: result.crossovers_of(*pair) for pair in combinations(result.modes, 2)}
    for found in crossing.values():
        yield from map(crossover, found)
    between = f"between {lowest} and {highest} outside reads per write"
    if not any(crossing.values()):
        yield f"No two modes change places {between}."
    never: dict[str, list[str]] = {}
    for pair in (pair for pair, found in crossing.items() if not found):
        cheaper, dearer = sorted(pair, key=lambda mode: _sum(result, mode))
        if _sum(result, cheaper) == _sum(result, dearer):
            yield f"'{cheaper}' and '{dearer}' take the same time {between}."
        else:
            never.setdefault(dearer, []).append(cheaper)
    if never:
        said = [f"'{mode}' is never cheaper than {_and(than)}" for mode, than in never.items()]
        yield capital(f"{between} {joined(said)}.")


def crossover(found: Crossover) -> str:
    """From where on which of two modes is the cheaper one, in a sentence."""
    where = found.reads_per_write
    sure = ""
    if where.high > where.low:
        low, high = digits(where.low), digits(where.high)
        sure = f" (95 % interval {low} to {high})" if low != high else ""
    elif where.note:
        sure = f" (of the mean times; replications cross there {where.note})"
    return (
        f"Below {digits(where.mean)} outside reads per write{sure} '{found.first}' is cheaper, "
        f"above that '{found.second}'; at that ratio a step takes {time(found.time_per_step)} in "
        "both."
    )


def _notes(result: "VariablesResult") -> Iterator[str]:
    scenario = result.scenario
    if result.replications > 1:
        yield f"{margin(result.replications)}."
    elif scenario.times_are_random:
        yield "One replication: no intervals. More replications show how sure this is."
    draws = any(
        isinstance(getattr(action, "value", None), NormalElements)
        for _, action in scenario.program.actions()
    )
    if result.replications > 1 and draws:
        yield "Values are those of replication 0."
    if result.crossovers():
        yield "Between two ratios that were run, times are taken to lie on a straight line."
    if (
        scenario.cross_device_ops == "hierarchical_copy"
        and scenario.cluster.workers > 1
        and scenario.cluster.workers % 2
    ):
        last = scenario.cluster.workers - 1
        yield (
            f"hierarchical_copy leaves replica {last} out of every sum, as TensorFlow does when "
            "the number of replicas is odd."
        )
    yield from cut(result)


def cut(result: "VariablesResult") -> Iterator[str]:
    """Of which runs not every act or message is kept."""
    for name, pairs in (
        ("acts.csv", [(len(trace.acts), trace.all_acts) for _, trace in result.written]),
        ("sent.csv", [(len(trace.sent), trace.all_sent) for _, trace in result.written]),
    ):
        kept, all_of = (sum(column) for column in zip(*pairs, strict=True))
        if kept < all_of:
            yield (
                f"{name}: {kept:,} of {all_of:,} rows, the first ones of each run; every other "
                "number counts all of them."
            )


def _time(result: "VariablesResult", mode: str) -> str:
    return step_time(result.values(mode, "time_per_step"))


def _sum(result: "VariablesResult", mode: str) -> float:
    """All times of a mode over all ratios."""
    return math.fsum(
        time for ratio in result.ratios for time in result.values(mode, "time_per_step", ratio)
    )


def _and(modes: Sequence[str]) -> str:
    return joined([quoted(mode) for mode in modes])
