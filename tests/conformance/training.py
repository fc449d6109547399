"""Replays recorded training event by event through the processes of a strategy, and single calls.

varsim has no such Python interface as TensorFlow: what is called are the counterparts of its calls.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pytest
from pydantic import ValidationError

from tests.conformance.accumulating import error_name
from tests.conformance.records import Case, Record, assert_close, has_counterpart
from tests.conformance.scripted import Script, ScriptedJob, ScriptedTask, cluster, optimizer, script
from tests.seams import GradientRow
from varsim.cluster.failures.deaths import DeathWatch as Deaths
from varsim.cluster.primitives import TokenQueue
from varsim.cluster.servers.server import ParameterServer
from varsim.core.operation import DistributionError
from varsim.distribute.accumulator import GradientAccumulator
from varsim.learning.gradient import Gradient, Gradients
from varsim.learning.optimizer import MovingAverages, Sgd
from varsim.learning.task import Batches, Parameters, VariableSpec
from varsim.strategies import Strategy
from varsim.strategies.none import NoSynchronization
from varsim.strategies.sync_replicas import SyncReplicas


def replay(case: Case) -> None:
    """Raises AssertionError where varsim does something else than what was recorded."""
    record, config = case.record, case.record["config"]
    training = Training(
        strategy(case.kind, config),
        ScriptedJob(
            cluster(config["num_workers"], config["num_ps"]),
            optimizer(config["optimizer"]),
            script(record["variables"], record["events"]),
        ),
    )
    for number, event in enumerate(record["events"]):
        where = f"event {number} ({event['do']} {event.get('worker', '')})"
        seen, expected = training.do(event), event["expect"]
        for name in ("slots", "ema"):  # recorded now and then
            if name not in expected:
                seen.pop(name, None)
        assert seen.keys() == expected.keys(), f"{where}: {seen} instead of {expected}"
        assert_close(seen, expected, record["rtol"], where, case.not_compared)
    assert_close(training.state(), record.get("final", {}), record["rtol"], "at the end")


def strategy(kind: str, config: Mapping[str, Any]) -> Strategy:
    """The strategy as a scenario would describe it."""
    if kind == "async_ps":
        return NoSynchronization()
    averages = config["ema"] and {key: config["ema"][key] for key in ("decay", "num_updates")}
    return SyncReplicas.model_validate(
        {
            "replicas_to_aggregate": config["replicas_to_aggregate"],
            "total_num_replicas": config["total_num_replicas"],
            "initial_tokens": config["init_tokens"],
            "variable_averages": averages,
        }
    )


class Training:
    """A strategy at work in a job, and what can be seen of it from outside."""

    def __init__(self, strategy: Strategy, job: ScriptedJob) -> None:
        self._job = job
        self._network = job.network
        self._variables = [spec.name for spec in job.workload.problem.variables()]
        self._trained = [self._variables[index] for index in job.trained]
        self._synchronous = isinstance(strategy, SyncReplicas)
        strategy.check(job.cluster)
        self._deaths = Deaths(job)
        strategy.start(job)
        # What they share; the processes may be gone when it is looked at.
        self._server: ParameterServer = job.local("server")
        self._local_steps: dict[int, int] = {}
        if self._synchronous:
            self._accumulators: list[GradientAccumulator] = job.local("accumulators")
            self._tokens: TokenQueue = job.local("tokens")
            self._averages: MovingAverages | None = job.local("averages")

    def do(self, event: Record) -> dict[str, Any]:
        """Let one event happen, and all that follows from it; what can be seen then."""
        before = set(self._network.idle)
        seen: dict[str, Any] = {}
        if event["do"] == "start":
            self._start(event["worker"])
        elif event["do"] == "push":
            accepted = self._push(event["worker"], list(event["gradients"]))
            if self._synchronous:
                seen["accepted"] = accepted
        elif event["do"] == "init":
            before = set(range(len(self._job.workers)))
        else:
            self._end_or_restart(event["do"], event["worker"])
        self._job.clock.run_until_stopped()

        seen |= self.state()
        came = sorted(set(self._network.idle) - before)
        if event["do"] == "start":
            seen["read"] = self._read(event["worker"])
        if event["do"] == "restart":
            came.remove(event["worker"])
        if not self._synchronous:
            if came:
                seen["staleness"] = self._staleness()
        elif came:
            steps = seen["local_step"]
            seen["returned"] = [{"worker": rank, "token": steps[rank]} for rank in came]
        return seen

    def state(self) -> dict[str, Any]:
        """What can be seen at any time."""
        job, server = self._job, self._server
        slots = job.workload.update_rule().slots
        ranks = range(len(job.workers))
        seen: dict[str, Any] = {
            "global_step": job.global_step,
            "variables": self._named(server.parameters),
            "slots": self._named(
                [dict(zip(slots, one.state, strict=True)) for one in server.variables]
            ),
            "status": [self._status(rank) for rank in ranks],
        }
        if self._synchronous:
            inside = [len(self._accumulators[index]) for index in job.trained]
            seen["num_accumulated"] = dict(zip(self._trained, inside, strict=True))
            seen["tokens"] = len(self._tokens)
            self._local_steps |= job.of_workers("local_step")
            seen["local_step"] = [self._local_steps[rank] for rank in ranks]
            if self._averages is not None:
                seen["ema"] = self._named(self._averages.values)
        return seen

    def _end_or_restart(self, what: str, rank: int) -> None:
        lives = self._deaths
        if what == "restart":
            lives.restart(rank)
            return
        assert what in ("kill", "stop"), f"unknown event {what}"
        (lives.kill if what == "kill" else lives.stop)(rank)
        lives.tell()

    def _start(self, rank: int) -> None:
        assert rank in self._network.idle, f"worker {rank} does not ask for the variables"
        self._network.idle[rank].succeed()

    def _push(self, rank: int, names: list[str]) -> dict[str, bool]:
        """Which variables' gradients were taken in: those whose end is open, or applied."""
        sending = self._network.sending[rank]
        gradient: Any = sending.content
        accepted = {}
        for name in names:
            open_before, applied_before = gradient.open, gradient.applied
            sending.satisfies(self._trained.index(name), self._job.clock.time)
            ended = open_before - gradient.open
            accepted[name] = gradient.applied - applied_before == ended
        return accepted

    def _read(self, rank: int) -> dict[str, Any]:
        read = self._network.read[rank]
        return {"global_step": read.global_step, "variables": self._named(read.parameters)}

    def _staleness(self) -> int:
        """Of the gradient that ended last, as a trace would have it."""
        width = len(GradientRow._fields)
        row = GradientRow(*self._job.recorder.gradients[-width:])
        return row.applied_step - row.read_step

    def _status(self, rank: int) -> str:
        if rank in self._job.processes.exits:
            return "dead" if self._job.processes.exits[rank].killed else "stopped"
        if rank in self._network.idle:
            return "idle"
        waits = isinstance(self._job.workers[rank].waits_for, TokenQueue)
        return "waiting" if waits else "computing"

    def _named(self, values: Any) -> dict[str, Any]:
        return dict(zip(self._variables, values, strict=True))


