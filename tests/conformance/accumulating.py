"""Replays a recorded program of calls on one gradient accumulator."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from conformance.cases import Record
from conformance.comparison import assert_close
from conformance.scripted import Script, ScriptedTask
from varsim.values.accumulator import GradientAccumulator
from varsim.values.gradient import Gradient, Gradients
from varsim.values.task import VariableSpec


def replay(case: Record) -> None:
    """Raises AssertionError where the accumulator does something else than what was recorded."""
    program = Program(case)
    for number, call in enumerate(case["program"]):
        where = f"call {number} ({call['op']})"
        seen, expected = program.call(number, call), call["expect"]
        assert seen.keys() == expected.keys(), f"{where}: {seen} instead of {expected}"
        assert_close(seen, expected, case["rtol"], where)
    assert program.pending == case["pending_at_end"]


class Program:
    """An accumulator, the gradients it is offered and the takes it is asked for."""

    def __init__(self, case: Record) -> None:
        shape = tuple(case["accumulator"]["shape"])
        values = {
            (0, number): (np.array(call["value"], dtype=np.float64),)
            for number, call in enumerate(case["program"])
            if call["op"] == "apply_grad"
        }
        task = ScriptedTask(Script((VariableSpec("x", shape),), (np.zeros(shape),), values))
        self._gradients = Gradients(task)
        self._accumulator = GradientAccumulator()
        self._served: list[dict[str, Any]] = []
        self.pending: list[str] = []

    def call(self, number: int, call: Record) -> dict[str, Any]:
        """Make one call; what can be seen after it."""
        seen: dict[str, Any] = {}
        self._served = []
        if call["op"] == "apply_grad":
            gradient = Gradient(0, number, _Nothing, np.array([0, number]), 0, 0)
            seen["accepted"] = self._accumulator.add(gradient, call["local_step"])
        else:
            assert call["op"] == "take_grad", f"unknown call {call['op']}"
            self._take(call["id"], call["num_required"])
            seen["blocked"] = call["id"] in self.pending
        if self._served:
            seen["takes"] = self._served
        return {**seen, "num_accumulated": len(self._accumulator)}

    def _take(self, name: str, required: int) -> None:
        def then(gradients: Sequence[Gradient]) -> None:
            self.pending.remove(name)
            self._served.append({"id": name, "value": self._gradients.mean(gradients, 0)})

        self.pending.append(name)
        try:
            self._accumulator.take(required, then)
        except ValueError:
            self.pending.remove(name)
            self._served.append({"id": name, "error": "InvalidArgument"})


class _Nothing:
    """What nobody reads: the gradients do not depend on it."""

    parameters = ()
