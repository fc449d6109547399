"""What decides an answer and costs nothing in it, because nobody said what it costs."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from varsim.plan.cell import Cell
from varsim.plan.search import Found
from varsim.result.cost import COSTS
from varsim.sweep.space import Quantity

# What of a cluster one buys or rents, besides its machines; the rest is a matter of settings.
_BOUGHT: Final = ("device", "compute", "network", "server_update")


class Free(NamedTuple):
    """Something without a price: what it is called, what the answer has of it, how to price it."""

    name: str
    has: str
    remedy: str


def unpriced(found: Found) -> list[Free]:
    """What a plan for the least cost could choose, and took for nothing."""
    best, question = found.answer, found.question
    prices = question.base.prices
    if best is None or prices is None or question.objective not in COSTS:
        return []
    own = best.cell.machines
    others = [one.cell for one in found.looked_at.values() if one.cell.number != best.cell.number]
    free = []
    if not prices.device_hour and any(one.machines.workers < own.workers for one in others):
        free.append(Free("workers", f"{own.workers}", "give prices.device_hour"))
    if not prices.server_hour and any(one.machines.servers < own.servers for one in others):
        free.append(Free("parameter servers", f"{own.servers}", "give prices.server_hour"))
    for index, quantity in enumerate(question.quantities):
        priced = any(one.place[0] == "prices" for one in _together(quantity, question.quantities))
        if priced or quantity.place[0] != "cluster" or quantity.place[1] not in _BOUGHT:
            continue
        if any(_apart_in(quantity, one, best.cell, question.quantities) for one in others):
            price = "server_hour" if quantity.place[1] == "server_update" else "device_hour"
            has = best.cell.point.values[index].text
            free.append(Free(quantity.path, has, f"zip it with prices.{price}"))
    return free


def _together(quantity: Quantity, every: Sequence[Quantity]) -> list[Quantity]:
    """What changes together with a quantity, and itself."""
    return [one for one in every if one.group == quantity.group]


def _apart_in(quantity: Quantity, one: Cell, other: Cell, every: Sequence[Quantity]) -> bool:
    """Whether two cells of a strategy differ in a quantity, and in nothing of another group."""
    pairs = zip(every, one.point.values, other.point.values, strict=True)
    groups = {own.group for own, mine, theirs in pairs if mine.text != theirs.text}
    return one.label == other.label and groups == {quantity.group}
