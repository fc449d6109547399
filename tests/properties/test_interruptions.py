"""Whatever strikes inside a run, in whatever setting: the accounts tile, and say what was kept."""

import random
from typing import Any

import numpy as np
import pytest

from tests.building import assert_same, declared, scenario
from tests.lives import MORTALS, mortal
from tests.seams import Attempt, Outcome, Phase, Run, Trace, run_one

NETWORKS: list[dict[str, Any]] = [
    {},
    {"kind": "nodes", "workers_per_node": 2, "inside": {"bandwidth": 1e6, "latency": 1e-4}},
    {"kind": "racks", "hosts_per_rack": 2, "oversubscription": 2.0},
]
WORKER = len(Attempt._fields)  # the column of whose attempt it is
EACH = [Attempt._fields.index(name) for name in Attempt._fields[1:7]]


def random_scenario(seed: int) -> dict[str, Any]:
    """What to ask of a run: one of each strategy, of a few workers, struck every few steps."""
    draw = random.Random(seed)
    pick = draw.choice
    kind = MORTALS[seed % len(MORTALS)]
    network = pick(NETWORKS)
    workers = draw.randrange(2, 6)
    if "workers_per_node" in network:
        workers = 4
    strategy = mortal(kind, workers)
    if kind == "sync_replicas":
        needed, total = draw.randrange(1, workers + 2), pick([workers, workers + 1])
        strategy |= {"replicas_to_aggregate": needed, "total_num_replicas": total}
        strategy |= pick([{}, {"variable_averages": {"decay": 0.9}}])
        strategy |= pick([{}, {"initial_tokens": max(0, needed - total)}])
    served = mortal_sends(kind) in ("servers", "centre")
    domains = [
        "worker",
        "worker",
        *{"nodes": ["node"], "racks": ["rack"]}.get(network.get("kind"), []),
    ]
    domains += ["server"] * (2 * served)
    sources = []
    for _ in range(draw.randrange(1, 4)):
        between = pick([{"mtbf": pick([0.5, 2.0, 5.0])}, {"distribution": law(draw)}])
        repair = pick([{}, {"repair": pick([0.2, {"kind": "exponential", "mean": 0.4}])}])
        sources.append({"domain": pick(domains), **between, **repair})
    failures: dict[str, Any] = {"detection": pick([0.0, 0.05]), "of": tuple(sources)}
    if draw.random() < 0.2:
        failures["recorded"] = {
            "failures": ((0.3, "worker", 0), (0.3, "worker", 1), (1.0, "worker", 0))
        }
    mode = pick([{}, {"mode": "asynchronous", "snapshot": pick([0.0, 0.03]), "slowdown": 0.5}])
    checkpoint = {"every": pick([0.2, 0.5, "optimal"]), **pick([{"write": 0.02}, {"storage": 1e5}])}
    recovery: dict[str, Any] = {"restart": pick([0.0, 0.05])}
    if draw.random() < 0.3 and any("repair" in one for one in sources):
        recovery["spares"] = pick([{"hot": 1}, {"cold": 1, "swap": 0.1}])
    changes: dict[str, Any] = {
        "seed": seed,
        "cluster": {
            "workers": workers,
            "compute": pick(
                [{"kind": "constant", "value": 0.1}, {"kind": "exponential", "mean": 0.1}]
            ),
        },
        "network": {
            "bandwidth": pick([1e4, 1e18]),
            "latency": pick([0.0, 1e-3]),
            "sharing": pick(["fair", "first_come"]),
            **network,
        },
        "problem": {"kind": pick(["quadratic", "linear_regression"])},
        "optimizer": pick(
            [{"kind": "sgd", "learning_rate": 0.1}, {"kind": "adam", "learning_rate": 0.1}]
        ),
        "failures": failures,
        "recovery": recovery,
        "stop": pick([{"time": 4.0}, {"global_steps": 15, "time": 30.0}]),
    }
    if served:
        changes["cluster"]["parameter_servers"] = pick([1, 2])
    if kind == "easgd":  # a centre that only failing servers take with them
        served = any(one["domain"] == "server" for one in sources)
    if "recorded" in failures or any("law" in one for one in sources):
        checkpoint["every"] = 0.4
    if served and draw.random() < 0.7:
        changes["checkpoint"] = {**checkpoint, "restore": pick([0.0, 0.1]), **mode}
    if draw.random() < 0.3:
        changes["cluster"]["overheads"] = {"first_iteration": 0.03}
    return {"strategy": strategy, **changes}


