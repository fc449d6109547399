"""Numbers, replicas and messages in words; and what stands above the table."""

import math

import pytest

from tests.explain.telling import acting, rows_and_looks, scenario
from varsim.distribute.program_run import ValueSummary
from varsim.report.explain.numbers import (
    Spelling,
    added_up,
    beside,
    duration,
    glance,
    listed,
    number,
    per_cent,
    ranks,
    several,
    shared_out,
    side_by_side,
    time,
)
from varsim.report.explain.setting import about, setting
from varsim.report.words.phrases import joined
from varsim.scenario.variables import VariablesScenario

INT32 = "variables.0.dtype=int32"


def scalars(*values: float) -> tuple[ValueSummary, ...]:
    return tuple(ValueSummary((), (value,), float(value)) for value in values)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.0, "3"),
        (-0.0, "0"),
        (2.5, "2.5"),
        (1 / 3, "0.3333"),
        (0.99999, "1.000"),  # not 1
        (-0.99999, "-1.000"),
        (1e-7, "1e-07"),
        (123456.7, "1.235e+05"),
        (1234567.0, "1234567"),
        (2.0**31, "2.147e+09"),
        (2**31, "2147483648"),  # of whole numbers every digit
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_numbers_have_four_digits(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ns"),
        (32, "32 ns"),
        (1_750, "1.75 us"),
        (50_064, "50.1 us"),
        (300_384, "300.4 us"),
        (30_000_000, "30 ms"),
        (2_500_000_000, "2.5 s"),
    ],
)
def test_times_have_three_digits_and_a_unit(nanoseconds: int, text: str) -> None:
    assert time(nanoseconds) == text


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ns"),
        (1_001_800, "1.002 ms"),
        (500_900, "500.9 us"),
        (13_992_000, "13.99 ms"),
        (30_000_000, "30 ms"),
        (1_234_567_000_000, "1234.6 s"),
    ],
)
def test_durations_have_four_digits(nanoseconds: int, text: str) -> None:
    assert duration(nanoseconds) == text


@pytest.mark.parametrize(
    ("value", "spelling", "text"),
    [
        (16777216.0, Spelling(whole=1e9, single=True), "16777216"),
        (987654336.0, Spelling(9, 1e9, True), "987654336"),
        (3e38, Spelling(9, 1e9, True), "3e+38"),
        (0.10000000149011612, Spelling(9, 1e9, True), "0.1"),  # the float32 next to 0.1
        (0.10000000149011612, Spelling(9, 1e16, False), "0.100000001"),
        (1000000.625, Spelling(8, 1e9, True), "1000000.6"),
        (2.0**53, Spelling(whole=1e16), "9007199254740992"),
    ],
)
def test_numbers_with_more_digits(value: float, spelling: Spelling, text: str) -> None:
    assert number(value, spelling) == text


def test_values() -> None:
    assert glance(ValueSummary((), (3.0,), 3.0)) == "3"
    assert glance(ValueSummary((2,), (1.0, 2.5), 1.75)) == "[1, 2.5]"
    assert glance(ValueSummary((5,), (1.0, 2.0, 3.0, 4.0, 5.0), 3.0)) == "[1, 2, ...], average 3"
    assert glance(ValueSummary((99,), (1.0, 2.0, 4.0), 0.5)) == "[1, 2, ...], average 0.5"


def test_values_of_several_replicas() -> None:
    assert beside(scalars(3, 1, 2)) == "3 | 1 | 2"
    assert beside(scalars(3, 3, 3)) == "3"
    assert beside(scalars(*range(20))) == "0 | 1 | 2 | 3 | 4 | ... | 19"
    # What only looks the same is not said to be one value.
    assert beside(scalars(0.33331, 0.33332)) == "0.3333 | 0.3333"
    arrays = [ValueSummary((50,), (1.0, 2.0, 3.0), mean) for mean in (0.5, 1.5)]
    assert beside(arrays) == "arrays with averages 0.5 | 1.5"


