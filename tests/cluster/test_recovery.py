"""Keys of failures, checkpoints and recovery: optimal intervals, and what is refused and why."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from tests.building import assert_same, declared, example, run, scenario
from tests.lives import (
    ASYNCHRONOUS,
    FAILURES,
    MORTAL,
    RECORDED,
    SOURCE,
    WEIBULL,
)
from tests.seams import STRATEGIES, PaceError, Run, app, dump_scenario, run_one
from varsim import Scenario

DAY = 86_400.0
LINKS = {"bandwidth": 1e9, "latency": 0.0}
NODES = {"kind": "nodes", "workers_per_node": 2, "inside": LINKS}


def interval(mean: float, cost: float, strike: str = "always", down: float = 0.0) -> float:
    """The best interval of a checkpoint that takes `cost`, with a failure in `mean` s."""
    case = {**MORTAL, "failures": {**FAILURES, "strike": strike}}
    made = scenario({"kind": case.pop("strategy")}, **case)
    assert made.checkpoint is not None
    assert made.failures is not None
    saved = made.checkpoint.model_copy(update={"every": "optimal", "write": cost})
    return saved.interval(made.failures, 1 / mean, down)


@pytest.mark.parametrize(
    ("mean", "cost", "expected"),
    [
        # Roots of (1 - tau / M) e^((tau + C) / M) = 1, by bisection.
        (36_000.0, 60.0, 2038.654905919349),
        (400.0, 200.0, 279.3161731),
        (1e7, 1e-3, 141.4206896),
        (1.0, 50.0, 1.0),
    ],
)
def test_the_optimal_interval(mean: float, cost: float, expected: float) -> None:
    assert interval(mean, cost) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("mean", "cost", "down"), [(1000.0, 100.0, 150.0), (100.0, 900.0, 10.0)])
def test_the_optimal_interval_where_only_work_fails(mean: float, cost: float, down: float) -> None:
    best = interval(mean, cost, "while_computing", down)

    def kept(tau: float) -> float:
        return tau / (cost + (mean + down) * math.expm1(tau / mean))

    assert kept(best) > max(kept(0.999 * best), kept(1.001 * best))


FEWER = {"policy": "continue_with_fewer"}

# What is said, and a scenario that is MORTAL but for these keys.
REFUSED: dict[str, dict[str, Any]] = {
    "one of mtbf, per_day, preset, distribution": {"failures": {"of": ({"domain": "worker"},)}},
    "give one of mtbf and per_day": {"failures": {"of": ({**SOURCE, "per_day": 1.0},)}},
    "is no repair: give a time above 0": {"failures": {"of": ({**SOURCE, "repair": 0},)}},
    "-1 h is no repair": {"failures": {"of": ({**SOURCE, "repair": "-1 h"},)}},
    "write 95 % or 0.95": {"targets": {"goodput": 95}},
    "greater than 0": {"failures": {"of": ({**SOURCE, "mtbf": 0.0},)}},
    "every is shorter than a write": {"checkpoint": {"every": 0.5}},
    "either write or storage": {"checkpoint": {"storage": 1e6}},
    "'best' is not a time: .* or optimal": {"checkpoint": {"every": "best"}},
    "above 0 % and at most 100 %": {"targets": {"goodput": "120 %"}},
    "costs time": {"checkpoint": {"every": "optimal", "write": 0.0}},
    "known for exponential times": {
        "failures": {"of": ({"domain": "worker", "distribution": WEIBULL},)},
        "checkpoint": {"every": "optimal"},
    },
    "4 for 3 hosts": {"recovery": {"spares": {"hot": 3, "cold": 1}}},
    "has no nodes": {"failures": {"of": ({**SOURCE, "domain": "node"},)}},
    "has no racks": {
        "failures": {"of": ({**SOURCE, "domain": "rack"},)},
        "network": {**MORTAL["network"], "kind": "full_mesh"},
    },
    "failures would be met": {"failures": {"horizon": 1e9, "of": ({**SOURCE, "mtbf": 1.0},)}},
    "work goes on beside an asynchronous write": {
        "failures": {"strike": "while_computing"},
        "checkpoint": ASYNCHRONOUS,
    },
    "does not go with 'none': .* servers keep the model": {"strategy": {"kind": "none"}},
    "write overlap: true": {
        "strategy": {"kind": "on_write", "overlap": "forward", "bucketing": "layers"},
        "workload": {"model": "resnet50"},
        "cluster": {"optimizer_time": 0.1},
    },
    "leave warmup_steps out": {
        "strategy": {"kind": "local_sgd", "period": 2, "warmup_steps": 1, "before_warmup": "none"}
    },
    "write convention: torchft": {
        "strategy": {"kind": "diloco", "inner_steps": 2, "delay": 1, "convention": "paper"}
    },
    "write mode: synchronous": {"strategy": {"kind": "gossip", "mode": "asynchronous"}},
    "stop.global_steps must be 9 or more": {"strategy": {"kind": "on_read", "read_every": 4}},
    "stop.examples must be 15 or more": {
        "strategy": {"kind": "local_sgd", "period": 2},
        "stop": {"examples": 14},
    },
    "events do not go with failures": {"events": ({"at": 1.0, "kill": {"worker": 0}},)},
    "slow for a part": {"cluster": {"slow_workers": ({"rank": 0, "factor": 2.0, "after": 1.0},)}},
    "global_steps must be 2": {"stop": {"global_steps": 1}},
    "depends on the batch": {
        "failures": {
            "of": (
                {
                    "domain": "worker",
                    "distribution": {"kind": "batch_curve", "fixed": 1.0, "per_example": 1.0},
                },
            )
        }
    },
    "Input should be 'restart', 'wait' or": {"recovery": {"policy": "pray"}},
    "fewest has no effect with policy wait: it needs all": {
        "recovery": {"policy": "wait", "fewest": 2}
    },
    "fewest must be below the number of hosts": {"recovery": {**FEWER, "fewest": 3}},
    "has no effect: a host that fails is back at once": {
        "failures": {"of": ({**SOURCE, "repair": None},)},
        "recovery": FEWER,
    },
    "does not go with checkpoint.mode asynchronous: work": {
        "checkpoint": {"mode": "asynchronous"},
        "recovery": FEWER,
    },
    "only when no host is left .give a time": {
        "checkpoint": {"every": "optimal"},
        "recovery": {"policy": "wait"},
    },
    "does not go with failures.strike while_computing": {
        "failures": {"strike": "while_computing"},
        "recovery": {"policy": "wait"},
    },
    "cluster.network racks: hosts are not alike": {"recovery": FEWER},
    "cluster.slow_workers: hosts are not alike": {
        "cluster": {"slow_workers": ({"rank": 0, "factor": 2.0},)},
        "recovery": FEWER,
    },
    "'local_sgd': every worker has a copy of its own": {
        "strategy": {"kind": "local_sgd", "period": 2},
        "recovery": {"policy": "wait"},
    },
    "'on_write': a worker that dies takes its shard with it": {
        "strategy": {"kind": "on_write", "sharding": "optimizer"},
        "recovery": FEWER,
    },
    "'single': there is one host": {"strategy": {"kind": "single"}, "recovery": {"policy": "wait"}},
    "when 3 workers are left: ranks_per_group 2": {
        "strategy": {"kind": "on_write", "collective": "hierarchical", "ranks_per_group": 2},
        "cluster": {"workers": 4},
        "network": {"kind": "star"},
        "recovery": FEWER,
    },
    "a rack": {"failures": {"of": ({"domain": "rack", "preset": "llama3"},)}},
    "unknown failure rate 'lama3'; nearest: llama3": {
        "failures": {"of": ({"domain": "worker", "preset": "lama3"},)}
    },
    "a node here has 2: give per_day, for example 0.000947": {
        "failures": {"of": ({"domain": "node", "preset": "llama3"},)},
        "network": {"kind": "nodes"},
    },
    "say what fails": {"failures": {"of": ()}},
    "recorded ones strike when they did": {
        "failures": {"of": (), "recorded": RECORDED, "strike": "while_running"}
    },
    "failures.1: link 3, but there are 3, numbered from 0": {
        "failures": {
            "of": (),
            "recorded": {"failures": ((30.0, "worker", 0), (60.0, "link", 3))},
        }
    },
    "no failure comes before the horizon: the first is at 5 min": {
        "failures": {"of": (), "recorded": {"failures": ((300.0, "worker", 0),)}}
    },
    "failures.recorded: no failure comes before stop.time: the first is at 5 min": {
        "failures": {
            "horizon": None,
            "of": (),
            "recorded": {"failures": ((300.0, "worker", 0),)},
        },
        "checkpoint": None,
        "recovery": None,
        "stop": {"time": 60.0},
        "strategy": "diloco",
    },
    "stop.global_steps must be 20 or more: from these steps, which are random, the life": {
        "cluster": {"compute": {"kind": "exponential", "mean": 0.1}}
    },
    "failures of a server strike inside the run, .* leave out failures.horizon": {
        "failures": {"of": ({**SOURCE, "domain": "server"},)}
    },
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_makes_no_sense_is_refused(why: str) -> None:
    merged = ("failures", "checkpoint", "recovery")
    changes = {
        key: {**MORTAL[key], **one} if key in merged and one else one
        for key, one in REFUSED[why].items()
    }
    if changes.get("network") == {"kind": "star"}:
        changes["network"] = {"bandwidth": 1e9, "latency": 0.0}
    if changes.get("network") == {"kind": "nodes"}:
        changes["network"] = {**NODES, **LINKS}
    network = {key: one for key, one in MORTAL["network"].items() if key in ("bandwidth",)}
    if changes.get("network", {}).get("kind") == "full_mesh":
        changes["network"] = {**network, "latency": 1e-3, "kind": "full_mesh"}
    case = {**MORTAL, **changes}
    strategy = case.pop("strategy")
    with pytest.raises(ValidationError, match=why):
        scenario({"kind": strategy} if isinstance(strategy, str) else strategy, **case)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_every_strategy_has_a_life_that_tiles_or_says_that_it_has_none(kind: str) -> None:
    strategy = example(kind)
    mortal = {key: MORTAL[key] for key in ("failures", "checkpoint", "recovery")}
    case: dict[str, Any] = {"stop": {"global_steps": 6}}
    if declared(strategy).traits.against_rollback:
        with pytest.raises(ValidationError, match=f"does not go with '{kind}'"):
            scenario(strategy, **case, **mortal)
        return
    trace, undisturbed = run(strategy, **case, **mortal), run(strategy, **case)
    assert trace.life is not None
    assert trace.life[:, 1:7].sum() == round(FAILURES["horizon"] * 1e9)
    # What was simulated is as it was without failures.
    assert_same(trace, undisturbed, but=("life",))


@pytest.mark.parametrize("taken", [{"write": 5.0}, {"write": 0.0}, {"storage": 1e6}])
def test_an_optimal_interval_needs_a_checkpoint_that_costs_time(taken: dict[str, float]) -> None:
    free = {"every": "optimal", "mode": "asynchronous", **taken}

    def made(**more: Any) -> Scenario:
        case = {**MORTAL, "checkpoint": {**free, **more}}
        return scenario({"kind": case.pop("strategy")}, **case)

    with pytest.raises(ValidationError, match="costs time"):
        made()
    made(snapshot=0.1)
    if taken.get("write", 1.0):
        made(slowdown=0.1)
        made(mode="blocking")


def test_a_checkpoint_goes_over_one_link_to_storage_and_back() -> None:
    # 80 bytes of parameters and as many of momentum, at 100 B/s, the link's 10 kB/s being more.
    case = {
        **{key: MORTAL[key] for key in ("network", "failures", "stop")},
        "problem": {"kind": "quadratic", "dimension": 10},
        "optimizer": {"kind": "momentum", "learning_rate": 0.1},
        "checkpoint": {"every": 10.0, "storage": 100.0, "restore": 0.5},
    }
    made = scenario({"kind": "on_write"}, **case)
    saved = made.checkpoint_of(made.strategies[0])

    each = made.workload.size() * 2 / 100.0 + 1e-3
    assert saved is not None
    assert saved.write == pytest.approx(each)
    assert saved.restore == pytest.approx(0.5 + each)
    slow = {**case, "network": {**MORTAL["network"], "bandwidth": 10.0}}
    made = scenario({"kind": "on_write"}, **{**slow, "checkpoint": {"every": 60.0, "storage": 1e9}})
    saved = made.checkpoint_of(made.strategies[0])
    assert saved is not None
    assert saved.write == pytest.approx(made.workload.size() * 2 / 10.0 + 1e-3)
    with pytest.raises(ValidationError, match="every is shorter than a write"):
        scenario({"kind": "on_write"}, **{**slow, "checkpoint": {"every": 1.0, "storage": 1e9}})


def test_shards_are_saved_and_lost_as_a_whole() -> None:
    """Each worker writes its shard of the optimizer's state, and all parameters: a third of 2."""
    case = {key: MORTAL[key] for key in ("network", "failures")}
    sharded = {
        "problem": {"kind": "quadratic", "dimension": 12},
        "optimizer": {"kind": "momentum", "learning_rate": 0.1},
        "checkpoint": {"every": 10.0, "storage": 100.0},
        "stop": {"global_steps": 12},
    }
    strategy = {"kind": "on_write", "sharding": "optimizer"}
    made = scenario(strategy, **case, **sharded)
    saved = made.checkpoint_of(made.strategies[0])

    assert saved is not None
    assert saved.write == pytest.approx(made.workload.size() * (1 + 1 / 3) / 100.0 + 1e-3)
    life = run(strategy, **case, **sharded).life
    assert life is not None
    assert life[:, 1:7].sum() == round(FAILURES["horizon"] * 1e9)


