"""How much work the runs of a result did: whether it is comparable, and enough to say anything."""

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from varsim.estimate import equal_examples
from varsim.result.formatting import digits
from varsim.units import format_seconds

if TYPE_CHECKING:
    from varsim.result.result import Result

# Runs whose examples are farther apart than this are not compared without a word.
DIFFERENT: Final = 1.5
# Gradients of each worker: with fewer a result is told to be short, or names no winner at all.
SHORT: Final = 10
TOO_SHORT: Final = 2


class Work(NamedTuple):
    """What the runs of one strategy did on average: gradients computed per worker, examples."""

    gradients: float
    examples: float


def work(result: "Result") -> dict[str, Work]:
    """The work of every strategy."""
    count = result.replications
    found = {}
    for index, strategy in enumerate(result.strategies):
        chosen = slice(index * count, (index + 1) * count)
        pairs = list(zip(result.traces[chosen], result.gradients[chosen], strict=True))
        since = result.measured_after
        computed = sum(int((rows.computed >= since).sum()) / run.workers for run, rows in pairs)
        applied = math.fsum(float(rows.weight.sum()) * run.batch_size for run, rows in pairs)
        found[strategy] = Work(computed / count, applied / count)
    return found


def notes(result: "Result") -> list[str]:
    """What there is to say of it."""
    found = [*_warm_up(result)]
    found += [f"{line[0].upper()}{line[1:]}." for line in equal_examples(result.scenario)]
    done = {name: one for name, one in work(result).items() if name in result.compared}
    examples = {name: one.examples for name, one in done.items() if one.examples > 0}
    if examples and max(examples.values()) > DIFFERENT * min(examples.values()):
        few, many = min(examples, key=examples.__getitem__), max(examples, key=examples.__getitem__)
        found.append(
            f"The runs did different work: '{few}' applied {examples[few]:,.0f} examples, '{many}' "
            f"{examples[many]:,.0f}. Their losses and costs at the end are not of equal work; to "
            f"compare that, stop: {{examples: {examples[few]:.0f}}}."
        )
    if short := [name for name, one in done.items() if one.gradients < SHORT]:
        found.append(
            f"Short runs: {_told(done, short)}. How a run begins and ends weighs in all rates"
            f"{_more(result, done)}."
        )
    return found


def too_short(result: "Result") -> str:
    """What to say in place of a winner where runs are too short for one; else empty."""
    done = {name: one for name, one in work(result).items() if name in result.compared}
    rounds = {strategy.label: strategy.period for strategy in result.scenario.strategies}
    short = [name for name, one in done.items() if one.gradients < TOO_SHORT * rounds[name]]
    if not short or len(done) < 2:
        return ""
    return f"Too short to say which is fastest: {_told(done, short)}{_more(result, done)}."


def _warm_up(result: "Result") -> list[str]:
    """What is left out of rates and shares."""
    after = result.measured_after
    if not after:
        return []
    left = {
        name: min(1.0, after * result.replications / max(1, sum(ends)))
        for name in result.strategies
        if (ends := [run.end for run in result.traces if run.strategy == name])
    }
    shares = ", ".join(f"{digits(100 * share)} % of '{name}'" for name, share in left.items())
    return [
        f"Rates and shares are measured after {format_seconds(after / 1e9)} of a run, which leaves "
        f"out {shares}; totals, losses, times to a loss, links and the yardstick of the speed-up "
        "count from the start."
    ]


def _told(done: dict[str, Work], short: list[str]) -> str:
    counts = ", ".join(f"'{name}' {digits(done[name].gradients)}" for name in short)
    return f"gradients computed per worker: {counts}"


def _more(result: "Result", done: dict[str, Work]) -> str:
    """What makes runs long enough: the limit that ended them, in proportion."""
    least = min(one.gradients for one in done.values())
    stop, rules = result.scenario.stop, {run.stopped_by for run in result.traces}
    if least <= 0:
        return ""
    more = 1.2 * SHORT / least
    typed = []
    if "time" in rules and stop.time is not None:
        typed.append(f"'stop.time={format_seconds(stop.time * more)}'")
    if rules & {"global_steps", "examples"} and stop.global_steps is not None:
        typed.append(f"stop.global_steps={math.ceil(stop.global_steps * more)}")
    elif "examples" in rules and stop.examples is not None:
        typed.append(f"stop.examples={math.ceil(stop.examples * more)}")
    return f"; longer: {' '.join(f'--set {each}' for each in typed)}" if typed else ""
