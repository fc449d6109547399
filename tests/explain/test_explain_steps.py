"""How the story begins, and how much of it is told: copies, moments, steps."""

import pytest

from tests.explain.telling import acting, rows, scenario, traced
from tests.explain.test_explain_rows import RUNS
from tests.seams import VariablesScenario
from varsim.distribute.program_run import CROSS_REPLICA, MOST_COPIES, ValueSummary
from varsim.study.steps import MOST_MOMENTS, MOST_ROWS, rows_of, told
from varsim.study.steps import StepRow as Row


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
            (telling,) = told(made, steps)
            assert telling.rows == [row for row in whole if row.step <= steps]
            assert telling.steps == steps

    def test_more_steps_than_there_are_is_all(self) -> None:
        made = RUNS[0]
        assert told(made, 99) == told(made, 4)

    def test_as_many_as_fit(self) -> None:
        made = acting("on_write", "sum", ["add, value: 1", "read"], (), "program.steps=1000")
        (telling,) = told(made)
        assert telling.steps == (MOST_ROWS - 1) // 2
        assert len(telling.rows) == 1 + 2 * telling.steps

    def test_at_least_one(self) -> None:
        made = acting("on_read", "sum", ["add, value: 1"] * 30, (), "program.steps=2")
        (telling,) = told(made)
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
        read, write = told(made)
        assert read.steps == write.steps
        # On write: 3 compute, 2 wait, 1 write in every step; on read 3 compute, 3 write.
        assert read.steps == (MOST_ROWS - 1) // 6

    def test_what_is_too_long_is_not_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("varsim.study.steps.MOST_ACTS", 10)
        made = acting("on_read", "sum", ["add, value: 1"], (), "program.steps=9")
        # Three replicas, which wait for each other at the end only.
        for steps in (None, 1):
            with pytest.raises(ValueError, match="27 reads and writes are too many"):
                told(made, steps)
        waits = acting("on_read", "sum", ["add, value: 1"], ["read"], "program.steps=9")
        (telling,) = told(waits)
        assert telling.steps == 2  # of 4 acts each
        with pytest.raises(ValueError, match="12 reads and writes"):
            told(waits, 3)
