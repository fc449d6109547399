"""Rows tell the whole run: nothing twice, nothing left out, at the times at which it happened."""

from collections import Counter
from functools import cache
from typing import Any, NamedTuple

import pytest

from tests.explain.telling import acting, all_rows, traced
from tests.seams import ProgramTrace, VariablesScenario, simulate

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
    all_rows: list[Any]
    rows: list[Any]


@cache
def run_number(number: int) -> Told:
    made = [*RUNS, *INSTANT][number]
    found = all_rows(made)
    return Told(made, traced(made), found, [row for row in found if row.step])


@pytest.fixture(params=range(len(RUNS) + len(INSTANT)))
def run(request: pytest.FixtureRequest) -> Told:
    number: int = request.param
    return run_number(number)


class TestEveryRun:
    def test_every_act_is_told_once(self, run: Told) -> None:
        acts = [act for row in run.all_rows if row.doing != "wait" for act in row.acts]
        assert Counter(map(repr, acts)) == Counter(map(repr, run.trace.acts))

    def test_every_message_is_told_once(self, run: Told) -> None:
        sent = [one for row in run.all_rows for some in row.sent for one in some]
        assert Counter(map(repr, sent)) == Counter(map(repr, run.trace.sent_rows))

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
        (first,) = (copy for row in run.all_rows if row.doing == "start" for copy in row.copies)
        assert first.first == (0.0,)
        held = [(0, first)]
        held += [(act.end, act.copies[0]) for act in run.trace.acts if act.handed is not None]
        for act in run.trace.acts:
            if act.kind == "read":
                # Of several that arrived at the moment of asking, some may have come later.
                before = [value for time, value in held if time < act.begin][-1:]
                assert act.seen in [*before, *(v for time, v in held if time == act.begin)]

    def test_all_steps_cost_what_the_run_says(self, run: Told) -> None:
        result, (mode,) = simulate(run.made), run.made.all_modes
        steps = run.made.program.steps
        took = max(row.end for row in run.rows) - run.trace.began
        assert result.values(mode, "step_time_mean") == [took / 1e9 / steps]
        sizes = [one.size for row in run.rows for some in row.sent for one in some]
        assert result.values(mode, "bytes_per_step") == [sum(sizes) / steps]
        assert result.values(mode, "messages_per_step") == [len(sizes) / steps]
