"""Enough to know whether two results may be compared."""

import hashlib
import json

from varsim import __version__
from varsim.scenario import SCHEMA_VERSION, Scenario
from varsim.trace import ENGINE_VERSION
from varsim.variables import VariablesScenario


def provenance(scenario: Scenario | VariablesScenario) -> dict[str, str | int]:
    """What was simulated, and by which version of what."""
    resolved = json.dumps(scenario.model_dump(mode="json"), sort_keys=True)
    return {
        "scenario_sha256": hashlib.sha256(resolved.encode()).hexdigest(),
        "seed": scenario.seed,
        "varsim": __version__,
        "schema": SCHEMA_VERSION,
        "engine": ENGINE_VERSION,
    }
