"""The synchronous replicas on constant times, by hand: tokens, stale gradients; all times in ms."""

import math

from tests.building import (
    APPLIED,
    DROPPED,
    PARTLY,
    Fate,
    Model,
    fates,
    gradient_rows,
    life,
    losses,
    mean,
    milliseconds,
    phase_time,
    run,
    scenario,
    slow,
    staleness,
)
from tests.seams import Phase, Trace

# 100 bytes take 10 ms, a message is 1 ms on its way besides.
SMALL = {"bandwidth": 1e4, "latency": 1e-3, "sharing": "first_come"}


def sync(aggregate: int, **settings: int) -> dict[str, object]:
    return {"kind": "sync_replicas", "replicas_to_aggregate": aggregate, **settings}


def workers(*factors: float) -> dict[str, object]:
    """Workers of 100 times these factors."""
    entries = tuple(slow(rank, factor) for rank, factor in enumerate(factors) if factor != 1)
    return {"workers": len(factors), "slow_workers": entries}


def story(text: str) -> list[Fate]:
    """Fates from lines of `time: worker#iteration ...`, with a minus before what is dropped."""
    told = []
    for line in text.split("\n"):
        time, _, gradients = line.partition(":")
        for word in gradients.split():
            worker, iteration = map(int, word.lstrip("-").split("#"))
            outcome = DROPPED if word.startswith("-") else APPLIED
            told.append(Fate(worker, iteration, float(time), outcome))
    return told


class TestSyncReplicas:
    """Times of computing only: messages take none. 0#2(1) is worker 0's third gradient, label 1.

    In brackets the token queue after the line. Who pushes takes the oldest token.
    """

    def check(self, trace: Trace, updates: list[float], told: str) -> None:
        assert milliseconds(trace.steps) == updates
        assert fates(trace) == story(told)
        assert set(staleness(trace)) == {0}
        assert phase_time(trace, Phase.BARRIER) == 0

    def test_an_unfetched_token_costs_the_fast_worker_an_iteration(self) -> None:
        # N = 1, T = 2: one backup worker; workers of 100 and 260. At the start [0].
        # 100  0#0(0) in, UPDATE 1      [0 1 1], takes 0: [1 1]
        # 200  0#1(0) dropped, takes 1  [1]
        # 260  1#0(0) dropped, takes 1  []
        # 300  0#2(1) in, UPDATE 2      [2 2], takes 2: [2]
        # 400  0#3(2) in, UPDATE 3      [2 3 3], takes 2: [3 3]   stale as it is handed out
        # 500  0#4(2) dropped, takes 3  [3]                       the lost iteration
        # 520  1#1(1) dropped, takes 3  []
        # 600  0#5(3) in, UPDATE 4      [4 4], takes 4: [4]
        # 700  0#6(4) in, UPDATE 5      [4 5 5], takes 4: [5 5]
        # 780  1#2(3) dropped, takes 5  [5]
        # 800  0#7(4) dropped, takes 5  []
        # 900  0#8(5) in, UPDATE 6
        trace = run(sync(1), cluster=workers(1, 2.6), stop={"global_steps": 6})

        self.check(
            trace,
            [100, 300, 400, 600, 700, 900],
            """100: 0#0
            200: -0#1
            260: -1#0
            300: 0#2
            400: 0#3
            500: -0#4
            520: -1#1
            600: 0#5
            700: 0#6
            780: -1#2
            800: -0#7
            900: 0#8""",
        )
        # Worker 0 read at step 3 for its gradient 4: not stale by values, dropped by its label.
        lost = gradient_rows(trace)[5]
        assert (lost.worker, lost.iteration) == (0, 4)
        assert (lost.read_step, lost.applied_step) == (2, 3)
        assert lost.read == trace.steps[2]

    def test_simgrid_synchronous_server(self) -> None:
        # Fair links; compute 500, 100 for a message alone, no latency; 4 workers, N = T = 4.
        # Four reads or pushes at once take 400. SimGrid's scenario begins with computing: updates
        # at 0.9, 2.2, 3.5 s, replies at 3.9 s. Here all read first (0.4 s later), and after the
        # first update each takes a token that was there at the start: the second iterations, all
        # labelled 0, are in vain. So 1.3, then 2.6 later, and from there on every 1.3 s.
        trace = run(
            sync(4),
            network={"bandwidth": 1e3, "latency": 0.0, "sharing": "fair"},
            problem={"dimension": 25},
            cluster={"workers": 4, "compute": {"kind": "constant", "value": 0.5}},
            stop={"global_steps": 4},
        )

        assert milliseconds(trace.steps) == [1300, 3900, 5200, 6500]
        dropped = [fate for fate in fates(trace) if fate.outcome == DROPPED]
        assert dropped == [Fate(worker, 1, 2600, DROPPED) for worker in range(4)]
        assert life(trace, 0)[-5:] == [
            ("queue", 5200, 5500),
            ("read", 5500, 5600),
            ("compute", 5600, 6100),
            ("queue", 6100, 6400),
            ("write", 6400, 6500),
        ]

    def test_first_come_links_spread_the_workers_out(self) -> None:
        # N = T = 2 equal workers, 100 bytes: 10 per link, 1 on the way, no tokens at the start.
        # worker 0: reads ..11, computes ..111, pushes ..122, waits
        # worker 1: reads ..21 (10 queueing), computes ..121, pushes ..132: UPDATE 1, token
        # Both read at 132, worker 0 first, as it asked for its token first: 143 and 153; 243 and
        # 253; 254 and 264: UPDATE 2.
        trace = run(
            sync(2, initial_tokens=0),
            network=SMALL,
            problem={"dimension": 25},
            cluster={"workers": 2},
            stop={"global_steps": 2},
        )

        assert milliseconds(trace.steps) == [132, 264]
        assert life(trace, 0) == [
            ("read", 0, 11),
            ("compute", 11, 111),
            ("write", 111, 122),
            ("token", 122, 132),
            ("read", 132, 143),
            ("compute", 143, 243),
            ("write", 243, 254),
            ("token", 254, 264),
        ]
        assert life(trace, 1)[3:] == [
            ("write", 121, 132),
            ("queue", 132, 142),
            ("read", 142, 153),
            ("compute", 153, 253),
            ("write", 253, 264),
        ]


