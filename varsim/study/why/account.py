"""Bottleneck analysis of one strategy: everything that is known of it, in one place."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import ClassVar, Final

from varsim.cluster.record.trace import Trace
from varsim.scenario.training import Scenario, steps_are_random
from varsim.study.gradients import Gradients
from varsim.study.metrics import left_out
from varsim.study.shown import Shown
from varsim.study.stragglers import Table, compute_times
from varsim.study.verdict import CLOSE, WORSE, Estimate, beside, interval, lead_of, verdict
from varsim.study.why.levers import alone
from varsim.study.why.lives import Help, helps
from varsim.study.why.path import Path, enders, iterations, shares, step_paths, typical
from varsim.study.why.rerun import Gain, Part, Reruns, number_of_runs
from varsim.study.why.resources import Use, busiest, uses

BETTER: Final = "better"


class Account(Reruns):
    """One strategy: what a step consists of, what was busy, and what it would be like otherwise.

    A step lasts from one update to the next. Of an `asynchronous` strategy, whose round is each
    worker's own iteration, it is one of these: the time in which there are as many updates as all
    of them make; `paths` are then the iterations of all workers. `stuck`: it deadlocked, or made no
    update; then there is nothing to say. `uses`: what was busy, busiest first.
    """

    def __init__(self, scenario: Scenario, ran: Callable[[], None] = lambda: None) -> None:
        super().__init__(scenario, ran)
        self.label: str = self.strategy.label
        self.shards: bool = self.strategy.shards
        # Servers may also add up the gradients of workers that have copies of their own.
        self.servers = self.strategy.uses_servers and not self.strategy.updates_copies
        self.paths: list[Path] = []
        if not self.stuck:
            for trace in self.traces:
                self.paths += iterations(trace) if self.asynchronous else self._steps(trace)
        self.stuck = not self.paths
        self.uses = [] if self.stuck else uses(scenario, self.traces)

    def _steps(self, trace: Trace) -> list[Path]:
        batches = self.strategy.round.micro_batches
        return step_paths(trace, servers=self.servers, batches=batches)

    @cached_property
    def helps(self) -> list[Help]:
        """What its job keeps of its time among failures, and would with changes; else nothing."""
        return helps(self.scenario, self.traces)

    @cached_property
    def together(self) -> Gain | None:
        """All causes but compute taken away; None where there are not two of them."""
        others = [lever for lever in self.levers if lever.key != "compute"]
        return self.gain_of(others, "all of these") if len(others) > 1 else None

    @property
    def main(self) -> Part:
        """The largest part of the step."""
        return max(self.parts, key=lambda part: part.seconds.mean)

    def share(self, part: Part) -> float:
        """A part of the step time, as a share of it."""
        return part.seconds.mean / self.step_time.mean

    @property
    def exact(self) -> bool:
        """Whether nothing random has an effect on its times."""
        return not steps_are_random(self.scenario, self.strategy)

    def faster(self, gain: Gain) -> str:
        """The verdict on a gain: WORSE is what the scenario is beside it, if it is surely faster.

        Of several gains the largest is looked for, so that their intervals hold together.
        """
        if not all(map(math.isfinite, gain.step_times)):
            return CLOSE
        lead = lead_of(
            self.base,
            gain.step_times,
            comparisons=max(len(self.gains), 1),
            exact=self.exact,
        )
        return verdict(lead, WORSE, BETTER, self.scenario.report.equal_within)

    def beside_main(self, part: Part) -> str:
        """The verdict on another part of the step beside the largest."""
        rivals = beside(
            "main",
            {"main": self.main.values, "other": part.values},
            equal_within=self.scenario.report.equal_within,
            highest=True,
            additive=True,
            exact=lambda _: self.exact,
            comparisons=max(len(self.parts) - 1, 1),
        )
        return rivals[0].said

    def gain(self, key: str) -> Gain | None:
        """What it is like without one cause."""
        return next((gain for gain in self.gains if gain.key == key), None)

    @cached_property
    def typical(self) -> Path:
        """The step of median length."""
        return typical(self.paths)

    @cached_property
    def shares(self) -> dict[str, float]:
        """What part of all steps is spent on what."""
        return shares(self.paths)

    @cached_property
    def enders(self) -> dict[int, float]:
        """In what part of the steps each worker is waited for."""
        return enders(self.paths)

    @cached_property
    def compute_times(self) -> list[Table]:
        """Of every replication the times that all workers computed; empty where one has none."""
        if self.strategy.round.varies:  # the long ones are missing
            return []
        number = self.strategy.round.micro_batches
        found = [compute_times(trace, number) for trace in self.traces]
        there = [table for table in found if table is not None]
        return there if len(there) == len(found) else []

    @cached_property
    def left_out(self) -> float | None:
        """Share of micro-batches that went into no update; None where a strategy drops none."""
        most = self.strategy.gradients_per_update(self.scenario.cluster)
        shares = [left_out(one, Gradients.of(one), most) for one in self.traces]
        return math.fsum(shares) / len(shares) if self.strategy.round.varies else None

    @property
    def jam(self) -> Use | None:
        """What one queues for: the busiest of what is shared, else of the workers' own links."""
        shared = busiest(self.uses, ("port", "handling", "shared"))
        return shared or busiest(self.uses, ("link",))

    @property
    def examples_per_s(self) -> Estimate:
        """Throughput in what was looked at; gradients that were applied, by their shares."""
        size = self.scenario.workload.batch_size
        return interval(
            [
                float(trace.gradients[:, -1].sum()) / trace.variables * size / (trace.end / 1e9)
                for trace in self.traces
            ]
        )


@dataclass(frozen=True, repr=False)
class Why(Shown):
    """The accounts of all strategies of a scenario."""

    product: ClassVar = "explain"

    scenario: Scenario
    accounts: list[Account]


def why(scenario: Scenario, progress: Callable[[int, int], None] | None = None) -> Why:
    """Run and rerun every strategy; `progress(done, total)` after each run."""
    accounts: list[Account] = []
    indices = range(len(scenario.strategies))
    ends = list(accumulate(number_of_runs(alone(scenario, index)) for index in indices))
    total, done = ends[-1], 0

    def tell(now: int) -> None:
        nonlocal done
        done = now
        if progress is not None:
            progress(now, total)

    for index in indices:
        found = Account(alone(scenario, index), lambda: tell(done + 1))
        if not found.stuck:
            _ = found.gains, found.parts, found.together, found.helps
        accounts.append(found)
        tell(ends[index])
    return Why(scenario, accounts)
