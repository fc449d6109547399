"""Replays a recorded program of calls on one gradient accumulator."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.conformance.records import Case, Record, assert_close
from varsim.core.operation import DistributionError
from varsim.distribute.accumulator import ConditionalAccumulator, Take
from varsim.learning.gradient_form import DenseForm, GradientForm, IndexedSlices, SparseForm


def replay(case: Case) -> None:
    """Raises AssertionError where the accumulator does something else than what was recorded."""
    record = case.record
    if "create_error" in record:
        with pytest.raises(DistributionError) as caught:
            Program(record["accumulator"])
        assert error_name(caught.value) == record["create_error"]
        return
    program = Program(record["accumulator"])
    for number, call in enumerate(record["program"]):
        where = f"call {number} ({call['op']})"
        seen, expected = program.call(call), call["expect"]
        assert seen.keys() == expected.keys(), f"{where}: {seen} instead of {expected}"
        for take, recorded in zip(seen.get("takes", ()), expected.get("takes", ()), strict=True):
            assert take.keys() == recorded.keys(), f"{where}: {take} instead of {recorded}"
        assert_close(seen, expected, record["rtol"], where)
    assert list(program.pending) == record["pending_at_end"]


def error_name(error: DistributionError) -> str:
    """What TensorFlow's error is called in the records."""
    names = {"InvalidArgumentError": "InvalidArgument"}
    return names.get(error.tensorflow, error.tensorflow)


class Program:
    """An accumulator, and the takes it is asked for; DistributionError if it cannot be made."""

    def __init__(self, accumulator: Record) -> None:
        self._sparse = accumulator["type"] == "sparse"
        shape = accumulator["shape"]
        form: type[GradientForm[Any]] = SparseForm if self._sparse else DenseForm
        self._form = form(
            accumulator["dtype"],
            None if shape is None else tuple(shape),
            accumulator["reduction"],
        )
        self._accumulator = ConditionalAccumulator[Any](self._form)
        self._ended: list[dict[str, Any]] = []
        self.pending: dict[str, Take[Any] | None] = {}

    def call(self, call: Record) -> dict[str, Any]:
        """Make one call; what can be seen after it."""
        self._ended = []
        seen = getattr(self, f"_{call['op']}")(call)
        if self._ended:
            seen["takes"] = self._ended
        return {**seen, "num_accumulated": len(self._accumulator)}

    def _set_global_step(self, call: Record) -> dict[str, Any]:
        self._accumulator.set_global_step(call["value"])
        return {}

    def _apply_grad(self, call: Record) -> dict[str, Any]:
        try:
            return {"accepted": self._accumulator.add(self._gradient(call), call["local_step"])}
        except DistributionError as error:
            return {"accepted": False, "error": error_name(error)}

    def _gradient(self, call: Record) -> Any:
        dtype = call.get("dtype", self._form.dtype)
        if not self._sparse:
            return np.array(call["value"], dtype)
        values, shape = np.array(call["values"], dtype), call["dense_shape"]
        return IndexedSlices(
            np.array(call["indices"], np.int64),
            values.reshape(call.get("values_shape", values.shape)),
            None if shape is None else tuple(shape),
        )

    def _take_grad(self, call: Record) -> dict[str, Any]:
        name = call["id"]

        def then(gradients: Sequence[Any]) -> None:
            self._end(name, **shown(self._form.aggregate(gradients)))

        self.pending[name] = None
        try:
            take = self._accumulator.take(call["num_required"], then)
        except DistributionError as error:
            self._end(name, error=error_name(error))
        if blocked := name in self.pending:
            self.pending[name] = take
        return {"blocked": blocked}

    def _cancel_take(self, call: Record) -> dict[str, Any]:
        take = self.pending[call["id"]]
        assert take is not None
        self._end(call["id"], error="Cancelled")
        self._accumulator.cancel(take)
        return {}

    def _end(self, name: str, **how: Any) -> None:
        assert name in self.pending, f"take {name} was served though it did not wait"
        del self.pending[name]
        self._ended.append({"id": name, **how})


def shown(value: Any) -> dict[str, Any]:
    """An aggregate as it is recorded."""
    if not isinstance(value, IndexedSlices):
        return {"value": value}
    assert value.dense_shape is not None
    return {
        "indices": value.indices.tolist(),
        "values": value.values,
        "dense_shape": list(value.dense_shape),
    }