class TestVariablesAreIndependent:
    """Weights of 96 bytes and a bias of 4; workers have 1 kB/s, worker 1 a tenth; a fast server.

    Worker 1 reads ..1000 and computes ..1100: its weights arrive at 2060, its bias at 2100.
    Worker 0 reads ..100 and computes 1880 ..1980: weights at 2076, bias at 2080.
    Worker 2 computes 1882: weights at 2078, bias at 2082.
    """

    def changes(self, number: int) -> dict[str, object]:
        return {
            "network": {
                "bandwidth": 1e3,
                "server_bandwidth": 1e15,
                "latency": 0.0,
                "sharing": "first_come",
                "slow_links": (slow(1, 10.0),),
            },
            "problem": {"kind": "linear_regression", "features": 24},
            "cluster": workers(*(18.8, 1, 18.82)[:number]),
            "workload": {"evaluate_every": 1, "batch_size": 4},
            "stop": {"global_steps": 1},
        }

    def test_a_gradient_is_accepted_for_one_variable_and_dropped_for_another(self) -> None:
        # N = 1. 2060 weights: worker 1 makes the update. 2076 weights of worker 0: dropped.
        # 2080 bias: worker 0 makes the update, and with it step 1. 2100 bias of worker 1: dropped.
        changes = {**self.changes(2), "stop": {"time": 2.11}}
        trace = run(sync(1), **changes)

        assert milliseconds(trace.steps) == [2080]
        assert fates(trace)[:2] == [Fate(0, 0, 2080, PARTLY), Fate(1, 0, 2100, PARTLY)]
        assert [row.parts_applied for row in gradient_rows(trace)[:2]] == [1, 1]
        # Of 4 examples half were used when the step was counted.
        assert trace.evaluations[-1].examples == 2
        model = Model(scenario({"kind": "none"}, **changes))
        zero, one = (model.gradient(model.start, worker, 0) for worker in range(2))
        assert losses(trace)[-1] == model.loss(model.step(model.start, [one[0], zero[1]]))

    def test_variables_average_different_workers_in_one_update(self) -> None:
        # N = 2, T = 3. Weights: workers 1 (2060) and 0 (2076), not 2 (2078).
        # Bias: workers 0 (2080) and 2 (2082), not 1 (2100).
        changes = {**self.changes(3), "stop": {"time": 2.11}}
        trace = run(sync(2), **changes)

        assert milliseconds(trace.steps) == [2082]
        assert fates(trace)[:3] == [
            Fate(0, 0, 2080 + 2, APPLIED),
            Fate(2, 0, 2082, PARTLY),
            Fate(1, 0, 2100, PARTLY),
        ]
        model = Model(scenario({"kind": "none"}, **changes))
        zero, one, two = (model.gradient(model.start, worker, 0) for worker in range(3))
        assert trace.evaluations[-1].examples == 4 + 2
        update = [mean([one[0], zero[0]]), mean([zero[1], two[1]])]
        assert losses(trace)[-1] == model.loss(model.step(model.start, update))
        assert trace.gradients_aggregated == trace.gradients_evaluated == 3


def test_every_update_costs_as_many_iterations_as_tokens() -> None:
    # T = 8 workers, N = 4, random times. TensorFlow, measured: 964 iterations for 120 updates.
    # Iterations = initial tokens + 8 x updates - tokens left, at most 16 or so of them.
    trace = run(
        sync(4),
        cluster={
            "workers": 8,
            "compute": {"kind": "shifted_exponential", "minimum": 0.1, "mean": 0.15},
        },
        stop={"global_steps": 120},
    )

    outcomes = [fate.outcome for fate in fates(trace)]
    assert outcomes.count(APPLIED) == 4 * 120
    assert math.isclose(len(outcomes), 8 * 120 + 4, abs_tol=16)
