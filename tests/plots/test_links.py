"""The links: how much they carried, which of them are drawn, and which share a row."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.handmade import SECOND, a_result, a_trace, result_of
from varsim.cluster.trace import LinkRow
from varsim.report.plots import links
from varsim.report.plots.figure import panels
from varsim.study.result import Result


def carrying(percent: Mapping[str, float]) -> Result:
    """A run of 10 s over links of 100 bytes/s that carried such shares."""
    rows = [LinkRow(name, 100.0, 10.0 * share) for name, share in percent.items()]
    return result_of([replace(a_trace(), links=rows)])


def shown(percent: Mapping[str, float]) -> dict[str, float]:
    return {use.link: use.percent["none"] for use in links.link_use(carrying(percent))}


def test_of_the_run_by_hand() -> None:
    # 100 bytes/s for 10 s: 250 and 500 bytes.
    result = a_result({"a": (1,), "b": (2,)})
    assert links.link_use(result) == [
        ("worker 0 down", {"a": pytest.approx(50), "b": pytest.approx(25)}),
        ("worker 0 up", {"a": pytest.approx(25), "b": pytest.approx(12.5)}),
    ]
    assert links.title(result) == (
        "The busiest is the downlink of worker 0: 50 % of what it can carry in 'a'"
    )
    _, (axes,) = panels([1.0])
    assert links.draw(result, axes) is axes
    assert [line.get_xdata().tolist() for line in axes.lines] == [[50, 25], [25, 12.5]]


def test_only_the_busiest_are_drawn() -> None:
    many = {f"link {n}": float(n) for n in range(50)}
    assert list(shown(many)) == [f"link {49 - n}" for n in range(links.MOST_ROWS)]


def test_a_strategy_without_the_link_has_no_mark() -> None:
    other = replace(a_trace("b"), links=[LinkRow("ps 0 up", 100.0, 900.0)], end=10 * SECOND)
    use = links.link_use(result_of([a_trace("a"), other]))[0]
    assert use.link == "ps 0 up"
    assert math.isnan(use.percent["a"])
    assert use.percent["b"] == pytest.approx(90)


def test_links_that_cannot_be_told_apart_share_a_row() -> None:
    workers = {f"worker {n} up": 40.0 + n / 10 for n in (0, 1, 2, 4)}
    slow = {"worker 3 up": 20.0, "worker 0 down": 40.0}
    assert shown(workers | slow) == pytest.approx(
        {"worker 0..2, 4 up": 40.175, "worker 0 down": 40, "worker 3 up": 20}
    )


def test_links_are_called_by_where_they_lead() -> None:
    assert links.said("worker 0..6, 9 down") == "downlinks of workers 0 to 6 and 9".replace(
        " to ", "\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}"
    )
    assert links.said("ps 1 up") == "uplink of server 1"
    assert links.said("worker 0 clockwise") == "worker 0 clockwise"


def test_links_that_carry_next_to_nothing_are_not_drawn() -> None:
    idle = [LinkRow("ps 0 up", 1000.0, 40.0)]
    trace = replace(a_trace("a"), links=idle, end=10 * SECOND)
    assert not links.shows(result_of([trace]))
    assert links.shows(result_of([replace(trace, links=[idle[0]._replace(moved=60.0)])]))


def test_servers_are_always_there() -> None:
    workers = {f"worker {n} up": 90.0 - 5 * n for n in range(12)}
    found = shown(workers | {"ps 0..3 up": 1.0, "ps 0..3 down": 2.0})
    assert list(found)[-2:] == ["ps 0..3 down", "ps 0..3 up"]
    assert len(found) == links.MOST_ROWS
    many = {f"ps {n} up": 5.0 * n for n in range(12)}
    assert len(shown(workers | many)) == 12 + links.LEAST_OTHERS
