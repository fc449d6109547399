"""Reads and writes on the back of an envelope: as simulated where all links are equal."""

from typing import Any

import pytest
from programs import MODES, WIRE, add, read, scenario, trace, variable

from varsim.distribute.program.running import Mode
from varsim.scenario.variables import VariablesScenario
from varsim.study.variables_estimate import (
    describe,
    expected_events,
    prices,
    slowest_computes,
    steps,
)

WRITE = {"kind": "assign", "variable": "v", "value": 1.0}
PROGRAMS: dict[str, dict[str, Any]] = {
    "write in replicas": {"replicas": (WRITE,)},
    "read in replicas": {"replicas": (read(),)},
    "write outside": {"outside": (WRITE,)},
    "read outside": {"outside": (read(),)},
    "restore": {"outside": ({"kind": "save"}, {"kind": "restore"})},
}
SHAPES: dict[str, tuple[int, ...]] = {"a number": (), "small": (100,), "large": (10_000,)}


def compare(made: VariablesScenario, mode: Mode, within: float) -> None:
    """Estimated and simulated time within a share of it, bytes and messages exactly."""
    found = trace(made, mode)
    price = steps(made)[mode]
    assert price.time == pytest.approx((found.end - found.began) / 1e9, rel=within, abs=1e-9)
    assert (price.size, price.messages) == (found.moved, found.messages)


