"""A scenario in plain words, and a rough step time per strategy, before any run."""

from typing import NamedTuple

from varsim.cluster.envelope import Envelope
from varsim.scenario import Scenario
from varsim.strategies import Strategy
from varsim.units import format_bytes, format_rate, format_seconds


class LabelledEstimate(NamedTuple):
    """A strategy's rough step time (s) and how it comes about."""

    label: str
    step_time: float
    why: str


def estimates(scenario: Scenario) -> list[LabelledEstimate]:
    """For every strategy, in order."""
    return [
        LabelledEstimate(
            strategy.label,
            *strategy.estimate(
                Envelope(scenario.cluster_of(strategy), scenario.workload, scenario.seed)
            ),
        )
        for strategy in scenario.strategies
    ]


def describe(scenario: Scenario) -> list[str]:
    """The resolved scenario, one statement per line."""
    cluster, workload, network = scenario.cluster, scenario.workload, scenario.cluster.network
    law = cluster.law(workload)
    compute = f"{format_seconds(law.expectation())} per batch on average"
    if cluster.compute is not None:
        compute += f", law {cluster.compute.kind}{_settings(cluster.compute)}"  # type: ignore[attr-defined]
    else:
        assert cluster.device is not None
        compute += f", {workload.flops_per_example() * workload.batch_size / 1e9:.4g} GFLOP at "
        compute += f"{cluster.device.rate / 1e12:.4g} TFLOP/s"
    lines = [
        f"{scenario.name}: strategies {len(scenario.strategies)}, replications of each "
        f"{scenario.replications}, seed {scenario.seed}",
        f"  workers      {cluster.workers}, batch {workload.batch_size} each",
        f"  compute      {compute}",
    ]
    for slow in cluster.slow_workers:
        span = ""
        if slow.after or slow.until is not None:
            until = "the end" if slow.until is None else format_seconds(slow.until)
            span = f" from {format_seconds(slow.after)} to {until}"
        lines.append(f"               worker {slow.rank} takes {slow.factor:g} times as long{span}")
    lines += [
        f"  network      {format_rate(network.worker_rate)} per worker each way, latency "
        f"{format_seconds(network.delay)}, {network.sharing.replace('_', ' ')} links",
        f"  servers      {cluster.parameter_servers} at {format_rate(network.server_rate)}, "
        f"variables placed {cluster.placement.replace('_', ' ')}",
        f"  model        {workload.model or 'the problem itself'}, "
        f"{format_bytes(workload.size())} of parameters",
        f"  problem      {workload.problem.kind}{_settings(workload.problem)}",  # type: ignore[attr-defined]
    ]
    if workload.optimizer is not None:
        rule = workload.optimizer
        lines.append(f"  optimizer    {rule.kind}{_settings(rule)}")  # type: ignore[attr-defined]
    lines += [f"  strategy     {_strategy(strategy)}" for strategy in scenario.strategies]
    limits = scenario.stop.model_dump(mode="json", exclude_none=True)
    lines.append("  stop         " + " or ".join(f"{key} {value}" for key, value in limits.items()))
    return lines


def _strategy(strategy: Strategy) -> str:
    name = "" if strategy.name is None else f"{strategy.name}: "
    return f"{name}{strategy.kind}{_settings(strategy, {'name'})} - {strategy.about}"


def _settings(model: object, hidden: set[str] | None = None) -> str:
    values = model.model_dump(mode="json", exclude_none=True, exclude={"kind"} | (hidden or set()))  # type: ignore[attr-defined]
    if not values:
        return ""
    shown = [f"{key} {value}" for key, value in values.items()]
    text = ", ".join(shown)
    return f" ({text if len(text) <= 120 else text[:117] + '...'})"
