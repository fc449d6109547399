"""Every key that a scenario may have changes what comes out, and where it cannot it is refused.

One loop over the schema: `knobs.yaml` has a scenario for each way in which settings matter, and a
field is given other values there, one after the other: what another of these scenarios gives it,
another number, another choice, nothing. A field that is added to the schema is in the loop at once.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeGuard, cast, get_args, get_origin

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from tests.differential.recorded import digest
from tests.seams import (
    STRATEGIES,
    ProgramTrace,
    Run,
    VariablesScenario,
    load_text,
    run_one,
    simulate,
)
from varsim import Scenario, ScenarioError

Content = dict[str, Any]
Place = tuple[str | int, ...]
Loaded = Scenario | VariablesScenario

# Other values where no rule and no other scenario gives one, of a field or of all of that name.
OTHERS: Final[Mapping[str, Sequence[Any]]] = {
    "Device.preset": ["v100_sxm2"],
    "FailureSource.preset": ["rsc_1"],
    "Inside.preset": ["nvlink_3"],
    "MeasuredTimes.file": ["other.csv"],
    "MemoryLimits.activations": ["1e10 B"],
    "MemoryLimits.device": ["1 B"],
    "MemoryLimits.server": ["1 B"],
    "OnWrite.first_bucket_size": ["1500 B"],
    "RecordedFailures.domain": ["rack"],
    "RecordedFailures.file": ["later.csv"],
    "Reporting.equal_within": [0.1],
    "Workload.model": ["alexnet"],
    "message_overhead": ["0.002 s"],
    "on": [{"network": {"bandwidth": "20000 B/s", "latency": "0.001 s"}}],
    "optimizer": [{"kind": "sgd", "learning_rate": 0.2}],
    "preset": ["25gbe"],
    "protocols": [[{"latency": "0.0001 s", "payload": 0.9}]],
    "sharing": ["first_come"],
    "slow_links": [[{"rank": 1, "factor": 3.0}]],
    "variable": ["v", "w"],
}
# The files that scenarios name.
FILES: Final = {
    "times.csv": "worker,seconds\n0,0.1\n",
    "other.csv": "worker,seconds\n0,0.2\n",
    "failures.csv": "node,start_day,end_day\n1,0.0005,0.0006\n",
    "later.csv": "node,start_day,end_day\n1,0.0007,0.0008\n",
}
# What says how something is called, and changes nothing on purpose.
NAMES: Final = {
    "Layer.name",
    "Scenario.name",
    "VariableDescription.name",
    "VariablesScenario.name",
    *(f"{model.__name__}.name" for model in STRATEGIES.values()),
}
# What has no other value that is accepted: a choice that only refuses, a strategy that uses no
# network and no servers, and what has one value only (see KINDS).
ONE_VALUE: Final = {"MemoryLimits.exceeded", "Single.on", "ProcessEvent.stop"}
_POLICY: Final = "NoSynchronization.staleness_policy"
# Where every kind of a table is tried, and how many it has; timing goes with no optimizer.
KINDS: Final[Mapping[str, tuple[str, str, Place, int]]] = {
    "distributions": ("training", "Cluster.compute", ("cluster", "compute"), 17),
    "networks": ("training", "Cluster.network", ("cluster", "network"), 4),
    "partitioners": ("servers", "Cluster.partitioner", ("cluster", "partitioner"), 3),
    "problems": ("training", "Workload.problem", ("workload", "problem"), 4),
    "optimizers": ("training", "Workload.optimizer", ("workload", "optimizer"), 5),
    "policies": ("inverse", _POLICY, ("strategies", 0, "staleness_policy"), 4),
    "strategies": ("training", "Scenario.strategies", ("strategies", 0), len(STRATEGIES)),
    "events": ("end of a chief", "Scenario.events", ("events", 0), 2),
    "actions": ("variables", "Program.replicas", ("program", "replicas", 1), 6),
    "actions outside": ("outside", "Program.outside", ("program", "outside", 2), 6),
}
# Units of the examples of strategies, which are numbers.
UNITS: Final = {"bucket_size": "B", "first_bucket_size": "B", "segment_size": "B", "threshold": "s"}


class Stand(NamedTuple):
    """Where a field stands in one of the scenarios, and what it is there."""

    base: str
    place: Place
    given: Any  # None where it is left out
    current: Any  # the default, then


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the files are."""
    made = tmp_path_factory.mktemp("knobs")
    for name, text in FILES.items():
        (made / name).write_text(text)
    return made


@cache
def written() -> Content:
    """What `knobs.yaml` says."""
    text = Path(__file__).with_name("knobs.yaml").read_text(encoding="utf-8")
    found: Content = YAML(typ="safe", pure=True).load(text)
    return found