def whole(workers: int, program: str, **changes: Any) -> VariablesScenario:
    """One doing alone; sizes and dtypes of the variable as given."""
    network = {**WIRE, **changes.pop("network", {})}
    described = {key: changes.pop(key) for key in ("shape", "dtype", "aggregation")
                 if key in changes}  # fmt: skip
    cluster = {"workers": workers, "network": network}
    variables = (variable(**described),)
    return scenario(**PROGRAMS[program], cluster=cluster, variables=variables, **changes)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("workers", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sharing", ["fair", "first_come"])
def test_with_equal_links_it_is_exact(program: str, workers: int, shape: str, sharing: str) -> None:
    """Within 1e-6 of the simulated time, and bytes and messages to the last: in all modes."""
    for aggregation in ("sum", "mean", "only_first_replica"):
        made = whole(
            workers, program, shape=SHAPES[shape], aggregation=aggregation,
            network={"sharing": sharing},
        )  # fmt: skip
        for mode in MODES:
            compare(made, mode, 1e-6)


@pytest.mark.parametrize("workers", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("algorithm", ["hierarchical_copy", "reduction_to_one_device"])
@pytest.mark.parametrize("dtype", ["float64", "int64", "float32"])
def test_so_it_is_with_every_algorithm(workers: int, algorithm: str, dtype: str) -> None:
    made = whole(workers, "write in replicas", shape=(1000,), dtype=dtype,
                 modes=("on_write",), cross_device_ops=algorithm)  # fmt: skip
    compare(made, "on_write", 1e-6)


def test_int32_goes_to_one_device_whatever_the_algorithm() -> None:
    made = whole(4, "write in replicas", shape=(1000,), dtype="int32", modes=("on_write",))
    compare(made, "on_write", 1e-6)
    (found,) = prices(made)
    assert found.price.why == "3 x 4 kB to replica 0, and back"


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("rank", [0, 1, 3])
@pytest.mark.parametrize(("sharing", "within"), [("fair", 0.01), ("first_come", 0.45)])
def test_with_a_slow_link_it_is_near(program: str, rank: int, sharing: str, within: float) -> None:
    """Within this share of the simulated time; bytes and messages are exact all the same.

    Served one after the other, the slow one may come last, and wait for all before it.
    """
    slow = {"slow_links": ({"rank": rank, "factor": 3.0},), "sharing": sharing}
    made = whole(4, program, shape=(10_000,), network=slow)
    for mode in MODES:
        compare(made, mode, within)


def test_links_of_servers_count() -> None:
    for rate in (1e5, 3e6):
        for program in PROGRAMS:
            made = whole(3, program, shape=(1000,), network={"server_bandwidth": rate})
            compare(made, "none", 1e-6)


class TestSteps:
    @pytest.mark.parametrize(
        ("mode", "within"), [("on_read", 0.05), ("on_write", 0.05), ("none", 0.4)]
    )
    def test_a_whole_program(self, mode: Mode, within: float) -> None:
        """Near the simulated time; without copies replicas drift apart, and share links less."""
        law = {"kind": "shifted_exponential", "minimum": 0.01, "mean": 0.012}
        cluster = {"workers": 6, "compute": law, "network": WIRE, "parameter_servers": 2}
        lines = ({"kind": "compute"}, add(1.0, times=3), {**add(1.0), "variable": "w"}, read())
        made = scenario(
            lines,
            (read(), {"kind": "save", "every": 5}),
            steps=100,
            cluster=cluster,
            variables=(variable(shape=(100,)), variable(name="w", shape=(400,))),
        )
        found = trace(made, mode)
        price = steps(made)[mode]
        assert price.time == pytest.approx((found.end - found.began) / 1e11, rel=within)
        assert price.messages == found.messages / 100
        assert price.size == found.moved / 100

    def test_a_moving_average_reads_and_writes(self) -> None:
        line = {"kind": "moving_average", "variable": "v", "value": 1.0, "momentum": 0.9}
        made = scenario((line,), variables=(variable(aggregation="mean"),))
        assert [one.doing for one in prices(made)] == ["read in replicas", "write in replicas"] * 3
        for mode in MODES:
            compare(made, mode, 1e-6)

    def test_a_variable_keeps_its_own_synchronization(self) -> None:
        variables = (variable(), variable(name="w", synchronization="on_write"))
        lines = (add(1.0), {**add(1.0), "variable": "w"})
        made = scenario(lines, variables=variables, modes=("on_read",))
        compare(made, "on_read", 1e-6)
        assert [one.price.messages for one in prices(made)] == [0, 4]

    def test_what_happens_every_other_step_of_three_happens_once(self) -> None:
        made = scenario(
            (add(1.0, every=2), read()),
            (read(), {"kind": "save", "every": 2}, {"kind": "restore", "every": 2}),
            steps=3,
        )
        for mode in MODES:
            found, price = trace(made, mode), steps(made)[mode]
            assert price.time == pytest.approx((found.end - found.began) / 3e9, rel=1e-6)
            assert (3 * price.size, 3 * price.messages) == (found.moved, found.messages)

    @pytest.mark.parametrize("every", [1, 3, 9])
    @pytest.mark.parametrize("mode", MODES)
    def test_slow_workers_count_where_all_meet(self, mode: Mode, every: int) -> None:
        """Exact for a constant law: who is slow is always the same one."""
        cluster = {
            "compute": {"kind": "constant", "value": 0.01},
            "slow_workers": ({"rank": 1, "factor": 3.0},),
        }
        lines = ({"kind": "compute", "times": 2}, add(1.0), {"kind": "compute"})
        made = scenario(lines, (read(every=every),), steps=9, cluster=cluster)
        found = trace(made, mode)
        within = 0.01 if mode == "none" else 1e-6
        assert steps(made)[mode].time == pytest.approx((found.end - found.began) / 9e9, rel=within)

    def test_who_waits_less_often_is_estimated_to_be_faster(self) -> None:
        """Within 5 % of a long run; one replica's time is 10 ms, the slowest of 4's 20.8 ms."""
        cluster = {"workers": 4, "compute": {"kind": "exponential", "mean": 0.01}}
        lines = ({"kind": "compute"}, add(1.0))
        made = scenario(lines, (read(every=5),), steps=1000, cluster=cluster)
        prices_by_mode = steps(made)
        for mode in MODES:
            found = trace(made, mode)
            took = (found.end - found.began) / 1e12
            assert prices_by_mode[mode].time == pytest.approx(took, rel=0.05)
        assert prices_by_mode["on_read"].time < 0.75 * prices_by_mode["on_write"].time
        assert prices_by_mode["on_write"].why == "compute: the slowest replica of every step"
        assert prices_by_mode["on_read"].why == (
            "compute: the slowest sum since replicas last met, 200 times in 1,000 steps"
        )

    @pytest.mark.parametrize("aggregation", ["none", "only_first_replica"])
    def test_only_writes_that_merge_are_waited_for(self, aggregation: str) -> None:
        cluster = {"workers": 2, "compute": {"kind": "exponential", "mean": 0.01}}
        lines = ({"kind": "compute"}, {**add(1.0), "kind": "assign"})
        made = scenario(
            lines, steps=1000, cluster=cluster, variables=(variable(aggregation=aggregation),),
            modes=("on_write",),
        )  # fmt: skip
        found = trace(made, "on_write")
        took = (found.end - found.began) / 1e12
        assert steps(made)["on_write"].time == pytest.approx(took, rel=0.05)

    def test_events_are_messages_and_acts(self) -> None:
        made = scenario(
            (add(1.0, times=2),), (read(),), steps=10, vary={"reads_per_write": (0, 1, 2)}
        )
        # 3 x 2 acts in replicas; outside 1 as written, then 0, 2 and 4. Messages: 2 a read for
        # on_read, 2 x 4 for on_write, 6 and 1 a read for none.
        outside = (1, 0, 2, 4)
        acts = sum(3 * (6 + reads) for reads in outside)
        messages = sum(2 * reads + 8 + 6 + reads for reads in outside)
        assert expected_events(made) == 10 * (acts + messages)

    def test_events_are_near_what_is_simulated(self) -> None:
        made = scenario((add(1.0),), (read(),), steps=10)
        traces = [trace(made, mode) for mode in MODES]
        assert expected_events(made) == sum(one.all_acts + one.messages for one in traces)


def test_the_slowest_of_many_is_the_mean_of_the_largest() -> None:
    law = {"kind": "exponential", "mean": 1.0}
    slow = ({"rank": 0, "factor": 1.0},)
    made = scenario(({"kind": "compute"}, add(1.0)), cluster={
        "workers": 64, "compute": law, "network": WIRE, "slow_workers": slow})  # fmt: skip
    # Mean of the largest of 64: H_64 = 4.744, standard error of 2048 rounds about 0.03.
    found = slowest_computes(made.cluster, 0, [1, 100, 1600])
    assert found[1] == pytest.approx(4.744, abs=0.1)
    # Sums of many are nearly normal: 2.35 standard deviations above the mean, a bit more of 100.
    assert found[100] == pytest.approx(100 + 2.4 * 10, abs=3)
    assert found[1600] == pytest.approx(1600 + 2.4 * 40, abs=15)
    assert slowest_computes(scenario((add(1.0),)).cluster, 0, [1]) == {1: 0}


def test_a_scenario_in_plain_words() -> None:
    made = scenario(
        (
            {"kind": "compute"},
            add(3.0, 1.0, 2.0, times=2, every=2),
            {**add({"kind": "normal", "standard_deviation": 0.5}), "variable": "w"},
        ),
        (read(), {"kind": "save", "every": 2}),
        steps=4,
        cluster={
            "workers": 3,
            "compute": {"kind": "constant", "value": 0.1},
            "slow_workers": ({"rank": 2, "factor": 3.0, "after": 2.0, "until": 5.0},),
            "network": {**WIRE, "slow_links": ({"rank": 1, "factor": 4.0},)},
        },
        variables=(variable(), variable(name="w", shape=(2, 3), synchronization="on_read")),
        modes=("on_read", "on_write"),
        cross_device_ops="hierarchical_copy",
    )
    text = "\n".join(describe(made))
    for words in (
        "test: variables 2, modes 2, replications of each 1, seed 0",
        "replicas     3, one on each worker",
        "compute      100 ms on average, law constant (value 100 ms)",
        "worker 2 takes 3 times as long from 2 s to 5 s",
        "network      8 Mbit/s per worker each way, latency 100 us, fair links",
        "worker 1 has 1/4 of that bandwidth",
        "variable     v: float32, 4 B, starts as 0, aggregation sum",
        "variable     w: float32, shape [2, 3], 24 B, starts as 0, aggregation sum, always on_read",
        "mode         on_write - mirrored copies, aggregated when replicas write",
        "reduced by   hierarchical_copy",
        "steps        4",
        "replicas do  compute",
        "replicas do  assign_add v value [3, 1, 2], 2 times, every 2 steps",
        "replicas do  assign_add w value {kind: normal, mean: 0, standard_deviation: 0.5}",
        "then outside save, every 2 steps",
    ):
        assert words in text
    assert "servers" not in text
    varied = scenario((add(1.0),), (read(),), vary={"reads_per_write": (0, 1)})
    assert describe(varied)[-1] == "  varied       outside reads per write: 0, 1"
    assert any(line.startswith("  servers      1 at 8 Mbit/s") for line in describe(varied))
