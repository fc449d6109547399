"""What nccl-tests write with -J: one JSON object with the configuration and the results.

Format of NVIDIA/nccl-tests, src/util.cu (file version 1): `config.devices` lists the ranks; each of
`results` has size, redop, root, and `out_of_place` and `in_place` with time (us), alg_bw and bus_bw
(GB/s) and nwrong (null: not checked). The name of the test is that of the program, in `args`.
"""

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from varsim.calibration.measurement import LARGEST, LONGEST, SHORTEST, UnreadableError
from varsim.calibration.nccl import Row, Table

_PROGRAM: Final = re.compile(r"([a-z][a-z_0-9]*?)_perf(?:_mpi)?$")
_MICROSECONDS: Final = 1e-6


def looks_like_nccl_json(data: object) -> bool:
    """Is it such an object?"""
    return isinstance(data, Mapping) and "results" in data and "config" in data


def read_nccl_json(data: Mapping[str, Any], source: str) -> list[Table]:
    """The one table of a file; UnreadableError names every result that is wrong."""
    results = data.get("results")
    if not isinstance(results, list):
        raise UnreadableError([f"{source}: results is not a list"])
    wrong: list[str] = []
    rows = []
    for number, result in enumerate(results, start=1):
        try:
            rows.append(_row(result))
        except ValueError as problem:
            wrong.append(f"{source}, result {number}: {problem}")
    if wrong:
        raise UnreadableError(wrong)
    if not rows:
        raise UnreadableError([f"{source}: results is empty"])
    return [Table(source, _program(data), _ranks(data), rows)]


def _row(result: object) -> Row:
    if not isinstance(result, Mapping):
        raise ValueError("it is not an object")
    size = _number(result, "size")
    if size != int(size) or not 0 <= size <= LARGEST:
        raise ValueError(f"size {size:g} is not a whole number of bytes from 0 up")
    out = result.get("out_of_place")
    half = out if isinstance(out, Mapping) else result.get("in_place")
    if not isinstance(half, Mapping):
        raise ValueError("it has neither out_of_place nor in_place")
    if "time" not in half and "cpu_time" in half:
        raise ValueError("cpu_time is the time of the CPU (-C), not of the transfer")
    microseconds = _number(half, "time") if size else math.nan
    seconds = microseconds * _MICROSECONDS
    if microseconds <= 0:
        raise ValueError(f"time {microseconds:g} is not above 0")
    if size and not SHORTEST <= seconds <= LONGEST:
        raise ValueError(f"time {microseconds:g} us is {seconds:.3g} s: is the unit right?")
    rate, bus = _number(half, "alg_bw"), _number(half, "bus_bw")
    root = str(result.get("root", "")).strip()
    return Row(
        size=size,
        seconds=seconds,
        redop=str(result.get("redop", "")),
        root=int(root) if re.fullmatch(r"-?[0-9]{1,9}", root) else None,
        ratio=bus / rate if rate >= 1e-3 else None,  # six decimals are written
        right=half.get("nwrong") is None or _number(half, "nwrong") == 0,
        in_place=half is not out,
    )


def _number(values: Mapping[str, Any], key: str) -> float:
    value = values.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            if math.isfinite(value):
                return float(value)
    raise ValueError(f"{key} is not a number" if key in values else f"{key} is missing")


def _program(data: Mapping[str, Any]) -> str:
    arguments = data.get("args")
    first = str(arguments[0]) if isinstance(arguments, list) and arguments else ""
    found = _PROGRAM.search(first)
    return found[1].rsplit("/", 1)[-1] if found else ""


def _ranks(data: Mapping[str, Any]) -> int | None:
    """The ranks of the largest group; None where none are listed.

    Of a process with several ranks only the first is listed: then ranks go up in steps.
    """
    config = data.get("config")
    if not isinstance(config, Mapping):
        return None
    devices = config.get("devices")
    groups: dict[str, set[int]] = {}
    for device in devices if isinstance(devices, list) else []:
        if isinstance(device, Mapping) and isinstance(device.get("rank"), int):
            groups.setdefault(str(device.get("group", 0)), set()).add(device["rank"])
    if not groups:
        return None
    step = _count(config, "nthreads") * _count(config, "ngpus")
    firsts = all(rank % step == 0 for group in groups.values() for rank in group)
    return max(len(group) for group in groups.values()) * (step if firsts else 1)


def _count(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    return value if isinstance(value, int) and value > 0 else 1
