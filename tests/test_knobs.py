"""Every field that a scenario may have changes what comes out; none can be added without."""

import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from tests.building import example, run, scenario, slow
from tests.knob_cases import (
    CUT,
    DEVICE,
    FAST,
    MARKOV,
    MIRRORED,
    OF_STRATEGIES,
    OTHER_STAR,
    SERVED,
    SLOW,
    STRAGGLER,
    SYNCHRONOUS,
    WIRE,
    Case,
    kill,
    learning,
    problem,
    two,
    weights,
)
from tests.knobs_of_laws import OF_LAWS
from tests.knobs_of_lives import OF_LIVES
from tests.knobs_of_overlap import OF_OVERLAP
from tests.knobs_of_results import IN_THE_NOTES, IN_THE_RESULT
from tests.knobs_of_servers import OF_SERVERS
from tests.network_cases import NEEDED, NETWORK_KNOBS, WIRES
from tests.seams import STRATEGIES, Run, Trace, run_one
from varsim import Scenario, simulate
from varsim.cluster.partitioner import PARTITIONERS
from varsim.cluster.rows import Rows
from varsim.cluster.topology import TOPOLOGIES
from varsim.values.distributions import DISTRIBUTIONS
from varsim.values.optimizer import OPTIMIZERS
from varsim.values.problem import PROBLEMS
from varsim.values.schema import Model
from varsim.values.staleness import STALENESS_POLICIES
from varsim.values.table import Models

