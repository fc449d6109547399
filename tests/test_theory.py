"""Runs against formulas; points with an id such as os-exp-01 are exact expectations.

What is random is compared within four standard errors of the estimate, with the seed fixed.
"""

import math
from typing import Any

import numpy as np
import pytest

from tests.building import (
    APPLIED,
    DROPPED,
    fates,
    gradient_rows,
    phase_time,
    run,
    slow,
    staleness,
)
from tests.seams import Phase, Trace
from tests.statistical import assert_mean, assert_mean_in_time, harmonic, step_times

TINY = {"dimension": 1}

# David and Nagaraja, Order Statistics, 3rd ed. 2003; Chen et al., 2016 (arXiv:1604.00981).
SLOWEST: dict[str, tuple[int, dict[str, Any], float]] = {
    "os-exp-01": (8, {"kind": "exponential", "mean": 1.0}, 2.7178571428571425),
    "os-shiftexp-01": (
        8,
        {"kind": "shifted_exponential", "minimum": 1.0, "mean": 1.5},
        2.3589285714285713,
    ),
    "os-uniform-01": (8, {"kind": "uniform", "low": 0.9, "high": 1.1}, 1.077777777777778),
    "os-pareto-02": (16, {"kind": "pareto", "minimum": 0.5, "alpha": 3.5}, 1.4177820611582128),
    "os-weibull-01": (
        8,
        {"kind": "weibull", "mean": math.gamma(1 + 1 / 0.7), "shape": 0.7},
        4.421611670590247,
    ),
    "os-normal-01": (8, {"kind": "normal", "mean": 1.0, "std": 0.1}, 1.1423600306054562),
    "os-lognormal-01": (
        8,
        {"kind": "lognormal", "mean": math.exp(0.25**2 / 2), "sigma": 0.25},
        1.4445291898147328,
    ),
    "os-twopoint-01": (
        8,
        {
            "kind": "mixture",
            "components": (
                {"weight": 0.98, "distribution": {"kind": "constant", "value": 1.0}},
                {"weight": 0.02, "distribution": {"kind": "constant", "value": 5.0}},
            ),
        },
        1.5969479096728576,
    ),
}


class TestSlowestOfAll:
    @pytest.mark.parametrize("point", SLOWEST)
    def test_on_write_waits_for_the_slowest(self, point: str) -> None:
        workers, law, expected = SLOWEST[point]
        trace = run(
            "on_write",
            cluster={"workers": workers, "compute": law},
            problem=TINY,
            stop={"global_steps": 1500},
        )

        assert_mean(step_times(trace), expected)

    def test_variance_of_the_slowest(self) -> None:
        # os-exp-var-01
        trace = run(
            "on_write",
            cluster={"workers": 8, "compute": {"kind": "exponential", "mean": 1.0}},
            problem=TINY,
            stop={"global_steps": 3000},
        )
        times = step_times(trace)

        assert_mean((times - times.mean()) ** 2, 1.527422052154195)

    def test_unequal_workers(self) -> None:
        # os-hetero-exp-max-02: rates 1, 1, 1/4.
        trace = run(
            "on_write",
            cluster={
                "workers": 3,
                "compute": {"kind": "exponential", "mean": 1.0},
                "slow_workers": (slow(2, 4.0),),
            },
            problem=TINY,
            stop={"global_steps": 2000},
        )

        assert_mean(step_times(trace), 4.344444444444445)

    def test_the_share_of_time_spent_waiting(self) -> None:
        # sync-idle-fraction-01: 1 - 1/H_8; and 1 - E[X]/E[max] holds for the sums exactly.
        trace = run(
            "on_write",
            cluster={"workers": 8, "compute": {"kind": "exponential", "mean": 1.0}},
            problem=TINY,
            stop={"global_steps": 2000},
        )
        barrier = phase_time(trace, Phase.BARRIER) / (8 * trace.end)

        assert barrier == pytest.approx(0.6320630749014454, abs=0.01)
        assert barrier + phase_time(trace, Phase.COMPUTE) / (8 * trace.end) == pytest.approx(1.0)

    @pytest.mark.parametrize(
        ("point", "workers", "every", "mean", "expected"),
        [
            ("local-erlang-01", 8, 1, 1.0, 2.7178571428571443),
            ("local-erlang-02", 8, 4, 1.0, 1.8078670883857966),
            ("local-erlang-03", 16, 16, 0.5, 0.7446402163259854),
        ],
    )
    @pytest.mark.parametrize("write_back", [False, True])
    def test_on_read_waits_for_the_slowest_of_sums(
        self, point: str, workers: int, every: int, mean: float, expected: float, write_back: bool
    ) -> None:
        # n workers make H steps each, then meet: largest of n Erlang(H), per step.
        rounds = 500
        trace = run(
            {"kind": "on_read", "read_every": every, "write_back": write_back},
            cluster={"workers": workers, "compute": {"kind": "exponential", "mean": mean}},
            problem=TINY,
            stop={"global_steps": every * rounds},
        )
        meetings = step_times(trace).reshape(rounds, every).sum(axis=1)

        assert_mean(meetings / every, expected)


