"""Collectives of a job: the ring against a recurrence written here, all others like it."""

import gc
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.building import MS, life, losses, run, slow
from tests.living import at, job, play
from varsim.cluster.broadcast import Broadcast
from varsim.cluster.collective import Collective
from varsim.cluster.collectives import ring
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.job import Job
from varsim.cluster.worker import Worker

Holds = list[int]


def recurrence(entries: list[int], holds: Holds, latency: int) -> list[int]:
    """When each rank is done; holds[r] is what a chunk takes from rank r to the next.

    Rank r sends in round s when it has entered, has sent in round s - 1 and has received in
    round s - 1; what it sends arrives when it is sent, plus the latency.
    """
    ranks = len(entries)
    sent, received = list(entries), list(entries)
    for _ in range(2 * (ranks - 1)):
        begun = [max(sent[rank], received[rank]) for rank in range(ranks)]
        sent = [begun[rank] + holds[rank] for rank in range(ranks)]
        received = [sent[rank - 1] + latency for rank in range(ranks)]
    return [max(pair) for pair in zip(sent, received, strict=True)]


def network(bandwidth: float, latency: int, sharing: str, **more: Any) -> dict[str, Any]:
    return {"bandwidth": bandwidth, "latency": latency / 1e9, "sharing": sharing, **more}


def ends(job: Job, collective: Collective, rounds: list[list[int]]) -> list[list[int]]:
    """When each rank is done with each all-reduce; rounds[i][r] is when r comes, or its wait
    after the one before.
    """
    done = [[0] * len(job.workers) for _ in rounds]

    def take_part(worker: Worker) -> Iterator[Any]:
        for index, waits in enumerate(rounds):
            yield from at(
                job,
                worker,
                job.clock.time + waits[worker.rank],
                lambda: collective.take_part(worker),
            )
            done[index][worker.rank] = job.clock.time

    play(job, *(take_part(worker) for worker in job.workers))
    return done


def a_ring(job: Job, size: float, by_chunk: bool | None = None) -> Collective:
    return Collective(job, ring.all_reduce(len(job.workers)), size, by_message=by_chunk)


def ring_times(
    entries: list[int],
    size: float,
    bandwidth: float,
    latency: int,
    sharing: str = "first_come",
    by_chunk: bool | None = None,
    **more: Any,
) -> list[int]:
    made = job(
        network=network(bandwidth, latency, sharing, **more), cluster={"workers": len(entries)}
    )
    return ends(made, a_ring(made, size, by_chunk), [entries])[0]


@pytest.mark.parametrize("ranks", range(2, 13))
@pytest.mark.parametrize("latency", [0, 7, 20_000])
def test_closed_form_equals_the_recurrence(ranks: int, latency: int) -> None:
    # All at once, one early, one late, and at random: close together, and far apart.
    source = random.Random(1000 * ranks + latency)
    hold = 1000
    plans = [[5] * ranks]
    plans += [[9_999 if rank == odd else 5 for rank in range(ranks)] for odd in range(ranks)]
    plans += [[5 if rank == odd else 9_999 for rank in range(ranks)] for odd in range(ranks)]
    plans += [
        [source.randrange(spread) for _ in range(ranks)]
        for spread in (3, 50, 3_000, 100_000)
        for _ in range(25)
    ]
    for entries in plans:
        assert ring.ring_ends(entries, hold, latency).tolist() == recurrence(
            entries, [hold] * ranks, latency
        )


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 10**7), min_size=2, max_size=12),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)
def test_closed_form_equals_the_recurrence_anywhere(
    entries: list[int], hold: int, latency: int
) -> None:
    assert ring.ring_ends(entries, hold, latency).tolist() == recurrence(
        entries, [hold] * len(entries), latency
    )


@pytest.mark.parametrize("sharing", ["first_come", "fair"])
@pytest.mark.parametrize("latency", [0, 20_000])
@pytest.mark.parametrize("ranks", range(1, 13))
def test_closed_form_equals_chunk_by_chunk(ranks: int, latency: int, sharing: str) -> None:
    # Every link of a ring has one flow at a time, so fair sharing has nothing to share: a flow
    # alone ends after round(bytes / rate) ns, the very hold of a first-come link. No rounding
    # is left to tell the two apart, even with chunks of a broken number of ns.
    source = random.Random(ranks)
    size, bandwidth = 1e6 / 3, 1.25e9
    for spread in (1, 50_000, 10_000_000):
        entries = [source.randrange(spread) for _ in range(ranks)]
        closed = ring_times(entries, size, bandwidth, latency, sharing, by_chunk=False)
        walked = ring_times(entries, size, bandwidth, latency, sharing, by_chunk=True)
        assert walked == closed
        assert walked == recurrence(entries, [round(size / ranks / 1.25)] * ranks, latency)