# Class.field: two scenarios that differ in that field only, and whose traces must differ.
KNOBS: dict[str, tuple[Case, ...]] = {
    "Scenario.seed": two({"strategy": "single", "problem": {"noise": 1.0}}, seed=(1, 2)),
    "Scenario.cluster": two(MIRRORED, cluster=({"workers": 2}, {"workers": 3})),
    "Scenario.workload": two(MIRRORED, workload=({"batch_size": 1}, {"batch_size": 2})),
    "Scenario.strategies": two(MIRRORED, strategy=("on_write", "none")),
    "Scenario.stop": two(MIRRORED, stop=({"global_steps": 2}, {"global_steps": 3})),
    "Cluster.workers": two(MIRRORED, cluster__workers=(2, 3)),
    "Cluster.device": two(
        DEVICE, cluster__device=({"preset": "a100_sxm_80gb"}, {"preset": "v100_sxm2"})
    ),
    "Cluster.compute": two(MIRRORED, cluster__compute=(FAST, SLOW)),
    "Cluster.slow_workers": two(STRAGGLER, cluster__slow_workers=((), (slow(1, 2.0),))),
    "Cluster.parameter_servers": two(SERVED, cluster__parameter_servers=(1, 2)),
    "Cluster.placement": two(SERVED, cluster__placement=("partitioned", "round_robin")),
    "Cluster.network": two(MIRRORED, network=(WIRE, OTHER_STAR)),
    "Cluster.overheads": two(SERVED, cluster__overheads=(None, {"pull": 1e-3})),
    "Overheads.first_iteration": two(SERVED, cluster__overheads__first_iteration=(0.01, 0.02)),
    "Overheads.pull": two(SERVED, cluster__overheads__pull=(1e-3, 2e-3)),
    "Overheads.push": two(SERVED, cluster__overheads__push=(1e-3, 2e-3)),
    "Overheads.wake": two(SERVED, cluster__overheads__wake=(1e-3, 2e-3)),
    "Overheads.commit": two(SYNCHRONOUS, cluster__overheads__commit=(1e-3, 2e-3)),
    "Overheads.message": two(MIRRORED, cluster__overheads__message=(1e-3, 2e-3)),
    "Overheads.payload": two(SERVED, cluster__overheads__payload=(1e4, 2e4)),
    "Overheads.reduction": two(MIRRORED, cluster__overheads__reduction=(1e4, 2e4)),
    "Device.preset": two(
        DEVICE, cluster__device=({"preset": "a100_sxm_80gb"}, {"preset": "v100_sxm2"})
    ),
    "Device.precision": two(
        DEVICE,
        cluster__device=(
            {"preset": "a100_sxm_80gb"},
            {"preset": "a100_sxm_80gb", "precision": "bf16"},
        ),
    ),
    "Device.measured": two(
        DEVICE,
        cluster__device=(
            {"preset": "a100_sxm_80gb", "precision": "bf16"},
            {"preset": "a100_sxm_80gb", "precision": "bf16", "measured": True},
        ),
    ),
    "Device.peak": two(DEVICE, cluster__device=({"peak": 1e13}, {"peak": 2e13})),
    "Device.efficiency": two(
        DEVICE, cluster__device=({"peak": 1e13}, {"peak": 1e13, "efficiency": 0.5})
    ),
    "Device.sigma": two(
        DEVICE, cluster__device=({"peak": 1e13, "sigma": 0.0}, {"peak": 1e13, "sigma": 0.1})
    ),
    **OF_LAWS,
    **OF_SERVERS,
    **OF_STRATEGIES,
    "DelayCompensated.variance_control": two(
        SERVED,
        strategy=tuple(
            {
                "kind": "none",
                "staleness_policy": {"kind": "delay_compensated", "variance_control": strength},
            }
            for strength in (0.1, 0.2)
        ),
    ),
    "DropAbove.staleness": two(
        SERVED,
        strategy=tuple(
            {"kind": "none", "staleness_policy": {"kind": "drop_above", "staleness": bound}}
            for bound in (0, 1)
        ),
    ),
    "SlowWorker.rank": two(
        {"strategy": "none"}, cluster__slow_workers=((slow(0, 2.0),), (slow(1, 2.0),))
    ),
    "SlowWorker.factor": two(
        STRAGGLER, cluster__slow_workers=((slow(0, 2.0),), (slow(0, 3.0),))
    ),
    "SlowWorker.after": two(
        STRAGGLER, cluster__slow_workers=((slow(0, 2.0),), (slow(0, 2.0, after=0.15),))
    ),
    "SlowWorker.until": two(
        STRAGGLER, cluster__slow_workers=((slow(0, 2.0),), (slow(0, 2.0, until=0.15),))
    ),
    **NETWORK_KNOBS,
    "Quadratic.dimension": problem("quadratic", dimension=(10, 20)),
    "Quadratic.condition_number": problem("quadratic", condition_number=(10.0, 20.0)),
    "Quadratic.noise": problem("quadratic", noise=(0.0, 1.0)),
    "Quadratic.distance": problem("quadratic", distance=(1.0, 2.0)),
    "LinearRegression.features": problem("linear_regression", features=(10, 11)),
    "LinearRegression.examples": problem("linear_regression", examples=(1000, 2000)),
    "LinearRegression.noise": problem("linear_regression", noise=(0.1, 0.2)),
    "Embedding.users": problem("embedding", users=(10, 11)),
    "Embedding.items": problem("embedding", items=(10, 11)),
    "Embedding.dimension": problem("embedding", dimension=(2, 3)),
    "Embedding.ratings": problem("embedding", ratings=(100, 200)),
    "Embedding.skew": problem("embedding", skew=(0.5, 1.0)),
    "Embedding.noise": problem("embedding", noise=(0.1, 0.2)),
    "Digits.model": problem("digits", model=("softmax", "mlp")),
    "Digits.hidden": problem("digits", {"model": "mlp"}, hidden=(8, 9)),
    "Timing.parts": two(
        {**SERVED, "workload": {"model": "resnet50", "optimizer": None}},
        problem=({"kind": "timing"}, {"kind": "timing", "parts": 4}),
    ),
    "Timing.size": two(
        {**SERVED, "workload": {"optimizer": None}},
        problem=({"kind": "timing", "size": 100.0}, {"kind": "timing", "size": 200.0}),
    ),
    "Workload.problem": two(MIRRORED, problem=({"noise": 0.0}, {"noise": 1.0})),
    "Workload.model": two(MIRRORED, workload__model=(None, "resnet50")),
    "Workload.batch_size": two(MIRRORED, workload__batch_size=(1, 2)),
    "Workload.optimizer": two(MIRRORED, optimizer__learning_rate=(0.1, 0.2)),
    "Workload.evaluate_every": two(MIRRORED, workload__evaluate_every=(1, 6)),
    "Workload.gradient_precision": two(MIRRORED, workload__gradient_precision=(None, "fp16")),
    "Workload.round_gradients": two(
        {**MIRRORED, "workload": {"gradient_precision": "bf16"}},
        workload=(
            {"gradient_precision": "bf16"},
            {"gradient_precision": "bf16", "round_gradients": True},
        ),
    ),
    "Workload.bytes_per_parameter": two(MIRRORED, workload__bytes_per_parameter=(4, 8)),
    "Sgd.learning_rate": learning("sgd", learning_rate=(0.1, 0.2)),
    "Momentum.learning_rate": learning("momentum", learning_rate=(0.1, 0.2)),
    "Momentum.momentum": learning("momentum", momentum=(0.9, 0.8)),
    "Momentum.nesterov": learning("momentum", nesterov=(False, True)),
    "Adam.learning_rate": learning("adam", learning_rate=(0.1, 0.2)),
    "Adam.beta1": learning("adam", beta1=(0.9, 0.8)),
    "Adam.beta2": learning("adam", beta2=(0.999, 0.9)),
    "Adam.epsilon": learning("adam", epsilon=(1e-8, 1e-3)),
    "Adam.form": learning("adam", epsilon=(1e-3, 1e-3), form=("tensorflow", "pytorch")),
    "Adagrad.learning_rate": learning("adagrad", learning_rate=(0.1, 0.2)),
    "Adagrad.initial_accumulator": learning("adagrad", initial_accumulator=(0.1, 0.2)),
    "RmsProp.learning_rate": learning("rmsprop", learning_rate=(0.1, 0.2)),
    "RmsProp.decay": learning("rmsprop", decay=(0.9, 0.8)),
    "RmsProp.momentum": learning("rmsprop", momentum=(0.0, 0.5)),
    "RmsProp.epsilon": learning("rmsprop", epsilon=(1e-10, 1e-2)),
    "ClusterChange.parameter_servers": two(
        {**SERVED, "cluster": {"workers": 4}},
        strategy=(
            {"kind": "none", "on": {"parameter_servers": 2}},
            {"kind": "none", "on": {"parameter_servers": 3}},
        ),
    ),
    "ClusterChange.placement": two(
        SERVED,
        strategy=(
            {"kind": "none", "on": {"placement": "partitioned"}},
            {"kind": "none", "on": {"placement": "by_bytes"}},
        ),
    ),
    "ClusterChange.network": two(
        SERVED,
        strategy=(
            {"kind": "none", "on": {"network": WIRE}},
            {"kind": "none", "on": {"network": OTHER_STAR}},
        ),
    ),
    "DiLoCo.outer_precision": two(
        {**MIRRORED, "strategy": {"kind": "diloco", "inner_steps": 2}},
        strategy__outer_precision=(None, "fp16"),
    ),
    "VariableAverages.decay": two(
        SYNCHRONOUS, strategy__variable_averages=({"decay": 0.5}, {"decay": 0.6})
    ),
    "VariableAverages.num_updates": two(
        SYNCHRONOUS,
        strategy__variable_averages=({"decay": 0.9}, {"decay": 0.9, "num_updates": True}),
    ),
    "Scenario.events": two(SYNCHRONOUS, events=((), (kill(0.3, 1),))),
    "ProcessEvent.at": two(SYNCHRONOUS, events=((kill(0.3, 1),), (kill(0.31, 1),))),
    "ProcessEvent.kill": two(
        SYNCHRONOUS, events=((kill(0.3, 1),), ({"at": 0.3, "kill": "chief"},))
    ),
    "ProcessEvent.restart": two(
        SYNCHRONOUS,
        events=(
            (kill(0.3, 1), kill(0.3, 2), {"at": 0.5, "restart": {"worker": 1}}),
            (kill(0.3, 1), kill(0.3, 2), {"at": 0.5, "restart": {"worker": 2}}),
        ),
    ),
    "ProcessEvent.stop": two(
        SYNCHRONOUS, events=(({"at": 0.3, "kill": "chief"},), ({"at": 0.3, "stop": "chief"},))
    ),
    "WorkerName.worker": two(SYNCHRONOUS, events=((kill(0.3, 1),), (kill(0.3, 2),))),
    "Stop.global_steps": two(MIRRORED, stop=({"global_steps": 2}, {"global_steps": 3})),
    "Stop.equal_examples": two(
        MIRRORED,
        strategies=(({"kind": "none"}, {"kind": "on_write"}),) * 2,
        stop=({"global_steps": 2}, {"global_steps": 2, "equal_examples": False}),
    ),
    "Stop.examples": two(MIRRORED, stop=({"examples": 6}, {"examples": 9})),
    "Stop.time": two(MIRRORED, stop=({"time": 0.5}, {"time": 0.6})),
    "Stop.loss": two(
        {**MIRRORED, "workload": {"evaluate_every": 3}},
        stop=({"global_steps": 9}, {"global_steps": 9, "loss": 0.2}),
    ),
}  # fmt: skip

