"""A scenario of variables in plain words, and what reads and writes cost, before any run.

The costs are formulas of sizes and rates, independent of the simulation, and exact where all links
are equal and all replicas act at once. Compute counts as that of the slowest replica between two
moments at which all meet: a write that is aggregated, the end of a step with something outside.
Left out: that replicas drift apart and then share links less, who waits behind whom at a slow
link, and times at which a worker is slow.
"""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from varsim.cluster.program import ReplicaCluster
from varsim.distribute.program.action import Action, MovingAverage, Writing
from varsim.distribute.program.description import Program
from varsim.distribute.program.given import VariableDescription
from varsim.distribute.program.running import Mode
from varsim.scenario.variables import VariablesScenario
from varsim.study.estimate import about_machines, described
from varsim.units import format_bytes, format_rate, format_seconds
from varsim.values.laws.base import BLOCK
from varsim.values.stream import stream

# What is done to one variable: by all replicas at once, or from outside.
Doing: TypeAlias = Literal[
    "write in replicas", "read in replicas", "write outside", "read outside", "restore"
]

_ALIGNMENT: Final = 64  # bytes of which a ring's chunks are multiples
_BLOCKS: Final = 16  # of compute times, drawn for each worker


class Price(NamedTuple):
    """What something costs: s until the last is done, bytes, messages, and how it comes about."""

    time: float
    size: float
    messages: float
    why: str


FREE: Final = Price(0.0, 0.0, 0.0, "")


class PricedDoing(NamedTuple):
    """What one use of a variable costs under one mode."""

    mode: str
    variable: str
    doing: Doing
    price: Price


def prices(scenario: VariablesScenario) -> list[PricedDoing]:
    """The price of everything that the program does to a variable, mode by mode."""
    found = []
    for mode, label in zip(scenario.all_modes, scenario.labels, strict=True):
        pricing = _Pricing(scenario, mode)
        for variable in scenario.variables:
            found += [
                PricedDoing(label, variable.name, doing, pricing.price(variable, doing))
                for doing in _done(scenario, variable)
            ]
    return found


def steps(scenario: VariablesScenario) -> dict[str, Price]:
    """What an average step costs in each mode: all that is done in it, one thing after another."""
    return {
        label: _Pricing(scenario, mode).step()
        for mode, label in zip(scenario.all_modes, scenario.labels, strict=True)
    }


def expected_events(scenario: VariablesScenario) -> float:
    """Roughly how much a run of the whole scenario has to do: reads, writes and messages."""
    programs = [scenario.program]
    if scenario.vary is not None:
        programs += map(scenario.with_reads_per_write, scenario.vary.reads_per_write)
    total = 0.0
    for program in programs:
        varied = scenario.model_copy(update={"program": program})
        messages = sum(_Pricing(varied, mode).all_acts().messages for mode in scenario.all_modes)
        inside, outside = (
            sum(_often(one, program) for one in part)
            for part in (program.replicas, program.outside)
        )
        acts = inside * scenario.cluster.workers + outside
        total += (messages + acts * len(scenario.labels)) * program.steps
    return total * scenario.replications


