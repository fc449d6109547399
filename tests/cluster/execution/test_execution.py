"""How operations are carried out on a clock: what waits for what, and what ends a run.

A byte takes 1 us on a link, the latency is 100 us; times are in us (see `pricing`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.pricing import Priced, Sharing, note
from varsim.distribute.context import DEFAULT_CONTEXT, Context
from varsim.distribute.mirrored_strategy import MirroredStrategy, MultiWorkerMirroredStrategy
from varsim.distribute.tensor import tensor
from varsim.values.operation import (
    Computation,
    CurrentTime,
    Device,
    Exchange,
    Merge,
    Movement,
    Operation,
    Parallel,
    Transfer,
    finish,
    finish_together,
)

A, B, C, D = (Device(number=number) for number in range(4))


def movement(*rounds: Sequence[tuple[Device, Device, int]], parties: int = 1) -> Movement:
    return Movement("test", tuple(tuple(Transfer(*one) for one in row) for row in rounds), parties)


def moving(*rounds: Sequence[tuple[Device, Device, int]]) -> Operation[int]:
    """A movement; when it has ended, in us."""
    yield movement(*rounds)
    now: int = yield CurrentTime()
    return now // 1_000


class TestMovement:
    def test_a_message_takes_its_bytes_and_the_latency(self, cluster: Priced) -> None:
        assert cluster.cost(moving([(A, B, 300)])) == 300 + 100

    def test_a_round_starts_when_the_one_before_has_arrived(self, cluster: Priced) -> None:
        # 300 + 100, then 200 + 100, though B and C had nothing to wait for.
        assert cluster.cost(moving([(A, B, 300)], [(C, D, 200)])) == 700
        assert cluster.sent == [
            (0, 0, "worker/0/0", "worker/0/1", 300, 0, 400),
            (0, 1, "worker/0/2", "worker/0/3", 200, 400, 700),
        ]

    def test_the_transfers_of_a_round_go_side_by_side(self, cluster: Priced) -> None:
        # All on links of their own: the longest is the round.
        assert cluster.cost(moving([(A, B, 300), (B, A, 500), (C, D, 200)])) == 500 + 100

    @pytest.mark.parametrize("way", ["up", "down"])
    def test_a_shared_link_passes_all_bytes(self, cluster: Priced, way: str) -> None:
        # 300 and 500 bytes over the one link of A: 800 us, however it is shared.
        sent = [(A, B, 300), (A, C, 500)] if way == "up" else [(B, A, 300), (C, A, 500)]

        assert cluster.cost(moving(sent)) == 800 + 100

    @pytest.mark.parametrize(("sharing", "first"), [("first_come", 300), ("fair", 600)])
    def test_how_it_is_shared_shows_in_who_is_done_first(
        self, sharing: Sharing, first: int
    ) -> None:
        # Up link of A: one after the other, or both at half the rate until 300 bytes of each have
        # passed.
        cluster = Priced(sharing)
        cluster.cost(moving([(A, B, 300), (A, C, 500)]))

        assert [(end, size) for *_, size, _, end in cluster.sent] == [
            (first + 100, 300),
            (800 + 100, 500),
        ]

    def test_behind_the_same_links_it_takes_no_time(self, cluster: Priced) -> None:
        cluster.hosts.share([A, B], 1.0)

        # The second round alone leaves the machine.
        assert cluster.cost(moving([(A, B, 900)], [(B, C, 200)])) == 200 + 100
        assert [(source, target) for _, _, source, target, *_ in cluster.sent] == [
            ("worker/0/1", "worker/0/2")
        ]

    def test_the_links_of_source_and_target_carry_it(self, cluster: Priced) -> None:
        cluster.cost(moving([(A, B, 300), (A, C, 500)], [(C, B, 70)]))
        carried = {link.name: size for link, size in cluster.carried().items() if size}

        assert carried == {
            "worker/0/0 up": 800,
            "worker/0/1 down": 370,
            "worker/0/2 down": 500,
            "worker/0/2 up": 70,
        }

    def test_a_slow_link_holds_it_up(self, cluster: Priced) -> None:
        cluster.hosts.share([B], 0.25)

        assert cluster.cost(moving([(A, B, 300)])) == 300 * 4 + 100


class TestSideBySide:
    def test_each_goes_on_for_itself_and_the_last_ends_it(self, cluster: Priced) -> None:
        # The first needs 400 twice, the second 300, the third nothing.
        def twice() -> Operation[int]:
            yield movement([(A, B, 300)])
            return (yield from moving([(A, B, 300)]))

        def nothing() -> Operation[int]:
            return 0
            yield

        def together() -> Operation[list[int]]:
            return (yield Parallel((twice(), moving([(C, D, 200)]), nothing())))

        assert cluster.run(together()) == [[800, 300, 0]]
        assert cluster.now == 800

    def test_they_share_links(self, cluster: Priced) -> None:
        # Two messages of 300 into D, at once: 600 on its down link.
        def together() -> Operation[list[int]]:
            return (yield Parallel((moving([(A, D, 300)]), moving([(B, D, 300)]))))

        assert cluster.cost(together()) == 600 + 100

    def test_what_follows_starts_when_all_have_ended(self, cluster: Priced) -> None:
        def together() -> Operation[int]:
            yield Parallel((moving([(A, B, 300)]), moving([(C, D, 50)])))
            return (yield from moving([(C, D, 50)]))

        assert cluster.run(together()) == [300 + 100 + 50 + 100]

    def test_none_at_all(self, cluster: Priced) -> None:
        def together() -> Operation[list[int]]:
            return (yield Parallel(()))

        assert finish(together()) == []
        assert cluster.run(together()) == [[]]

    def test_devices_compute_at_the_same_time(self) -> None:
        cluster = Priced("fair", {A: 10, B: 30, C: 20})
        times: dict[Any, int] = {}

        def compute(device: Device) -> Operation[None]:
            yield Computation(device)
            yield from note(times, device)

        def together() -> Operation[None]:
            yield Parallel(tuple(map(compute, (A, B, C))))

        assert cluster.cost(together()) == 30
        assert times == {A: 10, B: 30, C: 20}


class TestWorkers:
    def test_they_meet_when_the_last_has_come(self) -> None:
        cluster = Priced("fair", {A: 10, B: 30, C: 20})
        times: dict[Any, int] = {}

        def worker(device: Device, part: str) -> Operation[list[str]]:
            yield Computation(device)
            everybody: list[str] = yield Exchange(part)
            yield from note(times, part)
            return everybody

        results = cluster.run(worker(A, "a"), worker(B, "b"), worker(C, "c"))

        assert results == [["a", "b", "c"]] * 3
        assert times == {"a": 30, "b": 30, "c": 30}

    def test_they_may_meet_again(self) -> None:
        # Worker 1 is the last to come first, worker 0 after that: 30, then 30 + 40.
        cluster = Priced("fair", {A: 40, B: 30})

        def worker(first: Sequence[Device], second: Sequence[Device]) -> Operation[list[int]]:
            for device in first:
                yield Computation(device)
            one: list[int] = yield Exchange(len(first))
            for device in second:
                yield Computation(device)
            other: list[int] = yield Exchange(len(second) * 10)
            return one + other

        assert cluster.run(worker([], [A]), worker([B], [])) == [[0, 1, 10, 0]] * 2
        assert cluster.now == 70

    def test_what_they_move_together_is_moved_once_when_the_last_has_come(self) -> None:
        cluster = Priced("fair", {A: 10, B: 30})
        times: dict[Any, int] = {}

        def worker(device: Device) -> Operation[None]:
            yield Computation(device)
            yield movement([(A, B, 300), (B, A, 300)], parties=2)
            yield from note(times, device)

        cluster.run(worker(A), worker(B))

        assert times == {A: 30 + 300 + 100, B: 30 + 300 + 100}
        assert cluster.sent == [
            (0, 0, "worker/0/0", "worker/0/1", 300, 30, 430),
            (0, 0, "worker/0/1", "worker/0/0", 300, 30, 430),
        ]

    def test_what_each_moves_alone_is_moved_by_each(self, cluster: Priced) -> None:
        # Both over the down link of C.
        assert cluster.cost(moving([(A, C, 300)]), moving([(B, C, 300)])) == 600 + 100
        assert len(cluster.sent) == 2

    def test_movements_are_numbered_as_they_begin(self, cluster: Priced) -> None:
        # Together: 0, whoever reports it. Then each of its own, worker 1 (the last to come) first.
        def worker(source: Device, target: Device) -> Operation[None]:
            yield movement([(A, B, 50)], [(B, A, 50)], parties=2)
            yield movement([(source, target, 300)])

        cluster.run(worker(A, C), worker(B, D))

        assert [(number, row, source) for number, row, source, *_ in cluster.sent] == [
            (0, 0, "worker/0/0"),
            (0, 1, "worker/0/1"),
            (1, 0, "worker/0/1"),
            (2, 0, "worker/0/0"),
        ]

    def test_without_any_there_is_nothing_to_do(self, cluster: Priced) -> None:
        assert cluster.run() == []


class TestTheEnd:
    def test_the_clock_stops_with_the_last_operation(self, cluster: Priced) -> None:
        # 100 and 300 bytes from A to B. Shared fairly the first ends at 200, and the other was to
        # end at 600 until then: what a link once expected does not keep the clock running.
        assert cluster.cost(moving([(A, B, 100), (A, B, 300)])) == 400 + 100

    def test_an_error_in_a_replica_is_raised_as_it_is(self, cluster: Priced) -> None:
        strategy, wrong = MirroredStrategy([A, B]), KeyError("wrong")

        def replica(context: Context) -> Operation[None]:
            yield movement([(context.device, C, 300)])
            if context.replica_id == 1:
                raise wrong

        with pytest.raises(KeyError) as caught:
            cluster.run(strategy.run(DEFAULT_CONTEXT, replica))

        assert caught.value is wrong

    def test_nothing_happens_after_an_error(self) -> None:
        # B fails at 30; A is done at 10, C would be at 40.
        cluster, done = Priced("fair", {A: 10, B: 30, C: 40}), dict[Any, int]()

        def worker(device: Device) -> Operation[None]:
            yield Computation(device)
            if device == B:
                raise ValueError("B")
            yield from note(done, device)

        with pytest.raises(ValueError, match=r"^B$"):
            cluster.run(worker(A), worker(B), worker(C))

        assert done == {A: 10}
        assert cluster.now == 30

    def test_the_first_error_counts(self, cluster: Priced) -> None:
        # Workers 0 and 1 go on at the same moment: the one who came first is the first to fail.
        def worker(number: int) -> Operation[None]:
            yield Exchange(number)
            if number < 2:
                raise ValueError(f"worker {number}")

        for carry_out in (finish_together, lambda operations: cluster.run(*operations)):
            with pytest.raises(ValueError, match=r"^worker 0$"):
                carry_out([worker(number) for number in range(3)])

    def test_an_error_in_a_merge_leaves_what_was_done_before(self, cluster: Priced) -> None:
        strategy, seen = MirroredStrategy([A, B]), list[str]()

        def merged(context: Context) -> Operation[None]:
            yield movement([(A, B, 300)])
            raise ValueError("merged")

        def replica(context: Context) -> Operation[None]:
            seen.append(f"before {context.replica_id}")
            yield from context.merge_call(merged)
            seen.append("after")

        with pytest.raises(ValueError, match="merged"):
            cluster.run(strategy.run(DEFAULT_CONTEXT, replica))

        assert seen == ["before 0", "before 1"]
        assert cluster.now == 300 + 100

    def test_merging_outside_of_a_replica_is_a_mistake_of_ours(self, cluster: Priced) -> None:
        def operation() -> Operation[None]:
            yield Merge(lambda _: None)

        with pytest.raises(AssertionError, match="merged outside of a replica"):
            cluster.run(operation())


class TestWhoWaitsInVain:
    """The words are those of an execution without a clock."""

    @staticmethod
    def said(cluster: Priced, operations: Any) -> str:
        """What is said, with and without the clock."""
        with pytest.raises(RuntimeError) as without:
            finish_together(operations())
        with pytest.raises(RuntimeError) as caught:
            cluster.run(*operations())

        assert type(caught.value) is type(without.value)
        assert str(caught.value) == str(without.value)
        return str(caught.value)

    def test_a_worker_that_the_others_left_in_a_collective(self, cluster: Priced) -> None:
        def worker(rounds: int) -> Operation[None]:
            for _ in range(rounds):
                yield Exchange(None)

        said = self.said(cluster, lambda: [worker(2), worker(1), worker(2)])

        assert said == (
            "workers [0, 2] wait in a collective that workers [1] do not take part in; "
            "let every worker execute the same steps"
        )

    def test_a_worker_that_reads_a_sum_alone(self, cluster: Priced) -> None:
        def operations() -> list[Operation[object]]:
            workers = [MultiWorkerMirroredStrategy([Device(task=task)], task, 2) for task in (0, 1)]

            def act(context: Context) -> Operation[object]:
                assert context.strategy is not None
                value = tensor(np.ones(1), device=context.device)
                if context.replica_id == 0:
                    return None
                return (yield from context.strategy.all_reduce(context, "SUM", value))

            return [worker.run(worker.scope(), act) for worker in workers]

        assert "workers [1] wait in a collective that workers [0]" in self.said(cluster, operations)

    def test_a_replica_that_makes_fewer_merges(self, cluster: Priced) -> None:
        def operations() -> list[Operation[object]]:
            def replica(context: Context) -> Operation[None]:
                yield movement([(context.device, C, 300)])
                if context.replica_id == 1:
                    yield from context.merge_call(lambda _: None)

            return [MirroredStrategy([A, B]).run(DEFAULT_CONTEXT, replica)]

        said = self.said(cluster, operations)

        assert said.startswith("Some replicas made a different number of merges: let every replica")


class TestTheSameValues:
    def test_results_come_in_the_order_of_the_operations(self) -> None:
        # The last to begin is the first to end, and the answers keep their places.
        cluster = Priced("fair", {A: 30, B: 20, C: 10})
        strategy = MirroredStrategy([A, B, C])

        def replica(context: Context) -> Operation[int]:
            yield Computation(context.device)
            return 10 * context.replica_id

        (grouped,) = cluster.run(strategy.run(DEFAULT_CONTEXT, replica))

        assert grouped.values == (0, 10, 20)

    def test_the_clock_is_asked_for_the_time(self, cluster: Priced) -> None:
        def operation() -> Operation[tuple[int, int]]:
            before: int = yield CurrentTime()
            yield movement([(A, B, 300)])
            after: int = yield CurrentTime()
            return before, after

        assert cluster.run(operation()) == [(0, 400_000)]
        assert finish(operation()) == (0, 0)
