"""varsim does, event by event, what TensorFlow was recorded to do (see data/SOURCES.md)."""

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

import pytest

from conformance import accumulating, training
from conformance.cases import DATA, LEFT_OUT, Case, Record, cases, not_yet, summary, why_not

REPLAY: Final[dict[str, Callable[[Record], None]]] = {
    "accumulator": accumulating.replay,
    "sync_replicas": training.replay,
    "async_ps": training.replay,
}


def test_recorded_case(case: Case) -> None:
    REPLAY[case.kind](case.record)


class TestWhatIsNotReplayed:
    def test_every_case_that_cannot_be_replayed_yet_is_counted(self) -> None:
        # Support for one of these has come, or a case has: change the number with it.
        assert not_yet(cases(DATA)) == {
            "calls of the Python interface": 3,
            "sparse gradients": 27,
            "accumulators that cannot be made": 2,
            "sums instead of means": 3,
            "takes that are cancelled": 2,
            "shapes and dtypes that are checked": 5,
            "an accumulator's step set from outside": 9,
            "moving averages": 2,
            "processes lost, restarted or stopped": 7,
            "variables without a gradient": 1,
        }

    def test_the_others_are_as_many(self) -> None:
        kinds = [case.kind for case in cases(DATA) if why_not(case) is None]
        assert Counter(kinds) == {"accumulator": 10, "sync_replicas": 36, "async_ps": 8}

    def test_only_one_quirk_is_left_out(self) -> None:
        found = [
            case.record["id"]
            for case in cases(DATA)
            if why_not(case) is None and case.record.get("quirk") in LEFT_OUT
        ]
        assert found == ["async_4w_adam", "async_random_53"]

    def test_the_line_at_the_end_names_reasons_and_numbers(self) -> None:
        assert "moving averages 2" in summary(cases(DATA))


# What is recorded of a case, of which the last is made wrong.
RECORDED: Final = {
    "backup_2of4_adam": "global_step variables num_accumulated tokens local_step status slots "
    "accepted returned read",
    "async_3w_slow": "global_step variables status slots read staleness",
    "async_4w_adam": "global_step status slots staleness",
    "dense_two_takes_fifo": "num_accumulated accepted blocked takes",
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

    @pytest.mark.parametrize("entry", ["accepted", "returned", "read"])
    def test_one_that_is_missing(self, entry: str) -> None:
        record = recorded("backup_2of4_adam")
        last = [event["expect"] for event in record["events"] if entry in event["expect"]][-1]
        del last[entry]
        with pytest.raises(AssertionError, match="instead of"):
            REPLAY[record["kind"]](record)

    @pytest.mark.parametrize(
        ("name", "entry"),
        [("backup_2of4_adam", "final"), ("dense_two_takes_fifo", "pending_at_end")],
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