def as_tensorflow_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Adam count from the step at which the first gradient was read: the quirk left out."""
    apply = ParameterServer.apply

    def with_the_quirk(self: ParameterServer, variable: int, gradients: Sequence[Gradient]) -> None:
        states = self.variables[variable].states
        m, v, _ = states[0]
        states[0] = (m, v, np.array(float(gradients[0].read.global_step)))
        apply(self, variable, gradients)

    monkeypatch.setattr(ParameterServer, "apply", with_the_quirk)


# Calls of TensorFlow's Python interface: what is refused, and numbers of tokens.


def replay_calls(case: Case) -> None:
    """Raises AssertionError where varsim allows or refuses something else than TensorFlow."""
    for number, call in enumerate(case.record["calls"]):
        where = f"call {number} ({call['call']} {call.get('case', '')})"
        if has_counterpart(call):
            seen, expected = CALLS[call["call"]](call), call["expect"]
            assert seen.keys() == expected.keys(), f"{where}: {seen} instead of {expected}"
            assert_close(seen, expected, 0.0, where)


def started(strategy: SyncReplicas, workers: int) -> Training:
    """A strategy in a job that has just begun: x starts at 0, all gradients are 1.

    The records do not say so of `first_update`; with a learning rate of 1 it leads to their value.
    """
    gradients = {(worker, 0): (np.ones(2),) for worker in range(workers)}
    script = Script((VariableSpec("x", (2,)),), (np.zeros(2),), gradients)
    return Training(strategy, ScriptedJob(cluster(workers, 1), Sgd(learning_rate=1.0), script))


def apply_gradients(call: Record) -> dict[str, Any]:
    """What a task gives is worked out and averaged."""
    task = GivenTask(call["case"])
    trained: list[int] | None = [] if call["case"] == "all gradients none" else None
    nothing = type("Nothing", (), {"parameters": (np.zeros(2),)})()
    try:
        Gradients(task, trained=trained).mean([Gradient(0, 0, nothing, np.zeros(2), 0, 0)], 0)
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
    return {
        "ok": True,
        "tokens": seen["tokens"] - before + number,  # each worker took one
        "global_step": seen["global_step"],
        "value": seen["variables"]["x"],
    }


def sync_replicas(call: Record, **settings: Any) -> SyncReplicas:
    """The strategy of a call; what is null there is not given."""
    names = ("replicas_to_aggregate", "total_num_replicas")
    given = {name: call[name] for name in names} | settings
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
        super().__init__(Script((), () if case == "empty list" else (np.zeros(2),), {}))
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