@cache
def bases() -> Mapping[str, Content]:
    """The scenarios of `knobs.yaml` by name, and one for each example of a strategy."""
    training, variables = written()["training"], written()["variables"]
    made = {
        name: merged(variables if own.get("kind") == "variables" else training, own)
        for name, own in written().items()
        if name != "refused"
    }
    layers = {"layers": [{"backward": 1.0, "size": "1000 B"}] * 2}
    for kind, model in STRATEGIES.items():
        pairs = {f" {key}": one.one for key, one in model.others.items() if is_pair(one)}
        rule = {"optimizer": {"kind": "sgd", "learning_rate": 0.1}}
        for label, own in {"": {}, " optimizer": rule, **pairs}.items():
            strategy = {"kind": kind, **plain(model.example(4)), **plain(own)}
            without = {"optimizer": None} if "optimizer" in own else {}
            change = {"strategies": [strategy], "workload": {**layers, **without}}
            made[f"strategy {kind}{label}"] = merged(training, change)
    return made


def merged(one: Any, other: Any) -> Any:
    """A part of a scenario with changes; of another kind it is new, and null takes a key out."""
    if not isinstance(other, dict):
        return other
    if not isinstance(one, dict) or other.get("kind", one.get("kind")) != one.get("kind"):
        one = {}
    both = {key: merged(one.get(key), value) for key, value in other.items()}
    return {key: value for key, value in {**one, **both}.items() if value is not None}


def plain(value: Any) -> Any:
    """Settings as a file says them: no tuples, no models, with units."""
    return with_units(
        json.loads(json.dumps(value, default=lambda one: one.model_dump(exclude_unset=True)))
    )


def with_units(value: Any) -> Any:
    """The same with the units of what has one."""
    if not isinstance(value, dict):
        return value
    return {k: f"{one} {UNITS[k]}" if k in UNITS else with_units(one) for k, one in value.items()}


def fields(
    model: type[BaseModel], seen: set[type[BaseModel]]
) -> Iterator[tuple[str, Sequence[Any]]]:
    """`Class.field` of a model and of all models below it, and what can be chosen for it."""
    seen.add(model)
    for name, info in model.model_fields.items():
        of_type = list(parts(info))
        literals = [
            one for part in of_type if get_origin(part) is Literal for one in get_args(part)
        ]
        tables = [part.own for part in of_type if hasattr(part, "own")]
        functions = [one for table in tables for one, of in table.items() if not is_model(of)]
        yield f"{model.__name__}.{name}", [*literals, *functions]
        tagged = [of for table in tables for of in table.values() if is_model(of)]
        own = [one for one in of_type if is_model(one)]
        for one in tagged or own:
            if one not in seen:
                yield from fields(one, seen)


def is_model(thing: Any) -> bool:
    """Whether it is described by fields, as the things of most tables are."""
    return isinstance(thing, type) and issubclass(thing, BaseModel)


def is_pair(example: Any) -> TypeGuard[Any]:
    """Whether a strategy shows what a field does by two whole examples, not by another value."""
    return hasattr(example, "one") and hasattr(example, "other")


def parts(info: Any) -> Iterator[Any]:
    """All that a field's type is made of."""
    stack = [info.annotation, *info.metadata]
    while stack:
        yield (part := stack.pop())
        stack += get_args(part)


CHOICES: Final = dict([*fields(Scenario, set()), *fields(VariablesScenario, set())])
ALL: Final = sorted(key for key in set(CHOICES) - NAMES if not key.endswith(".kind"))


@cache
def stands(folder: Path) -> Mapping[str, Sequence[Stand]]:
    """Where each field stands, those first that are given."""
    found: dict[str, list[Stand]] = {}
    for name, content in bases().items():
        made = whole(name, folder)
        for key, place, current in keys(made, content):
            found.setdefault(key, []).append(Stand(name, place, within(content, place), current))
    return {key: sorted(own, key=lambda one: one.given is None) for key, own in found.items()}


def keys(made: Any, raw: Any, place: Place = ()) -> Iterator[tuple[str, Place, Any]]:
    """Every field of every mapping of a scenario, its place, and what it is."""
    if isinstance(made, BaseModel) and isinstance(raw, dict):
        for name in type(made).model_fields:
            yield f"{type(made).__name__}.{name}", (*place, name), getattr(made, name)
            yield from keys(getattr(made, name), raw.get(name), (*place, name))
    elif isinstance(made, tuple) and isinstance(raw, list):
        for index, (one, part) in enumerate(zip(made, raw, strict=True)):
            yield from keys(one, part, (*place, index))


def within(content: Any, place: Place) -> Any:
    """What is given at a place; None where nothing is."""
    for key in place:
        content = content.get(key) if isinstance(content, dict) else content[key]
    return content


def put(content: Any, place: Place, value: Any) -> Any:
    """The same with another value at a place, or without one."""
    if not place:
        return value
    key, *rest = place
    if isinstance(content, list):
        return [
            put(one, tuple(rest), value) if at == key else one for at, one in enumerate(content)
        ]
    new = {**content, key: put(content.get(key), tuple(rest), value)}
    return {name: one for name, one in new.items() if one is not None}


def load(content: Content, folder: Path) -> Loaded:
    """The scenario of a text that says this, or ScenarioError."""
    return load_text(json.dumps(content, indent=1), folder=folder)


