"""The loader: a file, text or dict as the data of an experiment of any kind; its JSON Schema."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from varsim.core.schema import Model, field_docstrings
from varsim.scenario.document import MappingNode, read_document
from varsim.scenario.fault import Fault, ScenarioError, Source
from varsim.scenario.loading import load_text, read_text

if TYPE_CHECKING:
    from varsim.scenario.plan import Question
    from varsim.scenario.space import Sweep
    from varsim.scenario.training import Scenario
    from varsim.scenario.variables import VariablesScenario

_NUMBER = {"type": ["number", "string"]}
_RANGE = {
    "type": "object",
    "properties": {
        "from": _NUMBER,
        "to": _NUMBER,
        "step": _NUMBER,
        "points": {"type": "integer", "minimum": 2},
        "spacing": {"enum": ["linear", "log"]},
    },
    "required": ["from", "to"],
    "additionalProperties": False,
}
_AXIS = {
    "description": "a path of the scenario, and the values it takes: a list, or a range",
    "anyOf": [{"type": "array", "minItems": 1}, _RANGE],
}
_ZIP = {"type": "object", "additionalProperties": _AXIS, "minProperties": 2}
_COMPARISON = {"type": "string", "examples": ["cluster.parameter_servers <= cluster.workers"]}
_PATHS: dict[str, Any] = {
    "zip": {"anyOf": [_ZIP, {"type": "array", "items": _ZIP}]},
    "where": {"anyOf": [_COMPARISON, {"type": "array", "items": _COMPARISON}]},
}


def file_schema() -> dict[str, Any]:
    """The JSON Schema of a file, for editors: a scenario of training or of variables.

    With what a sweep or a plan of training may say.
    """
    from varsim.scenario.plan import Block
    from varsim.scenario.sweep import Settings

    schema = _schema_of_scenarios()
    many = "many scenarios from one: run it with varsim sweep"
    sweep = {**Settings.model_json_schema(), "description": many, "additionalProperties": _AXIS}
    sweep["properties"] |= _PATHS
    plan = Block.model_json_schema()
    plan["properties"] |= {
        "where": _PATHS["where"],
        "space": {
            "description": "paths of the scenario, each with its values",
            "type": "object",
            "properties": {"zip": _PATHS["zip"]},
            "additionalProperties": _AXIS,
        },
    }
    schema["$defs"]["Scenario"]["properties"] |= {"sweep": sweep, "plan": plan}
    return schema


def _schema_of_scenarios() -> dict[str, Any]:
    from varsim.scenario.training import Scenario
    from varsim.scenario.variables import VariablesScenario

    kinds: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        (model, "validation") for model in (Scenario, VariablesScenario)
    ]
    places, schema = models_json_schema(kinds)
    _describe(schema["$defs"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Scenario of varsim",
        "oneOf": [places[kind] for kind in kinds],
        "$defs": _tidied(schema["$defs"]),
    }


def _describe(definitions: dict[str, Any]) -> None:
    """Give every key the docstring of its field."""
    models = [Model]
    for model in models:
        models += model.__subclasses__()
        definition = definitions.get(model.__name__, {})
        for form in (definition, *definition.get("anyOf", ())):  # a name may stand for one
            for key, described in form.get("properties", {}).items():
                if text := field_docstrings(model).get(key):
                    described.setdefault("description", text)


def _tidied(schema: object) -> object:
    """The schema without the bounds that pydantic leaves beside the `anyOf` of a quantity."""
    if isinstance(schema, list):
        return [_tidied(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    strays = ("gt", "ge", "lt", "le") if "anyOf" in schema else ()
    return {key: _tidied(item) for key, item in schema.items() if key not in strays}


# A path; a text of at least one line; or what such a text says, as a dict.
ScenarioSource: TypeAlias = str | Path | Mapping[str, Any]
Loaded: TypeAlias = "Scenario | VariablesScenario | Sweep | Question"

_NAME: Final = "scenario"  # of what comes from no file


class Document(NamedTuple):
    """Text of a scenario, its name in errors, and the folder of its files.

    `seen`: whether the user wrote the text, so that errors may show its lines.
    """

    text: str
    name: str = _NAME
    folder: Path = Path()
    seen: bool = True

    @classmethod
    def of(cls, given: ScenarioSource) -> "Document":
        """Document of a path, text or dict; ScenarioError where it cannot be read."""
        if isinstance(given, Mapping):
            try:
                return cls(json.dumps(given, indent=1, allow_nan=False, default=dict), seen=False)
            except (TypeError, ValueError) as error:
                why = f"not made of mappings, lists, texts and numbers: {error}"
                raise ScenarioError([Fault(Source(_NAME), 0, 0, why)]) from None
        if isinstance(given, str) and "\n" in given:
            return cls(given)
        path = Path(given)
        return cls(read_text(path), str(path), path.parent)

    @contextmanager
    def read(self) -> Iterator[None]:
        """It is read meanwhile: errors are without lines where the user did not write them."""
        try:
            yield
        except ScenarioError as error:
            if not self.seen:
                problems = [replace(one, line=0) for one in error.problems]
                raise ScenarioError(problems, error.left_out) from None
            raise error from None


def load(
    given: ScenarioSource | Document, sets: Sequence[str] = (), strategies: Sequence[str] = ()
) -> Loaded:
    """A scenario of training or of variables, or a sweep or plan where there is a block of one.

    Each of `sets` is `key.path=value`, as after `--set`. `strategies`: only those of these kinds or
    labels; by default all. Raises ScenarioError with everything that is wrong, each with its place.
    """
    document = given if isinstance(given, Document) else Document.of(given)
    text, name, folder, _ = document
    with document.read():
        root, _ = read_document(text, Source(name))
        blocks = root.keys if isinstance(root, MappingNode) else {}
        if "sweep" in blocks:
            from varsim.scenario.sweep import sweep_of_text

            return sweep_of_text(text, name, folder, sets, strategies=strategies)
        if "plan" in blocks:
            from varsim.scenario.plan import question_of_text

            return question_of_text(text, name, folder, sets, strategies=strategies)
        return load_text(text, name, folder, sets, strategies)