def test_copies() -> None:
    assert side_by_side(scalars(3, 1, 2), 3) == ["3 | 1 | 2"]
    assert side_by_side(scalars(6, 6, 6), 3) == ["6 | 6 | 6"]
    assert side_by_side(scalars(*[6] * 5), 5) == ["all: 6"]
    assert side_by_side(scalars(*[0] * 8, 1, 1), 10) == ["0 to 7: 0", "8, 9: 1"]
    assert side_by_side(scalars(*[math.nan] * 9), 9) == ["all: nan"]
    shown = side_by_side(scalars(*range(64)), 70)
    assert shown == ["0: 0", "1: 1", "2: 2", "3: 3", "4: 4", "...", "63: 63", "(the first 64)"]
    arrays = (ValueSummary((50,), (1.0, 2.0, 3.0), 0.5),) * 2
    assert side_by_side(arrays, 2) == ["all: [1, 2, ...], average 0.5"]
    assert side_by_side(scalars(7), 3) == ["7"]  # one copy on a server


class TestFormulas:
    def test_a_sum_and_a_mean(self) -> None:
        six, *parts = scalars(6, 3, 1, 2)
        assert added_up(six, parts) == " = 3 + 1 + 2"
        assert added_up(scalars(2)[0], parts, 3) == " = (3 + 1 + 2) / 3"
        assert added_up(scalars(-1)[0], scalars(-3, 2)) == " = (-3) + 2"

    def test_only_where_it_holds_as_printed(self) -> None:
        thirds = scalars(*[1 / 3] * 3)
        assert added_up(scalars(1)[0], thirds) == ""  # 3 x 0.3333 is not 1
        assert added_up(scalars(5)[0], scalars(3, 1, 2)) == ""
        assert added_up(scalars(math.inf)[0], scalars(math.inf, 1)) == ""

    def test_not_of_arrays_nor_of_too_many_nor_of_one(self) -> None:
        array = ValueSummary((2,), (1.0, 2.0), 1.5)
        assert added_up(array, (array, array)) == ""
        assert added_up(scalars(9)[0], scalars(*[1] * 9)) == ""
        assert added_up(scalars(9)[0], scalars(9)) == ""

    def test_shares(self) -> None:
        seven, six = ValueSummary((), (7,), 7.0), ValueSummary((), (6,), 6.0)
        assert shared_out(six, 3, ValueSummary((), (2,), 2.0)) == "6 / 3 = 2"
        assert shared_out(seven, 2, ValueSummary((), (3,), 3.0)) == "7 / 2 cut to a whole number, 3"
        assert shared_out(*scalars(7), 2, *scalars(3.5)) == "7 / 2 = 3.5"
        assert shared_out(*scalars(7), 3, *scalars(7 / 3)) == "7 / 3, about 2.333"
        assert shared_out(*scalars(math.inf), 3, *scalars(math.inf)) == "inf / 3, which is inf"
        array = ValueSummary((2,), (1.0, 2.0), 1.5)
        assert shared_out(array, 3, array) == "1/3 of it"


def test_replicas() -> None:
    assert ranks([0, 1, 2], 3) == "all"
    assert ranks([0], 1) == "0"
    assert ranks([0, 2, 3, 4], 6) == "0, 2 to 4"
    assert several("worker", [3]) == "worker 3"
    assert several("worker", [1, 0]) == "workers 0, 1"
    assert listed([3, 4, 6]) == "3, 4, 6"
    assert joined(["a"]) == "a"
    assert joined(["a", "b", "c"]) == "a, b and c"
    assert per_cent(0.9) == "10 %"
    assert per_cent(0.99) == "1 %"  # although 1 - 0.99 is not 0.01


