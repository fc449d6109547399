"""What a scenario can name, with one line each: the content of `varsim list`."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from varsim.cli.console import ITEM, write, write_prose
from varsim.cli.options import question
from varsim.cluster.collectives.choice import COLLECTIVES
from varsim.cluster.description.servers import PARTITIONERS
from varsim.cluster.network.topologies import NETWORKS
from varsim.core import presets
from varsim.core.distributions import ALL_DISTRIBUTIONS
from varsim.core.schema import Model
from varsim.core.table import Registry
from varsim.core.units import format_count, format_operations, format_rate, format_seconds
from varsim.distribute.program import CROSS_REPLICA_ACTIONS, REPLICA_ACTIONS
from varsim.learning.optimizer import OPTIMIZERS
from varsim.learning.problem import ALL_PROBLEMS
from varsim.learning.staleness import STALENESS_POLICIES
from varsim.scenario.bundled import bundled
from varsim.scenario.fault import known
from varsim.scenario.plan import OBJECTIVES, Objective
from varsim.scenario.shape import Shape, kinds, members, other_names, shapes_of
from varsim.strategies import ALL_STRATEGIES

SHOWN: Final = 4  # names of a table in the list of all


class Entry(NamedTuple):
    """One line about a name and, where it is a kind of model, the keys it has.

    `names`: what others call it -> with which `key: value` it is that.
    """

    about: str
    keys: str = ""
    names: Mapping[str, str] = {}


def strategies() -> dict[str, Entry]:
    """Kind of each strategy -> what people call it, and what it does."""
    found = _of_all(ALL_STRATEGIES)
    for kind, entry in found.items():
        one = ALL_STRATEGIES[kind]
        called = getattr(one, "called", "")
        about = f"{called}: {entry.about}" if called else entry.about
        found[kind] = entry._replace(about=about, names=other_names(one))
    return found


def collectives() -> dict[str, Entry]:
    """Name of each all-reduce -> how it goes."""
    found = _of_all(COLLECTIVES)
    for name in COLLECTIVES.own:  # which are told by docstrings
        about = found[name].about
        found[name] = found[name]._replace(about=about[:1].lower() + about[1:])
    return found


def actions() -> dict[str, Entry]:
    """Kind of each action of a program of variables -> what it does, and who may do it."""
    found = {}
    for kind, model in (REPLICA_ACTIONS | CROSS_REPLICA_ACTIONS).items():
        tables = {"replicas": REPLICA_ACTIONS, "outside": CROSS_REPLICA_ACTIONS}
        where = [place for place, table in tables.items() if kind in table]
        found[kind] = Entry(f"{model.about} ({' and '.join(where)})", _keys(model))
    return found


def devices() -> dict[str, Entry]:
    """Name of each device -> its dense peaks, and what was measured."""
    return {
        name: Entry(
            f"{device.title} ({device.year}): "
            + ", ".join(f"{precision} {peak / 1e12:g}" for precision, peak in device.peaks.items())
            + " TFLOP/s"
            + "".join(
                f"; matrix product measured: {precision} {rate / 1e12:g}"
                for precision, rate in device.matrix_products.items()
            )
            + f"; step times measured: {_measured_on(name)}"
        )
        for name, device in presets.devices().items()
    }


def _measured_on(device: str) -> str:
    """The models whose step times were measured on a device, and in which precisions."""
    found: dict[str, dict[str, None]] = {}
    for one in presets.all_measured_speeds():
        if one.device == device:
            found.setdefault(one.model, {})[one.precision] = None
    return ", ".join(f"{model} ({', '.join(own)})" for model, own in found.items()) or "none"


def speeds() -> dict[str, Entry]:
    """Device, precision and model of each measured training speed -> how fast it was, by whom."""
    found: dict[str, list[str]] = {}
    for one in presets.all_measured_speeds():
        batch, best = max(one.speeds, key=lambda pair: pair[1])
        known = f" (known for {one.batches})" if len(one.speeds) > 1 else ""
        found.setdefault(f"{one.device}/{one.precision}/{one.model}", []).append(
            f"{best:,.4g} examples/s at batch {batch}{known}, {one.framework}, {one.hardware}"
        )
    return {name: Entry("; ".join(said)) for name, said in found.items()}


def links() -> dict[str, Entry]:
    """Name of each link -> payload rate per direction and latency."""
    lines = {}
    for name, link in presets.links().items():
        latency = "latency not published"
        if link.latency is not None:
            latency = format_seconds(link.latency)
        lines[name] = Entry(f"{link.title}: {format_rate(link.bandwidth)}, {latency} ({link.kind})")
    return lines


def failures() -> dict[str, Entry]:
    """Name of each published failure rate -> what it is, and whose."""
    return {
        name: Entry(
            f"{one.per_day:g} a day for each machine of {one.gpus} GPUs: {one.title} ({one.source})"
            + (f"; {one.note}" if one.note else "")
        )
        for name, one in presets.failure_rates().items()
    }


def models() -> dict[str, Entry]:
    """Name of each model profile -> its size and the work of one example."""
    return {
        name: Entry(
            f"{format_count(model.parameters)} parameters in {len(model.tensors)} tensors, "
            f"{format_operations(model.train_flops_per_example)} to train on one "
            f"{model.example.removeprefix('one ')}"
        )
        for name, model in presets.models().items()
    }


def objectives() -> dict[str, Entry]:
    """What a plan can minimize -> what that is."""
    needs = {name: _needed(one) for name, one in OBJECTIVES.items()}
    return {name: Entry(one.about + needs[name]) for name, one in OBJECTIVES.items()}


def _needed(objective: Objective) -> str:
    """What a scenario must have for it."""
    needed = ["prices"] * objective.needs_prices + ["a target loss"] * objective.needs_loss
    return f" (needs {' and '.join(needed)})" if needed else ""


def scenarios() -> dict[str, Entry]:
    """Name of each bundled scenario -> what it asks."""
    return {name: Entry(question(file)) for name, file in bundled().items()}


# What `varsim new` writes.
BEGINNING: Final = """\
# Which way of keeping variables in sync is fastest when one of four workers is slow?
name: {name}
cluster:
  workers: 4
  compute: {kind: shifted_exponential, minimum: 90 ms, mean: 100 ms}  # of a batch
  slow_workers: [{rank: 3, factor: 2}]  # takes twice as long; several: ranks: 2-3
  network: {kind: star, bandwidth: 10 Gbit/s, latency: 20 us}  # each worker's link, each way
