"""A program on a cluster: what it takes and sends, added up by hand.

A byte takes 1 us on a link, the latency is 100 us; times are in us (see `programs`).
"""

from typing import Any

import pytest

from tests.programs import LATENCY, MODES, US, Mode, add, read, scenario, variable
from tests.seams import Phase, ProgramTrace, VariablesScenario, trace_sha256
from tests.seams import run_of_program as trace

# 1,000 numbers of 4 bytes.
LARGE = variable(shape=(1000,), aggregation="mean")
SIZE = 4000
COLLECTED = 2 * SIZE + LATENCY
OUTSIDE = -1  # the replica of an act outside of all


def took(trace: ProgramTrace) -> float:
    """From step 1 to the end, us."""
    return (trace.end - trace.began) / US


def times(act: Any, trace: ProgramTrace) -> tuple[float, float]:
    """When an act began and ended, us from step 1 on."""
    return (act.begin - trace.began) / US, (act.end - trace.began) / US


class TestCosts:
    """One thing alone, in one step."""

    @pytest.mark.parametrize("sharing", ["fair", "first_come"])
    @pytest.mark.parametrize(
        ("lines", "mode", "time", "size", "messages"),
        [
            # Every replica writes its own copy, or reads it.
            ({"replicas": (add(1.0), read())}, "on_read", 0, 0, 0),
            # A ring of 3: 4 rounds of the latency and a chunk of 1344 bytes (1333.3, rounded up
            # to 64), in each of which all 4,000 bytes are sent on.
            ({"replicas": (add(1.0),)}, "on_write", 4 * (LATENCY + 1344), 4 * SIZE, 12),
            ({"replicas": (read(),)}, "on_write", 0, 0, 0),
            # All three over the one link of the server.
            ({"replicas": (add(1.0),)}, "none", 3 * SIZE + LATENCY, 3 * SIZE, 3),
            ({"replicas": (read(),)}, "none", 3 * SIZE + LATENCY, 3 * SIZE, 3),
            # Outside is on the machine of replica 0.
            ({"outside": (read(),)}, "on_read", 2 * SIZE + LATENCY, 2 * SIZE, 2),
            ({"outside": (read(),)}, "on_write", 0, 0, 0),
            ({"outside": (read(),)}, "none", SIZE + LATENCY, SIZE, 1),
            ({"outside": ({"kind": "save"},)}, "on_read", 2 * SIZE + LATENCY, 2 * SIZE, 2),
            # Read, then sent back to the two other copies.
            (
                {"outside": ({"kind": "save"}, {"kind": "restore"})}, "on_read",
                2 * (2 * SIZE + LATENCY), 4 * SIZE, 4,
            ),
        ],
    )  # fmt: skip
    def test_by_hand(
        self,
        lines: dict[str, Any],
        mode: Mode,
        time: float,
        size: int,
        messages: int,
        sharing: str,
    ) -> None:
        found = trace(scenario(**lines, variables=(LARGE,), network={"sharing": sharing}), mode)
        assert took(found) == time
        assert (found.moved, found.messages) == (size, messages)

    @pytest.mark.parametrize(
        ("algorithm", "time", "messages"),
        [
            # To replica 0 and back, two messages each way.
            ("reduction_to_one_device", 2 * (2 * SIZE + LATENCY), 4),
            # Two halves of one: to the first, back, and to the one left out.
            ("hierarchical_copy", 3 * (SIZE + LATENCY), 3),
        ],
    )
    def test_the_algorithm_is_the_chosen_one(
        self, algorithm: str, time: float, messages: int
    ) -> None:
        made = scenario((add(1.0),), variables=(LARGE,), cross_device_ops=algorithm)
        found = trace(made, "on_write")
        assert (took(found), found.messages) == (time, messages)
        assert {row.what for row in found.sent_rows[2:]} == {algorithm.replace("_", " ")}

    def test_a_slow_link_holds_it_up(self) -> None:
        slow = {"slow_links": ({"rank": 2, "factor": 5.0},)}
        found = trace(scenario((), (read(),), variables=(LARGE,), network=slow), "on_read")
        assert took(found) == 5 * SIZE + LATENCY

    def test_servers_have_links_of_their_own(self) -> None:
        made = scenario((add(1.0),), variables=(LARGE,), network={"server_bandwidth": 3e6})
        assert took(trace(made, "none")) == SIZE + LATENCY

    def test_two_servers_carry_a_variable_each(self) -> None:
        both = (LARGE, {**LARGE, "name": "w"})
        lines = (add(1.0), {**add(1.0), "variable": "w"})
        made = scenario(lines, variables=both, cluster={"workers": 3, "parameter_servers": 2,
                        "network": {"bandwidth": 1e6, "latency": 1e-4}})  # fmt: skip
        found = trace(made, "none")
        assert {str(row.target) for row in found.sent_rows} == {"ps/0/0", "ps/1/0"}
        moved = {link.name: link.moved for link in found.links if link.name.endswith("down")}
        assert moved["ps 0 down"] == moved["ps 1 down"] == 3 * SIZE


