"""How runs of two scenarios that differ in one thing are related (metamorphic laws)."""

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.building import (
    APPLIED,
    NO_TIME,
    assert_same,
    assert_same_run,
    example,
    gradient_rows,
    scenario,
)
from tests.properties.drawing import scenarios
from tests.properties.settings import examples
from tests.seams import STRATEGIES, Run, Trace, run_one, simulate
from varsim import Scenario

# What counts bytes, and bytes per second, wherever it stands in a scenario.
_SIZES: Final = {"size", "bucket_size", "first_bucket_size", "segment_size"}
_RATES: Final = {
    *("bandwidth", "flow_bandwidth", "uplink_bandwidth", "server_bandwidth", "rate", "payload"),
    "reduction",
}
# What of a trace tells how it was made, not what happened.
_OF_THE_ENGINE: Final = ("heap_events", "gradients_evaluated", "gradients_aggregated", "hand_overs")
KINDS: Final = [kind for kind in STRATEGIES if kind != "single"]


def changed(one: Scenario, **parts: Any) -> Scenario:
    """A scenario with other parts at its top; what is refused is no example."""
    return valid({**one.model_dump(exclude_unset=True), **parts})


def valid(content: Mapping[str, Any]) -> Scenario:
    try:
        return Scenario.model_validate(content)
    except ValidationError:
        assume(False)
        raise


def trace_of(one: Scenario, number: int = 0) -> Trace:
    return run_one(Run(one, number, 0))


@examples(30)
@given(scenarios())
def test_replications_are_a_prefix(one: Scenario) -> None:
    two, three = (simulate(changed(one, replications=many)).traces for many in (2, 3))
    found = {(trace.strategy, trace.replication): trace for trace in three}
    for trace in two:
        assert_same(trace, found[trace.strategy, trace.replication])


@examples(60)
@given(scenarios(), st.sampled_from(KINDS))
def test_a_strategy_more_moves_nobody_elses_draws(one: Scenario, kind: str) -> None:
    added = {**example(kind, one.cluster.workers), "name": "added"}
    content = one.model_dump(exclude_unset=True)
    stop = {**content["stop"], "equal_examples": False}
    one = changed(one, stop=stop)
    more = changed(one, strategies=(added, *content["strategies"]))
    assert_same(trace_of(one), trace_of(more, 1), but=_OF_THE_ENGINE)


@examples(60)
@given(scenarios())
def test_a_worker_more_moves_nobody_elses_draws(one: Scenario) -> None:
    assume(not one.events and all(slow.after == 0 for slow in one.cluster.slow_workers))
    assume(all(slow.until is None for slow in one.cluster.slow_workers))
    # Layers that wait for their parameters wait longer among more workers.
    assume(not any(_waits_by_layer(each.model_dump()) for each in one.strategies))
    cluster = one.model_dump(exclude_unset=True)["cluster"]
    more = changed(one, cluster={**cluster, "workers": one.cluster.workers + 1})
    taken = [_compute_times(trace_of(each)) for each in (one, more)]
    for key in taken[0].keys() & taken[1].keys():
        assert taken[0][key] == taken[1][key], key


def _waits_by_layer(strategy: Mapping[str, Any]) -> bool:
    return strategy.get("sharding") == "parameters" or strategy.get("overlap") == "forward"


def _compute_times(trace: Trace) -> dict[tuple[int, int], int]:
    """How long each gradient that was used took to compute (ns), by worker and iteration."""
    rows = (row for row in gradient_rows(trace) if row.outcome == APPLIED)
    return {(row.worker, row.iteration): row.computed - row.compute_start for row in rows}


