"""Provenance of results: hashes and versions by which they are compared; JSON."""

import hashlib
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from varsim.cluster.record.trace import Trace
from varsim.scenario.extensions import needs
from varsim.scenario.training import Scenario
from varsim.version import ENGINE_VERSION, SCHEMA_VERSION, __version__

if TYPE_CHECKING:
    from varsim.scenario.variables import VariablesScenario

MADE_BY: Final = "varsim"  # the key by which a summary.json is recognised
_ROWS: Final = ("spans", "gradients", "steps", "copy_staleness")


def provenance(scenario: "Scenario | VariablesScenario") -> dict[str, str | int]:
    """Hash of the resolved scenario, seed, and versions of package, schema and engine.

    And, where there is any, what it needs that is not varsim's own.
    """
    resolved = json.dumps(scenario.model_dump(mode="json"), sort_keys=True)
    return {
        "scenario_sha256": hashlib.sha256(resolved.encode()).hexdigest(),
        "seed": scenario.seed,
        "varsim": __version__,
        "schema": SCHEMA_VERSION,
        "engine": ENGINE_VERSION,
        **_needed(scenario),
    }


def provenance_of_many(scenarios: Sequence[Scenario]) -> dict[str, str | int]:
    """`provenance` of what comes of many scenarios, with what any of them needs."""
    made = provenance(scenarios[0]) | _needed(*scenarios)
    made.pop("scenario_sha256")
    return made


def _needed(*scenarios: "Scenario | VariablesScenario") -> dict[str, str]:
    said = dict.fromkeys(need.said for scenario in scenarios for need in needs(scenario))
    return {"needs": "; ".join(said)} if said else {}


def trace_sha256(trace: Trace) -> str:
    """SHA-256 of a trace: rows of integers, losses and bytes to the last bit.

    Statistics are left out, as their last digits depend on versions of libraries.
    """
    digest = hashlib.sha256()
    for name in _ROWS:
        rows = getattr(trace, name)
        digest.update(f"{name} {rows.shape}".encode())
        digest.update(rows.astype("<i8").tobytes())
    stuck = trace.standstill is not None
    losses = [tuple(map(float, row)) for row in trace.evaluations]
    links = [(link.name, float(link.bandwidth), float(link.moved)) for link in trace.links]
    rest = (trace.end, trace.global_step, trace.stopped_by, stuck, losses, links)
    digest.update(repr(rest).encode())
    if trace.model_lost:
        digest.update(b"model lost")
    if trace.life is not None:
        digest.update(trace.life.astype("<i8").tobytes())
    return digest.hexdigest()


def to_json(value: object) -> str:
    """JSON with a line per item, but lists of scalars on one line; nan is null, inf is text."""
    return _json(value, "") + "\n"


def _json(value: object, indent: str) -> str:
    deeper = indent + " "
    if isinstance(value, dict):
        items = [f"{deeper}{json.dumps(key)}: {_json(item, deeper)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}" if items else "{}"
    if isinstance(value, list | tuple):
        if any(isinstance(item, dict | list | tuple) or len(str(item)) > 40 for item in value):
            items = [deeper + _json(item, deeper) for item in value]
            return "[\n" + ",\n".join(items) + f"\n{indent}]"
        with suppress(ValueError):  # nan or inf inside: one by one
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
        return "[" + ", ".join(_json(item, deeper) for item in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return "null" if math.isnan(value) else json.dumps(str(value))
    return json.dumps(value, ensure_ascii=False)
