"""Kinds in any case, as TensorFlow writes them; and what others call them."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.building import scenario
from tests.seams import dump_scenario
from varsim import Scenario, ScenarioError, load

FILE = """\
name: spelt
cluster:
  workers: 2
  compute: {{kind: Constant, value: 100 ms}}
  network: {{kind: star, bandwidth: 1 Gbit/s, latency: 0}}
workload:
  problem: {{kind: TIMING}}
  model: resnet50
strategies:
  - {{kind: {kind}}}
stop: {{global_steps: 2}}
"""


@pytest.mark.parametrize(
    "written", ["ON_WRITE", "On_Write", "on-write", "VariableSynchronization.ON_WRITE"]
)
def test_a_kind_is_read_in_any_case(written: str) -> None:
    loaded = load(FILE.format(kind=written))
    assert isinstance(loaded, Scenario)
    (strategy,) = loaded.strategies
    assert strategy.label == strategy.kind == "on_write"
    # And so it is asked for and written.
    assert loaded == load(FILE.format(kind="on_write"))
    assert load(FILE.format(kind="on_write"), strategies=["ON_WRITE"]) == loaded


@pytest.mark.parametrize(
    ("called", "settings"),
    [
        ("async_ps", "none"),
        ("hogwild", "none"),
        ("sync_ps", "sync_replicas, replicas_to_aggregate: 2"),
        ("MirroredStrategy", "on_write"),
        ("horovod", "on_write"),
        ("DDP", "on_write, overlap: true"),
        ("fsdp", "on_write, sharding: parameters"),
        ("ZeRO-2", "on_write, sharding: gradients"),
        ("zero1", "on_write, sharding: optimizer"),
        ("fedavg", "local_sgd, period: 2"),
        ("AD-PSGD", "gossip, mode: asynchronous"),
    ],
)
def test_what_others_call_it_is_that_and_its_name(called: str, settings: str) -> None:
    named = load(FILE.format(kind=f"{settings}, name: {called}"))
    _, comma, said = settings.partition(", ")
    needed = comma + said if called in ("sync_ps", "fedavg") else ""
    loaded = load(FILE.format(kind=called + needed))
    assert isinstance(loaded, Scenario)
    assert loaded == named
    assert [one.label for one in loaded.strategies] == [called]
    assert called not in dump_scenario(loaded).replace(f"name: {called}", "")


def test_what_the_file_says_stands() -> None:
    loaded = load(FILE.format(kind="ddp, overlap: false, name: plain"))
    assert loaded == load(FILE.format(kind="on_write, overlap: false, name: plain"))


def test_nothing_overlaps_where_all_gradients_are_ready_at_once() -> None:
    file = FILE.replace("TIMING}}\n  model: resnet50", "TIMING, size: 1 MB}}")
    assert load(file.format(kind="ddp")) == load(file.format(kind="on_write, name: ddp"))


def test_two_of_one_kind_are_told_apart() -> None:
    loaded = load(FILE.format(kind="ddp}\n  - {kind: zero3"), ["strategies.zero3.micro_batches=2"])
    assert isinstance(loaded, Scenario)
    assert [one.label for one in loaded.strategies] == ["ddp", "zero3"]
    assert loaded.strategies[1].model_dump()["micro_batches"] == 2


def test_a_mistake_in_one_is_told_at_its_place() -> None:
    with pytest.raises(ScenarioError, match=r"10:18: error: strategies\[0\]: unknown key 'shards'"):
        load(FILE.format(kind="fsdp, shards: 2"))


def test_a_name_alone_is_told_what_to_write() -> None:
    with pytest.raises(ScenarioError, match=re.escape("write {kind: on_write, overlap: true}")):
        load(FILE.replace("{{kind: {kind}}}", "ddp").format())


@pytest.mark.parametrize("kind", ["on_write", "ON_WRITE", "VariableSynchronization.ON_WRITE"])
@pytest.mark.parametrize(
    "path",
    [
        "ON_WRITE",
        "On_Write",
        "on-write",
        "VariableSynchronization.ON_WRITE",
        "tf.VariableSynchronization.ON_WRITE",
    ],
)
def test_a_change_may_name_a_strategy_as_a_file_does(kind: str, path: str) -> None:
    changed = load(FILE.format(kind=kind), [f"strategies.{path}.micro_batches=2"])
    assert changed == load(FILE.format(kind="on_write, micro_batches: 2"))


def test_a_name_is_not_spelt_otherwise() -> None:
    two = FILE.format(kind="on_write, name: ON_WRITE}\n  - {kind: on_write")
    changed = load(two, ["strategies.ON_WRITE.micro_batches=2"])
    assert isinstance(changed, Scenario)
    assert [one.model_dump()["micro_batches"] for one in changed.strategies] == [2, None]
    with pytest.raises(ScenarioError, match="several strategies have kind 'On_Write'"):
        load(two, ["strategies.On_Write.micro_batches=2"])


def test_what_is_meant_by_no_one_is_refused_as_it_is_written() -> None:
    with pytest.raises(ValidationError, match="nobody's"):
        scenario({"kind": "nobody's"})


def refusal(kind: str) -> str:
    """Why a strategy cannot be read; empty where it can."""
    try:
        load(FILE.format(kind=kind))
    except ScenarioError as error:
        return str(error)
    return ""


def test_every_name_of_the_page_on_names_means_its_kind() -> None:
    page = Path(__file__).parents[2] / "docs" / "concepts" / "names.md"
    rows = [line.split("|") for line in page.read_text().splitlines() if line.startswith("| ")]
    for _, _, names, meant, _ in rows[1:]:
        (kind,) = re.findall(r"kind: (\w+)", meant)
        for name in re.findall(r"`(\w+)`", names):
            told = refusal(name)
            assert "unknown kind" not in told
            if not told:  # else it needs something that the name does not say
                loaded = load(FILE.format(kind=name))
                assert isinstance(loaded, Scenario)
                assert loaded.strategies[0].kind == kind
