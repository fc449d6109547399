"""varsim.tf as its users type it; that its values are TensorFlow's, tests/conformance shows."""

import threading
from pathlib import Path

import numpy as np
import pytest

from tests.pages import blocks
from varsim import tf

PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "tensorflow.md"
CLUSTER = "scenarios/metric_sum.yaml"


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for code in blocks("python", PAGE.read_text()):
        exec(compile(code, "tensorflow.md", "exec"), names)

    printed = capsys.readouterr().out
    assert "read_value 2 messages, 8 B" in printed
    assert "run        0 messages, 0 B, 0.0 us" in printed


def mirrored(replicas: int = 3) -> tuple[tf.MirroredStrategy, tf.Variable]:
    strategy = tf.MirroredStrategy(replicas, cluster=CLUSTER)
    with strategy.scope():
        return strategy, tf.Variable(1.0, aggregation="SUM")


class TestCalls:
    def test_a_read_of_a_mirrored_copy_is_free(self) -> None:
        strategy, variable = mirrored()

        variable.read_value()

        assert strategy.calls[-1] == tf.Call("read_value", strategy.calls[-1].movements, 0.0)
        assert strategy.calls[-1].messages == 0

    def test_a_small_all_reduce_goes_round_in_four_messages_on_three_workers(self) -> None:
        strategy, variable = mirrored()

        strategy.run(lambda: variable.assign_add(tf.constant(2.0)))

        # One chunk of 4 bytes: summed up on its way to the last rank, and twice sent on.
        call = strategy.calls[-1]
        assert (call.name, call.messages, call.bytes) == ("run", 4, 16)
        assert call.seconds > 0
        assert variable.numpy() == 7.0

    def test_without_a_cluster_nothing_takes_time(self) -> None:
        strategy = tf.MirroredStrategy(2)
        with strategy.scope():
            variable = tf.Variable(1.0, aggregation="MEAN")
        strategy.run(lambda: variable.assign(tf.constant(5.0)))

        assert [call.seconds for call in strategy.calls] == [0.0] * len(strategy.calls)
        assert any(call.messages for call in strategy.calls)

    def test_a_refused_call_is_kept_with_what_it_moved(self) -> None:
        strategy, variable = mirrored()

        with pytest.raises(ValueError, match="Shape mismatch"):
            variable.assign([1.0, 2.0])

        assert strategy.calls[-1].name == "assign"


class TestThreads:
    def test_none_is_left_after_a_refusal_in_the_middle_of_replicas(self) -> None:
        strategy, variable = mirrored()
        before = threading.active_count()

        def step() -> None:
            if tf.get_replica_context().replica_id_in_sync_group == 1:  # type: ignore[union-attr]
                variable.assign_add(tf.constant(1.0))

        with pytest.raises(RuntimeError, match="different number of merges"):
            strategy.run(step)

        assert threading.active_count() == before

    def test_an_error_of_the_users_own_comes_out_as_it_is(self) -> None:
        strategy, variable = mirrored()

        def step() -> None:
            variable.assign_add(tf.constant(1.0))
            raise KeyError("my own")

        with pytest.raises(KeyError, match="my own"):
            strategy.run(step)
        assert variable.numpy() == 4.0

    def test_a_replica_may_catch_a_refusal_and_go_on(self) -> None:
        strategy, _ = mirrored()

        def step() -> str:
            try:
                strategy.reduce("SUM", tf.constant(1.0))
            except RuntimeError:
                return "refused"
            return "done"

        assert strategy.run(step) == "refused"


def test_the_context_is_that_of_where_one_stands() -> None:
    strategy, _ = mirrored(2)
    assert not tf.has_strategy()
    assert tf.get_replica_context() is None

    def inside() -> bool:
        return tf.get_strategy() is strategy and not tf.in_cross_replica_context()

    with strategy.scope():
        assert tf.get_strategy() is strategy
        assert tf.in_cross_replica_context()
        assert strategy.run(inside) is True
    assert not tf.in_cross_replica_context()


def test_the_example_of_call_for_each_replica() -> None:
    # From TensorFlow's page on StrategyExtended: v is 3 + id, s their sum.
    strategy, _ = mirrored(2)

    def merge_fn(distribution: tf.Strategy, three_plus_replica_id: object) -> object:
        return sum(distribution.experimental_local_results(three_plus_replica_id))

    def fn(three: int) -> object:
        context = tf.get_replica_context()
        assert context is not None
        v = three + context.replica_id_in_sync_group
        return context.merge_call(merge_fn, args=(v,)) + v

    results = strategy.extended.call_for_each_replica(fn, args=[3])

    assert strategy.experimental_local_results(results) == (10, 11)


def test_variables_beside_another_are_updated_with_it() -> None:
    strategy, first = mirrored(2)
    with strategy.scope(), strategy.extended.colocate_vars_with(first):
        second = tf.Variable(4.0)

    strategy.extended.update(first, lambda copy, other: copy.assign(other), args=(second,))

    assert [float(copy) for copy in first.values] == [4.0, 4.0]


def test_arithmetic_with_a_variable_reads_it_on_either_side() -> None:
    _, variable = mirrored(2)
    tensor = tf.constant(3.0)

    assert [float(x) for x in (variable + 1.0, 1.0 - variable, tensor * variable)] == [
        2.0,
        0.0,
        3.0,
    ]
    assert np.asarray(variable) == 1.0


def test_the_cluster_is_that_of_variables() -> None:
    with pytest.raises(TypeError, match="kind: variables"):
        tf.MirroredStrategy(2, cluster="scenarios/quickstart.yaml")


class TestWhatWouldWaitForEver:
    def test_a_take_of_too_few(self) -> None:
        accumulator = tf.ConditionalAccumulator()
        accumulator.apply_grad(1.0)

        with pytest.raises(RuntimeError, match="only 1 have come"):
            accumulator.take_grad(2)
        assert accumulator.num_accumulated() == 1

    def test_a_dequeue_of_nothing(self) -> None:
        with pytest.raises(RuntimeError, match="empty"):
            tf.FIFOQueue().dequeue()


def test_rows_are_averaged_over_those_that_have_them() -> None:
    accumulator = tf.SparseConditionalAccumulator()
    for rows, value in (([0], 2.0), ([0, 1], 4.0)):
        values = np.full((len(rows), 1), value, np.float32)
        accumulator.apply_indexed_slices_grad(tf.IndexedSlices(np.array(rows), values))

    taken = accumulator.take_indexed_slices_grad(2)

    assert taken.values.ravel().tolist() == [3.0, 4.0]


def test_a_sharded_variable_is_assigned_in_parts() -> None:
    strategy = tf.ParameterServerStrategy(2, tf.FixedShardsPartitioner(2))
    with strategy.scope():
        variable = tf.Variable([1.0, 2.0, 3.0])
    variable.assign([4.0, 5.0, 6.0])
    assert variable.numpy().tolist() == [4.0, 5.0, 6.0]
    assert strategy.calls[-1].messages == 2


def test_a_number_beside_a_truth_counts_as_whether_it_is_0() -> None:
    assert (tf.convert_to_tensor([True, False]) * 2.5).numpy().tolist() == [True, False]
