"""Throughput between whole rounds: what a run does without how it begins and how it ends.

How far throughput of 142 bundled strategies and seeds is off that of 800 rounds, in the median,
where a run is ended by time in the middle of a round (ended by updates, it is about half of that):

| rounds of each worker              | 5      | 10    | 20    | 40    |
|------------------------------------|--------|-------|-------|-------|
| over the whole run                 | 13.0 % | 6.9 % | 3.6 % | 1.8 % |
| from the first round's end         | 7.5 %  | 3.1 % | 1.8 % | 1.0 % |
| from the second round's end        | 4.8 %  | 2.5 % | 1.4 % | 0.8 % |
| after MSER of rounds, to the last  | 5.0 %  | 2.4 % | 1.3 % | 0.8 % |
| after MSER-5, to the last          | 7.5 %  | 3.9 % | 1.6 % | 0.9 % |
| after MSER-5, to the end of a run  | 13.0 % | 6.9 % | 3.0 % | 1.7 % |

What counts is that a window ends with a round as well. Where the two differ by over 2 %, rounds
were nearer in 83 % of the runs ended by time, in 70 % of those ended by updates.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from varsim.result.formatting import plus_minus
from varsim.result.measure import NANOSECONDS, Gradients
from varsim.result.statistics import interval

if TYPE_CHECKING:
    from varsim.result.result import Result
    from varsim.trace import Trace

# So many rounds are a warm-up: the queue of the first tokens, workers that all begin at once.
WARM_UP: Final = 2
# With fewer rounds than that after it, two ends of rounds say no more than the whole run does.
_LEAST: Final = 3


def notes(result: "Result") -> Iterator[str]:
    """Of which strategies the throughput between whole rounds is another than over the whole run.

    Nothing where a warm-up is given, or something is to happen in the middle of a run.
    """
    scenario = result.scenario
    slow = any(one.after or one.until is not None for one in scenario.cluster.slow_workers)
    if result.measured_after or scenario.events or slow:
        return
    found = []
    for name in result.compared:
        strategy = scenario.strategies[result.strategies.index(name)]
        workers = strategy.workers(scenario.cluster_of(strategy))
        gradients = strategy.gradients_per_update(scenario.cluster_of(strategy))
        updates = max(1, round(workers / gradients)) * strategy.period
        pairs = zip(result.traces, result.gradients, strict=True)
        values = [between_rounds(run, rows, updates) for run, rows in pairs if run.strategy == name]
        steady = interval(values, exact=result.exact(name, "examples_per_s"))
        whole = result.estimate(name, "examples_per_s").mean
        if steady.replications < len(values) or not whole > 0:
            continue
        more = steady.mean / whole - 1
        if abs(more) > scenario.report.equal_within:
            side = "more" if more > 0 else "less"
            found.append(
                f"'{name}' {plus_minus(steady, unit='examples/s')}, {100 * abs(more):.1f} % "
                f"{side} than over its whole run"
            )
    if found:
        yield (
            f"Between whole rounds of all workers, from the end of the second to that of the last: "
            f"{'; '.join(found)}. What a long run comes to is mostly nearer to that."
        )


def between_rounds(trace: "Trace", gradients: Gradients, updates: int) -> float:
    """Examples/s from the end of the second round to that of the last; nan of too few rounds.

    A round are so many `updates`: one gradient of every worker, or all steps between two reads.
    """
    ends = trace.steps[updates - 1 :: updates]
    if len(ends) < WARM_UP + _LEAST:
        return math.nan
    start, end = ends[WARM_UP - 1], ends[-1]
    inside = (gradients.applied > start) & (gradients.applied <= end)
    lasted = int(end - start)
    examples = float(gradients.weight[inside].sum()) * trace.batch_size
    return examples * NANOSECONDS / lasted if lasted > 0 else math.nan
