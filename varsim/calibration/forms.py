"""Measurement files: opened, recognised by content, read, and of several ranks combined."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final, Literal, NamedTuple, TypeAlias

from varsim.calibration.kineto import KinetoTrace, looks_like_kineto, read_kineto
from varsim.calibration.measurement import (
    SHORTEST,
    StepTable,
    TransferTable,
    UnreadableError,
    pattern,
    transfer,
)
from varsim.calibration.nccl import (
    looks_like_nccl_json,
    looks_like_nccl_text,
    read_nccl_json,
    read_nccl_text,
    transfers_of,
)
from varsim.calibration.tables import lacks_unit, looks_like_table, read_steps, read_transfers
from varsim.core.measured_times import read_step_times
from varsim.core.units import format_seconds

Idle: TypeAlias = Literal["keep", "drop"]
Form: TypeAlias = Literal["nccl", "csv", "steps", "kineto"]

FORMS: Final = {
    "nccl": "output of nccl-tests (text or -J)",
    "csv": "CSV of bytes,seconds",
    "steps": "CSV of step times (worker,step,seconds)",
    "kineto": "Chrome trace of torch.profiler (.json or .json.gz)",
}
_STDIN: Final = Path("-")
_LARGEST_TEXT: Final = 2**26
_LARGEST_JSON: Final = 2**31
_ACCEPTED: Final = f"accepted are: {'; '.join(FORMS.values())}"


class FormOptions(NamedTuple):
    """User's options for what a file may not say."""

    form: Form | None = None
    collective: str | None = None
    ranks: int | None = None
    unit: str | None = None
    idle: Idle | None = None


class Measurements(NamedTuple):
    """Contents of all files: tables of transfers, step times of all workers, notes.

    `traced`: all transfers are collectives of traces. `recorded`: notes on the ranks and steps that
    the traces hold.
    """

    transfers: tuple[TransferTable, ...]
    steps: StepTable | None
    notes: tuple[str, ...] = ()
    traced: bool = False
    recorded: tuple[str, ...] = ()


def read_files(
    paths: Sequence[Path], options: FormOptions, said: Callable[[str], None]
) -> Measurements:
    """Read all files; `said` gets a line for each. Raises UnreadableError with every complaint."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise UnreadableError("a file is given twice")
    wrong: list[str] = []
    found: list[TransferTable | StepTable | KinetoTrace] = []
    unit_needed = False
    for path in paths:
        try:
            text = _text(path)
            if options.unit is not None and text.lstrip()[:1] not in ("{", "["):
                unit_needed = unit_needed or lacks_unit(text, path.name)
            found += _read(path, text, options, said)
        except UnreadableError as error:
            wrong += str(error).splitlines()
    if wrong:
        raise UnreadableError(*wrong)
    transfers = tuple(one for one in found if isinstance(one, TransferTable))
    steps = [one for one in found if isinstance(one, StepTable)]
    traces = [one for one in found if isinstance(one, KinetoTrace)]
    from_nccl = any("nccl-tests" in table.what for table in transfers)
    for name, given in (("--collective", options.collective), ("--ranks", options.ranks)):
        if given is not None and not from_nccl:
            raise UnreadableError(f"{name} has no effect: there is no output of nccl-tests")
    if options.unit is not None and not unit_needed:
        raise UnreadableError("--unit has no effect: no column of times lacks its unit")
    if traces and steps:
        raise UnreadableError("step times from traces and from tables: calibrate one at a time")
    if traces:
        ranks = combine_ranks(traces, options.idle or "keep")
        tables, notes = (*transfers, *ranks.transfers), (*ranks.recorded, *ranks.notes)
        return Measurements(tables, ranks.steps, notes, not transfers, ranks.recorded)
    if options.idle is not None:
        raise UnreadableError("--idle has no effect: there is no trace of torch.profiler")
    return Measurements(transfers, _joined(steps) if steps else None)


def _read(
    path: Path, text: str, options: FormOptions, said: Callable[[str], None]
) -> Sequence[TransferTable | StepTable | KinetoTrace]:
    """What a file holds, by its content, or by the form that it is said to have."""
    source, data, form = path.name, None, options.form
    if not text.strip():
        raise UnreadableError(f"{source}: the file is empty; {_ACCEPTED}")
    if text.lstrip()[0] in "{[":
        data = _json(text, source)
        form = "kineto" if looks_like_kineto(data) else "nccl"
        if form == "nccl" and not looks_like_nccl_json(data):
            raise UnreadableError(
                f"{source}: JSON, but neither traceEvents nor results in it; {_ACCEPTED}"
            )
        if options.form not in (None, form):
            raise UnreadableError(f"{source}: not {FORMS[str(options.form)]}, but {FORMS[form]}")
    elif form == "kineto":
        raise UnreadableError(f"{source}: not a Chrome trace: it is not JSON")
    elif form is None:
        form = _form_of(text, source)
    said(f"{source}: {FORMS[form]}")
    if form == "csv":
        return [read_transfers(text, source, options.unit)]
    if form == "steps":
        return [_with_file(path, read_steps(text, source, options.unit))]
    if isinstance(data, dict):
        if form == "kineto":
            return [read_kineto(data, source)]
        tables = read_nccl_json(data, source)
    elif looks_like_nccl_text(text):
        tables = read_nccl_text(text, source)
    else:
        raise UnreadableError(f"{source}: no table of nccl-tests in it (size count type ...)")
    return [transfers_of(table, options.collective, options.ranks) for table in tables]


def _form_of(text: str, source: str) -> Form:
    if looks_like_nccl_text(text):
        return "nccl"
    found = looks_like_table(text, source)
    if found is None:
        raise UnreadableError(f"{source}: not recognised; {_ACCEPTED}; --as says which it is")
    return found


def _with_file(path: Path, table: StepTable) -> StepTable:
    """The table with its file's name, if `kind: trace` reads the same from it."""
    try:
        played = read_step_times(path)
    except ValueError:
        return table
    return table._replace(file=path.name) if dict(enumerate(played)) == table.rows else table


