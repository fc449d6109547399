"""What a worker-step costs in large clusters, beside a small one: set-up, run and record."""

from collections.abc import Iterator

from tests.benchmarks.cases import one, scenario
from tests.benchmarks.measuring import Row, in_turn

STEPS = 25  # of each worker
KINDS = ("none", "sync_replicas", "on_write")
GOALS = {4_096: 1.6, 16_384: 2.0}


def rows(long: bool) -> Iterator[Row]:
    """Per worker-step, W workers / 64; 64 make as many steps each, and as often as it takes."""
    for workers in GOALS if long else [4_096]:
        for kind in KINDS if long else KINDS[:2]:
            times = workers // 64
            small = one(scenario(kind, 64, STEPS, "timing"))
            tasks = {
                "large": one(scenario(kind, workers, STEPS, "timing")),
                "small": lambda small=small, times=times: [small() for _ in range(times)],
            }
            turns = in_turn(tasks, 5 if long else 2)
            name = f"per worker-step, {kind}, W = {workers:,} / W = 64"
            yield Row(name, GOALS[workers], turns.ratio("large", "small"))
