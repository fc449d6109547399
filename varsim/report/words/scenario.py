"""A scenario in plain words, one statement per line, and what its beginning shows."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from varsim.cluster.accelerator import FAR
from varsim.cluster.description import Cluster, SlowWorker
from varsim.cluster.topology import Topology
from varsim.cluster.updating import ServerUpdate
from varsim.report.wording import most_time
from varsim.report.words import failures
from varsim.scenario.targets import Prices
from varsim.scenario.together import replays_in_queues
from varsim.scenario.training import Scenario, runs_made
from varsim.strategies import Strategy
from varsim.study.beginning import Beginning
from varsim.study.measure import NANOSECONDS
from varsim.units import counted, format_bytes, format_rate, format_seconds
from varsim.values import layers
from varsim.values.schema import Model
from varsim.values.workload import Workload

# With fewer updates than that a beginning is mostly its first one, in which nothing is on its way.
_FEW: Final = 5


def describe(scenario: Scenario) -> list[str]:
    """The resolved scenario, one statement per line."""
    cluster, workload, network = scenario.cluster, scenario.workload, scenario.cluster.network
    often = max(runs_made(scenario, one) for one in scenario.strategies)
    queued = any(replays_in_queues(one, scenario.cluster_of(one)) for one in scenario.strategies)
    once = " (nothing is random)" if queued else " (exact)"
    exact = once if often < scenario.replications else ""
    if exact and scenario.failures is not None and scenario.failures.is_random:
        often, exact = scenario.replications, " (steps exact)"
    lines = [
        f"{scenario.name}: {counted(len(scenario.strategies), 'strategy', 'strategies')}, "
        f"{counted(often, 'replication')} of each{exact}, seed {scenario.seed}",
        f"  workers      {cluster.workers}, batch {workload.batch_size} each",
        f"  compute      {_compute(cluster, workload)}",
    ]
    lines += about_machines(cluster.slow_workers, network)
    if any(strategy.uses_servers for strategy in scenario.strategies):
        where = f"at {format_rate(network.server_rate)}"
        if cluster.servers_on == "workers":
            where = "on the machines of the workers"
        lines.append(
            f"  servers      {cluster.parameter_servers} {where}, "
            f"variables placed {cluster.placement.replace('_', ' ')}{_cut(cluster)}"
        )
    if cluster.server_update is not None:
        lines.append(f"  updates      {_update(cluster.server_update)}")
    if any(strategy.looks_at_layers for strategy in scenario.strategies):
        ready = layers.described(workload.layers, workload.model)
        share = cluster.share_of_backward
        lines.append(
            f"  backward     {100 * share:.3g} % of the compute time, gradients ready {ready}"
        )
    if cluster.overheads is not None and cluster.overheads.given:
        texts = cluster.overheads.model_dump(mode="json")
        listed = ", ".join(f"{name} {texts[name]}" for name in cluster.overheads.given)
        lines.append(f"  overheads    {listed}")
    lines += [
        f"  model        {workload.model or 'the problem itself'}, "
        f"{format_bytes(workload.size())} of parameters{_precision(workload)}",
        f"  problem      {described(workload.problem)}",
    ]
    if workload.optimizer is not None:
        lines.append(f"  optimizer    {described(workload.optimizer)}")
    lines += [f"  strategy     {_strategy(strategy)}" for strategy in scenario.strategies]
    lines += [f"  event        {event}" for event in scenario.events]
    lines += failures.described(scenario)
    if scenario.prices is not None:
        lines.append(f"  prices       {_prices(scenario.prices)}")
    limits = scenario.memory.model_dump(mode="json", exclude_none=True, exclude={"exceeded"})
    if limits:
        listed = ", ".join(f"{key} {value}" for key, value in limits.items())
        lines.append(f"  memory       {listed}")
    hidden = {"equal_examples"}
    limits = scenario.stop.model_dump(mode="json", exclude_none=True, exclude=hidden)
    lines.append("  stop         " + " or ".join(f"{key} {value}" for key, value in limits.items()))
    return lines + [f"               {line}" for line in equal_examples(scenario)]


def equal_examples(scenario: Scenario) -> list[str]:
    """That runs are compared over equal examples, if `global_steps` means that here."""
    steps, most = scenario.stop.global_steps, scenario.largest_update
    if steps is None or most is None or not scenario.stop.equal_examples:
        return []
    largest = min(
        (
            one
            for one in scenario.strategies
            if one.gradients_per_update(scenario.cluster_of(one)) == most
        ),
        key=lambda one: one.round.varies,
    )
    examples = steps * most * scenario.workload.batch_size
    updates = f"{steps:,} update{'' if steps == 1 else 's'}"
    up_to = "up to " if largest.round.varies else ""
    return [
        f"compared over equal examples: {examples:,}, as many as {updates} of {largest.mention} "
        f"take ({up_to}{most} gradients each); with stop.equal_examples=false every run ends after "
        f"{updates}"
    ]


def beginnings(begun: Sequence[Beginning]) -> list[str]:
    """What an update takes in each strategy and what its workers' time goes into, a row each."""
    names = [one.strategy.title for one in begun]
    width = max(map(len, names))
    return [
        f"  {name:<{width}}  {line}"
        for name, one in zip(names, begun, strict=True)
        for line in _beginning(one)
    ]


def step(one: Beginning) -> str:
    """What an update takes, `303 ms a step`; or an iteration of a worker that waits for nobody."""
    if math.isnan(one.update):
        return "no update" if one.limit is None else f"no update within {one.limit:,} events"
    together = one.per_iteration == 0
    if together or one.updates < one.per_iteration:
        unit = "a step" if together else "an update"
        return f"{format_seconds(one.update)} {unit}"
    iteration = format_seconds(one.update * one.per_iteration)
    return f"{iteration} an iteration of a worker, {format_seconds(one.update)} an update"


