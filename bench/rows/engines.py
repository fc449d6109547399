"""The engine for times alone beside SimPy: set-up, draws and record."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec

from bench.cases import one, scenario
from bench.measuring import Row, in_turn
from varsim.cluster.record.trace import Trace
from varsim.scenario.training import Scenario
from varsim.study.simulation import fast_run

COMPILED = {64: 0.08, 512: 0.08}
IN_ARRAYS = ("on_write", "on_read")  # which are not compiled
# Kind, workers, steps of each, CPU seconds.
LARGE = [("none", 16_383, 20, 2.0), ("sync_replicas", 4_096, 100, 2.0)]


def rows(long: bool) -> Iterator[Row]:
    """By kind and workers; then large clusters, in CPU seconds of this machine."""
    fast = find_spec("numba") is not None
    for kind in ("none", "sync_replicas", *["ssp"] * long, *IN_ARRAYS):
        for workers in COMPILED:
            # 500 steps of each worker, of many workers a fifth of that unless there is time.
            what = scenario(kind, workers, 500 if long or workers == 64 else 100, "timing")
            often = 1 if long and workers > 64 else 2
            name = f"{kind}, W = {workers}"
            if kind in IN_ARRAYS:
                turns = in_turn({"simpy": one(what), "arrays": flat(what)}, often)
                ratio = turns.ratio("arrays", "simpy")
                yield Row(f"in arrays / SimPy, {name}", COMPILED[workers], ratio)
                continue
            found = None
            if fast:
                turns = in_turn({"simpy": one(what), "compiled": flat(what)}, often)
                found = turns.ratio("compiled", "simpy")
            remark = "" if fast else "without numba"
            yield Row(f"compiled / SimPy, {name}", COMPILED[workers], found, remark=remark)
    for case in LARGE:
        yield alone(*case, repeat=1)


def alone(kind: str, workers: int, steps: int, goal: float, repeat: int = 0) -> Row:
    """CPU seconds of a run that is beside no other, `repeat` times after it is warm, or once."""
    name = f"CPU time of {workers:,} workers x {steps} steps, {kind}"
    if find_spec("numba") is None:
        return Row(name, goal, None, " s", "without numba")
    task = flat(scenario(kind, workers, steps, "timing"))
    turns = in_turn({"it": task}, max(repeat, 1), warm=not repeat)
    return Row(name, goal, turns["it"], " s")


def flat(what: Scenario, interpreted: bool = False) -> Callable[[], Trace]:
    """One run by the engine for times alone."""
    (strategy,) = what.strategies

    def run() -> Trace:
        return fast_run(what, strategy, 0, interpreted=interpreted).trace(strategy.label)

    return run
