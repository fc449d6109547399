"""Costs in words: columns of the table, and which strategy is the cheapest."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from varsim.report.words.memory import called
from varsim.report.words.phrases import Wording, capital, plus_minus, told
from varsim.scenario.targets import Prices, counted
from varsim.study.cost import costs, estimates

if TYPE_CHECKING:
    from varsim.study.result import Result


CHEAPEST: Final = Wording(
    "A million examples cost least with {name}: {value}",
    "With which strategy a million examples cost least",
    "cost of a million examples",
)


def cells(result: "Result", strategy: str) -> dict[str, str]:
    """The columns of a result's table; none without prices."""
    found = estimates(result, strategy)
    return {head: plus_minus(found[name]) for head, name in headings(result).items()}


def headings(result: "Result") -> dict[str, str]:
    """Heading of a column -> which of COSTS it shows; none without prices."""
    prices = result.scenario.prices
    if prices is None:
        return {}
    shown = {
        f"{prices.currency}/h": "cost_per_hour",
        f"{prices.currency} per million examples": "cost_per_million_examples",
    }
    if result.target_loss is not None:
        shown[f"{prices.currency} to loss {result.target_loss:g}"] = "cost_to_target"
    return shown


def sentence(result: "Result") -> str:
    """Which strategy is the cheapest for what it does; empty without prices."""
    prices = result.scenario.prices
    found = {name: estimates(result, name) for name in result.compared}
    if prices is None:
        return ""
    metric = "cost_per_million_examples"
    values = {name: costs(result, name)[metric] for name in found}
    ranking = result.ranking_of(values, metric)
    if ranking is None:
        return ""

    def price(name: str) -> str:
        return plus_minus(found[name][metric], unit=prices.currency)

    counts = {}
    for one in result.scenario.strategies:
        if one.label in found:
            counts[one.mention] = [counted(one, result.scenario.cluster_of(one))]
    name = partial(called, result.scenario)
    text = f"A million examples cost {price(ranking.best)} with {name(ranking.best)}"
    if ranking.rivals:
        text = capital(told(ranking, CHEAPEST, name, price))
    return "\n".join([f"{text}.", *for_nothing(prices, counts)])


def for_nothing(prices: Prices, counts: Mapping[str, Sequence[tuple[int, int]]]) -> list[str]:
    """The machines that cost nothing here, as they have no price; a line for each kind.

    `counts`: of each strategy, as it is mentioned, workers and servers, as often as they differ.
    """
    lines = []
    kinds = {"workers": "device_hour", "parameter servers": "server_hour"}
    for place, (kind, price) in enumerate(kinds.items()):
        own = {name: [one[place] for one in found] for name, found in counts.items()}
        taking = {name: _few_or_many(found) for name, found in own.items() if max(found)}
        if taking and not getattr(prices, price):
            has = ", ".join(f"{name} {often}" for name, often in taking.items())
            lines.append(f"No price is given for {kind}: {has} at no cost (set prices.{price}).")
    return lines


def _few_or_many(numbers: Sequence[int]) -> str:
    """`3`, or `1 to 16`."""
    least, most = min(numbers), max(numbers)
    return f"uses {most}" if least == most else f"uses {least} to {most}"
