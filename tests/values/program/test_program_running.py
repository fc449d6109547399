"""A program at work: who does what in which order, the same values in every way of running it."""

from typing import Any

import numpy as np
import pytest

from tests.programs import (
    MODES,
    Line,
    add,
    held,
    number,
    read,
    scenario,
    seen,
    trace,
    variable,
    without_a_clock,
)
from varsim.distribute.central import PlainVariable
from varsim.distribute.mirrored import MirroredVariable, SyncOnReadVariable
from varsim.distribute.program_run import CROSS_REPLICA, MOST_COPIES, Mode, ProgramRun
from varsim.values.operation import DEFAULT_DEVICE, Device, finish

COUNTING: dict[str, Any] = {"replicas": (add(3.0, 1.0, 2.0), read()), "outside": (read(),)}


def run(mode: Mode, *variables: Line, replicas: int = 3, **program: Any) -> ProgramRun:
    whole = {"steps": 2, **COUNTING, **program}
    return without_a_clock(whole, variables or [variable()], mode, replicas)


class TestModes:
    @pytest.mark.parametrize(
        ("mode", "made"),
        [
            ("on_read", SyncOnReadVariable),
            ("on_write", MirroredVariable),
            ("none", PlainVariable),
        ],
    )
    def test_variables_are_those_of_tensorflow(self, mode: Mode, made: type) -> None:
        there = run(mode).variables["v"].variable
        assert type(there) is made

    def test_a_variable_may_have_its_own(self) -> None:
        fixed = variable(name="w", synchronization="on_write", aggregation="mean")
        there = run("on_read", variable(), fixed).variables
        assert type(there["v"].variable) is SyncOnReadVariable
        assert type(there["w"].variable) is MirroredVariable

    def test_copies_lie_on_the_gpus_of_the_workers(self) -> None:
        devices = run("on_write").variables["v"].variable.devices
        assert devices == tuple(Device("worker", rank, 0, "gpu") for rank in range(3))

    def test_without_copies_variables_lie_on_the_servers_in_turn(self) -> None:
        variables = [variable(name=name) for name in ("v", "w", "x")]
        done = without_a_clock({"steps": 1, **COUNTING}, variables, "none", servers=2)
        places = [done.variables[name].variable.devices for name in ("v", "w", "x")]
        assert places == [(Device("ps", 0),), (Device("ps", 1),), (Device("ps", 0),)]


class TestOrder:
    def test_first_the_replicas_then_the_outside_step_by_step(self) -> None:
        done = run("on_read")
        told = [(act.step, act.part, act.number, act.replica) for act in done.acts]
        inside = [("replicas", line, rank) for rank in range(3) for line in range(2)]
        assert told == [
            (step, *one) for step in (1, 2) for one in (*inside, ("outside", 0, CROSS_REPLICA))
        ]

    def test_replicas_meet_where_a_write_aggregates(self) -> None:
        done = run("on_write", steps=1)
        # Without a clock one goes on after the other, but nobody before all have written.
        assert [act.kind for act in done.acts if act.replica == 0] == ["assign_add", "read"]
        assert [held(act) for act in done.acts] == [[6, 6, 6]] * 7

    def test_repetitions_are_told_apart(self) -> None:
        done = run("none", steps=1, replicas=1, outside=(read(times=3),))
        assert [act.repetition for act in done.acts if act.part == "outside"] == [0, 1, 2]

    def test_every_is_counted_in_steps(self) -> None:
        done = run("on_read", steps=6, outside=(read(every=3),))
        assert seen(done.acts[-1:]) == [(6, CROSS_REPLICA, 36)]
        assert [act.step for act in done.acts if act.part == "outside"] == [3, 6]

    def test_in_a_block_each_replica_goes_through_all_its_steps(self) -> None:
        done = run("on_read", steps=4, outside=(read(every=2),))
        told = [(act.replica, act.step) for act in done.acts if act.kind == "assign_add"]
        assert told[:6] == [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]

    def test_what_is_being_done_is_known(self) -> None:
        assert run("none").current == "outside.0"


