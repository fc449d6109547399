"""Recorded cases: read from files of either format, compared, and what of them is left out."""

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

DATA: Final = (Path(__file__).parent / "data").resolve()

# One JSON object of a case file, as written there.
Record = Mapping[str, Any]
Values = NDArray[Any]

# What is replayed: cases of variables ({"format": 1}), and these kinds of {"schema": 1}.
VARIABLES: Final = "variables"
_NAMES: Final = """
accumulator sync_replicas async_ps errors diloco diloco_recovery easgd drop_compute gossip sgp
local_sgd post_local_sgd ssp async k_async k_batch_async k_batch_sync k_sync
"""
KINDS: Final = frozenset(_NAMES.split())

_ABORTED: Final = (
    "not reproduced: numbers of several types in one collective end it with InternalError, which "
    "every later collective of the same process repeats; they were recorded in one process"
)
# What varsim does otherwise, by case; accidents only, and never the contract. They must differ.
NOT_REPRODUCED: Final[Mapping[str, str]] = dict.fromkeys(
    [f"random/{number}" for number in (5178, 5185, 5189, 5190, 5196, 5199)], _ABORTED
)

# Quirks that varsim leaves out, each with what is therefore not compared; all else is.
# varsim's Adam counts the updates when it applies one, TensorFlow's when the worker reads.
LEFT_OUT: Final[Mapping[str, Set[str]]] = {"adam_powers_read_at_start": {"variables"}}

_AT_ONCE: Final = "start() makes the accumulators, the tokens and the chief; none is there before"

# Calls of TensorFlow's Python interface, by name and case, to which nothing in varsim corresponds.
NO_COUNTERPART: Final[Mapping[tuple[str, str], str]] = {
    ("apply_gradients", "no global step"): "every job counts its own steps",
    ("get_chief_queue_runner", "before apply_gradients"): _AT_ONCE,
    ("hook", "before apply_gradients"): _AT_ONCE,
    ("get_init_tokens_op", "before apply_gradients"): _AT_ONCE,
}


class Case(NamedTuple):
    """One recorded case; `tolerance` by dtype, where its file has one."""

    name: str
    kind: str
    record: Record
    tolerance: Mapping[str, Mapping[str, float]]

    @property
    def status(self) -> str:
        """contract, quirk (of TensorFlow's implementation) or detail."""
        status: str = self.record.get("status", "quirk" if "quirk" in self.record else "contract")
        return status

    @property
    def not_compared(self) -> Set[str]:
        """What is not compared because varsim leaves out a quirk of the case."""
        return LEFT_OUT.get(self.record.get("quirk", ""), frozenset())

    def equal(self, got: Values, wanted: Record) -> bool:
        """Do dtype and shape agree, and all elements within the tolerance?"""
        value = array(wanted)
        if got.dtype != value.dtype or got.shape != value.shape:
            return False
        allowed = self.record.get("tolerance") or self.tolerance.get(value.dtype.name)
        if allowed is None:
            return bool(np.array_equal(got, value, equal_nan=value.dtype.kind == "c"))
        if value.dtype.name == "bfloat16":
            got, value = got.astype(np.float32), value.astype(np.float32)
        return bool(np.allclose(got, value, allowed["rtol"], allowed["atol"], equal_nan=True))


@cache
def files(folder: Path) -> dict[Path, Any]:
    """What all JSON files in a folder and below it contain, also those that are compressed."""
    if not folder.is_dir():
        raise pytest.UsageError(f"--cases: there is no folder {folder}")
    found = {}
    for path in sorted([*folder.rglob("*.json"), *folder.rglob("*.json.gz")]):
        content = path.read_bytes()
        try:
            found[path] = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
        except (ValueError, OSError) as error:
            raise pytest.UsageError(f"{path} cannot be read: {error}") from None
    return found


