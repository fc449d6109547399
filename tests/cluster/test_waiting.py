"""Barriers, countdowns, tokens, and what is said of those who wait forever."""

import pytest
from building import MS, at, job, play, run, scenario, slow

from varsim.cluster.clock import Activity, Clock
from varsim.cluster.job import DeadlockError, Job
from varsim.cluster.waiting import Barrier, Countdown, TokenQueue
from varsim.cluster.worker import Worker
from varsim.trace import Phase


def workers(number: int) -> Job:
    return job(cluster={"workers": number})


class TestBarrier:
    def test_everybody_goes_on_when_the_last_has_come(self) -> None:
        made = workers(3)
        barrier = Barrier(made.clock, 3)
        seen: list[tuple[int, int]] = []

        def process(worker: Worker) -> Activity[None]:
            for _ in range(2):
                yield from made.clock.sleep_until(made.clock.time + 10 * (worker.rank + 1))
                yield from barrier.wait(worker)
                seen.append((made.clock.time, worker.rank))

        play(made, *map(process, made.workers))

        # The last to come never waits and so is first; the others go on in the order they came.
        assert seen == [(30, 2), (30, 0), (30, 1), (60, 2), (60, 0), (60, 1)]

    def test_it_says_how_many_have_come(self) -> None:
        made = workers(3)
        barrier = Barrier(made.clock, 3)
        play(made, barrier.wait(made.workers[1]))

        assert str(barrier) == "a barrier where 1 of 3 have come"
        assert made.workers[1].waits_for is barrier
        assert made.workers[0].waits_for is None


def test_a_countdown_waits_for_all() -> None:
    clock = Clock()
    countdown = Countdown(clock, 2)
    seen = []

    def process() -> Activity[None]:
        yield from countdown.wait()
        seen.append(clock.time)

    clock.process(process())
    clock.call_at(5, countdown.count)
    clock.call_at(9, countdown.count)
    clock.run_until_stopped()

    assert seen == [9]


def test_a_countdown_that_is_over_is_not_waited_for() -> None:
    clock = Clock()
    countdown = Countdown(clock, 1)
    countdown.count()
    seen = []

    def process() -> Activity[None]:
        yield from clock.sleep_until(7)
        yield from countdown.wait()
        seen.append(clock.time)

    clock.process(process())
    clock.run_until_stopped()

    assert seen == [7]


class Dequeues:
    """Workers that ask for tokens at given times; what each got, and when."""

    def __init__(self, number: int) -> None:
        self.job = workers(number)
        self.tokens = TokenQueue(self.job.clock)
        self.got: list[tuple[int, int, int]] = []  # time, rank, step

    def ask(self, rank: int, *times: int) -> None:
        worker = self.job.workers[rank]

        def process() -> Activity[None]:
            for time in times:
                yield from at(self.job, worker, time, lambda: self.take(worker))

        self.job.spawn(process())

    def take(self, worker: Worker) -> Activity[None]:
        step = yield from self.tokens.dequeue(worker)
        self.got.append((self.job.clock.time, worker.rank, step))

    def put(self, time: int, step: int, copies: int) -> None:
        self.job.clock.call_at(time, lambda: self.tokens.enqueue(step, copies))

    def play(self) -> list[tuple[int, int, int]]:
        play(self.job)
        return self.got