@pytest.mark.parametrize("by_chunk", [False, True])
def test_a_fast_rank_may_begin_the_next_while_others_finish_the_last(by_chunk: bool) -> None:
    # 4 ranks; rank 3 comes 1 ms late, so with a latency of 1 ms the ranks end apart; all come
    # again after their own waits, some of 0 ns.
    waits = [[0, 0, 0, MS], [0, 2 * MS, 0, 5 * MS], [0, 0, 0, 0]]
    made = job(network=network(1e6, MS, "first_come"), cluster={"workers": 4})
    done = ends(made, a_ring(made, 4_000.0, by_chunk), waits)

    last = [0] * 4
    for wait, seen in zip(waits, done, strict=True):
        entries = [before + more for before, more in zip(last, wait, strict=True)]
        last = recurrence(entries, [MS] * 4, MS)
        assert seen == last


@pytest.mark.parametrize("sharing", ["first_come", "fair"])
def test_unequal_links_against_the_recurrence(sharing: str) -> None:
    # Rank 2 has a third of the bandwidth, rank 5 a half: chunks to and from them take 3 and 2.
    size, bandwidth, ranks = 6e6, 1e9, 6
    holds = [MS, 3 * MS, 3 * MS, MS, 2 * MS, 2 * MS]
    source = random.Random(5)
    for latency in (0, 30_000):
        entries = [source.randrange(5 * MS) for _ in range(ranks)]
        seen = ring_times(
            entries,
            size,
            bandwidth,
            latency,
            sharing,
            slow_links=(slow(2, 3.0), slow(5, 2.0)),
        )
        assert seen == recurrence(entries, holds, latency)


def test_a_ring_over_a_slow_link_goes_at_its_pace() -> None:
    # 3 ranks, chunks of 10, from rank 1 and to rank 1 20; all at 0, no latency; 4 rounds.
    # from->to   round 0   round 1   round 2   round 3
    # 0 -> 1     0 - 20    20 - 40   40 - 60   60 - 80    chunks come to 0 at 10, 30, 50, 70
    # 1 -> 2     0 - 20    20 - 40   40 - 60   60 - 80
    # 2 -> 0     0 - 10    20 - 30   40 - 50   60 - 70
    made = ring_times([0, 0, 0], 3e7, 1e9, 0, slow_links=(slow(1, 2.0),))

    assert made == [80 * MS, 80 * MS, 80 * MS]


@pytest.mark.parametrize(
    ("ranks", "size", "latency", "bandwidth", "expected"),
    [
        # closed_forms.json, coll-ring-allreduce-01, -03, -05, -06 (Patarasuk and Yuan, 2009):
        # 2 (p - 1) alpha + 2 (p - 1) / p n beta
        (4, 100e6, 10_000, 1e10, 0.01506),
        (16, 25e6, 20_000, 1.25e10, 0.00435),
        (32, 4096.0, 10_000, 1e10, 0.0006207936),
        (6, 100e6, 20_000, 1e10, 0.01686666666666667),
        # SimGrid
        (4, 102.4e6, 5_000, 12.5e9, 0.012318),
        (16, 102.4e6, 5_000, 12.5e9, 0.015510),
    ],
)
@pytest.mark.parametrize("by_chunk", [False, True])
@pytest.mark.parametrize("sharing", ["first_come", "fair"])
def test_all_at_once_takes_what_the_formula_says(
    ranks: int,
    size: float,
    latency: int,
    bandwidth: float,
    expected: float,
    sharing: str,
    by_chunk: bool,
) -> None:
    seen = ring_times([0] * ranks, size, bandwidth, latency, sharing, by_chunk)

    # One rounding to a whole ns per round.
    assert seen == pytest.approx([expected * 1e9] * ranks, abs=2 * (ranks - 1) * 0.5 + 1e-3)


@pytest.mark.parametrize("by_chunk", [False, True])
def test_every_link_of_a_ring_carries_the_same_bytes(by_chunk: bool) -> None:
    # closed_forms.json, vol-bytes-01: 2 (p - 1) / p of the size, up and down.
    made = job(network=network(1.25e9, 0, "first_come"), cluster={"workers": 8})
    ends(made, a_ring(made, 102228128.0, by_chunk), [[0] * 8])

    assert [link.moved for link in made.network.carried(made.clock.time)] == pytest.approx(
        [178899224.0] * 16
    )


