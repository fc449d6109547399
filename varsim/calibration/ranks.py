"""What the traces of all ranks tell together: computation per step, and times of collectives."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from varsim.calibration.kineto import Collective, Trace
from varsim.calibration.measurement import (
    SHORTEST,
    StepTable,
    Transfer,
    TransferTable,
    UnreadableError,
    pattern,
    transfer,
)
from varsim.units import format_seconds


class Together(NamedTuple):
    """Steps of all ranks, the tables of their collectives, and remarks on both."""

    steps: StepTable
    transfers: tuple[TransferTable, ...]
    notes: tuple[str, ...]


def together(traces: Sequence[Trace]) -> Together:
    """Traces of one run, one per rank, as measurements. Raises UnreadableError for a rank twice.

    What a step computes is its whole without the communication that nothing else hid. A collective
    is as long as its kernel ran on the rank that came last: on others it waits for that one.
    """
    seen: dict[int, str] = {}
    rows: dict[int, tuple[float, ...]] = {}
    for index, trace in enumerate(traces):
        rank = index if trace.rank is None else trace.rank
        if rank in seen:
            raise UnreadableError([f"{trace.source}: rank {rank} again ({seen[rank]} has it)"])
        seen[rank] = trace.source
        rows[rank] = tuple(step.whole - step.exposed for step in trace.steps)
        if min(rows[rank]) < SHORTEST:
            raise UnreadableError([f"{trace.source}: a step in which nothing is computed"])
    source = ", ".join(seen.values())
    notes = _notes(traces)
    table = StepTable(source, {rank: rows[rank] for rank in sorted(rows)})
    return Together(table, tuple(_tables(traces, source)), tuple(notes))


def _notes(traces: Sequence[Trace]) -> list[str]:
    steps = [step for trace in traces for step in trace.steps]
    count = len(steps)
    whole = sum(step.whole for step in steps) / count
    notes = [f"mean of {count} steps: {format_seconds(whole)} from begin to end"]
    if all(trace.on_device for trace in traces):
        computing, sent, exposed = (
            sum(values) / count
            for values in zip(
                *((step.computing, step.communicating, step.exposed) for step in steps), strict=True
            )
        )
        notes.append(
            f"  kernels but NCCL's {format_seconds(computing)}, NCCL's {format_seconds(sent)}, of "
            f"which {format_seconds(sent - exposed)} beside others, {format_seconds(exposed)} alone"
        )
        notes.append("  compute is the step without what NCCL's kernels took alone")
    else:
        notes.append("  no kernels of a GPU: communication is part of the steps")
    if unknown := sum(trace.unknown for trace in traces):
        notes.append(f"  {unknown} kernels of NCCL whose sizes are not to be seen: left out")
    phases = [sum(values) for values in zip(*(trace.phases for trace in traces), strict=True)]
    if phases[1] > 0:
        total = sum(phases)
        forward, backward, optimizer = (100 * value / total for value in phases)
        what = "kernels" if all(trace.on_device for trace in traces) else "CPU time"
        notes.append(
            f"  of the {what}: forward {forward:.1f} %, backward {backward:.1f} %, optimizer "
            f"{optimizer:.1f} %"
        )
        notes.append(f"  where gradients are sent meanwhile: backward_share: {backward / 100:.3g}")
    return notes


def _tables(traces: Sequence[Trace], source: str) -> list[TransferTable]:
    """A table per collective and number of ranks, a time for each size."""
    found: dict[tuple[str, int], list[Transfer]] = {}
    runs: dict[tuple[str, int], int] = {}
    waits = False
    keys = sorted({(c.name, c.ranks, c.size) for trace in traces for c in trace.collectives})
    for name, ranks, size in keys:
        each = [_times(trace.collectives, name, ranks, size) for trace in traces]
        complete = ranks == len(traces) and len({len(times) for times in each}) == 1
        waits = waits or not complete
        if complete:
            times = [min(side) for side in zip(*each, strict=True)]
        else:
            times = [time for one in each for time in one]
        found.setdefault((name, ranks), []).append(transfer(name, ranks, size, median(times)))
        runs[name, ranks] = runs.get((name, ranks), 0) + len(times)
    tables = []
    for (name, ranks), transfers in found.items():
        notes = [f"{runs[name, ranks]} collectives seen; of each size the median"]
        if waits:
            notes.append("not the traces of all ranks: times may contain waiting for late ranks")
        what = f"{name} of {ranks} ranks, kernels of NCCL"
        formula = pattern(name, ranks).formula
        tables.append(TransferTable(source, what, formula, tuple(transfers), tuple(notes)))
    return tables


def _times(found: Sequence[Collective], name: str, ranks: int, size: float) -> list[float]:
    return [one.seconds for one in found if (one.name, one.ranks, one.size) == (name, ranks, size)]
