"""Every field that a scenario may have changes what comes out; none can be added without.

Fields are those of the JSON Schema. Scenarios are drawn, and for what is rarely drawn written here;
in each, whatever field nothing was seen of yet gets another value of its kind, until a run differs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel

from tests.building import DAY, NEEDED, declared, example, scenario
from tests.differential.recorded import digest
from tests.properties.drawing import drawn
from tests.seams import STRATEGIES, PaceError, Run, run_one
from varsim import Scenario, simulate

Content = dict[str, Any]

SCHEMA: Final = Scenario.model_json_schema()
CLASSES: Final = {**SCHEMA["$defs"], "Scenario": SCHEMA}

WIRE: Final = {"bandwidth": 1e4, "latency": 1e-3, "sharing": "fair"}
STAR: Final = {"kind": "star", "bandwidth": 2e4, "latency": 2e-3}
RACKS: Final = {**WIRE, "kind": "racks", "hosts_per_rack": 2, "oversubscription": 1.0}
FAST: Final = {"kind": "constant", "value": 0.1}
SLOW: Final = {"kind": "constant", "value": 0.3}
LAYERS: Final = ({"backward": 1.0, "size": 1e3}, {"backward": 2.0, "size": 1e3})
RESTART: Final = {"restart": 2.0}
SOURCE: Final = {"domain": "worker", "mtbf": 50.0, "repair": 5.0}

SHORT: Final = {"latency": 1e-4, "payload": 0.9}  # a protocol for short vectors
INSIDE: Final = {"bandwidth": 4e4, "latency": 1e-4}

# What every strategy says of its own fields: another value, or two settings that differ in it.
DECLARED: Final = {kind.__name__: kind.others for kind in STRATEGIES.values()}

# Values of fields of one name that are not found by themselves.
OTHERS: Final[dict[str, tuple[Any, ...]]] = {
    "on": ({"network": STAR},),
    "optimizer": ({"kind": "sgd", "learning_rate": 0.3},),
    "preset": ("10gbe", "25gbe", "llama3"),
    "staleness_policy": ({"kind": "inverse"}, {"kind": "drop_above", "staleness": 0}),
    "variable_averages": ({"decay": 0.5},),
    "drop_compute": ({"threshold": 0.3},),
    "partitioner": ({"kind": "fixed", "shards": 2}, {"kind": "fixed", "shards": 3}),
    "server_update": ({"rate": 1e4},),
    "segment_size": (100.0,),
    "shard_group": (2,),
    "of": ((SOURCE,), (SOURCE, SOURCE)),
    "lemons": ({"share": 0.9, "times": 5.0},),
    "mistaken": ({"share": 0.9, "again": 20.0},),
    "recorded": ({"failures": ((30.0, "worker", 0),), "repair": 5.0},),
    "spares": ({"hot": 1, "cold": 1, "swap": 2.0},),
    "loss": (0.2, 1e-3),
    "targets": ({"loss": 0.2},),
    "prices": ({"device_hour": 1.0},),
    "memory": ({"device": 1e9},),
    "goodput": (0.01,),
    "staleness_p99": (0.0,),
    "wasted": (0.0,),
    "step_time_p99": (0.01,),
    "time_to_loss": (1.0,),
    "throughput": (1e6,),
    "device": (1e9, 1.0, {"preset": "v100_sxm2"}),
    "server": (1e9, 1.0),
    "activations": (1e8,),
    "measure_after": (0.5,),
    "equal_within": (0.9,),
    "currency": ("EUR",),
    "protocols": ((SHORT,), ({**SHORT, "inside_latency": 1e-4},)),
    "compute": (SLOW,),
    "law": (SLOW, {"kind": "constant", "value": 60.0}),
    "fast": (SLOW,),
    "slow": (FAST,),
    "first": (SLOW,),
    "second": (FAST,),
    "network": (STAR,),
    "inside": ({**INSIDE, "bandwidth": 2e4},),
    "problem": ({"kind": "linear_regression"},),
    "model": ("mlp", "resnet50"),
    "stop": ({"global_steps": 2}, {"worker": 1}),
    "restart": ({"worker": 2},),
    "again": ({"kind": "constant", "value": 10.0},),
    "cluster": ({"workers": 2, "compute": FAST, "network": STAR},),
    "workload": (
        {
            "batch_size": 2,
            "problem": {"kind": "quadratic"},
            "optimizer": {"kind": "sgd", "learning_rate": 0.3},
        },
    ),
    "failures": ({"horizon": 300.0, "of": (SOURCE,)},),
}

# What says how something is called or where it came from, and changes nothing on purpose.
DESCRIPTIVE: Final = {
    "Scenario.name": "names the folder of the report",
    "Layer.name": "says which layer of a model it is",
    "MemoryLimits.exceeded": "says whether what does not fit is refused (tests/test_fitting.py)",
    "MeasuredTimes.file": "is read into `seconds`, or says where they came from (see below)",
    "RecordedFailures.domain": "is read into `failures` with the file, and refused without one",
    "RecordedFailures.file": "is read into `failures`, or says where they came from",
    "Single.on": "is refused: a single worker uses no network and no servers",
    **{
        f"{kind.__name__}.name": "tells strategies of one kind apart in tables and plots"
        for kind in STRATEGIES.values()
    },
}

# Parts of which only the result tells, no single run.
OF_RESULTS: Final = ("targets", "prices", "report", "memory", "replications")


def mirrored(**more: Any) -> Content:
    return {"strategy": {"kind": "on_write"}, "network": WIRE, **more}


def served(**more: Any) -> Content:
    return {
        "strategy": {"kind": "none"},
        "network": WIRE,
        "problem": {"kind": "linear_regression"},
        "cluster": {"workers": 4, "parameter_servers": 4, "placement": "round_robin"},
        "stop": {"global_steps": 12},
        **more,
    }


def timed(**law: Any) -> Content:
    return mirrored(cluster={"workers": 3, "compute": law}, stop={"global_steps": 20})


def mortal(**more: Any) -> Content:
    base = {
        "network": RACKS,
        "stop": {"global_steps": 6},
        "failures": {"horizon": 200.0, "detection": 1.0, "of": (SOURCE,)},
        "checkpoint": {"every": 10.0, "write": 1.0},
        "recovery": RESTART,
    }
    return mirrored(**base | more)


def failing(source: Content, **more: Any) -> Content:
    """A mortal job whose failures are such, besides."""
    of = {key: value for key, value in {**SOURCE, **source}.items() if value is not None}
    return mortal(failures={"horizon": 200.0, "of": (of,)}, **more)


# Scenarios of what is drawn rarely, or never.
WRITTEN: Final[tuple[Content, ...]] = (
    *(
        mirrored(
            strategy=example(kind, 3),
            stop={"global_steps": 20},
            cluster={"compute": {"kind": "exponential", "mean": 0.1}},
        )
        for kind in STRATEGIES
    ),
    *(
        served(strategy=example(kind, 4))
        for kind in STRATEGIES
        if declared(example(kind, 4)).sends.to == "servers"
    ),
    timed(kind="uniform", low=0.05, high=0.15),
    timed(kind="gamma", mean=0.1, shape=2.0),
    timed(kind="weibull", mean=0.1, shape=2.0),
    timed(kind="gumbel", location=0.1, scale=0.02),
    timed(kind="shifted_exponential", minimum=0.05, mean=0.1),
    timed(kind="lognormal", mean=0.2, median=0.1),
    timed(kind="stages", first=FAST, works=0.5, second=SLOW),
    timed(kind="markov", fast=FAST, slow=SLOW, to_slow=0.4, to_fast=0.4),
    timed(kind="correlated", law=FAST, step=0.1, node=0.1, workers_per_node=2),
    timed(kind="mixture", components=({"weight": 1.0, "law": FAST}, {"weight": 1.0, "law": SLOW})),
    timed(kind="batch_curve", fixed=0.1, per_example=0.05, sigma=0.1),
    mirrored(replications=2, cluster={"compute": {"kind": "uniform", "low": 0.08, "high": 0.12}}),
    mirrored(
        replications=2,
        strategies=({"kind": "on_write"}, {"kind": "backup_workers", "replicas_to_aggregate": 2}),
        report={"measure_after": 0.0},
    ),
    mirrored(targets={"loss": 0.2, "time_to_loss": 1.0}),
    *(
        mirrored(
            cluster={"workers": 2},
            network={"kind": kind, **WIRE, **NEEDED[kind], "protocols": (SHORT | more,)},
        )
        for kind, more in (("star", {}), ("nodes", {"inside_latency": 1e-4}))
    ),
    served(prices={"device_hour": 1.0, "server_hour": 1.0, "gigabyte": 1.0}),
    served(memory={"device": 1e9, "server": 1e9, "activations": 1e8}),
    *(
        mirrored(
            strategy=example(kind, 4) | getattr(other, "one", {}),
            cluster={"workers": 4, "compute": {"kind": "exponential", "mean": 0.1}},
            stop={"global_steps": 12},
            workload={"layers": LAYERS} | ({"optimizer": None} if "optimizer" in other.one else {}),
        )
        for kind, model in STRATEGIES.items()
        for other in model.others.values()
        if hasattr(other, "one")
    ),
    *(
        mirrored(
            network={"kind": kind, "preset": "10gbe", "latency": 1e-3, **more},
            workload={"model": "resnet50"},
        )
        for kind, more in (
            ("star", {}),
            ("full_mesh", {}),
            ("racks", {"hosts_per_rack": 2, "oversubscription": 4.0}),
            ("nodes", {"workers_per_node": 2, "inside": {"preset": "10gbe", "latency": 1e-4}}),
        )
    ),
    *(
        mirrored(
            strategy={**example(kind, 3), "optimizer": {"kind": "sgd", "learning_rate": 0.1}},
            workload={"optimizer": None},
        )
        for kind in ("single", "on_read", "local_sgd")
    ),
    served(strategy={"kind": "none", "on": {"network": STAR, "parameter_servers": 2}}),
    served(
        strategy={
            "kind": "none",
            "staleness_policy": {"kind": "delay_compensated", "variance_control": 0.5},
        }
    ),
    mirrored(
        strategy={
            "kind": "sync_replicas",
            "replicas_to_aggregate": 2,
            "variable_averages": {"decay": 0.9},
        }
    ),
    mirrored(problem={"kind": "digits", "model": "softmax"}),
    mirrored(
        cluster={"compute": None, "device": {"preset": "a100_sxm_80gb"}},
        workload={"model": "resnet50", "batch_size": 32},
    ),
    mirrored(
        strategy={"kind": "on_write", "overlap": True},
        cluster={"overlap_pace": 0.5},
        network={**WIRE, "bandwidth": 1e9},
        workload={"model": "resnet50"},
    ),
    mirrored(
        strategy=example("sync_replicas", 3),
        events=(
            {"at": 0.15, "kill": {"worker": 1}},
            {"at": 0.15, "kill": {"worker": 2}},
            {"at": 0.3, "restart": {"worker": 1}},
        ),
        stop={"global_steps": 9},
    ),
    mirrored(
        strategy=example("sync_replicas", 3),
        events=({"at": 0.15, "stop": "chief"},),
        stop={"global_steps": 9},
    ),
    mortal(),
    mortal(targets={"goodput": 0.5}),
    mortal(
        checkpoint={
            "every": 10.0,
            "write": 1.0,
            "mode": "asynchronous",
            "snapshot": 0.5,
            "slowdown": 0.5,
            "restore": 1.0,
        }
    ),
    mortal(checkpoint={"every": 10.0, "storage": 100.0}),
    failing({"lemons": {"share": 0.9, "times": 5.0}, "mistaken": {"share": 0.9, "again": 20.0}}),
    failing({"mtbf": None, "per_day": 1500.0}),
    failing({"mtbf": None, "law": {"kind": "weibull", "mean": 50.0, "shape": 0.7}}),
    failing({"mtbf": None, "preset": "llama3"}),
    mortal(
        failures={
            "horizon": 200.0,
            "recorded": {"failures": ((30.0, "worker", 0), (60.0, "worker", 1)), "repair": 5.0},
        }
    ),
    failing({"repair": 100.0}, recovery=RESTART | {"spares": {"hot": 1, "cold": 1, "swap": 2.0}}),
    failing(
        {"repair": 100.0},
        recovery=RESTART | {"policy": "continue_with_fewer", "fewest": 1},
        network={"bandwidth": 1e4, "latency": 1e-3},
    ),
)


# Of keys of which only one can be given: two scenarios that differ in no other.
SHOWN: Final = {
    "ProcessEvent.stop": [
        mirrored(strategy=example("sync_replicas"), events=({"at": 0.15, how: "chief"},))
        for how in ("stop", "kill")
    ],
    "FailureSource.preset": [
        mortal(failures={"horizon": 10 * DAY, "of": ({"domain": "worker", **often},)})
        for often in ({"preset": "llama3"}, {"mtbf": DAY})
    ],
}


def another(owner: str, name: str, value: Any) -> Iterator[Any]:
    """Other values of a field, most of which it may have."""
    spec = CLASSES[owner]["properties"].get(name, {})
    yield from OTHERS.get(name, ())
    if name in DECLARED.get(owner, {}):
        other = DECLARED[owner][name]
        yield getattr(other, "other", {name: other}).get(name)
    if value is None:
        value = spec.get("default")
    yield from (one for one in choices(spec) if one != value)
    match value:
        case bool():
            return
        case int():
            yield from (value + 1, 2 * value, value - 1)
        case float():
            yield from (1.5 * value, value / 2, value + 1.0, value + 0.1)
        case tuple():
            yield from (value[:-1], (*value, *value[:1]))
        case BaseModel():
            yield None


def choices(spec: Any) -> Iterator[Any]:
    """The values that a schema lists."""
    yield from spec.get("enum", ())
    if "const" in spec:
        yield spec["const"]
    if spec.get("type") == "boolean":
        yield from (True, False)
    for part in (*spec.get("anyOf", ()), *spec.get("oneOf", ())):
        yield from choices(part)


def places(model: BaseModel, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, str, Any, Any]]:
    """Of every field of a scenario: the class and name, where it stands, and its value."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        yield type(model).__name__, name, (*path, name), value
        if isinstance(value, BaseModel):
            yield from places(value, (*path, name))
        elif isinstance(value, tuple):
            for index, one in enumerate(value):
                if isinstance(one, BaseModel):
                    yield from places(one, (*path, name, index))


