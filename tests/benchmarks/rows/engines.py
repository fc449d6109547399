"""The engine for times alone, interpreted and compiled, beside SimPy: set-up, draws and record."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec

from tests.benchmarks.cases import one, scenario
from tests.benchmarks.measuring import Row, in_turn
from varsim.cluster.trace import Trace
from varsim.scenario.training import Scenario
from varsim.study.engine import flat_run

INTERPRETED, COMPILED = 0.45, {64: 0.05, 512: 0.03}
IN_ARRAYS = ("on_write", "on_read")  # which are neither interpreted nor compiled
# Kind, workers, steps of each, CPU seconds.
LARGE = [("none", 16_383, 20, 2.0), ("sync_replicas", 4_096, 100, 2.0)]
LARGEST = ("none", 1_000_000, 10, 60.0)


def rows(long: bool) -> Iterator[Row]:
    """By kind and workers; then large clusters, in CPU seconds of this machine."""
    fast = find_spec("numba") is not None
    for kind in ("none", "sync_replicas", *IN_ARRAYS):
        for workers in COMPILED:
            # 500 steps of each worker, of many workers a fifth of that unless there is time.
            what = scenario(kind, workers, 500 if long or workers == 64 else 100, "timing")
            name = f"{kind}, W = {workers}"
            if kind in IN_ARRAYS:
                turns = in_turn({"simpy": one(what), "arrays": flat(what)}, 5 if long else 2)
                ratio = turns.ratio("arrays", "simpy")
                yield Row(f"in arrays / SimPy, {name}", COMPILED[workers], ratio)
                continue
            tasks = {"simpy": one(what), "interpreted": flat(what, interpreted=True)}
            if fast:
                tasks["compiled"] = flat(what)
            turns = in_turn(tasks, 5 if long else 2)
            ratio = turns.ratio("interpreted", "simpy")
            yield Row(f"interpreted / SimPy, {name}", INTERPRETED, ratio)
            found = turns.ratio("compiled", "simpy") if fast else None
            remark = "" if fast else "without numba"
            yield Row(f"compiled / SimPy, {name}", COMPILED[workers], found, remark=remark)
    for kind, workers, steps, goal in [*LARGE, *([LARGEST] if long else [])]:
        task = flat(scenario(kind, workers, steps, "timing"), interpreted=not fast)
        turns = in_turn({"it": task}, 3 if long else 1)
        yield Row(
            f"CPU time of {workers:,} workers x {steps} steps, {kind}",
            goal,
            turns["it"],
            " s",
            "" if fast else "interpreted, without numba",
        )


def flat(what: Scenario, interpreted: bool = False) -> Callable[[], Trace]:
    """One run by the engine for times alone."""
    (strategy,) = what.strategies

    def run() -> Trace:
        return flat_run(what, strategy, 0, interpreted=interpreted).trace(strategy.label)

    return run
