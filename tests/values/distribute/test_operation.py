"""How operations are carried out, values grouped, and what is refused."""

import numpy as np
import pytest

from varsim.distribute.central import (
    CentralStorageStrategy,
    FixedShardsPartitioner,
    MaxSizePartitioner,
    MinSizePartitioner,
    ParameterServerStrategy,
    PlainVariable,
    create_without_scope,
)
from varsim.distribute.container import Component, Mirrored, PerReplica, regroup, select
from varsim.distribute.context import DEFAULT_CONTEXT, Context
from varsim.distribute.mirrored_strategy import MirroredStrategy, MultiWorkerMirroredStrategy
from varsim.distribute.tensor import Tensor, convert, divide, kind_of, share, shown, tensor
from varsim.distribute.variable import VariableOptions, restore, save
from varsim.values.operation import (
    DEFAULT_DEVICE,
    Device,
    DistributionError,
    Exchange,
    InvalidArgumentError,
    Operation,
    finish,
    finish_together,
)
from varsim.values.variable import Aggregation, Synchronization

TWO = [Device(number=0), Device(number=1)]


def numbers(value: object) -> object:
    assert isinstance(value, Tensor)
    return value.array.tolist()


class TestCarryingOut:
    def test_workers_meet_in_an_exchange(self) -> None:
        def worker(part: int) -> Operation[list[int]]:
            first: list[int] = yield Exchange(part)
            second: list[int] = yield Exchange(part * 10)
            return first + second

        assert finish_together([worker(1), worker(2)]) == [[1, 2, 10, 20]] * 2

    def test_a_worker_that_waits_in_vain_is_named(self) -> None:
        def worker(rounds: int) -> Operation[None]:
            for _ in range(rounds):
                yield Exchange(None)

        with pytest.raises(RuntimeError, match=r"workers \[1\] wait .* workers \[0\] do not"):
            finish_together([worker(1), worker(2)])

    def test_replicas_run_in_turn_up_to_their_merge(self) -> None:
        strategy, seen = MirroredStrategy(TWO), list[str]()

        def replica(context: Context) -> Operation[object]:
            seen.append(f"before {context.replica_id}")
            yield from context.merge_call(lambda _: seen.append("merge"))
            seen.append(f"after {context.replica_id}")

        finish(strategy.run(DEFAULT_CONTEXT, replica))

        assert seen == ["before 0", "before 1", "merge", "after 0", "after 1"]

    def test_a_replica_function_may_be_an_ordinary_one(self) -> None:
        result = finish(
            MirroredStrategy(TWO).run(DEFAULT_CONTEXT, lambda context: context.replica_id)
        )

        assert isinstance(result, PerReplica)
        assert result.values == (0, 1)


class TestGrouping:
    def test_one_object_stays_one_object(self) -> None:
        one, other = tensor(1.0), tensor(1.0)

        assert regroup([one, one]) is one
        assert isinstance(regroup([one, other]), PerReplica)
        assert regroup([one]) is one

    def test_lists_and_dicts_are_grouped_item_by_item(self) -> None:
        one, two, three = tensor(1.0), tensor(2.0), tensor(3.0)
        grouped = regroup([{"a": [one, two]}, {"a": [one, three]}], Mirrored)

        assert isinstance(grouped, dict)
        assert grouped["a"][0] is one
        assert isinstance(grouped["a"][1], Mirrored)
        assert select(1, grouped) == {"a": [one, three]}

    def test_the_copies_of_a_variable_are_the_variable(self) -> None:
        variable = finish(MirroredStrategy(TWO).create(DEFAULT_CONTEXT, 1.0))
        copies = [select(replica, variable) for replica in (0, 1)]

        assert copies == [Component(variable, 0), Component(variable, 1)]
        assert regroup(copies) is variable

    def test_equal_copies_are_one_member_of_a_set(self) -> None:
        variable = finish(MirroredStrategy(TWO).create(DEFAULT_CONTEXT, 1.0))
        other = finish(MirroredStrategy(TWO).create(DEFAULT_CONTEXT, 1.0))
        copies = {Component(variable, 0), Component(variable, 0), Component(variable, 1)}

        assert len(copies | {Component(other, 0)}) == 3


