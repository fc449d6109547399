"""Identities: what must be equal between runs of one scenario, whatever it describes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_args, get_origin

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from validation.finding import Finding, Section, Verdict
from varsim.cluster.description.cluster import Stop
from varsim.cluster.network.topology import Rate
from varsim.cluster.record.trace import GradientRow, Trace
from varsim.core import presets
from varsim.core.distribution import Constant
from varsim.core.measured_times import MeasuredTimes
from varsim.core.units import DIMENSIONS
from varsim.learning.gradient_form import IndexedSlices
from varsim.learning.task import BLOCK, Parameters
from varsim.scenario.targets import Targets
from varsim.scenario.training import Scenario
from varsim.strategies import Strategy
from varsim.strategies.none import NoSynchronization
from varsim.strategies.on_read import OnRead
from varsim.strategies.on_write import OnWrite
from varsim.strategies.single import Single
from varsim.strategies.sync_replicas import SyncReplicas
from varsim.study.simulation import Run, started

SECTION: Final = Section(
    "identities",
    "Identities",
    "Equalities between runs of one scenario: between strategies that must train alike, between "
    "a run and what is worked out without a clock, between a run and the same in slow motion.",
    "Bit for bit where the same sums are made in the same order; else to 1e-12 of the largest "
    "parameter, after 20 updates.",
    scaled=False,
)

# Runs of which two are compared: a scenario without luck, and what came out.


STEPS: Final = 20
MOST_WORKERS: Final = 16


class Trial(NamedTuple):
    """One run, and the model that it ended with."""

    trace: Trace
    model: Parameters

    @property
    def losses(self) -> list[float]:
        """Before and after every update."""
        return [row.loss for row in self.trace.evaluations]


def trial(scenario: Scenario, strategy: Strategy) -> Trial:
    """Run one strategy of a scenario once."""
    alone = scenario.with_only((strategy,))
    job, _ = started(Run(alone, 0, 0))
    trace = job.run(strategy.label)
    return Trial(trace, job.model())


def begun(scenario: Scenario) -> Scenario:
    """The scenario's first STEPS updates."""
    steps = min(scenario.stop.global_steps or STEPS, STEPS)
    stop = Stop(global_steps=steps, time=scenario.stop.time)
    return scenario.model_copy(update={"stop": stop})


def calm(scenario: Scenario, strategy: Strategy, **cluster: Any) -> Scenario:
    """The scenario with this strategy, without luck: all compute equally long, nobody dies.

    At most MOST_WORKERS workers and STEPS updates, and the loss is measured after every one.
    `cluster`: what else is different of it.
    """
    described = scenario.cluster
    mean = described.compute_distribution(scenario.workload).expectation()
    workers = min(described.workers, MOST_WORKERS)
    network = described.network.model_copy(update={"slow_links": ()})
    changes: dict[str, Any] = {
        "workers": workers,
        "device": None,
        "compute": Constant(value=mean),
        "slow_workers": (),
        "overheads": None,
        "network": network,
        "parameter_servers": 1,
        "placement": "partitioned",
    }
    for name in ("servers_on", "partitioner", "server_update", "optimizer_time"):
        if name in type(described).model_fields:
            changes[name] = type(described).model_fields[name].get_default()
    evaluated = None if strategy.round.of == "outer step" else 1
    made = scenario.model_copy(
        update={
            "cluster": type(described).model_validate({**dict(described), **changes, **cluster}),
            "workload": scenario.workload.model_copy(update={"evaluate_every": evaluated}),
            "events": (),
            "stop": Stop(global_steps=STEPS, equal_examples=False),
            "targets": Targets(),
            "replications": 1,
        }
    )
    # What this strategy does not use is left out, where a scenario by itself would be refused.
    return made.with_only((strategy,))


def calm_trial(scenario: Scenario, strategy: Strategy, **cluster: Any) -> Trial:
    """A strategy's run in `calm`."""
    return trial(calm(scenario, strategy, **cluster), strategy)


def distance(one: Parameters, other: Parameters) -> float:
    """The largest difference of two parameters, relative to the largest parameter."""
    largest = max(float(np.max(np.abs(value), initial=0.0)) for value in one)
    apart = max(float(np.max(np.abs(a - b), initial=0.0)) for a, b in zip(one, other, strict=True))
    return apart / (largest or 1.0)


