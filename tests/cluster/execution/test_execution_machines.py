"""What operations cost between machines: several workers, parameter servers, checkpoints.

As in `test_execution_times`: a byte takes 1 us on a link, the latency is 100 us, a variable has
4,000 bytes (see `pricing`), all times are in us.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.pricing import (
    FIRST,
    MEAN,
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
from varsim.distribute.central import (
    CentralStorageStrategy,
    FixedShardsPartitioner,
    ParameterServerStrategy,
)
from varsim.distribute.context import DEFAULT_CONTEXT, Context
from varsim.distribute.mirrored_strategy import MirroredStrategy, MultiWorkerMirroredStrategy
from varsim.distribute.strategy import Strategy
from varsim.distribute.tensor import Tensor, tensor
from varsim.distribute.variable import DistributedVariable, VariableOptions, restore, save
from varsim.values.operation import (
    DEFAULT_DEVICE,
    Computation,
    Device,
    Operation,
    finish,
    finish_together,
)
from varsim.values.variable import Aggregation, Synchronization

# Two workers are a ring of two. Of 4,000 bytes a share is 2,000, a chunk the next multiple of 64,
# 2,048, and the other what is left, 1,952. Two rounds, in each of them one of the ways has 2,048.
RING_OF_TWO = 2 * (2_048 + 100)


def workers(count: int, replicas: int = 1, kind: str = "cpu") -> list[MultiWorkerMirroredStrategy]:
    """Every worker's own strategy."""
    return [
        MultiWorkerMirroredStrategy(devices(replicas, kind, task), task, count)
        for task in range(count)
    ]


def made_by_all(
    strategies: list[MultiWorkerMirroredStrategy],
    synchronization: Synchronization,
    aggregation: Aggregation,
) -> list[DistributedVariable]:
    """The same variable as every worker has it."""
    asked = VariableOptions(synchronization, aggregation)
    return finish_together([one.create(one.scope(), ZEROS, asked) for one in strategies])


class TestSeveralWorkers:
    @pytest.mark.parametrize(("aggregation", "factor"), [(SUM, 2), (MEAN, 1)])
    def test_a_write_goes_round_between_them_once(
        self, cluster: Priced, aggregation: Aggregation, factor: int
    ) -> None:
        variables = made_by_all(workers(2), ON_WRITE, aggregation)

        assert cluster.cost(*map(writing, variables)) == RING_OF_TWO
        assert [elements(one) for one in variables] == [[[0, factor, 2 * factor]]] * 2
        # Not once for each of the workers, though each reports it.
        assert [(row, source, size) for _, row, source, _, size, *_ in cluster.sent] == [
            (0, "worker/1/0", 1_952),
            (0, "worker/0/0", 2_048),
            (1, "worker/0/0", 1_952),
            (1, "worker/1/0", 2_048),
        ]
        assert sorted(cluster.carried().values()) == [4_000] * 4

    def test_of_the_first_replica_of_each_alone_nothing_moves(self, cluster: Priced) -> None:
        assert cluster.cost(*map(writing, made_by_all(workers(2), ON_WRITE, FIRST))) == 0

    @pytest.mark.parametrize(
        ("aggregation", "expected"), [(SUM, RING_OF_TWO), (MEAN, RING_OF_TWO), (FIRST, 0)]
    )
    def test_reading_on_read_from_outside_is_an_all_reduce(
        self, cluster: Priced, aggregation: Aggregation, expected: int
    ) -> None:
        variables = made_by_all(workers(2), ON_READ, aggregation)

        assert cluster.cost(*[one.read(DEFAULT_CONTEXT) for one in variables]) == expected

    def test_replicas_read_and_write_on_read_for_nothing(self, cluster: Priced) -> None:
        variables = made_by_all(workers(2), ON_READ, SUM)

        assert cluster.cost(*map(writing, variables)) == 0
        assert [elements(one) for one in variables] == [[[0, 1, 2]]] * 2

    def test_the_replicas_of_a_machine_share_its_links(self, cluster: Priced) -> None:
        # A ring of four, 0 1 | 2 3. A share of 4,000 bytes is 1,000, a chunk 1,024; in each of the
        # 6 rounds one of the two ways between the machines has a whole one.
        strategies = workers(2, 2, "gpu")
        for one in strategies:
            cluster.hosts.share(one.devices, 1.0)
        variables = made_by_all(strategies, ON_WRITE, SUM)

        assert cluster.cost(*map(writing, variables)) == 6 * (1_024 + 100)
        assert [elements(one) for one in variables] == [[[0, 4, 8]] * 2] * 2

    @pytest.mark.parametrize("sharing", ["first_come", "fair"])
    def test_who_comes_late_delays_all(self, sharing: Sharing) -> None:
        # Worker 0: replicas ready at 1,000 and 4,000. Worker 1: at 9,000 and 2,000. The ring of
        # four CPUs with links of their own: 6 rounds with chunks of 1,024.
        strategies = workers(2, 2)
        ready = dict(
            zip(devices(2) + devices(2, task=1), (1_000, 4_000, 9_000, 2_000), strict=True)
        )
        cluster, times = Priced(sharing, ready), dict[Any, int]()

        def step(variable: DistributedVariable) -> Callable[[Context], Operation[None]]:
            def replica(context: Context) -> Operation[None]:
                yield Computation(context.device)
                yield from note(times, ("ready", context.replica_id))
                yield from variable.assign(context, own(context))
                yield from note(times, ("written", context.replica_id))

            return replica

        variables = made_by_all(strategies, ON_WRITE, SUM)
        cluster.run(*[in_replicas(s, step(v)) for s, v in zip(strategies, variables, strict=True)])

        assert [times["ready", number] for number in range(4)] == [1_000, 4_000, 9_000, 2_000]
        assert [times["written", number] for number in range(4)] == [9_000 + 6 * 1_124] * 4

    @pytest.mark.parametrize("sharing", ["first_come", "fair"])
    def test_who_reads_its_own_copy_waits_for_nobody(self, sharing: Sharing) -> None:
        ready = {Device(task=0): 1_000, Device(task=1): 9_000}
        cluster, times = Priced(sharing, ready), dict[Any, int]()
        strategies = workers(2)

        def step(variable: DistributedVariable) -> Callable[[Context], Operation[None]]:
            def replica(context: Context) -> Operation[None]:
                yield Computation(context.device)
                yield from variable.assign_add(context, own(context))
                yield from variable.read(context)
                yield from note(times, context.replica_id)

            return replica

        variables = made_by_all(strategies, ON_READ, SUM)
        cluster.run(*[in_replicas(s, step(v)) for s, v in zip(strategies, variables, strict=True)])

        assert times == {0: 1_000, 1: 9_000}


