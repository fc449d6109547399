"""Rows tell the whole run: nothing twice, nothing left out, at the times at which it happened."""

from functools import cache
from typing import NamedTuple

import pytest

from tests.explain.telling import acting, rows, scenario, traced
from varsim.cluster.program import ProgramTrace
from varsim.distribute.program_run import CROSS_REPLICA, MOST_COPIES, ValueSummary
from varsim.scenario.variables import VariablesScenario
from varsim.study.program.rows import MOST_MOMENTS, MOST_ROWS, Row, rows_of, told
from varsim.study.program.tables import METRICS

ACTS = ["compute", "add, value: 3", "read", "moving_average, momentum: 0.9, value: 2"]
ACTS += ["sub, value: 1, times: 5"]
AFTER = ["read", "save", "restore"]
DISTRIBUTIONS = ("{kind: constant, value: 10 ms}", "{kind: exponential, mean: 10 ms}")


def running(
    mode: str, sharing: str, law: str, workers: int, outside: str = ""
) -> VariablesScenario:
    """Four steps, in which the outside acts every second time, or never."""
    return acting(
        mode,
        "sum",
        ACTS,
        AFTER,
        f"cluster.network.sharing={sharing}",
        f"cluster.compute={law}",
        f"cluster.workers={workers}",
        "program.steps=4",
        *(f"program.outside.{place}.every=2" for place in range(3)),
        *([f"program.outside={outside}"] if outside else []),
    )


RUNS = [
    running(mode, sharing, law, workers, outside)
    for mode in ("on_read", "on_write", "none")
    for sharing in ("fair", "first_come")
    for law in DISTRIBUTIONS
    for workers in (3, 7)
    for outside in ("", "[]")
]
# A link so fast that messages take no time: everything happens at one moment.
INSTANT = [
    acting(
        mode, "sum", ACTS[1:-1], AFTER, "cluster.network.latency=0",
        "cluster.network.bandwidth=400 Gbit/s",
    )
    for mode in ("on_read", "on_write", "none")
]  # fmt: skip


class Told(NamedTuple):
    """A run and what is told of it; `rows` without the creation of the variable."""

    made: VariablesScenario
    trace: ProgramTrace
    all_rows: list[Row]
    rows: list[Row]


@cache
def run_number(number: int) -> Told:
    made = [*RUNS, *INSTANT][number]
    trace = traced(made)
    found = rows_of(made, trace)
    return Told(made, trace, found, [row for row in found if row.step])


@pytest.fixture(params=range(len(RUNS) + len(INSTANT)))
def run(request: pytest.FixtureRequest) -> Told:
    number: int = request.param
    return run_number(number)


class TestEveryRun:
    def test_every_act_is_told_once(self, run: Told) -> None:
        acts = [act for row in run.all_rows if row.doing != "wait" for act in row.acts]
        assert sorted(map(id, acts)) == sorted(map(id, run.trace.acts))

    def test_every_message_is_told_once(self, run: Told) -> None:
        sent = [one for row in run.all_rows for some in row.sent for one in some]
        assert sorted(map(id, sent)) == sorted(map(id, run.trace.sent))

    def test_messages_go_within_the_time_of_their_row(self, run: Told) -> None:
        for row in run.all_rows:
            for some in row.sent:
                assert all(row.begin <= one.start <= one.end <= row.end for one in some)

    def test_messages_are_those_of_the_actors(self, run: Told) -> None:
        for row in run.all_rows:
            ranks = {max(actor, 0) for actor in row.actors}  # outside is on worker 0
            for one in (one for some in row.sent for one in some):
                tasks = {end.task for end in (one.source, one.target) if end.job == "worker"}
                if "none" in run.made.all_modes:
                    assert tasks <= ranks
                else:
                    assert row.together or 0 in tasks

    def test_rows_begin_and_end_with_their_acts(self, run: Told) -> None:
        for row in run.rows:
            assert row.end == max(act.end for act in row.acts) or row.doing == "wait"
            assert row.begin >= min(act.begin for act in row.acts)
            if row.doing == "act" and not row.together:
                assert {(row.begin, row.end)} == {(act.begin, act.end) for act in row.acts}

    def test_rows_are_in_the_order_of_their_ends(self, run: Told) -> None:
        ends = [row.end for row in run.all_rows]
        assert ends == sorted(ends)

    def test_the_last_copies_are_those_of_the_end(self, run: Told) -> None:
        (view,) = run.trace.views
        assert [row.copies for row in run.all_rows if row.copies][-1] == view.copies

    def test_copies_are_those_of_the_time(self, run: Told) -> None:
        for row in run.rows:
            if not row.copies:
                continue
            # Whoever did nothing at that very moment has what was seen of it last.
            before = [act for act in run.trace.acts if act.end < row.end and act.variable]
            now = [act for act in run.trace.acts if act.end == row.end]
            for rank, copy in enumerate(row.copies):
                if before and all(act.replica != rank and not act.moved for act in now):
                    assert copy == before[-1].copies[rank]
                elif row.together or row.outside:
                    assert copy == row.acts[-1].copies[rank]

    def test_a_read_of_an_own_copy_sees_it(self, run: Told) -> None:
        for row in run.rows:
            reads = row.doing == "act" and row.acts[0].seen is not None
            if run.made.all_modes[0] != "none" and reads and not row.outside:
                for act in row.acts:
                    assert act.seen == row.copies[act.replica]

    def test_a_read_on_a_server_sees_what_had_arrived(self, run: Told) -> None:
        if run.made.all_modes[0] != "none":
            return
        held = [(0, ValueSummary((), (0.0,), 0.0))]
        held += [(act.end, act.copies[0]) for act in run.trace.acts if act.handed is not None]
        for act in run.trace.acts:
            if act.kind == "read":
                # Of several that arrived at the moment of asking, some may have come later.
                before = [value for time, value in held if time < act.begin][-1:]
                assert act.seen in [*before, *(v for time, v in held if time == act.begin)]

    def test_all_steps_cost_what_the_run_says(self, run: Told) -> None:
        trace, told_rows = run.trace, run.rows
        steps = run.made.program.steps
        took = max(row.end for row in told_rows) - run.trace.began
        assert METRICS["time_per_step"].of(trace, steps) == took / 1e9 / steps
        sizes = [one.size for row in told_rows for some in row.sent for one in some]
        assert METRICS["bytes_per_step"].of(trace, steps) == sum(sizes) / steps
        assert METRICS["messages_per_step"].of(trace, steps) == len(sizes) / steps


