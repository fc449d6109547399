"""Makes recorded calls of TensorFlow's Python interface: what is refused, and numbers of tokens.

varsim has no such interface: what is called here are the counterparts of its calls.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from pydantic import ValidationError

from tests.conformance.accumulating import error_name
from tests.conformance.cases import Record, has_counterpart
from tests.conformance.comparison import assert_close
from tests.conformance.scripted import Script, ScriptedJob, ScriptedTask, cluster
from tests.conformance.training import Training
from varsim.strategies.sync_replicas import SyncReplicas
from varsim.values.gradient import Gradient, Gradients
from varsim.values.operation import DistributionError
from varsim.values.optimizer import Sgd
from varsim.values.task import Batches, Parameters, VariableSpec


def replay(case: Record) -> None:
    """Raises AssertionError where varsim allows or refuses something else than TensorFlow."""
    for number, call in enumerate(case["calls"]):
        where = f"call {number} ({call['call']} {call.get('case', '')})"
        if not has_counterpart(call):
            continue
        seen, expected = CALLS[call["call"]](call), call["expect"]
        assert seen.keys() == expected.keys(), f"{where}: {seen} instead of {expected}"
        assert_close(seen, expected, 0.0, where)


def started(strategy: SyncReplicas, workers: int) -> Training:
    """A strategy in a job that has just begun: x starts at 0, all gradients are 1.

    The records do not say so of `first_update`; with a learning rate of 1 it leads to their value.
    """
    gradients = {(worker, 0): (np.ones(2),) for worker in range(workers)}
    script = Script((VariableSpec("x", (2,)),), (np.zeros(2),), gradients)
    job = ScriptedJob(cluster(workers, 1), Sgd(learning_rate=1.0), script)
    return Training(strategy, job)


def apply_gradients(call: Record) -> dict[str, Any]:
    """What a task gives is worked out and averaged."""
    task = GivenTask(call["case"])
    trained = [] if call["case"] == "all gradients none" else None
    try:
        gradient = Gradient(0, 0, _Nothing, np.zeros(2), 0, 0)
        Gradients(task, trained=trained).mean([gradient], 0)
    except DistributionError as error:
        return {"error": error_name(error)}
    return {"ok": True}


def chief(call: Record) -> dict[str, Any]:
    """Once a strategy has been started its chief waits for gradients, and the tokens are there."""
    assert call["case"] == "after apply_gradients"
    seen = started(SyncReplicas(replicas_to_aggregate=2), 2).do({"do": "init"})
    return {"ok": seen["tokens"] == 2 and seen["global_step"] == 0}


def initial_tokens(call: Record) -> dict[str, Any]:
    """How many tokens there are at the start.

    TensorFlow's default of `total_num_replicas` is `replicas_to_aggregate`, varsim's the workers:
    here there are as many of them.
    """
    strategy = sync_replicas(call, initial_tokens=call["num_tokens"])
    try:
        training = started(strategy, call["replicas_to_aggregate"])
    except ValueError:
        return {"error": "ValueError"}
    return {"ok": True, "tokens": training.do({"do": "init"})["tokens"]}


def first_update(call: Record) -> dict[str, Any]:
    """One update with exactly the gradients needed, each of a worker of its own.

    Fewer than one are refused at once; forced past that, at the first take, as in TensorFlow.
    """
    number = call["replicas_to_aggregate"]
    if number <= 0:
        with pytest.raises(ValidationError, match="replicas_to_aggregate"):
            sync_replicas(call)
        forced = SyncReplicas.model_construct(
            replicas_to_aggregate=number, total_num_replicas=call["total_num_replicas"]
        )
        with pytest.raises(DistributionError) as caught:
            started(forced, 1).do({"do": "init"})
        return {"error": error_name(caught.value)}

    training = started(sync_replicas(call), number)
    before = training.do({"do": "init"})["tokens"]
    for worker in range(number):
        training.do({"do": "start", "worker": worker})
    for worker in range(number):
        seen = training.do({"do": "push", "worker": worker, "gradients": {"x": 1}})
    added = seen["tokens"] - before + number  # each worker took one
    return {
        "ok": True,
        "tokens": added,
        "global_step": seen["global_step"],
        "value": seen["variables"]["x"],
    }


def sync_replicas(call: Record, **settings: Any) -> SyncReplicas:
    """The strategy of a call; what is null there is not given."""
    given = {
        "replicas_to_aggregate": call["replicas_to_aggregate"],
        "total_num_replicas": call["total_num_replicas"],
        **settings,
    }
    return SyncReplicas(**{key: value for key, value in given.items() if value is not None})


CALLS: Final[dict[str, Callable[[Record], dict[str, Any]]]] = {
    "apply_gradients": apply_gradients,
    "get_chief_queue_runner": chief,
    "hook": chief,
    "get_init_tokens_op": initial_tokens,
    "first_update": first_update,
}


class GivenTask(ScriptedTask):
    """A task of one variable (2,) that gives a gradient of some kind, right or wrong."""

    def __init__(self, case: str) -> None:
        initial = () if case == "empty list" else (np.zeros(2),)
        super().__init__(Script((), initial, {}))
        self._given: Any = {
            "ok": np.ones((1, 2)),
            "empty list": None,
            "all gradients none": np.ones((1, 2)),
            "gradient of unknown kind": "a gradient",
            "gradient of wrong shape": np.ones((1, 3)),
        }[case]

    def gradients(self, parameters: Parameters, batches: Batches) -> Any:
        """The gradient, whatever it is."""
        return (self._given,)


class _Nothing:
    """What nobody reads: the gradients do not depend on it."""

    parameters = (np.zeros(2),)
