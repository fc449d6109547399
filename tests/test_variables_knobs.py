"""Every field that a scenario of variables may have changes what comes out, or is refused."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from tests.programs import MODES, WIRE, add, read, scenario, variable
from varsim import Scenario, VariablesResult, VariablesScenario, simulate_variables
from varsim.distribute.program import CROSS_REPLICA_ACTIONS, REPLICA_ACTIONS

Case = dict[str, Any]

# Bytes take time, and so does compute.
COMPUTING: Case = {
    "workers": 3,
    "compute": {"kind": "exponential", "mean": 1e-3},
    "parameter_servers": 2,
    "network": WIRE,
}
COMPUTE = {"kind": "compute"}
LARGE = variable(shape=(1000,), aggregation="mean")
OTHER = {**LARGE, "name": "w"}
TO_OTHER = {**add(1.0), "variable": "w"}


def case(*replicas: Any, outside: tuple[Any, ...] = (read(),), **changes: Any) -> Case:
    """Two steps in all modes: what replicas do, then a read from outside."""
    return {"steps": 2, "replicas": replicas, "outside": outside, **changes}


def full(**changes: Any) -> Case:
    """Two variables on two servers, random compute times."""
    cluster = {**COMPUTING, **changes.pop("cluster", {})}
    whole = {"variables": (LARGE, OTHER), "cluster": cluster, **changes}
    return case(COMPUTE, add(1.0, 2.0, 3.0), TO_OTHER, **whole)


def network(**changes: Any) -> Case:
    return full(cluster={"network": {**WIRE, **changes}})


def of_variable(**changes: Any) -> Case:
    return case(add(3.0, 1.0, 2.0), read(), variables=(variable(**changes),))


def of_line(**changes: Any) -> Case:
    return case({**add(3.0, 1.0, 2.0), **changes}, read(), steps=4)


def moving(**changes: Any) -> Case:
    line = {"kind": "moving_average", "variable": "v", "value": 4.0, "momentum": 0.5, **changes}
    return case(line, variables=(variable(aggregation="mean"),), steps=4)


def outside(**changes: Any) -> Case:
    line = {"kind": "read", "variable": "v", **changes}
    return case(add(1.0), outside=(line,), steps=4, modes=("on_read", "none"))


SLOW = {"rank": 1, "factor": 2.0}

# Class.field: two scenarios that differ in that field only, and whose traces must differ.
KNOBS: dict[str, tuple[Case, Case]] = {
    "VariablesScenario.seed": (full(seed=1), full(seed=2)),
    "VariablesScenario.replications": (full(replications=1), full(replications=2)),
    "VariablesScenario.cluster": (full(), full(cluster={"network": {**WIRE, "latency": 1e-3}})),
    "VariablesScenario.variables": (of_variable(), of_variable(initial=1.0)),
    "VariablesScenario.modes": (full(modes=("none", "on_read")), full(modes=("none", "on_write"))),
    "VariablesScenario.cross_device_ops": (full(), full(cross_device_ops="hierarchical_copy")),
    "VariablesScenario.program": (full(steps=2), full(steps=3)),
    "VariablesScenario.vary": (
        full(vary={"reads_per_write": (0, 1)}), full(vary={"reads_per_write": (0, 2)}),
    ),
    "ReplicaCluster.workers": (case(add(1.0)), case(add(1.0), cluster={
        "workers": 4, "network": WIRE})),
    "ReplicaCluster.compute": (full(), full(cluster={"compute": {"kind": "constant", "value": 1}})),
    "ReplicaCluster.slow_workers": (full(), full(cluster={"slow_workers": (SLOW,)})),
    "ReplicaCluster.parameter_servers": (full(), full(cluster={"parameter_servers": 1})),
    "ReplicaCluster.network": (full(), network(bandwidth=2e6)),
    "SlowWorker.rank": (
        full(cluster={"slow_workers": (SLOW,)}),
        full(cluster={"slow_workers": ({**SLOW, "rank": 0},)}),
    ),
    "SlowWorker.factor": (
        full(cluster={"slow_workers": (SLOW,)}),
        full(cluster={"slow_workers": ({**SLOW, "factor": 3.0},)}),
    ),
    "SlowWorker.after": (
        full(cluster={"slow_workers": (SLOW,)}),
        full(cluster={"slow_workers": ({**SLOW, "after": 1e-3},)}),
    ),
    "SlowWorker.until": (
        full(cluster={"slow_workers": (SLOW,)}),
        full(cluster={"slow_workers": ({**SLOW, "until": 1e-2},)}),
    ),
    "Star.preset": (
        full(cluster={"network": {"preset": "10gbe", "latency": 1e-4}}),
        full(cluster={"network": {"preset": "25gbe", "latency": 1e-4}}),
    ),
    "Star.bandwidth": (network(), network(bandwidth=2e6)),
    "Star.latency": (network(), network(latency=2e-4)),
    "Star.server_bandwidth": (network(), network(server_bandwidth=1e5)),
    "Star.efficiency": (network(), network(efficiency=0.5)),
    "Star.sharing": (network(), network(sharing="first_come")),
    "Star.slow_links": (network(), network(slow_links=(SLOW,))),
    "SlowLink.rank": (network(slow_links=(SLOW,)), network(slow_links=({**SLOW, "rank": 2},))),
    "SlowLink.factor": (
        network(slow_links=(SLOW,)), network(slow_links=({**SLOW, "factor": 4.0},)),
    ),
    "VariableDescription.shape": (of_variable(), of_variable(shape=(2,))),
    "VariableDescription.dtype": (of_variable(), of_variable(dtype="float64")),
    "VariableDescription.initial": (of_variable(), of_variable(initial=1.0)),
    "VariableDescription.synchronization": tuple(
        case(add(1.0), TO_OTHER, modes=("on_read",),
             variables=(LARGE, {**OTHER, "synchronization": how}))
        for how in (None, "on_write")
    ),
    "VariableDescription.aggregation": (of_variable(), of_variable(aggregation="mean")),
    "Program.steps": (full(steps=2), full(steps=3)),
    "Program.replicas": (case(add(1.0)), case(add(2.0))),
    "Program.outside": (case(add(1.0)), case(add(1.0), outside=({"kind": "save"},))),
    "NormalElements.mean": tuple(
        of_line(value={"kind": "normal", "mean": mean, "standard_deviation": 1.0})
        for mean in (0.0, 1.0)
    ),
    "NormalElements.standard_deviation": tuple(
        of_line(value={"kind": "normal", "standard_deviation": spread}) for spread in (1.0, 2.0)
    ),
    "Compute.times": (full(), case({**COMPUTE, "times": 2}, add(1.0, 2.0, 3.0), TO_OTHER,
                                   variables=(LARGE, OTHER), cluster=COMPUTING)),
    "Compute.every": (full(), case({**COMPUTE, "every": 2}, add(1.0, 2.0, 3.0), TO_OTHER,
                                   variables=(LARGE, OTHER), cluster=COMPUTING)),
    **{
        f"{name}.{field}": (of_line(kind=kind), of_line(kind=kind, **{field: value}))
        for name, kind in (
            ("Assign", "assign"), ("AssignAdd", "assign_add"), ("AssignSub", "assign_sub"),
        )
        for field, value in (("times", 2), ("every", 2), ("value", 7.0))
    },
    **{
        f"{name}.variable": tuple(
            case(add(1.0), TO_OTHER, {"kind": kind, "variable": which, "value": 2.0},
                 variables=(LARGE, OTHER))
            for which in ("v", "w")
        )
        for name, kind in (
            ("Assign", "assign"), ("AssignAdd", "assign_add"), ("AssignSub", "assign_sub"),
        )
    },
    "MovingAverage.times": (moving(), moving(times=2)),
    "MovingAverage.every": (moving(), moving(every=2)),
    "MovingAverage.value": (moving(), moving(value=5.0)),
    "MovingAverage.momentum": (moving(), moving(momentum=0.6)),
    "MovingAverage.variable": tuple(
        case(add(1.0), TO_OTHER,
             {"kind": "moving_average", "variable": which, "value": 2.0, "momentum": 0.5},
             variables=(LARGE, OTHER))
        for which in ("v", "w")
    ),
    "Read.times": (outside(), outside(times=2)),
    "Read.every": (outside(), outside(every=2)),
    "Read.variable": tuple(
        case(add(1.0), TO_OTHER, outside=(read(), {"kind": "read", "variable": which}),
             variables=(LARGE, OTHER))
        for which in ("v", "w")
    ),
    "Save.times": tuple(case(add(1.0), outside=({"kind": "save", "times": n},)) for n in (1, 2)),
    "Save.every": tuple(case(add(1.0), outside=({"kind": "save", "every": n},)) for n in (1, 2)),
    "Restore.times": tuple(
        case(add(1.0), outside=({"kind": "save"}, {"kind": "restore", "times": n})) for n in (1, 2)
    ),
    "Restore.every": tuple(
        case(add(1.0), outside=({"kind": "save"}, {"kind": "restore", "every": n})) for n in (1, 2)
    ),
    "Vary.reads_per_write": (
        full(vary={"reads_per_write": (0, 1)}), full(vary={"reads_per_write": (0, 2)}),
    ),
}  # fmt: skip

# What says how something is called, and changes nothing on purpose.
DESCRIPTIVE = {
    "VariablesScenario.name": "names the folder of the report",
    "VariablesScenario.kind": "tells it from a scenario of training",
    "VariableDescription.name": "tells variables apart in lines of the program and in tables",
}

# What such a scenario refuses.
REFUSED: dict[str, Case] = {
    "Star.message_overhead": network(message_overhead=1e-3),
    "Star.flows": network(flows=1, flow_bandwidth=1e3),
    "Star.flow_bandwidth": network(flows=1, flow_bandwidth=1e3),
}


def observed(result: VariablesResult) -> list[object]:
    """All that was done, sent and seen, and what it took."""
    return [
        (trace.mode, trace.began, trace.end, trace.moved, trace.messages, trace.acts, trace.sent,
         trace.links, trace.views)
        for trace in result.traces
    ]  # fmt: skip


def outcome(case: Case) -> list[object]:
    return observed(simulate_variables(scenario(**case)))


def own_fields() -> list[str]:
    """The fields of the models that scenarios of training do not have, and of the cluster."""
    shared = ("SlowWorker", "Star", "SlowLink")
    known = [name for name in Scenario.model_json_schema()["$defs"] if name not in shared]
    schema = VariablesScenario.model_json_schema()
    every = {**schema["$defs"], "VariablesScenario": schema}
    return [
        f"{owner}.{name}"
        for owner, of in every.items()
        for name in of.get("properties", ())
        if owner not in known
    ]


def test_every_field_is_shown_to_matter() -> None:
    found = own_fields()
    kinds = {name for name in found if name.endswith(".kind") and name not in DESCRIPTIVE}
    assert len(found) > 60
    assert set(found) - kinds - {*KNOBS, *DESCRIPTIVE, *REFUSED} == set(), "fields without a pair"
    assert {*KNOBS, *DESCRIPTIVE} - set(found) == set(), "pairs for fields that do not exist"
    actions = {model.__name__ for model in (REPLICA_ACTIONS | CROSS_REPLICA_ACTIONS).values()}
    assert {name.removesuffix(".kind") for name in kinds} <= {*actions, "NormalElements", "Star"}


@pytest.mark.parametrize("field", REFUSED)
def test_a_field_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match="programs of variables go over a star without"):
        scenario(**REFUSED[field])


@pytest.mark.parametrize("field", KNOBS)
def test_a_field_changes_what_comes_out(field: str) -> None:
    one, other = KNOBS[field]
    assert outcome(one) != outcome(other)
    assert outcome(one) == outcome(one), "the same scenario gives the same result"


ACTIONS: dict[str, Callable[[str], Case]] = {
    "replicas": lambda kind: case(
        add(1.0),
        {
            "compute": COMPUTE,
            "read": read(),
            "moving_average": {"kind": kind, "variable": "v", "value": 2.0, "momentum": 0.5},
        }.get(kind, {"kind": kind, "variable": "v", "value": 2.0}),
        variables=(LARGE,),
        **({"cluster": {**COMPUTING, "parameter_servers": 1}} if kind == "compute" else {}),
    ),
    "outside": lambda kind: case(
        add(1.0),
        outside=(
            {"kind": "save", "every": 2},
            {
                "read": read(),
                "save": {"kind": "save"},
                "restore": {"kind": "restore", "every": 2},
            }.get(kind, {"kind": kind, "variable": "v", "value": 2.0}),
        ),
        variables=(LARGE,),
    ),
}


@pytest.mark.parametrize(
    ("part", "table"), [("replicas", REPLICA_ACTIONS), ("outside", CROSS_REPLICA_ACTIONS)]
)
def test_every_kind_of_action_is_its_own(part: str, table: dict[str, type]) -> None:
    seen = [outcome(ACTIONS[part](kind)) for kind in table]
    assert len(seen) == 6
    assert all(one not in seen[:index] for index, one in enumerate(seen))


@pytest.mark.parametrize("algorithm", ["hierarchical_copy", "reduction_to_one_device"])
def test_every_algorithm_is_its_own(algorithm: str) -> None:
    four = {"workers": 4, "network": WIRE}
    made = case(add(1.0), variables=(LARGE,), cluster=four, modes=("on_write",))
    outcomes = [outcome({**made, "cross_device_ops": kind}) for kind in ("ring", algorithm)]
    assert outcomes[0] != outcomes[1]


def test_every_mode_is_its_own() -> None:
    made = case(add(1.0), variables=(LARGE,))
    seen = [outcome({**made, "modes": (mode,)}) for mode in MODES]
    assert seen[0] != seen[1] != seen[2] != seen[0]


def test_names_change_nothing() -> None:
    assert outcome(case(add(1.0), name="one")) == outcome(case(add(1.0), name="other"))
    renamed = case(
        {**add(1.0), "variable": "other"}, outside=({"kind": "read", "variable": "other"},),
        variables=(variable(name="other"),),
    )  # fmt: skip
    one, other = (simulate_variables(scenario(**each)) for each in (case(add(1.0)), renamed))
    assert [trace.end for trace in one.traces] == [trace.end for trace in other.traces]


IDLE: dict[str, Case] = {
    "modes where every variable has its own": case(
        add(1.0), variables=(variable(synchronization="on_read"),)
    ),
    "compute times of a program that does not compute": case(
        add(1.0), cluster={"workers": 3, "network": WIRE,
                           "compute": {"kind": "constant", "value": 1.0}},
    ),
    "slow workers of a program that does not compute": case(
        add(1.0), cluster={"workers": 3, "network": WIRE, "slow_workers": (SLOW,)}
    ),
    "servers that no mode uses": full(modes=("on_read", "on_write")),
    "server links that no mode uses": case(
        add(1.0), modes=("on_read",),
        cluster={"workers": 3, "network": {**WIRE, "server_bandwidth": 1e5}},
    ),
    "more servers than variables": case(
        add(1.0), cluster={"workers": 3, "network": WIRE, "parameter_servers": 2}
    ),
    "an algorithm where nothing is reduced": case(
        add(1.0), modes=("on_read", "none"), cross_device_ops="reduction_to_one_device"
    ),
    "an algorithm for one replica": case(
        add(1.0), cross_device_ops="hierarchical_copy", cluster={"workers": 1, "network": WIRE}
    ),
    "an algorithm for int32": case(
        add(1.0), cross_device_ops="hierarchical_copy", variables=(variable(dtype="int32"),)
    ),
    "replications of what is not random": case(add(1.0), replications=2),
    "a variable that is not used": case(add(1.0), variables=(variable(), OTHER)),
    "a moving average of whole numbers": moving() | {"variables": (variable(dtype="int64"),)},
    "an action that never happens": case(add(1.0, every=3)),
    "how often the read is repeated, which is varied": case(
        add(1.0), outside=(read(times=2),), vary={"reads_per_write": (0, 1)}
    ),
    "a window without length": full(
        cluster={"slow_workers": ({**SLOW, "after": 1.0, "until": 1.0},)}
    ),
    "a rank that is not there": full(cluster={"slow_workers": ({**SLOW, "rank": 3},)}),
}  # fmt: skip


@pytest.mark.parametrize("name", IDLE)
def test_a_field_without_effect_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        scenario(**IDLE[name])


def test_what_is_refused_there_is_taken_where_it_counts() -> None:
    """So that a case above is not refused for another reason."""
    scenario(**full())
    scenario(**case(add(1.0), cross_device_ops="hierarchical_copy"))
    scenario(**case(add(1.0), outside=(read(),), vary={"reads_per_write": (0, 1)}))
    scenario(**moving())
