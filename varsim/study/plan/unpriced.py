"""What decides an answer and costs nothing in it, because nobody said what it costs."""

from collections.abc import Sequence
from typing import NamedTuple

from varsim.scenario.sweep.space import Quantity
from varsim.study.cost import COSTS
from varsim.study.plan.cell import Cell
from varsim.study.plan.search import Found
from varsim.study.plan.standing import RATES


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
    for index in question.unpriced:
        quantity = question.quantities[index]
        least = quantity.dimension in RATES and not any(
            _number(one, index) < _number(best.cell, index) for one in others
        )
        if least:
            continue
        if any(_apart_in(quantity, one, best.cell, question.quantities) for one in others):
            price = "server_hour" if quantity.place[1] == "server_update" else "device_hour"
            has = best.cell.point.values[index].text
            free.append(Free(quantity.path, has, f"zip it with prices.{price}"))
    return free


def _number(cell: Cell, index: int) -> float:
    """A quantity with a unit, at a cell."""
    number = cell.point.values[index].number
    return float(number) if isinstance(number, (int, float)) else 0.0


def _apart_in(quantity: Quantity, one: Cell, other: Cell, every: Sequence[Quantity]) -> bool:
    """Whether two cells of a strategy differ in a quantity, and in nothing of another group."""
    pairs = zip(every, one.point.values, other.point.values, strict=True)
    groups = {own.group for own, mine, theirs in pairs if mine.text != theirs.text}
    return one.label == other.label and groups == {quantity.group}