class TestParameterServers:
    """The coordinator is the only replica; servers have links of 1 MB/s."""

    def test_one_copy_is_written_and_read_over_the_network(self, cluster: Priced) -> None:
        variable = made(ParameterServerStrategy(2))

        def write_and_read() -> Operation[None]:
            yield from variable.assign(DEFAULT_CONTEXT, tensor(VALUE))
            yield from variable.read(DEFAULT_CONTEXT)

        assert cluster.cost(write_and_read()) == ONE_COPY + ONE_COPY

    def test_a_replica_pays_the_same(self, cluster: Priced) -> None:
        variable = made(ParameterServerStrategy(2))

        assert cluster.cost(reading(variable)) == ONE_COPY

    def test_two_halves_are_one_copy_on_the_coordinators_link(self, cluster: Priced) -> None:
        # 2 x 2,000 bytes down the one link.
        sharded = made(ParameterServerStrategy(2, FixedShardsPartitioner(2)))

        assert cluster.cost(sharded.read(DEFAULT_CONTEXT)) == ONE_COPY
        assert [(source, size) for _, _, source, _, size, *_ in cluster.sent] == [
            ("ps/0/0", 2_000),
            ("ps/1/0", 2_000),
        ]

    @pytest.mark.parametrize(
        ("servers", "shards", "expected"),
        [
            (1, 1, 4_000 + 100),
            # Both halves side by side.
            (2, 2, 2_000 + 100),
            # In turn: shards 0 and 2 on server 0, 334 and 333 of 1,000 rows.
            (2, 3, (334 + 333) * 4 + 100),
        ],
    )
    def test_for_a_coordinator_with_a_fast_link_servers_send_side_by_side(
        self, cluster: Priced, servers: int, shards: int, expected: int
    ) -> None:
        cluster.hosts.share([DEFAULT_DEVICE], 10.0)
        sharded = made(ParameterServerStrategy(servers, FixedShardsPartitioner(shards)))

        assert cluster.cost(sharded.read(DEFAULT_CONTEXT)) == expected

    @pytest.mark.parametrize(
        ("sharing", "write"),
        # The up link of 10 MB/s: 200 us for the first shard, which server 1 has to wait for; or
        # shared, so that both servers get all that they can take.
        [("first_come", 200 + 2_000 + 100), ("fair", 2_000 + 100)],
    )
    def test_a_write_sends_every_server_its_half(self, sharing: Sharing, write: int) -> None:
        cluster = Priced(sharing)
        cluster.hosts.share([DEFAULT_DEVICE], 10.0)
        sharded = made(ParameterServerStrategy(2, FixedShardsPartitioner(2)))
        cluster.run(sharded.assign(DEFAULT_CONTEXT, tensor(VALUE)))

        assert [row for row in cluster.sent if row[2] == "worker/0/0"][-1][-1] == write
        assert elements(sharded) == [[0, 1, 2], [500, 501, 502]]


