"""Compute times that workers have in common: closed forms, streams, and whole measured steps."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from tests.building import example, run, scenario
from tests.seams import Phase
from tests.statistical import assert_mean, harmonic, step_times

EXPONENTIAL = {"kind": "exponential", "mean": 1.0}
CONSTANT = {"kind": "constant", "value": 0.1}
TABLE = ((0.1, 0.2, 0.3, 0.4), (0.11, 0.21, 0.31, 0.41))


def correlated(law: dict[str, Any] = EXPONENTIAL, **factors: Any) -> dict[str, Any]:
    return {"kind": "correlated", "distribution": law, **factors}


def drawn(law: dict[str, Any], workers: int, blocks: int = 1) -> NDArray[np.float64]:
    """Times (steps, workers), as runs draw them."""
    trace = run(
        "on_write",
        cluster={"workers": workers, "compute": law},
        problem={"kind": "timing", "size": 4.0},
        workload={"optimizer": None},
        stop={"global_steps": 128 * blocks},
        seed=7,
    )
    spans = trace.spans[trace.spans[:, 1] == Phase.COMPUTE]
    spans = spans[np.lexsort((spans[:, 2], spans[:, 0]))]
    times: NDArray[np.float64] = (spans[:, 3] - spans[:, 2]).reshape(workers, -1).T / 1e9
    return times


def squared(sigma: float) -> float:
    """Variance of a lognormal number with mean 1."""
    return math.expm1(sigma**2)


def test_a_factor_of_steps_lengthens_the_barrier_as_it_does_the_mean() -> None:
    # E[F max of 8] = E[F] E[max of 8] = H_8; drawn apart, the same times would wait for 3.6.
    trace = run(
        "on_write",
        cluster={"workers": 8, "compute": correlated(step=0.5)},
        stop={"global_steps": 8000},
    )

    assert_mean(step_times(trace), harmonic(8))


def test_variance_and_covariance_of_workers() -> None:
    table = drawn(correlated(step=0.5), 2, blocks=800)
    first, second = table.T - 1

    # E[F^2] E[X^2] - 1 with E[X^2] = 2; of two workers E[F^2] - 1.
    assert_mean(first**2, 2 * (squared(0.5) + 1) - 1)
    assert_mean(first * second, squared(0.5))
    # The step before says nothing.
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 4 / math.sqrt(len(first))


def test_factors_of_nodes_and_workers_stay() -> None:
    law = correlated(CONSTANT, node=0.3, worker=0.2, workers_per_node=2)
    table = drawn(law, 3000, blocks=2) / 0.1
    factors = np.log(table[0]).reshape(-1, 2)

    assert (table == table[0]).all()
    # Var of a worker's logarithm 0.3^2 + 0.2^2, covariance within a node 0.3^2, mean of times 1.
    centred = factors + (0.3**2 + 0.2**2) / 2
    assert_mean(centred[:, 0] ** 2, 0.3**2 + 0.2**2)
    assert_mean(centred[:, 0] * centred[:, 1], 0.3**2)
    assert_mean(table[0].reshape(-1, 2).mean(axis=1), 1.0)


def test_one_more_worker_moves_no_other_draw_and_a_factor_no_draw_of_the_law() -> None:
    law = correlated(step=0.2, node=0.1, worker=0.1, workers_per_node=4)

    assert (drawn(law, 5) == drawn(law, 6)[:, :5]).all()
    long = {"kind": "exponential", "mean": 1e4}  # of which whole ns are no matter
    ratio = drawn(correlated(long, step=0.2), 5) / drawn(long, 5)
    assert ratio == pytest.approx(np.repeat(ratio[:, :1], 5, axis=1))
    assert len(np.unique(ratio[:, 0])) == len(ratio)


def test_whole_measured_steps_are_resampled() -> None:
    law = {"kind": "trace", "seconds": TABLE, "replay": "resample"}
    table = drawn(law, 5, blocks=2)

    steps = {row: step for step, row in enumerate(zip(*TABLE, strict=True))}
    first = [steps[pair] for pair in map(tuple, table[:, :2].tolist())]
    other = [steps[pair] for pair in map(tuple, table[:, 2:4].tolist())]
    assert set(first) == set(other) == {0, 1, 2, 3}
    # Workers 2 and 3 are two more such workers: they meet steps of their own.
    assert abs(np.corrcoef(first, other)[0, 1]) < 4 / math.sqrt(len(first))


def test_a_run_that_resamples_waits_as_the_measured_steps_did() -> None:
    # Both are slow in the same steps: 0.2 s on average, where draws of their own wait for 0.25 s.
    law = {"kind": "trace", "seconds": ((0.1, 0.3),) * 2, "replay": "resample"}
    cluster = {"workers": 2, "compute": law}
    trace = run("on_write", cluster=cluster, stop={"global_steps": 4000})

    assert_mean(step_times(trace), 0.2)


def test_rows_without_steps_in_common_are_resampled_each_alone() -> None:
    uneven = {"kind": "trace", "seconds": (TABLE[0], TABLE[1][:3]), "replay": "resample"}
    first, second = drawn(uneven, 2, blocks=8).T

    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / math.sqrt(len(first))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (correlated(), "give step, node or worker"),
        (correlated(node=0.1), "go together"),
        (correlated(step=0.1, workers_per_node=2), "go together"),
        (correlated(correlated(step=0.1), step=0.1), "no use here"),
        (
            {
                "kind": "markov",
                "fast": CONSTANT,
                "slow": correlated(step=0.1),
                "to_slow": 0.1,
                "to_fast": 0.1,
            },
            "no use here",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        scenario({"kind": "none"}, cluster={"workers": 4, "compute": wrong})


def test_only_workers_have_it_and_nodes_have_one_size() -> None:
    law = correlated(node=0.1, workers_per_node=4)
    inside = {"bandwidth": 1e9, "latency": 0.0}
    nodes = {"kind": "nodes", "workers_per_node": 2, "inside": inside, **inside}
    with pytest.raises(ValidationError, match=r"workers_per_node is 4, but .* has 2"):
        scenario(example("on_write"), cluster={"workers": 8, "compute": law}, network=nodes)
    with pytest.raises(ValidationError, match="no use here"):
        scenario(example("none"), cluster={"server_update": {"time": correlated(step=0.1)}})
