"""A variable without a gradient is left alone, whatever keeps the others in sync."""

from typing import Any, ClassVar

import numpy as np
import pytest

from tests.building import NO_TIME, declared, example, gradient_rows
from tests.seams import STRATEGIES
from varsim.cluster.description.cluster import Cluster, Stop
from varsim.cluster.workers.job import Job
from varsim.learning.optimizer import Sgd
from varsim.learning.task import BLOCK, Batches, Parameters, Problem, Task, VariableSpec
from varsim.learning.workload import Workload

START = (np.array([7.0, 8.0]), np.array([1.0, -1.0]), np.array(9.0), np.array([0.5]))
SPECS = tuple(
    VariableSpec(name, value.shape, has_gradient=name in "bd")
    for name, value in zip("abcd", START, strict=True)
)


class HalfTrained(Problem):
    """Four variables, of which the second and the last have a gradient: 1 everywhere."""

    about: ClassVar[str] = "half of the variables have no gradient"

    def variables(self) -> tuple[VariableSpec, ...]:
        return SPECS

    def flops_per_example(self) -> float:
        return 1.0

    def task(self, seed: int, replication: int) -> Task:
        return HalfTrainedTask()


class HalfTrainedTask(Task):
    def initial(self) -> Parameters:
        return START

    def batches(self, worker: int, block: int, batch_size: int) -> Batches:
        return np.zeros((BLOCK, 1))

    def gradients(self, parameters: Parameters, batches: Batches) -> Parameters:
        number = len(batches)
        return tuple(
            np.full((number, *spec.shape), 1.0 if spec.has_gradient else np.nan) for spec in SPECS
        )

    def loss(self, parameters: Parameters) -> float:
        return float("nan")


@pytest.mark.parametrize("network", [NO_TIME, {**NO_TIME, "sharing": "fair"}], ids=["0", "fair"])
@pytest.mark.parametrize("kind", STRATEGIES)
def test_it_keeps_its_value_and_nobody_waits_for_it(kind: str, network: dict[str, Any]) -> None:
    strategy = declared(example(kind))
    if "outer" in type(strategy).model_fields:  # an outer step of 1: to the mean of the copies
        plain = Sgd(learning_rate=1.0)
        strategy = strategy.model_copy(update={"outer": plain})
    if "moving_rate" in type(strategy).model_fields:
        strategy = strategy.model_copy(update={"period": 1})
    cluster = Cluster.model_validate(
        {"workers": 3, "compute": {"kind": "constant", "value": 0.1}, "network": network}
    )
    workload = Workload.model_construct(
        problem=HalfTrained.model_construct(), optimizer=Sgd(learning_rate=0.125), batch_size=1
    )
    stop = Stop(global_steps=6)
    workers = strategy.workers(cluster)
    job = Job(cluster, workload, stop, seed=0, replication=0, workers=workers)
    strategy.start(job)
    trace = job.run(kind)
    a, b, c, d = (value.tolist() for value in job.model())

    assert (a, c) == ([7.0, 8.0], 9.0)
    if "moving_rate" in type(strategy).model_fields:
        # Three copies are a step away as, one after the other, they move the centre by 0.3 of it.
        step = (1 - 0.7**3) / 8
        assert [*b, *d] == pytest.approx([1 - step, -1 - step, 0.5 - step])
        return
    # With gradients of 1 every update is a step of 1/8, whatever is averaged.
    made = round((1 - b[0]) * 8) if strategy.round.of == "outer step" else 6
    thirds = 1e-14 if strategy.sends.to == "neighbours" else 0  # are not exact
    trained = [1 - made / 8, -1 - made / 8, 0.5 - made / 8]
    assert [*b, *d] == pytest.approx(trained, rel=thirds, abs=0)
    assert made >= 6
    assert trace.variables == 2
    assert {row.parts_applied for row in gradient_rows(trace)} <= {0, 2}
