"""The JSON Schema says of every key what it means."""

from collections.abc import Iterator
from typing import Any

from tests.seams import file_schema


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
