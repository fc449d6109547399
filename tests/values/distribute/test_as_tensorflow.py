"""What random programs found: each was otherwise than in TensorFlow (conformance: found/...)."""

import numpy as np
import pytest

from varsim.cluster.replicas import LocalReplicas
from varsim.distribute.central import DefaultStrategy
from varsim.distribute.container import Mirrored, PerReplica
from varsim.distribute.context import DEFAULT_CONTEXT, Context
from varsim.distribute.mirrored import SyncOnReadVariable
from varsim.distribute.mirrored_strategy import MirroredStrategy
from varsim.distribute.tensor import Tensor, convert, tensor
from varsim.distribute.training import DistributedOptimizer
from varsim.distribute.variable import DistributedVariable, VariableOptions
from varsim.values.operation import (
    DEFAULT_DEVICE,
    Device,
    DistributionError,
    Movement,
    Operation,
    RefusedProgramError,
    RefusedRuntimeError,
    finish,
)
from varsim.values.optimizer import Adam, Momentum, Sgd
from varsim.values.variable import Aggregation, Synchronization

ml_dtypes = pytest.importorskip("ml_dtypes")

TWO = [Device(number=0), Device(number=1)]


@pytest.fixture
def strategy() -> MirroredStrategy:
    return MirroredStrategy(TWO)


def on_read(
    strategy: MirroredStrategy, aggregation: Aggregation, *copies: float
) -> DistributedVariable:
    asked = VariableOptions(Synchronization.ON_READ, aggregation)
    variable = finish(strategy.create(strategy.scope(), np.float32(0), asked))
    for index, value in enumerate(copies):
        variable.write(index, np.array(value, np.float32))
    return variable


def values(value: object) -> object:
    if isinstance(value, Mirrored | PerReplica):
        return [values(part) for part in value.values]
    assert isinstance(value, Tensor)
    return value.array.tolist()


class TestNoTensorHoldsObjects:
    @pytest.mark.parametrize("value", [None, "text", object(), [object()], {}, PerReplica([1, 2])])
    def test_it_cannot_be_made(self, value: object, strategy: MirroredStrategy) -> None:
        for make in (
            Tensor,
            tensor,
            lambda value: convert(np.array(value, object), np.dtype(np.float32)),
            lambda value: finish(strategy.create(strategy.scope(), lambda: value)),
        ):
            with pytest.raises(ValueError, match="unsupported type"):
                make(value)

    def test_arrays_leave_arithmetic_to_tensors(self) -> None:
        for result in (np.array([1.0, 2.0]) - tensor([1, 1]), np.float64(2) * tensor([1, 1])):
            assert isinstance(result, Tensor)
            assert result.array.dtype == np.int64


class TestAssigningAnOnReadVariableToAnother:
    @pytest.mark.parametrize(
        ("aggregation", "read"),
        [("SUM", 14.0), ("MEAN", 7.0), ("ONLY_FIRST_REPLICA", 4.0)],
    )
    def test_it_is_read_aggregated_for_each_copy(
        self, strategy: MirroredStrategy, aggregation: str, read: float
    ) -> None:
        source = on_read(strategy, Aggregation[aggregation], 4.0, 10.0)
        target = on_read(strategy, Aggregation.MEAN)
        moved: list[Movement] = []
        result = finish(target.assign(DEFAULT_CONTEXT, source), moved)

        assert [copy.tolist() for copy in target.values] == [read, read]
        assert values(result) == read
        # Once per copy written, each time to the device of that copy; and the result to HERE.
        ends = [one.rounds[-1][-1].target for one in moved]
        assert ends[:-1] == (TWO[1:] if aggregation == "ONLY_FIRST_REPLICA" else TWO)

    def test_a_copy_that_was_just_written_counts(self, strategy: MirroredStrategy) -> None:
        # 4 and 10: copy 0 becomes 7; copy 1 the mean of 7 and 10.
        variable = on_read(strategy, Aggregation.MEAN, 4.0, 10.0)
        finish(variable.assign(DEFAULT_CONTEXT, variable))
        assert [copy.tolist() for copy in variable.values] == [7.0, 8.5]

    def test_a_sum_is_read_once_and_shared_out(self, strategy: MirroredStrategy) -> None:
        variable = on_read(strategy, Aggregation.SUM, 4.0, 10.0)
        finish(variable.assign(DEFAULT_CONTEXT, variable))
        assert [copy.tolist() for copy in variable.values] == [7.0, 7.0]

    def test_without_aggregation_nothing_is_written(self, strategy: MirroredStrategy) -> None:
        source = on_read(strategy, Aggregation.NONE, 4.0, 10.0)
        target = on_read(strategy, Aggregation.MEAN, 1.0, 2.0)
        with pytest.raises(ValueError, match="cannot be read from outside"):
            finish(target.assign(DEFAULT_CONTEXT, source))
        assert [copy.tolist() for copy in target.values] == [1.0, 2.0]


