"""The examples of MODEL.md are what runs do."""

import re
from json import dumps
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.building import life
from tests.seams import Run, load_text, run_one
from varsim import Scenario

TEXT = (Path(__file__).parent.parent / "MODEL.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```\n\n```text\n(.*?)```", TEXT, flags=re.DOTALL)


def scenario(text: str) -> Scenario:
    """What is said of an example, and what is the same in all."""
    said = YAML(typ="safe").load(text)
    cluster = {"compute": {"kind": "constant", "value": "100 ms"}, **said["cluster"]}
    network = {"kind": "star", "bandwidth": "1 kB/s", "latency": 0, **cluster["network"]}
    size = said.pop("size", "40 B")
    whole = {
        "name": "example",
        "replications": 1,
        **said,
        "cluster": {**cluster, "network": network},
        "workload": {
            "problem": {"kind": "timing", "size": size},
            "batch_size": 1,
        },
    }
    made = load_text(dumps(whole))
    assert isinstance(made, Scenario)
    return made


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_is_what_happens(number: int) -> None:
    text, expected = EXAMPLES[number]
    trace = run_one(Run(scenario(text), 0, 0))
    lines = []
    for worker in range(trace.workers):
        did = [f"{name} {start:g}-{end:g}" for name, start, end in life(trace, worker)]
        lines.append(f"worker {worker}: {', '.join(did)}")
    assert lines == expected.splitlines()


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == TEXT.count("```yaml") == TEXT.count("```text") == 7