class TestConversion:
    def test_bytes_without_a_meaning_are_no_floats(self) -> None:
        assert kind_of(np.dtype("V2")) == "V"
        assert kind_of(np.dtype(np.float16)) == "f"

    def test_a_message_shows_numbers_in_full_and_of_arrays_their_shape(self) -> None:
        assert shown(tensor(1.5, np.float32)) == shown(1.5) == "1.5"
        assert shown(np.zeros((2, 3))) == "float64 of shape (2, 3)"

    def test_tensors_keep_their_dtype(self) -> None:
        with pytest.raises(ValueError, match="cast it first"):
            convert(tensor(1.0, np.float64), np.dtype(np.float32))

    @pytest.mark.parametrize(
        ("value", "dtype"),
        [(1, "f4"), (2, "i8"), (1.5, "f8"), (True, "?"), (True, "f4"), ([1, 2.5], "f4")],
    )
    def test_numbers_fit_where_nothing_is_lost(self, value: object, dtype: str) -> None:
        assert convert(value, np.dtype(dtype)).dtype == dtype

    @pytest.mark.parametrize(
        ("value", "dtype"), [(1.5, "i4"), (True, "u1"), (1, "?"), (1j, "f4"), ([1, 2.5], "i4")]
    )
    def test_others_do_not(self, value: object, dtype: str) -> None:
        with pytest.raises(TypeError, match="Cannot convert"):
            convert(value, np.dtype(dtype))

    def test_of_complex_numbers_the_real_part_is_left(self) -> None:
        assert convert(np.array([1 + 2j, 2j]), np.dtype("f4")).tolist() == [1.0, 0.0]
        assert convert(np.array([1 + 2j, 2j]), np.dtype("?")).tolist() == [True, True]
        assert numbers(tensor([1 + 2j]).cast("i4")) == [1]

    def test_a_mean_of_integers_is_a_float(self) -> None:
        assert divide(np.array(7, np.int32), 2).dtype == np.float64
        assert divide(np.array(7, np.uint8), 2).dtype == np.float32

    def test_shares_of_integers_are_cut_towards_zero(self) -> None:
        assert [int(share(value, 2, np.dtype("i4"))) for value in (7, -7, tensor(-7))] == [
            3,
            -3,
            -3,
        ]


class TestRefusals:
    def test_an_error_is_of_tensorflows_type_and_has_a_category(self) -> None:
        strategy = MirroredStrategy(TWO)
        with pytest.raises(ValueError, match="ON_READ for independent copies") as caught:
            finish(strategy.create(DEFAULT_CONTEXT, 1.0, VariableOptions(Synchronization.NONE)))

        assert isinstance(caught.value, DistributionError)
        assert caught.value.tensorflow == "ValueError"
        assert caught.value.category == "synchronization_none"

    def test_an_axis_that_does_not_exist(self) -> None:
        strategy = MirroredStrategy(TWO)
        value = PerReplica([tensor([1.0], device=device) for device in TWO])
        for axis in (1, -2, (0, 1)):
            for op in ("SUM", "MEAN"):
                with pytest.raises(ValueError, match="Invalid reduction dimension"):
                    finish(strategy.reduce(DEFAULT_CONTEXT, op, value, axis))

    def test_bool_is_not_summed_along_an_axis(self) -> None:
        with pytest.raises(TypeError, match="cast"):
            finish(MirroredStrategy(TWO).reduce(DEFAULT_CONTEXT, "SUM", tensor([True]), 0))

    def test_a_checkpoint_of_another_dtype(self) -> None:
        variable = finish(MirroredStrategy(TWO).create(DEFAULT_CONTEXT, np.float32(1)))
        with pytest.raises(InvalidArgumentError, match="as it was saved"):
            finish(variable.restore(np.array(1.0)))

    def test_merge_call_needs_a_replica(self) -> None:
        with pytest.raises(RuntimeError, match="call the function itself"):
            finish(DEFAULT_CONTEXT.merge_call(lambda _: None))