class TestValues:
    @pytest.mark.parametrize(
        ("mode", "inside", "outside", "copies"),
        [
            # Two steps of 3, 1 and 2; each replica reads after its own write.
            ("on_read", [(3, 1, 2), (6, 2, 4)], [6, 12], [6, 2, 4]),
            ("on_write", [(6, 6, 6), (12, 12, 12)], [6, 12], [12, 12, 12]),
            ("none", [(3, 4, 6), (9, 10, 12)], [6, 12], [12]),
        ],
    )
    def test_by_hand(
        self, mode: Mode, inside: list[tuple[float, ...]], outside: list[float], copies: list[float]
    ) -> None:
        done = run(mode)
        rows = seen(done.acts)
        for step in (1, 2):
            values = {replica: value for at, replica, value in rows if at == step}
            assert [values[rank] for rank in range(3)] == list(inside[step - 1])
            assert values[CROSS_REPLICA] == outside[step - 1]
        assert held(done.acts[-1]) == copies

    @pytest.mark.parametrize("mode", MODES)
    def test_whole_numbers_stay_whole(self, mode: Mode) -> None:
        done = run(mode, variable(dtype="int64", initial=2.0**52))
        last = done.acts[-1].seen
        assert last is not None
        # Under ON_READ with SUM each copy starts with the whole value.
        start = 2**52 * (3 if mode == "on_read" else 1)
        assert last.first == (start + 12,)
        assert isinstance(last.first[0], int)

    def test_each_replica_draws_its_own_and_the_outside_too(self) -> None:
        drawn = {"kind": "normal", "standard_deviation": 1.0}
        outside = ({"kind": "assign_add", "variable": "v", "value": drawn},)
        done = run("on_write", replicas=3, steps=3, outside=outside)
        assert len({number(act.handed) for act in done.acts if act.part == "outside"}) == 3

    @pytest.mark.parametrize("seed", [0, 1])
    def test_what_is_drawn_is_the_same_in_every_mode(self, seed: int) -> None:
        drawn = {"kind": "normal", "mean": 1.0, "standard_deviation": 2.0}
        program = {"steps": 3, "replicas": (add(drawn, times=2),), "outside": (read(every=3),)}
        given = {}
        for mode in MODES:
            done = without_a_clock(program, [variable()], mode, seed=seed)
            given[mode] = {
                (act.step, act.replica, act.repetition): number(act.handed)
                for act in done.acts
                if act.kind == "assign_add"
            }
        assert given["on_read"] == given["on_write"] == given["none"]
        assert len(set(given["none"].values())) == 18

    def test_another_replica_changes_no_draw_of_the_others(self) -> None:
        drawn = {"kind": "normal", "standard_deviation": 1.0}
        program = {"steps": 2, "replicas": (add(drawn),)}
        handed = []
        for replicas in (2, 5):
            acts = without_a_clock(program, [variable()], "on_read", replicas).acts
            handed.append([number(act.handed) for act in acts if act.replica < 2])
        assert len(handed[0]) == 4
        assert handed[0] == handed[1]


class TestViews:
    def test_what_each_read_last_and_the_copies_hold(self) -> None:
        (view,) = run("on_read").views()
        assert view.variable == "v"
        assert [number(one) for one in view.replicas] == [6, 2, 4]
        assert number(view.outside) == 12
        assert [number(one) for one in view.copies] == [6, 2, 4]

    def test_who_never_read_saw_nothing(self) -> None:
        (view,) = run("none", outside=({"kind": "save", "every": 2},)).views()
        assert view.outside is not None, "saving is reading from outside"
        done = without_a_clock({"steps": 1, "replicas": (add(1.0),)}, [variable()], "none")
        (view,) = done.views()
        assert (view.replicas, view.outside) == ((None,) * 3, None)

    def test_restoring_is_not_reading(self) -> None:
        # Saved 6, then 3 more are added from outside, then 6 is restored.
        outside = (
            {"kind": "save"},
            {"kind": "assign_add", "variable": "v", "value": 3.0},
            read(),
            {"kind": "restore"},
        )
        (view,) = run("none", steps=1, outside=outside).views()
        assert number(view.outside) == 9
        assert [number(one) for one in view.copies] == [6]


