"""The table of benchmarks and its yardsticks, which simulate what varsim does."""

import pytest

from bench.cases import SETTINGS, leaner, one, scenario, textbook
from bench.forks import changed_by, living
from bench.measuring import Row, Spread, Turns
from bench.mutants import ROOT, mutants
from bench.table import PLACE, kept, line


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            Row("a / T", 0.75, Spread(0.7512, 0.7, 0.8)),
            "| a / T | 0.75 | 0.751 | 0.7 to 0.8 | **missed** |",
        ),
        (Row("a", 3, Spread(2.5, 2, 3), " s"), "| a | 3 s | 2.5 s | 2 to 3 | reached |"),
        (
            Row("b", 150, Spread.of([1234.5]), " B", "at 64 workers"),
            "| b | 150 B | 1,234 B |  | **missed**; at 64 workers |",
        ),
        (Row("c", None, Spread(1, 1, 1)), "| c |  | 1 |  |  |"),
        (Row("d", 0.05, None, remark="no numba"), "| d | 0.05 |  |  | not measured; no numba |"),
    ],
)
def test_a_line_shows_goal_and_miss(row: Row, said: str) -> None:
    assert line(row) == said


def test_ratios_are_of_the_same_turn() -> None:
    turns = Turns({"a": [1.0, 20.0, 3.0], "b": [2.0, 10.0, 2.0]})
    assert turns.ratio("a", "b") == Spread(1.5, 0.5, 2.0)
    assert turns.ratio("a", "b", scale=2) == Spread(3.0, 1.0, 4.0)
    assert turns["a"] == Spread(3.0, 1.0, 20.0)


def test_parts_that_are_not_measured_again_stay_as_they_are() -> None:
    text = "# Benchmarks\n\nOn this.\n\n## One\n\n| a |\n\n3 s.\n\n## Two\n\n| b |\n"
    begin, parts = kept(text)
    assert begin == "# Benchmarks\n\nOn this."
    assert [*parts] == ["One", "Two"]
    assert "\n".join([begin, *parts.values()]) + "\n" == text


def test_the_report_is_made_of_parts() -> None:
    report = PLACE.read_text(encoding="utf-8")
    begin, parts = kept(report)
    assert "\n".join([begin, *parts.values()]) + "\n" == report


# Where two arrive at one moment, these let another one go on first.
ROUGHLY = {"k_async": 1e-3, "k_batch_sync": 1e-4, "backup_workers": 1e-4}


@pytest.mark.parametrize("kind", SETTINGS)
def test_they_end_when_a_run_does(kind: str) -> None:
    what = scenario(kind, 16, 10, "timing")
    trace = one(what)()
    assert leaner(what)() == pytest.approx(trace.end, rel=ROUGHLY.get(kind, 0.0), abs=0.0)
    if kind in ("sync_replicas", "none", "on_write"):
        assert textbook(what) == trace.end


@pytest.mark.parametrize("kind", SETTINGS)
def test_every_full_run_has_a_scenario(kind: str) -> None:
    assert scenario(kind, 64, 10, "softmax").strategies[0].kind == kind


def test_a_mutant_is_put_into_the_functions_that_are_there() -> None:
    """But not where it changes what is imported: a constant, the default of an argument."""
    file = "varsim/core/units.py"
    live = living()
    made = [*mutants(file, (ROOT / file).read_text(encoding="utf-8"))]
    inside = [mutant for mutant in made if changed_by(mutant, live)]
    assert {mutant.change for mutant in made} > {mutant.change for mutant in inside}
    for mutant in inside:
        for function, code in changed_by(mutant, live).items():
            assert function.__code__.co_name == code.co_name
            assert function.__code__ != code
