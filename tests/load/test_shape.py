"""What a model says is expected at a place of a file, and in which words."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from varsim import Scenario
from varsim.scenario.loading import scenario_schema
from varsim.scenario.shape import Shape, members
from varsim.scenario.wording import PATTERNS


def test_every_pattern_of_the_schema_has_words() -> None:
    def patterns(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            # Quantities have words of their own.
            if "pattern" in value and "examples" not in value:
                yield value["pattern"]
            for item in value.values():
                yield from patterns(item)
        elif isinstance(value, list):
            for item in value:
                yield from patterns(item)

    assert set(patterns(scenario_schema())) <= set(PATTERNS)


def test_what_is_expected_at_a_place_is_read_from_the_model() -> None:
    shapes = [Shape(Scenario)]
    for key in ("strategies", 0, "on", "network", "latency"):
        shapes = members(shapes, key)
    assert {shape.dimension and shape.dimension.noun for shape in shapes} == {"a time"}
    assert members([Shape(BaseModel)], "nothing") == []