class TestCheckpoints:
    """Read, and written again, by the host of the chief: device worker/0/0."""

    mirrored = MirroredStrategy(devices(3))
    central = CentralStorageStrategy(devices(3), Device(number=3))
    servers = ParameterServerStrategy(2, FixedShardsPartitioner(2))

    @pytest.mark.parametrize(
        ("strategy", "synchronization", "aggregation", "saved", "restored"),
        [
            # A copy is on the device of the chief; the other two get theirs from there.
            (mirrored, ON_WRITE, SUM, 0, TWO_COPIES),
            (mirrored, ON_READ, FIRST, 0, TWO_COPIES),
            # The sum is made there, and shared out again.
            (mirrored, ON_READ, SUM, TWO_COPIES, TWO_COPIES),
            (mirrored, ON_READ, MEAN, TWO_COPIES, TWO_COPIES),
            # One copy to and fro; of two shards a half each, over the link of the chief.
            (central, ON_WRITE, SUM, ONE_COPY, ONE_COPY),
            (servers, ON_WRITE, SUM, ONE_COPY, ONE_COPY),
        ],
    )
    def test_saving_is_reading_and_every_copy_is_sent_its_part(
        self,
        cluster: Priced,
        strategy: Strategy,
        synchronization: Synchronization,
        aggregation: Aggregation,
        saved: int,
        restored: int,
    ) -> None:
        variables = {"v": made(strategy, synchronization, aggregation, VALUE)}

        assert cluster.cost(save(variables)) == saved
        assert cluster.another().cost(restore({"v": VALUE}, variables)) == restored

    def test_a_sum_is_restored_in_equal_shares(self, cluster: Priced) -> None:
        variable = made(self.mirrored, ON_READ, SUM)

        assert cluster.cost(restore({"v": 3 * VALUE}, {"v": variable})) == TWO_COPIES
        assert elements(variable) == [[0, 1, 2]] * 3

    def test_variables_follow_one_another(self, cluster: Priced) -> None:
        names = ("a", "b", "c")
        variables = {name: made(self.mirrored, ON_READ, SUM) for name in names}

        def there_and_back() -> Operation[None]:
            saved = yield from save(variables)
            assert list(saved) == list(names)
            yield from restore(saved, variables)

        assert cluster.cost(there_and_back()) == 3 * TWO_COPIES + 3 * TWO_COPIES

    def test_gpus_get_all_of_it_from_the_host(self, cluster: Priced) -> None:
        variable = made(MirroredStrategy(devices(3, "gpu")))

        assert cluster.cost(restore({"v": VALUE}, {"v": variable})) == 3 * 4_000 + 100

    def test_two_workers_save_a_sum_together(self, cluster: Priced) -> None:
        variables = made_by_all(workers(2), ON_READ, SUM)

        assert cluster.cost(*[save({"v": one}) for one in variables]) == RING_OF_TWO

    def test_every_worker_restores_its_own_copies(self, cluster: Priced) -> None:
        # Two replicas each: one copy leaves the first device of each worker.
        variables = made_by_all(workers(2, 2), ON_READ, SUM)

        assert cluster.cost(*[restore({"v": 4 * VALUE}, {"v": one}) for one in variables]) == (
            ONE_COPY
        )
        assert [elements(one) for one in variables] == [[[0, 1, 2]] * 2] * 2

    def test_what_is_saved_is_what_an_outsider_reads(self, cluster: Priced) -> None:
        variable = made(self.mirrored, ON_READ, SUM, VALUE)
        (saved,) = cluster.run(save({"v": variable}))
        read = finish(variable.read(DEFAULT_CONTEXT))

        assert isinstance(read, Tensor)
        assert np.array_equal(saved["v"], read.array)
        assert np.array_equal(saved["v"], 3 * VALUE)