class TestCreation:
    def test_a_row_for_every_variable(self) -> None:
        made = scenario(
            "variables=[{name: a, initial: 2}, {name: b, shape: [100], dtype: int32}]",
            "program.replicas=[{kind: assign, variable: a, value: 1}, "
            "{kind: assign, variable: b, value: 1}]",
        )
        first, second = [row for row in rows_of(made, traced(made)) if row.doing == "start"]
        assert first == Row(
            "start", 0, 0, 50_064, (CROSS_REPLICA,), "a", copies=first.copies, sent=first.sent
        )
        assert first.copies == (ValueSummary((), (2.0,), 2.0),) * 3
        # 400 B for each of two on one link: 2 x 3.2 us.
        assert (second.begin, second.end) == (50_064, 50_064 + 6_400 + 50_000)
        assert second.copies == (ValueSummary((100,), (0, 0, 0), 0.0),) * 3
        assert [one.size for one in second.sent[0]] == [400, 400]
        assert traced(made).began == second.end

    def test_a_server_has_one_copy_at_once(self) -> None:
        (row,) = [
            row
            for made in [acting("none", "sum", ["add, value: 1"])]
            for row in rows_of(made, traced(made))
            if row.doing == "start"
        ]
        assert (row.begin, row.end, len(row.copies), row.sent) == (0, 0, 1, ())


def test_only_the_first_copies_of_very_many_are_told() -> None:
    made = acting("on_read", "sum", ["add, value: 1"], ["read"], "cluster.workers=70")
    add, read = rows(made)
    assert len(add.actors) == 70
    assert len(add.copies) == MOST_COPIES
    assert read.acts[0].seen == ValueSummary((), (70.0,), 70.0)


def test_few_moments_are_told_one_by_one() -> None:
    # Each of n workers is served in its turn.
    for workers, expected in ((MOST_MOMENTS, MOST_MOMENTS), (MOST_MOMENTS + 1, MOST_MOMENTS)):
        made = acting(
            "none", "sum", ["add, value: 1"], (), "cluster.network.sharing=first_come",
            f"cluster.workers={workers}",
        )  # fmt: skip
        found = rows(made)
        assert len(found) == expected
        assert sum(len(row.actors) for row in found) == workers
        assert [row.doing for row in found].count("others") == workers - MOST_MOMENTS


class TestHowManySteps:
    """Only the first steps are run and told; they are those of the whole run."""

    @pytest.mark.parametrize("made", RUNS[1::3], ids=lambda made: made.labels[0])
    def test_first_steps_are_those_of_the_whole_run(self, made: VariablesScenario) -> None:
        whole = rows_of(made, traced(made))
        for steps in (1, 2, 3, 4):
            (telling,) = told(made, made.all_modes, steps)
            assert telling.rows == [row for row in whole if row.step <= steps]
            assert telling.steps == steps

    def test_more_steps_than_there_are_is_all(self) -> None:
        made = RUNS[0]
        assert told(made, made.all_modes, 99) == told(made, made.all_modes, 4)

    def test_as_many_as_fit(self) -> None:
        made = acting("on_write", "sum", ["add, value: 1", "read"], (), "program.steps=1000")
        (telling,) = told(made, made.all_modes)
        assert telling.steps == (MOST_ROWS - 1) // 2
        assert len(telling.rows) == 1 + 2 * telling.steps

    def test_at_least_one(self) -> None:
        made = acting("on_read", "sum", ["add, value: 1"] * 30, (), "program.steps=2")
        (telling,) = told(made, made.all_modes)
        assert telling.steps == 1
        assert len(telling.rows) == 31

    def test_as_many_under_every_mode(self) -> None:
        made = scenario(
            "modes=[on_read, on_write]",
            "variables.0.aggregation=sum",
            "cluster.compute={kind: exponential, mean: 1 ms}",
            "program={steps: 50, replicas: [{kind: compute}, {kind: assign_add, variable: x, "
            "value: 1}]}",
        )
        read, write = told(made, made.all_modes)
        assert read.steps == write.steps
        # On write: 3 compute, 2 wait, 1 write in every step; on read 3 compute, 3 write.
        assert read.steps == (MOST_ROWS - 1) // 6

    def test_what_is_too_long_is_not_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("varsim.study.program.rows.MOST_ACTS", 10)
        made = acting("on_read", "sum", ["add, value: 1"], (), "program.steps=9")
        # Three replicas, which wait for each other at the end only.
        for steps in (None, 1):
            with pytest.raises(ValueError, match="27 reads and writes are too many"):
                told(made, made.all_modes, steps)
        waits = acting("on_read", "sum", ["add, value: 1"], ["read"], "program.steps=9")
        (telling,) = told(waits, waits.all_modes)
        assert telling.steps == 2  # of 4 acts each
        with pytest.raises(ValueError, match="12 reads and writes"):
            told(waits, waits.all_modes, 3)