class TestSetting:
    def test_machines(self) -> None:
        made = scenario(
            "cluster.network={kind: star, bandwidth: 10 Gbit/s, server_bandwidth: 25 Gbit/s, "
            "latency: 20 us, slow_links: [{rank: 1, factor: 4}]}",
            "cluster.compute={kind: constant, value: 1 ms}",
            "cluster.slow_workers=[{rank: 0, factor: 2}, {rank: 2, factor: 3, after: 1 s, "
            "until: 5 s}]",
            "modes=[on_read, none]",
            "program.replicas=[{kind: compute}, {kind: read, variable: x}]",
        )
        assert dict(setting(made))["machines"] == (
            "3 workers with one replica each; links of 10 Gbit/s each way, latency 20 us; the "
            "links of servers 25 Gbit/s; the link of worker 1 has 1/4 of that; worker 0 computes 2 "
            "times as long; worker 2 computes 3 times as long from 1 s on until 5 s"
        )
        alone = acting("on_read", "sum", ["read"], (), "cluster.workers=1")
        assert dict(setting(alone))["machines"].startswith("1 worker, 1 replica; links of 1 Gbit/s")
        assert "a | b | c" not in dict(setting(alone))

    def test_variables(self) -> None:
        made = scenario(
            "variables=[{name: x, shape: [1000, 10], dtype: float64, initial: 0.5, aggregation: "
            "mean, synchronization: on_write}, {name: y, dtype: int32}]",
            "program.replicas=[{kind: read, variable: x}, {kind: read, variable: y}]",
        )
        assert [text for label, text in setting(made) if label == "variable"] == [
            "x (on_write in every mode): 10,000 x float64 (80 kB), starts as 0.5; aggregation mean",
            "y: one int32 (4 B), starts as 0; aggregation none",
        ]

    def test_how_often_something_happens(self) -> None:
        replicas = [
            f"add, value: 1{more}"
            for more in ("", ", times: 8", ", every: 3", ", every: 2", ", every: 4, times: 2")
        ]
        text = f"program.replicas=[{', '.join(map(action_of, replicas))}]"
        made = scenario("program.steps=7", text)
        assert dict(setting(made))["each step"] == (
            "every replica: add 1 to x; add 1 to x (8 times); add 1 to x (in steps 3 and 6); add 1 "
            "to x (in steps 2, 4 and 6); add 1 to x (2 times, in step 4)"
        )
        longer = scenario("program.steps=8", text)
        assert "add 1 to x (in steps 2, 4, ...)" in dict(setting(longer))["each step"]

    def test_what_is_given(self) -> None:
        drawn = "assign, value: {kind: normal, mean: 2, standard_deviation: 0.5}"
        made = acting("on_read", "sum", [drawn, "add, value: [1.5, 2, 3]"])
        assert dict(setting(made))["each step"] == (
            "every replica: set x to numbers drawn around 2 (standard deviation 0.5); add "
            "1.5 | 2 | 3 to x"
        )

    def test_outside_alone(self) -> None:
        made = acting("on_read", "sum", (), ["read"])
        assert dict(setting(made))["each step"] == "outside: read x"


def action_of(text: str) -> str:
    return f"{{kind: assign_{text}, variable: x}}"


def told_of(made: VariablesScenario) -> list[str]:
    rows, looks = rows_and_looks(made)
    return list(about(looks, rows, made.program.outside))


