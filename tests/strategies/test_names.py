"""What strategies are called: by people, in files and in options."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.building import scenario
from tests.seams import STRATEGIES


def test_people_know_every_strategy_by_a_name_of_its_own() -> None:
    names = [model.called for model in STRATEGIES.values()]
    assert len(set(names) - {""}) == len(names)
    assert max(map(len, names)) <= 30  # longer ones are cut in titles of figures
    (made,) = scenario({"kind": "none"}).strategies
    given = made.model_copy(update={"name": "mine"})
    assert (made.label, made.title, made.mention) == ("none", *["async PS"] * 2)
    assert (given.label, given.title, given.mention) == ("mine", "mine", "'mine'")


SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "all-reduce": {"kind": "on_write"},
    "all-reduce (DDP)": {"kind": "on_write", "overlap": True},
    "FSDP": {"kind": "on_write", "sharding": "parameters"},
    "HSDP": {"kind": "on_write", "sharding": "parameters", "shard_group": 2},
    "ZeRO-1": {"kind": "on_write", "sharding": "optimizer"},
    "ZeRO-2": {"kind": "on_write", "sharding": "gradients"},
    "push-pull (BytePS)": {"kind": "on_write", "collective": "push_pull"},
    "gossip (D-PSGD)": {"kind": "gossip"},
    "gossip (AD-PSGD)": {"kind": "gossip", "mode": "asynchronous"},
    "gossip (SGP)": {"kind": "gossip", "mode": "push_sum"},
    "sync PS": {"kind": "sync_replicas", "replicas_to_aggregate": 4},
    "sync PS + 1 backup": {"kind": "sync_replicas", "replicas_to_aggregate": 3},
    "sync PS + 2 backups": {"kind": "backup_workers", "replicas_to_aggregate": 2},
}
LAYERS: Final = {"layers": ({"backward": 1.0, "size": 1000.0},) * 2}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_name_depends_on_settings(name: str) -> None:
    made = scenario(SETTINGS[name], cluster={"workers": 4}, workload=LAYERS)
    assert made.run().report.table.rows == (name,)


def test_two_of_one_name_are_told_apart() -> None:
    kinds = ("sync_replicas", "backup_workers")
    two = tuple({"kind": kind, "replicas_to_aggregate": 2} for kind in kinds)
    made = scenario(two[0], cluster={"workers": 4}, strategies=two)
    assert set(made.run().report.table.rows) == {
        "sync PS + 2 backups (sync_replicas)",
        "sync PS + 2 backups (backup_workers)",
    }