KNOBS |= OF_OVERLAP | OF_LIVES

# What says how something is called or where it came from, and changes nothing on purpose.
DESCRIPTIVE = {
    "Scenario.name": "names the folder of the report",
    **{
        f"{model.__name__}.name": "tells strategies of one kind apart in tables and plots"
        for model in STRATEGIES.values()
    },
    "Layer.name": "says which layer of a model it is",
    "MemoryLimits.exceeded": "says whether what does not fit is refused (tests/test_fitting.py)",
    "MeasuredTimes.file": "is read into `seconds`, or says where they came from (see below)",
    "RecordedFailures.domain": "is read into `failures` with the file, and refused without one",
    "RecordedFailures.file": "is read into `failures`, or says where they came from (see below)",
}

# What can only be refused where it has no effect (see below).
REFUSED = {
    "Single.on": "a single worker uses no network and no servers",
}


def models(annotation: Any, metadata: Sequence[Any] = ()) -> Iterator[type[Model]]:
    """The models that a field may hold."""
    parts = (*typing.get_args(annotation), *metadata)
    if tables := [part for part in parts if isinstance(part, Models)]:
        yield from (model for table in tables for model in table.own.values())
        return
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield typing.cast("type[Model]", annotation)
    for part in parts:
        yield from models(part)