def others(value: Any) -> list[Any]:
    """Other values of the same type."""
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, value - 1]
        case float():
            return [value * 1.5 or 0.25, value / 2]
        case str() if found := re.fullmatch(r"([0-9.e+-]+) ([A-Za-z/]+)", value):
            return [f"{number} {found[2]}" for number in others(float(found[1]))]
        case dict():
            return [{**value, key: one} for key, own in value.items() for one in others(own)]
        case [first, *rest]:
            return [rest] * bool(rest) + [[one, *rest] for one in others(first)]
    return []


def values(key: str, stand: Stand, all_stands: Sequence[Stand]) -> Iterator[Any]:
    """What else a field may be."""
    of_others = [one.given for one in all_stands if one.given is not None]
    model, _, field = key.partition(".")
    strategy = next((one for one in STRATEGIES.values() if one.__name__ == model), None)
    if strategy is not None and field in strategy.others:
        other = strategy.others[field]
        of_others.append(plain(other.other.get(field) if is_pair(other) else other))
    given = stand.current if stand.given is None else stand.given
    own = [] if isinstance(given, BaseModel) else others(given)
    more = OTHERS.get(key, OTHERS.get(field, ()))
    for value in (*of_others, *own, *CHOICES[key], *more, None):
        if value != stand.given:
            yield value


def run(scenario: Loaded) -> str:
    """What happened, as text without names."""
    if isinstance(scenario, VariablesScenario):
        made = cast("list[ProgramTrace]", simulate(scenario).traces)
        return repr([(one.acts, one.sent_rows, one.links, one.end) for one in made])
    traces = [run_one(Run(scenario, at, 0)) for at in range(len(scenario.strategies))]
    return json.dumps([{**digest(trace), "strategy": ""} for trace in traces])


def told(scenario: Loaded) -> str:
    """What is said of it, as text."""
    if isinstance(scenario, VariablesScenario):
        return ""
    result = simulate(scenario)
    numbers = result.summary.to_json(), result.table().to_json()
    return repr((numbers, result.judgements, result.notes))


def matters(stand: Stand, value: Any, folder: Path) -> bool | None:
    """Whether something else comes out with another value there; None where it is refused."""
    try:
        changed = load(put(bases()[stand.base], stand.place, value), folder)
    except ScenarioError:
        return None
    return whole(stand.base, folder) != changed and (
        as_run(stand.base, folder) != run(changed) or as_told(stand.base, folder) != told(changed)
    )


@cache
def whole(base: str, folder: Path) -> Loaded:
    return load(bases()[base], folder)


@cache
def as_run(base: str, folder: Path) -> str:
    return run(whole(base, folder))


@cache
def as_told(base: str, folder: Path) -> str:
    return told(whole(base, folder))


def test_every_field_stands_somewhere(folder: Path) -> None:
    assert len(CHOICES) > 300
    assert set(CHOICES) - set(stands(folder)) == set()


@pytest.mark.parametrize("key", [key for key in ALL if key not in ONE_VALUE])
def test_a_key_has_an_effect(key: str, folder: Path) -> None:
    """Of two values, not only where it is given or left out; but some have one value alone."""
    there = stands(folder)[key]
    tries = [(one, value) for one in there for value in values(key, one, there)]
    of_two = [(one, other) for one, other in tries if one.current is not None and other is not None]
    accepted = False
    for one, other in of_two:
        found = matters(one, other, folder)
        if found:
            return
        accepted |= found is not None
    assert not accepted, "another value is the same"
    assert any(matters(one, other, folder) for one, other in tries)


@pytest.mark.parametrize("table", KINDS)
def test_every_kind_is_its_own(table: str, folder: Path) -> None:
    base, key, place, many = KINDS[table]
    given = [one.given for one in stands(folder)[key] if one.given is not None]
    outcomes: dict[str, str] = {}
    for value in chain.from_iterable(given) if isinstance(place[-1], int) else given:
        if (kind := value.get("kind") or min(value.keys() - {"at"})) not in outcomes:
            with suppress(ScenarioError):
                outcomes[kind] = run(load(put(bases()[base], place, value), folder))
    assert len(outcomes) == len(set(outcomes.values())) == many


@pytest.mark.parametrize("case", written()["refused"], ids=str)
def test_what_has_no_effect_is_refused(case: Mapping[str, Content], folder: Path) -> None:
    [(base, change)] = case.items()
    whole(base, folder)
    with pytest.raises(ScenarioError) as refused:
        load(merged(bases()[base], change), folder)
    assert all(problem.line and problem.column for problem in refused.value.problems)


@pytest.mark.parametrize("key", sorted(NAMES - {"VariableDescription.name"}))
def test_names_change_nothing(key: str, folder: Path) -> None:
    stand = stands(folder)[key][0]
    named = load(put(bases()[stand.base], stand.place, "other"), folder)
    assert run(named) == as_run(stand.base, folder)


@pytest.mark.parametrize("at", range(4))
def test_a_strategy_alone_runs_as_beside_others(at: int, folder: Path) -> None:
    """What only the others used is left out, as it would be refused."""
    beside = whole("all together", folder)
    assert isinstance(beside, Scenario)
    alone = beside.with_only(beside.strategies[at : at + 1])
    assert digest(run_one(Run(alone, 0, 0))) == digest(run_one(Run(beside, at, 0)))
