"""Measurement files: opened, recognised by content, and read."""

import gzip
import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from varsim.calibration.kineto import Trace, looks_like_kineto, read_kineto
from varsim.calibration.measurement import StepTable, TransferTable, UnreadableError
from varsim.calibration.nccl import (
    Table,
    looks_like_nccl_json,
    looks_like_nccl_text,
    read_nccl_json,
    read_nccl_text,
    transfers_of,
)
from varsim.calibration.ranks import Idle, combine_ranks
from varsim.calibration.tables import lacks_unit, looks_like_table, read_steps, read_transfers
from varsim.values.measured_times import read_step_times

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
_LARGEST: Final = {"text": _LARGEST_TEXT, "JSON": _LARGEST_JSON}


class Options(NamedTuple):
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
    paths: Sequence[Path], options: Options, said: Callable[[str], None]
) -> Measurements:
    """Read all files; `said` gets a line for each. Raises UnreadableError with every complaint."""
    wrong: list[str] = []
    transfers: list[TransferTable] = []
    steps: list[StepTable] = []
    traces: list[Trace] = []
    unit_needed = False
    if len({path.resolve() for path in paths}) < len(paths):
        raise UnreadableError(["a file is given twice"])
    for path in paths:
        try:
            text = _text(path)
            if options.unit is not None:
                unit_needed = unit_needed or _needs_unit(text, path.name)
            for found in _read(path, text, options, said):
                if isinstance(found, TransferTable):
                    transfers.append(found)
                elif isinstance(found, StepTable):
                    steps.append(found)
                else:
                    traces.append(found)
        except UnreadableError as error:
            wrong += str(error).splitlines()
    if wrong:
        raise UnreadableError(wrong)
    _refuse_unused_options(options, transfers, unit_needed)
    if traces and steps:
        raise UnreadableError(["step times from traces and from tables: calibrate one at a time"])
    if not traces:
        if options.idle is not None:
            raise UnreadableError(["--idle has no effect: there is no trace of torch.profiler"])
        return Measurements(tuple(transfers), _joined(steps) if steps else None)
    all_ranks = combine_ranks(traces, options.idle or "keep")
    tables = (*transfers, *all_ranks.transfers)
    recorded = all_ranks.recorded
    notes = (*recorded, *all_ranks.notes)
    return Measurements(tables, all_ranks.steps, notes, not transfers, recorded)


def _refuse_unused_options(
    options: Options, transfers: Sequence[TransferTable], unit_needed: bool
) -> None:
    """Raise UnreadableError for an option that none of the files has a use for."""
    from_nccl = any("nccl-tests" in table.what for table in transfers)
    for name, given in (("--collective", options.collective), ("--ranks", options.ranks)):
        if given is not None and not from_nccl:
            raise UnreadableError([f"{name} has no effect: there is no output of nccl-tests"])
    if options.unit is not None and not unit_needed:
        raise UnreadableError(["--unit has no effect: no column of times lacks its unit"])


def _needs_unit(text: str, source: str) -> bool:
    return text.lstrip()[:1] not in ("{", "[") and lacks_unit(text, source)


def _read(
    path: Path, text: str, options: Options, said: Callable[[str], None]
) -> list[TransferTable] | list[StepTable] | list[Trace]:
    source = path.name
    if not text.strip():
        raise UnreadableError([f"{source}: the file is empty; {_accepted()}"])
    if text.lstrip()[0] in "{[":
        data = _json(text, source)
        of_json = _form_of_json(data, options, source)
        assert isinstance(data, dict)
        said(f"{source}: {FORMS[of_json]}")
        if of_json == "kineto":
            return [read_kineto(data, source)]
        return _used(read_nccl_json(data, source), options)
    form = options.form or _form_of_text(text, source)
    if form == "kineto":
        raise UnreadableError([f"{source}: not a Chrome trace: it is not JSON"])
    said(f"{source}: {FORMS[form]}")
    if form == "csv":
        return [read_transfers(text, source, options.unit)]
    if form == "steps":
        return [_with_file(path, read_steps(text, source, options.unit))]
    if not looks_like_nccl_text(text):
        raise UnreadableError([f"{source}: no table of nccl-tests in it (size count type ...)"])
    return _used(read_nccl_text(text, source), options)


