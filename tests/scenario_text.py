"""A scenario as text, and what is said about a wrong one: for the tests of the loader."""

import re

import pytest

from tests.seams import load_text
from varsim import ScenarioError

VALID = """\
# Does a backup worker pay when one machine in eight is slow?
name: backup-worker
seed: 7
replications: 10
cluster:
  workers: 8
  compute: {kind: shifted_exponential, minimum: 100 ms, mean: 120 ms}
  slow_workers: [{rank: 7, factor: 2.0, after: 1 s, until: 1 min}]
  parameter_servers: 2
  network: {kind: star, bandwidth: 25 Gbit/s, latency: 20 us, sharing: fair}
workload:
  problem: {kind: digits, model: softmax}
  model: resnet50
  batch_size: 32
  optimizer: {kind: sgd, learning_rate: 0.1}
strategies:
  - {kind: on_write}
  - {kind: on_read, read_every: 10}
  - {kind: none, name: "no: waiting"}
  - {kind: sync_replicas, replicas_to_aggregate: 7}
stop: {global_steps: 500}
targets: {loss: 1e-05}
"""
# Words of the libraries underneath, which mean nothing to whoever writes a scenario.
JARGON = re.compile(
    r"Input should|value_error|Value error|pydantic|ruamel|https?://|dictionary|tuple|NoneType|"
    r"str_type|Traceback|Broken|<class|Field required|Extra inputs|block end|simple key|instance"
)


def problems(text: str, *sets: str) -> list[tuple[int, int, str]]:
    """Line, column and message of everything that is wrong with a text."""
    with pytest.raises(ScenarioError) as caught:
        load_text(text, "file.yaml", sets=sets)
    return [(fault.line, fault.column, fault.message) for fault in caught.value.problems]