class TestTime:
    def computing(self, **cluster: Any) -> VariablesScenario:
        law = {"kind": "constant", "value": 1e-3}
        whole = {"workers": 3, "compute": law, "network": {"bandwidth": 1e6, "latency": 1e-4}}
        return scenario(
            ({"kind": "compute"}, add(1.0), read()), (read(),), cluster={**whole, **cluster}
        )

    def test_replicas_compute_at_the_same_time(self) -> None:
        assert took(trace(self.computing(), "on_read")) == 1000 + LATENCY + 2 * 4

    def test_all_wait_for_the_slowest_where_a_write_aggregates(self) -> None:
        made = self.computing(slow_workers=({"rank": 1, "factor": 3.0},))
        found = trace(made, "on_write")
        writes = [act for act in found.acts if act.kind == "assign_add"]
        assert [times(act, found)[0] for act in sorted(writes, key=lambda act: act.replica)] == [
            1000, 3000, 1000,
        ]  # fmt: skip
        assert {times(act, found)[1] for act in writes} == {3000 + 4 * (LATENCY + 4)}

    def test_without_aggregation_nobody_waits_but_the_outside(self) -> None:
        made = self.computing(slow_workers=({"rank": 1, "factor": 3.0},))
        found = trace(made, "on_read")
        ends = {act.replica: times(act, found)[1] for act in found.acts if act.kind == "read"}
        assert ends == {0: 1000, 1: 3000, 2: 1000, OUTSIDE: 3000 + LATENCY + 8}

    def test_compute_times_are_those_of_the_law_and_the_same_in_every_mode(self) -> None:
        law = {"kind": "exponential", "mean": 1e-3}
        made = self.computing(compute=law)
        spans = {}
        for mode in MODES:
            acts = trace(made, mode, replication=1).acts
            spans[mode] = sorted((a.replica, a.end - a.begin) for a in acts if a.kind == "compute")
        assert spans["on_read"] == spans["on_write"] == spans["none"]
        first = trace(made, "on_read").acts
        assert spans["on_read"] != sorted(
            (a.replica, a.end - a.begin) for a in first if a.kind == "compute"
        )

    @pytest.mark.parametrize("mode", MODES)
    def test_the_same_scenario_gives_the_same_trace(self, mode: Mode) -> None:
        made = self.computing(compute={"kind": "exponential", "mean": 1e-3})
        first, again = trace(made, mode), trace(made, mode)
        assert (trace_sha256(first), first.acts) == (trace_sha256(again), again.acts)


