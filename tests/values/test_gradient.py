"""Gradients as lazy values: the same bits whenever, and with whomever, they are worked out."""

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.building import mean, scenario
from varsim.values.gradient import STACK, Gradient, Gradients, Parameters
from varsim.values.gradient_form import IndexedSlices
from varsim.values.operation import RefusedValueError
from varsim.values.problem import Task
from varsim.values.task import Batches, StackedGradients

PROBLEMS: dict[str, dict[str, Any]] = {
    "quadratic": {"kind": "quadratic", "noise": 1.0},
    "one number": {"kind": "quadratic", "dimension": 1, "noise": 1.0},
    "linear_regression": {"kind": "linear_regression"},
    "softmax": {"kind": "digits"},
    "mlp": {"kind": "digits", "model": "mlp", "hidden": 7},
}
every_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)


class Read(NamedTuple):
    parameters: Parameters
    time: int = 0
    global_step: int = 0


def task_of(problem: dict[str, Any]) -> Task:
    return scenario({"kind": "single"}, problem=problem).workload.problem.task(3, 0)


def versions(task: Task, number: int) -> list[Parameters]:
    """Different parameters of one task."""
    source = np.random.default_rng(5)
    start = task.initial()
    return [
        tuple(value + 0.1 * source.standard_normal(value.shape) for value in start)
        for _ in range(number)
    ]


def some(task: Task, reads: Sequence[Parameters], batch_size: int = 8) -> list[Gradient]:
    """One gradient for each read; number i is of worker i."""
    return [
        Gradient(worker, 0, Read(parameters), task.batches(worker, 0, batch_size)[0], 0, 1)
        for worker, parameters in enumerate(reads)
    ]


def plainly(task: Task, gradient: Gradient, batch_size: int = 8) -> Parameters:
    """What it is, worked out alone and directly."""
    batch = task.batches(gradient.worker, 0, batch_size)[:1]
    return tuple(rows[0] for rows in task.gradients(gradient.read.parameters, batch))