def describe(scenario: VariablesScenario) -> list[str]:
    """The resolved scenario, one statement per line."""
    cluster, network, program = scenario.cluster, scenario.cluster.network, scenario.program
    lines = [
        f"{scenario.name}: variables {len(scenario.variables)}, modes {len(scenario.labels)}, "
        f"replications of each {scenario.replications}, seed {scenario.seed}",
        f"  replicas     {cluster.workers}, one on each worker",
    ]
    if cluster.compute is not None:
        mean = format_seconds(cluster.compute.expectation())
        lines.append(f"  compute      {mean} on average, law {described(cluster.compute)}")
    lines += about_machines(cluster.slow_workers, network)
    if "none" in scenario.all_modes:
        lines.append(
            f"  servers      {cluster.parameter_servers} at {format_rate(network.server_rate)}, "
            "whole variables in turn"
        )
    for variable in scenario.variables:
        shape = f", shape [{', '.join(map(str, variable.shape))}]" if variable.shape else ""
        fixed = f", always {variable.synchronization}" if variable.synchronization else ""
        lines.append(
            f"  variable     {variable.name}: {variable.dtype}{shape}, "
            f"{format_bytes(size_of(variable))}, starts as {variable.initial:g}, aggregation "
            f"{variable.aggregation}{fixed}"
        )
    lines += [f"  mode         {mode} - {MODES[mode]}" for mode in scenario.modes]
    if scenario.cross_device_ops != "ring":
        lines.append(f"  reduced by   {scenario.cross_device_ops}")
    lines.append(f"  steps        {program.steps}")
    lines += [f"  replicas do  {_told(action)}" for action in program.replicas]
    lines += [f"  then outside {_told(action)}" for action in program.outside]
    if scenario.vary is not None:
        ratios = ", ".join(f"{ratio:g}" for ratio in scenario.vary.reads_per_write)
        lines.append(f"  varied       outside reads per write: {ratios}")
    return lines


MODES: Final[dict[Mode, str]] = {
    "on_write": "mirrored copies, aggregated when replicas write",
    "on_read": "a copy per replica, aggregated when the outside reads",
    "none": "one copy on a parameter server, nobody waits",
}


def size_of(variable: VariableDescription) -> int:
    """Bytes of one copy."""
    return math.prod(variable.shape) * np.dtype(variable.dtype).itemsize