class TestBroadcast:
    def test_of_copies_that_stand_for_one_value(self, strategy: MirroredStrategy) -> None:
        value = Mirrored([tensor(3.75, np.float32, device) for device in TWO])
        moved: list[Movement] = []
        variable = on_read(strategy, Aggregation.SUM)
        result = finish(strategy.broadcast_to(DEFAULT_CONTEXT, value, variable), moved)
        assert values(result) == [3.75, 3.75]
        assert moved == []  # each device has its copy
        one = finish(strategy.broadcast_to(DEFAULT_CONTEXT, value, TWO[1]))
        assert isinstance(one, Tensor)
        assert one.device == TWO[1]

    def test_of_a_per_replica_value_sends_all_parts(self, strategy: MirroredStrategy) -> None:
        value = PerReplica([tensor(1.0, np.float32, TWO[0]), tensor(2.0, np.float32, TWO[1])])
        result = finish(
            strategy.broadcast_to(DEFAULT_CONTEXT, value, on_read(strategy, Aggregation.SUM))
        )
        assert isinstance(result, Mirrored)
        assert values(result) == [[1.0, 2.0], [1.0, 2.0]]

    def test_to_nowhere_is_refused(self, strategy: MirroredStrategy) -> None:
        with pytest.raises(RefusedProgramError, match="name one variable"):
            finish(strategy.broadcast_to(DEFAULT_CONTEXT, tensor(1.0), None))


class TestMergesThatDoNotGoTogether:
    def refused(self, strategy: MirroredStrategy, *each: tuple[object, ...]) -> str:
        def replica(context: Context) -> Operation[object]:
            args = each[context.replica_id]
            return context.merge_call(lambda _, *args: None, args)

        with pytest.raises(RefusedProgramError) as caught:
            finish(strategy.run(DEFAULT_CONTEXT, replica))
        assert caught.value.category == "merge_call_mismatch"
        return str(caught.value)

    def test_they_are_refused(self, strategy: MirroredStrategy) -> None:
        assert "1 values in replica 0 and 2 in another" in self.refused(strategy, (1,), (1, 2))
        assert "2 values in replica 0 and 1 in another" in self.refused(strategy, (1, 2), (1,))
        assert "a list in replica 0 and a int" in self.refused(strategy, ([1],), (1,))
        assert "names ['a'] in replica 0 and ['b']" in self.refused(
            strategy, ({"a": 1},), ({"b": 1},)
        )

    def test_a_write_does_not_go_with_another_merge(self, strategy: MirroredStrategy) -> None:
        asked = VariableOptions(aggregation=Aggregation.SUM)
        variable = finish(strategy.create(strategy.scope(), np.float32(0), asked))

        def replica(context: Context) -> Operation[object]:
            if context.replica_id == 0:
                return variable.assign(context, tensor(1.0, np.float32))
            return context.merge_call(lambda _, value: value, (tensor(1.0),))

        with pytest.raises(RefusedProgramError, match="read_value"):
            finish(strategy.run(DEFAULT_CONTEXT, replica))


class TestColocation:
    def test_outside_of_the_scope_it_is_refused(self, strategy: MirroredStrategy) -> None:
        variable = on_read(strategy, Aggregation.SUM)
        with pytest.raises(RefusedRuntimeError, match="Need to be inside"):
            strategy.colocate_vars_with(DEFAULT_CONTEXT, variable)
        other = MirroredStrategy(TWO)
        with pytest.raises(RefusedRuntimeError, match="leave the other scope first"):
            strategy.colocate_vars_with(other.scope(), variable)

    def test_in_replicas_and_in_the_scope_it_holds(self) -> None:
        strategy = MirroredStrategy(TWO)
        variable = on_read(strategy, Aggregation.SUM)
        variable.devices = (TWO[1], TWO[0])
        scope = strategy.colocate_vars_with(strategy.scope(), variable)
        assert finish(strategy.create(scope, 1.0)).devices == variable.devices

        def replica(context: Context) -> Operation[object]:
            return strategy.create(strategy.colocate_vars_with(context, variable), 1.0)

        made = finish(strategy.run(DEFAULT_CONTEXT, replica))
        assert isinstance(made, DistributedVariable)
        assert made.devices == variable.devices

    def test_without_a_strategy_no_scope_is_needed(self) -> None:
        default = DefaultStrategy()
        variable = finish(default.create(DEFAULT_CONTEXT, 1.0))
        context = default.colocate_vars_with(DEFAULT_CONTEXT, variable)
        assert finish(default.create(context, 2.0)).devices == (DEFAULT_DEVICE,)


def test_one_replica_gathers_what_it_has_whatever_the_axis() -> None:
    alone = MirroredStrategy(TWO[:1])
    variable = finish(alone.create(alone.scope(), np.float32(3)))
    for axis in (0, -1, 5):
        assert values(finish(alone.gather(DEFAULT_CONTEXT, variable, axis))) == 3.0


