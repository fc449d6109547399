"""Replays a recorded training run, event by event, through the processes of a strategy."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.conformance.cases import Record, not_compared
from tests.conformance.comparison import assert_close
from tests.conformance.scripted import ScriptedJob, cluster, optimizer, script
from tests.seams import GradientRow
from varsim.cluster.server import ParameterServer
from varsim.cluster.waiting import TokenQueue
from varsim.strategies import Strategy
from varsim.strategies.none import NoSynchronization
from varsim.strategies.sync_replicas import SyncReplicas
from varsim.values.accumulator import GradientAccumulator
from varsim.values.gradient import Gradient
from varsim.values.optimizer import MovingAverages, State


def replay(case: Record) -> None:
    """Raises AssertionError where varsim does something else than what was recorded."""
    config = case["config"]
    training = Training(
        strategy(case["kind"], config),
        ScriptedJob(
            cluster(config["num_workers"], config["num_ps"]),
            optimizer(config["optimizer"]),
            script(case["variables"], case["events"]),
        ),
    )
    left_out = not_compared(case)
    for number, event in enumerate(case["events"]):
        where = f"event {number} ({event['do']} {event.get('worker', '')})"
        seen, expected = training.do(event), event["expect"]
        for name in ("slots", "ema"):  # recorded now and then
            if name not in expected:
                seen.pop(name, None)
        assert seen.keys() == expected.keys(), f"{where}: {seen} instead of {expected}"
        assert_close(seen, expected, case["rtol"], where, left_out)
    assert_close(training.state(), case.get("final", {}), case["rtol"], "at the end")


def strategy(kind: str, config: Mapping[str, Any]) -> Strategy:
    """The strategy as a scenario would describe it."""
    if kind == "async_ps":
        return NoSynchronization()
    assert kind == "sync_replicas", f"no replay for cases of kind {kind}"
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
        job.allow_breaking_off()
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
        ranks = range(len(job.workers))
        seen: dict[str, Any] = {
            "global_step": job.global_step,
            "variables": self._named(server.parameters),
            "slots": self._named([self._slots(variable.state) for variable in server.variables]),
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
        lives = self._job.failures
        if what == "restart":
            lives.restart(rank)
            return
        assert what in ("kill", "stop"), f"unknown event {what}"
        (lives.kill if what == "kill" else lives.stop)(rank)
        lives.tell_of_deaths()

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
        if rank in self._job.failures.exits:
            return "dead" if self._job.failures.exits[rank].killed else "stopped"
        if rank in self._network.idle:
            return "idle"
        waits = isinstance(self._job.workers[rank].waits_for, TokenQueue)
        return "waiting" if waits else "computing"

    def _named(self, values: Any) -> dict[str, Any]:
        return dict(zip(self._variables, values, strict=True))

    def _slots(self, state: State) -> dict[str, Any]:
        return dict(zip(self._job.workload.update_rule().slots, state, strict=True))


def as_tensorflow_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Adam count from the step at which the first gradient was read: the quirk left out."""
    apply = ParameterServer.apply

    def with_the_quirk(self: ParameterServer, variable: int, gradients: Sequence[Gradient]) -> None:
        states = self.variables[variable].states
        m, v, _ = states[0]
        states[0] = (m, v, np.array(float(gradients[0].read.global_step)))
        apply(self, variable, gradients)

    monkeypatch.setattr(ParameterServer, "apply", with_the_quirk)
