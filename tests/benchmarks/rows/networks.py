"""What networks cost beside simpler ones."""

from collections.abc import Iterator
from typing import Any

from tests.benchmarks.cases import one, scenario
from tests.benchmarks.measuring import Row, in_turn
from varsim.scenario.training import Scenario


def rows(long: bool) -> Iterator[Row]:
    """Collectives beside the ring."""
    for steps in (2, 20) if long else (5,):
        tasks = {
            name: one(changed("on_write", 1024, steps, strategy={"collective": name}))
            for name in ("double_binary_tree", "ring")
        }
        turns = in_turn(tasks, 5)
        name = f"double_binary_tree / ring, W = 1,024, {steps} steps"
        yield Row(name, 10.0, turns.ratio("double_binary_tree", "ring"))


def changed(
    kind: str,
    workers: int,
    steps: int,
    *,
    strategy: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    network: dict[str, Any] | None = None,
) -> Scenario:
    """The benchmarks' scenario of times only, changed in parts."""
    whole = scenario(kind, workers, steps, "timing").model_dump(exclude_unset=True)
    whole["strategies"] = ({**whole["strategies"][0], **(strategy or {})},)
    whole["cluster"] |= cluster or {}
    whole["cluster"]["network"] |= network or {}
    return Scenario.model_validate(whole)
