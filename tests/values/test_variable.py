"""Distributed variables: what a write does to the copies, what a read from outside gives."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.building import mean
from varsim.distribute.central import PlainVariable
from varsim.distribute.context import DEFAULT_CONTEXT
from varsim.distribute.mirrored import MirroredVariable, SyncOnReadVariable
from varsim.distribute.mirrored_strategy import MirroredStrategy
from varsim.distribute.tensor import Tensor
from varsim.values.operation import Device, finish
from varsim.values.optimizer import Momentum, Optimizer, Sgd
from varsim.values.variable import (
    Aggregation,
    Attributes,
    ReduceOp,
    Synchronization,
    Variable,
    divergence,
)

Array = NDArray[np.float64]
MOMENTUM = Momentum(learning_rate=0.1, momentum=0.5)
START = np.array([1.0, 2.0])


def array(*numbers: float) -> Array:
    return np.array(numbers)


def mirrored(optimizer: Optimizer, replicas: int) -> MirroredVariable:
    return MirroredVariable(START, devices(replicas), optimizer=optimizer)


def devices(number: int) -> tuple[Device, ...]:
    return tuple(Device(task=task) for task in range(number))


def strategy(number: int) -> MirroredStrategy:
    return MirroredStrategy(devices(number))


def read(variable: SyncOnReadVariable) -> Array:
    """What an outsider reads."""
    value = finish(variable.read(DEFAULT_CONTEXT))
    assert isinstance(value, Tensor)
    return value.array


def test_the_enums_are_tensorflows() -> None:
    assert [member.name for member in Synchronization] == ["AUTO", "NONE", "ON_WRITE", "ON_READ"]
    assert [member.name for member in Aggregation] == [
        "NONE",
        "SUM",
        "MEAN",
        "ONLY_FIRST_REPLICA",
    ]
    assert [member.value for member in Aggregation] == [0, 1, 2, 3]
    assert [member.name for member in ReduceOp] == ["SUM", "MEAN"]


def test_a_plain_variable_takes_one_step_after_the_other() -> None:
    # velocity 1, 1.5; value 1 - 0.1, 0.9 - 0.15; never in place.
    variable = PlainVariable(START, optimizer=MOMENTUM)
    first = variable.value
    variable.apply(0, array(1, 0))
    variable.apply(0, array(1, 0))

    assert variable.value.tolist() == pytest.approx([0.75, 2.0])
    assert first is START
    assert START.tolist() == [1.0, 2.0]


def test_a_variable_is_trained_by_one_optimizer() -> None:
    variable = Variable(START)
    variable.train_with(MOMENTUM)
    variable.train_with(MOMENTUM)

    assert [slot.tolist() for slot in variable.state] == [[0, 0]]
    with pytest.raises(ValueError, match="one optimizer"):
        variable.train_with(Sgd(learning_rate=1.0))


class TestMirrored:
    def test_the_same_write_keeps_copies_equal(self) -> None:
        variable = mirrored(MOMENTUM, 3)
        for gradient in (array(1, 2), array(3, -1)):
            for replica in range(3):
                variable.apply(replica, gradient)
        alone = PlainVariable(START, optimizer=MOMENTUM)
        alone.apply(0, array(1, 2))
        alone.apply(0, array(3, -1))

        assert variable.copies_are_equal()
        assert all(copy.tobytes() == alone.value.tobytes() for copy in variable.values)

    def test_copies_that_are_equal_may_be_reached_in_any_order(self) -> None:
        # Replica 1 is a step behind when replica 0 makes its second.
        variable = mirrored(MOMENTUM, 2)
        one, two = array(1, 2), array(3, -1)
        variable.apply(0, one)
        assert not variable.copies_are_equal()
        variable.apply(0, two)
        variable.apply(1, one)
        assert not variable.copies_are_equal()
        variable.apply(1, two)
        assert variable.copies_are_equal()

    def test_another_gradient_makes_copies_differ(self) -> None:
        variable = mirrored(Sgd(learning_rate=1.0), 2)
        variable.apply(0, array(1, 0))
        variable.apply(1, array(0, 1))

        assert [copy.tolist() for copy in variable.values] == [[0, 2], [1, 1]]
        assert not variable.copies_are_equal()

    def test_slots_count_as_well(self) -> None:
        # Equal values, different velocities.
        variable = mirrored(MOMENTUM, 2)
        variable.apply(0, array(1, 1))
        variable.apply(1, array(1, 1))
        assert variable.copies_are_equal()
        variable.states[1] = (variable.states[1][0] + 1,)
        assert not variable.copies_are_equal()


class TestSyncOnRead:
    def variable(self, aggregation: Aggregation, replicas: int = 3) -> SyncOnReadVariable:
        asked = Attributes(Synchronization.ON_READ, aggregation)
        variable = SyncOnReadVariable(
            START, devices(replicas), asked, Sgd(learning_rate=1.0), strategy(replicas)
        )
        for replica in range(replicas):
            variable.apply(replica, array(replica, 0.1))
        return variable

    def test_a_write_stays_local(self) -> None:
        copies = self.variable(Aggregation.MEAN).values

        assert [copy.tolist() for copy in copies] == [[1, 1.9], [0, 1.9], [-1, 1.9]]

    def test_reading_aggregates_and_does_not_write(self) -> None:
        # Copies [1, 1.9], [0, 1.9], [-1, 1.9], added first to last.
        third = array(1.9) + array(1.9) + array(1.9)
        for aggregation, expected in {
            Aggregation.MEAN: [0, float(third[0] / 3)],
            Aggregation.SUM: [0, float(third[0])],
            Aggregation.ONLY_FIRST_REPLICA: [1, 1.9],
        }.items():
            variable = self.variable(aggregation)
            before = list(variable.values)
            assert read(variable).tolist() == expected
            assert all(copy is value for copy, value in zip(variable.values, before, strict=True))

    def test_without_aggregation_there_is_no_reading(self) -> None:
        with pytest.raises(ValueError, match="NONE cannot be read from outside"):
            read(self.variable(Aggregation.NONE))

    def test_a_sum_starts_with_the_whole_value_in_every_copy(self) -> None:
        # TensorFlow: a variable created as 1 on 3 replicas reads as 3.
        asked = Attributes(Synchronization.ON_READ, Aggregation.SUM)
        variable = SyncOnReadVariable(array(1.0), devices(3), asked, strategy=strategy(3))

        assert read(variable).tolist() == [3.0]

    @pytest.mark.parametrize(
        ("aggregation", "copy", "whole"),
        [
            (Aggregation.SUM, 2.0, 6.0),
            (Aggregation.MEAN, 6.0, 6.0),
            (Aggregation.ONLY_FIRST_REPLICA, 6.0, 6.0),
        ],
    )
    def test_assigning_from_outside(
        self, aggregation: Aggregation, copy: float, whole: float
    ) -> None:
        # Under SUM each of 3 copies gets a third, so that reading gives what was assigned.
        variable = self.variable(aggregation)
        for replica in range(3):
            variable.write(replica, variable.share(array(6.0, 6.0)))

        assert [one.tolist() for one in variable.values] == [[copy, copy]] * 3
        assert read(variable).tolist() == [whole, whole]

    def test_assigning_keeps_the_slots(self) -> None:
        asked = Attributes(Synchronization.ON_READ, Aggregation.MEAN)
        variable = SyncOnReadVariable(START, devices(2), asked, MOMENTUM)
        variable.apply(0, array(1, 1))
        state = variable.states[0]
        variable.write(0, array(5, 5))

        assert variable.states[0] is state

    def test_reading_and_writing_back_in_turn(self) -> None:
        variable = self.variable(Aggregation.MEAN)
        aggregate = read(variable)
        for replica in range(3):
            variable.write(replica, variable.share(aggregate))

        assert read(variable).tolist() == mean([aggregate] * 3).tolist()


class TestDivergence:
    def test_it_is_the_largest_distance_of_two_copies(self) -> None:
        # Models of two variables: (0, 0 | 0), (3, 4 | 0), (0, 0 | 12): 5, 12 and 13 apart.
        copies = [
            [array(0, 0), array(0)],
            [array(3, 4), array(0)],
            [array(0, 0), array(12)],
        ]

        assert divergence(copies) == 13.0
        assert divergence(copies[:2]) == 5.0

    def test_one_copy_or_equal_copies_do_not_diverge(self) -> None:
        assert divergence([[START]]) == 0.0
        assert divergence([[START], [START.copy()]]) == 0.0

    def test_shapes_of_all_ranks_count(self) -> None:
        assert (
            divergence([[np.zeros((2, 2)), np.array(0.0)], [np.ones((2, 2)), np.array(0.0)]]) == 2
        )