def _told(action: Action) -> str:
    """`assign_add correct [3, 1, 2], 8 times, every 2 steps`."""
    values = action.model_dump(mode="json", exclude_none=True)
    kind, times, every = values.pop("kind"), values.pop("times"), values.pop("every")
    parts = [kind, *([values.pop("variable")] if "variable" in values else [])]
    parts += [f"{key} {_plain(value)}" for key, value in values.items()]
    often = [f"{times} times"] if times > 1 else []
    often += [f"every {every} steps"] if every > 1 else []
    return ", ".join([" ".join(parts), *often])


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_plain(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        shown = ", ".join(map(_plain, value[:8]))
        return f"[{shown}, ...]" if len(value) > 8 else f"[{shown}]"
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _done(scenario: VariablesScenario, variable: VariableDescription) -> list[Doing]:
    """What the program does to a variable, each once."""
    done: dict[Doing, None] = {}
    for place, action in scenario.program.actions():
        names = {one.name: one for one in scenario.variables}
        if variable.name in action.on(names):
            done |= dict.fromkeys(_parts(action, place))
    return list(done)


def _parts(action: Action, place: str) -> Iterator[Doing]:
    """What an action is made of."""
    inside = place.startswith("replicas")
    if isinstance(action, MovingAverage) or action.kind in ("read", "save"):
        yield "read in replicas" if inside else "read outside"
    if isinstance(action, Writing):
        yield "write in replicas" if inside else "write outside"
    if action.kind == "restore":
        yield "restore"


class _Pricing:
    """What is done to a variable under one mode costs."""

    def __init__(self, scenario: VariablesScenario, mode: Mode) -> None:
        cluster = scenario.cluster
        self._scenario, self._mode = scenario, mode
        self._replicas = cluster.workers
        self._latency = cluster.network.delay
        self._rates = [cluster.network.rate_of(rank) for rank in range(cluster.workers)]
        self._first, self._slowest = self._rates[0], min(self._rates)
        self._server = cluster.network.server_rate

    def price(self, variable: VariableDescription, doing: Doing) -> Price:
        """One use of one variable."""
        size = size_of(variable)
        if self._mode == "none":
            return self._served(size, variable, doing)
        if self._replicas == 1:
            return FREE._replace(why="one replica alone")
        if (variable.synchronization or self._mode) == "on_write":
            return self._mirrored(size, variable, doing)
        return self._on_read(size, variable, doing)

    def step(self) -> Price:
        """All that happens in an average step; `why`: how often the slowest replica counts."""
        total, scenario = self.all_acts(), self._scenario
        if scenario.cluster.compute is None:
            return total
        stretches, count = self._stretches(), scenario.program.steps
        slowest = slowest_computes(scenario.cluster, scenario.seed, sorted(stretches))
        time = math.fsum(often * slowest[length] for length, often in stretches.items()) / count
        total = _added(total, Price(time, 0.0, 0.0, ""))
        return total._replace(why=self._waited(stretches.total(), count))

    def all_acts(self) -> Price:
        """All that is done to variables in an average step; compute is left out."""
        scenario, total = self._scenario, FREE
        names = {one.name: one for one in scenario.variables}
        for place, action in scenario.program.actions():
            often = _often(action, scenario.program)
            for name in action.on(names):
                for doing in _parts(action, place):
                    total = _added(total, self.price(names[name], doing), often)
        return total

    def _stretches(self) -> Counter[int]:
        """How often replicas compute so many times on end before they wait for each other."""
        names = {one.name: one for one in self._scenario.variables}
        program, found, length = self._scenario.program, Counter[int](), 0
        lines = [
            (
                action,
                isinstance(action, Writing)
                and any(self._meets(names[name]) for name in action.on(names)),
            )
            for action in program.replicas
        ]
        for block in program.blocks():
            for step in block:
                for action, meets in lines:
                    if action.happens_in(step):
                        length += action.times * (action.kind == "compute")
                        if meets and length:
                            found[length] += 1
                            length = 0
            if length:
                found[length] += 1
                length = 0
        return found

    def _meets(self, variable: VariableDescription) -> bool:
        """Whether all replicas wait for each other when they write it."""
        return (
            self._mode != "none"
            and (variable.synchronization or self._mode) == "on_write"
            and variable.aggregation != "none"
        )

    def _waited(self, times: int, steps: int) -> str:
        if self._replicas == 1:
            return ""
        if times == steps:
            return "compute: the slowest replica of every step"
        many = "once" if times == 1 else f"{times:,} times"
        return f"compute: the slowest sum since replicas last met, {many} in {steps:,} steps"

    def _mirrored(self, size: int, variable: VariableDescription, doing: Doing) -> Price:
        if doing in ("read in replicas", "read outside"):
            return FREE._replace(why="a copy is there")
        if doing in ("write outside", "restore"):
            return self._spread(size, "to every copy")
        if variable.aggregation == "none":
            return FREE._replace(why="each its own copy")
        if variable.aggregation == "only_first_replica":
            return self._spread(size, "of replica 0 to the other copies")
        if variable.dtype == "int32":  # TensorFlow keeps it off the algorithm that was chosen
            return self._through_one(size)
        algorithm = self._scenario.cross_device_ops
        if algorithm == "ring":
            return self._ring(size)
        return self._halves(size) if algorithm == "hierarchical_copy" else self._through_one(size)

    def _on_read(self, size: int, variable: VariableDescription, doing: Doing) -> Price:
        if doing in ("write in replicas", "read in replicas"):
            return FREE._replace(why="each its own copy")
        if doing == "restore":
            return self._spread(size, "to every copy")
        reading = FREE._replace(why="copy 0 is there")
        if variable.aggregation != "only_first_replica":
            reading = self._spread(size, "from every other copy")
        if doing == "read outside":
            return reading
        return _added(self._spread(size, "to every copy, then read back"), reading)

    def _served(self, size: int, variable: VariableDescription, doing: Doing) -> Price:
        place = f"ps {self._scenario.variables.index(variable) % self._parameter_servers}"
        way = "from" if "read" in doing else "to"
        if doing in ("write in replicas", "read in replicas"):
            time = max(self._replicas * size / self._server, size / self._slowest)
            count = self._replicas
        else:
            time, count = size / min(self._first, self._server), 1
        return self._sent(time, size, count, f"{way} {place}")

    @property
    def _parameter_servers(self) -> int:
        return self._scenario.cluster.parameter_servers

    def _spread(self, size: int, why: str) -> Price:
        """One message to or from each other replica, all over the link of the first."""
        others = self._replicas - 1
        time = max(others * size / self._first, size / self._slowest)
        return self._sent(time, size, others, why)

    def _sent(self, time: float, size: int, count: int, why: str) -> Price:
        what = format_bytes(size) if count == 1 else f"{count} x {format_bytes(size)}"
        return Price(self._latency + time, count * size, count, f"latency and {what} {why}")

    def _through_one(self, size: int) -> Price:
        """All to replica 0, which adds, and sends the sum to all."""
        both = _added(self._spread(size, ""), self._spread(size, ""))
        others = self._replicas - 1
        return both._replace(why=f"{others} x {format_bytes(size)} to replica 0, and back")

    def _ring(self, size: int) -> Price:
        """2 (p - 1) rounds, in each of which every chunk is sent on."""
        rounds = 2 * (self._replicas - 1)
        aligned = (-(-size // self._replicas) // _ALIGNMENT + 1) * _ALIGNMENT
        chunk = min(size, aligned)
        chunks = -(-size // chunk)
        return Price(
            rounds * (self._latency + chunk / self._slowest),
            rounds * size,
            rounds * chunks,
            f"a ring: {rounds} rounds of latency and {format_bytes(chunk)}",
        )

    def _halves(self, size: int) -> Price:
        """Each half adds on its main device, the mains exchange, and it all goes back."""
        rates, half, odd = self._rates, self._replicas // 2, self._replicas % 2
        inwards = 0.0
        for main in (0, half):
            others = [size / rate for rate in rates[main + 1 : main + half]]
            inwards = max([inwards, len(others) * size / rates[main], *others])
        hops = 2 + odd + (2 if half > 1 else 0)
        time = 2 * inwards + 2 * size / min(rates[0], rates[half])
        messages = 4 * (half - 1) + 2 + odd
        return Price(
            hops * self._latency + time + odd * size / min(rates[0], rates[-1]),
            messages * size,
            messages,
            f"two halves: {half - 1} x {format_bytes(size)} to each main, the mains exchange, back",
        )


def slowest_computes(cluster: ReplicaCluster, seed: int, lengths: list[int]) -> dict[int, float]:
    """Mean time (s) until the slowest replica has computed so often on end, for each length.

    Means over sums of drawn times, those of the first replication; workers that are always slow
    are included. More than BLOCK of them on end deviate from their mean by as much as BLOCK do,
    times the root of how many more they are: exact for a constant law.
    """
    law = cluster.compute
    if law is None:
        return dict.fromkeys(lengths, 0.0)
    factors = np.ones(cluster.workers)
    for slow in cluster.slow_workers:
        if slow.after == 0 and slow.until is None:
            factors[slow.rank] *= slow.factor
    times = np.empty((cluster.workers, _BLOCKS, BLOCK))
    for rank in range(cluster.workers):
        blocks = law.blocks(rank, lambda block, rank=rank: stream(seed, 0, "compute", rank, block))  # type: ignore[misc]
        times[rank] = [next(blocks) for _ in range(_BLOCKS)]
    mean, found = law.expectation(), {}
    for length in lengths:
        drawn = min(length, BLOCK)
        windows = times[:, :, : BLOCK // drawn * drawn].reshape(cluster.workers, -1, drawn)
        beside = (windows.sum(axis=2) - drawn * mean) * math.sqrt(length / drawn)
        sums = (length * mean + beside) * factors[:, np.newaxis]
        found[length] = float(sums.max(axis=0).mean())
    return found


def _often(action: Action, program: Program) -> float:
    """How often an action is done in an average step."""
    return action.times * (program.steps // action.every) / program.steps


def _added(one: Price, other: Price, often: float = 1.0) -> Price:
    """Both, one after the other, the other so often; in the words of the first."""
    return Price(
        one.time + often * other.time,
        one.size + often * other.size,
        one.messages + often * other.messages,
        one.why,
    )