# A scenario in slow motion: every time so many times as long, every rate as much lower.


M = TypeVar("M", bound=BaseModel)

_RATES: Final = (DIMENSIONS["rate"], DIMENSIONS["flops"])


def stretched(model: M, factor: float) -> M:
    """The same, `factor` times as slow; exact where `factor` is a power of two.

    Goes by the units of the fields, so whatever has a time or a rate is stretched. Of a device the
    law has to stand there instead.
    """
    changes: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        units = [*field.metadata, *_metadata(field.annotation)]
        if isinstance(value, int | float) and not isinstance(value, bool):
            if DIMENSIONS["time"] in units:
                changes[name] = value * factor
            elif any(unit in _RATES for unit in units):
                changes[name] = value / factor
        else:
            changes[name] = _inside(value, factor)
    changes |= _of_a_preset(model, factor)
    if isinstance(model, MeasuredTimes):
        changes["seconds"] = tuple(tuple(value * factor for value in row) for row in model.seconds)
    return model.model_copy(update=changes)


def _inside(value: object, factor: float) -> object:
    if isinstance(value, BaseModel):
        return stretched(value, factor)
    if isinstance(value, tuple):
        return tuple(_inside(part, factor) for part in value)
    return value


def _of_a_preset(model: BaseModel, factor: float) -> dict[str, Any]:
    """What a preset says, said in numbers."""
    if getattr(model, "preset", None) is None:
        return {}
    assert isinstance(model, Rate)
    assert model.preset is not None
    rate = presets.link(model.preset).bandwidth
    return {"preset": None, "bandwidth": rate / factor, "latency": model.delay * factor}


def _metadata(annotation: object) -> Iterator[object]:
    """What is annotated anywhere in a type, as in `Seconds | None`."""
    if get_origin(annotation) is Annotated:
        yield from annotation.__metadata__  # type: ignore[attr-defined]
    for part in get_args(annotation):
        yield from _metadata(part)


# Training worked out with problem and optimizer alone: no clock, no cluster, no laziness.


class Replica:
    """A device that trains on one worker's batches, one after the other."""

    def __init__(self, scenario: Scenario, rank: int) -> None:
        self._workload = workload = scenario.workload
        self._rank = rank
        self._task = workload.problem.task(scenario.seed, 0)
        self._optimizer = workload.update_rule()
        self._trained = [spec.has_gradient for spec in workload.problem.variables()]
        self.values: Parameters = self._task.initial()
        self._states = [self._optimizer.init(value) for value in self.values]

    def batch(self, iteration: int) -> NDArray[Any]:
        """What its worker computes on in an iteration; (1, m)."""
        block, row = divmod(iteration, BLOCK)
        batches = self._task.batches(self._rank, block, self._workload.batch_size)
        return batches[row : row + 1]

    def train(self, steps: int) -> None:
        """Make the first so many steps."""
        for iteration in range(steps):
            self.step(self.batch(iteration))

    def step(self, batch: NDArray[Any]) -> None:
        """Update the variables with the gradient of one batch."""
        stacked = self._task.gradients(self.values, batch)
        values = list(self.values)
        for index, of_all in enumerate(stacked):
            if not self._trained[index]:
                continue
            gradient = of_all[0]
            rule = self._optimizer
            update: Any = rule.update_rows if isinstance(gradient, IndexedSlices) else rule.update
            values[index], self._states[index] = update(
                gradient, self._states[index], values[index]
            )
        self.values = tuple(values)


def of_all(scenario: Scenario) -> Parameters:
    """The model after one update with all workers' first batches as one."""
    replicas = [Replica(scenario, rank) for rank in range(scenario.cluster.workers)]
    replicas[0].step(_together([replica.batch(0) for replica in replicas]))
    return replicas[0].values