def test_a_preset_is_a_rate_per_machine_and_day() -> None:
    # 16,384 GPUs, as its source projects: one in 1.8 h.
    made = scenario(
        {"kind": "on_write"},
        cluster={"workers": 16},
        network={**NODES, "workers_per_node": 8, **LINKS},
        failures={"horizon": 1e6, "of": ({"domain": "node", "preset": "rsc_1"},)},
        stop={"global_steps": 5},
    )
    assert made.failures is not None
    assert made.failures.rate(made.cluster, 16) == pytest.approx(2 * 0.0065 / DAY)
    assert pytest.approx(1.8, abs=0.05) == DAY / 0.0065 / 2048 / 3600


def test_one_gpu_fails_less_often_than_its_machine() -> None:
    gpus = {"workers": 3, "device": {"preset": "a100_sxm_80gb"}, "compute": None}
    model = {"model": "resnet50"}
    source = {"domain": "worker", "preset": "llama3"}
    with pytest.raises(ValidationError, match=r"a worker here has 1: give per_day.* 0\.000474"):
        scenario(
            {"kind": "on_write"},
            cluster=gpus,
            workload=model,
            stop={"global_steps": 20},
            failures={**FAILURES, "of": (source,)},
        )


def test_all_that_need_more_steps_are_named_at_once(tmp_path: Path) -> None:
    """Updates of DiLoCo are of three gradients, as those of on_write: examples are updates x 3."""
    pair = (
        {"kind": "on_write"},
        {"kind": "diloco", "inner_steps": 4},
        {"kind": "diloco", "inner_steps": 9, "name": "nine"},
    )
    case = {**MORTAL, "strategies": pair}
    del case["strategy"]
    for stop, said in (
        ({"global_steps": 8}, r"global_steps must be 19 .* \(at least: 'diloco' 9, 'nine' 19\)"),
        ({"examples": 30}, r"examples must be 57 or more: .* \(at least: 'nine' 57\)"),
    ):
        with pytest.raises(ValidationError, match=said):
            scenario(pair[0], **{**case, "stop": stop})
    for_a_time = scenario(pair[0], **{**case, "stop": {"time": 0.75}})
    (tmp_path / "case.yaml").write_text(dump_scenario(for_a_time))
    told = CliRunner().invoke(app.app, ["check", str(tmp_path / "case.yaml")]).output
    assert re.search(r"(?s)DiLoCo: .* 9 at least.*'nine': .* 19 at least", " ".join(told.split()))


