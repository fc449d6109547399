"""What every strategy keeps to, whatever else it does."""

import hashlib
import os
import pickle
import subprocess
import sys
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.building import (
    APPLIED,
    DROPPED,
    MS,
    PENDING,
    assert_same,
    computed_until,
    declared,
    example,
    gradient_rows,
    run,
    scenario,
    slow,
    span_rows,
)
from tests.properties.checking import problems
from tests.seams import STRATEGIES, Phase, Run, Trace, ready, run_one, simulate
from varsim import Scenario

# More of the same kinds, where settings change what happens.
MORE: dict[str, dict[str, Any]] = {
    "on_write by halves": {"kind": "on_write", "collective": "halving_doubling"},
    "on_write by trees": {
        "kind": "on_write",
        "collective": "double_binary_tree",
        "segment_size": 1e6,
    },
    "on_write by groups": {"kind": "on_write", "collective": "hierarchical", "ranks_per_group": 2},
    "on_write by servers": {"kind": "on_write", "collective": "push_pull"},
    "on_write accumulating": {"kind": "on_write", "micro_batches": 3},
    "on_read seldom": {"kind": "on_read"},
    "on_read written back": {"kind": "on_read", "read_every": 3, "write_back": True},
    "on_read sum": {"kind": "on_read", "read_every": 2, "aggregation": "sum", "write_back": True},
    "on_read first": {
        "kind": "on_read",
        "read_every": 2,
        "aggregation": "only_first_replica",
        "write_back": True,
    },
    "none locked": {"kind": "none", "use_locking": True},
    "sync_replicas all": {"kind": "sync_replicas", "replicas_to_aggregate": 4},
    "sync_replicas many": {"kind": "sync_replicas", "replicas_to_aggregate": 9},
    "gossip without waiting": {"kind": "gossip", "mode": "asynchronous"},
    "gossip by push-sum": {"kind": "gossip", "mode": "push_sum", "graph": "exponential"},
    "backup_workers all": {"kind": "backup_workers", "replicas_to_aggregate": 4},
    "backup_workers one": {"kind": "backup_workers", "replicas_to_aggregate": 1},
    "sync_replicas few": {
        "kind": "sync_replicas",
        "replicas_to_aggregate": 1,
        "total_num_replicas": 6,
    },
}

ALL = {kind: example(kind, 4) for kind in STRATEGIES} | MORE
every_strategy = pytest.mark.parametrize("name", ALL)

EXPONENTIAL = {"kind": "shifted_exponential", "minimum": 0.05, "mean": 0.1}
FOUR = {"workers": 4, "compute": EXPONENTIAL}

