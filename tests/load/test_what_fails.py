"""What each strategy can do among failures, as the guide's table has it."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import example, scenario
from tests.seams import STRATEGIES

GUIDE = Path(__file__).parents[2] / "docs" / "how_to" / "failures.md"
WORKER: dict[str, Any] = {"domain": "worker", "mtbf": 900.0, "repair": 60.0}
SERVER = {**WORKER, "domain": "server"}
CHECKPOINT = {"every": 30.0, "write": 1.0}


def rows() -> list[list[str]]:
    """The table's cells; of a strategy its kind, then its settings."""
    lines = GUIDE.read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def possible(strategy: dict[str, Any], **changes: Any) -> bool:
    try:
        scenario(
            strategy,
            cluster={"workers": 4},
            network={"bandwidth": 1e4, "latency": 1e-3, "sharing": "first_come"},
            stop={"global_steps": 100},
            **({"workload": {"model": "resnet50"}} if "overlap" in strategy else {}),
            **changes,
        )
    except ValidationError:
        return False
    return True


def asked(strategy: dict[str, Any]) -> list[str]:
    """What there is to be said of it in the table."""
    lived = {"horizon": 1e5, "of": (WORKER,)}
    with_policy = [
        possible(strategy, failures=lived, recovery={"policy": policy}, checkpoint=CHECKPOINT)
        for policy in ("restart", "wait", "continue_with_fewer")
    ]
    assert with_policy[1] == with_policy[2]
    inside = [{"of": of} for of in ((WORKER,), (WORKER, SERVER))]
    dies = [possible(strategy, failures=failures) for failures in inside]
    saved = [
        tuple(
            possible(strategy, failures=failures, checkpoint={**CHECKPOINT, **more})
            for more in ({}, {"mode": "asynchronous"}, {"every": "optimal"})
        )
        for failures in inside
    ]
    every, none = (True,) * 3, (False,) * 3
    words = {(every, every): "yes", (none, every): "if servers fail", (none, none): "no"}
    alone, with_servers = saved
    answers = ["yes" if can else "no" for can in (*with_policy[:2], *dies)]
    return [*answers, words[alone, with_servers]]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_the_guide_says_what_it_can_do(row: list[str]) -> None:
    kind, *settings = row[0].replace("`", "").split(", ")
    given = dict(setting.split(": ") for setting in settings)

    assert row[1:] == asked({**example(kind, 4), **given})


def test_the_guide_has_every_strategy() -> None:
    assert {row[0].split("`")[1] for row in rows()} == set(STRATEGIES)


def test_alone_a_strategy_keeps_what_has_an_effect_on_it() -> None:
    elastic = {"kind": "on_write", "on_death": "continue_with_fewer"}
    both = scenario(
        {"kind": "none"},
        strategies=({"kind": "none"}, elastic),
        failures={"of": ({"domain": "worker", "mtbf": 9.0}, SERVER)},
        checkpoint=CHECKPOINT,
        recovery={"restart": 1.0, "spares": {"hot": 1}},
    )
    served, other = (both.with_only((one,)) for one in both.strategies)

    assert (served.checkpoint, served.failures) == (both.checkpoint, both.failures)
    assert (other.checkpoint, other.recovery and other.recovery.spares) == (None, None)
    assert other.failures is not None
    assert [one.domain for one in other.failures.of] == ["worker"]


def test_what_is_only_saved_is_left_out_with_the_checkpoint() -> None:
    # The optimizer of a model that is only timed has slots, which are written to storage.
    both = scenario(
        {"kind": "none"},
        strategies=({"kind": "none"}, {"kind": "easgd"}),
        problem={"kind": "timing", "size": 100.0},
        optimizer={"kind": "adam", "learning_rate": 0.1},
        failures={"of": ({"domain": "worker", "mtbf": 9.0},)},
        checkpoint={"every": 2.0, "storage": 1e3},
    )
    served, other = (both.with_only((one,)) for one in both.strategies)

    assert (served.workload.optimizer, other.workload.optimizer) == (both.workload.optimizer, None)