class TestLimits:
    def test_of_many_copies_the_first_are_looked_at(self) -> None:
        program = {"steps": 1, "replicas": (add(1.0),)}
        done = without_a_clock(program, [variable()], "on_read", MOST_COPIES + 6)
        assert {len(act.copies) for act in done.acts} == {MOST_COPIES}
        (view,) = done.views()
        assert (len(view.copies), len(view.replicas)) == (MOST_COPIES, MOST_COPIES + 6)

    def test_of_many_acts_the_first_are_kept_and_all_counted(self) -> None:
        whole = scenario(**COUNTING, steps=5)
        run = ProgramRun(
            whole.program,
            whole.variables,
            "none",
            3,
            1,
            lambda _: np.random.default_rng(0),
            most_acts=10,
        )
        finish(run.operation())
        assert (len(run.acts), run.count) == (10, 5 * 7)
        assert number(run.views()[0].outside) == 30, "what was seen last is known all the same"


WAYS: dict[str, dict[str, Any]] = {
    "counting": {**COUNTING, "steps": 3},
    "checkpoints": {
        "replicas": (add(3.0, 1.0, 2.0), read()),
        "outside": ({"kind": "save", "every": 2}, {"kind": "restore", "every": 3}, read()),
        "steps": 7,
    },
    "arrays": {
        "replicas": (
            add(3.0, 1.0, 2.0, times=2),
            {"kind": "moving_average", "variable": "v", "value": 9.0, "momentum": 0.9},
            read(every=2),
        ),
        "outside": (read(every=2),),
        "variables": (variable(shape=(3, 5), aggregation="mean"),),
        "steps": 4,
    },
    "two variables": {
        "replicas": (add(1.0, 2.0, 3.0), {**add(1.0), "variable": "w"}, read()),
        "outside": ({"kind": "save"}, {"kind": "assign", "variable": "w", "value": 4.0}),
        "variables": (variable(), variable(name="w", aggregation="mean", initial=2.0)),
        "steps": 2,
    },
    "drawn": {
        "replicas": (add({"kind": "normal", "standard_deviation": 1.0}), read()),
        "outside": (read(),),
        "variables": (variable(shape=(20,)),),
        "steps": 3,
    },
}


@pytest.mark.parametrize(
    ("way", "mode"),
    # Whoever reads, then writes without copies, may miss what others wrote meanwhile (see below).
    [(way, mode) for way in WAYS for mode in MODES if (way, mode) != ("arrays", "none")],
)
@pytest.mark.parametrize("sharing", ["fair", "first_come"])
def test_a_cluster_changes_no_value(way: str, mode: Mode, sharing: str) -> None:
    """With `finish` and on a clock: the same values, handed over and seen, by everybody."""
    whole = scenario(network={"sharing": sharing}, **WAYS[way])
    at_once = without_a_clock(whole.program, whole.variables, mode)
    on_clock = trace(whole, mode)
    told = []
    for acts in (at_once.acts, on_clock.acts):
        rows = {
            (act.step, act.part, act.number, act.variable, act.repetition, act.replica): (
                act.handed,
                # Without copies a replica sees what has arrived so far, which is for the clock.
                None if mode == "none" and act.replica != CROSS_REPLICA else act.seen,
            )
            for act in acts
        }
        assert len(rows) == len(acts)
        told.append(rows)
    assert told[0] == told[1]
    assert [view.copies for view in at_once.views()] == [view.copies for view in on_clock.views]
    assert on_clock.end > on_clock.began >= 0


def test_without_copies_what_is_read_and_then_written_may_be_lost() -> None:
    # Half way from 0 to 8: by one after the other 4, 6 and 7. On a cluster all read 0 at the same
    # time, and each takes 4 of it.
    half = {"kind": "moving_average", "variable": "v", "value": 8.0, "momentum": 0.5}
    whole = scenario((half,), (read(),))
    at_once = without_a_clock(whole.program, whole.variables, "none")
    assert seen(at_once.acts) == [(1, CROSS_REPLICA, 7)]
    assert seen(trace(whole, "none").acts) == [(1, CROSS_REPLICA, 12)]


def test_the_outside_is_on_the_machine_of_replica_0() -> None:
    assert run("on_read").variables["v"].variable.devices[0].task == DEFAULT_DEVICE.task == 0
