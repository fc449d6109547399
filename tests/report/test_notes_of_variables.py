"""What is told of a run of variables: whether its answer is what its numbers say."""

import pytest

from tests.programs import add, read, scenario, variable
from tests.seams import Result, VariablesScenario, simulate
from varsim.report.products.figures import links
from varsim.report.told import Note, Number
from varsim.report.wording import shown, unheld
from varsim.study.metrics import Carried

RANDOM = {"workers": 2, "compute": {"kind": "lognormal", "mean": 1e-3, "sigma": 0.9}}
COMPUTE = {"kind": "compute"}


def varied(replications: int, seed: int) -> Result[VariablesScenario]:
    """A write and some random work, in all modes."""
    made = scenario(
        (add(1.0), COMPUTE), cluster=RANDOM, replications=replications, seed=seed, steps=3
    )
    return simulate(made)


def ends(note: Note) -> tuple[float, float]:
    low, high = note.values["low"], note.values["high"]
    assert isinstance(low, Number)
    assert isinstance(high, Number)
    return low.mean, high.mean


def test_modes_too_close_to_call_are_told_with_the_times_between_which_they_lie() -> None:
    found = [varied(4, seed) for seed in range(1, 6)]
    close = [one for one in found if one.report.headline[0].code == "step-close"]
    assert close
    for result in close:
        note = result.report.headline[0]
        tied = note.values["tied"]
        assert isinstance(tied, tuple)
        times = [result.estimate(mode, "step_time_mean").mean for mode in tied]
        assert ends(note) == (min(times), max(times))


def test_of_one_replication_the_slowest_ends_the_range() -> None:
    result = varied(1, 1)
    note = result.report.headline[0]
    assert note.code == "too-few"
    times = [result.estimate(mode, "step_time_mean").mean for mode in result.strategies]
    assert ends(note) == pytest.approx((min(times), max(times)))
    assert min(times) < max(times)


def test_drawn_values_are_no_exact_ones() -> None:
    drawn = {"mean": 0.0, "standard_deviation": 1.0}
    (note,) = simulate(scenario(({**add(), "value": drawn},), modes=("none",))).report.notes
    assert note.code == "exact-steps"
    (note,) = simulate(scenario((add(1.0),), modes=("none",))).report.notes[:1]
    assert note.code == "exact"


def test_a_check_of_random_times_says_that_it_looked_at_one_replication() -> None:
    made = scenario((add(1.0), COMPUTE), cluster=RANDOM, replications=4)
    (note,) = made.check().report.notes
    assert (note.code, note.values) == ("first-replication", {"of": 4})


def test_a_step_that_takes_no_time_has_no_ratio_and_wins_no_ranking() -> None:
    alone = {"workers": 1}
    report = simulate(scenario((add(1.0),), cluster=alone)).report
    assert report.headline[0].values["who"] == ("on_read", "on_write")
    (ratio,) = (one for one in report.table.columns if one.key == "time_ratio")
    cells = dict(zip(report.table.rows, ratio.cells, strict=True))
    assert shown(cells["on_write"]) == "tie"
    report = simulate(scenario((add(1.0),))).report
    assert unheld(shown(report.table.columns[0].cells[0])) == "0 s"
    assert "time_ratio" not in [one.key for one in report.table.columns]


def test_links_that_are_shown_alike_are_in_the_order_of_their_names() -> None:
    def used(share: float) -> dict[str, Carried]:
        return {"none": Carried(1.0, 1, share)}

    names = ("worker 10 up", "worker 2 up", "ps 0 down", "worker 3 up")
    shares = (0.50001, 0.5, 0.49999, 0.9)
    table = links(dict(zip(names, map(used, shares), strict=True)), {"none": "none"})
    assert table.rows == ("worker 3 up", "ps 0 down", "worker 2 up", "worker 10 up")


def test_what_an_explanation_shows_of_a_part_is_named_so() -> None:
    made = scenario((add(1.0),), (read(every=2),), steps=8)
    assert made.explain(steps=2).report.table.corner == "mode, steps 1 to 2"
    assert made.explain(steps=8).report.table.corner == "mode"


def test_one_copy_is_explained_once_however_it_would_be_aggregated() -> None:
    several = tuple(
        variable(name=name, aggregation=how) for name, how in (("v", "sum"), ("w", "mean"))
    )
    both = (add(1.0), add(1.0, variable="w"))
    made = scenario(both, variables=several, modes=("none",))
    (table,) = made.explain().report.details[1:]
    (about,) = table.above
    assert "One copy of v and w is on ps 0." in about
