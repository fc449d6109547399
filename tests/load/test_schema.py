"""The JSON Schema says of every key what it means."""

from collections.abc import Iterator
from typing import Any

from tests.seams import file_schema
from varsim.scenario.wording import PATTERNS


def keys_without_words() -> Iterator[str]:
    for name, definition in file_schema()["$defs"].items():
        forms: list[dict[str, Any]] = [definition, *definition.get("anyOf", ())]
        for form in forms:
            for key, described in form.get("properties", {}).items():
                if key != "kind" and not described.get("description"):
                    yield f"{name}.{key}"


def test_every_key_is_described() -> None:
    properties = file_schema()["$defs"]["Cluster"]["properties"]
    assert properties["workers"]["description"] == "How many workers, each with one replica."
    assert list(keys_without_words()) == []


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

    assert set(patterns(file_schema())) <= set(PATTERNS)
