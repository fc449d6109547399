"""Where points of a sweep lie that are not told from each other: from which value to which."""

from collections.abc import Mapping, Sequence

from varsim.scenario.targets import counted
from varsim.study.sweep.table import Row, Table, short_names


def spans(table: Table, rows: Sequence[Row], best: Row, metric: str) -> dict[int, str]:
    """The values that rows of one strategy have of each quantity that matters to a metric.

    By the index of the quantity, `4 to 32` where there are several. Where the rows are not all that
    lie between those: the values of the row with the fewest machines, if that are fewer than those
    of the best. Empty where there is nothing better to say than the best.
    """
    if len(rows) < 2:
        return {}
    points, quantities = table.sweep.points, table.sweep.quantities
    idle = table.idle(best.strategy, metric)
    chosen = [index for index in table.mattering(best.strategy) if index not in idle]
    told, count = dict[int, str](), 1
    for group in dict.fromkeys(quantities[index].group for index in chosen):
        own = [index for index in chosen if quantities[index].group == group]
        every = [tuple(point.values[index].text for index in own) for point in points]
        order = list(dict.fromkeys(every))
        there = sorted({order.index(every[row.point]) for row in rows})
        several = len(there) > 1
        count *= len(there) if there[-1] - there[0] < len(there) else 0
        count *= not several or all(_rises(table, index) for index in own)
        ends = zip(own, order[there[0]], order[there[-1]], strict=True)
        told |= {index: f"{low} to {high}" if several else low for index, low, high in ends}
    if count == len(rows):
        return told
    least = min(rows, key=lambda row: (_machines(table, row), row.point))
    if _machines(table, least) >= _machines(table, best):
        return {}
    return {index: points[least.point].values[index].text for index in chosen}


def in_words(table: Table, found: Mapping[int, str]) -> str:
    """Such values in words: `servers = 4 to 32, bandwidth = 100 Gbit/s`."""
    names = short_names([table.sweep.quantities[index].path for index in found])
    return ", ".join(f"{name} = {text}" for name, text in zip(names, found.values(), strict=True))


def place(table: Table, row: Row, found: Mapping[int, str]) -> dict[str, str]:
    """`Table.place` of a row, with such values where there are some."""
    indexes = table.mattering(row.strategy)
    return dict(zip(table.place(row), (_text(table, row, found, i) for i in indexes), strict=True))


def _text(table: Table, row: Row, found: Mapping[int, str], index: int) -> str:
    return found.get(index, table.sweep.points[row.point].values[index].text)


def _rises(table: Table, index: int) -> bool:
    """Whether a quantity has numbers that only rise, or only fall."""
    values = list(dict.fromkeys(point.values[index].number for point in table.sweep.points))
    numbers = [one for one in values if isinstance(one, int | float)]
    return len(numbers) == len(values) and sorted(numbers) in (numbers, numbers[::-1])


def _machines(table: Table, row: Row) -> int:
    """The workers and dedicated servers of a row."""
    scenario = table.sweep.points[row.point].scenario
    strategy = scenario.strategy(row.strategy)
    return sum(counted(strategy, scenario.cluster_of(strategy)))
