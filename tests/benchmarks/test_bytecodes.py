"""Bytecodes per worker-step: a measure of the SimPy path that no load of the machine changes.

A bytecode takes about as long as any other, some 5 ns; so a step that takes more of them is slower.
Whoever makes one leaner lowers its limit here.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import varsim
from tests.benchmarks.cases import scenario
from varsim.study.simulation import Run, started

PYTHON = (3, 11)  # others compile to other bytecodes
WORKERS = 16

pytestmark = pytest.mark.skipif(
    sys.version_info[:2] != PYTHON,
    reason="bytecodes are counted on Python {}.{} alone".format(*PYTHON),
)


@contextmanager
def counted() -> Iterator[list[int]]:
    """How many bytecodes of the package are executed meanwhile: the only item of a list."""
    package, number = str(Path(varsim.__file__).parent), [0]

    def within(_: FrameType, event: str, __: Any) -> Any:
        number[0] += event == "opcode"
        return within

    def called(frame: FrameType, _: str, __: Any) -> Any:
        if not frame.f_code.co_filename.startswith(package):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return within

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield number
    finally:
        sys.settrace(before)


def bytecodes(kind: str, problem: str, steps: int) -> tuple[int, int]:
    """Of a run without its set-up; and how many gradients it computed."""
    job, strategy = started(Run(scenario(kind, WORKERS, steps, problem), 0, 0))
    with counted() as number:
        trace = job.run(strategy.label)
    return number[0], len(trace.gradients)


@pytest.mark.parametrize(
    ("kind", "problem", "limit"),
    [
        ("sync_replicas", "timing", 1035),
        ("sync_replicas", "softmax", 1320),
        ("none", "timing", 965),
        ("none", "softmax", 1385),
        ("on_write", "timing", 900),
        ("on_write", "softmax", 1040),
    ],
)
def test_a_worker_step_takes_no_more(kind: str, problem: str, limit: int) -> None:
    few, some = (bytecodes(kind, problem, steps) for steps in (5, 15))
    assert (some[0] - few[0]) / (some[1] - few[1]) <= limit
