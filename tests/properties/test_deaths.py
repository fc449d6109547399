"""What dies is down until it is back, changes nothing before, and what is said to help does."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from tests.building import scenario
from tests.properties.drawing import drawn
from tests.properties.test_laws import trace_of
from tests.seams import Phase, Trace
from varsim import Scenario


@cache
def mortal() -> list[tuple[Scenario, Trace]]:
    """Scenarios in which somebody dies, and their runs."""
    made = [one for one in map(drawn, range(1_200)) if one.events]
    assert len(made) > 100
    return [(one, trace_of(one)) for one in made]


def rank_of(name: Any) -> int:
    return 0 if name == "chief" else int(name.worker)


def deaths(one: Scenario) -> Iterator[tuple[int, int, bool]]:
    """When (ns) who goes, or comes back."""
    for event in one.events:
        gone = event.restart is None
        yield round(event.at * 1e9), rank_of(event.kill or event.stop or event.restart), gone


def test_who_is_dead_is_down() -> None:
    for one, trace in mortal():
        down = np.zeros(trace.workers, dtype=np.int64)
        for time, rank, gone in deaths(one):
            left = trace.end - min(time, trace.end)
            down[rank] += left if gone else -left
        spans = trace.spans[trace.spans[:, 1] == Phase.DOWN]
        seen = np.bincount(spans[:, 0], spans[:, 3] - spans[:, 2], trace.workers).astype(np.int64)
        # All that do not wait for the chief end with it; who is back may wait to be taken in.
        assert (seen >= down).all(), one
        gone = all(event.stop is None and event.restart is None for event in one.events)
        assert not gone or starts_slowly(one) or seen.tolist() == down.tolist(), one


def starts_slowly(one: Scenario) -> bool:
    """Whether workers are down for a while when they begin."""
    overheads = one.cluster.overheads
    return overheads is not None and overheads.first_iteration > 0


def test_nothing_differs_before_the_first_death() -> None:
    for one, trace in mortal():
        first = min(time for time, *_ in deaths(one))
        content = {**one.model_dump(exclude_unset=True), "events": ()}
        for strategy in content["strategies"]:
            strategy.pop("on_death", None)
        whole = trace_of(Scenario.model_validate(content))
        assert before(trace.steps, first) == before(whole.steps, first)
        assert before(trace.gradients, first) == before(whole.gradients, first)


def before(rows: np.ndarray, time: int) -> list[object]:
    """The updates, or the gradients that were applied, until then."""
    applied = rows if rows.ndim == 1 else rows[:, 7]
    return rows[(applied >= 0) & (applied < time)].tolist()  # type: ignore[no-any-return]


FREED = re.compile(r"restart (?:(\d+|any) of )?(?:the (chief)|workers? ([\d, ]+))")


def remedy_of(report: str) -> list[int] | None:
    """The ranks that a report says to restart; nothing where it says that nothing helps."""
    (line,) = (line.strip() for line in report.splitlines() if line.startswith("  to free it: "))
    if line.startswith("to free it: nothing"):
        return None
    match = FREED.search(line)
    assert match is not None, line
    if match[2]:
        return [0]
    ranks = [int(rank) for rank in match[3].rstrip(", ").split(", ")]
    return ranks if match[1] is None else ranks[: 1 if match[1] == "any" else int(match[1])]


def restarted(one: Scenario, stuck: Trace, freed: list[int] | None) -> Trace:
    """The run again with the dead restarted that are to be, or all of them."""
    dead = set[int]()
    for _, rank, gone in deaths(one):
        dead = dead | {rank} if gone else dead - {rank}
    later = max(stuck.end, *(time for time, *_ in deaths(one))) / 1e9 + 0.1
    back = dead if freed is None else dead & {*freed}
    events = [event.model_dump(exclude_none=True) for event in one.events]
    events += [{"at": later, "restart": {"worker": rank}} for rank in sorted(back)]
    stop = {"global_steps": stuck.global_step + 1, "time": later + 1e3}
    content = {**one.model_dump(exclude_unset=True), "events": tuple(events), "stop": stop}
    return trace_of(Scenario.model_validate(content))


def test_what_is_said_to_free_a_run_does() -> None:
    met = Counter[bool]()
    for one, stuck in mortal():
        if stuck.standstill is None:
            continue
        freed = remedy_of(stuck.standstill.report)
        again = restarted(one, stuck, freed)
        assert (again.global_step > stuck.global_step) == (freed is not None), one
        met[freed is not None] += 1
    assert min(met[True], met[False]) > 10


def test_nobody_has_the_model_after_all_have_died() -> None:
    one = scenario(
        {"kind": "on_write"},
        cluster={"workers": 2, "overheads": {"first_iteration": 0.01}},
        network={"bandwidth": 1e4, "latency": 1e-3},
        events=tuple({"at": 0.05, "kill": {"worker": rank}} for rank in range(2)),
    )
    stuck = trace_of(one)
    assert stuck.standstill is not None
    assert remedy_of(stuck.standstill.report) is None
    assert restarted(one, stuck, None).global_step == 0
