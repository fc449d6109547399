"""varsim does, event by event, what TensorFlow was recorded to do (see data/SOURCES.md)."""

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

import pytest

from tests.conformance import accumulating, calling, training
from tests.conformance.cases import (
    DATA,
    LEFT_OUT,
    NO_COUNTERPART,
    Case,
    Record,
    calls_left_out,
    cases,
    has_counterpart,
    is_quirk,
)
from tests.conformance.training import as_tensorflow_counts

REPLAY: Final[dict[str, Callable[[Record], None]]] = {
    "accumulator": accumulating.replay,
    "sync_replicas": training.replay,
    "async_ps": training.replay,
    "errors": calling.replay,
}


def test_recorded_case(case: Case, ours: bool) -> None:
    try:
        REPLAY[case.kind](case.record)
    except Exception as error:
        if ours or not is_quirk(case.record):
            raise
        pytest.xfail(f"{type(error).__name__}: {error}")


class TestWhatIsNotReplayed:
    def test_they_are_as_many(self) -> None:
        kinds = [case.kind for case in cases(DATA)]
        assert Counter(kinds) == {
            "accumulator": 51,
            "sync_replicas": 51,
            "async_ps": 10,
            "errors": 3,
        }

    def test_only_one_quirk_is_left_out(self) -> None:
        found = [case.record["id"] for case in cases(DATA) if case.record.get("quirk") in LEFT_OUT]
        assert found == ["async_4w_adam", "async_random_53"]

    @pytest.mark.parametrize("name", ["async_4w_adam", "async_random_53"])
    def test_the_quirk_is_all_that_differs_there(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        as_tensorflow_counts(monkeypatch)
        training.replay({**recorded(name), "quirk": ""})

    def test_the_calls_without_a_counterpart_are_just_these(self) -> None:
        assert calls_left_out(cases(DATA)) == list(NO_COUNTERPART)


# What is recorded of a case, of which the last is made wrong.
RECORDED: Final = {
    "backup_2of4_adam": "global_step variables num_accumulated tokens local_step status slots "
    "accepted returned read",
    "async_3w_slow": "global_step variables status slots read staleness",
    "async_4w_adam": "global_step status slots staleness",
    "dense_two_takes_fifo": "num_accumulated accepted blocked takes",
    "dense_cancelled_take": "num_accumulated accepted blocked takes",
    "dense_shape_mismatch": "num_accumulated accepted blocked takes error",
    "dense_stale_dropped": "num_accumulated accepted blocked takes",
    "sparse_sum_basic": "num_accumulated accepted blocked takes",
    "sparse_shape_mismatch": "num_accumulated accepted blocked takes error",
    "sparse_adam": "global_step variables num_accumulated tokens local_step status slots "
    "accepted returned read",
    "sparse_momentum": "variables slots read",
    "async_sparse": "global_step variables status slots read staleness",
    "ema": "variables ema returned",
    "death_waiting_others_go_on": "tokens local_step status returned accepted",
    "chief_lost_and_back": "global_step num_accumulated tokens local_step status returned",
    "chief_stops": "num_accumulated status",
}


class TestAWrongRecordIsNoticed:
    """The replay would be worth nothing if it compared nothing."""

    @pytest.mark.parametrize(
        ("name", "entry"),
        [(name, entry) for name, entries in RECORDED.items() for entry in entries.split()],
    )
    def test_at_a_step(self, name: str, entry: str) -> None:
        record = recorded(name)
        steps = record["events"] if "events" in record else record["program"]
        last = [step["expect"] for step in steps if entry in step["expect"]][-1]
        last[entry] = wrong(last[entry])
        with pytest.raises(AssertionError, match=entry):
            REPLAY[record["kind"]](record)

    @pytest.mark.parametrize("entry", ["indices", "values", "dense_shape"])
    def test_in_a_sparse_aggregate(self, entry: str) -> None:
        record = recorded("sparse_sum_basic")
        (take,) = record["program"][-1]["expect"]["takes"]
        take[entry] = wrong(take[entry])
        with pytest.raises(AssertionError, match=entry):
            REPLAY[record["kind"]](record)

    @pytest.mark.parametrize("name", ["errors_api", "errors_init_tokens", "errors_first_update"])
    def test_of_a_call(self, name: str) -> None:
        record = recorded(name)
        made = [call for call in record["calls"] if has_counterpart(call)]
        assert made
        for call in made:
            for entry in call["expect"]:
                expect = {**call["expect"], entry: wrong(call["expect"][entry])}
                with pytest.raises(AssertionError, match=entry):
                    REPLAY["errors"]({"calls": [{**call, "expect": expect}]})

    @pytest.mark.parametrize("entry", ["accepted", "returned", "read"])
    def test_one_that_is_missing(self, entry: str) -> None:
        record = recorded("backup_2of4_adam")
        last = [event["expect"] for event in record["events"] if entry in event["expect"]][-1]
        del last[entry]
        with pytest.raises(AssertionError, match="instead of"):
            REPLAY[record["kind"]](record)

    @pytest.mark.parametrize(
        ("name", "entry"),
        [
            ("backup_2of4_adam", "final"),
            ("sparse_adagrad", "final"),
            ("dense_two_takes_fifo", "pending_at_end"),
            ("dense_int32", "create_error"),
            ("dense_bad_reduction", "create_error"),
        ],
    )
    def test_at_the_end(self, name: str, entry: str) -> None:
        record = recorded(name)
        record[entry] = wrong(record[entry])
        with pytest.raises(AssertionError):
            REPLAY[record["kind"]](record)


def recorded(name: str) -> dict[str, Any]:
    """The record of a case, to be changed."""
    (found,) = (case.record for case in cases(DATA) if case.record["id"] == name)
    return deepcopy(dict(found))


def wrong(value: Any) -> Any:
    """The value with its last part changed."""
    if isinstance(value, dict):
        last = list(value)[-1]
        return {**value, last: wrong(value[last])}
    if isinstance(value, list):
        return [*value[:-1], wrong(value[-1])] if value else ["x"]
    if isinstance(value, bool):
        return not value
    return f"not {value}" if isinstance(value, str) else value + 1