def same(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    return np.shape(a) == np.shape(b) and np.asarray(a).tobytes() == np.asarray(b).tobytes()


@every_problem
def test_a_value_is_what_the_task_says(problem: dict[str, Any]) -> None:
    task = task_of(problem)
    gradients = Gradients(task)
    (one,) = some(task, versions(task, 1))
    expected = plainly(task, one)

    for variable, part in enumerate(expected):
        assert same(gradients.value(one, variable), part)
    assert gradients.evaluated == 1


@every_problem
@pytest.mark.parametrize("number", [1, 2, 7, 8, 9, 33, STACK, STACK + 1, 150])
def test_a_mean_adds_in_order(problem: dict[str, Any], number: int) -> None:
    # All of one version, in the order given, which is not that of the workers.
    task = task_of(problem)
    (version,) = versions(task, 1)
    group = some(task, [version] * number)
    random.Random(number).shuffle(group)
    gradients = Gradients(task)

    for variable in range(len(version)):
        parts = [plainly(task, gradient)[variable] for gradient in group]
        assert same(gradients.mean(group, variable), mean(parts))
    assert gradients.evaluated == number


@every_problem
def test_whom_it_is_worked_out_with_does_not_matter(problem: dict[str, Any]) -> None:
    # 40 gradients of up to 5 versions, in groups of any size, some asked for alone before, some
    # worked out ahead; each mean is that of gradients worked out one by one.
    task = task_of(problem)
    source = random.Random(11)
    reads = versions(task, 5)
    for lazy in (True, False):
        group = some(task, [source.choice(reads) for _ in range(40)])
        gradients = Gradients(task, lazy)
        for gradient in group[:3]:
            gradients.value(gradient, 0, ahead=group[20:25] if lazy else ())
        while group:
            part = [group.pop(source.randrange(len(group))) for _ in range(min(9, len(group)))]
            for variable in range(len(reads[0])):
                expected = mean([plainly(task, gradient)[variable] for gradient in part])
                assert same(gradients.mean(part, variable), expected)
        assert gradients.evaluated == 40


def test_working_out_ahead_takes_what_is_given_and_no_more() -> None:
    task = task_of(PROBLEMS["softmax"])
    one, two, three = some(task, versions(task, 3))
    gradients = Gradients(task)
    gradients.value(one, 0, ahead=[one, two])
    assert gradients.evaluated == 2
    gradients.value(two, 1)
    assert gradients.evaluated == 2
    gradients.value(three, 0)
    assert gradients.evaluated == 3

    one, two = some(task, versions(task, 2))
    eager = Gradients(task, lazy=False)
    eager.value(one, 0, ahead=[one, two])
    assert eager.evaluated == 1


def test_a_gradient_that_nobody_asks_for_is_never_worked_out() -> None:
    task = task_of(PROBLEMS["quadratic"])
    group = some(task, versions(task, 2))
    gradients = Gradients(task)
    gradients.value(group[0], 0)

    assert gradients.evaluated == 1
    assert group[1].stack is None


def test_parameters_and_batches_are_never_changed() -> None:
    for problem in PROBLEMS.values():
        task = task_of(problem)
        reads = versions(task, 2)
        before = [[part.copy() for part in version] for version in reads]
        group = some(task, [reads[0], reads[1], reads[0]])
        batches = [gradient.batch.copy() for gradient in group]
        kept = [gradient.batch for gradient in group]
        gradients = Gradients(task)
        for variable in range(len(reads[0])):
            gradients.mean(group, variable)
        assert all(same(a, b) for a, b in zip(batches, kept, strict=True))
        for version, copy in zip(reads, before, strict=True):
            assert all(same(a, b) for a, b in zip(version, copy, strict=True))


def test_without_values_there_is_nothing_to_work_out() -> None:
    made = scenario(
        {"kind": "single"},
        problem={"kind": "timing", "parts": 2},
        workload={"model": "resnet50", "optimizer": None},
    )
    task = made.workload.problem.task(0, 0)
    group = [
        Gradient(worker, 0, Read(task.initial()), task.batches(worker, 0, 1)[0], 0, 1)
        for worker in range(3)
    ]
    gradients = Gradients(task)

    assert same(gradients.mean(group, 1), np.zeros(1))
    assert same(gradients.value(group[0], 0), np.zeros(1))
    assert gradients.evaluated == 3


class Given(Task):
    """Variables `table` (4, 1) and `x` (2,); a batch holds its two rows, and 1 is their slope."""

    wrong: Any = None

    def initial(self) -> Parameters:
        return np.zeros((4, 1)), np.zeros(2)

    def batches(self, worker: int, block: int, batch_size: int) -> Batches:
        return np.array([[worker % 3, 3], [1, 2]])

    def gradients(self, parameters: Parameters, batches: Batches) -> StackedGradients:
        if self.wrong is not None:
            given: StackedGradients = self.wrong
            return given
        table = [IndexedSlices(rows, rows[:, None] + 1.0) for rows in batches]
        return table, batches.astype(np.float64)

    def loss(self, parameters: Parameters) -> float:
        return 0.0


class TestSparse:
    """Gradients of a few rows: worked out together or not, they are the same."""

    @pytest.mark.parametrize("lazy", [True, False])
    def test_the_mean_of_a_row(self, lazy: bool) -> None:
        # Workers 0 to 3 hold rows {0, 3}, {1, 3}, {2, 3}, {0, 3}; of row r the gradient is r + 1.
        task = Given()
        group = some(task, [task.initial()] * 4)
        gradients = Gradients(task, lazy)
        by_row, plain = gradients.mean(group, 0, by_row=True), gradients.mean(group, 0)
        assert isinstance(by_row, IndexedSlices)
        assert isinstance(plain, IndexedSlices)
        assert by_row.indices.tolist() == plain.indices.tolist() == [0, 1, 2, 3]
        assert by_row.values.tolist() == [[1.0], [2.0], [3.0], [4.0]]
        assert plain.values.tolist() == [[0.5], [0.5], [0.75], [4.0]]
        assert same(np.asarray(gradients.mean(group, 1)), np.array([0.75, 3.0]))
        assert gradients.evaluated == 4

    def test_stacks_of_more_than_one_call_and_of_several_calls(self) -> None:
        task = Given()
        gradients = Gradients(task)
        group = some(task, [task.initial()] * (STACK + 2))
        mixed = some(task, [task.initial()] * 3)
        first = gradients.value(mixed[1], 0)
        assert isinstance(first, IndexedSlices)
        assert first.indices.tolist() == [1, 3]
        for part in (group, mixed):
            found = gradients.mean(part, 0)
            assert isinstance(found, IndexedSlices)
            held = [sum(row in (one.worker % 3, 3) for one in part) for row in range(4)]
            expected = [[(row + 1.0) * held[row] / len(part)] for row in range(4)]
            np.testing.assert_allclose(found.values, expected, rtol=1e-12)


class TestWrongGradients:
    """What a task gives is looked at, as TensorFlow looks at a graph."""

    ROWS = IndexedSlices(np.array([0]), np.ones((1, 1)))

    @pytest.mark.parametrize(
        ("wrong", "complaint"),
        [
            (([ROWS],), "gradients of 1 variables, not of 2"),
            (([ROWS], np.ones((1, 3))), r"variable 1 of the task: .* \(2,\), got \(3,\)"),
            (([ROWS], np.ones((2, 2))), "variable 1 of the task: 2 of them, not 1"),
            (([ROWS, ROWS], np.ones((1, 2))), "variable 0 of the task: 2 of them, not 1"),
            (([ROWS], np.ones((1, 2), np.float32)), "float32 where float64"),
            (([ROWS], None), "must be an array, not NoneType"),
            ((["rows"], np.ones((1, 2))), "must be indexed slices, not str"),
            (([ROWS], [ROWS]), r"rows of shape \(1,\) of one \(2,\)"),
            (([IndexedSlices(np.array([4]), np.ones((1, 1)))], np.ones((1, 2))), "rows below 4"),
        ],
    )
    def test_it_is_refused(self, wrong: Any, complaint: str) -> None:
        task = Given()
        task.wrong = wrong
        with pytest.raises(RefusedValueError, match=complaint):
            Gradients(task).value(some(task, [task.initial()])[0], 0)

    def test_rows_are_looked_at_every_time(self) -> None:
        task = Given()
        gradients = Gradients(task)
        one, two = some(task, [task.initial()] * 2)
        gradients.value(one, 0)
        task.wrong = [IndexedSlices(np.array([-1]), np.ones((1, 1)))], np.ones((1, 2))
        with pytest.raises(RefusedValueError, match="rows from 0, got -1"):
            gradients.value(two, 0)

    def test_a_task_without_variables_or_without_gradients_is_refused(self) -> None:
        class Empty(Given):
            def initial(self) -> Parameters:
                return ()

        for task, trained in ((Empty(), None), (Given(), [])):
            with pytest.raises(RefusedValueError, match="at least one variable with a gradient"):
                Gradients(task, trained=trained)

    def test_nobody_looks_at_the_gradient_of_a_variable_that_has_none(self) -> None:
        task = Given()
        task.wrong = [self.ROWS], np.ones((1, 3), np.float32)
        found = Gradients(task, trained=[0]).value(some(task, [task.initial()])[0], 0)
        assert isinstance(found, IndexedSlices)


@pytest.mark.parametrize("late", [0, 30])
def test_looking_for_others_costs_as_much_however_many_are_in_flight(late: int) -> None:
    # Of 1,000 in flight the oldest is needed next, again and again, and a new one begun; the first
    # `late` stay, worked out. Each is worked out with the 63 oldest that are not yet.
    task = task_of({"kind": "quadratic"})
    gradients = Gradients(task)
    (parameters,) = versions(task, 1)
    in_flight = Looked(gradient for gradient in some(task, [parameters] * 1_000))
    expected = 0
    for number in range(5_000):
        gradient = in_flight[late]
        if gradient.stack is None:
            waiting = [other for other in in_flight if other.stack is None]
            in_flight.looks = 0 if number == 0 else in_flight.looks - len(in_flight)
            together = {gradient, *islice((o for o in waiting if o is not gradient), STACK - 1)}
            expected += len(together)
            gradients.value(gradient, 0, in_flight)
            assert {other for other in waiting if other.stack is not None} == together
        gradient.open = 0
        del in_flight[late]
        in_flight += some(task, [parameters])
    assert gradients.evaluated == expected
    assert in_flight.looks <= 2 * gradients.evaluated


class Looked(list[Gradient]):
    """Gradients, and how many were looked at one after the other."""

    looks = 0

    def __iter__(self) -> Iterator[Gradient]:
        for gradient in super().__iter__():
            self.looks += 1
            yield gradient
