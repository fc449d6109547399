"""An optimizer of a strategy's own: whom it trains, and where it is refused."""

import json
from typing import Any

from tests.scenario_text import VALID
from tests.seams import Grid, Run, Trace, dump_scenario, load_text, run_one, sweep_of_text
from varsim import Scenario

SHARED = "  optimizer: {kind: sgd, learning_rate: 0.1}\n"
SHORT = VALID.replace("global_steps: 500", "global_steps: 30").replace(
    "replications: 10", "replications: 1"
)
OWN = SHORT.replace("{kind: on_write}", "{kind: on_write, optimizer: {kind: adam}}")
EACH = "".join(
    line.replace("}", ", optimizer: {kind: sgd, learning_rate: 0.2}}")
    if line.startswith("  - {kind")
    else line
    for line in SHORT.splitlines(keepends=True)
)


def loaded(text: str, *sets: str, strategies: tuple[str, ...] = ()) -> Scenario:
    found = load_text(text, "file.yaml", sets=sets, strategies=strategies)
    assert isinstance(found, Scenario)
    return found


def sgd(rate: float) -> Any:
    """The optimizer that a workload has of this text."""
    return loaded(SHORT, f"workload.optimizer.learning_rate={rate}").workload.optimizer


def adam(**settings: float) -> Any:
    text = json.dumps({"kind": "adam", **settings})
    return loaded(SHORT, f"workload.optimizer={text}").workload.optimizer


def cases(text: str) -> list[str]:
    """What the runs of each strategy of a text are kept by in a sweep."""
    asked = Grid(sweep_of_text(text, sets=["seed=7,8"]))
    return [one.case.key for one in asked.candidates if one.at == 0]


def losses(scenario: Scenario, strategy: int | None) -> list[float]:
    trace: Trace = run_one(Run(scenario, strategy, 0))
    return [row.loss for row in trace.evaluations]


def test_it_trains_its_strategy_and_no_other() -> None:
    shared, own = loaded(SHORT), loaded(OWN)
    of_adam = loaded(SHORT.replace("{kind: sgd, learning_rate: 0.1}", "{kind: adam}"))

    assert [own.workload_of(one).optimizer for one in own.strategies] == [
        adam(), *[sgd(0.1)] * 3
    ]  # fmt: skip
    assert losses(own, 0) == losses(of_adam, 0) != losses(shared, 0)
    assert losses(own, 1) == losses(shared, 1)
    assert losses(own, None) == losses(shared, None), "the yardstick has the workload's"


def test_without_one_of_the_workload_the_yardstick_has_the_first_strategys() -> None:
    each = loaded(EACH.replace(SHARED, ""))
    shared = loaded(SHORT.replace("learning_rate: 0.1", "learning_rate: 0.2"))
    for strategy in (*range(4), None):
        assert losses(each, strategy) == losses(shared, strategy)


def test_a_scenario_with_own_optimizers_is_written_and_read_back() -> None:
    for text in (OWN, EACH.replace(SHARED, "")):
        scenario = loaded(text)
        assert loaded(dump_scenario(scenario)) == scenario


def test_of_some_strategies_only_what_they_use_is_kept() -> None:
    assert loaded(OWN, strategies=("on_write",)).workload.optimizer is None
    assert loaded(OWN, strategies=("on_read",)).workload.optimizer == sgd(0.1)


def test_what_only_others_lack_is_no_mistake() -> None:
    scenario = loaded(OWN.replace(SHARED, ""), strategies=("on_write",))
    assert scenario.workload_of(scenario.strategies[0]).optimizer == adam()


def test_equal_optimizers_share_their_runs_wherever_they_stand() -> None:
    shared = cases(SHORT.replace("learning_rate: 0.1", "learning_rate: 0.2"))
    assert shared == cases(EACH.replace(SHARED, ""))
    assert cases(SHORT)[0] != shared[0]


class TestChanges:
    def test_one_begins_as_the_workloads(self) -> None:
        (first, *others) = loaded(SHORT, "strategies.on_write.optimizer.learning_rate=2").strategies
        assert first.optimizer == sgd(2.0)
        assert not any(other.optimizer for other in others)

    def test_one_that_is_there_is_changed(self) -> None:
        first = loaded(OWN, "strategies.0.optimizer.learning_rate=2").strategies[0]
        assert first.optimizer == adam(learning_rate=2.0)

    def test_a_sweep_varies_it(self) -> None:
        path = "strategies.on_write.optimizer.learning_rate"
        sweep = sweep_of_text(SHORT, sets=[f"{path}=0.5,1"])
        made = [one.scenario for one in sweep.points if isinstance(one.scenario, Scenario)]
        assert [one.strategies[0].optimizer for one in made] == [sgd(0.5), sgd(1.0)]
        assert [one.workload_of(one.strategies[1]).optimizer for one in made] == [sgd(0.1)] * 2