def law(draw: random.Random) -> dict[str, Any]:
    """Of times between failures, with ties and without."""
    return draw.choice(
        [
            {"kind": "constant", "value": draw.choice([0.7, 1.5])},
            {"kind": "weibull", "shape": 0.7, "mean": 2.0},
            {"kind": "trace", "seconds": ((0.3, 1.0), (0.8, 0.4, 5.0))},
        ]
    )


def mortal_sends(kind: str) -> str:
    return declared(mortal(kind)).sends.to


def struck(settings: dict[str, Any]) -> Trace:
    strategy = settings["strategy"]
    changes = {key: value for key, value in settings.items() if key != "strategy"}
    return run_one(Run(scenario(strategy, **changes), 0, 0))


def check(trace: Trace, settings: dict[str, Any]) -> None:
    """What holds of any accounts, of whatever the trace itself says."""
    life = trace.life
    assert life is not None
    assert (life >= 0).all()
    applied = np.isin(trace.gradients[:, 9], (Outcome.APPLIED, Outcome.PARTLY))
    kept = applied & trace.kept_gradients
    for rank in range(trace.workers):
        own = life[life[:, WORKER] == rank]
        # Attempt after attempt, from 0 to the end, each of them whole.
        assert own[0, 0] == 0
        assert (own[:, 0] + own[:, EACH].sum(axis=1)).tolist() == [*own[1:, 0], trace.end]
        spans = trace.spans[trace.spans[:, 0] == rank]
        lasted = spans[:, 3] - spans[:, 2]
        assert own[:, 4:7].sum() >= lasted[spans[:, 1] == Phase.DOWN].sum()
        rows = trace.gradients[kept & (trace.gradients[:, 0] == rank)]
        assert own[:, Attempt._fields.index("steps")].sum() <= len(rows)
        alone = rank == 0 or mortal_sends(settings["strategy"]["kind"]) == "workers"
        assert (own[:, Attempt._fields.index("checkpoints")] == 0).all() or alone
        # What was computed and kept is nowhere time down; nor lost, where servers have the model.
        computed = (rows[:, 5] - rows[:, 4]).sum()
        assert own[:, 1:4].sum() >= computed
        if mortal_sends(settings["strategy"]["kind"]) == "servers":
            assert trace.in_vain is None
            assert own[:, Attempt._fields.index("steps")].sum() == len(rows)
            assert own[:, 1:3].sum() >= computed
    if not (kept.any() or mortal_sends(settings["strategy"]["kind"]) in ("servers", "centre")):
        # Of copies that are lost nothing is left, by whomever that is known.
        assert trace.evaluations[-1].loss == trace.evaluations[0].loss
    if trace.standstill is not None:  # by its tokens, not by what struck
        assert "no worker is down" in trace.standstill.report
        random = ("failures", "checkpoint", "recovery")
        assert struck({key: settings[key] for key in settings if key not in random}).standstill
    assert trace.global_step == int(trace.kept_steps.sum())
    assert len(trace.steps) >= trace.global_step


DEADLOCKED = [442, 706]  # sync_replicas with fewer workers than it needs gradients, and no tokens
FAST, MANY = range(len(MORTALS)), range(len(MORTALS), 400)


def test_sample() -> None:
    for seed in FAST:
        settings = random_scenario(seed)
        check(struck(settings), settings)


@pytest.mark.parametrize("seed", DEADLOCKED)
def test_what_deadlocks_would_do_so_without_failures(seed: int) -> None:
    settings = random_scenario(seed)
    trace = struck(settings)

    assert trace.standstill is not None
    assert "to free it: initial_tokens: 1 at least" in trace.standstill.report
    check(trace, settings)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_many(seed: int) -> None:
    settings = random_scenario(seed)
    trace = struck(settings)
    check(trace, settings)
    assert_same(trace, struck(settings))
