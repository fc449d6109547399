"""Processes that end and begin again: what is left of the clock, the worker and its gradient."""

from functools import partial
from typing import Any

import pytest
from simpy.events import Event

from tests.building import MS, job, play, read_now
from tests.seams import Phase
from varsim.cluster.clock import Activity, Clock, Ended, Killed, Stopped
from varsim.cluster.job import Job
from varsim.cluster.worker import Worker


class TestClock:
    def test_what_a_process_waited_for_happens_without_it(self) -> None:
        clock, seen = Clock(), []
        shared = Event(clock)

        def waits(name: str) -> Activity[None]:
            yield shared
            seen.append((clock.time, name))

        first, _ = (clock.process(waits(name)) for name in ("first", "second"))
        clock.call_at(5, lambda: clock.end(first, Killed()))
        clock.call_at(9, lambda: shared.succeed() and None)
        clock.run_until_stopped()

        assert seen == [(9, "second")]

    def test_a_pause_that_nobody_waits_for_is_taken_back(self) -> None:
        # Nothing is left to happen at 100, and the run is over at 5.
        clock = Clock()
        process = clock.process(clock.sleep_until(100))
        clock.call_at(5, lambda: clock.end(process, Killed()))
        clock.run_until_stopped()

        assert clock.time == 5
        assert clock.idle

    def test_all_others_keep_their_order(self) -> None:
        clock, seen = Clock(), []
        sleeper = clock.process(clock.sleep_until(50))
        for name in range(20):
            clock.call_at(50 + name % 3, lambda name=name: seen.append(name))  # type: ignore[misc]
        clock.call_at(5, lambda: clock.end(sleeper, Killed()))
        clock.run_until_stopped()

        assert seen == sorted(range(20), key=lambda name: name % 3)

    def test_taking_back_a_pause_looks_at_nothing_else(self) -> None:
        # Or a step that calls off all workers would cost their number squared.
        class Unseen(list[Any]):
            def __iter__(self) -> Any:
                raise AssertionError("all that is to happen was looked through")

        clock = Clock()
        clock.heap = Unseen()
        sleepers = [clock.process(clock.sleep_until(100)) for _ in range(50)]
        for sleeper in sleepers:
            clock.call_at(5, partial(clock.end, sleeper, Killed()))
        clock.run_until_stopped()

        assert clock.time == 5

    @pytest.mark.parametrize("how", [Killed, Stopped])
    def test_a_process_may_tidy_up(self, how: type[Ended]) -> None:
        clock, seen = Clock(), []

        def tidy() -> Activity[None]:
            try:
                yield from clock.sleep_until(100)
            except Ended as end:
                seen.append((clock.time, type(end)))
                raise

        process = clock.process(tidy())
        clock.call_at(5, lambda: clock.end(process, how()))
        clock.run_until_stopped()

        assert seen == [(5, how)]

    def test_one_that_waits_on_is_a_mistake(self) -> None:
        clock = Clock()

        def stubborn() -> Activity[None]:
            try:
                yield from clock.sleep_until(100)
            except Ended:
                yield from clock.sleep_until(200)

        process = clock.process(stubborn())
        clock.call_at(5, lambda: clock.end(process, Killed()))
        with pytest.raises(AssertionError, match="waits on"):
            clock.run_until_stopped()

    def test_an_interrupted_process_goes_on_at_once(self) -> None:
        clock, seen = Clock(), []

        def works() -> Activity[None]:
            for _ in range(3):
                try:
                    yield from clock.sleep_until(clock.time + 100)
                except LookupError:
                    seen.append(clock.time)

        process = clock.process(works())
        clock.call_at(30, lambda: clock.interrupt(process, LookupError()))
        clock.run_until_stopped()

        assert seen == [30]
        assert clock.time == 230

    def test_an_event_can_be_withdrawn_and_used_again(self) -> None:
        clock, seen = Clock(), []
        event = Event(clock)

        def waits() -> Activity[None]:
            yield event
            seen.append(clock.time)

        clock.process(waits())
        clock.call_at(0, lambda: clock.trigger_at(10, event))
        clock.call_at(5, lambda: clock.withdraw(event))
        clock.call_at(20, lambda: clock.trigger_at(30, event))
        clock.run_until_stopped()

        assert seen == [30]


