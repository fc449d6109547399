"""What recorded cases do not say of making variables: who sends the first value, and bfloat16."""

import ml_dtypes
import numpy as np

from varsim.core.operation import DeviceId as Device
from varsim.core.operation import Movement, finish, finish_together
from varsim.distribute.attributes import Aggregation, Synchronization
from varsim.distribute.context import DEFAULT_CONTEXT
from varsim.distribute.mirrored_strategy import MirroredStrategy, MultiWorkerMirroredStrategy
from varsim.distribute.tensor import Tensor
from varsim.distribute.variable import VariableOptions


def test_worker_0_sends_the_others_the_value_that_a_variable_starts_with() -> None:
    value = np.arange(4, dtype=np.float32)  # 16 bytes
    workers = [MultiWorkerMirroredStrategy([Device(task=task)], task, 3) for task in range(3)]
    movements: list[Movement] = []
    made = finish_together([one.create(one.scope(), value) for one in workers], movements)

    assert all(one.value is made[0].value for one in made)
    assert [
        (one.source.task, one.target.task, one.size)
        for movement in movements
        for transfers in movement.rounds
        for one in transfers
    ] == [(0, 1, 16), (0, 2, 16)]


def test_bfloat16_is_a_float() -> None:
    strategy = MirroredStrategy([Device(number=0), Device(number=1)])
    asked = VariableOptions(Synchronization.ON_READ, Aggregation.MEAN)
    initial = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    variable = finish(strategy.create(strategy.scope(), initial, asked))
    finish(variable.assign_add(DEFAULT_CONTEXT, [1.5, 1.5]))
    result = finish(variable.read(DEFAULT_CONTEXT))
    assert isinstance(result, Tensor)
    assert result.array.dtype == ml_dtypes.bfloat16
    assert result.array.tolist() == [2.5, 3.5]
