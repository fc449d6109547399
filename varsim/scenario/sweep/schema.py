"""The JSON Schema of a scenario file, with the block that makes a sweep of it."""

from typing import Any

from varsim.scenario.loading import scenario_schema

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
_BLOCK: dict[str, Any] = {
    "description": "many scenarios from one: run it with varsim sweep",
    "type": "object",
    "properties": {
        "zip": {"anyOf": [_ZIP, {"type": "array", "items": _ZIP}]},
        "where": {"anyOf": [_COMPARISON, {"type": "array", "items": _COMPARISON}]},
        "precision": {"type": "string", "examples": ["2 %"]},
        "most_replications": {"type": "integer", "minimum": 1, "maximum": 10_000},
    },
    "additionalProperties": _AXIS,
}
_SPACE = {
    "description": "paths of the scenario, each with its values",
    "type": "object",
    "properties": {"zip": _BLOCK["properties"]["zip"]},
    "additionalProperties": _AXIS,
}
_PLAN = {
    "description": "the least that reaches the targets: ask it with varsim plan",
    "type": "object",
    "properties": {
        "minimize": {"type": "string", "examples": ["cost_per_hour", "time_to_target"]},
        "space": _SPACE,
        "where": _BLOCK["properties"]["where"],
        "tolerance": {"type": "string", "examples": ["2 %"]},
        "most_replications": {"type": "integer", "minimum": 2},
        "trials": {"type": "integer", "minimum": 16},
    },
    "required": ["minimize"],
    "additionalProperties": False,
}


def file_schema() -> dict[str, Any]:
    """`scenario_schema`, with what a sweep or a plan may say."""
    schema = scenario_schema()
    schema["$defs"]["Scenario"]["properties"]["sweep"] = _BLOCK
    schema["$defs"]["Scenario"]["properties"]["plan"] = _PLAN
    return schema