class TestRecord:
    def test_making_the_variables_does_not_count(self) -> None:
        found = trace(scenario((add(1.0),), variables=(LARGE,)), "on_read")
        assert found.began == (2 * SIZE + LATENCY) * US == found.end
        assert [row.what for row in found.sent_rows] == ["initial value"] * 2
        assert (found.moved, found.messages, found.all_sent) == (0, 0, 2)

    def test_nor_does_it_where_it_takes_no_time(self) -> None:
        wire = {"bandwidth": 1e18, "latency": 0.0}
        found = trace(scenario((add(1.0),), (read(),), network=wire), "on_read")
        assert found.began == found.end == 0
        assert (found.messages, found.all_sent) == (2, 4)

    def test_links_carry_what_was_sent(self) -> None:
        found = trace(scenario((add(1.0),), (read(),), steps=3, variables=(LARGE,)), "on_write")
        up = sum(link.moved for link in found.links if link.name.endswith("up"))
        assert up == sum(row.size for row in found.sent_rows) == found.moved + 2 * SIZE
        assert [link.name for link in found.links][:2] == ["worker 0 up", "worker 0 down"]

    def test_every_link_of_a_ring_carries_the_chunks_that_are_sent_on_over_it(self) -> None:
        # 3 chunks of 1,024 bytes and one of 928: in 6 rounds a rank sends each of them, then its
        # own and that of the rank before it once more. Worker 0 has sent 3 whole copies at first.
        made = scenario((add(1.0),), variables=(LARGE,), cluster={"workers": 4})
        moved = {link.name: link.moved for link in trace(made, "on_write").links}
        own = [1024, 1024, 1024, 928]
        sent = [SIZE + own[rank] + own[rank - 1] for rank in range(4)]
        assert [moved[f"worker {rank} up"] for rank in range(4)] == [3 * SIZE + sent[0], *sent[1:]]

    def test_an_act_knows_what_was_moved_for_it(self) -> None:
        found = trace(scenario((add(1.0),), (read(),), steps=2), "none")
        for act in found.acts:
            rows = [row for row in found.sent_rows if row.movement in act.moved]
            assert [(row.start, row.end) for row in rows] == [(act.begin, act.end)]


def spent(found: ProgramTrace, rank: int) -> list[tuple[str, float, float]]:
    """What a worker did, from when to when in us."""
    own = [row for row in found.spans.tolist() if row[0] == rank]
    return [(Phase(row[1]).name, row[2] / US, row[3] / US) for row in own]


class TestAsARun:
    """A program leaves what every run does: spans, steps, links."""

    def test_spans_by_hand(self) -> None:
        made = TestTime().computing(slow_workers=({"rank": 1, "factor": 3.0},))
        first = LATENCY + 2 * 4  # until all have their variables
        met, read = first + 3000, first + 3000 + LATENCY + 2 * 4
        found = trace(made, "on_read")
        assert spent(found, 1) == [
            ("READ", 0, first), ("COMPUTE", first, met), ("BARRIER", met, read),
        ]  # fmt: skip
        assert spent(found, 0) == [
            ("READ", 0, first), ("COMPUTE", first, first + 1000), ("BARRIER", first + 1000, met),
            ("READ", met, read),
        ]  # fmt: skip
        written = met + 4 * (LATENCY + 4)
        assert spent(trace(made, "on_write"), 2)[1:] == [
            ("COMPUTE", first, first + 1000), ("BARRIER", first + 1000, met),
            ("WRITE", met, written),
        ]  # fmt: skip

    @pytest.mark.parametrize("mode", MODES)
    def test_a_step_ends_when_all_have_ended_it(self, mode: Mode) -> None:
        found = trace(scenario((add(1.0),), (read(every=2),), steps=4), mode)
        ends = [max(act.end for act in found.acts if act.step == step) for step in range(1, 5)]
        assert found.steps.tolist() == ends
        assert (found.global_step, found.end) == (4, ends[-1])

    def test_a_step_in_which_nothing_happens_takes_no_time(self) -> None:
        found = trace(scenario((), (read(every=2),), steps=3, variables=(LARGE,)), "on_read")
        took = COLLECTED * US
        assert (found.steps - found.began).tolist() == [0, took, took]


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (
            {"compute": {"kind": "batch_curve", "fixed": 0.1, "per_example": 0.1}},
            "there are no batches",
        ),
        ({"slow_workers": ({"rank": 3, "factor": 2.0},)}, "rank 3 does not exist"),
    ],
)
def test_what_cannot_be_is_refused(cluster: dict[str, Any], why: str) -> None:
    network = {"bandwidth": 1e6, "latency": 1e-4}
    with pytest.raises(ValueError, match=why):
        scenario((add(1.0),), cluster={"workers": 3, "network": network, **cluster})
