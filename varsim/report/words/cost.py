"""Costs in words: columns of the table, and which strategy is the cheapest."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from varsim.report.words.phrases import Wording
from varsim.scenario.targets import Prices

if TYPE_CHECKING:
    pass


CHEAPEST: Final = Wording(
    "A million examples cost least with {name}: {value}",
    "With which strategy a million examples cost least",
    "cost of a million examples",
)


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


def reaching(goal: str) -> Wording:
    """How it is told what reaches a goal first."""
    capital = goal[0].upper() + goal[1:]
    return Wording(
        f"{capital} is reached soonest by {{name}}: after {{value}}",
        f"Which reaches {goal} soonest",
        f"time to {goal}",
        "; next is {name} after {value}",
        ", {times} as long",
    )
