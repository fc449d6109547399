"""`global_steps` compares over equal examples, also where updates differ in size."""

from typing import Any

import pytest

from tests.building import scenario
from tests.handmade import a_result
from tests.reports import checked, noted
from tests.seams import Grid, Number, Result, dump_scenario, simulate, sweep_of_text
from varsim import Scenario

ON_WRITE, NONE = {"kind": "on_write"}, {"kind": "none"}
SOME_OF_THREE = {"kind": "sync_replicas", "replicas_to_aggregate": 2}
# Reads and pushes take no time, batches 100 ms, worker 2 300 ms: on_write makes a step in 300 ms.
SLOW = {"slow_workers": ({"rank": 2, "factor": 3.0},)}


def comparing(*strategies: dict[str, Any], **stop: Any) -> Scenario:
    return scenario({}, strategies=strategies, cluster=SLOW, stop=stop, workload={"batch_size": 4})


def ends(result: Result) -> dict[str, tuple[int, int]]:
    """Updates and examples of every strategy."""
    return {
        trace.strategy: (trace.global_step, trace.evaluations[-1].examples)
        for trace in result.traces
    }


def case(made: Scenario, label: str) -> str:
    """What the runs of a strategy are kept by in a sweep."""
    asked = Grid(sweep_of_text(dump_scenario(made), sets=["seed=0,1"]))
    (found,) = (one for one in asked.candidates if (one.at, one.label) == (0, label))
    return str(found.case.key)


def test_the_others_go_on_until_they_have_as_many_examples() -> None:
    result = simulate(comparing(ON_WRITE, NONE, SOME_OF_THREE, global_steps=20))
    assert ends(result) == {"on_write": (20, 240), "none": (60, 240), "sync_replicas": (30, 240)}
    insisted = simulate(
        comparing(ON_WRITE, NONE, SOME_OF_THREE, global_steps=20, equal_examples=False)
    )
    assert [updates for updates, _ in ends(insisted).values()] == [20, 20, 20]


def test_it_is_told_and_how_to_insist() -> None:
    made = comparing(ON_WRITE, NONE, global_steps=20)
    (told,) = noted(made, "equal-examples")
    assert told.values == {"examples": Number(240), "updates": "20 updates", "who": "all-reduce"}
    assert noted(simulate(made), "unequal-work") == []
    insisted = simulate(comparing(ON_WRITE, NONE, global_steps=20, equal_examples=False))
    (note,) = noted(insisted, "unequal-work")
    assert note.values == {
        "few": "async PS",
        "many": "all-reduce",
        "times": Number(3.0),
        "set": "--set 'stop={examples: 80}'",
    }


@pytest.mark.parametrize(
    "strategies", [(NONE,), (ON_WRITE,), (ON_WRITE, {**ON_WRITE, "name": "b"})]
)
def test_where_all_updates_are_equally_large_nothing_changes(
    strategies: tuple[dict[str, Any], ...],
) -> None:
    made = comparing(*strategies, global_steps=20)
    result = simulate(made)
    assert all(trace.global_step == 20 for trace in [*result.traces, *result.reference])


def test_a_limit_of_examples_counts_too() -> None:
    result = simulate(comparing(ON_WRITE, NONE, global_steps=20, examples=100))
    assert ends(result) == {"on_write": (9, 108), "none": (25, 100)}


@pytest.mark.parametrize("chosen", [1, 0, slice(1, 3), slice(0, 2)])
def test_a_strategy_alone_runs_as_in_company(chosen: int | slice) -> None:
    whole = comparing(ON_WRITE, NONE, SOME_OF_THREE, global_steps=20)
    picked = whole.strategies[chosen]
    alone = whole.with_only(picked if isinstance(picked, tuple) else (picked,))
    in_company = ends(simulate(whole))
    assert ends(simulate(alone)) == {one.label: in_company[one.label] for one in alone.strategies}


def test_alone_there_is_nothing_to_insist_on() -> None:
    whole = comparing(ON_WRITE, NONE, global_steps=20, equal_examples=False)
    alone = whole.with_only(whole.strategies[1:])
    assert alone.stop.model_dump(exclude_none=True) == {"global_steps": 20, "equal_examples": True}


def test_a_run_that_is_the_same_is_one_case() -> None:
    """The largest updates are counted, whoever else is there; the others' examples are a limit."""
    three = comparing(ON_WRITE, NONE, SOME_OF_THREE, global_steps=20)
    two = comparing(NONE, ON_WRITE, global_steps=20)
    alone = comparing(ON_WRITE, global_steps=20)
    assert len({case(made, "on_write") for made in (three, two, alone)}) == 1
    examples = comparing(NONE, examples=240)
    assert len({case(made, "none") for made in (three, two, examples)}) == 1
    assert checked(two).report.headline[0].values["gradients"] == "120"


