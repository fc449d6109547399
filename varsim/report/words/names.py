"""What strategies are called when people are told of them; files and numbers have their labels."""

from varsim.report.wording import names
from varsim.report.words.phrases import capital
from varsim.scenario.training import Scenario


def title(scenario: Scenario, label: str) -> str:
    """A strategy in a table, plot or page: `async PS`."""
    return names(scenario)[label]


def mention(scenario: Scenario, label: str) -> str:
    """A strategy in a sentence, where a given name is quoted."""
    return scenario.strategy(label).mention


def heading(scenario: Scenario, label: str) -> str:
    """A strategy at the beginning of a line; a given name as it is given."""
    found = scenario.strategy(label)
    return found.title if found.name is not None else capital(found.title)