class TestSyncReplicas:
    """8 workers, exponential with mean 1, no network: tokens against textbooks."""

    def trace(self, aggregate: int, steps: int = 1200, **settings: int) -> Trace:
        return run(
            {"kind": "sync_replicas", "replicas_to_aggregate": aggregate, **settings},
            cluster={"workers": 8, "compute": {"kind": "exponential", "mean": 1.0}},
            problem=TINY,
            stop={"global_steps": steps},
        )

    def test_all_workers_are_a_barrier_in_the_end(self) -> None:
        # N = T: once the 8 free gradients are wasted, every update is the slowest of 8.
        trace = self.trace(8)

        dropped = [fate for fate in fates(trace) if fate.outcome == DROPPED]
        assert len(dropped) == 8
        after = int(np.searchsorted(trace.steps, dropped[-1].time * 1e6)) + 1
        assert after < 20
        assert_mean(step_times(trace)[after:], 2.7178571428571425)

    @pytest.mark.parametrize("aggregate", [1, 4, 6, 7])
    def test_backup_workers_drop_their_share(self, aggregate: int) -> None:
        # Every update costs T = 8 iterations: N are used, T - N are dropped.
        trace = self.trace(aggregate)
        outcomes = [fate.outcome for fate in fates(trace)]
        updates = trace.global_step

        assert outcomes.count(APPLIED) == aggregate * updates
        # Iterations = initial tokens + 8 x updates - tokens left.
        assert abs(outcomes.count(DROPPED) - (8 - aggregate) * updates) <= 16

    @pytest.mark.parametrize("aggregate", [1, 4, 6, 7])
    def test_backup_workers_do_not_let_the_others_run_ahead(self, aggregate: int) -> None:
        # The N-th of 8 would come after H_8 - H_(8 - N) (os-exp). The 8 workers finish 8
        # iterations in 1, on average, and no update can cost less than 8; nor is any slower than
        # all of them.
        trace = self.trace(aggregate, steps=2000)
        textbook = harmonic(8) - harmonic(8 - aggregate)
        interval = trace.end / 1e9 / trace.global_step

        assert interval > max(textbook, 1.0)
        assert interval < harmonic(8)
        if aggregate < 5:
            assert textbook < 1.0

    def test_more_backups_wait_less(self) -> None:
        intervals = [self.trace(n, steps=2000).end for n in (1, 4, 6, 7, 8)]

        assert intervals == sorted(intervals)

    @pytest.mark.parametrize("aggregate", [9, 12, 24])
    def test_more_gradients_than_workers_keep_everybody_busy(self, aggregate: int) -> None:
        # max(N, T) = N iterations of the 8 workers per update: N / 8 at least (rt-kbatchsync,
        # where nobody ever waits); and waiting at most for the last one out.
        trace = self.trace(aggregate)
        interval = trace.end / 1e9 / trace.global_step

        assert aggregate / 8 < interval < aggregate / 8 + harmonic(8)
        outcomes = [fate.outcome for fate in fates(trace)]
        assert outcomes.count(APPLIED) == aggregate * trace.global_step
        assert outcomes.count(DROPPED) <= 8


DISTRIBUTIONS: dict[str, dict[str, Any]] = {
    "exponential": {"kind": "exponential", "mean": 1.0},
    "uniform": {"kind": "uniform", "low": 0.5, "high": 1.5},
    "lognormal": {"kind": "lognormal", "mean": 1.0, "sigma": 1.0},
    "constant": {"kind": "constant", "value": 1.0},
}


