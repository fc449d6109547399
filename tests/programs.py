"""Small scenarios of variables for tests, on a cluster whose times can be added up by hand.

A link carries 1 MB/s, so a byte takes 1 us; the latency is 100 us.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.seams import ProgramTrace
from varsim import VariablesScenario
from varsim.cluster.program import run_program
from varsim.distribute.program import Program, VariableDescription
from varsim.distribute.program_run import (
    CROSS_REPLICA,
    ActionRecord,
    ProgramRun,
    ValueSummary,
)
from varsim.distribute.program_run import Mode as Mode
from varsim.values.operation import finish
from varsim.values.stream import stream

MODES: tuple[Mode, ...] = ("on_read", "on_write", "none")
WIRE = {"bandwidth": 1e6, "latency": 1e-4}
LATENCY = 100
US = 1_000  # ns

Line = Mapping[str, Any]


def add(*values: float, **changes: Any) -> dict[str, Any]:
    """A replica's assign_add to v: one value for all, or one for each."""
    value = values[0] if len(values) == 1 else values
    return {"kind": "assign_add", "variable": "v", "value": value, **changes}


def read(**changes: Any) -> dict[str, Any]:
    """A read of v."""
    return {"kind": "read", "variable": "v", **changes}


def variable(**changes: Any) -> dict[str, Any]:
    """v: one number of float32, summed."""
    return {"name": "v", "aggregation": "sum", **changes}


def scenario(
    replicas: Sequence[Line] = (),
    outside: Sequence[Line] = (),
    *,
    steps: int = 1,
    cluster: Mapping[str, Any] | None = None,
    network: Mapping[str, Any] | None = None,
    **changes: Any,
) -> VariablesScenario:
    """Three replicas, v, all modes; the rest as given."""
    whole = {
        "kind": "variables",
        "name": "test",
        "cluster": {"workers": 3, "network": {**WIRE, **(network or {})}, **(cluster or {})},
        "variables": (variable(),),
        "modes": MODES,
        "program": {"steps": steps, "replicas": tuple(replicas), "outside": tuple(outside)},
    }
    return VariablesScenario.model_validate({**whole, **changes})


def trace(scenario: VariablesScenario, mode: Mode, replication: int = 0) -> ProgramTrace:
    """One run of the program as it is written."""
    return run_program(
        scenario.cluster,
        scenario.program,
        scenario.variables,
        mode,
        seed=scenario.seed,
        replication=replication,
        algorithm=scenario.cross_device_ops,
    )


def without_a_clock(
    program: Mapping[str, Any] | Program,
    variables: Sequence[Mapping[str, Any] | VariableDescription],
    mode: Mode,
    replicas: int = 3,
    servers: int = 1,
    seed: int = 0,
) -> ProgramRun:
    """A program that was carried out at once."""
    run = ProgramRun(
        Program.model_validate(program),
        [VariableDescription.model_validate(one) for one in variables],
        mode,
        replicas,
        servers,
        lambda replica: stream(seed, 0, "program", replica - CROSS_REPLICA),
    )
    finish(run.operation())
    return run


def number(glance: ValueSummary | None) -> float:
    """The one number of a value that was seen."""
    assert glance is not None
    assert glance.shape == ()
    return glance.first[0]


def seen(acts: Sequence[ActionRecord], kind: str = "read") -> list[tuple[int, int, float]]:
    """Step, replica and number of everything that was read (or saved)."""
    return [
        (act.step, act.replica, number(act.seen))
        for act in acts
        if act.kind == kind and act.seen is not None
    ]


def held(act: ActionRecord) -> list[float]:
    """The number in each copy when an act ended."""
    return [number(copy) for copy in act.copies]