def put(content: Any, path: Sequence[Any], value: Any) -> Any:
    """The content of a scenario with another value at a place; without the key for None."""
    if not path:
        return value
    key, *rest = path
    if isinstance(content, tuple):
        return (*content[:key], put(content[key], rest, value), *content[key + 1 :])
    new = {**content, key: put(content.get(key) or {}, rest, value)}
    return {one: held for one, held in new.items() if one != key or held is not None}


def outcome(content: Content, part: str) -> object:
    """What a run makes, or what is said of it for a part that only results show; None if refused.

    Lives can be refused once the steps are known that they are made of.
    """
    try:
        made = Scenario.model_validate(content)
        if part not in OF_RESULTS:
            return digest(run_one(Run(made, 0, 0)))
    except (ValueError, AttributeError, PaceError):
        return None
    result = simulate(made)
    return result.summary.to_csv(), str(result.judgements), result.notes, result.table().to_csv()


@pytest.mark.timeout(900)
def test_every_field_matters() -> None:
    names = {
        f"{owner}.{name}" for owner, of in CLASSES.items() for name in of.get("properties", ())
    }
    left = {name for name in names if not name.endswith(".kind")} - {*DESCRIPTIVE, *SHOWN}
    assert len(left) > 300
    for made in (*(scenario(**one) for one in WRITTEN), *map(drawn, range(150))):
        if not left:
            break
        content = made.model_dump(exclude_unset=True)
        seen: dict[str, object] = {}
        for owner, name, path, value in places(made):
            if f"{owner}.{name}" not in left:
                continue
            part = path[0] if path[0] in OF_RESULTS else ""
            for other in another(owner, name, value):
                if part not in seen:
                    seen[part] = outcome(content, part)
                if outcome(put(content, path, other), part) not in (None, seen[part]):
                    left.discard(f"{owner}.{name}")
                    break
    assert left == set(), sorted(left)


def test_one_of_some_keys_is_not_another() -> None:
    for one, other in SHOWN.values():
        assert outcome_of(scenario(**one)) != outcome_of(scenario(**other))


def outcome_of(made: Scenario) -> object:
    found = outcome(made.model_dump(exclude_unset=True), "")
    assert found is not None
    return found


def test_names_change_nothing_but_the_label() -> None:
    for kind in STRATEGIES:
        plain, named = (
            scenario({**example(kind), **name}, network=WIRE, **name)
            for name in ({}, {"name": "other"})
        )
        one, other = (digest(run_one(Run(made, 0, 0))) for made in (plain, named))
        assert (one["strategy"], other["strategy"]) == (kind, "other")
        assert {**one, "strategy": ""} == {**other, "strategy": ""}
    assert simulate(plain).provenance != simulate(named).provenance


def test_step_times_from_a_file_matter(tmp_path: Path) -> None:
    seen = []
    for seconds in ("0.1", "0.2"):
        path = tmp_path / f"{seconds}.csv"
        path.write_text(f"worker,seconds\n0,{seconds}\n")
        made = scenario(**timed(kind="trace", file=str(path)))
        seen.append(digest(run_one(Run(made, 0, 0))))
    assert seen[0] != seen[1]
