"""The files of a run of variables: written all at once or not at all, and read back."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from varsim.cluster.execution import Sent
from varsim.cluster.program import ProgramTrace
from varsim.cluster.trace import LinkRow
from varsim.distribute.program import VariableDescription
from varsim.distribute.program_run import CROSS_REPLICA, ActionRecord, ValueSummary, VariableView
from varsim.inert import number_or_cell, original
from varsim.report.files.keeping import facts_of, head, put_run, scenario_of
from varsim.report.render import csv_lines, csv_text
from varsim.report.report import Data, Report
from varsim.report.variables import document
from varsim.scenario.variables import VariablesScenario
from varsim.study.program.tables import COLUMNS, act_rows, sent_rows
from varsim.study.variables import VariablesResult
from varsim.values.operation import DEFAULT_DEVICE, Device

_SECOND = 1_000_000_000
_READ = ("acts", "sent", "links")  # the tables that are read back
Row: TypeAlias = dict[str, str]
T = TypeVar("T")


def save_variables(result: VariablesResult, directory: Path, report: Report | None = None) -> Path:
    """Write all files of a run, as `save` does for a training run; returns the directory."""
    from varsim.scenario.writing import dump_scenario

    written = {"acts": act_rows(result.written), "sent": sent_rows(result.written)}
    files: dict[str, Iterable[str] | bytes] = {
        "summary.csv": [csv_text(Data.of(result.summary))],
        "runs.csv": [csv_text(Data.of(result.runs))],
        "links.csv": [csv_text(Data.of(result.links))],
        "scenario.yaml": [head(report.question if report else ""), dump_scenario(result.scenario)],
        **{f"{name}.csv": _table(name, rows) for name, rows in written.items()},
    }
    put_run(directory, "variables", files, document(result), report)
    return directory


def load_variables(directory: Path) -> VariablesResult:
    """The VariablesResult that was saved in `directory`.

    Raises NotARunError where there is no run that this version can read, OSError where a file of
    it is missing.
    """
    facts = facts_of(directory, "variables")
    scenario = scenario_of(facts, directory, VariablesScenario)
    tables = {name: _Rows((directory / f"{name}.csv").read_bytes()) for name in _READ}
    reading = _Reading(scenario)
    modes = dict(zip(scenario.labels, scenario.all_modes, strict=True))
    traces = []
    for run in facts["runs"]:
        rows = run.get("rows", dict.fromkeys(tables, 0))
        views = facts["seen"][run["mode"]] if "rows" in run and run["replication"] == 0 else []
        traces.append(
            ProgramTrace(
                mode=modes[run["mode"]],
                replication=run["replication"],
                began=run["began_ns"],
                end=run["end_ns"],
                moved=run["moved_bytes"],
                messages=run["messages"],
                all_acts=run["all_acts"],
                all_sent=run["all_sent"],
                acts=tables["acts"].take(rows["acts"], reading.act),
                sent=tables["sent"].take(rows["sent"], _message),
                links=tables["links"].take(rows["links"], _link),
                views=list(map(_view, views)),
            )
        )
    return VariablesResult(scenario, traces, facts["provenance"])


def _table(name: str, rows: Iterable[tuple[object, ...]]) -> Iterator[str]:
    """A long table as CSV."""
    columns = list(COLUMNS[name])
    return csv_lines(columns, _with_seconds(rows, columns))


def _with_seconds(
    rows: Iterable[tuple[object, ...]], columns: Sequence[str]
) -> Iterator[list[object]]:
    """Rows whose times in ns are exact seconds, `1.250000000`."""
    times = [place for place, column in enumerate(columns) if column.endswith("_s")]
    for row in rows:
        cells = [number_or_cell(one) if isinstance(one, str) else one for one in row]
        for place in times:
            time = cells[place]
            assert isinstance(time, int)
            cells[place] = f"{time // _SECOND}.{time % _SECOND:09d}"
        yield cells


class _Rows:
    """One saved table, handed out run by run."""

    def __init__(self, content: bytes) -> None:
        text = io.StringIO(content.decode("utf-8"), newline="")
        rows = csv.DictReader(text)
        self._rows = [{name: original(one) for name, one in row.items()} for row in rows]
        self._next = 0

    def take(self, count: int, read: Callable[[Row], T]) -> list[T]:
        """The next so many rows, read one by one."""
        rows = self._rows[self._next : self._next + count]
        self._next += count
        return list(map(read, rows))


class _Reading:
    """What the rows of acts.csv say, in the dtypes and shapes of the variables."""

    def __init__(self, scenario: VariablesScenario) -> None:
        self._variables = {variable.name: variable for variable in scenario.variables}

    def act(self, row: Row) -> ActionRecord:
        """One act."""
        part, _, number = row["line"].partition(".")
        variable = self._variables[row["variable"]] if row["variable"] else None
        copies = row["copies"].split(" | ") if row["copies"] else []
        return ActionRecord(
            step=int(row["step"]),
            part=part,
            number=int(number),
            kind=row["action"],
            variable=row["variable"],
            repetition=int(row["repetition"]),
            replica=CROSS_REPLICA if row["actor"] == "outside" else _rank(row["actor"]),
            begin=_nanoseconds(row["begin_s"]),
            end=_nanoseconds(row["end_s"]),
            handed=_parsed(row["handed"], variable),
            seen=_parsed(row["seen"], variable),
            copies=tuple(_glance_of(text, variable) for text in copies),
            moved=tuple(map(int, row["movements"].split())),
        )


def _parsed(text: str, variable: VariableDescription | None) -> ValueSummary | None:
    return _glance_of(text, variable) if text else None


def _glance_of(text: str, variable: VariableDescription | None) -> ValueSummary:
    """A value of a variable from the text that `tables.exact` makes of it."""
    if variable is None:
        raise ValueError("a value without a variable")
    first, _, mean = text.partition(" ... mean ")
    number = int if variable.whole_numbers else float
    numbers = tuple(map(number, first.split()))
    if not mean:
        return ValueSummary.at(np.array(numbers, variable.dtype).reshape(variable.shape))
    return ValueSummary(variable.shape, numbers, float(mean))


def _message(row: Row) -> Sent:
    return Sent(
        row["what"],
        int(row["movement"]),
        int(row["round"]),
        _device(row["from"]),
        _device(row["to"]),
        int(row["bytes"]),
        _nanoseconds(row["start_s"]),
        _nanoseconds(row["end_s"]),
    )


def _link(row: Row) -> LinkRow:
    return LinkRow(row["link"], float(row["bandwidth_bytes_per_s"]), float(row["moved_bytes"]))


def _view(view: dict[str, Any]) -> VariableView:
    return VariableView(
        view["variable"],
        tuple(map(_glance, view["replicas"])),
        _glance(view["outside"]),
        tuple(_known(glance) for glance in view["copies"]),
    )


def _glance(glance: dict[str, Any] | None) -> ValueSummary | None:
    return None if glance is None else _known(glance)


def _known(glance: dict[str, Any]) -> ValueSummary:
    """In JSON nan is null, and inf is text."""
    first = tuple(map(_number, glance["first"]))
    return ValueSummary(tuple(glance["shape"]), first, _number(glance["mean"]))


def _number(value: float | str | None) -> float:
    if value is None:
        return float("nan")
    return float(value) if isinstance(value, str) else value


def _device(place: str) -> Device:
    """The inverse of `tables.place`."""
    if place == "outside":
        return DEFAULT_DEVICE
    job, _, number = place.partition(" ")
    return Device("ps", int(number)) if job == "ps" else Device(task=_rank(place), kind="gpu")


def _rank(actor: str) -> int:
    return int(actor.removeprefix("replica "))


def _nanoseconds(text: str) -> int:
    """The inverse of what `_with_seconds` writes."""
    return int(text.replace(".", ""))