def test_one_worker_needs_no_ring_and_no_broadcast() -> None:
    assert ring_times([3], 1e9, 1e9, 1000) == [3]
    for strategy in (
        {"kind": "on_write"},
        {"kind": "on_read", "read_every": 1},
        {
            "kind": "on_read",
            "read_every": 1,
            "aggregation": "only_first_replica",
            "write_back": True,
        },
    ):
        trace = run(strategy, network=network(1e3, 1000, "first_come"), cluster={"workers": 1})
        assert trace.end == 300 * MS
        assert life(trace, 0) == [
            ("compute", 0, 100),
            ("compute", 100, 200),
            ("compute", 200, 300),
        ]


CHOICES = (
    Choice("ring"),
    Choice("recursive_doubling"),
    Choice("halving_doubling"),
    Choice("binomial_tree"),
    Choice("double_binary_tree", segment_size=200.0),
    Choice("hierarchical", 3),
)
every_choice = pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: str(choice.collective))


class TestEveryAlgorithm:
    """6 workers, unless a test says otherwise."""

    def times(
        self,
        choice: Choice,
        waits: Sequence[list[int]],
        by_message: bool | None,
        sharing: str = "fair",
        **more: Any,
    ) -> tuple[list[list[int]], list[float]]:
        """Ends of several all-reduces of 6,000 bytes, 1 ns each; bytes carried by every link."""
        made = job(network=network(1e9, 500, sharing, **more), cluster={"workers": 6})
        schedule = choice.schedule(6, 6_000.0)
        collective = Collective(made, schedule, 6_000.0, by_message=by_message)
        done = ends(made, collective, list(waits))
        return done, [link.moved for link in made.network.carried(made.clock.time)]

    @every_choice
    @pytest.mark.parametrize("sharing", ["first_come", "fair"])
    def test_the_same_with_and_without_messages(self, choice: Choice, sharing: str) -> None:
        source = random.Random(choice.collective)
        for spread in (1, 2_000, 50_000):
            waits = [[source.randrange(spread) for _ in range(6)] for _ in range(4)]
            by_message, carried = self.times(choice, waits, True, sharing)
            without, moved = self.times(choice, waits, False, sharing)
            assert without == by_message
            assert moved == pytest.approx(carried)

    @every_choice
    def test_equal_links_need_no_messages_and_others_do(self, choice: Choice) -> None:
        def heap_events(**more: Any) -> int:
            made = job(network=network(1e9, 0, "fair", **more), cluster={"workers": 6})
            collective = Collective(made, choice.schedule(6, 6e3), 6e3)
            ends(made, collective, [[0] * 6])
            return made.clock.heap_events

        messages = sum(len(transfers) for transfers in choice.schedule(6, 6e3).rounds)
        assert heap_events() < 6 * 5
        assert heap_events(slow_links=(slow(1, 2.0),)) > messages

    @pytest.mark.parametrize("choice", [*CHOICES, Choice("hierarchical", 3, 30.0)], ids=str)
    @pytest.mark.parametrize("slowed", [(), (slow(3, 2.0),)], ids=["equal", "unequal"])
    def test_the_dead_are_waited_for_and_everything_is_sent_again(
        self, choice: Choice, slowed: Any
    ) -> None:
        # Dead while it computes, while it waits and in the middle of an all-reduce.
        settings: dict[str, Any] = {
            "strategy": {"kind": "on_write", **choice._asdict()},
            "cluster": {"workers": 6, "slow_workers": (slow(5, 2.0),)},
            "network": {**network(1e3, 1_000_000, "fair"), "slow_links": slowed},
            "problem": {"noise": 1.0},
        }
        whole = run(**settings)
        start, end = 200 * MS, int(whole.steps[0])
        assert end > start + 10 * MS
        for at_ns in (50 * MS, 150 * MS, (start + end) // 2):
            for victim in (0, 3):
                kill = {"at": at_ns / 1e9, "kill": {"worker": victim}}
                back = {"at": at_ns / 1e9 + 1.0, "restart": {"worker": victim}}
                trace = run(**settings, events=(kill, back))
                assert trace.global_step == whole.global_step
                if at_ns > 100 * MS:  # else it has lost a gradient, and goes on with the next
                    assert losses(trace) == losses(whole)
                assert trace.steps[0] > at_ns + 1_000 * MS
                # A second, the model for who is back, and the all-reduce once more.
                assert (trace.steps - whole.steps < 1_100 * MS + end - start).all()
                stuck = run(**settings, events=(kill,))
                assert (stuck.global_step, stuck.stopped_by) == (0, "deadlock")

    @every_choice
    @pytest.mark.parametrize("died", [0.15, 0.21], ids=["waiting", "in the all-reduce"])
    def test_what_is_sent_again_takes_as_long_without_messages(
        self, choice: Choice, died: float
    ) -> None:
        # A link that is slower by next to nothing makes it a matter of messages. Worker 3 is back
        # before the all-reduce, from 200 on, would have ended; all enter the new one at once.
        def durations(*slowed: Any) -> list[float]:
            trace = run(
                {"kind": "on_write", **choice._asdict()},
                cluster={"workers": 6, "slow_workers": (slow(5, 2.0),)},
                problem={"dimension": 1_000},
                network=network(1e4, 1_000_000, "fair", slow_links=slowed),
                stop={"global_steps": 1},
                events=(
                    {"at": died, "kill": {"worker": 3}},
                    {"at": died + 0.01, "restart": {"worker": 3}},
                ),
            )
            writes = [
                [end - start for phase, start, end in life(trace, rank) if phase == "write"]
                for rank in range(6)
            ]
            return [spans[-1] for spans in writes]

        without = durations()
        assert min(without) > 100
        assert durations(slow(0, 1 + 1e-9)) == pytest.approx(without, rel=1e-6)

    @every_choice
    def test_no_garbage_is_left_behind(self, choice: Choice) -> None:
        # While a run lasts, nobody looks for cycles.
        def left(steps: int) -> int:
            gc.collect()
            gc.disable()
            run(
                {"kind": "on_write", **choice._asdict()},
                cluster={"workers": 6},
                network=network(1e6, 500, "fair", slow_links=(slow(1, 2.0),)),
                stop={"global_steps": steps},
            )
            return gc.collect()

        try:
            assert left(60) - left(10) < 50
        finally:
            gc.enable()

    @every_choice
    def test_times_differ_and_values_do_not(self, choice: Choice) -> None:
        ring, other = (
            run(
                {"kind": "on_write", **of._asdict()},
                cluster={"workers": 6},
                network=network(1e5, 1_000_000, "fair"),
                problem={"noise": 1.0},
            )
            for of in (CHOICES[0], choice)
        )
        assert losses(other) == losses(ring)
        assert (other.end == ring.end) == (choice == CHOICES[0])

    @every_choice
    def test_additions_take_their_time(self, choice: Choice) -> None:
        # Where messages follow each other, short additions may not count at all.
        def step(**overheads: float) -> int:
            trace = run(
                {"kind": "on_write", **choice._asdict()},
                cluster={"workers": 6, "overheads": overheads},
                network=network(1e6, 500, "fair"),
                problem={"dimension": 1_500},
                stop={"global_steps": 1},
            )
            return int(trace.steps[0])

        without, quick, slower = step(), step(reduction=1e9), step(reduction=1e5)
        assert without <= quick < slower
        assert quick - without < (slower - without) / 100


def test_who_was_done_goes_on_when_the_all_reduce_before_is_repeated() -> None:
    # 40 ms for a copy, 200 ms to and from worker 3; 1 ms of compute. Workers 0 and 2 are done at
    # 241, 1 and 3 would be at 401. At 242 they begin anew, and wait for these to have received;
    # but worker 3 dies at 300. Back at 350, it gets the model, and all is sent once more.
    settings: dict[str, Any] = {
        "strategy": {"kind": "on_write", "collective": "recursive_doubling"},
        "cluster": {"workers": 4, "compute": {"kind": "constant", "value": 1e-3}},
        "network": network(1e3, 0, "fair", slow_links=(slow(3, 5.0),)),
        "problem": {"noise": 1.0},
    }
    whole = run(**settings)
    assert whole.steps[0] == 401 * MS
    events = ({"at": 0.3, "kill": {"worker": 3}}, {"at": 0.35, "restart": {"worker": 3}})
    trace = run(**settings, events=events)

    assert losses(trace) == losses(whole)
    assert trace.steps[0] > 900 * MS


class TestBroadcast:
    def arrivals(self, sharing: str, entries: list[int]) -> list[int]:
        """1000 bytes of 1 us each from worker 0 to 3 others; latency 5 us."""
        made = job(network=network(1e6, 5_000, sharing), cluster={"workers": 4})
        broadcast = Broadcast(made, 1000.0)
        done = [0] * 4

        def take_part(worker: Worker) -> Iterator[Any]:
            yield from at(made, worker, entries[worker.rank], lambda: broadcast.take_part(worker))
            done[worker.rank] = made.clock.time

        play(made, *(take_part(worker) for worker in made.workers))
        assert [link.moved for link in made.network.carried(made.clock.time)] == [
            3000.0, 0.0, 0.0, 1000.0, 0.0, 1000.0, 0.0, 1000.0
        ]  # fmt: skip
        return done

    def test_one_after_the_other(self) -> None:
        # 1, 2 and 3 ms on worker 0's link, each 5 us later there.
        assert self.arrivals("first_come", [0] * 4) == [3_005_000, 1_005_000, 2_005_000, 3_005_000]

    def test_all_together(self) -> None:
        assert self.arrivals("fair", [0] * 4) == [3_005_000] * 4