def fields(model: type[Model], seen: set[type[Model]]) -> Iterator[str]:
    """`Class.field` of a model and of all models below it."""
    seen.add(model)
    for name, field in model.model_fields.items():
        yield f"{model.__name__}.{name}"
        for part in models(field.annotation, field.metadata):
            if part not in seen:
                yield from fields(part, seen)


ALL_FIELDS = list(fields(Scenario, set()))
TABLES: dict[str, Mapping[str, type[Model]]] = {
    "law": DISTRIBUTIONS,
    "network": TOPOLOGIES,
    "partitioner": PARTITIONERS,
    "problem": PROBLEMS,
    "optimizer": OPTIMIZERS,
    "staleness policy": STALENESS_POLICIES,
    "strategy": STRATEGIES,
}


def build(case: Case) -> Scenario:
    case = dict(case)
    strategy = case.pop("strategy")
    return scenario({"kind": strategy} if isinstance(strategy, str) else strategy, **case)


def observed(trace: Trace) -> list[object]:
    """All that a trace holds but its label."""
    return [
        value.tolist() if isinstance(value, np.ndarray) else repr(value)
        for name in Trace.__slots__
        if name not in ("strategy", "heap_events")
        for held in [getattr(trace, name)]
        for value in [held.array() if isinstance(held, Rows) else held]
    ]


def outcome(case: Case) -> list[object]:
    return observed(run_one(Run(build(case), 0, 0)))


def test_every_field_is_shown_to_matter() -> None:
    shown = {*KNOBS, *IN_THE_RESULT, *IN_THE_NOTES, *DESCRIPTIVE, *REFUSED}
    kinds = {name for name in ALL_FIELDS if name.endswith(".kind")}

    assert len(ALL_FIELDS) > 100
    assert set(ALL_FIELDS) - kinds - shown == set(), "fields without a pair of scenarios"
    assert shown - set(ALL_FIELDS) == set(), "pairs for fields that do not exist"
    of_tables = {f"{model.__name__}.kind" for table in TABLES.values() for model in table.values()}
    assert kinds == of_tables


@pytest.mark.parametrize("field", KNOBS)
def test_a_field_changes_the_trace(field: str) -> None:
    one, other = KNOBS[field]

    assert outcome(one) != outcome(other)
    assert outcome(one) == outcome(one), "the same scenario gives the same trace"


@pytest.mark.parametrize("field", IN_THE_RESULT)
def test_a_field_changes_the_result(field: str) -> None:
    one, other = (simulate(build(case)) for case in IN_THE_RESULT[field])

    same = one.summary.equals(other.summary) and one.judgements == other.judgements
    assert not (same and one.table().equals(other.table()))


