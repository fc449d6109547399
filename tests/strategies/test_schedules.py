"""Every strategy on constant times, against schedules worked out by hand; all times in ms."""

import pytest

from tests.building import (
    MS,
    Model,
    fates,
    gradient_rows,
    life,
    losses,
    milliseconds,
    run,
    scenario,
    slow,
    staleness,
)
from varsim.values.gradient import Parameters

# 100 bytes take 10 ms, a message is 1 ms on its way besides.
SMALL = {"bandwidth": 1e4, "latency": 1e-3, "sharing": "first_come"}


def test_on_write_with_a_straggler_and_latency() -> None:
    # 300 bytes over a ring of 3: chunks of 100 bytes hold a link 10 and arrive 1 later, in 4
    # rounds. Workers 0 and 1 compute 100, worker 2 takes 200.
    #
    # from->to   entry  round 0     round 1     round 2     round 3     has sent, received all
    # 0 -> 1     100    100 -> 111  211 -> 222  221 -> 232  231 -> 242  w0: 241, 244
    # 1 -> 2     100    100 -> 111  111 -> 122  222 -> 233  232 -> 243  w1: 242, 242
    # 2 -> 0     200    200 -> 211  210 -> 221  220 -> 231  233 -> 244  w2: 243, 243
    #
    # Each goes on at its own end; the step counts at the last, 244. Second step: entries 344,
    # 342, 443.
    #
    # 0 -> 1     344    344 -> 355  454 -> 465  464 -> 475  474 -> 485  w0: 484, 487
    # 1 -> 2     342    342 -> 353  355 -> 366  465 -> 476  475 -> 486  w1: 485, 485
    # 2 -> 0     443    443 -> 454  453 -> 464  463 -> 474  476 -> 487  w2: 486, 486
    #
    # Waiting for others ends when the last has come.
    trace = run(
        "on_write",
        network=SMALL,
        problem={"dimension": 75},
        cluster={"slow_workers": (slow(2, 2.0),)},
        stop={"global_steps": 2},
    )

    assert milliseconds(trace.steps) == [244, 487]
    assert life(trace, 0) == [
        ("compute", 0, 100),
        ("barrier", 100, 200),
        ("write", 200, 244),
        ("compute", 244, 344),
        ("barrier", 344, 443),
        ("write", 443, 487),
    ]
    assert life(trace, 1)[:4] == [
        ("compute", 0, 100),
        ("barrier", 100, 200),
        ("write", 200, 242),
        ("compute", 242, 342),
    ]
    # Each reads its own copy when it goes on: 0, then its end of the first step.
    reads = {(row.worker, row.iteration): row.read // MS for row in gradient_rows(trace)}
    assert [reads[worker, 0] for worker in range(3)] == [0, 0, 0]
    assert [reads[worker, 1] for worker in range(3)] == [244, 242, 243]
    assert life(trace, 2)[:3] == [
        ("compute", 0, 200),
        ("write", 200, 243),
        ("compute", 243, 443),
    ]
    assert staleness(trace) == [0] * 6
    assert [link.moved for link in trace.links] == [2 * 4 * 100.0] * 6


def test_the_last_evaluation_shows_as_many_updates_as_it_says() -> None:
    # As above with worker 1 as the straggler: everybody's successor one further on. In the second
    # step worker 0 is done at 485, workers 1 and 2 at 486 and 487; the run ends at 485.5.
    changes = {"problem": {"dimension": 75}, "stop": {"time": 0.4855}}
    cluster = {"slow_workers": (slow(1, 2.0),)}
    trace = run("on_write", network=SMALL, cluster=cluster, **changes)
    model = Model(scenario({"kind": "on_write"}, **changes))
    once = model.step(model.start, model.gradient(model.start, 0, 0))
    twice = model.step(once, model.gradient(once, 0, 1))

    assert milliseconds(trace.steps) == [244]
    last = trace.evaluations[-1]
    shown = {1: model.loss(once), 2: model.loss(twice)}
    assert last.loss == pytest.approx(shown[last.global_step], rel=1e-12)


def test_slow_worker_scenario_costs_what_the_closed_forms_say() -> None:
    # 8 workers of 1 s, one of 4 s, no network (slow-worker-01 to 03). Gradients used per second:
    # with a barrier 8 / 4 s; without, 7 + 1/4. Waiting for 7 of 8 would give 7 / 1 s, but tokens
    # make every update cost 8 iterations, and all workers together make 7.25 a second: no more
    # than 7.25 / 8 updates of 7 gradients, 6.34 a second.
    cluster = {
        "workers": 8,
        "compute": {"kind": "constant", "value": 1.0},
        "slow_workers": (slow(7, 4.0),),
    }

    def used(strategy: dict[str, object]) -> float:
        trace = run(strategy, cluster=cluster, stop={"time": 400.0})
        return len(staleness(trace)) / 400

    assert used({"kind": "on_write"}) == 2.0
    assert used({"kind": "none"}) == 7.25
    assert used({"kind": "sync_replicas", "replicas_to_aggregate": 8}) == pytest.approx(
        2.0, abs=8 * 2 / 400
    )
    assert used({"kind": "sync_replicas", "replicas_to_aggregate": 7}) <= 7 * 7.25 / 8


class TestOnRead:
    """2 workers of 100 and 300; 200 bytes: a ring of 2 takes 2 x (10 + 1) = 22."""

    CHANGES = {
        "network": SMALL,
        "problem": {"dimension": 50, "noise": 1.0},
        "cluster": {"workers": 2, "slow_workers": (slow(1, 3.0),)},
        "stop": {"time": 1.3},
    }

    def values(self, aggregation: str, write_back: bool) -> list[float]:
        """The losses an outsider reads at the start, after 2 and after 4 steps."""
        model = Model(scenario({"kind": "on_read"}, **self.CHANGES))
        copies = [model.start, model.start]

        def read() -> Parameters:
            (a,), (b,) = copies
            return ({"mean": (a + b) / 2, "sum": a + b, "only_first_replica": a}[aggregation],)

        seen = [model.loss(read())]
        for step in range(4):
            copies = [
                model.step(copy, model.gradient(copy, worker, step))
                for worker, copy in enumerate(copies)
            ]
            if step % 2:
                seen.append(model.loss(read()))
                if write_back:
                    share = 2 if aggregation == "sum" else 1
                    copies = [(read()[0] / share,)] * 2
        return seen

    @pytest.mark.parametrize("write_back", [False, True])
    @pytest.mark.parametrize("aggregation", ["mean", "sum"])
    def test_all_meet_and_reduce_every_second_step(
        self, aggregation: str, write_back: bool
    ) -> None:
        # Worker 0: 0 -100- -200- meets; worker 1: 0 -300- -600- meets: ring until 622, read.
        # Worker 0: 622 -722- -822- meets; worker 1: -922- -1222-: ring until 1244, read.
        # A step counts when both copies have made it.
        strategy = {
            "kind": "on_read",
            "read_every": 2,
            "aggregation": aggregation,
            "write_back": write_back,
        }
        trace = run(strategy, **self.CHANGES)

        assert milliseconds(trace.steps) == [300, 600, 922, 1222]
        assert life(trace, 0) == [
            ("compute", 0, 100),
            ("compute", 100, 200),
            ("barrier", 200, 600),
            ("write", 600, 622),
            ("compute", 622, 722),
            ("compute", 722, 822),
            ("barrier", 822, 1222),
            ("write", 1222, 1244),
            ("compute", 1244, 1300),
        ]
        assert [(row.time / MS, row.global_step) for row in trace.evaluations] == [
            (0, 0),
            (622, 2),
            (1244, 4),
        ]
        assert losses(trace) == self.values(aggregation, write_back)
        # What others had done and this copy had not, at each read of it:
        #   time      0 w0, 0 w1, 100 w0, 300 w1,  622 w0, w1,  722 w0,  922 w1,  1244 w0, w1
        #   all made  0     0     1       3        4       4    5        7        8        8
        #   its own   0     0     1       1        2       2    3        3        4        4
        # Writing back at 622 makes a copy contain all 4 updates that were made by then.
        expected = [0, 0, 0, 2, 0, 0, 0, 2, 0, 0] if write_back else [0, 0, 0, 2, 2, 2, 2, 4, 4, 4]
        assert trace.copy_staleness.tolist() == expected

    def test_the_first_replica_alone_costs_the_meeting_only(self) -> None:
        # No bytes: meet at 600, go on at 600; meet at 1200.
        strategy = {"kind": "on_read", "read_every": 2, "aggregation": "only_first_replica"}
        trace = run(strategy, **self.CHANGES)

        assert milliseconds(trace.steps) == [300, 600, 900, 1200]
        assert [row.time / MS for row in trace.evaluations] == [0, 600, 1200]
        assert losses(trace) == self.values("only_first_replica", False)
        assert life(trace, 0)[2:4] == [("barrier", 200, 600), ("compute", 600, 700)]
        assert sum(link.moved for link in trace.links) == 0

    def test_writing_back_the_first_replica_is_a_broadcast(self) -> None:
        # At 600 worker 0 sends 200 bytes: 20 on the link, 1 on the way: 621. Again at 1221.
        strategy = {
            "kind": "on_read",
            "read_every": 2,
            "aggregation": "only_first_replica",
            "write_back": True,
        }
        trace = run(strategy, **self.CHANGES)

        assert milliseconds(trace.steps) == [300, 600, 921, 1221]
        assert losses(trace) == self.values("only_first_replica", True)
        assert life(trace, 0)[2:4] == [("barrier", 200, 600), ("write", 600, 621)]
        assert life(trace, 1)[2:3] == [("read", 600, 621)]

    @pytest.mark.parametrize(
        ("sharing", "arrivals"), [("first_come", [621, 641]), ("fair", [641, 641])]
    )
    def test_a_broadcast_leaves_worker_0_over_its_one_link(
        self, sharing: str, arrivals: list[int]
    ) -> None:
        # To workers 1 and 2, 20 each. One after the other: 620 + 1, 640 + 1. Together: 640 + 1.
        trace = run(
            {
                "kind": "on_read",
                "read_every": 2,
                "aggregation": "only_first_replica",
                "write_back": True,
            },
            network={**SMALL, "sharing": sharing},
            problem={"dimension": 50},
            cluster={"slow_workers": (slow(1, 3.0),)},
            stop={"time": 0.65},
        )

        assert [life(trace, worker)[-1] for worker in range(3)] == [
            ("compute", 641, 650),
            ("compute", arrivals[0], 650),
            ("compute", arrivals[1], 650),
        ]


class TestNone:
    """Asynchronous; 100 bytes: 10 on each link, 1 on the way."""

    CHANGES = {
        "network": SMALL,
        "problem": {"dimension": 25, "noise": 1.0},
        "cluster": {"workers": 2, "slow_workers": (slow(1, 3.0),)},
        "workload": {"evaluate_every": 1},
        "stop": {"global_steps": 7},
    }

    def test_values_are_those_of_the_versions_read(self) -> None:
        # As above: the version each of the seven gradients was computed from.
        trace = run("none", **self.CHANGES)
        model = Model(scenario({"kind": "none"}, **self.CHANGES))
        versions = [model.start]
        order = [(0, 0, 0), (0, 1, 1), (1, 0, 0), (0, 2, 2), (0, 3, 4), (0, 4, 5), (1, 1, 3)]
        for worker, iteration, read in order:
            gradient = model.gradient(versions[read], worker, iteration)
            versions.append(model.step(versions[-1], gradient))

        assert losses(trace) == [model.loss(version) for version in versions]

    def test_simgrid_asynchronous_server(self) -> None:
        # Fair links; compute 500, 500, 500, 1000; 100 for a message alone, no latency. SimGrid's
        # scenario begins with computing: pushes of the three fast workers at 0.8, 1.9, 3.0, 4.1,
        # 5.2 s, of the slow one at 1.1, 2.3, 3.5, 4.7, 5.9 s. Here all four read first, sharing
        # the port until 0.4 s: the same, 0.4 s later.
        trace = run(
            "none",
            network={"bandwidth": 1e3, "latency": 0.0, "sharing": "fair"},
            problem={"dimension": 25},
            cluster={
                "workers": 4,
                "compute": {"kind": "constant", "value": 0.5},
                "slow_workers": (slow(3, 2.0),),
            },
            stop={"global_steps": 20},
        )

        pushes = [[f.time for f in fates(trace) if f.worker == worker] for worker in range(4)]
        assert pushes[:3] == [[1200, 2300, 3400, 4500, 5600]] * 3
        assert pushes[3] == [1500, 2700, 3900, 5100, 6300]

    def test_a_read_between_two_variables_is_torn(self) -> None:
        # weights 96 bytes, bias 4 bytes; workers have 1 kB/s, worker 0 a tenth of it, the server
        # plenty. Worker 0: reads ..1000, computes ..1100, weights arrive at 2060, bias at 2100.
        # Worker 1: reads ..100, computes 1875 ..1975, weights 2071, bias 2075 (update 1); reads
        # again at 2075: worker 0's weights are in, its bias is not. Update 2 at 2100.
        # Worker 0: reads ..3100, computes ..3200, weights 4160, bias 4200 (update 3).
        # Worker 1: reads ..2175, computes 2500 ..4675, weights 4771, bias 4775 (update 4).
        changes = {
            "network": {
                "bandwidth": 1e3,
                "server_bandwidth": 1e15,
                "latency": 0.0,
                "sharing": "first_come",
                "slow_links": (slow(0, 10.0),),
            },
            "problem": {"kind": "linear_regression", "features": 24},
            "cluster": {
                "workers": 2,
                "compute": {"kind": "trace", "seconds": ((0.1,), (1.875, 2.5))},
            },
            "workload": {"evaluate_every": 1},
            "stop": {"global_steps": 4},
        }
        trace = run("none", **changes)

        assert milliseconds(trace.steps) == [2075, 2100, 4200, 4775]
        assert staleness(trace) == [0, 1, 0, 2]
        model = Model(scenario({"kind": "none"}, **changes))
        start, first = model.start, model.gradient(model.start, 0, 0)
        half = model.step(start, [first[0], None])  # 2060
        one = model.step(half, model.gradient(start, 1, 0))  # 2071, 2075
        two = model.step(one, [None, first[1]])  # 2100
        three = model.step(two, model.gradient(two, 0, 1))
        four = model.step(three, model.gradient(one, 1, 1))
        versions = (start, one, two, three, four)
        assert losses(trace) == [model.loss(version) for version in versions]
