"""Barriers, countdowns, tokens, and what is said of those who wait forever."""

from functools import partial

from tests.building import MS, at, job, play, run, slow
from tests.seams import Phase
from varsim.cluster.clock import Activity, Clock, Ended
from varsim.cluster.job import Job
from varsim.cluster.waiting import Barrier, Countdown, Lock, QueueClosedError, TokenQueue
from varsim.cluster.worker import Worker


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

    def test_who_dies_as_it_waits_has_not_come(self) -> None:
        # Workers 0 and 1 come at 10 and 20, worker 1 dies at 30 and comes again at 50, worker 2
        # at 70: only then all three are there.
        made = workers(3)
        barrier = Barrier(made.clock, 3)
        seen: list[tuple[int, int]] = []

        def process(worker: Worker) -> Activity[None]:
            yield from made.clock.sleep_until(
                {0: 10, 1: 20 + 30 * worker.restarts, 2: 70}[worker.rank]
            )
            yield from barrier.wait(worker)
            seen.append((made.clock.time, worker.rank))

        for worker in made.workers:
            made.start_on(worker, process, worker)
        made.clock.call_at(30, lambda: made.failures.kill(1))
        made.clock.call_at(31, lambda: shown.append(str(barrier)))
        made.clock.call_at(40, lambda: made.failures.restart(1))
        shown: list[str] = []
        play(made)

        assert seen == [(70, 2), (70, 0), (70, 1)]
        assert shown == ["a barrier where 1 of 3 have come"]

    def test_it_says_how_many_have_come(self) -> None:
        made = workers(3)
        barrier = Barrier(made.clock, 3)
        play(made, barrier.wait(made.workers[1]))

        assert str(barrier) == "a barrier where 1 of 3 have come"
        assert made.workers[1].waits_for is barrier
        assert made.workers[0].waits_for is None


class TestLock:
    def play(self, kills: dict[int, int]) -> tuple[list[tuple[int, int]], dict[int, str]]:
        """Workers 0 to 3 come at 0, 1, 2, 3 and hold it for 10; who had it until when, and texts.

        `kills`: when which worker dies; one that dies as it has the lock, or waits, leaves it.
        """
        made = workers(4)
        lock = Lock(made.clock)
        seen: list[tuple[int, int]] = []

        def process(worker: Worker) -> Activity[None]:
            yield from made.clock.sleep_until(worker.rank)
            try:
                yield from lock.acquire(worker)
                yield from made.clock.sleep_until(made.clock.time + 10)
            except Ended:
                lock.release(worker)
                raise
            seen.append((made.clock.time, worker.rank))
            lock.release(worker)
            if kills.get(made.clock.time, worker.rank) != worker.rank:
                made.failures.kill(kills[made.clock.time])

        said: dict[int, str] = {}
        made.allow_breaking_off()
        for worker in made.workers:
            made.start_on(worker, process, worker)
        for time, rank in kills.items():
            if time % 10:
                made.clock.call_at(time, partial(made.failures.kill, rank))
        for time in (5, 15, 99):
            made.clock.call_at(time, lambda: said.update({made.clock.time: str(lock)}))
        play(made)
        return seen, said

    def test_it_is_had_in_the_order_of_coming(self) -> None:
        seen, said = self.play({})

        assert seen == [(10, 0), (20, 1), (30, 2), (40, 3)]
        assert said == {
            5: "a lock (worker 0 has it, 3 waiting)",
            15: "a lock (worker 1 has it, 2 waiting)",
            99: "a lock (free)",
        }

    def test_who_dies_leaves_it_to_the_next(self) -> None:
        # Worker 2 waits, worker 0 has it.
        assert self.play({4: 2})[0] == [(10, 0), (20, 1), (30, 3)]
        assert self.play({4: 0})[0] == [(14, 1), (24, 2), (34, 3)]

    def test_who_dies_before_it_has_noticed_leaves_it_too(self) -> None:
        # At 10 worker 0 leaves it to worker 1, which dies at that instant.
        assert self.play({10: 1})[0] == [(10, 0), (20, 2), (30, 3)]

    def test_the_wait_is_for_a_lock(self) -> None:
        made = workers(2)
        lock = Lock(made.clock)
        play(made, *map(lock.acquire, made.workers))

        assert made.workers[1].waits_for is lock
        assert made.workers[1].phase == Phase.LOCK
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


