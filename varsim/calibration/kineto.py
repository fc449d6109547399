"""Chrome traces of PyTorch's profiler (Kineto), one file per rank.

Format of pytorch/kineto, libkineto/src/output_json.cpp: complete events (ph X) with ts and dur in
us; `ProfilerStep#n` of category user_annotation; kernels of category kernel, whose `correlation` is
that of the launch on the CPU; those of NCCL are named ncclDevKernel_... or ncclKernel_... and carry
"Collective name", "In msg nelems", "Out msg nelems", "dtype" and "Group size", if not themselves
then the record_param_comms with the same "External id". `distributedInfo` has rank and world_size.
Collectives of gloo are annotations of the CPU, gloo:all_reduce and so on, on threads of their own.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Final, NamedTuple, TypeAlias

from varsim.calibration.measurement import LARGEST, LONGEST, SHORTEST, UnreadableError

Intervals: TypeAlias = list[tuple[float, float]]


def union(intervals: Iterable[tuple[float, float]]) -> Intervals:
    """All of them, those that touch or overlap joined."""
    joined: Intervals = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def clipped(intervals: Sequence[tuple[float, float]], start: float, end: float) -> Intervals:
    """What of a union lies between two times."""
    first = bisect_right(intervals, start, key=lambda one: one[1])
    last = bisect_left(intervals, end, key=lambda one: one[0])
    return [(max(a, start), min(b, end)) for a, b in intervals[first:last]]


def without(
    intervals: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]
) -> Intervals:
    """What of a union is not in another."""
    left: Intervals = []
    for start, end in intervals:
        for a, b in clipped(others, start, end):
            if a > start:
                left.append((start, a))
            start = b
        if start < end:
            left.append((start, end))
    return left


def length(intervals: Sequence[tuple[float, float]]) -> float:
    """How long they are together."""
    return sum(end - start for start, end in intervals)


_MICROSECONDS: Final = 1e-6
_RANKS: Final = 10**6
_STEP: Final = "ProfilerStep#"
_NUMBERED: Final = re.compile(_STEP + "([0-9]{1,9})")
_NCCL: Final = re.compile("nccl|rccl", re.IGNORECASE)
_BACKWARD: Final = "autograd::engine::evaluate_function"
_OPTIMIZER: Final = "Optimizer.step#"
_ON_DEVICE: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_LAUNCHES: Final = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime"})
_GLOO: Final = "gloo:"
_HANDS_OVER: Final = ("c10d::", "record_param_comms")
_STUB: Final = 0.05  # of the longest step; a shorter one is cut by the end of the recording
_LAG: Final = 0.01  # of a step; a device that is farther behind the host has steps of its own

# Bytes of an element, by the names of c10's ScalarType and of torch.
_BYTES: Final = {
    **dict.fromkeys(("double", "float64", "long", "int64"), 8),
    **dict.fromkeys(("float", "float32", "int", "int32"), 4),
    **dict.fromkeys(("half", "float16", "bfloat16", "short", "int16"), 2),
    **dict.fromkeys(("byte", "char", "bool", "uint8", "int8"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 1),
}
# What the process groups call collectives, squeezed; the size of the whole is in or out.
_NAMES: Final = {
    **dict.fromkeys(("allreduce", "allreducecoalesced"), ("all_reduce", "In")),
    **dict.fromkeys(
        ("allgather", "allgatherbase", "allgatherintotensor", "allgatherintotensorcoalesced"),
        ("all_gather", "Out"),
    ),
    **dict.fromkeys(
        ("reducescatter", "reducescatterbase", "reducescattertensor"), ("reduce_scatter", "In")
    ),
    "reducescattertensorcoalesced": ("reduce_scatter", "In"),
    "broadcast": ("broadcast", "In"),
    **dict.fromkeys(
        ("alltoall", "alltoallv", "alltoallbase", "alltoallsingle"), ("alltoall", "In")
    ),
    "reduce": ("reduce", "In"),
    **dict.fromkeys(("send", "recv"), ("sendrecv", "In")),
}


class TracedCollective(NamedTuple):
    """One NCCL kernel: which collective of how many bytes and ranks, and how long it ran (s)."""

    name: str
    size: float
    ranks: int
    seconds: float


class Step(NamedTuple):
    """One step (s): its whole, computation, communication, and communication beside nothing.

    On a GPU computation is all of its activity but NCCL's kernels, on a CPU it is operators.
    """

    number: int
    whole: float
    computing: float
    communicating: float
    exposed: float

    @property
    def idle(self) -> float:
        """Time in which there is neither computation nor communication."""
        return self.whole - self.computing - self.exposed


class KinetoTrace(NamedTuple):
    """One rank's trace, `rank` of `ranks`, where it says so.

    `cut`: numbers of steps left out, which the recording does not hold whole. `lag`: how far (s)
    the GPU ends a step after the host, if that is much; `by_device`: whether steps therefore are
    those of the GPU, from end to end. `phases`: seconds of kernels (without a GPU: of the CPU) by
    phase, all steps.
    """

    source: str
    rank: int | None
    ranks: int | None
    steps: tuple[Step, ...]
    cut: tuple[int, ...]
    lag: float
    by_device: bool
    collectives: tuple[TracedCollective, ...]
    phases: tuple[float, float, float]
    on_device: bool
    unknown: int


class _Window(NamedTuple):
    """A step (us): on the host, and when what it launched on the GPU ended, if it did any."""

    number: int
    start: float
    end: float
    done: float | None


class _Event(NamedTuple):
    name: str
    category: str
    start: float
    end: float
    thread: tuple[object, object]
    values: Mapping[str, Any]


# Kernels, each with the event that launched it.
_Launched: TypeAlias = Sequence[tuple[_Event, _Event]]


def looks_like_kineto(data: object) -> bool:
    """Is it a Chrome trace?"""
    return isinstance(data, Mapping) and isinstance(data.get("traceEvents"), list)


def read_kineto(data: Mapping[str, Any], source: str) -> KinetoTrace:
    """What a trace tells; UnreadableError names every event that is wrong."""
    wrong: list[str] = []
    events = []
    for number, raw in enumerate(data["traceEvents"], start=1):
        if isinstance(raw, Mapping) and raw.get("ph") == "X":
            try:
                events.append(_event(raw))
            except ValueError as problem:
                wrong.append(f"{source}, event {number}: {problem}")
    if wrong:
        raise UnreadableError(*wrong)
    kernels = [event for event in events if event.category in _ON_DEVICE]
    launches = {
        str(event.values["correlation"]): event
        for event in events
        if event.category in _LAUNCHES and "correlation" in event.values
    }
    launched = [
        (kernel, launches[correlation])
        for kernel in kernels
        if (correlation := str(kernel.values.get("correlation"))) in launches
    ]
    recorded = [_window(mark, launched) for mark in _profiler_steps(events, source)]
    whole = _whole(recorded)
    lag, windows = _by_device(whole)
    computing, communicating = _activity(events, kernels)
    info = data.get("distributedInfo")
    info = info if isinstance(info, Mapping) else {}
    collectives, unknown = _collectives(events, kernels, info)
    return KinetoTrace(
        source,
        _number(info, "rank"),
        _number(info, "world_size"),
        tuple(_step(window, computing, communicating) for window in windows),
        tuple(window.number for window in recorded if window not in whole),
        lag * _MICROSECONDS,
        lag > 0 and windows[0] not in whole,
        collectives,
        _phases(events, launched if kernels else None, whole),
        bool(kernels),
        unknown,
    )


def _number(info: Mapping[str, Any], key: str) -> int | None:
    value = info.get(key)
    return value if isinstance(value, int) and value >= 0 else None


def _window(mark: _Event, launched: _Launched) -> _Window:
    ends = [kernel.end for kernel, launch in launched if mark.start <= launch.start < mark.end]
    number = int(mark.name.removeprefix(_STEP))
    return _Window(number, mark.start, mark.end, max(ends, default=None))


def _whole(windows: Sequence[_Window]) -> list[_Window]:
    """Steps recorded completely: not cut short, and with kernel launches if others have any."""
    longest = max(window.end - window.start for window in windows)
    launch = any(window.done is not None for window in windows)
    return [
        window
        for window in windows
        if window.end - window.start >= _STUB * longest and not (launch and window.done is None)
    ]


def _by_device(windows: Sequence[_Window]) -> tuple[float, list[_Window]]:
    """Lag of the GPU behind the host (us), and the steps: on the GPU where the lag is large.

    Such a step lasts from the end of the one before, so the first of a sequence is left out.
    """
    behind = [window.done - window.end for window in windows if window.done is not None]
    lag = median(behind) if behind else 0.0
    if lag <= _LAG * median(window.end - window.start for window in windows):
        return 0.0, list(windows)
    on_device = [
        _Window(late.number, early.done, late.done, late.done)
        for early, late in pairwise(windows)
        if early.done is not None and late.done is not None and late.number == early.number + 1
    ]
    return lag, on_device or list(windows)


def _activity(events: Sequence[_Event], kernels: Sequence[_Event]) -> tuple[Intervals, Intervals]:
    """Intervals of computation and of communication."""
    gloo = [e for e in events if e.name.startswith(_GLOO) and e.category not in _ON_DEVICE]
    communicating = _spans([*(kernel for kernel in kernels if _is_nccl(kernel)), *gloo])
    if kernels:
        return _spans(kernel for kernel in kernels if not _is_nccl(kernel)), communicating
    operators = [event for event in events if event.category == "cpu_op"]
    # What hands a collective over is part of it, and stands within other operators.
    handing = _spans(e for e in operators if e.name.startswith(_HANDS_OVER))
    return without(_spans(operators), handing), communicating


def _spans(events: Iterable[_Event]) -> Intervals:
    return union((event.start, event.end) for event in events)


def _event(raw: Mapping[str, Any]) -> _Event:
    name, values = str(raw.get("name", "")), raw.get("args")
    start, duration = (_microseconds(raw, key) for key in ("ts", "dur"))
    if duration < 0:
        raise ValueError(f"{name[:60]!r}: dur is negative")
    if duration * _MICROSECONDS > LONGEST:
        raise ValueError(
            f"{name[:60]!r}: dur is {duration * _MICROSECONDS:.3g} s; it should be in us"
        )
    category = str(raw.get("cat", "")).lower()
    thread = (str(raw.get("pid")), str(raw.get("tid")))
    filled = values if isinstance(values, Mapping) else {}
    return _Event(name, category, start, start + duration, thread, filled)


def _microseconds(raw: Mapping[str, Any], key: str) -> float:
    value = raw.get(key)
    try:
        # Some tools write large numbers as text.
        number = math.nan if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{str(raw.get('name', ''))[:60]!r}: {key} is not a number")
    return number


def _profiler_steps(events: Sequence[_Event], source: str) -> list[_Event]:
    """The steps on the CPU, in order; each once."""
    found: dict[int, _Event] = {}
    for event in events:
        number = _NUMBERED.fullmatch(event.name)
        on_cpu = event.category != "gpu_user_annotation" and event.end > event.start
        if number is not None and on_cpu:
            found.setdefault(int(number[1]), event)
    if not found:
        raise UnreadableError(
            f"{source}: no {_STEP}n in it; call prof.step() after every step, with a schedule"
        )
    return [found[number] for number in sorted(found)]


def _step(window: _Window, computing: Intervals, communicating: Intervals) -> Step:
    mine = clipped(computing, window.start, window.end)
    sent = clipped(communicating, window.start, window.end)
    parts = (mine, sent, without(sent, mine))
    whole = (window.end - window.start) * _MICROSECONDS
    return Step(window.number, whole, *(length(part) * _MICROSECONDS for part in parts))


def _is_nccl(event: _Event) -> bool:
    return event.category == "kernel" and bool(_NCCL.search(event.name))


def _collectives(
    events: Sequence[_Event], kernels: Sequence[_Event], info: Mapping[str, Any]
) -> tuple[tuple[TracedCollective, ...], int]:
    """The collectives whose size is known, in order of time, and how many others there are."""
    calls = {
        _external(event): event.values for event in events if event.name == "record_param_comms"
    }
    found, unknown = [], 0
    for event in sorted(kernels, key=lambda one: one.start):
        if not _is_nccl(event):
            continue
        values = event.values
        if "Collective name" not in values:
            values = calls.get(_external(event), values)
        known = _collective(values, (event.end - event.start) * _MICROSECONDS, info)
        if known is None:
            unknown += 1
        else:
            found.append(known)
    return tuple(found), unknown


def _external(event: _Event) -> str:
    """Id that a kernel shares with the call that launched it."""
    return str(event.values.get("External id", event.values.get("external id", "none")))


def _collective(
    values: Mapping[str, Any], seconds: float, info: Mapping[str, Any]
) -> TracedCollective | None:
    """None where name, size or number of ranks is not to be known."""
    name = str(values.get("Collective name", "")).lower().replace("_", "")
    ranks = values.get("Group size", info.get("world_size"))
    width = _BYTES.get(str(values.get("dtype", "")).lower().removeprefix("torch."), 0)
    collective, way = _NAMES.get(name, ("", ""))
    elements = values.get(f"{way} msg nelems")
    if not collective or not isinstance(ranks, int) or not isinstance(elements, int):
        return None
    if not 2 <= ranks <= _RANKS or not 0 < elements * width <= LARGEST or seconds < SHORTEST:
        return None
    return TracedCollective(collective, float(elements * width), ranks, seconds)


def _phases(
    events: Sequence[_Event], launched: _Launched | None, steps: Sequence[_Window]
) -> tuple[float, float, float]:
    """Seconds of forward, backward, optimizer: of kernels by who launched them, or of the CPU."""
    backward = _by_thread(event for event in events if event.name.startswith(_BACKWARD))
    optimizer = _by_thread(event for event in events if event.name.startswith(_OPTIMIZER))
    sums = [0.0, 0.0, 0.0]
    if launched is None:
        for phase, group in enumerate((backward, optimizer), start=1):
            spans = union(span for one in group.values() for span in one)
            sums[phase] = sum(length(clipped(spans, step.start, step.end)) for step in steps)
        whole = sum(step.end - step.start for step in steps)
        sums[0] = max(0.0, whole - sums[1] - sums[2])
    else:
        first, last = steps[0].start, max(step.end for step in steps)
        for kernel, launch in launched:
            if first <= launch.start <= last and not _is_nccl(kernel):
                phase = 1 if _within(backward, launch) else 2 if _within(optimizer, launch) else 0
                sums[phase] += kernel.end - kernel.start
    forward, back, optimizing = (seconds * _MICROSECONDS for seconds in sums)
    return forward, back, optimizing


def _by_thread(events: Any) -> dict[tuple[object, object], Intervals]:
    found: dict[tuple[object, object], Intervals] = {}
    for event in events:
        found.setdefault(event.thread, []).append((event.start, event.end))
    return {thread: union(spans) for thread, spans in found.items()}


def _within(spans: Mapping[tuple[object, object], Intervals], event: _Event) -> bool:
    """Does an event begin in one of its thread's spans?"""
    mine = spans.get(event.thread, [])
    at = bisect_right(mine, event.start, key=lambda span: span[0])
    return at > 0 and event.start <= mine[at - 1][1]