def _text(path: Path) -> str:
    """Text of a file, decompressed if necessary, of bounded size."""
    name = path.name
    if path.is_dir():
        raise UnreadableError(
            f"{name or path}: a folder; name its files (or --runs for recordings)"
        )
    try:
        with open(0 if path == _STDIN else path, "rb") as plain:
            packed = plain.peek(2)[:2] == b"\x1f\x8b"
            file = gzip.GzipFile(fileobj=plain) if packed else plain
            start, kind, most = file.read(_LARGEST_TEXT + 1), "text", _LARGEST_TEXT
            if start.lstrip()[:1] in (b"{", b"["):
                kind, most = "JSON", _LARGEST_JSON
                start += file.read(most + 1 - len(start))
    except OSError as error:
        raise UnreadableError(f"{name}: cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise UnreadableError(f"{name}: packed, but broken: {error}") from None
    if len(start) > most:
        raise UnreadableError(f"{name}: more than {most // 2**20} MiB of {kind}")
    try:
        return start.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = start.count(b"\n", 0, error.start) + 1
        raise UnreadableError(f"{name}, line {line}: not UTF-8 text") from None


def _json(text: str, source: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{source}, line {error.lineno}, column {error.colno}"
        raise UnreadableError(f"{place}: broken JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:  # as of a number of too many digits
        raise UnreadableError(f"{source}: broken JSON: {error}") from None


def _joined(tables: Sequence[StepTable]) -> StepTable:
    """Tables of several files as one; files of one unnumbered worker each are numbered."""
    if len(tables) == 1:
        return tables[0]
    if all(list(table.rows) == [0] for table in tables):
        tables = [table.of_worker(worker) for worker, table in enumerate(tables)]
    rows: dict[int, tuple[float, ...]] = {}
    numbers: dict[int, tuple[int, ...]] = {}
    for table in tables:
        for worker in table.rows:
            if worker in rows:
                raise UnreadableError(f"{table.source}: worker {worker} stands in two files")
        rows |= table.rows
        numbers |= table.numbers
    source = ", ".join(table.source for table in tables)
    return StepTable(source, dict(sorted(rows.items())), numbers)


# Whether time in which a GPU does nothing counts as compute.
_IDLE: Final = 0.05  # of a step; less is not worth a line


class CombinedTraces(NamedTuple):
    """Steps of all ranks, the tables of their collectives, and remarks on both.

    `recorded`: which ranks and steps there are.
    """

    steps: StepTable
    transfers: tuple[TransferTable, ...]
    notes: tuple[str, ...]
    recorded: tuple[str, ...]


def combine_ranks(traces: Sequence[KinetoTrace], idle: Idle = "keep") -> CombinedTraces:
    """Traces of one run, one per rank, as measurements. Raises UnreadableError for a rank twice.

    What a step computes is its whole without the communication that nothing else hid; `idle` says
    whether time counts in which a GPU did neither. A collective is as long as its kernel ran on the
    rank that came last: on others it waits for that one.
    """
    seen: dict[int, str] = {}
    rows: dict[int, tuple[float, ...]] = {}
    numbers: dict[int, tuple[int, ...]] = {}
    if idle == "drop" and not all(trace.on_device for trace in traces):
        raise UnreadableError("--idle has no effect: a trace has no kernels of a GPU")
    for index, trace in enumerate(traces):
        rank = index if trace.rank is None else trace.rank
        if rank in seen:
            raise UnreadableError(f"{trace.source}: rank {rank} again ({seen[rank]} has it)")
        seen[rank] = trace.source
        rows[rank] = tuple(
            step.whole - step.exposed - (step.idle if idle == "drop" else 0.0)
            for step in trace.steps
        )
        numbers[rank] = tuple(step.number for step in trace.steps)
        if min(rows[rank]) < SHORTEST:
            raise UnreadableError(f"{trace.source}: a step in which nothing is computed")
    source = ", ".join(seen.values())
    table = StepTable(source, dict(sorted(rows.items())), numbers, alone=True)
    recorded, notes = tuple(_recorded(traces)), tuple(_notes(traces, idle))
    return CombinedTraces(table, tuple(_tables(traces, source)), notes, recorded)


def _recorded(traces: Sequence[KinetoTrace]) -> Iterator[str]:
    """Notes on missing ranks and incomplete steps."""
    ranks = {trace.ranks for trace in traces}
    (all_ranks,) = ranks if len(ranks) == 1 else (None,)
    if all_ranks is None:
        many = "1 trace, which does" if len(traces) == 1 else f"{len(traces)} traces, which do"
        yield f"{many} not say of how many ranks: slow ones may be missing"
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


def _notes(traces: Sequence[KinetoTrace], idle: Idle) -> Iterator[str]:
    """What a step is made of, on average."""
    steps = [step for trace in traces for step in trace.steps]
    fields = ("whole", "computing", "communicating", "exposed", "idle")
    whole, computing, sent, exposed, idling = (
        sum(getattr(step, field) for step in steps) / len(steps) for field in fields
    )
    of = "1 step" if len(steps) == 1 else f"mean of {len(steps)} steps"
    yield f"{of}: {format_seconds(whole)} from beginning to end"
    on_device = all(trace.on_device for trace in traces)
    if on_device or sent:
        what, others = ("kernels", "NCCL") if on_device else ("operators of the CPU", "gloo")
        yield (
            f"  {what} other than {others}'s {format_seconds(computing)}, {others}'s "
            f"{format_seconds(sent)}, of which {format_seconds(sent - exposed)} beside others, "
            f"{format_seconds(exposed)} alone"
        )
        yield f"  compute is the step without what {others} took alone"
    else:
        yield "  no kernels of a GPU, no collectives of gloo: compute is the whole step"
    if on_device and idling >= _IDLE * whole:
        share = (
            f"the GPU idles for {format_seconds(idling)} of a step ({100 * idling / whole:.0f} %)"
        )
        if idle == "drop":
            yield f"  {share}; left out: a step of the scenario is shorter by that"
        else:
            yield (
                f"  {share}: the host, the input or others hold it up; that counts as compute, "
                "since a step takes it; --idle drop leaves it out"
            )
    if unknown := sum(trace.unknown for trace in traces):
        yield f"  {unknown} kernels of NCCL whose sizes cannot be seen: left out"
    phases = [sum(values) for values in zip(*(trace.phases for trace in traces), strict=True)]
    if phases[1] > 0:
        forward, backward, optimizer = (100 * value / sum(phases) for value in phases)
        which = "kernels" if on_device else "CPU time"
        yield (
            f"  of the {which}: forward {forward:.1f} %, backward {backward:.1f} %, optimizer "
            f"{optimizer:.1f} %"
        )
        yield f"  where gradients are sent meanwhile: backward_share: {backward / 100:.3g}"


def _tables(traces: Sequence[KinetoTrace], source: str) -> Iterator[TransferTable]:
    """A table per collective and number of ranks, a time for each size."""
    found: dict[tuple[str, int], dict[float, list[float]]] = {}
    waits = False
    for name, ranks, size in sorted(
        {(one.name, one.ranks, one.size) for trace in traces for one in trace.collectives}
    ):
        each = [
            [one.seconds for one in trace.collectives if one[:3] == (name, size, ranks)]
            for trace in traces
        ]
        times = [time for one in each for time in one]
        if ranks == len(traces) and len({len(one) for one in each}) == 1:
            times = [min(side) for side in zip(*each, strict=True)]
        else:
            waits = True
        found.setdefault((name, ranks), {})[size] = times
    for (name, ranks), by_size in found.items():
        runs = sum(map(len, by_size.values()))
        notes = [f"{runs} collectives seen; of each size the median"]
        if waits:
            notes.append("not the traces of all ranks: times may contain waiting for late ranks")
        yield TransferTable(
            source,
            f"{name} of {ranks} ranks, kernels of NCCL",
            pattern(name, ranks).formula,
            tuple(transfer(name, ranks, size, median(own)) for size, own in by_size.items()),
            tuple(notes),
            (name, ranks),
        )