def _beginning(one: Beginning) -> Iterator[str]:
    if not one.begun:
        yield (
            f"not begun: {one.workers:,} workers take more events than check allows; a short run "
            "tells (--set 'stop={global_steps: 10}')"
        )
        return
    if not one.lasted and one.standstill is None:
        yield "no update in the 146 years that the clock counts"
        return
    over = counted(one.updates, "update")
    spent = f": {most_time(one.shares)}" if one.shares else ""
    if one.updates < one.per_iteration:
        over += ", before each worker has made one"
    parts = [f"{step(one)} (mean of {over}){spent}" if one.updates else f"no update{spent}"]
    if one.limit is not None:
        few = ": too few updates to compare" if 0 < one.updates < _FEW else ""
        parts.append(f"stopped early, after {one.limit:,} events{few}")
    if one.left_out > 0:
        parts.append(f"{100 * one.left_out:.3g} % of the micro-batches dropped")
    elif 2 * one.dropped > one.gradients:
        parts.append(f"{one.dropped:,} of {one.gradients:,} gradients dropped")
    if one.updates < one.strategy.round.steps > 1:
        parts.append(f"replicas meet after {one.strategy.round.steps:,}")
    if not one.standstill:
        yield "; ".join(parts)
        return
    yield f"deadlocked at {format_seconds(one.standstill.time / NANOSECONDS)}"
    yield from (f"  {line.strip()}" for line in one.standstill.report.splitlines()[1:])


def described(model: Model, hidden: frozenset[str] | set[str] = frozenset()) -> str:
    """A model's kind and settings as they would stand in a scenario."""
    values = model.model_dump(mode="json", exclude_none=True, exclude=set(hidden))
    kind = str(values.pop("kind"))
    settings = ", ".join(f"{key} {_plain(value)}" for key, value in values.items())
    if not settings:
        return kind
    return f"{kind} ({settings if len(settings) <= 160 else settings[:157] + '...'})"


def _compute(cluster: Cluster, workload: Workload) -> str:
    mean = format_seconds(cluster.compute_distribution(workload).expectation())
    if cluster.compute is not None:
        return f"{mean} per batch on average, law {described(cluster.compute)}"
    device = cluster.device
    assert device is not None
    spread = f"spread (sigma) {device.sigma:g}" if device.sigma else "always the same"
    curve = device.step_time(workload).measured
    if curve is not None:
        speed = workload.batch_size / device.step_time(workload).seconds
        others = [
            workload.batch_size / one.step_time(workload.batch_size)
            for one in device.measurements(workload)[1:]
            if one.distance(workload.batch_size) <= FAR
        ]
        beside = ""
        if others:
            least, most = f"{min(others):,.4g}", f"{max(others):,.4g}"
            beside = f"; others: {least}{f' to {most}' if least != most else ''} examples/s"
        return (
            f"{mean} per batch: {speed:,.4g} examples/s, measured for {curve.model} on "
            f"{curve.device} in {curve.precision} at batch {curve.batches} ({curve.framework}, "
            f"{curve.hardware}{beside}), {spread}"
        )
    flops = workload.flops_per_example() * workload.batch_size
    what = "" if device.preset is None else f"{device.preset} {device.precision}, "
    return (
        f"{mean} per batch: {flops / 1e9:.4g} GFLOP at {device.rate / 1e12:.4g} TFLOP/s "
        f"({what}{'measured' if device.measured else 'peak'} "
        f"{device.rate / device.share / 1e12:.4g} TFLOP/s x efficiency {device.share:g}), {spread}"
    )


def _prices(prices: Prices) -> str:
    units = {
        "device_hour": "a device-hour",
        "server_hour": "a server-hour",
        "gigabyte": "a GB sent",
    }
    listed = [
        f"{getattr(prices, key):g} {prices.currency} {unit}"
        for key, unit in units.items()
        if getattr(prices, key)
    ]
    return ", ".join(listed)


def _cut(cluster: Cluster) -> str:
    if cluster.partitioner is None:
        return ""
    return f", cut by {described(cluster.partitioner)}"


def _precision(workload: Workload) -> str:
    if workload.gradient_precision is None:
        return ""
    rounded = "rounded" if workload.round_gradients else "values not rounded"
    return f", gradients sent in {workload.gradient_precision} ({rounded})"


def _update(update: ServerUpdate) -> str:
    parts = [] if update.time is None else [described(update.time)]
    parts += [] if update.rate is None else [f"its bytes at {format_bytes(update.rate)}/s"]
    return f"{' + '.join(parts)} per gradient of a variable, threads {update.threads}"


def _strategy(strategy: Strategy) -> str:
    name = "" if strategy.name is None else f"{strategy.name}: "
    hidden = {"name"} if strategy.overlaps else {"name", "overlap"}
    return f"{name}{described(strategy, hidden)} - {strategy.about}"


def _plain(value: object) -> str:
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: item[0] != "kind")
        return "{" + ", ".join(f"{key}: {_plain(part)}" for key, part in items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def about_machines(slow_workers: Sequence[SlowWorker], network: Topology) -> list[str]:
    """Lines on who is slow, and on the network."""
    lines = []
    for slow in slow_workers:
        span = ""
        if slow.after or slow.until is not None:
            until = "the end" if slow.until is None else format_seconds(slow.until)
            span = f" from {format_seconds(slow.after)} to {until}"
        lines.append(f"               worker {slow.rank} takes {slow.factor:g} times as long{span}")
    first, *more = network.lines()
    lines.append(f"  network      {first}")
    lines += [f"               {line}" for line in more]
    return lines