workload: {model: resnet50, batch_size: 32, problem: {kind: timing}}  # digits: on real data
strategies: [{kind: on_write}, {kind: none}, {kind: sync_replicas, replicas_to_aggregate: 3}]
# Others: ddp, fsdp, local_sgd, ... (varsim list strategies)
stop: {global_steps: 200}
"""


def beginning(file: Path, like: str | None) -> str:
    """The scenario that a new file begins with: a short one, or a bundled one."""
    if like is None:
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", file.stem).strip("_.-")
        return BEGINNING.replace("{name}", name[:64] or "scenario", 1)
    try:
        known("bundled scenario", like, bundled())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return bundled()[like].read_text(encoding="utf-8")


TABLES: Final[Mapping[str, Callable[[], dict[str, Entry]]]] = {
    "scenarios": scenarios,
    "strategies": strategies,
    "distributions": lambda: _of_all(ALL_DISTRIBUTIONS),
    "networks": lambda: _of_all(NETWORKS),
    "collectives": collectives,
    "partitioners": lambda: _about(PARTITIONERS),
    "problems": lambda: _of_all(ALL_PROBLEMS),
    "optimizers": lambda: _about(OPTIMIZERS),
    "staleness_policies": lambda: _about(STALENESS_POLICIES),
    "actions": actions,
    "devices": devices,
    "speeds": speeds,
    "links": links,
    "failures": failures,
    "models": models,
    "objectives": objectives,
}


def _of_all(table: Registry[Any]) -> dict[str, Entry]:
    return {
        name: Entry(table.about(one), _keys(one) if isinstance(one, type) else "")
        for name, one in table.all.items()
    }


def _about(table: Mapping[str, type[Model]]) -> dict[str, Entry]:
    return {kind: Entry(model.about, _keys(model)) for kind, model in table.items()}


def _keys(model: type[BaseModel]) -> str:
    """Every key with what it takes and its default, read from the model: `sigma: number`.

    Those it needs come first, those that all its relatives share come last.
    """
    schema = model.model_json_schema()
    # A model that may hold another of its kind refers to itself.
    needed = schema.get("$defs", {}).get(model.__name__, schema).get("required", ())
    names = [name for name in model.model_fields if name != "kind"]
    names.sort(key=lambda name: (name not in needed, name not in model.__annotations__))
    return ", ".join(
        _key(name, model.model_fields[name], optional=name not in needed) for name in names
    )


def _key(name: str, info: FieldInfo, *, optional: bool) -> str:
    said = f"{name}: {_words(list(shapes_of(info.annotation, info.metadata)))}"
    if not optional:
        return said
    if info.is_required() or info.default is None:
        return f"{said} (optional)"
    default = info.default
    return f"{said} = {str(default).lower() if isinstance(default, bool) else default}"


def _words(shapes: Sequence[Shape]) -> str:
    if tagged := kinds(shapes):
        return f"{{kind: {next(iter(tagged))}, ...}}"
    return " or ".join(dict.fromkeys(map(_word, shapes)))


def _word(shape: Shape) -> str:
    if shape.dimension is not None:
        return shape.dimension.noun.removeprefix("a ")
    if shape.model is not None:
        return f"{{{', '.join(shape.model.model_fields)}}}"
    if get_origin(shape.type) is Literal:
        return "|".join(map(str, get_args(shape.type)))
    if get_origin(shape.type) is tuple:
        return f"list of {_words(members([shape], 0))}"
    return _SIMPLE[shape.type]


_SIMPLE: Final[Mapping[object, str]] = {
    bool: "true|false",
    int: "whole number",
    float: "number",
    str: "text",
}


def printed(what: str | None, name: str | None) -> None:
    """Print which tables there are; or a table; or one entry of it, with its keys."""
    if what is None:
        width = max(map(len, TABLES))
        for table, entries in TABLES.items():
            names = list(entries())
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            write_prose(f"{table:<{width}}  {', '.join(names[:SHOWN])}{more}", width + 2)
        write("\nWhat each is: varsim list strategies. Its keys: varsim list strategies ssp.")
        return
    rows = TABLES[what]()
    if name is None:
        width = max(len(key) for key in rows)
        for key, entry in rows.items():
            write_prose(f"{key:<{width}}  {entry.about}", min(width + 2, 2 * ITEM))
        if any(entry.keys for entry in rows.values()):
            more = " and other names" * any(entry.names for entry in rows.values())
            write(f"\nThe keys{more} of one: varsim list {what} {next(iter(rows))}.")
        return
    name = next((kind for kind, entry in rows.items() if name in entry.names), name)
    try:
        known(f"entry of {what}", name, rows)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    entry = rows[name]
    write_prose(f"{name}  {entry.about}", 4)
    for key in filter(None, re.split(r", (?=\w+: )(?![^{]*})", entry.keys)):
        write_prose(f"  {key}", 6)
    if entry.names:
        names = [name + f" ({setting})" * bool(setting) for name, setting in entry.names.items()]
        write_prose(f"  Other names: {', '.join(names)}.", 4)