def test_a_run_of_too_few_steps_is_refused() -> None:
    """Of too few updates by a time limit, of which only a run knows how many there are."""
    case = {**MORTAL, "cluster": {"workers": 3, "compute": {"kind": "exponential", "mean": 1.0}}}
    made = scenario({"kind": case.pop("strategy")}, **{**case, "stop": {"time": 10.0}})
    with pytest.raises(PaceError, match="random ones were simulated"):
        run_one(Run(made, 0, 0))


def test_each_worker_writes_what_only_it_has() -> None:
    """Local SGD: its copy and slots. DiLoCo: the shared model and its slots as well."""
    case = {
        **{key: MORTAL[key] for key in ("network", "failures")},
        "optimizer": {"kind": "momentum", "learning_rate": 0.1},
        "checkpoint": {"every": 10.0, "storage": 100.0},
        "stop": {"global_steps": 12},
    }
    written = {}
    for strategy in ({"kind": "local_sgd", "period": 2}, {"kind": "diloco", "inner_steps": 2}):
        made = scenario(strategy, **case)
        saved = made.checkpoint_of(made.strategies[0])
        assert saved is not None
        assert saved.write is not None
        written[strategy["kind"]] = (saved.write - 1e-3) * 100.0 / made.workload.size()
    assert written == {"local_sgd": pytest.approx(2.0), "diloco": pytest.approx(4.0)}
