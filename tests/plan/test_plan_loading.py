"""What a plan block asks, and what is said of a wrong one."""

import pytest

from tests.plan.planning import BASE, BLOCK, question, text
from tests.seams import load_text
from varsim import ScenarioError
from varsim.scenario.load import file_schema
from varsim.scenario.plan import MOST_REPLICATIONS, TRIALS, question_of_text
from varsim.scenario.sweep import sweep_of_text
from varsim.scenario.targets import EQUAL_WITHIN


def faults(block: str, *sets: str, base: str = BASE) -> list[str]:
    """Everything that is wrong with a plan."""
    with pytest.raises(ScenarioError) as refused:
        question_of_text(text(block, base), "a.yaml", sets=sets)
    return str(refused.value).splitlines()


class TestWhatIsAsked:
    def test_all_of_it(self) -> None:
        asked = question(BLOCK + "tolerance: 5 %\ntrials: 100\nwhere: cluster.workers >= 4\n")
        assert asked.objective == "cost_per_hour"
        assert asked.tolerance == 0.05
        assert (asked.first_replications, asked.most_replications) == (2, 8)
        assert asked.trials == 100
        assert asked.sizes == (6, 2)
        assert asked.texts == (("3", "4", "5", "6", "7", "8"), ("1", "2"))
        assert asked.strategies == ("on_write", "none")
        assert asked.combinations == 24
        assert asked.enumerated
        assert asked.at((0, 0)) is None
        point = asked.at((2, 1))
        assert point is not None
        assert point.scenario.cluster.workers == 5
        assert point.scenario.cluster.parameter_servers == 2

    def test_defaults(self) -> None:
        asked = question("minimize: workers\nspace: {cluster.workers: [1, 2]}")
        assert asked.tolerance == EQUAL_WITHIN
        assert asked.most_replications == MOST_REPLICATIONS
        assert asked.trials == TRIALS

    def test_changes(self) -> None:
        asked = question(sets=["cluster.workers=2,4", "targets.throughput=7 examples/s", "seed=9"])
        assert asked.texts[0] == ("2", "4")
        assert asked.targets.throughput == 7
        assert asked.base.seed == 9
        other = question_of_text(text(), minimize="workers")
        assert other.objective == "workers"

    def test_a_change_may_be_another_axis(self) -> None:
        assert question(sets=["cluster.network.bandwidth=1 Gbit/s,2 Gbit/s"]).sizes == (6, 2, 2)

    def test_a_large_space_is_not_outcomes_whole(self) -> None:
        block = "minimize: workers\nspace:\n" + (
            "  cluster.workers: {from: 1, to: 100, step: 1}\n"
            "  cluster.parameter_servers: {from: 1, to: 100, step: 1}\n"
        )
        asked = question(block)
        assert asked.combinations == 20_000
        assert not asked.enumerated


class TestRefused:
    @pytest.mark.parametrize(
        ("block", "line", "said"),
        [
            ("space: {cluster.workers: [1, 2]}", 19, "minimize is missing: one of cost_per_hour"),
            (
                "minimize: cost_per_our\nspace: {cluster.workers: [1, 2]}",
                20,
                "unknown minimize 'cost_per_our'; did you mean 'cost_per_hour'?",
            ),
            ("minimize: workers", 19, "space is empty: give it paths and values"),
            ("minimize: workers\nspace: [1, 2]", 21, "space takes paths of the scenario"),
            (
                "minimize: workers\nspace: {cluster.wrkers: [1, 2]}",
                21,
                "cluster has no 'wrkers'; did you mean 'cluster.workers'?",
            ),
            (
                "minimize: workers\nspace: {where: cluster.workers > 1}",
                21,
                "where does not belong in the space: write it beside it",
            ),
            (
                "minimize: workers\nspce: {cluster.workers: [1, 2]}",
                21,
                "unknown key 'spce'; did you mean 'space'?",
            ),
            (
                "minimize: workers\ncluster.workers: [1, 2]",
                21,
                "a path of the scenario belongs in 'space': 'cluster.workers'",
            ),
            (
                "minimize: workers\ntolerance: 0.02\nspace: {cluster.workers: [1, 2]}",
                21,
                "tolerance: '0.02' is not a percentage above 0",
            ),
            (
                "minimize: workers\nmost_replications: 1\nspace: {cluster.workers: [1, 2]}",
                21,
                "most_replications must be a whole number of at least 2 and at most 100,000",
            ),
            (
                "minimize: cost_to_target\nspace: {cluster.workers: [1, 2]}",
                20,
                "cost_to_target needs a target loss",
            ),
            (
                "minimize: workers\nspace: {cluster.workers: [1, 2]}\nwhere: cluster.workers > 9",
                22,
                "no point is left: where holds for none",
            ),
            (
                "minimize: workers\nspace: {cluster.workers: [0, 2]}",
                21,
                "(at cluster.workers = 0)",
            ),
        ],
    )
    def test_with_line_and_remedy(self, block: str, line: int, said: str) -> None:
        found = faults(block)
        place = [one for one in found if said in one]
        assert place, found
        assert place[0].startswith(f"a.yaml:{line}:"), found

    def test_all_mistakes_at_once(self) -> None:
        found = faults("minimize: nothing\ntolerance: x\nspace: {cluster.wrkers: [1, 2]}\ntrial: 3")
        messages = [one for one in found if ": error: " in one]
        assert len(messages) == 5, "of trials, as if it were spelt right, the least is told, too"

    def test_costs_need_prices(self) -> None:
        base = BASE.replace("prices: {device_hour: 2.0, server_hour: 0.7}\n", "")
        (found,) = [one for one in faults(BLOCK, base=base) if "error" in one]
        assert "cost_per_hour needs prices, for example prices: {device_hour: 2.0" in found

    def test_machines_need_targets(self) -> None:
        base = BASE.replace("targets: {throughput: 150 examples/s}\n", "")
        (found,) = [one for one in faults(BLOCK, base=base) if "error" in one]
        assert "cost_per_hour is lowest with no machine at all: give targets to reach" in found

    def test_one_run_is_not_enough(self) -> None:
        (found,) = [
            one for one in faults(BLOCK, base=BASE.replace("replications: 2", "replications: 1"))
            if "error" in one
        ]  # fmt: skip
        assert found.startswith("a.yaml:4:15:")
        assert "replications must be at least 2: nothing is certain from one run" in found

    def test_changes_of_the_plan_itself(self) -> None:
        (found,) = faults(BLOCK, "plan.minimize=workers")
        assert "the plan is not changed by --set: --minimize" in found

    def test_other_commands_say_what_to_type(self) -> None:
        with pytest.raises(ScenarioError, match=r"ask it with 'varsim plan a.yaml'"):
            load_text(text(), "a.yaml")
        with pytest.raises(ScenarioError, match=r"this file asks for a plan: 'varsim plan a.yaml'"):
            sweep_of_text(text(), "a.yaml")
        with pytest.raises(ScenarioError, match="nothing is asked: add to the file, say, plan: "):
            question_of_text(BASE, "a.yaml")
        with pytest.raises(ScenarioError, match="either a sweep or a plan"):
            question_of_text(text() + "sweep:\n  seed: [1, 2]\n", "a.yaml")


def test_the_schema_knows_plans() -> None:
    block = file_schema()["$defs"]["Scenario"]["properties"]["plan"]
    assert set(block["properties"]) == {
        "minimize", "space", "where", "tolerance", "most_replications", "trials",
    }  # fmt: skip
