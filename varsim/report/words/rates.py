"""At which learning rate the strategies of a result trained: every sentence on losses says so."""

from typing import TYPE_CHECKING

from varsim.report.words.memory import called
from varsim.report.words.names import mention
from varsim.report.words.phrases import capital, joined
from varsim.scenario.training import Scenario

if TYPE_CHECKING:
    from varsim.study.result import Result


def rate(scenario: Scenario, strategy: str) -> str:
    """The learning rate of the strategy of this label: `learning rate 0.5`."""
    return scenario.workload_of(scenario.strategy(strategy)).update_rule().told


def common(result: "Result") -> str:
    """` at learning rate 0.5`, where that is the rate of all that are compared; else nothing."""
    return _common(result.scenario, result.compared)


def these(result: "Result") -> str:
    """` at learning rate 0.5`, or that it holds at these rates: at others another may be ahead."""
    return common(result) or " at these learning rates"


def named(result: "Result", strategy: str) -> str:
    """A strategy, with its learning rate where not all have the same."""
    own = "" if common(result) else f" at {rate(result.scenario, strategy)}"
    return f"{called(result.scenario, strategy)}{own}"


def shared(result: "Result", *strategies: str) -> bool:
    """Whether these strategies train with the workload's optimizer, and not with their own."""
    return all(
        one.optimizer is None for one in result.scenario.strategies if one.label in strategies
    )


def caveat(result: "Result") -> str:
    """That strategies were compared at a rate that they share; nothing where each has its own."""
    scenario = result.scenario
    sharing = [name for name in result.compared if shared(result, name)]
    if len(sharing) < 2 or not scenario.workload.has_values:
        return ""
    if len(sharing) < len(result.compared):  # somebody has chosen rates
        who = capital(joined([mention(scenario, name) for name in sharing]))
        others = len(result.compared) - len(sharing)
        rest = (
            "the other at a rate of its own" if others == 1 else "the others at rates of their own"
        )
        return (
            f"{who} trained at {rate(scenario, sharing[0])}, {rest}. At other rates, another may "
            "learn best."
        )
    return (
        f"All strategies trained at {rate(scenario, sharing[0])}. At another rate, another may "
        "learn best; to compare each at its best: varsim tune FILE."
    )


def _common(scenario: Scenario, strategies: tuple[str, ...]) -> str:
    rates = {rate(scenario, name) for name in strategies}
    return f" at {rates.pop()}" if len(rates) == 1 else ""