class TestAbout:
    """What a mode means for the variables, as far as the program shows it."""

    def test_on_read(self) -> None:
        own = (
            "Every replica has its own copy of x; it writes and reads that one alone, and waits "
            "for nobody."
        )
        assert told_of(acting("on_read", "sum", ["add, value: 1"])) == [own]
        assert told_of(acting("on_read", "mean", (), ["read"])) == [
            f"{own} From outside, the value is the mean of all copies: for every read they are "
            "sent to worker 0 and averaged there."
        ]
        assert told_of(acting("on_read", "sum", (), ["save", "restore"])) == [
            f"{own} From outside, the value is the sum of all copies: for every save they are sent "
            "to worker 0 and added up there. What is restored is divided by the number of "
            "replicas, 3: the copies add up to it again."
        ]
        assert told_of(
            acting("on_read", "sum", (), ["save", "restore"], "variables.0.dtype=int32")
        )[0].endswith(
            "replicas, 3, and cut to a whole number: the copies add up to the same or less."
        )
        assert told_of(acting("on_read", "only_first_replica", (), ["read"])) == [
            f"{own} From outside, only the copy of replica 0 counts."
        ]

    def test_on_write(self) -> None:
        start = "Every replica has a copy of x. At a write all replicas wait for each other; "
        end = (
            "So the copies stay equal; a read takes the one on its own machine, and sends nothing."
        )
        ring = (
            "That is a ring all-reduce: 2 (3 - 1) = 4 rounds, in which the workers pass parts on "
            "to their neighbours"
        )
        small = "; something as small as this is one part, so that only one of them sends at a time"
        write = ["add, value: 1"]
        assert told_of(acting("on_write", "sum", write)) == [
            f"{start}what they hand over is added up, and every copy is written with the sum. "
            f"{ring}{small}. {end}"
        ]
        large = acting("on_write", "mean", write, (), "variables.0.shape=[1000]")
        assert told_of(large)[0] == (
            f"{start}what they hand over is averaged, and every copy is written with the mean. "
            f"{ring}. {end}"
        )
        assert told_of(acting("on_write", "only_first_replica", write)) == [
            f"{start}every copy is written with what replica 0 hands over. {end}"
        ]
        one = acting("on_write", "sum", write, (), "cross_device_ops=reduction_to_one_device")
        assert "ring" not in told_of(one)[0]
        odd = acting("on_write", "sum", write, (), "cross_device_ops=hierarchical_copy")
        assert told_of(odd)[0].endswith(
            "Hierarchical copy adds an even number of parts: what replica 2 hands over is lost, as "
            "in TensorFlow."
        )

    def test_drifting_copies(self) -> None:
        apart = (
            "Every replica has a copy of x. As nothing is to be aggregated, a replica writes only "
            "its own copy, and the copies drift apart."
        )
        assert told_of(acting("on_write", "none", ["add, value: 1"])) == [apart]
        assert told_of(acting("on_write", "none", ["add, value: 1"], ["read"])) == [
            f"{apart} From outside, the copy of replica 0 counts, whatever the others hold."
        ]

    def test_on_servers(self) -> None:
        over = (
            "All write and read it over the network, and nobody waits for anybody else: a write "
            "counts when it arrives, and a read sees what had arrived when it began."
        )
        assert told_of(acting("none", "sum", ["add, value: 1"])) == [
            f"One copy of x is on parameter server ps 0. {over} The aggregation of x is not used "
            "under none: every replica's write counts in full."
        ]
        assert told_of(acting("none", "none", ["add, value: 1"])) == [
            f"One copy of x is on parameter server ps 0. {over}"
        ]
        three = scenario(
            "modes=[none]",
            "cluster.parameter_servers=2",
            "variables=[{name: x}, {name: y, aggregation: sum}, {name: z}]",
            "program.outside=[{kind: save}]",
        )
        assert told_of(three) == [
            "One copy each of x and z is on parameter server ps 0. One copy of y is on parameter "
            f"server ps 1. {over} The aggregation of y is not used under none: every replica's "
            "write counts in full."
        ]

    def test_who_is_served_first_is_said_where_it_matters(self) -> None:
        tie = (
            "What comes at the same moment is served by replica number; a read takes what its own "
            "server had done when it asked."
        )
        (unlike,) = told_of(acting("none", "none", ["add, value: 1", "read"]))
        (last,) = told_of(acting("none", "none", ["assign, value: [3, 1, 2]"]))
        (alike,) = told_of(acting("none", "none", ["add, value: [3, 1, 2]"], ["read"]))
        assert unlike.endswith(tie)
        assert last.endswith(tie)
        assert tie not in alike

    def test_int32_goes_to_one_device(self) -> None:
        said = "int32 always goes to one device, as in TensorFlow."
        (small,) = told_of(acting("on_write", "sum", ["add, value: 1"], (), INT32))
        (large,) = told_of(
            acting("on_write", "sum", ["add, value: 1"], (), "variables.0.dtype=int64")
        )
        assert said in small
        assert "ring" not in small
        assert said not in large
        assert "ring" in large
        both = scenario(
            "modes=[on_write]",
            "variables=[{name: n, aggregation: sum, dtype: int32}, {name: y, aggregation: sum}]",
            "program.replicas=[{kind: assign_add, variable: n, value: 1}, "
            "{kind: assign_add, variable: y, value: 1}]",
        )
        (text,) = told_of(both)
        assert f"Of n: {said}" in text
        assert "ring" in text

    def test_variables_of_one_sort_are_told_together(self) -> None:
        made = scenario(
            "modes=[on_read]",
            "variables=[{name: w, synchronization: on_write}, {name: a, aggregation: mean}, "
            "{name: b, aggregation: mean}]",
            "program.replicas=[{kind: read, variable: w}, {kind: read, variable: a}, "
            "{kind: read, variable: b}]",
        )
        assert told_of(made) == [
            "Every replica has a copy of w. As nothing is to be aggregated, a replica writes only "
            "its own copy, and the copies drift apart.",
            "Every replica has its own copies of a and b; it writes and reads those alone, and "
            "waits for nobody.",
        ]

    def test_one_replica(self) -> None:
        made = acting("on_write", "sum", ["add, value: 1"], (), "cluster.workers=1")
        assert told_of(made) == ["There is one replica, and one copy of x: nothing has to be sent."]
