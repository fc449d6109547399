"""varsim does, step by step, what TensorFlow was recorded to do (see data/variables/SOURCES.md)."""

from collections import Counter
from copy import deepcopy
from typing import Any

import pytest

from tests.conformance.variables.known import LIMIT, NOT_REPRODUCED, check
from tests.conformance.variables.records import DATA, Case, Record, cases
from tests.conformance.variables.replay import Replay

BY_NAME = {case.name: case for case in cases(DATA)}


def test_recorded_case(recorded: Case, ours: bool) -> None:
    check(recorded, Replay(recorded).run(), ours=ours)


class TestWhatIsNotReproduced:
    def test_it_is_no_contract(self) -> None:
        assert all(BY_NAME[name].status != "contract" for name in NOT_REPRODUCED)

    def test_it_has_a_reason(self) -> None:
        assert all(reason.startswith("not reproduced: ") for reason in NOT_REPRODUCED.values())

    def test_it_is_not_much(self) -> None:
        assert len(NOT_REPRODUCED) <= LIMIT


def test_all_files_are_there() -> None:
    assert len(BY_NAME) == 629 + 12 + 619
    statuses = Counter(case.status for case in BY_NAME.values())
    assert statuses == {"contract": 599 + 9 + 545, "detail": 3 + 1, "quirk": 27 + 2 + 74}


# A case, where in it something is recorded, and what is written there instead.
WRONG: list[tuple[str, tuple[Any, ...], Any]] = [
    (
        "replica_assign/accumulate-then-mean",
        ("steps", 0, "expect", "result", "container"),
        "single",
    ),
    (
        "replica_assign/accumulate-then-mean",
        ("steps", 0, "expect", "result", "values", 1, "data"),
        [0.0, 0.0],
    ),
    (
        "replica_assign/accumulate-then-mean",
        ("steps", 0, "expect", "after", "avg", 0, "dtype"),
        "float64",
    ),
    ("extended/reduce-to-mirrored2", ("steps", 0, "expect", "result", "devices"), [0, 2]),
    ("extended/reduce-to-mirrored2", ("variables", 0, "expect", "class"), "sync_on_read"),
    ("extended/reduce-to-mirrored2", ("variables", 0, "expect", "devices"), [1, 0]),
    ("extended/reduce-to-mirrored2", ("variables", 0, "expect", "trainable"), False),
    ("extended/reduce-to-bool-mirrored2", ("steps", 0, "expect", "error", "category"), "colocate"),
    ("extended/reduce-to-bool-mirrored2", ("steps", 0, "expect", "error", "type"), "ValueError"),
    ("extended/properties-default", ("steps", 0, "expect", "properties", "should_checkpoint"), 0.5),
    ("checkpoint/save-restore-mirrored2", ("steps", 4, "expect", "saved", "f", "data"), [0.0, 0.0]),
    ("optimizers/zero-gradients-mirrored2", ("steps", 1, "expect", "iterations"), 2),
    (
        "optimizers/zero-gradients-mirrored2",
        ("steps", 1, "expect", "slots", "momentum", "a", 0, "data"),
        [1.0, 1.0],
    ),
    ("cross_device/num-packs-2-2-3-2x2", ("steps", 0, "expect", "packs", 0, "data"), [0.0] * 4),
    ("cross_device/bytes-per-pack-single", ("steps", 0, "expect", "packs"), [[1]]),
    (
        "cross_device/communication-options",
        ("steps", 0, "expect", "options", "bytes_per_pack"),
        1,
    ),
    (
        "replica_assign/two-workers-on-write-sum",
        ("steps", 0, "expect", "per_worker", 1, "after", "v", 0, "data"),
        [0.0, 0.0],
    ),
]


class TestAWrongRecordIsNoticed:
    """The comparison looks at what is recorded: each of these is caught."""

    @pytest.mark.parametrize(("name", "place", "value"), WRONG)
    def test_a_value(self, name: str, place: tuple[Any, ...], value: object) -> None:
        record = deepcopy(BY_NAME[name].record)
        inside: Any = record
        for key in place[:-1]:
            inside = inside[key]
        assert inside[place[-1]] != value
        inside[place[-1]] = value

        assert Replay(BY_NAME[name]._replace(record=record)).run()

    def test_an_error_that_does_not_come(self) -> None:
        case = BY_NAME["extended/reduce-to-mirrored2"]
        expected: Record = {"error": {"type": "ValueError", "match": "", "category": "colocate"}}
        record = deepcopy(case.record)
        record["steps"][0]["expect"] = expected

        assert Replay(case._replace(record=record)).run()

    def test_an_error_that_should_not_come(self) -> None:
        case = BY_NAME["extended/reduce-to-bool-mirrored2"]
        record = deepcopy(case.record)
        record["steps"][0]["expect"] = {}

        assert Replay(case._replace(record=record)).run()