@pytest.mark.parametrize("field", IN_THE_NOTES)
def test_a_field_changes_the_notes(field: str) -> None:
    one, other = (simulate(build(case)) for case in IN_THE_NOTES[field])

    assert one.notes != other.notes


def test_names_change_nothing_but_the_label() -> None:
    plain = build(MIRRORED)
    for strategy in STRATEGIES:
        without = run(example(strategy), network=WIRE)
        named = run({**example(strategy), "name": "other"}, network=WIRE, name="elsewhere")
        assert (without.strategy, named.strategy) == (strategy, "other")
        assert observed(without) == observed(named)
    assert simulate(plain).provenance != simulate(build({**MIRRORED, "name": "x"})).provenance


def test_step_times_from_a_file_matter(tmp_path: Path) -> None:
    seen = []
    for name, seconds in (("one.csv", "0.1"), ("two.csv", "0.2")):
        path = tmp_path / name
        path.write_text(f"worker,seconds\n0,{seconds}\n")
        compute = {"kind": "trace", "file": str(path)}
        seen.append(outcome({**MIRRORED, "cluster": {"compute": compute}}))
    assert seen[0] != seen[1]


KINDS: dict[str, dict[str, Case]] = {
    "law": {
        "constant": {"value": 0.1},
        "uniform": {"low": 0.05, "high": 0.15},
        "normal": {"mean": 0.1, "std": 0.02},
        "exponential": {"mean": 0.1},
        "shifted_exponential": {"minimum": 0.05, "mean": 0.1},
        "lognormal": {"mean": 0.1, "sigma": 0.5},
        "gamma": {"mean": 0.1, "shape": 2.0},
        "weibull": {"mean": 0.1, "shape": 2.0},
        "pareto": {"minimum": 0.05, "alpha": 2.0},
        "gumbel": {"location": 0.1, "scale": 0.02},
        "mixture": {"components": weights(1.0, 1.0)},
        "stages": {"first": FAST, "works": 0.5, "second": SLOW},
        "markov": MARKOV,
        "correlated": {"law": FAST, "step": 0.1},
        "trace": {"seconds": ((0.1, 0.2),)},
        "phases": {"forward": 0.03, "backward": 0.08},
        "batch_curve": {"fixed": 0.1, "per_example": 0.05},
    },
    "network": {kind: {**WIRES, **needed} for kind, needed in NEEDED.items()},
    "partitioner": {
        "fixed": {"shards": 2},
        "min_size": {"size": 10.0, "max_shards": 3},
        "max_size": {"size": 5.0},
    },
    "problem": {kind: {} for kind in PROBLEMS},
    "optimizer": {kind: {"learning_rate": 0.1} for kind in OPTIMIZERS},
    "staleness policy": {
        "none": {},
        "inverse": {},
        "delay_compensated": {"variance_control": 0.5},
        "drop_above": {"staleness": 1},
    },
    "strategy": {kind: example(kind) for kind in STRATEGIES},
}


def of_kind(table: str, kind: str) -> Case:
    described = {"kind": kind, **KINDS[table][kind]}
    if table == "law":
        return {**MIRRORED, "cluster": {"compute": described}}
    if table == "partitioner":
        return two(CUT, cluster__partitioner=(described, None))[0]
    if table == "staleness policy":
        return {**SERVED, "strategy": {"kind": "none", "staleness_policy": described}}
    if table == "network":
        return {**SERVED, "network": described}
    if table == "strategy":
        unequal = {"kind": "exponential", "mean": 0.1}
        long = {"global_steps": 20}
        return {**MIRRORED, "strategy": described, "cluster": {"compute": unequal}, "stop": long}
    if kind == "timing":
        workload = {"model": "resnet50", "optimizer": None}
        return {**MIRRORED, "problem": described, "workload": workload}
    return {**MIRRORED, table: described, "stop": {"global_steps": 4}}


@pytest.mark.parametrize("table", TABLES)
def test_every_kind_of_a_table_is_its_own(table: str) -> None:
    seen = [outcome(of_kind(table, kind)) for kind in TABLES[table]]

    assert len(seen) == len(KINDS[table]) >= 3
    assert all(one not in seen[:index] for index, one in enumerate(seen))
