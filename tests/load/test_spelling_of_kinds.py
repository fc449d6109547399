"""Kinds in any case, as TensorFlow writes them; and what others call them."""

import pytest
from building import scenario
from pydantic import ValidationError

from varsim.scenario.fault import ScenarioError
from varsim.study.experiment import Training, load

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
    assert loaded.scenario == load(FILE.format(kind="on_write")).scenario  # type: ignore[union-attr]
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


def test_what_is_meant_by_no_one_is_refused_as_it_is_written() -> None:
    with pytest.raises(ValidationError, match="nobody's"):
        scenario({"kind": "nobody's"})
