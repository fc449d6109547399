"""Where varsim and the model once differed, by hand: what comes out is worked out here."""

from typing import Any

from tests.building import scenario, slow
from tests.oracle import observing, replicas
from tests.oracle.history import History, difference
from tests.oracle.setting import setting
from varsim import Scenario

MS = 1_000_000


def agreed(made: Scenario) -> History:
    """What comes out, of the model and of varsim alike."""
    model = replicas.expected(setting(made, 0))
    seen = observing.observed(made, 0)
    assert not difference(model, seen), difference(model, seen)
    return model


def fair(bandwidth: float, **network: Any) -> dict[str, Any]:
    return {"bandwidth": bandwidth, "latency": 0.0, "sharing": "fair", **network}


def test_cut_reads() -> None:
    # 3 workers read 40 bytes each over a port of 40 B/s: 3 s. The run ends after 0.5 s.
    model = agreed(scenario({"kind": "none"}, network=fair(40.0), stop={"time": 0.5}))

    assert [doing.iteration for doing in model.doings] == [0, 0, 0]


def test_partly_equal_shards() -> None:
    # 4 servers of 1 GB/s hold 60.064, 60.072, 72 and 72 MB; the worker's link takes 3 GB/s.
    # A read: 0.75 GB/s from each of the four until the first has sent all at 80.0853 ms, then
    # 1 GB/s from each: the last two have 11.936 MB left and end at 92.0213 ms.
    made = scenario(
        {"kind": "none"},
        cluster={"workers": 1, "parameter_servers": 4, "placement": "by_bytes"},
        workload={"model": "lstm_lm_1500"},
        network=fair(3e9, server_bandwidth=1e9),
        stop={"global_steps": 1},
    )
    model = agreed(made)

    assert model.fates[0].compute_start == 92_021_333


def test_overtaken() -> None:
    # 4 equal workers, N = T = 2. At 180 ms all gradients are there, those of workers 0 and 1 make
    # the update, and all take a token 0 or wait, by rank. So they do ever after.
    made = scenario(
        {"kind": "sync_replicas", "replicas_to_aggregate": 2, "total_num_replicas": 2},
        cluster={"workers": 4},
        network=fair(4000.0),
        stop={"global_steps": 8},
    )
    model = agreed(made)
    ranks = [taken.worker for taken in model.taken]

    assert ranks == [0, 1, 2, 3] * (len(ranks) // 4)


def test_void_timers() -> None:
    # No tokens, and 3 gradients needed of 2 workers. The second has all of its gradient there at
    # 290 ms, and nothing happens ever after.
    made = scenario(
        {
            "kind": "sync_replicas",
            "replicas_to_aggregate": 3,
            "total_num_replicas": 3,
            "initial_tokens": 0,
        },
        problem={"kind": "linear_regression", "features": 2, "examples": 20},
        cluster={
            "workers": 2,
            "parameter_servers": 2,
            "placement": "round_robin",
            "slow_workers": (slow(0, 1.05), slow(1, 1.5)),
        },
        network=fair(
            1000.0, latency=0.01, server_bandwidth=400.0, slow_links=(slow(0, 5.0), slow(1, 5.0))
        ),
    )
    model = agreed(made)

    assert (model.ended_by, model.end) == ("deadlock", 290 * MS)


def test_examples_in_floats() -> None:
    # Every update takes 3 gradients of 7 examples: 42 after two.
    made = scenario(
        {"kind": "sync_replicas", "replicas_to_aggregate": 3},
        workload={
            "batch_size": 7,
            "problem": {"kind": "timing", "parts": 3, "size": 600.0},
            "optimizer": None,
        },
        cluster={
            "workers": 5,
            "slow_workers": tuple(
                slow(rank, f) for rank, f in enumerate([3.0, 2.0, 3.0, 3.0, 2.0])
            ),
        },
        network={
            "bandwidth": 6000.0,
            "latency": 0.0,
            "sharing": "first_come",
            "slow_links": (slow(2, 4.0), slow(3, 5.0), slow(4, 4.0)),
        },
        stop={"examples": 42},
    )
    model = agreed(made)

    assert len(model.steps) == 2
