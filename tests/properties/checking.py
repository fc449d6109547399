"""What holds of every run, whatever its scenario says."""

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from tests.building import APPLIED, DROPPED, LOST, PARTLY, PENDING, gradient_rows
from tests.seams import GradientRow, Phase, Trace
from varsim import Scenario


def problems(scenario: Scenario, number: int, trace: Trace) -> Iterator[str]:
    """Everything that is wrong with a run of a strategy of this number."""
    yield from _time(trace)
    yield from _gradients(scenario, number, trace)
    yield from _steps(scenario, number, trace)
    yield from _links(trace)
    yield from _messages(scenario, number, trace)


def _time(trace: Trace) -> Iterator[str]:
    """What workers do tiles their lifetime."""
    spans = trace.spans.tolist()
    for worker in range(trace.workers):
        own = [(start, end) for rank, _, start, end, _ in spans if rank == worker]
        edges = [0, *(edge for span in own for edge in span), trace.end]
        if any(one != other for one, other in zip(edges[::2], edges[1::2], strict=True)):
            yield f"time of worker {worker} has holes or overlaps: {own}"
        if any(start >= end for start, end in own):
            yield f"worker {worker} has spans without a length: {own}"
    if not {phase for _, phase, *_ in spans} <= set(Phase):
        yield "unknown phases"


def _gradients(scenario: Scenario, number: int, trace: Trace) -> Iterator[str]:
    overlaps = scenario.strategies[number].traits.overlaps  # parts arrive while others are computed
    rows = gradient_rows(trace)
    for worker in range(trace.workers):
        own = sorted(row.iteration for row in rows if row.worker == worker)
        if own != sorted(set(own)) or len(own) < max(own, default=-1):
            yield f"gradients of worker {worker} are missing or there twice: {own}"
    for row in rows:
        applied = row.parts_applied
        possible = {
            APPLIED: applied == trace.variables,
            PARTLY: 0 < applied < trace.variables,
            DROPPED: applied == 0,
            LOST: applied == 0,
            PENDING: applied < trace.variables and row.applied == -1,
        }
        if not possible.get(row.outcome, False):
            yield f"an outcome that cannot be: {row}"
        if row.applied_step >= 0 and row.applied_step < row.read_step:
            yield f"staleness below 0: {row}"
        if row.outcome in (APPLIED, DROPPED, PARTLY) and row.applied_step < 0:
            yield f"no staleness: {row}"
        moments = [row.read, row.compute_start, row.computed, row.applied]
        if not overlaps:
            moments.insert(3, row.arrived)
        order = [moment for moment in moments if moment >= 0] + [trace.end]
        if any(one > other for one, other in pairwise(order)):
            yield f"time runs backwards: {row}"


def _steps(scenario: Scenario, number: int, trace: Trace) -> Iterator[str]:
    steps = trace.steps.tolist()
    if len(steps) != trace.global_step or steps != sorted(steps):
        yield f"steps: {trace.global_step}, at {steps}"
    # Replicas that go on alone count their own steps; a copy may be a step ahead of the last, and
    # more where workers wait for neighbours only.
    strategy = scenario.strategies[number]
    alone = {"outer step", "iteration"} if strategy.traits.updates_copies else {"outer step"}
    if strategy.sends.to == "neighbours":
        alone.add("step")
    applied: dict[int, list[int]] = {}
    for row in gradient_rows(trace):
        applied.setdefault(row.worker, []).append(row.applied)
    for row in gradient_rows(trace) if strategy.round.of not in alone else ():
        least, most = np.searchsorted(trace.steps, [row.read, row.read + 1])
        # What a worker keeps may have its own gradients in it that were applied since the read.
        own = applied.get(row.worker, [])
        most += sum(row.read < moment <= row.compute_start for moment in own)
        # Where layers wait each for itself, the last update comes after the first layer is read.
        if (
            not least
            <= row.read_step
            <= most + strategy.traits.updates_copies + strategy.traits.by_layers
        ):
            yield f"read step {row.read_step} of {least} to {most}: {row}"
    rows = trace.evaluations
    finite = all(math.isfinite(row.loss) and math.isfinite(row.divergence) for row in rows)
    if scenario.workload.has_values and not finite:
        yield "losses are not finite"
    examples = [row.examples for row in rows]
    applied = sum(row.parts_applied for row in gradient_rows(trace))
    batch = scenario.workload.batch_size
    if examples != sorted(examples) or examples[-1] > applied * batch / trace.variables + 1:
        yield f"examples {examples}, {applied} parts applied"
    if (trace.copy_staleness < 0).any():
        yield "staleness of copies below 0"
    if not 0 <= trace.hidden <= trace.sending:
        yield f"{trace.hidden} ns hidden of {trace.sending}"


def _links(trace: Trace) -> Iterator[str]:
    for link in trace.links:
        used = link.moved / (link.bandwidth * trace.end / 1e9) if trace.end else 0.0
        if not (math.isfinite(link.moved) and link.moved >= 0 and 0 <= used <= 1):
            yield f"utilization {used} of {link}"
    total = math.fsum(link.moved for link in trace.links)
    if not -1e-6 * total <= trace.sent <= total * (1 + 1e-6):
        yield f"{trace.sent} sent, {total} on all links"


def _messages(scenario: Scenario, number: int, trace: Trace) -> Iterator[str]:
    """Servers of a star send what was read, and get what was pushed; but for what is under way."""
    strategy = scenario.strategies[number]
    cluster = scenario.cluster_of(strategy)
    if strategy.kind == "single" and any(link.moved for link in trace.links):
        yield "one worker alone sends"
    plain = cluster.network.kind == "star" and cluster.servers_on == "dedicated"
    gives_up = strategy.gives_up
    if strategy.sends.to != "servers" or gives_up or not plain or scenario.events:
        return
    workload = scenario.workload
    sizes = [sum(own) for own in workload.tensor_sizes()]
    shares, ratios = workload.sent_shares(), workload.gradient_ratios()
    read = sum(size * share for size, share in zip(sizes, shares, strict=True))
    specs = workload.problem.variables()
    pushed = sum(
        size * share * ratio
        for size, share, ratio, spec in zip(sizes, shares, ratios, specs, strict=True)
        if spec.has_gradient
    )
    rows = gradient_rows(trace)
    computing = {(span[0], span[4]) for span in trace.spans.tolist() if span[1] == Phase.COMPUTE}
    begun = computing | {(row.worker, row.iteration) for row in rows if _began(row, trace)}
    done = sum(row.outcome != PENDING for row in rows)
    # Gradients at what a worker has kept need no read, and nor may those under way at the end.
    kept = len(rows) - len({(row.worker, row.read) for row in rows})
    reads = len(begun) - kept - (trace.workers if kept else 0)
    for what, way, size, least, most in (
        ("read", "up", read, reads, len(begun) + trace.workers),
        ("pushed", "down", pushed, done, len(begun) + trace.workers),
    ):
        moved = math.fsum(
            link.moved
            for link in trace.links
            if link.name.startswith("ps ") and link.name.endswith(way)
        )
        if not size * least * (1 - 1e-6) <= moved <= size * most * (1 + 1e-6):
            yield f"{moved} bytes {what}, {size} each, {least} to {most} times"


def _began(row: GradientRow, trace: Trace) -> bool:
    return 0 <= row.compute_start <= trace.end and row.read >= 0