def test_bfloat16_is_a_float(strategy: MirroredStrategy) -> None:
    asked = VariableOptions(Synchronization.ON_READ, Aggregation.MEAN)
    initial = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    variable = finish(strategy.create(strategy.scope(), initial, asked))
    finish(variable.assign_add(DEFAULT_CONTEXT, [1.5, 1.5]))
    result = finish(variable.read(DEFAULT_CONTEXT))
    assert isinstance(result, Tensor)
    assert result.array.dtype == ml_dtypes.bfloat16
    assert result.array.tolist() == [2.5, 3.5]


def test_a_write_returns_the_copy_as_it_is_when_it_is_looked_at(strategy: MirroredStrategy) -> None:
    variable = on_read(strategy, Aggregation.SUM)

    def replica(context: Context) -> Operation[object]:
        first = yield from variable.assign_add(context, 1.0)
        kept = first + 0
        yield from variable.assign_add(context, 1.0)
        return [first, kept]

    first, kept = finish(strategy.run(DEFAULT_CONTEXT, replica))
    assert (values(first), values(kept)) == ([2.0, 2.0], [1.0, 1.0])


class TestNumbersThatKerasKeepsInFloat32:
    def step(self, rule: Sgd | Momentum | Adam) -> float:
        strategy = DefaultStrategy()
        variable = finish(strategy.create(DEFAULT_CONTEXT, np.array(0.0)))
        optimizer = finish(DistributedOptimizer.create(strategy, rule))
        for _ in range(2):
            finish(
                strategy.run(
                    DEFAULT_CONTEXT,
                    lambda context: optimizer.apply_gradients(
                        context, [(tensor(-1.0, np.float64), variable)]
                    ),
                )
            )
        return float(variable.value)

    def test_the_learning_rate_and_the_momentum(self) -> None:
        rate, momentum = float(np.float32(0.1)), float(np.float32(0.9))
        assert self.step(Sgd(learning_rate=0.1)) == 2 * rate
        got = self.step(Momentum(learning_rate=0.1, momentum=0.9))
        assert got == pytest.approx(rate * (2 + momentum), rel=1e-15)

    def test_the_powers_of_adam(self) -> None:
        # m = -0.1, -0.19; v = 0.001, 0.001999: exactly these, whatever the powers.
        b1, b2 = float(np.float32(0.9)), float(np.float32(0.999))
        steps = [
            np.sqrt(1 - b2**t) / (1 - b1**t) * m / (np.sqrt(v) + 1e-8)
            for t, m, v in ((1, 0.1, 0.001), (2, 0.19, 0.001999))
        ]
        got = self.step(Adam(learning_rate=0.5))
        assert got == pytest.approx(0.5 * sum(steps), rel=1e-12)

    def test_what_is_0_by_0_is_nan_as_in_tensorflow(self) -> None:
        """In float16 epsilon is 0, and so are m and v of a gradient of 0; warnings are errors."""
        strategy = DefaultStrategy()
        variable = finish(strategy.create(DEFAULT_CONTEXT, np.array(1.0, np.float16)))
        rule = Adam(learning_rate=0.5, epsilon=1e-8)
        optimizer = finish(DistributedOptimizer.create(strategy, rule))
        pairs = [(tensor(0.0, np.float16), variable)]
        finish(
            strategy.run(DEFAULT_CONTEXT, lambda context: optimizer.apply_gradients(context, pairs))
        )
        assert np.isnan(variable.value)

    def test_an_optimizer_makes_no_steps_of_integers(self) -> None:
        strategy = DefaultStrategy()
        variable = finish(strategy.create(DEFAULT_CONTEXT, np.array(0)))
        optimizer = finish(DistributedOptimizer.create(strategy, Sgd(learning_rate=1.0)))
        with pytest.raises(DistributionError, match="variables of floats"):
            finish(
                strategy.run(
                    DEFAULT_CONTEXT,
                    lambda context: optimizer.apply_gradients(context, [(tensor(1), variable)]),
                )
            )


def test_runs_read_on_read_variables_as_the_recorded_cases_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LocalReplicas has no way of its own to aggregate copies."""
    asked: list[SyncOnReadVariable] = []
    read = SyncOnReadVariable.read_cross_replica

    def noted(self: SyncOnReadVariable, context: Context) -> Operation[object]:
        asked.append(self)
        return read(self, context)

    monkeypatch.setattr(SyncOnReadVariable, "read_cross_replica", noted)
    strategy = MirroredStrategy(TWO)
    variable = on_read(strategy, Aggregation.MEAN, 4.0, 10.0)
    replicas = object.__new__(LocalReplicas)
    replicas.variables = [variable]  # type: ignore[list-item]
    replicas.members, replicas.steps = [0, 1], [0, 0]
    replicas._died = set()
    assert [value.tolist() for value in replicas.aggregate()] == [7.0]
    assert asked == [variable]
