"""Enough to know whether two results may be compared."""

import hashlib
import json
from typing import Final

from varsim.scenario import SCHEMA_VERSION, Scenario
from varsim.trace import ENGINE_VERSION, Trace
from varsim.variables import VariablesScenario
from varsim.version import __version__


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


_ROWS: Final = ("spans", "gradients", "steps", "copy_staleness")


def trace_sha256(trace: Trace) -> str:
    """The hash of what was simulated: rows of integers, losses and bytes to the last bit.

    Nothing that statistics make of them: percentiles and intervals differ in their last digits
    between versions of libraries. Counters of how it was computed are left out, too.
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
    return digest.hexdigest()