class TestAsynchronous:
    """Zhang et al., 2016 (IJCAI); Dutta et al., 2018 (AISTATS)."""

    def trace(self, workers: int, law: str, steps: int, **changes: Any) -> Trace:
        cluster = {"workers": workers, "compute": DISTRIBUTIONS[law], **changes.pop("cluster", {})}
        return run("none", cluster=cluster, problem=TINY, stop={"global_steps": steps}, **changes)

    @pytest.mark.parametrize(
        ("workers", "law"),
        [(4, "exponential"), (16, "uniform"), (32, "lognormal"), (8, "constant"), (1, "uniform")],
    )
    def test_mean_staleness_is_n_minus_one(self, workers: int, law: str) -> None:
        # stale-async-mean: whatever the law. A worker reads right after its own update, so all
        # updates of others until its next one count, and the sum telescopes: over all workers,
        # the number of updates up to each one's last, less the number of all updates.
        steps = 4000
        trace = self.trace(workers, law, steps)
        seen = staleness(trace)
        last = {fate.worker: number for number, fate in enumerate(fates(trace), start=1)}

        assert sum(seen) == sum(last.values()) - steps
        assert sum(seen) / steps == pytest.approx(workers - 1, rel=0.03)

    @pytest.mark.parametrize("workers", [4, 16])
    def test_staleness_is_geometric_for_exponential_workers(self, workers: int) -> None:
        # stale-async-p0-01 and -02: P(j) = (1/P)(1 - 1/P)^j, variance P (P - 1).
        seen = np.array(staleness(self.trace(workers, "exponential", 20_000)), dtype=float)[200:]

        for j in range(3):
            expected = (1 / workers) * (1 - 1 / workers) ** j
            assert_mean_in_time((seen == j).astype(float), expected, batches=100)
        assert_mean_in_time((seen - (workers - 1)) ** 2, workers * (workers - 1), batches=100)

    def test_staleness_of_a_slow_worker(self) -> None:
        # stale-hetero-worker-01: rates 1/4, 1 x 7: (7.25 - 0.25) / 0.25. The average stays 7.
        cluster = {"slow_workers": (slow(0, 4.0),)}
        trace = self.trace(8, "exponential", 15_000, cluster=cluster)
        rows = gradient_rows(trace)[:15_000]
        seen = np.array([row.applied_step - row.read_step for row in rows if row.worker == 0])

        assert_mean(seen[3:].astype(float), 28.0)
        assert sum(staleness(trace)) / 15_000 == pytest.approx(7.0, rel=0.01)

    @pytest.mark.parametrize("workers", [4, 16])
    def test_speed_up_over_the_barrier(self, workers: int) -> None:
        # rt-speedup-async-sync: H_P (Dutta et al.). Async makes P / mean updates a second.
        asynchronous = self.trace(workers, "exponential", 4000 * workers // 4)
        synchronous = run(
            "on_write",
            cluster={"workers": workers, "compute": DISTRIBUTIONS["exponential"]},
            problem=TINY,
            stop={"global_steps": 1000},
        )

        assert_mean(step_times(asynchronous)[100:], 1 / workers)
        assert_mean(step_times(synchronous), harmonic(workers))

    @pytest.mark.parametrize(("workers", "think", "serve"), [(8, 1.0, 0.1), (4, 0.5, 0.2)])
    def test_a_fair_server_is_a_closed_network_of_processor_sharing(
        self, workers: int, think: float, serve: float
    ) -> None:
        # Computing (a delay), the port for pushes and the port for reads (processor sharing,
        # insensitive to the law of the service: constant here). Mean value analysis, exact:
        # R_n = S (1 + Q_(n-1)) at each port, X_n = n / (Z + 2 R_n), Q_n = X_n R_n.
        # (Reiser and Lavenberg, 1980; Baskett et al., 1975.)
        queue = rate = 0.0
        for number in range(1, workers + 1):
            response = serve * (1 + queue)
            rate = number / (think + 2 * response)
            queue = rate * response
        trace = run(
            "none",
            network={"bandwidth": 100 / serve, "latency": 0.0, "sharing": "fair"},
            problem={"dimension": 25},
            cluster={"workers": workers, "compute": {"kind": "exponential", "mean": think}},
            stop={"global_steps": 8000},
        )

        assert_mean_in_time(step_times(trace)[400:], 1 / rate)
