"""What each strategy can do among failures, as the guide's table has it."""

from pathlib import Path
from typing import Any

import pytest
from building import example, scenario
from pydantic import ValidationError

from varsim.strategies import STRATEGIES

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
        {
            possible(strategy, failures=failures, checkpoint={**CHECKPOINT, **more})
            for more in ({}, {"mode": "asynchronous"}, {"every": "optimal"}, {"keep_on": "host"})
        }
        for failures in inside
    ]
    words = {(True, True): "yes", (False, True): "if servers fail", (False, False): "no"}
    (alone,), (with_servers,) = saved
    answers = ["yes" if can else "no" for can in (*with_policy[:2], *dies)]
    return [*answers, words[alone, with_servers]]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_the_guide_says_what_it_can_do(row: list[str]) -> None:
    kind, *settings = row[0].replace("`", "").split(", ")
    given = dict(setting.split(": ") for setting in settings)

    assert row[1:] == asked({**example(kind, 4), **given})


def test_the_guide_has_every_strategy() -> None:
    assert {row[0].split("`")[1] for row in rows()} == set(STRATEGIES)
