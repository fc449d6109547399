"""A program that TensorFlow would refuse is refused in one line, at its place."""

import pytest

from tests.seams import load_text
from varsim import ScenarioError

SCENARIO = """\
kind: variables
name: refused
cluster:
  workers: 3
  network: {kind: star, bandwidth: 1 Gbit/s, latency: 50 us}
variables:
  - {name: fine}
  - {name: x, aggregation: AGGREGATION, dtype: DTYPE}
modes: [MODE]
program:
  steps: 1
  replicas:
    - {kind: assign_add, variable: x, value: 1}
    - {kind: read, variable: fine}
  outside:
    - {kind: OUTSIDE}
"""


@pytest.mark.parametrize(
    ("words", "line", "category", "advice"),
    [
        ("mean int32 on_write save", 8, "mean_of_non_float", "use a float dtype, or SUM"),
        ("mean int64 on_read save", 8, "mean_of_non_float", "use a float dtype, or SUM"),
        ("none float32 on_read read", 16, "no_reduce_op", "use MEAN, SUM or ONLY_FIRST_REPLICA"),
        ("none float32 on_read save", 16, "no_reduce_op", "use MEAN, SUM or ONLY_FIRST_REPLICA"),
        ("none float32 on_read assign", 16, "no_reduce_op", "use MEAN, SUM or ONLY_FIRST_REPLICA"),
        ("sum float32 on_read assign_add", 16, "sum_cross_replica_add", "assign the new total"),
        ("sum float32 on_read assign_sub", 16, "sum_cross_replica_sub", "assign the new total"),
    ],
)
def test_a_scenario_is_refused_in_one_line_at_its_place(
    words: str, line: int, category: str, advice: str
) -> None:
    aggregation, dtype, mode, kind = words.split()
    action = {"save": kind, "read": f"{kind}, variable: x"}.get(kind)
    text = SCENARIO.replace("OUTSIDE", action or f"{kind}, variable: x, value: 1")
    for word, value in (("AGGREGATION", aggregation), ("DTYPE", dtype), ("MODE", mode)):
        text = text.replace(word, value)
    with pytest.raises(ScenarioError) as caught:
        load_text(text, "file.yaml")
    (problem,) = caught.value.problems
    assert problem.line == line
    place = "variables[1]" if line == 8 else "program.outside[0]"
    start = f"{place}: under {mode} TensorFlow raises ValueError ({category}): "
    assert problem.message.startswith(start)
    assert problem.message.endswith(advice)
