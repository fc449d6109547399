"""What operations move: from where to where, how many bytes, in which rounds.

Four float32 are 16 bytes; devices are numbered.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from varsim.distribute.all_reduce import HierarchicalCopyAllReduce
from varsim.distribute.central import (
    CentralStorageStrategy,
    FixedShardsPartitioner,
    ParameterServerStrategy,
)
from varsim.distribute.container import PerReplica
from varsim.distribute.context import DEFAULT_CONTEXT, Context
from varsim.distribute.cross_device_ops import Options, chunk_length, ring_sum
from varsim.distribute.mirrored_strategy import MirroredStrategy, MultiWorkerMirroredStrategy
from varsim.distribute.strategy import Strategy
from varsim.distribute.tensor import Tensor, tensor
from varsim.distribute.variable import DistributedVariable, VariableOptions
from varsim.values.operation import Device, Movement, Operation, finish, finish_together
from varsim.values.variable import Aggregation, Synchronization

VALUE = np.arange(4, dtype=np.float32)

# Source, target, bytes.
Round = list[tuple[int, int, int]]


def devices(count: int, kind: str = "cpu") -> list[Device]:
    return [Device(number=number, kind=kind) for number in range(count)]


def rounds(movements: Sequence[Movement]) -> list[Round]:
    return [
        [(one.source.number, one.target.number, one.size) for one in transfers]
        for movement in movements
        for transfers in movement.rounds
    ]


def moved(operation: Operation[object]) -> list[Round]:
    movements: list[Movement] = []
    finish(operation, movements)
    return rounds(movements)


def variable(
    strategy: Strategy, synchronization: Synchronization, aggregation: Aggregation
) -> DistributedVariable:
    return finish(
        strategy.create(strategy.scope(), VALUE, VariableOptions(synchronization, aggregation))
    )


def in_replicas(
    strategy: Strategy, act: Callable[[Context], Operation[object]]
) -> Operation[object]:
    return strategy.run(strategy.scope(), act)


def own(context: Context) -> Tensor:
    return tensor(VALUE, device=context.device)


class TestMirrored:
    strategy = MirroredStrategy(devices(3))

    def test_copies_start_from_copy_0(self) -> None:
        create = self.strategy.create(DEFAULT_CONTEXT, VALUE)

        assert moved(create) == [[(0, 1, 16), (0, 2, 16)]]

    def test_a_write_in_replicas_is_reduced_on_one_device_and_sent_back(self) -> None:
        on_write = variable(self.strategy, Synchronization.ON_WRITE, Aggregation.SUM)
        write = in_replicas(self.strategy, lambda context: on_write.assign(context, own(context)))

        assert moved(write) == [[(1, 0, 16), (2, 0, 16)], [(0, 1, 16), (0, 2, 16)]]

    def test_a_write_from_outside_goes_to_every_copy(self) -> None:
        on_write = variable(self.strategy, Synchronization.ON_WRITE, Aggregation.SUM)

        assert moved(on_write.assign(DEFAULT_CONTEXT, tensor(VALUE))) == [[(0, 1, 16), (0, 2, 16)]]

    def test_a_number_weighs_nothing(self) -> None:
        number = finish(self.strategy.create(DEFAULT_CONTEXT, np.float32(1.0)))

        assert moved(number.assign(DEFAULT_CONTEXT, 2.0)) == []

    def test_reading_it_costs_nothing(self) -> None:
        on_write = variable(self.strategy, Synchronization.ON_WRITE, Aggregation.SUM)

        assert moved(on_write.read(DEFAULT_CONTEXT)) == []
        assert moved(in_replicas(self.strategy, on_write.read)) == []

    def test_reading_it_elsewhere_takes_copy_0(self) -> None:
        on_write = variable(self.strategy, Synchronization.ON_WRITE, Aggregation.SUM)

        assert moved(on_write.read(DEFAULT_CONTEXT.at(Device(number=7)))) == [[(0, 7, 16)]]

    def test_sync_on_read_writes_for_nothing_and_pays_for_reading(self) -> None:
        on_read = variable(self.strategy, Synchronization.ON_READ, Aggregation.MEAN)
        write = in_replicas(self.strategy, lambda context: on_read.assign(context, own(context)))

        assert moved(write) == []
        assert moved(in_replicas(self.strategy, on_read.read)) == []
        assert moved(on_read.read(DEFAULT_CONTEXT)) == [[(1, 0, 16), (2, 0, 16)]]

    def test_only_the_first_replica_costs_nothing_to_read(self) -> None:
        on_read = variable(self.strategy, Synchronization.ON_READ, Aggregation.ONLY_FIRST_REPLICA)

        assert moved(on_read.read(DEFAULT_CONTEXT)) == []


class TestAllReduce:
    def test_a_ring_sends_every_chunk_round_twice(self) -> None:
        # 3 x 64 bytes in three chunks: in each of 4 rounds each rank sends one.
        strategy = MirroredStrategy(devices(3))

        def act(context: Context) -> Operation[object]:
            zeros = tensor(np.zeros(44), np.float32, context.device)
            return strategy.all_reduce(context, "SUM", zeros)

        assert chunk_length(44, 4, 3) == 16
        assert moved(in_replicas(strategy, act)) == [
            [(0, 1, 64), (1, 2, 64), (2, 0, 48)],
            [(0, 1, 48), (1, 2, 64), (2, 0, 64)],
            [(0, 1, 64), (1, 2, 48), (2, 0, 64)],
            [(0, 1, 64), (1, 2, 64), (2, 0, 48)],
        ]

    def test_the_last_value_goes_first_and_packs_go_together(self) -> None:
        # 16, 16 and 4 bytes backwards; a pack is closed once it holds more than 16 bytes.
        strategy = MirroredStrategy(devices(2))
        values = [
            PerReplica([tensor(np.zeros(size), np.float32, d) for d in devices(2)])
            for size in (4, 4, 1)
        ]
        pairs = [(value, value) for value in values]
        reduce = strategy.batch_reduce_to(DEFAULT_CONTEXT, "SUM", pairs, Options(bytes_per_pack=16))

        assert moved(reduce) == [[(0, 1, 20)], [(1, 0, 20)], [(0, 1, 16)], [(1, 0, 16)]]

    def test_hierarchical_copy_adds_in_two_halves(self) -> None:
        gpus = devices(4, "gpu")
        strategy = MirroredStrategy(gpus, HierarchicalCopyAllReduce())

        def act(context: Context) -> Operation[object]:
            return strategy.all_reduce(context, "SUM", own(context))

        assert moved(in_replicas(strategy, act)) == [
            [(1, 0, 16), (3, 2, 16)],
            [(2, 0, 16)],
            [(0, 2, 16)],
            [(0, 1, 16), (2, 3, 16)],
        ]

    def test_workers_report_what_they_move_together_once(self) -> None:
        workers = [MultiWorkerMirroredStrategy([Device(task=task)], task, 2) for task in (0, 1)]

        def act(context: Context) -> Operation[object]:
            assert context.strategy is not None
            return context.strategy.all_reduce(context, "SUM", own(context))

        movements: list[Movement] = []
        results = finish_together([in_replicas(one, act) for one in workers], movements)

        for one in results:
            assert isinstance(one, Tensor)
            assert one.array.tolist() == [0, 2, 4, 6]
        transfers = [
            [(one.source.task, one.target.task, one.size) for one in transfers]
            for movement in movements
            for transfers in movement.rounds
        ]
        assert transfers == [[(0, 1, 16)], [(1, 0, 16)]]

    def test_worker_0_sends_the_others_the_value_that_a_variable_starts_with(self) -> None:
        workers = [MultiWorkerMirroredStrategy([Device(task=task)], task, 3) for task in range(3)]
        movements: list[Movement] = []
        made = finish_together([one.create(one.scope(), VALUE) for one in workers], movements)

        assert all(one.value is made[0].value for one in made)
        assert [
            (one.source.task, one.target.task, one.size)
            for movement in movements
            for transfers in movement.rounds
            for one in transfers
        ] == [(0, 1, 16), (0, 2, 16)]


class TestOneCopy:
    def test_central_storage_reduces_on_device_0_and_sends_to_the_parameter_device(self) -> None:
        strategy = CentralStorageStrategy(devices(2), Device(number=3))
        central = variable(strategy, Synchronization.AUTO, Aggregation.SUM)
        write = in_replicas(strategy, lambda context: central.assign_add(context, own(context)))

        assert moved(write) == [[(1, 0, 16)], [(0, 3, 16)]]

    def test_every_replica_reads_it_over_the_network(self) -> None:
        strategy = CentralStorageStrategy(devices(2), Device(number=3))
        central = variable(strategy, Synchronization.AUTO, Aggregation.SUM)

        assert moved(in_replicas(strategy, central.read)) == [[(3, 0, 16)], [(3, 1, 16)]]

    def test_shards_are_read_and_written_side_by_side(self) -> None:
        # Five rows of 4 bytes on two servers: three and two.
        strategy = ParameterServerStrategy(2, FixedShardsPartitioner(2))
        sharded = finish(strategy.create(DEFAULT_CONTEXT, np.zeros(5, np.float32)))
        movements: list[Movement] = []
        finish(sharded.read(DEFAULT_CONTEXT), movements)

        assert [
            (one.source.task, one.target.job, one.size)
            for movement in movements
            for transfers in movement.rounds
            for one in transfers
        ] == [(0, "worker", 12), (1, "worker", 8)]

    def test_writing_shards_reads_nothing_back(self) -> None:
        strategy = ParameterServerStrategy(2, FixedShardsPartitioner(2))
        sharded = finish(strategy.create(DEFAULT_CONTEXT, np.zeros(5, np.float32)))
        movements: list[Movement] = []
        written = finish(sharded.assign(DEFAULT_CONTEXT, np.ones(5, np.float32)), movements)

        assert written is sharded
        assert {one.target.job for m in movements for r in m.rounds for one in r} == {"ps"}


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 100])
def test_the_ring_adds_all(ranks: int, count: int) -> None:
    values = [np.full(count, 2.0**rank) for rank in range(ranks)]

    assert ring_sum(values).tolist() == [2.0**ranks - 1] * count


def test_a_gather_joins_in_replica_order() -> None:
    strategy = MirroredStrategy(devices(2))
    value = PerReplica([tensor(VALUE[: 1 + index], device=d) for index, d in enumerate(devices(2))])
    movements: list[Movement] = []
    result = finish(strategy.gather(DEFAULT_CONTEXT, value, 0), movements)

    assert isinstance(result, Tensor)
    assert result.array.tolist() == [0, 0, 1]
    assert rounds(movements) == [[(0, 1, 4), (1, 0, 8)]]