def _with_file(path: Path, table: StepTable) -> StepTable:
    """The table with its file's name, if `kind: trace` reads the same from it."""
    try:
        played = read_step_times(path)
    except ValueError:
        return table
    return table._replace(file=path.name) if dict(enumerate(played)) == table.rows else table


def _used(tables: Sequence[Table], options: Options) -> list[TransferTable]:
    return [transfers_of(table, options.collective, options.ranks) for table in tables]


def _form_of_json(data: object, options: Options, source: str) -> Literal["nccl", "kineto"]:
    found: Literal["nccl", "kineto"]
    if looks_like_kineto(data):
        found = "kineto"
    elif looks_like_nccl_json(data):
        found = "nccl"
    else:
        raise UnreadableError(
            [f"{source}: JSON, but neither traceEvents nor results in it; {_accepted()}"]
        )
    if options.form not in (None, found):
        raise UnreadableError([f"{source}: not {FORMS[str(options.form)]}, but {FORMS[found]}"])
    return found


def _form_of_text(text: str, source: str) -> Form:
    if looks_like_nccl_text(text):
        return "nccl"
    found = looks_like_table(text, source)
    if found == "csv":
        return "csv"
    if found == "steps":
        return "steps"
    raise UnreadableError([f"{source}: not recognised; {_accepted()}; --as says which it is"])


def _accepted() -> str:
    return f"accepted are: {'; '.join(FORMS.values())}"


def _text(path: Path) -> str:
    """Text of a file, decompressed if necessary, of bounded size."""
    if path.is_dir():
        raise UnreadableError(
            [f"{path.name or path}: a folder; name its files (or --runs for recordings)"]
        )
    try:
        with open(0 if path == _STDIN else path, "rb") as plain:
            packed = plain.peek(2)[:2] == b"\x1f\x8b"
            file = gzip.GzipFile(fileobj=plain) if packed else plain
            start = file.read(_LARGEST_TEXT + 1)
            if start.lstrip()[:1] in (b"{", b"["):
                start += file.read(_LARGEST_JSON + 1 - len(start))
                kind = "JSON"
            else:
                kind = "text"
    except OSError as error:
        why = error.strerror or str(error)
        raise UnreadableError([f"{path.name}: cannot be read: {why}"]) from None
    except (EOFError, zlib.error) as error:
        raise UnreadableError([f"{path.name}: packed, but broken: {error}"]) from None
    if len(start) > _LARGEST[kind]:
        raise UnreadableError([f"{path.name}: more than {_LARGEST[kind] // 2**20} MiB of {kind}"])
    try:
        return start.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = start.count(b"\n", 0, error.start) + 1
        raise UnreadableError([f"{path.name}, line {line}: not UTF-8 text"]) from None


def _json(text: str, source: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{source}, line {error.lineno}, column {error.colno}"
        raise UnreadableError([f"{place}: broken JSON: {error.msg}"]) from None
    except (RecursionError, ValueError) as error:  # as of a number of too many digits
        raise UnreadableError([f"{source}: broken JSON: {error}"]) from None


def _joined(tables: Sequence[StepTable]) -> StepTable:
    """Tables of several files as one; files of one unnumbered worker each are numbered."""
    if len(tables) == 1:
        return tables[0]
    if all(list(table.rows) == [0] for table in tables):
        tables = [table.of_worker(worker) for worker, table in enumerate(tables)]
    source = ", ".join(table.source for table in tables)
    rows: dict[int, tuple[float, ...]] = {}
    numbers: dict[int, tuple[int, ...]] = {}
    for table in tables:
        for worker, row in table.rows.items():
            if worker in rows:
                raise UnreadableError([f"{table.source}: worker {worker} stands in two files"])
            rows[worker] = row
        numbers |= table.numbers
    return StepTable(source, {worker: rows[worker] for worker in sorted(rows)}, numbers)