def cases(folder: Path) -> list[Case]:
    """All cases in a folder and below it that are replayed; for others see `left_out`."""
    return [
        Case(record["id"], VARIABLES, record, content["tolerance"])
        if _is_of(content, "format")
        else Case(f"{path.stem}-{record['id']}", record["kind"], record, {})
        for path, content in files(folder).items()
        if _is_of(content, "format") or _is_of(content, "schema")
        for record in content["cases"]
        if _is_of(content, "format") or _is_replayed(record)
    ]


def left_out(folder: Path) -> list[str]:
    """A line for each file with something that nothing here replays."""
    lines = []
    for path, content in files(folder).items():
        if _is_of(content, "schema"):
            unknown = Counter(one["kind"] for one in content["cases"] if not _is_replayed(one))
            kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(unknown.items()))
            if unknown:
                lines.append(
                    f"{path.name}: cases of a topic that is not replayed, left out: {kinds}"
                )
        elif not _is_of(content, "format"):
            lines.append(f"{path.name}: no recorded cases in a format that is known; left out")
    return lines or ([] if files(folder) else [f"{folder}: no JSON file, so no recorded cases"])


def _is_of(content: Any, version: str) -> bool:
    """Whether a file holds cases of {"format": 1}, of variables, or of {"schema": 1}."""
    return isinstance(content, dict) and content.get(version) == 1 and "cases" in content


def _is_replayed(record: Record) -> bool:
    """Whether a case is of a known kind, and of settings that varsim still has."""
    gone = record.get("mode") == "round_robin" or record.get("check") == "preempt"
    return record["kind"] in KINDS and not gone and not record.get("subgroups")


def has_counterpart(call: Record) -> bool:
    """Whether a call of TensorFlow's Python interface corresponds to something in varsim."""
    return (call["call"], call.get("case")) not in NO_COUNTERPART


def calls_left_out(found: Iterable[Case]) -> list[tuple[str, str]]:
    """The calls that are not made, by name and case."""
    calls = (call for case in found for call in case.record.get("calls", ()))
    return [(call["call"], call["case"]) for call in calls if not has_counterpart(call)]


def array(record: Record) -> Values:
    """The array that a tensor of a case file describes."""
    if record["dtype"] == "bfloat16":
        import ml_dtypes  # noqa: F401 - makes this dtype known to numpy
    dtype = np.dtype(record["dtype"])
    data = record["data"]
    if dtype.kind == "c":
        data = [complex(*map(float, pair)) for pair in data]
    elif "float" in dtype.name:
        data = [float(number) for number in data]
    return np.array(data, dtype).reshape(record["shape"])


def assert_close(
    seen: Any, expected: Any, rtol: float, where: str, left_out: Set[str] = frozenset()
) -> None:
    """Numbers with a fraction within the tolerance, all else exactly.

    Of a mapping every entry that was recorded is compared, but those left out; of a sequence, all.
    """
    if isinstance(expected, Mapping):
        for key in expected.keys() - left_out:
            assert key in seen, f"{where}: {key}: nothing seen"
            assert_close(seen[key], expected[key], rtol, f"{where}: {key}", left_out)
    elif _is_array(expected):
        values = np.asarray(seen)
        assert values.shape == np.shape(expected), f"{where}: {values} instead of {expected}"
        near = np.allclose(values, expected, rtol=rtol, atol=rtol)
        assert near, f"{where}: {values} instead of {expected}"
    elif isinstance(expected, list):
        assert len(seen) == len(expected), f"{where}: {seen} instead of {expected}"
        for index, (one, other) in enumerate(zip(seen, expected, strict=True)):
            assert_close(one, other, rtol, f"{where}: {index}", left_out)
    else:
        assert type(seen) is type(expected), f"{where}: {seen!r} instead of {expected!r}"
        assert seen == expected, f"{where}: {seen!r} instead of {expected!r}"


def _is_array(value: Any) -> bool:
    """A number with a fraction, or nested lists of them."""
    if isinstance(value, list):
        return bool(value) and all(_is_array(part) for part in value)
    return isinstance(value, float)