class TestHowMuchWork:
    def test_a_few_gradients_are_told_and_how_to_make_more(self) -> None:
        result = simulate(comparing(ON_WRITE, NONE, time=1.0))
        (note,) = noted(result, "short-run")
        # Worker 2 needs 300 ms for each.
        assert note.values["who"] == ("all-reduce", "async PS")
        count = note.values["count"]
        assert isinstance(count, Number)
        assert count.mean == pytest.approx(11 / 3)
        assert str(note.values["more"]).endswith("--set 'stop.time=3.27 s'")
        longer = simulate(comparing(ON_WRITE, NONE, time=3.27))
        assert noted(longer, "short-run") == []
        assert longer.report.headline[0].values["best"] == "async PS"

    def test_updates_are_what_is_to_be_raised_where_they_end_the_runs(self) -> None:
        result = simulate(comparing(ON_WRITE, NONE, global_steps=5))
        (note,) = noted(result, "short-run")
        assert str(note.values["more"]).endswith("--set stop.global_steps=12")

    def test_the_limit_that_ended_the_runs_is_to_be_raised(self) -> None:
        result = simulate(comparing(ON_WRITE, NONE, time=100.0, global_steps=50, examples=60))
        (note,) = noted(result, "short-run")
        assert str(note.values["more"]).endswith("longer runs: --set stop.examples=144")
        longer = simulate(comparing(ON_WRITE, NONE, time=100.0, global_steps=50, examples=144))
        assert noted(longer, "short-run") == []

    def test_limits_that_would_end_longer_runs_are_to_be_raised_with_it(self) -> None:
        result = simulate(comparing(ON_WRITE, NONE, time=1.6, global_steps=6, examples=60))
        (note,) = noted(result, "short-run")
        _, *typed = str(note.values["more"]).split("--set ")
        given = dict(one.strip("' ").removeprefix("stop.").split("=") for one in typed)
        assert list(given) == ["time", "global_steps", "examples"]
        longer = comparing(
            *(ON_WRITE, NONE),
            time=float(given["time"].removesuffix(" s")),
            global_steps=int(given["global_steps"]),
            examples=int(given["examples"]),
        )
        assert noted(simulate(longer), "short-run") == []

    def test_equal_examples_are_told_of_where_they_end_the_runs(self) -> None:
        (note,) = noted(comparing(ON_WRITE, NONE, global_steps=20), "equal-examples")
        assert note.values["examples"].mean == 240
        fewer = comparing(ON_WRITE, NONE, global_steps=20, examples=100)
        assert noted(fewer, "equal-examples") == []

    def test_a_run_too_short_names_no_winner(self) -> None:
        result = simulate(comparing(ON_WRITE, NONE, time=0.35))
        (told,) = result.report.headline
        assert (told.code, told.values["who"]) == ("too-short", ("all-reduce",))
        assert str(told.values["more"]).endswith("--set 'stop.time=4.2 s'")

    def test_few_reads_name_no_winner(self) -> None:
        # Before a read fast replicas are ahead; here they are in step, and 40 gradients four reads.
        result = simulate(comparing(ON_WRITE, ON_READ, global_steps=40))
        (told,) = result.report.headline
        assert (told.code, told.values["who"]) == ("too-short", ("sync on read",))
        assert "--set stop.global_steps=" in str(told.values["more"])
        longer = simulate(comparing(ON_WRITE, ON_READ, global_steps=60))
        assert longer.report.headline[0].code != "too-short"

    def test_runs_of_about_equal_work_are_not_told_of(self) -> None:
        result = simulate(comparing(ON_WRITE, SOME_OF_THREE, examples=400))
        assert noted(result, "unequal-work") == []
        assert a_result({"a": (1, 1), "b": (2, 2)}).report.headline[0].code == "fastest"


ON_READ = {"kind": "on_read", "read_every": 10}


def test_the_advice_is_whole_rounds_of_replicas_that_meet() -> None:
    """70 updates are 280 examples of none, 840 of on_read, which meets after every 120."""
    result = simulate(comparing(NONE, ON_READ, global_steps=70, equal_examples=False))
    (said,) = noted(result, "unequal-work")
    assert said.values["set"] == "--set 'stop={examples: 360}'"
    result = simulate(comparing(NONE, ON_READ, examples=360))
    assert {examples for _, examples in ends(result).values()} == {360}


def test_runs_too_short_to_rank_have_one_advice_on_their_length() -> None:
    result = simulate(comparing(ON_WRITE, ON_READ, global_steps=3))
    assert result.report.headline[0].code == "too-short"
    assert noted(result, "unequal-work") == []


def test_a_command_that_needs_yes_is_given_with_it() -> None:
    """As the note says; of a short run it is not."""
    assert checked(comparing(ON_WRITE, time=1e9)).report.next == "varsim run FILE --yes"
    assert checked(comparing(ON_WRITE, time=1.0)).report.next == "varsim run FILE"