class TestTokenQueue:
    def test_tokens_are_handed_out_first_in_first_out(self) -> None:
        queue = Dequeues(1)
        queue.put(0, 0, 2)
        queue.put(1, 7, 1)
        queue.put(2, 3, 1)
        queue.ask(0, 5, 6, 7, 8)

        assert queue.play() == [(5, 0, 0), (6, 0, 0), (7, 0, 7), (8, 0, 3)]
        assert len(queue.tokens) == 0

    def test_whoever_asked_first_gets_the_first(self) -> None:
        queue = Dequeues(3)
        queue.ask(2, 1)
        queue.ask(0, 2)
        queue.ask(1, 3)
        queue.put(10, 1, 1)
        queue.put(20, 2, 2)

        assert queue.play() == [(10, 2, 1), (20, 0, 2), (20, 1, 2)]

    def test_too_few_tokens_leave_the_last_waiting(self) -> None:
        queue = Dequeues(3)
        for rank in range(3):
            queue.ask(rank, rank)
        queue.put(10, 1, 2)

        assert queue.play() == [(10, 0, 1), (10, 1, 1)]
        assert str(queue.tokens) == "a token (queue empty, 1 waiting)"
        assert queue.job.workers[2].waits_for is queue.tokens

    def test_a_latecomer_does_not_overtake_at_one_instant(self) -> None:
        # Worker 0 waits. At 10, in this order: a token of step 1, a token of step 2, worker 1
        # asks. The n-th to ask gets the n-th token: worker 0 step 1, worker 1 step 2.
        queue = Dequeues(2)
        queue.ask(0, 1)

        def three_things() -> None:
            queue.tokens.enqueue(1, 1)
            queue.tokens.enqueue(2, 1)
            for _ in queue.take(queue.job.workers[1]):
                raise AssertionError("there is a token for worker 1")

        queue.job.clock.call_at(10, three_things)

        assert sorted(queue.play()) == [(10, 0, 1), (10, 1, 2)]

    def test_no_tokens_are_no_tokens(self) -> None:
        queue = Dequeues(1)
        for copies in (0, -3):
            queue.tokens.enqueue(5, copies)
        queue.ask(0, 1)

        assert queue.play() == []
        assert len(queue.tokens) == 0

    def test_waiting_for_a_token_is_recorded(self) -> None:
        # 3 workers of which one takes 300 ms: from the third step on the others wait 200 ms.
        trace = run(
            {"kind": "sync_replicas", "replicas_to_aggregate": 3, "initial_tokens": 0},
            cluster={"slow_workers": (slow(2, 3.0),)},
            stop={"global_steps": 4},
        )
        token = trace.spans[trace.spans[:, 1] == Phase.TOKEN]
        assert sorted({int(row[0]) for row in token}) == [0, 1]
        assert (token[:, 3] - token[:, 2] == 200 * MS).all()


class TestDeadlock:
    def test_too_few_tokens_to_begin_with(self) -> None:
        # N = T = 4 of 2 workers without initial tokens: both push once and wait for an update
        # that needs 4.
        with pytest.raises(DeadlockError) as caught:
            run(
                {
                    "kind": "sync_replicas",
                    "replicas_to_aggregate": 4,
                    "total_num_replicas": 4,
                    "initial_tokens": 0,
                },
                cluster={"workers": 2, "slow_workers": (slow(1, 2.5),)},
            )

        assert str(caught.value) == (
            "sync_replicas: the run stands still at 0.25 s, after 0 updates: "
            "nothing can happen any more.\n"
            "  workers 0, 1: waiting for a token (queue empty, 2 waiting)\n"
            "  chief: waiting for 4 gradients of step 0 (2 have come)"
        )

    def test_some_tokens_to_begin_with_and_no_more(self) -> None:
        # N = T = 5 of 2 workers with 2 tokens: 4 gradients of 5, the last at 200 ms by both.
        with pytest.raises(DeadlockError, match=r"at 0\.2 s, after 0 updates.*(\n.*)*4 have come"):
            run(
                {
                    "kind": "sync_replicas",
                    "replicas_to_aggregate": 5,
                    "total_num_replicas": 5,
                    "initial_tokens": 2,
                },
                cluster={"workers": 2},
            )

    def test_a_time_limit_ends_a_run_that_stands_still(self) -> None:
        # The same; what stands still does so until the end, and says so in its spans.
        trace = run(
            {
                "kind": "sync_replicas",
                "replicas_to_aggregate": 5,
                "total_num_replicas": 5,
                "initial_tokens": 2,
            },
            cluster={"workers": 2},
            stop={"time": 1.0},
        )

        assert trace.stopped_by == "time"
        assert trace.global_step == 0
        assert trace.spans[-1].tolist() == [1, Phase.TOKEN, 200 * MS, 1000 * MS, 1]

    @pytest.mark.parametrize(
        ("settings", "least"),
        [
            ({"replicas_to_aggregate": 5, "initial_tokens": 1}, 2),
            ({"replicas_to_aggregate": 2, "initial_tokens": -1}, 0),
            ({"replicas_to_aggregate": 5, "total_num_replicas": 4, "initial_tokens": 0}, 1),
        ],
    )
    def test_initial_tokens_that_cannot_do_are_refused(
        self, settings: dict[str, int], least: int
    ) -> None:
        # 3 workers; TensorFlow: "initial tokens must be at least N - T".
        with pytest.raises(ValueError, match=f"initial_tokens must be at least {least} "):
            scenario({"kind": "sync_replicas", **settings})
