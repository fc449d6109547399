"""Recorded cases of workers with copies of their own: averaged, by outer steps, elastic, gossip."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from tests.building import gradient_rows
from tests.conformance import between
from tests.conformance.between import Replay, Seen, blocked, chosen, clocks, ms
from tests.conformance.records import Case, Record, assert_close
from tests.conformance.scripted import optimizer
from tests.seams import Trace
from varsim.cluster.clock import Activity
from varsim.cluster.copies.averaged import AveragedReplicas, OuterReplicas
from varsim.cluster.copies.drifting import ElasticReplicas, MixedReplicas, PairedReplicas
from varsim.cluster.copies.replicas import LocalReplicas
from varsim.cluster.description.failures import ProcessEvent
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.distribute.attributes import Aggregation
from varsim.learning.gradient import Gradient, Parameters, Value
from varsim.strategies.diloco import DiLoCo
from varsim.strategies.easgd import ElasticAveraging
from varsim.strategies.gossip import Gossip
from varsim.strategies.local_sgd import LocalSgd

_OF_DILOCO: Final = "inner_steps fragments delay convention mixing"


def _ends(trace: Trace, steps: int) -> Seen:
    """When each worker had computed each of its first so many steps, and its waits until then."""
    ends: list[list[float]] = [[0] * steps for _ in range(trace.workers)]
    for row in gradient_rows(trace):
        if row.iteration < steps:
            ends[row.worker][row.iteration] = ms(row.computed)
    waits = [
        [span for span in spans if span[0] is not None and span[0] <= own[-1]]
        for spans, own in zip(blocked(trace), ends, strict=True)
    ]
    return {"step_ends": ends, "blocked": waits}


def local_sgd(record: Record) -> Seen:
    """One period; in post-local SGD gradients are averaged in warm-up."""
    workers, steps = record["workers"], record["steps"]
    settings = chosen(record, "period warmup_steps before_warmup convention")
    if not record["warmup_steps"]:
        del settings["before_warmup"]
    met: dict[tuple[int, str], list[float]] = {}
    reduce, average = AveragedReplicas.reduce, AveragedReplicas.average
    # One step more than was recorded: it is computed at what came of the last.
    replay = Replay(record, LocalSgd.model_validate(settings), steps=steps + 1)

    def seen_reduce(self: AveragedReplicas, worker: Worker, gradient: Gradient) -> Activity[None]:
        yield from reduce(self, worker, gradient)
        met.setdefault((self.steps[worker.rank], "gradient"), []).append(replay.now)

    def seen_average(self: AveragedReplicas, worker: Worker) -> Activity[None]:
        yield from average(self, worker)
        met.setdefault((self.steps[worker.rank] - 1, "average"), []).append(replay.now)

    with (
        patch.object(AveragedReplicas, "reduce", seen_reduce),
        patch.object(AveragedReplicas, "average", seen_average),
    ):
        seen = _ends(replay.run(), steps)
    seen["barriers"] = []
    for (step, what), times in sorted(met.items()):
        if workers > 1 and step < steps:
            assert len(times) == workers
            (time,) = set(times)  # all are there at one instant
            waited = [time - own[step] for own in seen["step_ends"]]
            seen["barriers"].append({"t": time, "step": step, "what": what, "waited": waited})
    what_of = {one["step"]: one["what"] for one in seen["barriers"]}
    seen["steps"] = []
    for row in record["expect"].get("steps", ()):
        met_for = row["what"] if workers == 1 else what_of.get(row["step"])
        x = [replay.read[worker, row["step"] + 1] for worker in range(workers)]
        seen["steps"].append({"step": row["step"], "what": met_for, "x": x})
    return seen


def diloco(record: Record) -> Seen:
    """Who sends, waits and applies when, and what comes of it."""
    settings = chosen(record, _OF_DILOCO)
    if "outer" in record:
        settings["outer"] = optimizer(record["outer"]).model_dump()
    workers, steps = record["workers"], record["steps"]
    # One step more than was recorded: it is computed at what came of the last.
    parts = record.get("fragment_elements")
    if parts is None and "problem" not in record:
        record = {**record, "problem": {"initial": [0.0] * record["fragments"]}}
    replay = Replay(record, DiLoCo.model_validate(settings), parts, steps=steps + 1)
    with _syncs(replay, workers) as syncs:
        trace = replay.run()
    seen = _ends(trace, steps)
    seen["steps"] = [
        {"step": step, "x": [replay.read[worker, step] for worker in range(workers)]}
        for step in range(1, steps + 1)
        if (0, step) in replay.read
    ]
    applied = [one for _, one in sorted(syncs.items()) if "apply_step" in one]
    seen["syncs"] = [one for one in applied if one["apply_step"] <= steps]
    return seen


def diloco_recovery(case: Case) -> None:
    """A replica dies, and a new process takes all over from the other one.

    The recorded process makes its own steps before that in vain, from the start; here it waits. In
    which of its steps the first one died was not recorded; the sync after that was made without it.
    """
    record = case.record
    joins, g = record["joins"], record["inner_steps"] // record["fragments"]
    new, at, own = joins["replica"], joins["at_survivor_step"], joins["own_step"]
    dies = at - g  # step in which it does, as the survivor counts
    events = [
        ProcessEvent.model_validate({"at": (dies - 0.5) / 10, "kill": {"worker": new}}),
        ProcessEvent.model_validate({"at": (at - 0.5) / 10, "restart": {"worker": new}}),
    ]
    old, back = record["expect"]["replicas"][1 - new], record["expect"]["replicas"][new]
    settings = {**chosen(record, _OF_DILOCO), "outer": optimizer(record["outer"]).model_dump()}
    last, parts = old["steps"][-1]["step"], record["fragment_elements"]
    replay = Replay(record, DiLoCo.model_validate(settings), parts, last + 1, events)
    with _syncs(replay, record["workers"]) as syncs:
        replay.run()
    # A worker's numbers of gradients go on; the one that it died at is not made again.
    found = {row["step"]: replay.read[1 - new, row["step"]] for row in old["steps"]}
    again = {row["step"]: replay.read[new, dies + row["step"] - own] for row in back["steps"][own:]}
    for rows, values in ((old["steps"], found), (back["steps"][own:], again)):
        expected = [row["x"] for row in rows]
        np.testing.assert_allclose(list(values.values()), expected, rtol=record["rtol"])
    for row in old["sync_points"][1:]:
        sync = syncs[row["step"] // g - 1]
        part = parts[sync["fragment"]]
        np.testing.assert_allclose(sync["synced"], np.array(row["synced"])[part])
        assert (sync["sent"][new] is None) == (dies <= row["step"] <= at)


@contextmanager
def _syncs(replay: Replay, workers: int) -> Iterator[dict[int, Seen]]:
    """What is sent and merged by whom, and what outer steps make of it, by number."""
    syncs: dict[int, Seen] = {}
    offer, merge = OuterReplicas.offer, OuterReplicas.merge
    make_step = OuterReplicas._make_step

    def seen_offer(self: OuterReplicas, worker: Worker, sync: int, fragment: int) -> None:
        one = syncs.setdefault(sync, {"sync": sync, "sent": [None] * workers})
        one["fragment"], one["send_step"] = fragment, self.steps[worker.rank]
        one["sent"][worker.rank] = replay.now
        if None not in one["sent"]:
            one["complete"] = max(one["sent"])
        offer(self, worker, sync, fragment)

    def seen_merge(
        self: OuterReplicas, worker: Worker, sync: int, fragment: int, sent_after: int
    ) -> Activity[None]:
        one = syncs[sync]
        assert (one["fragment"], one["send_step"]) == (fragment, sent_after)
        one["apply_step"] = self.steps[worker.rank]
        yield from merge(self, worker, sync, fragment, sent_after)
        one.setdefault("applied", [None] * workers)[worker.rank] = replay.now

    def seen_step(self: OuterReplicas, sync: int, fragment: int, sent_by: Sequence[int]) -> None:
        before, sent = self._points[fragment], self._sent[sync]
        make_step(self, sync, fragment, sent_by)
        syncs[sync]["pseudo_gradient"] = sum(sent[rank] for rank in sent_by) / len(sent_by)
        syncs[sync]["synced"] = self._points[fragment]
        assert before is not self._points[fragment]

    with (
        patch.object(OuterReplicas, "offer", seen_offer),
        patch.object(OuterReplicas, "merge", seen_merge),
        patch.object(OuterReplicas, "_make_step", seen_step),
    ):
        yield syncs


def easgd(record: Record) -> Seen:
    """Who exchanges with the centre when, and what comes of it."""
    strategy = ElasticAveraging.model_validate(
        chosen({"moving_rate": 0.5, **record}, "period moving_rate")
    )
    replay = Replay(record, strategy)
    fetch, apply = ElasticReplicas.fetch, ElasticReplicas.apply
    exchanges: list[Seen] = []
    steps: list[Seen] = []
    last = [0] * record["workers"]  # exchanges there had been after its own last one

    def seen_fetch(self: ElasticReplicas, worker: Worker) -> Activity[Parameters]:
        centre = yield from fetch(self, worker)
        rank = worker.rank
        seen = {"t": replay.now, "worker": rank, "clock": self.steps[rank]}
        exchanges.append(seen | {"staleness": len(exchanges) - last[rank]})
        last[rank] = len(exchanges)
        return centre

    def seen_apply(
        self: ElasticReplicas, worker: Worker, gradient: Gradient, mean: list[Value] | None = None
    ) -> None:
        apply(self, worker, gradient, mean)
        rank, clock = worker.rank, self.steps[worker.rank]
        came = any((one["worker"], one["clock"]) == (rank, clock - 1) for one in exchanges)
        seen = {"t": replay.now, "worker": rank, "clock": clock, "exchanged": came}
        x, centre = replay.task.whole(self.copy(rank)), replay.task.whole(self.centre)
        steps.append(seen | {"x": x, "centre": centre})

    with (
        patch.object(ElasticReplicas, "fetch", seen_fetch),
        patch.object(ElasticReplicas, "apply", seen_apply),
    ):
        trace = replay.run()
    waits = blocked(trace, record["until_ms"])
    made = clocks(gradient_rows(trace), trace.workers)
    return {"exchanges": exchanges, "steps": steps, "clocks": made, "blocked": waits}


@contextmanager
def _started_apart(record: Record) -> Iterator[None]:
    """Copies begin where the case says, each at its own place."""
    make, initial = LocalReplicas.__init__, record.get("problem", {}).get("initial", [0.0])

    def apart(self: LocalReplicas, job: Job, aggregation: Aggregation) -> None:
        make(self, job, aggregation)
        (variable,) = self.variables
        for rank, values in enumerate(initial if isinstance(initial[0], list) else ()):
            variable.write(rank, np.array(values))

    with patch.object(LocalReplicas, "__init__", apart):
        yield


def gossip(record: Record) -> Seen:
    """Two at a time without waiting (AD-PSGD): who averages with whom and when, and values."""
    partners = tuple(map(tuple, record["partner"]))
    replay = Replay(record, Gossip(mode="asynchronous", partners=partners))
    average, apply = PairedReplicas.average, PairedReplicas.apply
    partner_of: dict[int, int] = {}
    averages: list[Seen] = []

    def seen_average(self: PairedReplicas, worker: Worker, partner: int) -> Activity[None]:
        partner_of[worker.rank] = partner
        yield from average(self, worker, partner)

    def seen_apply(
        self: PairedReplicas, worker: Worker, gradient: Gradient, mean: list[Value] | None = None
    ) -> None:
        rank = worker.rank
        stale = self.version(rank) - gradient.read.global_step
        apply(self, worker, gradient, mean)
        seen = {"t": replay.now, "worker": rank, "step": self.steps[rank] - 1, "staleness": stale}
        seen |= {"partner": partner_of[rank]}
        models = [replay.task.whole(self.copy(one)) for one in range(len(self.steps))]
        averages.append(seen | {"gradient": replay.job.gradients.value(gradient, 0), "x": models})

    with (
        _started_apart(record),
        patch.object(PairedReplicas, "average", seen_average),
        patch.object(PairedReplicas, "apply", seen_apply),
    ):
        trace = replay.run()
    rows = [row for row in gradient_rows(trace) if row.applied >= 0]
    stale = [row.applied_step - row.read_step for row in rows]
    assert stale == [one["staleness"] for one in averages]
    waits = blocked(trace, record["until_ms"])
    return {"averages": averages, "clocks": clocks(rows, trace.workers), "blocked": waits}


def sgp(record: Record) -> Seen:
    """Rounds of push-sum: x, w and z of all workers after each; one more is begun."""
    matrices = tuple(tuple(map(tuple, matrix)) for matrix in record["matrices"])
    strategy = Gossip(mode="push_sum", matrices=matrices)
    replay = Replay(record, strategy, steps=record["rounds"] + 1)
    mix, ranks = MixedReplicas.mix, range(record["workers"])
    seen: dict[int, dict[str, list[Any]]] = {}

    def seen_mix(self: MixedReplicas, worker: Worker) -> Activity[None]:
        yield from mix(self, worker)
        rank = worker.rank
        x, z = self.variables[0].values[rank], replay.task.whole(self.copy(rank))
        one = seen.setdefault(self._round[rank] - 1, {key: [None for _ in ranks] for key in "xwz"})
        one["x"][rank], one["w"][rank], one["z"][rank] = x, self.weights[rank], z

    with _started_apart(record), patch.object(MixedReplicas, "mix", seen_mix):
        replay.run()
    return {"rounds": [{"round": number, **seen[number]} for number in range(record["rounds"])]}


# By kind, how a case is run and told as it was recorded, and what of the record is not looked at.
OBSERVE: Final[Mapping[str, tuple[Callable[[Record], Seen], str]]] = {
    "async": (between.asynchronous, "lr gradient applied"),
    "diloco": (diloco, "sync_points"),
    "easgd": (easgd, ""),
    "drop_compute": (between.drop_compute, "gradient"),
    "gossip": (gossip, ""),
    "sgp": (sgp, ""),
    "local_sgd": (local_sgd, "gradient momentum m v"),
    "post_local_sgd": (local_sgd, "gradient momentum m v"),
    "ssp": (between.ssp, "gradient max_lead"),
    **dict.fromkeys(
        ("k_sync", "k_async", "k_batch_async", "k_batch_sync"), (between.k_family, "gradient")
    ),
}


def replay(case: Case) -> None:
    """Raises AssertionError where varsim does something else than what was recorded."""
    observe, unseen = OBSERVE[case.kind]
    expected = dict(case.record["expect"])
    if case.kind == "ssp":
        expected["reads"] = sorted(expected["reads"], key=lambda one: (one["t"], one["worker"]))
    if "k" in case.record:  # in the order of workers
        expected["updates"] = [
            {key: sorted(of) if key in ("dropped", "cancelled") else of for key, of in one.items()}
            for one in expected["updates"]
        ]
    rtol = case.record.get("rtol", 0.0)
    assert_close(observe(case.record), expected, rtol, case.name, frozenset(unseen.split()))
