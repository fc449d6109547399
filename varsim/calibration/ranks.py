"""Traces of all ranks combined: compute time per step, and times of collectives."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final, Literal, NamedTuple, TypeAlias

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

# Whether time in which a GPU does nothing counts as compute.
Idle: TypeAlias = Literal["keep", "drop"]
_IDLE: Final = 0.05  # of a step; less is not worth a line


class CombinedTraces(NamedTuple):
    """Steps of all ranks, the tables of their collectives, and remarks on both.

    `recorded`: which ranks and steps there are.
    """

    steps: StepTable
    transfers: tuple[TransferTable, ...]
    notes: tuple[str, ...]
    recorded: tuple[str, ...]


def combine_ranks(traces: Sequence[Trace], idle: Idle = "keep") -> CombinedTraces:
    """Traces of one run, one per rank, as measurements. Raises UnreadableError for a rank twice.

    What a step computes is its whole without the communication that nothing else hid; `idle` says
    whether time counts in which a GPU did neither. A collective is as long as its kernel ran on the
    rank that came last: on others it waits for that one.
    """
    seen: dict[int, str] = {}
    rows: dict[int, tuple[float, ...]] = {}
    numbers: dict[int, tuple[int, ...]] = {}
    if idle == "drop" and not all(trace.on_device for trace in traces):
        raise UnreadableError(["--idle has no effect: a trace has no kernels of a GPU"])
    for index, trace in enumerate(traces):
        rank = index if trace.rank is None else trace.rank
        if rank in seen:
            raise UnreadableError([f"{trace.source}: rank {rank} again ({seen[rank]} has it)"])
        seen[rank] = trace.source
        rows[rank] = tuple(
            step.whole - step.exposed - (step.idle if idle == "drop" else 0.0)
            for step in trace.steps
        )
        numbers[rank] = tuple(step.number for step in trace.steps)
        if min(rows[rank]) < SHORTEST:
            raise UnreadableError([f"{trace.source}: a step in which nothing is computed"])
    source = ", ".join(seen.values())
    recorded, notes = tuple(_recorded(traces)), tuple(_notes(traces, idle))
    table = StepTable(source, {rank: rows[rank] for rank in sorted(rows)}, numbers)
    return CombinedTraces(table, tuple(_tables(traces, source)), notes, recorded)


def _recorded(traces: Sequence[Trace]) -> Iterator[str]:
    """Notes on missing ranks and incomplete steps."""
    ranks = {trace.ranks for trace in traces}
    (all_ranks,) = ranks if len(ranks) == 1 else (None,)
    if all_ranks is None:
        many = "1 trace, which does" if len(traces) == 1 else f"{len(traces)} traces, which do"
        yield f"{many} not say of how many ranks: that slow ranks are among them is not known"
    elif len(traces) < all_ranks:
        yield (
            f"{len(traces)} of {all_ranks} ranks: how much slower others are cannot be seen; "
            "times of communication contain waiting for them; give the traces of all"
        )
    for trace in traces:
        if trace.cut:
            which = ", ".join(map(str, trace.cut))
            yield f"{trace.source}: left out, as the recording cuts it: step {which}"
        if trace.by_device:
            yield (
                f"{trace.source}: the GPU ends a step {format_seconds(trace.lag)} after the host: "
                "steps are taken on the GPU, from end to end"
            )
        elif trace.lag:
            yield (
                f"{trace.source}: the GPU ends the step {format_seconds(trace.lag)} after the "
                "host, and there is no step before it: its time is that on the host; record more"
            )


def _notes(traces: Sequence[Trace], idle: Idle) -> list[str]:
    steps = [step for trace in traces for step in trace.steps]
    count = len(steps)
    whole, computing, sent, exposed, idling = (
        sum(values) / count
        for values in zip(
            *((s.whole, s.computing, s.communicating, s.exposed, s.idle) for s in steps),
            strict=True,
        )
    )
    of = "1 step" if count == 1 else f"mean of {count} steps"
    notes = [f"{of}: {format_seconds(whole)} from begin to end"]
    on_device = all(trace.on_device for trace in traces)
    if on_device or sent:
        what, others = ("kernels", "NCCL") if on_device else ("operators of the CPU", "gloo")
        notes.append(
            f"  {what} but {others}'s {format_seconds(computing)}, {others}'s "
            f"{format_seconds(sent)}, of which {format_seconds(sent - exposed)} beside others, "
            f"{format_seconds(exposed)} alone"
        )
        notes.append(f"  compute is the step without what {others} took alone")
    else:
        notes.append("  no kernels of a GPU, no collectives of gloo: compute is the whole step")
    if on_device and idling >= _IDLE * whole:
        share = f"the GPU idles for {format_seconds(idling)} of a step ({idling / whole:.0%})"
        if idle == "drop":
            notes.append(f"  {share}; left out: a step of the scenario is shorter by that")
        else:
            notes.append(
                f"  {share}: the host, the input or others hold it up; that counts as compute, "
                "since a step takes it; --idle drop leaves it out"
            )
    if unknown := sum(trace.unknown for trace in traces):
        notes.append(f"  {unknown} kernels of NCCL whose sizes are not to be seen: left out")
    phases = [sum(values) for values in zip(*(trace.phases for trace in traces), strict=True)]
    if phases[1] > 0:
        total = sum(phases)
        forward, backward, optimizer = (100 * value / total for value in phases)
        which = "kernels" if on_device else "CPU time"
        notes.append(
            f"  of the {which}: forward {forward:.1f} %, backward {backward:.1f} %, optimizer "
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
        table = TransferTable(source, what, formula, tuple(transfers), tuple(notes), (name, ranks))
        tables.append(table)
    return tables


def _times(found: Sequence[Collective], name: str, ranks: int, size: float) -> list[float]:
    return [one.seconds for one in found if (one.name, one.ranks, one.size) == (name, ranks, size)]
