"""What a scenario can name, with one line each: the content of `varsim list`."""

from collections.abc import Callable, Mapping
from typing import Final

from varsim.schema import Model


def strategies() -> dict[str, str]:
    """Kind of each strategy -> what it does."""
    from varsim.strategies import STRATEGIES

    return _about(STRATEGIES)


def laws() -> dict[str, str]:
    """Kind of each law of compute times -> what it is."""
    from varsim.values.law import LAWS

    return _about(LAWS)


def problems() -> dict[str, str]:
    """Kind of each problem -> what is learned."""
    from varsim.values.problem import PROBLEMS

    return _about(PROBLEMS)


def optimizers() -> dict[str, str]:
    """Kind of each optimizer -> its rule."""
    from varsim.values.optimizer import OPTIMIZERS

    return _about(OPTIMIZERS)


def devices() -> dict[str, str]:
    """Name of each device -> its dense peaks."""
    from varsim import presets

    return {
        name: f"{device.title} ({device.year}): "
        + ", ".join(f"{precision} {peak / 1e12:g}" for precision, peak in device.peaks.items())
        + " TFLOP/s"
        for name, device in presets.devices().items()
    }


def links() -> dict[str, str]:
    """Name of each link -> payload rate per direction and latency."""
    from varsim import presets
    from varsim.units import format_rate, format_seconds

    lines = {}
    for name, link in presets.links().items():
        latency = "no latency" if link.latency is None else format_seconds(link.latency)
        lines[name] = f"{link.title}: {format_rate(link.bandwidth)}, {latency} ({link.kind})"
    return lines


def models() -> dict[str, str]:
    """Name of each model profile -> its size and the work of one example."""
    from varsim import presets

    return {
        name: f"{model.parameters / 1e6:.1f} M parameters in {len(model.tensors)} tensors, "
        f"{model.train_flops_per_example / 1e9:.3g} GFLOP to train on one {model.example}"
        for name, model in presets.models().items()
    }


TABLES: Final[Mapping[str, Callable[[], dict[str, str]]]] = {
    "strategies": strategies,
    "laws": laws,
    "problems": problems,
    "optimizers": optimizers,
    "devices": devices,
    "links": links,
    "models": models,
}


def _about(table: Mapping[str, type[Model]]) -> dict[str, str]:
    return {kind: model.about for kind, model in table.items()}