CLOSED = -1


class Dequeues:
    """Workers that ask for tokens at given times; what each got, and when."""

    def __init__(self, number: int) -> None:
        self.job = workers(number)
        self.tokens = TokenQueue(self.job.clock, self.job.recorder)
        self.got: list[tuple[int, int, int]] = []  # time, rank, step

    def ask(self, rank: int, *times: int) -> None:
        worker = self.job.workers[rank]

        def process() -> Activity[None]:
            for time in times:
                if time >= self.job.clock.time:
                    yield from at(self.job, worker, time, lambda: self.take(worker))

        self.job.start_on(worker, process)

    def take(self, worker: Worker) -> Activity[None]:
        try:
            step = yield from self.tokens.dequeue(worker)
        except QueueClosedError:
            step = CLOSED
        self.got.append((self.job.clock.time, worker.rank, step))

    def kill(self, time: int, rank: int) -> None:
        self.job.clock.call_at(time, lambda: self.job.failures.kill(rank))

    def restart(self, time: int, rank: int) -> None:
        self.job.clock.call_at(time, lambda: self.job.failures.restart(rank))

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

    def test_who_dies_as_it_waits_gives_its_place_to_the_next(self) -> None:
        queue = Dequeues(4)
        for rank in range(4):
            queue.ask(rank, rank)
        queue.kill(5, 1)
        queue.put(10, 1, 2)
        queue.put(20, 2, 2)

        assert queue.play() == [(10, 0, 1), (10, 2, 1), (20, 3, 2)]
        # The token that worker 1 would have had is there for whoever asks next.
        assert len(queue.tokens) == 1

    def test_several_may_die_first_and_last(self) -> None:
        queue = Dequeues(5)
        for rank in range(5):
            queue.ask(rank, rank)
        for time, rank in ((5, 4), (6, 0), (7, 2)):
            queue.kill(time, rank)
        queue.put(10, 1, 1)
        queue.put(20, 2, 3)

        assert queue.play() == [(10, 1, 1), (20, 3, 2)]
        assert len(queue.tokens) == 2

    def test_who_comes_back_asks_again(self) -> None:
        # Worker 0 dies at 5 and asks again at 7, behind worker 1.
        queue = Dequeues(2)
        queue.ask(0, 1, 7)
        queue.ask(1, 2)
        queue.kill(5, 0)
        queue.restart(6, 0)
        queue.put(10, 1, 1)
        queue.put(20, 2, 1)

        assert queue.play() == [(10, 1, 1), (20, 0, 2)]

    def test_a_token_not_yet_picked_up_goes_to_the_next(self) -> None:
        # At 10, in this order: tokens of steps 1 and 2 come, worker 3 asks, worker 0 dies. It
        # never learnt of its token 1, which is worker 1's now; 2 is worker 2's.
        queue = Dequeues(4)
        for rank in range(3):
            queue.ask(rank, rank)

        def in_one_instant() -> None:
            queue.tokens.enqueue(1, 1)
            queue.tokens.enqueue(2, 1)
            queue.job.start_on(queue.job.workers[3], queue.take, queue.job.workers[3])
            queue.job.failures.kill(0)

        queue.job.clock.call_at(10, in_one_instant)
        queue.put(20, 3, 1)

        assert queue.play() == [(10, 1, 1), (10, 2, 2), (20, 3, 3)]

    def test_a_closed_queue_ends_the_wait(self) -> None:
        queue = Dequeues(2)
        queue.ask(0, 1)
        queue.ask(1, 12)
        queue.job.clock.call_at(10, queue.tokens.close)

        assert queue.play() == [(10, 0, CLOSED), (12, 1, CLOSED)]

    def test_what_is_inside_a_closed_queue_is_still_handed_out(self) -> None:
        queue = Dequeues(1)
        queue.put(0, 4, 2)
        queue.job.clock.call_at(10, queue.tokens.close)
        queue.ask(0, 20, 21, 22)

        assert queue.play() == [(20, 0, 4), (21, 0, 4), (22, 0, CLOSED)]

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
