"""`check` of variables: what they are in plain words, what a step takes, how much is to be done."""

from tests.programs import MODES, WIRE, add, read, scenario, trace, variable
from varsim.report.words.program.scenario import beginnings, describe
from varsim.study.program.beginning import begin_program


class TestTheBeginning:
    def test_of_a_short_program_is_the_whole(self) -> None:
        made = scenario((add(1.0),), (read(every=2),), steps=4)
        for mode, begun in zip(MODES, begin_program(made), strict=True):
            done = trace(made, mode)
            assert (begun.mode, begun.steps, begun.beyond) == (mode, 4, False)
            assert begun.measured == {
                "time_per_step": (done.end - done.began) / 1e9 / 4,
                "bytes_per_step": done.moved / 4,
                "messages_per_step": done.messages / 4,
            }

    def test_of_a_long_one_is_some_steps(self) -> None:
        made = scenario((add(1.0),), (read(every=7),), steps=10_000)
        begun = begin_program(made)
        assert [one.steps for one in begun] == [14, 14, 14]  # whole times of what is rarest
        # 12 bytes of 1 us and 100 us of latency twice a write; a read takes 2 messages.
        assert beginnings(begun, 7)[0] == (
            "  on_read   15.4 us a step (mean of 14 steps): 1.14 B in 0.286 messages"
        )

    def test_what_lies_beyond_it_is_told(self) -> None:
        made = scenario((add(1.0),), (read(every=5000),), steps=10_000)
        lines = beginnings(begin_program(made), 5000)
        assert all(
            line.endswith("; what happens every 5,000 steps lies beyond them") for line in lines
        )

    def test_what_is_too_much_is_not_begun(self) -> None:
        made = scenario(
            (add(1.0),),
            cluster={"workers": 1000},
            variables=(variable(shape=(1_000_000,)),),
            modes=("on_write",),
        )
        (line,) = beginnings(begin_program(made), 1)
        assert line == "  on_write  not begun: one step does more than check has time for"


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
        "test: 2 variables, 2 modes, 1 replication of each, seed 0",
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