def _together(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Of numbers of examples all of them; of noise its mean, which is that of the big batch."""
    if np.issubdtype(batches[0].dtype, np.integer):
        return np.concatenate(batches, axis=1)
    mean: NDArray[Any] = np.mean(np.stack(batches), axis=0)
    return mean


# The identities: what is compared with what, and how far apart they may be.


# Of sums in another order: 2^-53 for each of a few hundred additions, over STEPS updates.
ROUNDING: Final = 1e-12
SLOWER: Final = 8
# Durations are rounded to whole ns before and after. Where workers queue at a server, 1 ns becomes
# ten every fifty gradients or so; hence a course of STEPS updates and no more.
CLOCK: Final = 1e-6
_OF_A_COURSE: Final = (
    "worker",
    "iteration",
    "read_step",
    "applied_step",
    "outcome",
    "parts_applied",
)


class Comparison(NamedTuple):
    """Two things that must be equal: how far apart they are, relative to what they are."""

    name: str
    quantity: str
    apart: float
    most: float


class Identity(NamedTuple):
    """`statement`: what must hold. `unless`: why it says nothing of a scenario; else empty."""

    name: str
    statement: str
    compare: Callable[[Scenario], Iterator[Comparison]]
    unless: Callable[[Scenario], str]


def _synchronous(scenario: Scenario) -> Iterator[Comparison]:
    with_unit, waited = calm_trial(scenario, OnWrite()), _waiting_for_all(scenario)
    yield _models(waited.label, with_unit.model, calm_trial(scenario, waited).model)


def _not_stale(scenario: Scenario) -> Iterator[Comparison]:
    alone = calm_trial(scenario, Single())
    others: list[Strategy] = [
        NoSynchronization(),
        SyncReplicas(replicas_to_aggregate=1, initial_tokens=0),
        OnWrite(),
        OnRead(read_every=STEPS),
    ]
    for strategy in others:
        model = calm_trial(scenario, strategy, workers=1).model
        yield _models(f"{strategy.kind} of one worker", alone.model, model, most=0.0)


def _one_big_batch(scenario: Scenario) -> Iterator[Comparison]:
    made = calm(scenario, OnWrite())
    first = made.model_copy(update={"stop": made.stop.model_copy(update={"global_steps": 1})})
    big = of_all(made)
    yield _models(
        f"{made.cluster.workers} batches of {made.workload.batch_size}",
        big,
        trial(first, OnWrite()).model,
    )


def _sum_of_replicas(scenario: Scenario) -> Iterator[Comparison]:
    read = OnRead(read_every=STEPS, aggregation="sum")
    made = calm(scenario, read)
    replicas = [Replica(made, rank) for rank in range(made.cluster.workers)]
    for replica in replicas:
        replica.train(STEPS)
    total = tuple(sum(parts) for parts in zip(*(one.values for one in replicas), strict=True))
    yield _models(f"{len(replicas)} replicas", total, trial(made, read).model)


def _shards(scenario: Scenario) -> Iterator[Comparison]:
    waited = _waiting_for_all(scenario)
    whole = calm_trial(scenario, waited)
    for placement in ("partitioned", "round_robin", "by_bytes"):
        for shards in (2, 4):
            cut = calm_trial(scenario, waited, parameter_servers=shards, placement=placement)
            yield _models(f"{shards} shards, {placement}", whole.model, cut.model)


def _collectives(scenario: Scenario) -> Iterator[Comparison]:
    ring = calm_trial(scenario, OnWrite())
    others = [
        "recursive_doubling",
        "halving_doubling",
        "binomial_tree",
        "double_binary_tree",
    ]
    for name in others:
        other = calm_trial(scenario, OnWrite(collective=name))
        yield _models(name, ring.model, other.model)


def _slow_motion(scenario: Scenario) -> Iterator[Comparison]:
    short = begun(scenario).with_distribution_alone()
    slow = stretched(short, SLOWER)
    for strategy in scenario.strategies:
        as_it_is = trial(short, strategy).trace
        other = trial(slow, stretched(strategy, SLOWER)).trace
        same = np.array_equal(_course(as_it_is), _course(other))
        yield Comparison(strategy.label, "another course of events (0: none)", float(not same), 0.0)
        if same:
            yield Comparison(
                strategy.label,
                "relative difference of the end",
                abs(other.end / (SLOWER * as_it_is.end) - 1),
                CLOCK,
            )


def _again(scenario: Scenario) -> Iterator[Comparison]:
    short = begun(scenario)
    for strategy in scenario.strategies:
        one, other = (trial(short, strategy) for _ in range(2))
        same = np.array_equal(one.trace.gradients, other.trace.gradients)
        same = same and one.trace.end == other.trace.end
        yield Comparison(strategy.label, "another course of events (0: none)", float(not same), 0.0)
        if scenario.workload.has_values:
            yield _models(strategy.label, one.model, other.model, most=0.0)


def _values(scenario: Scenario) -> str:
    return "" if scenario.workload.has_values else "problem timing has no values to be equal"


def _sent_as_they_are(scenario: Scenario) -> str:
    if scenario.workload.round_gradients:
        return "gradients are rounded before they are sent; a device alone rounds none"
    return _values(scenario)


def _dense_values(scenario: Scenario) -> str:
    if any(spec.rows_per_example is not None for spec in scenario.workload.problem.variables()):
        return (
            "a sparse accumulator divides each row by the number of gradients that have it, an "
            "all-reduce by the number of replicas"
        )
    return _values(scenario)


def _anything(scenario: Scenario) -> str:
    return ""


IDENTITIES: Final = (
    Identity(
        "sync_replicas equals on_write",
        "as many gradients as workers, and no straggler: the same updates",
        _synchronous,
        _dense_values,
    ),
    Identity(
        "staleness 0 is synchronous",
        "one worker alone reads what it has just written: every strategy trains as one device does",
        _not_stale,
        _sent_as_they_are,
    ),
    Identity(
        "n workers are one big batch",
        "one synchronous update equals that of a device with all their examples in one batch",
        _one_big_batch,
        _sent_as_they_are,
    ),
    Identity(
        "ON_READ SUM is the sum of the replicas",
        "what is read is the sum of what each replica has learnt alone",
        _sum_of_replicas,
        _values,
    ),
    Identity(
        "sharding keeps the values",
        "the variables are the same on 1, 2 and 4 servers, however they are placed",
        _shards,
        _values,
    ),
    Identity(
        "the collective keeps the values",
        "whichever algorithm adds the gradients up, the sum is the same",
        _collectives,
        _values,
    ),
    Identity(
        "slow motion",
        f"all times {SLOWER} times as long, all rates as much lower: the same run, "
        f"{SLOWER} times as long, over the first {STEPS} updates",
        _slow_motion,
        _anything,
    ),
    Identity("once more", "the same scenario gives the same run", _again, _anything),
)


def _waiting_for_all(scenario: Scenario) -> SyncReplicas:
    workers = min(scenario.cluster.workers, MOST_WORKERS)
    name = f"{workers} of {workers} gradients"
    return SyncReplicas(name=name, replicas_to_aggregate=workers, initial_tokens=0)


def _models(name: str, one: Any, other: Any, most: float = ROUNDING) -> Comparison:
    quantity = "largest difference of a parameter, relative to the largest"
    return Comparison(name, quantity, distance(one, other), most)


def _course(trace: Trace) -> Any:
    """Which gradients came to an end, in order, how stale and with what outcome; no times."""
    columns = {name: index for index, name in enumerate(GradientRow._fields)}
    ended = trace.gradients[trace.gradients[:, columns["applied"]] >= 0]
    return ended[:, [columns[name] for name in _OF_A_COURSE]]


# The identities of one scenario as lines of a validation.


def findings(scenario: Scenario) -> list[Finding]:
    """Try every identity on a scenario; strategies that are not of it have its first optimizer."""
    if scenario.workload.optimizer is None:
        workload = scenario.workload_of(scenario.strategies[0])
        scenario = scenario.model_copy(update={"workload": workload})
    return [one for identity in IDENTITIES for one in _tried(identity, scenario)]


def _tried(identity: Identity, scenario: Scenario) -> Iterator[Finding]:
    of, source = (identity.name, scenario.name), identity.statement
    if why := identity.unless(scenario):
        scope = Verdict.OUT_OF_SCOPE
        yield Finding(*of, "", "1", 0.0, verdict=scope, source=source, why=why)
        return
    for name, quantity, apart, most in identity.compare(scenario):
        bound = "0, bit for bit" if most == 0 else f"at most {most:g}"
        named = f"{scenario.name}: {name}"
        line = Finding(identity.name, named, quantity, "1", 0.0, apart, source=source)
        yield line.held(apart <= most, bound)