@examples(60)
@given(scenarios(), st.data())
def test_slow_ranks_are_each_of_them(one: Scenario, data: st.DataObject) -> None:
    """From one to another, of a node, or in a list: the run is that of an entry for each."""
    cluster = one.model_dump(exclude_unset=True)["cluster"]
    workers, size = one.cluster.workers, getattr(one.cluster.network, "workers_per_node", None)
    if size is None:
        first, last = sorted(data.draw(st.integers(0, workers - 1)) for _ in range(2))
        who: dict[str, Any] = {"ranks": f"{first}-{last}"}
    else:
        node = data.draw(st.integers(0, (workers - 1) // size))
        first, last = node * size, min((node + 1) * size, workers) - 1
        who = {"node": node}
    named = [who, {"ranks": tuple(range(first, last + 1))}]
    ways = [[each] for each in named] + [[{"rank": rank} for rank in range(first, last + 1)]]
    given = cluster.get("slow_workers", ())
    made = [
        changed(
            one,
            cluster={
                **cluster,
                "slow_workers": (*given, *({**way, "factor": 1.5} for way in each)),
            },
        )
        for each in ways
    ]
    for other in made[1:]:
        assert_same(trace_of(made[0]), trace_of(other))


@examples(60)
@given(scenarios())
def test_an_event_after_the_end_changes_nothing(one: Scenario) -> None:
    before = trace_of(one)
    content = one.model_dump(exclude_unset=True)
    late = {"at": before.end / 1e9 + 1.0, "kill": {"worker": 0}}
    assume(before.stopped_by != "deadlock")
    after = changed(one, events=(*content.get("events", ()), late))
    assert_same_run(before, trace_of(after))  # with an event SimPy makes it


@examples(60)
@given(scenarios(), st.sampled_from([1.0, 2.0, 3.5]))
def test_a_constant_law_is_a_trace_of_one_time(one: Scenario, ms: float) -> None:
    cluster = one.model_dump(exclude_unset=True)["cluster"]
    laws = (
        {"kind": "constant", "value": ms / 1e3},
        {"kind": "trace", "seconds": ((ms / 1e3,),), "replay": "cycle"},
    )
    constant, played = (changed(one, cluster={**cluster, "compute": law}) for law in laws)
    assert_same(trace_of(constant), trace_of(played), but=_OF_THE_ENGINE)


@examples(80)
@given(scenarios(), st.sampled_from([2.0, 8.0]))
def test_bytes_and_bandwidths_scale_together(one: Scenario, factor: float) -> None:
    assume(one.workload.model is None and not one.workload.has_values)
    assume(not any(_has_default_sizes(strategy.model_dump()) for strategy in one.strategies))
    # Sizes that 1 to 8 workers and servers can share without a rest, in numbers of 1 to 8 bytes.
    even = _over_bytes(
        one.model_dump(exclude_unset=True), _SIZES, lambda own: 6720.0 * (own // 50 + 1)
    )
    few, many = trace_of(valid(even)), trace_of(valid(_scaled(even, factor)))
    links = [replace_bytes(link, factor) for link in few.links]
    assert many.links == links
    assert_same(replace(few, links=links, sent=few.sent * factor), many, but=_OF_THE_ENGINE)


def _has_default_sizes(strategy: Mapping[str, Any]) -> bool:
    """Whether buckets or segments have sizes that nobody wrote down, and that do not scale."""
    in_buckets = strategy.get("overlap") or strategy.get("sharding")
    return bool(
        (in_buckets and strategy.get("bucket_size", 0.0) is None)
        or (strategy.get("collective") == "double_binary_tree" and not strategy["segment_size"])
    )


def replace_bytes(link: Any, factor: float) -> Any:
    """A link that carried so many times the bytes."""
    return link._replace(bandwidth=link.bandwidth * factor, moved=link.moved * factor)


def _scaled(content: Any, factor: float) -> Any:
    """A part of a scenario in which all that counts bytes is so many times as much."""
    return _over_bytes(content, _SIZES | _RATES, lambda own: own * factor)


def _over_bytes(value: Any, keys: Set[str], change: Callable[[float], float]) -> Any:
    """A part of a scenario with numbers under these keys changed, however deep they are."""
    if isinstance(value, Mapping):
        return {
            key: change(own)
            if key in keys and isinstance(own, float)
            else own
            if key == "protocols"  # whose payload is a share
            else _over_bytes(own, keys, change)
            for key, own in value.items()
        }
    if isinstance(value, tuple | list):
        return tuple(_over_bytes(own, keys, change) for own in value)
    return value


def whole(kind: str, times: Mapping[str, float], **stop: float) -> Scenario:
    """Three workers of constant times on links of 1 ns a byte: everything takes whole ns."""
    return scenario(
        example(kind),
        cluster={"compute": {"kind": "constant", "value": times["compute"] / 1e3}},
        network={
            "bandwidth": 1e9 * times["speed"],
            "latency": times["latency"] / 1e3,
            "sharing": "first_come",
        },
        problem={"kind": "timing", "size": times["size"]},
        workload={"optimizer": None},
        stop=stop,
    )


TIMES: Final = st.fixed_dictionaries(
    {
        "compute": st.integers(1, 9).map(float),
        "latency": st.integers(0, 3).map(float),
        "size": st.integers(1, 60).map(lambda many: many * 120_000.0),
        "speed": st.just(1.0),
    }
)


@pytest.mark.parametrize("kind", KINDS)
@examples(12)
@given(times=TIMES, factor=st.sampled_from([2, 5]))
def test_all_times_scale_together(kind: str, times: dict[str, float], factor: int) -> None:
    slow = {key: value * factor for key, value in times.items()}
    slow |= {"size": times["size"], "speed": times["speed"] / factor}
    one, other = (trace_of(whole(kind, each, global_steps=7)) for each in (times, slow))
    assert other.end == one.end * factor
    assert np.array_equal(other.steps, one.steps * factor)
    scaled = one.spans * np.array([1, 1, factor, factor, 1])
    assert np.array_equal(other.spans, scaled)


@pytest.mark.parametrize("kind", KINDS)
@examples(20)
@given(times=TIMES, what=st.sampled_from(["speed", "compute", "latency"]))
def test_nothing_faster_makes_a_run_of_constant_times_slower(
    kind: str, times: dict[str, float], what: str
) -> None:
    factor = 2.0 if what == "speed" else 0.5
    fast = times | {what: times[what] * factor}
    one, other = (trace_of(whole(kind, each, global_steps=9)) for each in (times, fast))
    assert other.end <= one.end


@pytest.mark.parametrize("kind", ["none", "ssp", "sync_replicas", "backup_workers", "on_read"])
@examples(15)
@given(
    laws=st.lists(st.lists(st.floats(0.5, 9.0), min_size=4, max_size=4), min_size=4, max_size=4),
    order=st.permutations(range(4)),
)
def test_ranks_are_names(kind: str, laws: list[list[float]], order: list[int]) -> None:
    """Whose times are whose: workers that differ in their times alone can be numbered anew."""
    assume(len({time for own in laws for time in own}) == 16)

    def made(rows: list[list[float]]) -> Trace:
        seconds = tuple(tuple(time / 1e3 for time in row) for row in rows)
        return trace_of(
            scenario(
                example(kind, 4),
                cluster={
                    "workers": 4,
                    "compute": {"kind": "trace", "seconds": seconds, "replay": "cycle"},
                },
                network=NO_TIME,
                problem={"kind": "timing", "size": 8.0},
                workload={"optimizer": None},
                stop={"global_steps": 12},
            )
        )

    one, other = made(laws), made([laws[rank] for rank in order])
    assert np.array_equal(one.steps, other.steps)
    for rank, was in enumerate(order):
        own, same = (t.spans[t.spans[:, 0] == at, 1:] for t, at in ((other, rank), (one, was)))
        assert np.array_equal(own, same)
