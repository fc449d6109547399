"""What a scenario can name, with one line each: the content of `varsim list`."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args, get_origin

from varsim.values.schema import Model

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from varsim.scenario.plan import Objective
    from varsim.scenario.shape import Shape
    from varsim.values.table import Table


class Entry(NamedTuple):
    """One line about a name and, where it is a kind of model, the keys it has."""

    about: str
    keys: str = ""


def strategies() -> dict[str, Entry]:
    """Kind of each strategy -> what people call it, and what it does."""
    from varsim.strategies import ALL_STRATEGIES

    found = _of_all(ALL_STRATEGIES)
    for kind, entry in found.items():
        called = getattr(ALL_STRATEGIES[kind], "called", "")
        if called:
            found[kind] = entry._replace(about=f"{called}: {entry.about}")
    return found


def laws() -> dict[str, Entry]:
    """Kind of each law of compute times -> what it is."""
    from varsim.values.distributions import LAWS

    return _of_all(LAWS)


def networks() -> dict[str, Entry]:
    """Kind of each network -> its links."""
    from varsim.cluster.topology import NETWORKS

    return _of_all(NETWORKS)


def collectives() -> dict[str, Entry]:
    """Name of each all-reduce -> how it goes."""
    from varsim.cluster.collectives.choice import COLLECTIVES

    found = _of_all(COLLECTIVES)
    for name in COLLECTIVES.own:  # which are told by docstrings
        about = found[name].about
        found[name] = found[name]._replace(about=about[:1].lower() + about[1:])
    return found


def partitioners() -> dict[str, Entry]:
    """Kind of each partitioner of tensors -> how it cuts."""
    from varsim.cluster.partitioner import PARTITIONERS

    return _about(PARTITIONERS)


def problems() -> dict[str, Entry]:
    """Kind of each problem -> what is learned."""
    from varsim.values.problem import ALL_PROBLEMS

    return _of_all(ALL_PROBLEMS)


def optimizers() -> dict[str, Entry]:
    """Kind of each optimizer -> its rule."""
    from varsim.values.optimizer import OPTIMIZERS

    return _about(OPTIMIZERS)


def staleness_policies() -> dict[str, Entry]:
    """Kind of each staleness policy -> what becomes of stale gradients."""
    from varsim.values.staleness import STALENESS_POLICIES

    return _about(STALENESS_POLICIES)


def actions() -> dict[str, Entry]:
    """Kind of each action of a program of variables -> what it does, and who may do it."""
    from varsim.distribute.program import CROSS_REPLICA_ACTIONS, REPLICA_ACTIONS

    found = {}
    for kind, model in (REPLICA_ACTIONS | CROSS_REPLICA_ACTIONS).items():
        where = [
            place
            for place, table in (("replicas", REPLICA_ACTIONS), ("outside", CROSS_REPLICA_ACTIONS))
            if kind in table
        ]
        found[kind] = Entry(f"{model.about} ({' and '.join(where)})", _keys(model))
    return found


def devices() -> dict[str, Entry]:
    """Name of each device -> its dense peaks, and what was measured."""
    from varsim.values import presets

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
    from varsim.values import presets

    found: dict[str, dict[str, None]] = {}
    for one in presets.all_measured_speeds():
        if one.device == device:
            found.setdefault(one.model, {})[one.precision] = None
    return ", ".join(f"{model} ({', '.join(own)})" for model, own in found.items()) or "none"


def speeds() -> dict[str, Entry]:
    """Device, precision and model of each measured training speed -> how fast it was, by whom."""
    from varsim.values import presets

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
    from varsim.units import format_rate, format_seconds
    from varsim.values import presets

    lines = {}
    for name, link in presets.links().items():
        latency = "latency not published"
        if link.latency is not None:
            latency = format_seconds(link.latency)
        lines[name] = Entry(f"{link.title}: {format_rate(link.bandwidth)}, {latency} ({link.kind})")
    return lines


def failures() -> dict[str, Entry]:
    """Name of each published failure rate -> what it is, and whose."""
    from varsim.values import presets

    return {
        name: Entry(
            f"{one.per_day:g} a day for each machine of {one.gpus} GPUs: {one.title} ({one.source})"
            + (f"; {one.note}" if one.note else "")
        )
        for name, one in presets.failure_rates().items()
    }


def models() -> dict[str, Entry]:
    """Name of each model profile -> its size and the work of one example."""
    from varsim.units import format_count, format_operations
    from varsim.values import presets

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
    from varsim.scenario.plan import OBJECTIVES

    needs = {name: _needed(one) for name, one in OBJECTIVES.items()}
    return {name: Entry(one.about + needs[name]) for name, one in OBJECTIVES.items()}


def _needed(objective: "Objective") -> str:
    """What a scenario must have for it."""
    needed = ["prices"] * objective.needs_prices + ["a target loss"] * objective.needs_loss
    return f" (needs {' and '.join(needed)})" if needed else ""


TABLES: Final[Mapping[str, Callable[[], dict[str, Entry]]]] = {
    "strategies": strategies,
    "laws": laws,
    "networks": networks,
    "collectives": collectives,
    "partitioners": partitioners,
    "problems": problems,
    "optimizers": optimizers,
    "staleness_policies": staleness_policies,
    "actions": actions,
    "devices": devices,
    "speeds": speeds,
    "links": links,
    "failures": failures,
    "models": models,
    "objectives": objectives,
}


def _of_all(table: "Table[Any]") -> dict[str, Entry]:
    return {
        name: Entry(table.about(one), _keys(one) if isinstance(one, type) else "")
        for name, one in table.all.items()
    }


def _about(table: Mapping[str, type[Model]]) -> dict[str, Entry]:
    return {kind: Entry(model.about, _keys(model)) for kind, model in table.items()}


def _keys(model: "type[BaseModel]") -> str:
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


def _key(name: str, info: "FieldInfo", *, optional: bool) -> str:
    from varsim.scenario.shape import shapes_of

    said = f"{name}: {_words(list(shapes_of(info.annotation, info.metadata)))}"
    if not optional:
        return said
    if info.is_required() or info.default is None:
        return f"{said} (optional)"
    default = info.default
    return f"{said} = {str(default).lower() if isinstance(default, bool) else default}"


def _words(shapes: "Sequence[Shape]") -> str:
    from varsim.scenario.shape import kinds

    if tagged := kinds(shapes):
        return f"{{kind: {next(iter(tagged))}, ...}}"
    return " or ".join(dict.fromkeys(map(_word, shapes)))


def _word(shape: "Shape") -> str:
    from varsim.scenario.shape import members

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


def known_name(table: str, name: str, rows: Mapping[str, Entry]) -> str:
    """The name, if the table has it; typer.BadParameter says which it has."""
    import typer

    from varsim.scenario.fault import known

    try:
        known(f"entry of {table}", name, rows)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return name
