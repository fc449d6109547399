"""What operations on distributed variables cost within one worker, added up by hand.

Every device has a link of its own, up and down, on which a byte takes 1 us; the latency is 100 us.
A variable has 4,000 bytes (see `pricing`). All times are in us; where nothing else is said they are
the same whether links serve one message after the other or are shared fairly.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.pricing import (
    FIRST,
    MEAN,
    NONE,
    ON_READ,
    ON_WRITE,
    ONE_COPY,
    SUM,
    TWO_COPIES,
    VALUE,
    ZEROS,
    Priced,
    Sharing,
    devices,
    elements,
    in_replicas,
    made,
    note,
    own,
    reading,
    writing,
)
from varsim.distribute.all_reduce import HierarchicalCopyAllReduce
from varsim.distribute.central import CentralStorageStrategy
from varsim.distribute.container import PerReplica, Write
from varsim.distribute.context import DEFAULT_CONTEXT, Context
from varsim.distribute.cross_device_ops import Options
from varsim.distribute.mirrored_strategy import MirroredStrategy
from varsim.distribute.strategy import Strategy
from varsim.distribute.tensor import tensor
from varsim.distribute.training import DistributedOptimizer
from varsim.values.operation import DEFAULT_DEVICE, Computation, Device, Operation, finish
from varsim.values.optimizer import Sgd
from varsim.values.variable import Aggregation


@pytest.fixture(params=["first_come", "fair"])
def cluster(request: pytest.FixtureRequest) -> Priced:
    """A cluster on which costs can be added up by hand, with links of both kinds in turn."""
    sharing: Sharing = request.param
    return Priced(sharing)


class TestOnWriteBetweenCpus:
    """Three CPUs: reduced on device 0, and from there to the others."""

    strategy = MirroredStrategy(devices(3))

    def test_to_create_it_two_copies_leave_device_0(self, cluster: Priced) -> None:
        assert cluster.cost(self.strategy.create(DEFAULT_CONTEXT, ZEROS)) == TWO_COPIES

    @pytest.mark.parametrize("op", ["assign", "assign_add"])
    @pytest.mark.parametrize(("aggregation", "factor"), [(SUM, 3), (MEAN, 1)])
    def test_a_write_brings_two_values_in_and_sends_two_out(
        self, cluster: Priced, op: Write, aggregation: Aggregation, factor: int
    ) -> None:
        variable = made(self.strategy, ON_WRITE, aggregation)

        assert cluster.cost(writing(variable, op)) == TWO_COPIES + TWO_COPIES
        assert elements(variable) == [[0, factor, 2 * factor]] * 3

    def test_of_the_first_replica_alone_two_values_go_out(self, cluster: Priced) -> None:
        assert cluster.cost(writing(made(self.strategy, ON_WRITE, FIRST))) == TWO_COPIES

    def test_without_aggregation_every_replica_writes_its_own(self, cluster: Priced) -> None:
        assert cluster.cost(writing(made(self.strategy, ON_WRITE, NONE))) == 0

    def test_a_tensor_that_all_replicas_share_is_only_sent_out(self, cluster: Priced) -> None:
        variable, value = made(self.strategy, ON_WRITE, MEAN), tensor(VALUE)
        write = in_replicas(self.strategy, lambda context: variable.assign(context, value))

        assert cluster.cost(write) == TWO_COPIES

    def test_from_outside_the_value_goes_to_two_devices(self, cluster: Priced) -> None:
        assert (
            cluster.cost(made(self.strategy).assign(DEFAULT_CONTEXT, tensor(VALUE))) == TWO_COPIES
        )

    def test_a_number_weighs_nothing(self, cluster: Priced) -> None:
        variable = made(self.strategy, ON_WRITE, MEAN, np.float32(0))
        write = in_replicas(self.strategy, lambda context: variable.assign_add(context, 2.0))

        assert cluster.cost(write) == 0
        assert [copy.tolist() for copy in variable.values] == [2.0] * 3

    def test_a_read_takes_no_time(self, cluster: Priced) -> None:
        assert cluster.cost(reading(made(self.strategy))) == 0

    def test_a_read_from_outside_takes_none_either(self, cluster: Priced) -> None:
        assert cluster.cost(made(self.strategy).read(DEFAULT_CONTEXT)) == 0

    def test_but_somewhere_else_it_takes_a_copy(self, cluster: Priced) -> None:
        elsewhere = DEFAULT_CONTEXT.at(Device(number=7))

        assert cluster.cost(made(self.strategy).read(elsewhere)) == ONE_COPY

    def test_two_variables_are_written_one_after_the_other(self, cluster: Priced) -> None:
        variables = [made(self.strategy, ON_WRITE, aggregation) for aggregation in (SUM, FIRST)]

        def act(context: Context) -> Operation[None]:
            for variable in variables:
                yield from variable.assign(context, own(context))

        assert cluster.cost(in_replicas(self.strategy, act)) == 2 * TWO_COPIES + TWO_COPIES


class TestOnWriteBetweenGpus:
    """Three GPUs: a ring. In 4 rounds (2 x (3 - 1)) every GPU sends a chunk to the next.

    Chunks are whole multiples of 64 bytes, always more than an even share: of 4,000 bytes a share
    is 334 elements or 1,336 bytes, so chunks are 1,344, 1,344 and what is left, 1,312. In every
    round somebody sends one of 1,344.
    """

    strategy = MirroredStrategy(devices(3, "gpu"))

    @pytest.mark.parametrize("op", ["assign", "assign_add"])
    @pytest.mark.parametrize(("aggregation", "factor"), [(SUM, 3), (MEAN, 1)])
    def test_a_write_goes_round_twice(
        self, cluster: Priced, op: Write, aggregation: Aggregation, factor: int
    ) -> None:
        variable = made(self.strategy, ON_WRITE, aggregation)

        assert cluster.cost(writing(variable, op)) == 4 * (1_344 + 100)
        assert elements(variable) == [[0, factor, 2 * factor]] * 3

    def test_of_the_first_replica_alone_two_values_go_out(self, cluster: Priced) -> None:
        assert cluster.cost(writing(made(self.strategy, ON_WRITE, FIRST))) == TWO_COPIES

    @pytest.mark.parametrize(
        ("elements", "chunk"),
        [
            (12, 48),  # a share is 16 bytes, a chunk 64: all 48 are in one
            (44, 64),  # 60 bytes, so 64
            (47, 128),  # 64 bytes, and 64 more: TensorFlow adds them to a whole multiple, too
            (48, 128),
        ],
    )
    def test_chunks_are_whole_multiples_of_64_bytes(
        self, cluster: Priced, elements: int, chunk: int
    ) -> None:
        value = np.ones(elements, dtype=np.float32)

        assert cluster.cost(writing(made(self.strategy, initial=value), value=value)) == 4 * (
            chunk + 100
        )

    def test_a_slow_link_slows_every_round(self, cluster: Priced) -> None:
        # GPU 1 at half the rate sends or gets a chunk of 1,344 in every round: 2,688 us.
        cluster.hosts.share([self.strategy.devices[1]], 0.5)

        assert cluster.cost(writing(made(self.strategy))) == 4 * (2_688 + 100)

    def test_int32_never_goes_round(self, cluster: Priced) -> None:
        value = np.ones(1_000, dtype=np.int32)
        variable = made(self.strategy, initial=value)

        assert cluster.cost(writing(variable, value=value)) == TWO_COPIES + TWO_COPIES

    def test_behind_the_links_of_one_machine_it_takes_no_time(self, cluster: Priced) -> None:
        cluster.hosts.share(self.strategy.devices, 1.0)

        assert cluster.cost(writing(made(self.strategy))) == 0

    def test_of_two_machines_only_the_way_between_them_counts(self, cluster: Priced) -> None:
        # GPUs 0 1 | 2 3: of the ring, 1 to 2 and 3 to 0. A share of 4,000 bytes is 1,000, a chunk
        # 1,024. 6 rounds; in each of them one of the two ways has a chunk of 1,024.
        gpus = devices(4, "gpu")
        cluster.hosts.share(gpus[:2], 1.0)
        cluster.hosts.share(gpus[2:], 1.0)

        assert cluster.cost(writing(made(MirroredStrategy(gpus)))) == 6 * (1_024 + 100)


class TestHierarchicalCopy:
    """Two halves, each added on its main device, then the two sums."""

    def test_of_four_gpus_one_copy_after_the_other(self, cluster: Priced) -> None:
        # 1 to 0 and 3 to 2; 2 to 0; 0 to 2; 0 to 1 and 2 to 3.
        strategy = MirroredStrategy(devices(4, "gpu"), HierarchicalCopyAllReduce())
        variable = made(strategy)

        assert cluster.cost(writing(variable)) == 4 * ONE_COPY
        assert elements(variable) == [[0, 4, 8]] * 4

    def test_of_eight_the_main_devices_have_three_to_serve(self, cluster: Priced) -> None:
        strategy = MirroredStrategy(devices(8, "gpu"), HierarchicalCopyAllReduce())
        three = 3 * 4_000 + 100

        assert cluster.cost(writing(made(strategy))) == three + ONE_COPY + ONE_COPY + three

    def test_the_ring_of_eight_needs_a_quarter_of_that(self, cluster: Priced) -> None:
        # A share is 500 bytes, a chunk 512; 14 rounds.
        strategy = MirroredStrategy(devices(8, "gpu"))

        assert cluster.cost(writing(made(strategy))) == 14 * (512 + 100)


class TestAllReduce:
    """Two values of 4,000 and 2,000 bytes through a ring of three.

    Chunks of the first are at most 1,344 bytes. A share of the second is 167 elements or 668
    bytes, so chunks are 704, 704 and 592.
    """

    strategy = MirroredStrategy(devices(3))
    first = 4 * (1_344 + 100)
    second = 4 * (704 + 100)

    @pytest.mark.parametrize(
        ("bytes_per_pack", "expected"),
        [(0, 4 * (1_344 + 704 + 100)), (1_000, first + second)],
    )
    def test_a_pack_saves_latency(
        self, cluster: Priced, bytes_per_pack: int, expected: int
    ) -> None:
        values = [
            PerReplica([tensor(VALUE[:count], device=device) for device in devices(3)])
            for count in (1_000, 500)
        ]
        pairs = [(value, value) for value in values]
        reduce = self.strategy.batch_reduce_to(
            DEFAULT_CONTEXT, "SUM", pairs, Options(bytes_per_pack)
        )

        assert cluster.cost(reduce) == expected

    def test_an_optimizer_sums_all_gradients_in_one_pack(self, cluster: Priced) -> None:
        # Counting its iterations costs nothing: a number.
        variables = [made(self.strategy, ON_WRITE, NONE, VALUE[:count]) for count in (1_000, 500)]
        optimizer = finish(DistributedOptimizer.create(self.strategy, Sgd(learning_rate=1.0)))

        def act(context: Context) -> Operation[object]:
            pairs = [(own(context, variable.value), variable) for variable in variables]
            return optimizer.apply_gradients(context, pairs)

        assert cluster.cost(in_replicas(self.strategy, act)) == 4 * (1_344 + 704 + 100)
        # v - 3 v
        assert elements(variables[1]) == [[0, -2, -4]] * 3

    def test_a_gather_sends_every_part_on_to_the_next(self, cluster: Priced) -> None:
        # Two rounds, in each of them one part per link.
        value = PerReplica([tensor(VALUE, device=device) for device in devices(3)])

        assert cluster.cost(self.strategy.gather(DEFAULT_CONTEXT, value, 0)) == 2 * ONE_COPY


class TestOnRead:
    """Three CPUs: writing is free, and who reads from outside pays for it."""

    strategy = MirroredStrategy(devices(3))

    @pytest.mark.parametrize("aggregation", [SUM, MEAN, FIRST])
    def test_replicas_write_and_read_for_nothing(
        self, cluster: Priced, aggregation: Aggregation
    ) -> None:
        variable = made(self.strategy, ON_READ, aggregation)

        def act(context: Context) -> Operation[object]:
            yield from variable.assign_add(context, own(context))
            return (yield from variable.read(context))

        assert cluster.cost(in_replicas(self.strategy, act)) == 0

    @pytest.mark.parametrize(
        ("aggregation", "here", "elsewhere"),
        [
            # All copies but the one that is there go over the down link of the reader.
            (SUM, TWO_COPIES, 3 * 4_000 + 100),
            (MEAN, TWO_COPIES, 3 * 4_000 + 100),
            (FIRST, 0, ONE_COPY),
        ],
    )
    @pytest.mark.parametrize("place", ["here", "elsewhere"])
    def test_a_read_from_outside_brings_the_copies_together(
        self, cluster: Priced, aggregation: Aggregation, here: int, elsewhere: int, place: str
    ) -> None:
        context = DEFAULT_CONTEXT if place == "here" else DEFAULT_CONTEXT.at(Device(number=7))
        variable = made(self.strategy, ON_READ, aggregation)

        assert cluster.cost(variable.read(context)) == (here if place == "here" else elsewhere)

    def test_the_host_of_gpus_gets_all_three_unless_it_has_the_links_of_one(
        self, cluster: Priced
    ) -> None:
        gpus = devices(3, "gpu")
        read = made(MirroredStrategy(gpus), ON_READ, SUM).read
        beside = cluster.another()
        beside.hosts.share([gpus[0], DEFAULT_DEVICE], 1.0)

        assert cluster.cost(read(DEFAULT_CONTEXT)) == 3 * 4_000 + 100
        assert beside.cost(read(DEFAULT_CONTEXT)) == TWO_COPIES

    def test_a_write_from_outside_reads_it_back(self, cluster: Priced) -> None:
        # A third to every copy, then the sum of the copies for the caller.
        variable = made(self.strategy, ON_READ, SUM)

        assert (
            cluster.cost(variable.assign(DEFAULT_CONTEXT, tensor(3 * VALUE)))
            == TWO_COPIES + TWO_COPIES
        )
        assert elements(variable) == [[0, 1, 2]] * 3


class TestCentralStorage:
    """Three replicas on devices 0, 1, 2; values are reduced on device 0, the variable is on 3."""

    strategy = CentralStorageStrategy(devices(3), Device(number=3))

    @pytest.mark.parametrize(
        ("aggregation", "expected"),
        # Two values to device 0, the result from there to device 3; the first one straight there.
        [(SUM, TWO_COPIES + ONE_COPY), (MEAN, TWO_COPIES + ONE_COPY), (FIRST, ONE_COPY)],
    )
    def test_a_write(self, cluster: Priced, aggregation: Aggregation, expected: int) -> None:
        assert cluster.cost(writing(made(self.strategy, ON_WRITE, aggregation))) == expected

    @pytest.mark.parametrize(
        ("sharing", "ends"),
        # Three copies leave device 3: one after the other, or all at a third of the rate.
        [("first_come", [4_100, 8_100, 12_100]), ("fair", [12_100, 12_100, 12_100])],
    )
    def test_reads_share_the_link_of_the_variable(
        self, sharing: Sharing, ends: Sequence[int]
    ) -> None:
        cluster, times = Priced(sharing), dict[Any, int]()
        variable = made(self.strategy)

        def act(context: Context) -> Operation[None]:
            yield from variable.read(context)
            yield from note(times, context.replica_id)

        assert cluster.cost(in_replicas(self.strategy, act)) == 12_100
        assert [times[replica] for replica in range(3)] == ends


class TestReplicasThatComputeDifferently:
    """Devices 0, 1, 2 compute for 10,000, 30,000 and 20,000 us."""

    compute = dict(zip(devices(3), (10_000, 30_000, 20_000), strict=True))

    def ends(
        self, strategy: Strategy, act: Callable[[Context], Operation[object]], sharing: Sharing
    ) -> list[int]:
        """When each replica has computed and acted."""
        cluster, times = Priced(sharing, self.compute), dict[Any, int]()

        def replica(context: Context) -> Operation[None]:
            yield Computation(context.device)
            yield from act(context)
            yield from note(times, context.replica_id)

        cluster.run(in_replicas(strategy, replica))
        return [times[number] for number in range(3)]

    @pytest.mark.parametrize("sharing", ["first_come", "fair"])
    def test_on_write_all_wait_for_the_slowest(self, sharing: Sharing) -> None:
        strategy = MirroredStrategy(devices(3))
        variable = made(strategy)
        ends = self.ends(strategy, lambda context: variable.assign(context, own(context)), sharing)

        assert ends == [30_000 + TWO_COPIES + TWO_COPIES] * 3

    @pytest.mark.parametrize("sharing", ["first_come", "fair"])
    def test_on_read_nobody_waits(self, sharing: Sharing) -> None:
        strategy = MirroredStrategy(devices(3))
        variable = made(strategy, ON_READ)

        def act(context: Context) -> Operation[object]:
            yield from variable.assign_add(context, own(context))
            return (yield from variable.read(context))

        assert self.ends(strategy, act, sharing) == [10_000, 30_000, 20_000]

    @pytest.mark.parametrize("sharing", ["first_come", "fair"])
    def test_one_copy_is_read_when_each_is_ready(self, sharing: Sharing) -> None:
        # Each has the link of device 3 to itself.
        strategy = CentralStorageStrategy(devices(3), Device(number=3))
        ends = self.ends(strategy, made(strategy).read, sharing)

        assert ends == [10_000 + ONE_COPY, 30_000 + ONE_COPY, 20_000 + ONE_COPY]