def computing(made: Job, worker: Worker, ends: list[tuple[int, int]]) -> Activity[None]:
    """A worker that computes one gradient after the other and notes when each is done."""
    while True:
        gradient = yield from worker.compute_gradient(read_now(made, worker))
        ends.append((made.clock.time, gradient.iteration))


def two_workers(**changes: Any) -> Job:
    made = job(cluster={"workers": 2}, stop={"time": 1.0}, **changes)
    made.allow_breaking_off()
    return made


class TestLives:
    def test_a_worker_takes_all_its_processes_with_it(self) -> None:
        made, ends, others = two_workers(), list[tuple[int, int]](), list[int]()
        worker = made.workers[0]

        def beside() -> Activity[None]:
            while made.clock.time < 400 * MS:
                others.append(made.clock.time)
                yield from made.clock.sleep_until(made.clock.time + 40 * MS)

        made.start_on(worker, computing, made, worker, ends)
        made.start_on(worker, beside, role="watch", waits_for="nothing at all")
        made.clock.call_at(150 * MS, lambda: made.failures.kill(0))
        made.clock.call_at(200 * MS, lambda: made.failures.restart(0))
        made.clock.call_at(350 * MS, lambda: made.failures.kill(0))
        play(made)

        # The gradient begun at 100 is lost; its number is not used again.
        assert ends == [(100 * MS, 0), (300 * MS, 2)]
        assert others == [time * MS for time in (0, 40, 80, 120, 200, 240, 280, 320)]
        assert worker.restarts == 1
        assert not made.failures.running(0)
        assert made.failures.running(1)
        end = made.failures.exits[0]
        assert (end.time, end.killed, end.doing, end.roles) == (
            *(350 * MS, True, "computing"),
            ("watch",),
        )
        assert made.failures.roles() == []

    def test_a_process_that_returns_has_ended_in_good_order(self) -> None:
        made = two_workers()
        worker = made.workers[1]
        made.start_on(worker, made.clock.sleep_until, 70)
        play(made)

        end = made.failures.exits[1]
        assert (end.time, end.killed) == (70, False)

    def test_a_gradient_that_was_not_begun_is_taken_back(self) -> None:
        # Ahead of the clock by a read of 40 ms, it dies at 30: number and draws are the next's.
        made = two_workers(problem={"noise": 1.0})
        worker, ends = made.workers[0], list[tuple[int, int]]()
        batches = []

        def reads_first() -> Activity[None]:
            worker.transferred(Phase.READ, made.clock.time + 40 * MS, 40 * MS)
            gradient = yield from worker.compute_gradient(read_now(made, worker))
            batches.append(gradient.batch.tolist())
            ends.append((made.clock.time, gradient.iteration))

        made.start_on(worker, reads_first)
        made.clock.call_at(30 * MS, lambda: made.failures.kill(0))
        made.clock.call_at(50 * MS, lambda: made.failures.restart(0))
        play(made)

        assert ends == [(190 * MS, 0)]
        assert len(made.ledger.in_flight) == 1
        assert batches == [next(iter(made.task.batches(0, 0, 1))).tolist()]

    def test_the_dead_must_be_known(self) -> None:
        events: tuple[Any, ...] = ({"at": 0.1, "kill": {"worker": 1}},)
        from tests.building import scenario

        made = scenario({"kind": "none"}, events=events)
        alone = Job(
            made.cluster, made.workload, made.stop, seed=0, replication=0, events=made.events
        )
        alone.spawn(computing(alone, alone.workers[1], []))
        with pytest.raises(AssertionError, match=r"start_on"):
            alone.clock.run_until_stopped()
