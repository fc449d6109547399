"""The engine for times alone, interpreted and compiled, beside SimPy: set-up, draws and record."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.cases import one, scenario
from tests.benchmarks.measuring import Row, Spread, children, command, in_turn
from varsim.cluster.flat.draws import first_blocks
from varsim.cluster.trace import Trace
from varsim.scenario.training import Scenario
from varsim.study.engine import flat_run

ROOT = Path(__file__).parents[3]
INTERPRETED, COMPILED = 0.45, {64: 0.05, 512: 0.03}
IN_ARRAYS = ("on_write", "on_read")  # which are neither interpreted nor compiled
# Kind, workers, steps of each, CPU seconds.
LARGE = [("none", 16_383, 20, 2.0), ("sync_replicas", 4_096, 100, 2.0)]
LARGEST = ("none", 1_000_000, 10, 60.0)


def rows(long: bool) -> Iterator[Row]:
    """By kind and workers; then large clusters, in CPU seconds of this machine."""
    fast = find_spec("numba") is not None
    for kind in ("none", "sync_replicas", *["ssp"] * long, *IN_ARRAYS):
        for workers in COMPILED:
            # 500 steps of each worker, of many workers a fifth of that unless there is time.
            what = scenario(kind, workers, 500 if long or workers == 64 else 100, "timing")
            name = f"{kind}, W = {workers}"
            if kind in IN_ARRAYS:
                turns = in_turn({"simpy": one(what), "arrays": flat(what)}, 5 if long else 2)
                ratio = turns.ratio("arrays", "simpy")
                yield Row(f"in arrays / SimPy, {name}", COMPILED[workers], ratio)
                continue
            tasks = {"simpy": one(what)}
            if long or (kind, workers) == ("none", 64):
                tasks["interpreted"] = flat(what, interpreted=True)
            if fast:
                tasks["compiled"] = flat(what)
            turns = in_turn(tasks, 5 if long else 2)
            if "interpreted" in tasks:
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
    if long and fast:
        yield from starts()


def starts() -> Iterator[Row]:
    """What machine code takes besides the run: made, and read from where it is kept."""
    run = (
        "from tests.benchmarks.rows.engines import *; flat(scenario('none', 2, 2, 'timing'), {})()"
    )
    with TemporaryDirectory() as kept:
        tasks = {
            "made": command("-c", run.format(False), tree=ROOT, cache=Path(kept)),
            "read": command("-c", run.format(False), tree=ROOT, cache=Path(kept)),
            "without": command("-c", run.format(True), tree=ROOT),
        }
        took = {}
        for name, task in tasks.items():
            before = children()
            task()
            took[name] = children() - before
    for name in ("made", "read"):
        seconds = Spread.of([took[name] - took["without"]])
        yield Row(f"CPU time of machine code that is {name}", None, seconds, " s")


def flat(what: Scenario, interpreted: bool = False) -> Callable[[], Trace]:
    """One run by the engine for times alone."""
    (strategy,) = what.strategies

    def run() -> Trace:
        first_blocks.cache_clear()  # each draws for itself
        return flat_run(what, strategy, 0, interpreted=interpreted).trace(strategy.label)

    return run
