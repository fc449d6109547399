"""At which learning rate the strategies of a result trained: every sentence on losses says so."""

from typing import TYPE_CHECKING

from varsim.scenario.training import Scenario

if TYPE_CHECKING:
    pass


def rate(scenario: Scenario, strategy: str) -> str:
    """The learning rate of the strategy of this label: `learning rate 0.5`."""
    return scenario.workload_of(scenario.strategy(strategy)).update_rule().told