class TestScatter:
    def test_replicas_add_their_rows_once(self) -> None:
        # Replica i adds 1 + i to row i; both add to row 2.
        strategy = MirroredStrategy(TWO)
        asked = VariableOptions(aggregation=Aggregation.SUM)
        variable = finish(strategy.create(DEFAULT_CONTEXT, np.zeros(3, np.float32), asked))

        def replica(context: Context) -> Operation[object]:
            number = context.replica_id
            rows = tensor([1 + number, 10 * (1 + number)], np.float32, context.device)
            return variable.scatter(context, "add", np.array([number, 2]), rows)

        finish(strategy.run(DEFAULT_CONTEXT, replica))

        assert [value.tolist() for value in variable.values] == [[1, 2, 30]] * 2

    def test_without_aggregation_each_writes_its_own(self) -> None:
        strategy = MirroredStrategy(TWO)
        variable = finish(strategy.create(DEFAULT_CONTEXT, np.zeros(2, np.float32)))

        def replica(context: Context) -> Operation[object]:
            one = tensor([5.0], np.float32, context.device)
            return variable.scatter(context, "update", np.array([context.replica_id]), one)

        finish(strategy.run(DEFAULT_CONTEXT, replica))

        assert [value.tolist() for value in variable.values] == [[5, 0], [0, 5]]

    @pytest.mark.parametrize("aggregation", [Aggregation.NONE, Aggregation.MEAN])
    def test_central_storage_makes_the_update_of_every_replica(
        self, aggregation: Aggregation
    ) -> None:
        strategy = CentralStorageStrategy(TWO, DEFAULT_DEVICE)
        asked = VariableOptions(aggregation=aggregation)
        variable = finish(strategy.create(DEFAULT_CONTEXT, np.zeros(2, np.float32), asked))
        finish(
            strategy.run(
                DEFAULT_CONTEXT,
                lambda context: variable.scatter(
                    context, "add", np.array([0]), tensor([5.0], np.float32)
                ),
            )
        )
        assert variable.value.tolist() == [10.0, 0.0]


class TestShards:
    def test_the_first_shards_are_longer(self) -> None:
        strategy = ParameterServerStrategy(2, FixedShardsPartitioner(3))
        variable = finish(strategy.create(DEFAULT_CONTEXT, np.arange(7, dtype=np.float32)))

        assert [shard.tolist() for shard in variable.values] == [[0, 1, 2], [3, 4], [5, 6]]
        assert [device.task for device in variable.devices] == [0, 1, 0]

    def test_it_is_written_and_read_as_a_whole(self) -> None:
        strategy = ParameterServerStrategy(2, FixedShardsPartitioner(3))
        variable = finish(strategy.create(DEFAULT_CONTEXT, np.arange(7, dtype=np.float32)))
        finish(variable.assign_add(DEFAULT_CONTEXT, np.ones(7, np.float32)))

        assert numbers(finish(variable.read(DEFAULT_CONTEXT))) == [1, 2, 3, 4, 5, 6, 7]
        with pytest.raises(InvalidArgumentError, match="nothing is broadcast"):
            finish(variable.assign_add(DEFAULT_CONTEXT, np.ones(1, np.float32)))

    def test_a_checkpoint_holds_it_whole(self) -> None:
        strategy = ParameterServerStrategy(2, FixedShardsPartitioner(3))
        variable = finish(strategy.create(DEFAULT_CONTEXT, np.arange(7, dtype=np.float32)))
        saved = finish(save({"v": variable}))
        finish(variable.assign(DEFAULT_CONTEXT, np.zeros(7, np.float32)))
        finish(restore(saved, {"v": variable}))

        assert saved["v"].tolist() == list(range(7))
        assert [shard.tolist() for shard in variable.values] == [[0, 1, 2], [3, 4], [5, 6]]

    @pytest.mark.parametrize(
        ("partitioner", "shards"),
        [
            (FixedShardsPartitioner(4), 4),
            # 40 bytes: ceil(40 / 16) = 3, at most 2.
            (MinSizePartitioner(16, 5), 3),
            (MinSizePartitioner(16, 2), 2),
            # One row of 4 bytes in 4; two in 11: ceil(10 / 2).
            (MaxSizePartitioner(4), 10),
            (MaxSizePartitioner(11), 5),
            (MaxSizePartitioner(1), 10),
            (MaxSizePartitioner(4, 3), 3),
        ],
    )
    def test_how_many(self, partitioner: FixedShardsPartitioner, shards: int) -> None:
        assert partitioner.shards((10,), 4) == shards


def test_a_variable_made_outside_is_plain() -> None:
    variable = create_without_scope(1.0, VariableOptions(Synchronization.ON_READ, Aggregation.SUM))

    assert isinstance(variable, PlainVariable)
    assert not MirroredStrategy(TWO).created(variable)


def test_a_worker_restores_its_share_of_all_replicas() -> None:
    # Two workers with one replica: a sum of 6 is 3 each.
    workers = [MultiWorkerMirroredStrategy([Device(task=task)], task, 2) for task in (0, 1)]
    asked = VariableOptions(Synchronization.ON_READ, Aggregation.SUM)
    variables = finish_together([one.create(one.scope(), 0.0, asked) for one in workers])
    for variable in variables:
        finish(variable.restore(np.array(6.0)))

    assert [variable.value.tolist() for variable in variables] == [3.0, 3.0]
    reads = finish_together([variable.read(DEFAULT_CONTEXT) for variable in variables])
    assert [numbers(value) for value in reads] == [6.0, 6.0]
