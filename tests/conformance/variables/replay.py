"""Replays a case: every step on every worker, what is observed compared with what was recorded."""

import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.conformance.records import Case, Record
from tests.conformance.variables.program import container
from tests.conformance.variables.steps import Observed, carry_out, make
from tests.conformance.variables.world import World, make_worlds
from varsim import tf
from varsim.core.operation import Operation, finish_together
from varsim.distribute.container import Container
from varsim.distribute.context import DEFAULT_CONTEXT
from varsim.tf.calls import operation_of

# How the operations of all workers are carried out.
Driver = Callable[[list[Operation[Observed]]], list[Observed]]

# What TensorFlow raises where it fails by accident: varsim has to refuse, for whatever reason.
ACCIDENTAL = ("AttributeError", "IndexError", "AssertionError")


def replay(case: Case, driver: Driver = finish_together) -> None:
    """Raises AssertionError where varsim does something else than what was recorded."""
    differences = Replay(case, driver).run()
    assert not differences, "\n".join(differences)


class Replay:
    """One case on its worlds. `differences` collects what is not as recorded."""

    def __init__(self, case: Case, driver: Driver) -> None:
        self.case = case
        self.differences: list[str] = []
        self._driver = driver
        self._worlds = make_worlds(case.record["strategy"])

    def run(self) -> list[str]:
        """Replay all; what is different from the record, one line each.

        What is raised and is no refusal ends the case, and is different from any record.
        """
        what = "variables"
        try:
            for record in self.case.record["variables"]:
                self._carry_out(record["name"], record["expect"], lambda w, r=record: make(w, r))
            for number, step in enumerate(self.case.record["steps"]):
                what = f"step {number} ({step['op']})"
                self._carry_out(what, step["expect"], lambda w, s=step: carry_out(w, s))
        except Exception as error:
            *_, last = traceback.extract_tb(error.__traceback__)
            place = f"{last.filename}:{last.lineno}"
            self.differences.append(f"{what}: a defect: {error!r} at {place}")
        return self.differences

    def _carry_out(self, what: str, expect: Record, act: Callable[[World], Observed]) -> None:
        try:
            observed = self._driver(
                [operation_of(DEFAULT_CONTEXT, act, (world,)) for world in self._worlds]
            )
        except tf.DistributionError as error:
            observed = [{"error": error}] * len(self._worlds)
        expected = expect.get("per_worker", [expect] * len(self._worlds))
        for world, seen, wanted in zip(self._worlds, observed, expected, strict=True):
            self._compare(world, what, seen, wanted)

    def _compare(self, world: World, what: str, seen: Observed, wanted: Record) -> None:
        if "error" in seen and "error" not in wanted:
            self.differences.append(f"{what}: {seen['error']!r}")
        for key, value in wanted.items():
            where = f"{what}: {key}"
            if key == "after":
                for name, copies in value.items():
                    got = [copy.numpy() for copy in world.variables[name].values]
                    self._arrays(f"{where} {name}", got, copies)
            elif key == "result":
                if "error" not in seen:
                    self._result(world, where, seen["result"], value)
            elif key == "variables":
                for index, one in enumerate(value):
                    self._compare(world, f"{where} {index}", seen[key][index], one)
            else:
                self._field(world, where, seen.get(key), value)

    def _field(self, world: World, where: str, seen: Any, wanted: Any) -> None:
        """One of the other expectations; what it is, is told by its form."""
        if isinstance(wanted, dict) and "category" in wanted:
            self._error(where, seen, wanted)
        elif isinstance(wanted, dict) and "error" in wanted:
            self._error(where, seen, wanted["error"])
        elif isinstance(wanted, dict) and "container" in wanted:
            self._result(world, where, seen, wanted)
        elif isinstance(wanted, dict) and "dtype" in wanted:
            self._arrays(where, [seen], [wanted])
        elif isinstance(wanted, list) and wanted and isinstance(wanted[0], dict):
            self._arrays(where, seen, wanted)
        elif isinstance(wanted, dict):
            if where.endswith((" saved", " options")):  # of which all was recorded
                self._same(where, sorted(seen), sorted(wanted))
            for name, value in wanted.items():
                self._field(world, f"{where} {name}", seen[name], value)
        else:
            self._same(where, seen, wanted)

    def _error(self, where: str, seen: object, wanted: Record) -> None:
        if not isinstance(seen, tf.DistributionError):
            self.differences.append(f"{where}: {wanted['category']} expected, got {seen!r}")
        elif wanted["type"] not in ACCIDENTAL:
            if wanted["category"] != "UNKNOWN":  # the recording program had no name for it
                self._same(f"{where} category", seen.category, wanted["category"])
            self._same(f"{where} type", seen.tensorflow, wanted["type"])

    def _result(self, world: World, where: str, seen: Any, wanted: Record) -> None:
        kind = container(seen)
        if kind != wanted["container"]:
            self.differences.append(f"{where}: {kind} {seen!r}, not {wanted}")
        elif kind == "literal":
            self._same(where, (type(seen), seen), (type(wanted["literal"]), wanted["literal"]))
        elif kind == "variable":
            self._same(where, seen is world.variables[wanted["variable"]], True)
        elif kind == "component":
            of = world.variables[wanted["variable"]]
            self._same(where, seen, of.values[wanted["index"]])
        elif kind == "list" or "items" in wanted:  # of containers
            parts = seen if kind == "list" else seen.values
            self._same(f"{where} length", len(parts), len(wanted["items"]))
            for index, (one, other) in enumerate(zip(parts, wanted["items"], strict=False)):
                self._result(world, f"{where} {index}", one, other)
        elif kind != "nothing":
            parts = seen.values if isinstance(seen, Container) else [seen]
            self._arrays(where, [_array(part) for part in parts], wanted["values"])
            if "devices" in wanted:
                devices = [p.device.number if isinstance(p, tf.Tensor) else None for p in parts]
                self._same(f"{where} devices", devices, wanted["devices"])

    def _arrays(self, where: str, seen: Any, wanted: Sequence[Record]) -> None:
        if len(seen) != len(wanted) or not all(map(self.case.equal, seen, wanted)):
            self.differences.append(f"{where}: {seen}, not {wanted}")

    def _same(self, where: str, seen: object, wanted: object) -> None:
        if seen != wanted:
            self.differences.append(f"{where}: {seen}, not {wanted}")


def _array(part: object) -> Any:
    return part.array if isinstance(part, tf.Tensor) else np.asarray(part)
