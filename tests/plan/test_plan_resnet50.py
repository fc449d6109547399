"""scenarios/plan_resnet50.yaml, tried as a planner would: the answer holds, nothing is cheaper."""

import csv
import io
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.goldens import GOLDEN, check_columns
from tests.plan.planning import searched
from tests.seams import load_text, simulate
from varsim.report.formats import render
from varsim.scenario.plan import load_question
from varsim.study.plan import answer_scenario
from varsim.study.verdict import one_sided

FILE = Path(__file__).parent.parent.parent / "scenarios" / "plan_resnet50.yaml"


def part_of_it() -> list[list[str]]:
    """The cells of two of its strategies with four servers."""
    asked = load_question(FILE, ["cluster.parameter_servers=4"])
    asked = replace(asked, strategies=("on_write", "two backups"), most_replications=6)
    with TemporaryDirectory() as folder:
        found, _ = searched(asked, Path(folder))
    return list(csv.reader(io.StringIO(render(found.report, "csv"))))


def test_it_begins_with_its_question() -> None:
    assert "?" in FILE.read_text().splitlines()[0]
    assert load_question(FILE).name == FILE.stem
    assert "The prices are examples" in FILE.read_text()


@pytest.mark.slow
@pytest.mark.product
def test_a_part_of_it_gives_the_golden_cells() -> None:
    """To change the file on purpose: python tests/plan/test_plan_resnet50.py, in its own commit."""
    found = part_of_it()
    check_columns(found, "plan_resnet50")
    assert sum("the answer" in row for row in found) == 1


@pytest.mark.slow
def test_the_answer_holds_and_nothing_is_cheaper(tmp_path: Path) -> None:
    asked = load_question(FILE)
    found, runs = searched(asked, tmp_path / "runs")
    best = found.best
    assert best is not None
    # Run again with seeds that the search never saw: 20 runs, each with its own.
    text = found
    assert text.scenario is not None
    speeds, staleness = [], []
    for seed in range(1000, 1020):
        fresh = answer_scenario("fresh", best).model_copy(update={"seed": seed, "replications": 1})
        result = simulate(fresh)
        (label,) = result.strategies
        speeds += result.values(label, "examples_per_s")
        staleness += result.values(label, "staleness_p99")
    assert asked.targets.throughput is not None
    assert asked.targets.staleness_p99 is not None
    assert one_sided(speeds, lower=True) >= asked.targets.throughput
    assert one_sided(staleness, lower=False) <= asked.targets.staleness_p99
    # Every cell of the space, each that is cheaper with as many runs as a plan ever makes.
    thorough = replace(asked, first_replications=8)
    everything, all_runs = searched(thorough, tmp_path / "runs", exhaustive=True)
    assert len(everything.outcomes) == found.distinct == 273
    assert runs.status.done < all_runs.status.done
    cheaper = [
        one
        for one in everything.outcomes.values()
        if one.feasible and one.objective.mean < (1 - asked.tolerance) * best.objective.mean
    ]
    assert cheaper == []
    print(f"\nanswer {best.strategy} at {best.objective.mean:.2f}: {runs.status.done} runs, "
          f"exhaustive {all_runs.status.done}")  # fmt: skip


def test_the_answer_is_a_scenario() -> None:
    """As the file says it: it loads, and names one strategy."""
    from tests.seams import dump_scenario

    asked = load_question(FILE, ["cluster.parameter_servers=4"])
    asked = replace(asked, strategies=("on_write",), most_replications=4)
    with TemporaryDirectory() as folder:
        found, _ = searched(asked, Path(folder))
    assert found.best is not None
    scenario = answer_scenario(asked.name, found.best)
    assert load_text(dump_scenario(scenario)) == scenario
    assert [one.label for one in scenario.strategies] == ["on_write"]
    assert scenario.prices is not None
    assert scenario.prices.server_hour == 0


if __name__ == "__main__":
    with (GOLDEN / "plan_resnet50.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(part_of_it())
