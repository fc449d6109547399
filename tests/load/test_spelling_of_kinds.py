"""Kinds in any case, as TensorFlow writes them; and what others call them."""

import re

import pytest
from pydantic import ValidationError

from tests.building import scenario
from varsim import ScenarioError, load
from varsim.study.experiment import Training

FILE = """\
name: spelt
cluster:
  workers: 2
  compute: {{kind: Constant, value: 100 ms}}
  network: {{kind: star, bandwidth: 1 Gbit/s, latency: 0}}
workload:
  problem: {{kind: TIMING, size: 1 MB}}
strategies:
  - {{kind: {kind}}}
stop: {{global_steps: 2}}
"""


@pytest.mark.parametrize(
    "written", ["ON_WRITE", "On_Write", "on-write", "VariableSynchronization.ON_WRITE"]
)
def test_a_kind_is_read_in_any_case(written: str) -> None:
    loaded = load(FILE.format(kind=written))
    assert isinstance(loaded, Training)
    (strategy,) = loaded.scenario.strategies
    assert strategy.label == strategy.kind == "on_write"
    # And so it is asked for and written.
    assert loaded.scenario == load(FILE.format(kind="on_write")).scenario
    assert load(FILE.format(kind="on_write"), strategies=["ON_WRITE"]) == loaded


@pytest.mark.parametrize(
    ("called", "kind"),
    [
        ("async", "none"),
        ("hogwild", "none"),
        ("mirrored", "on_write"),
        ("MirroredStrategy", "on_write"),
        ("DDP", "on_write"),
        ("fedavg", "local_sgd"),
        ("AD-PSGD", "gossip"),
    ],
)
def test_what_others_call_it_is_told(called: str, kind: str) -> None:
    with pytest.raises(ScenarioError, match=f"unknown kind '{called}'; did you mean '{kind}'"):
        load(FILE.format(kind=called))


@pytest.mark.parametrize(
    ("called", "setting"),
    [
        ("fsdp", "sharding: parameters"),
        ("FSDP", "sharding: parameters"),
        ("zero", "sharding: parameters"),
        ("zero3", "sharding: parameters"),
        ("ZeRO-2", "sharding: gradients"),
        ("zero1", "sharding: optimizer"),
    ],
)
def test_what_others_call_a_setting_of_it_is_told_with_that(called: str, setting: str) -> None:
    told = f"unknown kind '{called}'; did you mean 'on_write' with '{setting}'? (one of"
    with pytest.raises(ScenarioError, match=re.escape(told)):
        load(FILE.format(kind=called))
    with pytest.raises(ScenarioError, match=re.escape(f"write {{kind: on_write, {setting}}}")):
        load(FILE.replace("{{kind: {kind}}}", called).format())
    load(FILE.format(kind=f"on_write, {setting}"))


def test_what_others_call_two_settings_of_it_is_told_with_both() -> None:
    told = "did you mean 'on_write' with 'sharding: parameters, shard_group: node'?"
    with pytest.raises(ScenarioError, match=re.escape(told)):
        load(FILE.format(kind="hsdp"))


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
    assert isinstance(changed, Training)
    assert [one.model_dump()["micro_batches"] for one in changed.scenario.strategies] == [2, None]
    with pytest.raises(ScenarioError, match="several strategies have kind 'On_Write'"):
        load(two, ["strategies.On_Write.micro_batches=2"])


def test_what_is_meant_by_no_one_is_refused_as_it_is_written() -> None:
    with pytest.raises(ValidationError, match="nobody's"):
        scenario({"kind": "nobody's"})
