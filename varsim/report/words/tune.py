"""What the search for learning rates says, in sentences."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from varsim.report.words.caution import as_read, cautions
from varsim.report.words.names import heading, mention, title
from varsim.report.words.phrases import (
    Wording,
    capital,
    margin,
    plus_minus,
    ratio_cell,
    time,
    told,
)
from varsim.study.tune.search import Goal, Rates, Search, Trial, Tuned
from varsim.study.verdict import WORSE
from varsim.units import format_seconds

_LONGER: Final = 4  # times as long a run may show that a loss is reached


def answer(found: Rates) -> list[str]:
    """Which strategy does best, each at its best rate, and by how much."""
    return [_first(found), *_in_vain(found)]


def notes(found: Rates) -> list[str]:
    """What a reader must know besides: of what the numbers are, and how sure each rate is."""
    lines = []
    again = next((one for one in found.tuned if one.fresh is not None), None)
    if again is not None and again.fresh is not None:
        lines.append(
            f"{margin(again.fresh.replications, 'runs')} with fresh seeds "
            f"(seed {again.fresh.seed}): each rate was chosen on other runs "
            f"(seed {again.best.seed}), where it may have been lucky."
        )
    if any(one.ties for one in found.tuned):
        lines.append("As good: other rates that those runs cannot tell from the best.")
    return [*lines, *_edges(found), *_unread(found), *cautions(found.scenario)]


def verdict(found: Rates, one: Tuned) -> str:
    """How a strategy stands to the best one."""
    ranking, lowest = found.ranking, found.goal.loss is None
    if ranking is None or not ranking.rivals:
        return "-"
    if one.label == ranking.best:
        return "the lowest" if lowest else "the soonest"
    rival = next((rival for rival in ranking.rivals if rival.key == one.label), None)
    if rival is None:
        return "-"
    worse = "higher" if lowest else "later"
    told = worse if rival.said == WORSE else rival.said
    return told if rival.lead.note else f"{ratio_cell(rival.lead)}, {told}"


def measured(goal: Goal) -> str:
    """What is measured."""
    return f"loss at {time(goal.end)}" if goal.loss is None else f"time to loss {goal.loss:g}"


def amount(found: Rates, trial: Trial) -> str:
    """The goal's metric of a trial, with its interval, or how often it was reached."""
    if not trial.sound:
        return f"reached in {trial.reached} of {trial.replications}"
    return plus_minus(trial.found) if found.goal.loss is None else time(trial.found)


def _reaches(goal: Goal) -> str:
    if goal.loss is None:
        return f"has a finite loss at {time(goal.end)}"
    return f"reaches loss {goal.loss:g}"


def _first(found: Rates) -> str:
    ranking, goal, name = found.ranking, found.goal, partial(mention, found.scenario)

    def value(label: str) -> str:
        """`3.2 ± 0.4 s at learning rate 0.5`."""
        trial = found.fresh(label)
        return f"{amount(found, trial)} at learning rate {trial.rate:g}"

    if ranking is None:
        return f"No strategy {_reaches(goal)} in every fresh run, each at the best of its rates."
    each = "Each at its best learning rate" + (" of those tried" if at_an_edge(found) else "")
    if not ranking.rivals:
        alone = "" if len(found.tuned) == 1 else "; no other does in every fresh run"
        return f"{each}, {name(ranking.best)} {_reaches(goal)}: {value(ranking.best)}{alone}."
    wins, much = f"has the lowest {measured(goal)}", "as much"
    if goal.loss is not None:
        wins, much = f"{_reaches(goal)} soonest", "as long"
    wording = Wording(
        f"{each}, {{name}} {wins}: {{value}}",
        f"{each}, which {wins}",
        measured(goal),
        by=f", {{times}} {much}",
    )
    return told(ranking, wording, name, value) + "."


def _in_vain(found: Rates) -> Iterator[str]:
    """The strategies whose best rate does not reach the goal in every run."""
    for one in found.tuned:
        who = capital(mention(found.scenario, one.label))
        if one.fresh is None:
            why = one.best.failure.splitlines()[0]
            yield f"{who} fails at every rate that was tried: {why}"
        elif not one.fresh.sound:
            yield (
                f"{who} {_reaches(found.goal)} in {one.fresh.reached or 'none'} of "
                f"{one.fresh.replications} fresh runs at learning rate {one.best.rate:g}, the "
                f"best of {len(one.trials)}; it is left out of the comparison."
            )


def _unread(found: Rates) -> Iterator[str]:
    """That nobody need have read the first model that reached the target loss."""
    for strategy in found.scenario.strategies:
        if found.goal.loss is not None and strategy.round.of == "outer step":
            yield (
                f"{as_read(strategy)}; a model this good need not have been read then: varsim run "
                "says when one was."
            )


def at_an_edge(found: Rates) -> bool:
    """Whether some strategy did best at an end of what was tried."""
    return any(map(edge_of, found.tuned))


def _edges(found: Rates) -> Iterator[str]:
    """The strategies whose best rate may not be the best there is, and what to try next."""
    for one in found.tuned:
        if found.goal.loss is not None and not any(trial.reached for trial in one.trials):
            yield _unreached(found, one)
        elif end := edge_of(one):
            who = heading(found.scenario, one.label)
            rates = [float(f"{one.best.rate * by:.2g}") for by in end.next]
            yield (
                f"{who}: its best rate, {one.best.rate:g}, is the "
                f"{end.which} that was tried; {end.beyond} may do better: try --rates "
                f"{','.join(f'{rate:g}' for rate in rates)}."
            )


def _unreached(found: Rates, one: Tuned) -> str:
    """That the target loss was reached at no rate, and what there is to try."""
    strategy = found.scenario.strategy(one.label)
    stop = found.scenario.stop_of(strategy)
    typed = [
        f"--set 'stop.time={format_seconds(_LONGER * stop.time)}'" if stop.time else "",
        f"--set stop.global_steps={_LONGER * stop.global_steps}" if stop.global_steps else "",
        f"--set stop.examples={_LONGER * stop.examples}" if stop.examples else "",
    ]
    lows = [math.fsum(trial.losses) / len(trial.losses) for trial in one.trials if trial.losses]
    low = min(filter(math.isfinite, lows), default=math.nan)
    who = heading(found.scenario, one.label)
    return (
        f"{who}: {_reaches(found.goal)} at none of the {len(one.trials)} rates, "
        f"before its runs were stopped; their lowest final loss is {low:.3g} on average. If it is "
        f"still falling then, longer runs help, not other rates: {' '.join(filter(None, typed))}."
    )


class Edge(NamedTuple):
    """An end of the rates that were tried; `next`: what to try, in times of that rate."""

    which: str
    beyond: str
    next: tuple[float, ...]


_EDGES: Final = {
    "lower": Edge("lowest", "a smaller one", (0.25, 0.5, 1.0)),
    "upper": Edge("highest", "a larger one", (1.0, 2.0, 4.0)),
}
_ALONE: Final = Edge("only one", "another", (0.5, 1.0, 2.0))


def edge_of(one: Tuned) -> Edge | None:
    """The end of what was tried at which the best rate is; None where it lies between others."""
    if not one.edge or one.best.failure:
        return None
    return _EDGES[one.edge] if len(one.trials) > 1 else _ALONE


def best_so_far(search: Search, number: str, value: float) -> str:
    """What the progress of a search says of the best rate."""
    label, rate = search.at(int(number))
    who = title(search.asked, label)
    amount = f"loss {value:.4g}" if search.goal.loss is None else time(value)
    return f"{who} at {rate:g}: {amount}"
