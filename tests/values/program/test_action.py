"""What replicas and the outside can do, one at a time, under every mode."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.programs import MODES, add, held, number, read, seen, variable, without_a_clock
from varsim.distribute.program import CROSS_REPLICA_ACTIONS, REPLICA_ACTIONS, Program
from varsim.distribute.program_run import CROSS_REPLICA, Mode

Line = dict[str, Any]


def run(mode: Mode, replicas: tuple[Line, ...] = (), outside: tuple[Line, ...] = (), **of: Any):  # type: ignore[no-untyped-def]
    program = {"steps": of.pop("steps", 1), "replicas": replicas, "outside": outside}
    return without_a_clock(program, [variable(**of)], mode)


class TestWrites:
    """Replicas 0, 1 and 2 write 3, 1 and 2 to a variable that starts as 10."""

    @pytest.mark.parametrize(
        ("kind", "mode", "aggregation", "copies"),
        [
            # Each its own copy.
            ("assign", "on_read", "sum", [3, 1, 2]),
            ("assign_add", "on_read", "sum", [13, 11, 12]),
            ("assign_sub", "on_read", "mean", [7, 9, 8]),
            ("assign_add", "on_write", "none", [13, 11, 12]),
            # What comes of all, on every copy: 3 + 1 + 2, that by 3, or that of replica 0.
            ("assign", "on_write", "sum", [6, 6, 6]),
            ("assign_add", "on_write", "sum", [16, 16, 16]),
            ("assign_add", "on_write", "mean", [12, 12, 12]),
            ("assign_sub", "on_write", "mean", [8, 8, 8]),
            ("assign_add", "on_write", "only_first_replica", [13, 13, 13]),
            # One copy, and each write counts: the last assign, or all three.
            ("assign", "none", "sum", [2]),
            ("assign_add", "none", "mean", [16]),
            ("assign_sub", "none", "none", [4]),
        ],
    )
    def test_in_replicas(
        self, kind: str, mode: Mode, aggregation: str, copies: list[float]
    ) -> None:
        done = run(mode, (add(3.0, 1.0, 2.0, kind=kind),), aggregation=aggregation, initial=10.0)
        assert held(done.acts[-1]) == copies
        assert [number(act.handed) for act in done.acts] == [3, 1, 2]
        assert [act.seen for act in done.acts] == [None] * 3

    @pytest.mark.parametrize(
        ("kind", "mode", "aggregation", "copies"),
        [
            ("assign", "on_write", "sum", [6, 6, 6]),
            ("assign_add", "on_write", "mean", [16, 16, 16]),
            ("assign", "on_read", "sum", [2, 2, 2]),  # its share of 6
            ("assign", "on_read", "mean", [6, 6, 6]),
            ("assign_sub", "on_read", "mean", [4, 4, 4]),
            ("assign_add", "none", "sum", [16]),
        ],
    )
    def test_from_outside(
        self, kind: str, mode: Mode, aggregation: str, copies: list[float]
    ) -> None:
        outside = ({"kind": kind, "variable": "v", "value": 6.0},)
        done = run(mode, outside=outside, aggregation=aggregation, initial=10.0)
        (act,) = done.acts
        assert (act.replica, held(act)) == (CROSS_REPLICA, copies)

    @pytest.mark.parametrize("mode", MODES)
    def test_each_element_is_written(self, mode: Mode) -> None:
        done = run(mode, (add(3.0, 1.0, 2.0),), (read(),), shape=(2, 2))
        assert done.acts[-1].seen == ((2, 2), (6.0,) * 4, 6.0)


class TestMovingAverage:
    LINE: Line = {"kind": "moving_average", "variable": "v", "value": (3.0, 1.0, 2.0)}

    @pytest.mark.parametrize(
        ("mode", "copies"),
        [
            # x - (x - value) / 4 with x = 10: 8.25, 7.75, 8.
            ("on_read", [8.25, 7.75, 8.0]),
            # The mean of the three differences, 7 / 4, 9 / 4 and 2: 10 - 2.
            ("on_write", [8.0, 8.0, 8.0]),
            # One after the other: 8.25, then 8.25 - 7.25 / 4, then that - 4.4375 / 4.
            ("none", [5.328125]),
        ],
    )
    def test_by_hand(self, mode: Mode, copies: list[float]) -> None:
        line = {**self.LINE, "momentum": 0.75}
        done = run(mode, (line,), aggregation="mean", initial=10.0)
        assert held(done.acts[-1]) == copies

    def test_many_come_to_the_value(self) -> None:
        line = {**self.LINE, "value": 4.0, "momentum": 0.9, "times": 200}
        done = run("on_read", (line,), aggregation="mean")
        assert held(done.acts[-1]) == pytest.approx([4.0] * 3, abs=1e-6)

    def test_what_overflows_gives_no_warning(self) -> None:
        line = {**self.LINE, "value": -3e38, "momentum": 0.5}
        done = run("on_read", (line,), aggregation="mean", initial=3e38)
        assert np.isinf(held(done.acts[-1])).all()


class TestReads:
    @pytest.mark.parametrize(
        ("mode", "aggregation", "inside", "outside"),
        [
            ("on_read", "sum", [3, 1, 2], 6),
            ("on_read", "mean", [3, 1, 2], 2),
            ("on_read", "only_first_replica", [3, 1, 2], 3),
            ("on_write", "sum", [6, 6, 6], 6),
            ("on_write", "none", [3, 1, 2], 3),  # copy 0, though they have drifted apart
            ("none", "mean", [3, 4, 6], 6),  # without a clock one replica after the other
        ],
    )
    def test_by_hand(
        self, mode: Mode, aggregation: str, inside: list[float], outside: float
    ) -> None:
        done = run(mode, (add(3.0, 1.0, 2.0), read()), (read(),), aggregation=aggregation)
        expected = [(1, replica, value) for replica, value in enumerate(inside)]
        assert seen(done.acts) == [*expected, (1, CROSS_REPLICA, outside)]


class TestCheckpoints:
    @pytest.mark.parametrize(
        ("mode", "aggregation", "saved", "copies"),
        [
            ("on_read", "sum", 6, [2, 2, 2]),
            ("on_read", "mean", 2, [2, 2, 2]),
            ("on_write", "sum", 6, [6, 6, 6]),
            ("on_write", "none", 3, [3, 3, 3]),
            ("none", "sum", 6, [6]),
        ],
    )
    def test_one_number_is_saved_and_shared_out(
        self, mode: Mode, aggregation: str, saved: float, copies: list[float]
    ) -> None:
        outside = ({"kind": "save"}, {"kind": "restore"})
        done = run(mode, (add(3.0, 1.0, 2.0),), outside, aggregation=aggregation)
        assert seen(done.acts, "save") == seen(done.acts, "restore") == [(1, CROSS_REPLICA, saved)]
        assert held(done.acts[-1]) == copies

    def test_whole_numbers_are_cut(self) -> None:
        # 3 + 2 + 2 = 7: each copy gets 2, and 6 is left.
        outside = ({"kind": "save"}, {"kind": "restore"}, read())
        done = run("on_read", (add(3.0, 2.0, 2.0),), outside, dtype="int32")
        assert seen(done.acts, "save") == [(1, CROSS_REPLICA, 7)]
        assert seen(done.acts) == [(1, CROSS_REPLICA, 6)]

    def test_all_variables_one_after_the_other(self) -> None:
        program = {"steps": 1, "replicas": (add(1.0),), "outside": ({"kind": "save"},)}
        done = without_a_clock(program, [variable(), variable(name="w", initial=5.0)], "on_write")
        saves = [(act.variable, number(act.seen)) for act in done.acts if act.kind == "save"]
        assert saves == [("v", 3), ("w", 5)]

    def test_what_is_restored_is_the_latest_that_was_saved(self) -> None:
        # Saved after steps 2 and 4: 6 and 12. After step 3 the first is restored.
        outside = ({"kind": "save", "every": 2}, {"kind": "restore", "every": 3}, read())
        done = run("none", (add(1.0),), outside, steps=4)
        assert seen(done.acts) == [
            (1, CROSS_REPLICA, 3),
            (2, CROSS_REPLICA, 6),
            (3, CROSS_REPLICA, 6),
            (4, CROSS_REPLICA, 9),
        ]
        assert seen(done.acts, "save") == [(2, CROSS_REPLICA, 6), (4, CROSS_REPLICA, 9)]


def test_compute_is_about_no_variable() -> None:
    done = run("on_read", ({"kind": "compute"}, add(1.0)))
    assert [(act.kind, act.variable, act.copies) for act in done.acts[::2]] == [
        ("compute", "", ())
    ] * 3


def test_every_action_is_explained() -> None:
    for table in (REPLICA_ACTIONS, CROSS_REPLICA_ACTIONS):
        assert all(model.about and model.__doc__ for model in table.values())


@pytest.mark.parametrize(
    ("part", "kind"),
    [("outside", "compute"), ("outside", "moving_average"), ("replicas", "save")],
)
def test_what_only_the_others_can_do_is_refused(part: str, kind: str) -> None:
    with pytest.raises(ValidationError, match="does not match any of the expected tags"):
        Program.model_validate({"steps": 1, part: ({"kind": kind},)})


@pytest.mark.parametrize("momentum", [0.0, 1.0, -0.1])
def test_a_momentum_is_between_0_and_1(momentum: float) -> None:
    line = {**TestMovingAverage.LINE, "momentum": momentum}
    with pytest.raises(ValidationError, match="momentum"):
        Program.model_validate({"steps": 1, "replicas": (line,)})