# Scenarios that differ in as much as possible: 4 workers each.
VARIANTS: dict[str, dict[str, Any]] = {
    # One variable over first-come links; every message queues for the server.
    "first_come": {
        "cluster": {"workers": 4, "compute": EXPONENTIAL},
        "network": {"bandwidth": 2e3, "latency": 3e-3, "sharing": "first_come"},
        "problem": {"noise": 1.0},
        "stop": {"global_steps": 40},
    },
    # Two variables on three shards, a straggler for a time, a slow link, unequal bytes.
    "fair": {
        "cluster": {
            "workers": 4,
            "compute": EXPONENTIAL,
            "slow_workers": (slow(1, 3.0, after=0.5, until=1.5),),
            "parameter_servers": 3,
            "placement": "round_robin",
        },
        "network": {
            "bandwidth": 2e3,
            "latency": 1e-3,
            "sharing": "fair",
            "slow_links": (slow(2, 2.0),),
        },
        "problem": {"kind": "linear_regression", "features": 20},
        "workload": {"batch_size": 4},
        "stop": {"global_steps": 40},
    },
    # Many variables, many tensors, momentum; the run ends in the middle of everything.
    "timed": {
        "cluster": {**FOUR, "parameter_servers": 2, "placement": "by_bytes"},
        "network": {"bandwidth": 1.25e10, "latency": 20e-6, "sharing": "first_come"},
        "problem": {"kind": "digits"},
        "optimizer": {"kind": "momentum", "learning_rate": 0.05},
        "workload": {"model": "resnet50", "batch_size": 8},
        "stop": {"time": 2.0},
    },
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def scenario_for(strategy: dict[str, Any], variant: dict[str, Any]) -> Scenario:
    """The variant; a knob of the servers is left out where the strategy has none."""
    if not declared(strategy).traits.uses_servers:
        cluster = dict(variant.get("cluster", {}))
        cluster.pop("parameter_servers", None)
        cluster.pop("placement", None)
        variant = {**variant, "cluster": cluster}
    return scenario(strategy, **variant)


@cache
def made(name: str, variant: str) -> Scenario:
    return scenario_for(ALL[name], VARIANTS[variant])


@cache
def traced(name: str, variant: str) -> Trace:
    return run_one(Run(made(name, variant), 0, 0))


@every_variant
@every_strategy
def test_every_run_keeps_what_it_must(name: str, variant: str) -> None:
    trace, what = traced(name, variant), made(name, variant)
    assert [*problems(what, 0, trace), *ends(trace, VARIANTS[variant]["stop"])] == []
    assert trace.strategy == ALL[name]["kind"]
    assert [*gradients(trace, declared(ALL[name])), *bytes_moved(trace, what)] == []

    assert_same(trace, run_one(Run(what, 0, 0)))
    eager = run_one(Run(what, 0, 0), lazy=False)
    # How many were worked out may differ: eagerly, none is before it is needed.
    assert eager.gradients_evaluated == sum(row.parts_applied > 0 for row in gradient_rows(eager))
    assert_same(trace, eager, but=("gradients_evaluated",))
    other = run_one(Run(what.model_copy(update={"seed": 1}), 0, 0))
    assert not np.array_equal(trace.steps, other.steps)
    assert not np.array_equal(trace.steps, run_one(Run(what, 0, 1)).steps)


def ends(trace: Trace, stop: dict[str, float]) -> Iterator[str]:
    """What is wrong with how it ends, and with what is evaluated."""
    ((rule, value),) = stop.items()
    if trace.stopped_by != rule or (trace.end != round(value * 1e9) if rule == "time" else False):
        yield f"ended at {trace.end} by {trace.stopped_by}"
    if rule == "global_steps" and (trace.global_step, trace.end) != (value, trace.steps[-1]):
        yield f"{trace.global_step} steps until {trace.end}"
    times = [row.time for row in trace.evaluations]
    if times[0] != 0 or times != sorted(times) or trace.steps[-1] > trace.end:
        yield f"evaluated at {times}"
    for row in trace.evaluations:
        least, most = np.searchsorted(trace.steps, [row.time, row.time + 1])
        if not least <= row.global_step <= most:
            yield f"{row} after {least} to {most} steps"
    last = trace.evaluations[-1]
    shares = [
        row.parts_applied / trace.variables
        for row in gradient_rows(trace)
        if row.outcome != PENDING and row.applied <= last.time
    ]
    if (last.global_step, last.examples) != (
        trace.global_step,
        round(sum(shares) * trace.batch_size),
    ):
        yield f"ends with {last}"


def gradients(trace: Trace, strategy: Any) -> Iterator[str]:
    """What is wrong with when gradients are read, computed and applied, and how old they are."""
    rows = gradient_rows(trace)
    applied = [row.applied for row in rows if row.outcome != PENDING]
    if applied != sorted(applied):
        yield "rows are not in the order of their end"
    # In K-batch-sync what was read is kept until an update; micro-batches share a read.
    several = strategy.kind == "k_batch_sync" or strategy.round.micro_batches > 1
    copies, each = strategy.traits.updates_copies, strategy.round.micro_batches
    # Of copies that others change as well, more than a worker's own steps are counted.
    alone = strategy.sends.to != "neighbours" or strategy.round.of != "iteration"
    for worker in range(trace.workers):
        own = sorted((row for row in rows if row.worker == worker), key=lambda row: row.iteration)
        if [row.iteration for row in own] != list(range(max(len(own), 1))):
            yield f"worker {worker} made {own}"
        for one, other in pairwise(own):
            keeps = several and one.read == other.read
            if computed_until(one) > (other.compute_start if keeps else other.read):
                yield f"two at once: {one}, {other}"
        computed = [(row.compute_start, computed_until(row), row.iteration) for row in own]
        computing = [
            (span.start, span.end, span.iteration)
            for span in span_rows(trace, worker)
            if span.phase == Phase.COMPUTE
        ]
        # The last may still be computing as the run ends.
        last = [(start, trace.end, len(own)) for start, *_ in computing[len(own) : len(own) + 1]]
        if computing != computed + last:
            yield f"worker {worker} computed {computed} and was computing {computing}"
    for row in rows:
        ended = row.outcome != PENDING
        given_up = strategy.gives_up and row.outcome == DROPPED
        if ended and not given_up and not 0 <= row.computed <= row.arrived <= row.applied:
            yield f"ended before it arrived: {row}"
        if ended and not 0 <= row.applied <= trace.end:
            yield f"ended at no time: {row}"
        if copies:
            age = row.applied_step - row.read_step
            if alone and (row.read_step != row.iteration // each or (ended and age != 0)):
                yield f"not its own step: {row}"
        elif ended:
            least, most = np.searchsorted(trace.steps, [row.applied, row.applied + 1])
            if not least <= row.applied_step <= most:
                yield f"applied after {least} to {most} steps: {row}"
    used = [row for row in rows if row.parts_applied]
    if trace.gradients_aggregated != sum(row.outcome != PENDING for row in used):
        yield f"{trace.gradients_aggregated} aggregated"
    # What is being computed as the run ends may have been worked out ahead.
    if not len(used) <= trace.gradients_evaluated <= len(used) + trace.workers:
        yield f"{trace.gradients_evaluated} evaluated for {len(used)}"


def bytes_moved(trace: Trace, what: Scenario) -> Iterator[str]:
    """What leaves a link enters another, but for what is under way.

    First come, a message starts on one link before the next. Of each worker that is a read or a
    push, and one more that it gave up.
    """
    (strategy,) = what.strategies
    fair = what.cluster.network.sharing == "fair"
    under_way = 0 if fair else 2 * trace.workers * what.workload.size()
    moved: defaultdict[tuple[str, str], float] = defaultdict(float)
    for link in trace.links:
        moved[link.name.split()[0], link.name.split()[-1]] += link.moved
    pairs = [("worker", "ps"), ("ps", "worker")]
    if not strategy.traits.uses_servers:
        pairs = [("worker", "worker"), ("ps", "ps")]
        under_way *= strategy.sends.to == "neighbours"
    for one, other in pairs:
        up, down = moved[one, "up"], moved[other, "down"]
        if up != pytest.approx(down, rel=1e-12, abs=under_way):
            yield f"{up} bytes leave {one}, {down} come to {other}"
    if (moved["ps", "down"] > 0) != strategy.traits.uses_servers:
        yield f"{moved} bytes"


@every_strategy
def test_not_recording_changes_nothing_else(name: str) -> None:
    silent = run_one(Run(made(name, "fair"), 0, 0), record=False)
    assert len(silent.spans) == len(silent.send_rows) == 0
    assert_same(traced(name, "fair"), silent, but=("span_rows", "send_rows", "hand_overs"))


@every_strategy
def test_it_pickles(name: str) -> None:
    original, trace = made(name, "fair"), traced(name, "fair")
    copy = pickle.loads(pickle.dumps(original))
    assert copy == original
    assert pickle.loads(pickle.dumps(original.strategies[0])) == original.strategies[0]
    assert_same(trace, pickle.loads(pickle.dumps(trace)))
    assert_same(trace, run_one(Run(copy, 0, 0)))


def all_strategies(variant: dict[str, Any]) -> Scenario:
    """Every strategy in one scenario, told apart by name."""
    strategies = tuple({**strategy, "name": name} for name, strategy in ALL.items())
    return scenario({"kind": "none"}, **variant, strategies=strategies, replications=2)


def test_two_processes_give_what_one_gives() -> None:
    everything = all_strategies({**VARIANTS["fair"], "stop": {"global_steps": 8}})
    one, two = simulate(everything, jobs=1), simulate(everything, jobs=2)
    assert len(one.traces) == len(two.traces) == 2 * len(ALL)
    for left, right in zip(one.traces + one.reference, two.traces + two.reference, strict=True):
        assert_same(left, right)


def fingerprint(trace: Trace) -> bytes:
    values = [getattr(trace, field) for field in Trace.__slots__]
    arrays = [value.array() if hasattr(value, "array") else value for value in values]
    lists = [one.tolist() if isinstance(one, np.ndarray) else one for one in arrays]
    return repr(lists).encode()


def all_fingerprints() -> str:
    """What a process of its own prints below."""
    digest = hashlib.sha256()
    for variant in VARIANTS.values():
        everything = all_strategies({**variant, "stop": {"time": 1.0}})
        for index in range(len(ALL)):
            digest.update(fingerprint(run_one(Run(everything, index, 0))))
    return digest.hexdigest()


def test_the_seed_of_hashes_does_not_matter() -> None:
    path = str(Path(__file__).parents[2])
    seen = set()
    for hash_seed in ("0", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", f"from {__name__} import *; print(all_fingerprints())"],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(done.stdout.strip())
    assert seen == {all_fingerprints()}


@pytest.mark.parametrize("sharing", ["first_come", "fair"])
@pytest.mark.parametrize("strategy", [ALL["none"], ALL["sync_replicas"]], ids=["none", "sync"])
def test_a_variable_without_tensors_takes_part(strategy: dict[str, Any], sharing: str) -> None:
    # Of ResNet-50's tensors none falls to the hidden bias of the network for digits.
    trace = run(
        strategy,
        network={"bandwidth": 1.25e9, "latency": 20e-6, "sharing": sharing},
        problem={"kind": "digits", "model": "mlp"},
        workload={"model": "resnet50"},
        stop={"global_steps": 4, "time": 60.0},
    )
    assert trace.stopped_by == "global_steps"
    for row in gradient_rows(trace):
        assert row.arrived == -1 or row.arrived > row.computed
        if row.outcome != PENDING:
            # 102 MB at 1.25 GB/s, no less.
            assert row.arrived > row.computed + 81 * MS


@pytest.mark.parametrize("kind", STRATEGIES)
def test_how_many_gradients_make_an_update(kind: str) -> None:
    made = scenario(ALL[kind], cluster={"workers": 4, "compute": EXPONENTIAL})
    trace = run_one(Run(made, 0, 0))
    rows = [row for row in gradient_rows(trace) if row.outcome == APPLIED]
    (strategy,) = made.strategies
    needed = strategy.gradients_per_update(made.cluster)
    if strategy.traits.updates_copies and strategy.round.of == "iteration":
        assert (needed, [row.applied for row in rows]) == (1, trace.steps.tolist())
        return
    taken = Counter(row.applied_step for row in rows)
    assert [taken[step] for step in range(trace.global_step)] == [needed] * 3


@pytest.mark.parametrize("kind", ["local_sgd", "easgd"])
def test_what_copies_lack_is_kept_in_memory_that_grows_as_the_workers(kind: str) -> None:
    def kept(workers: int) -> int:
        made = scenario(example(kind, workers), cluster={"workers": workers})
        tracemalloc.start()
        whole = ready(Run(made, 0, 0))
        found = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert whole
        return found

    assert kept(2000) < 2.3 * kept(1000)
