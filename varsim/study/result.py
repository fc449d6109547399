"""The result of a scenario: tables, summary, and what they mean."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Generic, Literal

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.record.trace import Trace
from varsim.cluster.workers.job import DeadlockError
from varsim.scenario.fault import check_replication, known
from varsim.scenario.training import (
    AnyScenario,
    Scenario,
    is_random,
    runs_made,
    steps_repeat,
    times_are_random,
)
from varsim.scenario.writing import provenance
from varsim.strategies import Single
from varsim.study import metrics as measuring
from varsim.study import tables
from varsim.study.gradients import (
    NANOSECONDS,
    GradientTable,
    Window,
    alone_per_second,
    micro_batches,
    warm_up,
    window,
)
from varsim.study.lives import KEPT, Smaller, of_life, with_life
from varsim.study.metrics import COSTS, Carried, Metric, bounded, carried, sent_per_second
from varsim.study.shown import Shown
from varsim.study.simulation import Run, check_jobs, mapped, run_alone, run_one
from varsim.study.verdict import (
    Done,
    Doubt,
    Estimate,
    Judgement,
    Ranking,
    interval,
    judged,
    of_numbers,
    ranked,
    ratio,
    verdict,
)

if TYPE_CHECKING:
    from pandas import DataFrame
    from typing_extensions import TypeVar

    from varsim.cluster.programs import ProgramTrace

    S = TypeVar("S", bound=AnyScenario, default=Scenario)
else:
    from typing import TypeVar

    S = TypeVar("S")


@dataclass(frozen=True, repr=False, eq=False)
class Result(Shown, Generic[S]):
    """Result of one scenario: tables of what happened, metrics, intervals, ranking.

    Tables are pandas DataFrames; `varsim.study.tables.COLUMNS` says what each column means, and
    `metrics` what is measured. Times are in seconds, sizes in bytes. Of a program of variables each
    mode is a strategy.

    Examples
    --------
    >>> import varsim
    >>> both = ["on_write", "none"]
    >>> result = varsim.run("slow_worker", {"stop.time": 5}, strategies=both)
    >>> result.strategies
    ('on_write', 'none')
    >>> round(result.estimate("none", "examples_per_s").mean)
    1059
    >>> result.ranking("examples_per_s", highest=True).best
    'none'
    >>> result.updates.groupby("strategy").staleness.max().to_dict()
    {'none': 9.0, 'on_write': 0.0}

    """

    offers = (
        *Shown.offers,
        *("scenario", "strategies", "replications", "metrics", "provenance", "deadlock"),
        *("values", "estimate", "ranking", "measure", "judgements", "loss_curves", "trace"),
        *("summary", "runs", "updates", "steps", "spans", "evaluations", "links", "workers"),
        *("attempts", "acts", "sent"),
    )
    product: ClassVar = "run"

    scenario: S
    traces: list[Trace]
    reference: list[Trace]

    def __post_init__(self) -> None:
        replications = range(len(self.traces) // max(len(self.strategies), 1))
        assert [(trace.strategy, trace.replication) for trace in self.traces] == [
            (strategy, number) for strategy in self.strategies for number in replications
        ], "traces go strategy by strategy, each by replication from 0"
        assert len(self.reference) in (0, len(replications)), "one reference per replication"

    @cached_property
    def strategies(self) -> tuple[str, ...]:
        """Labels of the strategies, in the order of the scenario."""
        return tuple(dict.fromkeys(trace.strategy for trace in self.traces))

    @property
    def first(self) -> str:
        """The strategy that the others are compared with."""
        return self.strategies[0]

    @cached_property
    def metrics(self) -> Mapping[str, Metric]:
        """Metrics by name, each with its unit and description."""
        return tables.metrics_of(self.scenario, self.strategies)

    @property
    def replications(self) -> int:
        """Replications of each strategy."""
        return len(self.traces) // len(self.strategies)

    @property
    def target_loss(self) -> float | None:
        """The loss whose first time is reported: targets.loss, or else stop.loss."""
        return self.scenario.target_loss

    @cached_property
    def provenance(self) -> dict[str, str | int]:
        """Hash of the scenario, seed, and versions: equal where two results can be compared."""
        return provenance(self.scenario)

    @cached_property
    def standstills(self) -> dict[str, list[Trace]]:
        """The strategies that deadlocked, each with the runs in which it did."""
        found: dict[str, list[Trace]] = {}
        for trace in self.traces:
            if trace.standstill is not None:
                found.setdefault(trace.strategy, []).append(trace)
        return found

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """The strategies that are compared: those that never deadlocked."""
        return tuple(label for label in self.strategies if label not in self.standstills)

    @cached_property
    def common_end(self) -> int:
        """The time (ns) that every run of the comparison lasted."""
        compared = [trace.end for trace in self.traces if trace.strategy in self.compared]
        return min(compared or [trace.end for trace in self.traces], default=0)

    @property
    def deadlock(self) -> DeadlockError | None:
        """Error that tells which strategies deadlocked, when and over what; or None."""
        said = []
        for strategy, runs in self.standstills.items():
            first = runs[0]
            assert first.standstill is not None
            said.append(first.standstill.report)
            if self.replications > 1:
                others = f"{len(runs)} of {self.replications} replications deadlock"
                said.append(f"  (replication {first.replication}; in '{strategy}' {others})")
        return DeadlockError("\n".join(said)) if said else None

    def trace(self, strategy: str, replication: int = 0) -> Trace:
        """Return one run, event by event.

        Parameters
        ----------
        strategy : str
            Its label, one of `strategies`.
        replication : int, default 0
            Counted from 0.

        Returns
        -------
        Trace
            Its rows as arrays; times are in nanoseconds.

        Raises
        ------
        ValueError
            If there is no such strategy or replication.

        """
        known("strategy", strategy, self.strategies)
        check_replication(replication, self.replications)
        return self.traces[self.strategies.index(strategy) * self.replications + replication]

    def values(self, strategy: str, metric: str) -> list[float]:
        """Return one metric of one strategy in every replication.

        Parameters
        ----------
        strategy : str
            Its label, one of `strategies`.
        metric : str
            One of `metrics`, such as `"examples_per_s"`.

        Returns
        -------
        list of float
            In the unit of the metric; nan where it does not exist. Ratios are paired.

        Raises
        ------
        ValueError
            With the nearest name, if there is no such strategy or metric.

        """
        self._check(strategy, metric)
        index = self.strategies.index(strategy) * self.replications
        return [run[metric] for run in self._measured[index : index + self.replications]]

    def exact(self, strategy: str, metric: str) -> bool:
        """Whether nothing random has an effect on this number: every replication has it."""
        if metric in measuring.COMMON_TIMES:  # which depend on how long the others' runs were
            return not any(values for _, values in self._randomness.values())
        return not self._randomness[strategy][measuring.TABLE[metric].of_values]

    def ranking(self, metric: str, *, highest: bool = False) -> Ranking[str] | None:
        """Rank the strategies by one metric; those that deadlocked are left out.

        Parameters
        ----------
        metric : str
            One of `metrics`, such as `"examples_per_s"`.
        highest : bool, default False
            Whether the highest is the best.

        Returns
        -------
        Ranking or None
            `best`, and `rivals` with their leads, paired over replications; None where no strategy
            has the metric.

        Raises
        ------
        ValueError
            With the nearest name, if there is no such metric.

        """
        values = {strategy: self.values(strategy, metric) for strategy in self.compared}
        if metric == "examples_per_s":  # one that applied no gradient does not compete
            values = {strategy: own for strategy, own in values.items() if min(own) > 0}
        return self.ranking_of(values, metric, highest=highest)

    def ranking_of(
        self, values: Mapping[str, Sequence[float]], metric: str, *, highest: bool = False
    ) -> Ranking[str] | None:
        """The ranking of strategies by these values, which follow from a metric."""
        return ranked(
            values,
            equal_within=self.scenario.report.equal_within,
            highest=highest,
            exact=lambda strategy: self.exact(strategy, metric),
        )

    def against_first(self, strategy: str, metric: str) -> Estimate:
        """A ratio to the first strategy; its interval holds together with those of all others."""
        return ratio(
            self.values(strategy, metric),
            [1.0] * self.replications,
            comparisons=max(len(self.strategies) - 1, 1),
            exact=self.exact(strategy, metric) and self.exact(self.first, metric),
        )

    def estimate(self, strategy: str, metric: str) -> Estimate:
        """Return one metric of one strategy over its replications.

        Parameters
        ----------
        strategy : str
            Its label, one of `strategies`.
        metric : str
            One of `metrics`, such as `"examples_per_s"`.

        Returns
        -------
        Estimate
            `mean`, and `low` and `high`, the ends of the 95 % confidence interval, in the unit of
            the metric; nan where it does not exist.

        Raises
        ------
        ValueError
            With the nearest name, if there is no such strategy or metric.

        """
        self._check(strategy, metric)
        return self._estimates[strategy, metric]

    def measure(self, metric: Callable[[Trace], float]) -> dict[str, Estimate]:
        """Measure something of your own.

        Parameters
        ----------
        metric : callable
            A function of one run's Trace that returns a float.

        Returns
        -------
        dict of str to Estimate
            By strategy, with 95 % confidence intervals.

        """
        return {
            name: of_numbers([metric(self.trace(name, n)) for n in range(self.replications)])
            for name in self.strategies
        }

    def _check(self, strategy: str, metric: str) -> None:
        known("strategy", strategy, self.strategies)
        known("metric", metric, self.metrics)

    @cached_property
    def summary(self) -> "DataFrame":
        """Summary: one row per strategy and metric, with the ends of its interval."""
        from pandas import DataFrame

        return DataFrame(self.summary_rows, columns=list(tables.COLUMNS["summary"]))

    @cached_property
    def summary_rows(self) -> list[tuple[object, ...]]:
        """The rows of the summary, without pandas."""
        every = {name: tables.metrics_of(self.scenario, [name]) for name in self.strategies}
        return [
            (
                *(strategy, metric, about.unit),
                *(float(found.mean), float(found.low), float(found.high)),
                *(found.replications, found.note, about.description),
            )
            for (strategy, metric), found in self._estimates.items()
            for about in [every[strategy][metric]]
        ]

    @cached_property
    def runs(self) -> "DataFrame":
        """Runs: one row per strategy and replication, one column per metric."""
        from pandas import DataFrame

        rows = [
            (trace.strategy, trace.replication, trace.stopped_by, *map(measured.get, self.metrics))
            for trace, measured in zip(self.traces, self._measured, strict=True)
        ]
        return DataFrame(rows, columns=["strategy", "replication", "stopped_by", *self.metrics])

    @cached_property
    def updates(self) -> "DataFrame":
        """Gradients: one row for each, applied or not, with its staleness."""
        return tables.joined("updates", self.traces, list(map(tables.updates, self.gradients)))

    @cached_property
    def spans(self) -> "DataFrame":
        """Spans: one row per stretch of time that a worker spent on one activity."""
        return tables.joined("spans", self.traces, list(map(tables.spans, self.traces)))

    @cached_property
    def evaluations(self) -> "DataFrame":
        """Evaluations of the model: loss and accuracy, one row for each."""
        return tables.joined("evaluations", self.traces, list(map(tables.evaluations, self.traces)))

    @cached_property
    def steps(self) -> "DataFrame":
        """Updates of the model: one row for each."""
        return tables.joined("steps", self.traces, list(map(tables.steps, self.traces)))

    @cached_property
    def links(self) -> "DataFrame":
        """Links of the network: one row for each, with bytes moved and how busy it was."""
        return tables.joined("links", self.traces, list(map(tables.links, self.traces)))

    @cached_property
    def carried(self) -> dict[str, dict[str, Carried]]:
        """By link, what it carried in every strategy."""
        return carried((run.strategy, run.end, run.links) for run in self.traces)

    @cached_property
    def workers(self) -> "DataFrame":
        """Workers: one row for each, with its time by activity."""
        parts = map(tables.workers, self.traces, self.gradients, self.time_splits)
        return tables.joined("workers", self.traces, list(parts))

    @cached_property
    def attempts(self) -> "DataFrame":
        """Attempts of a job that fails, one row from a start to the next; else empty."""
        return tables.attempts(self.scenario, self.traces)

    @cached_property
    def acts(self) -> "DataFrame":
        """Acts of a program of variables: one row for each."""
        from varsim.study import program

        return program.frame("acts", program.act_rows(self._programs))

    @cached_property
    def sent(self) -> "DataFrame":
        """Messages of a program of variables: one row for each."""
        from varsim.study import program

        return program.frame("sent", program.sent_rows(self._programs))

    @property
    def _programs(self) -> "list[ProgramTrace]":
        from varsim.study.program import of_program

        if isinstance(self.scenario, Scenario):
            raise ValueError("acts and sent are of programs of variables, not of training")
        return list(map(of_program, self.traces))

    def loss_curves(
        self,
        by: Literal["time_s", "global_step"] = "time_s",
        value: Literal["loss", "accuracy", "divergence"] = "loss",
        points: int = 200,
    ) -> "DataFrame":
        """Return the mean over replications of what was evaluated.

        A curve ends where the shortest replication of its strategy ends; between two evaluations
        the earlier one holds.

        Parameters
        ----------
        by : {"time_s", "global_step"}, default "time_s"
            What it is drawn over.
        value : {"loss", "accuracy", "divergence"}, default "loss"
            What was evaluated.
        points : int, default 200
            Points of a curve at most.

        Returns
        -------
        pandas.DataFrame
            Columns strategy, `by`, mean, low and high.

        """
        count = self.replications
        runs = {name: [self.trace(name, n) for n in range(count)] for name in self.strategies}
        exact = {name: self.exact(name, "final_loss") for name in self.strategies}
        return tables.curves(runs, exact, by, value, points)

    @cached_property
    def done(self) -> dict[str, Done]:
        """How much the runs of every strategy did, on average."""
        count, found = self.replications, {}
        for index, strategy in enumerate(self.scenario.strategies):
            chosen = slice(index * count, (index + 1) * count)
            pairs = list(zip(self.traces[chosen], self.gradients[chosen], strict=True))
            since = self.measured_after
            number = micro_batches(self.scenario, strategy.label)
            computed = (
                measuring.computed_per_worker(run, rows, since, number) for run, rows in pairs
            )
            repeats = steps_repeat(self.scenario, strategy)
            applied = (float(rows.weight.sum()) * run.batch_size for run, rows in pairs)
            found[strategy.label] = Done(
                math.inf if repeats else math.fsum(computed) / count,
                strategy.round.steps,
                max(run.end for run, _ in pairs) / NANOSECONDS,
                math.fsum(applied) / count,
            )
        return found

    @property
    def short(self) -> dict[str, Done]:
        """What the compared strategies did of which little can be told."""
        return {
            name: one
            for name, one in self.done.items()
            if name in self.compared and one.gradients < one.needed
        }

    @cached_property
    def judgements(self) -> list[Judgement]:
        """Judgements: each target of the scenario, each strategy, whether it is met."""
        found = []
        for name, bound in self.scenario.targets.bounds.items():
            for strategy in self.strategies:
                values = self.values(strategy, bounded(name, self.scenario))
                doubt = self._doubt(name, bound, strategy, values)
                one = judged(name, bound, strategy, values, doubt)
                stuck = one.strategy in self.standstills
                found.append(one._replace(met=False, missed=True, doubt="") if stuck else one)
        return found

    def _doubt(self, name: str, bound: float, strategy: str, values: Sequence[float]) -> Doubt:
        """Why these values cannot decide a target, but for their interval."""
        if name == "time_to_target":
            runs = [run for run in self.traces if run.strategy == strategy]
            unreached = [r.end for r, v in zip(runs, values, strict=True) if math.isnan(v)]
            if unreached and max(unreached) < bound * NANOSECONDS:
                return "ended"
        elif self.done[strategy].too_short:
            return "short"
        single = len(values) == 1 and not self.exact(strategy, bounded(name, self.scenario))
        return "once" if single and not math.isnan(values[0]) else ""

    @cached_property
    def _randomness(self) -> dict[str, tuple[bool, bool]]:
        """Per strategy whether times, and whether times or values, may differ."""
        return {
            strategy.label: (
                times_are_random(self.scenario, strategy),
                is_random(self.scenario, strategy),
            )
            for strategy in self.scenario.strategies
        }

    @cached_property
    def gradients(self) -> list[GradientTable]:
        """Per trace its gradients, as columns."""
        return [GradientTable.of(trace) for trace in self.traces]

    @cached_property
    def time_splits(self) -> list[NDArray[np.int64]]:
        """Per trace the ns of every worker on every activity, shape (workers, activities)."""
        return [measuring.worker_time(trace) for trace in self.traces]

    @property
    def measured_after(self) -> int:
        """How long (ns) of every run was asked to be left out of rates and shares."""
        return warm_up(self.scenario)

    @cached_property
    def windows(self) -> list[Window]:
        """Per trace where its rates and shares are measured."""
        return [window(self.scenario, trace) for trace in self.traces]

    @cached_property
    def windowed(self) -> bool:
        """Whether rates are measured over less than all of some run."""
        return any(
            span != (0, trace.end) for trace, span in zip(self.traces, self.windows, strict=True)
        )

    @cached_property
    def speeds_alone(self) -> list[float]:
        """Examples/s of one worker alone, per replication; nothing where nothing is learnt."""
        if not isinstance(self.scenario, Scenario):
            return []
        return [alone_per_second(self.scenario, trace) for trace in self.reference]

    @cached_property
    def measured_splits(self) -> list[NDArray[np.int64]]:
        """As `time_splits`, of the time that is measured."""
        if not self.windowed:
            return self.time_splits
        return [
            measuring.worker_time(trace, span)
            for trace, span in zip(self.traces, self.windows, strict=True)
        ]

    @cached_property
    def shares_of_applied(self) -> list[NDArray[np.float64]]:
        """Per trace each worker's share of the applied gradients, shape (workers,)."""
        return list(map(measuring.share_of_applied, self.traces, self.gradients))

    @cached_property
    def _measured(self) -> list[dict[str, float]]:
        if not isinstance(self.scenario, Scenario):
            each = zip(self.traces, self.measured_splits, self.windows, strict=True)
            return [measuring.measure_program(*one) for one in each]
        rows = [
            measuring.measure(trace, gradients, split, self.target_loss, self.common_end, span)
            for trace, gradients, split, span in zip(
                self.traces, self.gradients, self.measured_splits, self.windows, strict=True
            )
        ]
        for trace, gradients, row in zip(self.traces, self.gradients, rows, strict=True):
            row |= of_life(self.scenario, trace, gradients, row)
        alone = self.speeds_alone
        for trace, row in zip(self.traces, rows, strict=True):
            first = rows[trace.replication]
            row["speedup"] = _quotient(row["examples_per_s"], alone, trace.replication)
            for compared, metric in _PAIRED.items():
                row[compared] = _quotient(row[metric], [first[metric]], 0)
        return rows

    @cached_property
    def _estimates(self) -> dict[tuple[str, str], Estimate]:
        return {
            (strategy, metric): self._estimated(strategy, metric)
            for strategy in self.strategies
            for metric in self.metrics
        }

    def _estimated(self, strategy: str, metric: str) -> Estimate:
        if metric in measuring.COMPARISONS:
            exact = self.exact(strategy, metric) and self.exact(self.first, metric)
            found = ratio(self.values(strategy, metric), [1.0] * self.replications, exact=exact)
            if metric not in _PAIRED or found.replications == 0:
                return found
            together = self.against_first(strategy, metric)
            note = verdict(together, *_VERDICTS[metric], self.scenario.report.equal_within)
            return found._replace(note="the yardstick" if strategy == self.first else note)
        found = interval(self.values(strategy, metric), exact=self.exact(strategy, metric))
        if metric in measuring.COMMON_TIMES and found.replications:
            end = self.common_end * measuring.COMMON_TIMES[metric]
            return found._replace(note=f"at {end / NANOSECONDS:.6g} s. {found.note}".rstrip(". "))
        return found


_PAIRED = {"throughput_ratio": "examples_per_s", "time_to_target_ratio": "time_to_target"}
_VERDICTS = {"throughput_ratio": ("faster", "slower"), "time_to_target_ratio": ("later", "sooner")}


def _quotient(value: float, yardsticks: Sequence[float], index: int) -> float:
    below = yardsticks[index] if yardsticks else float("nan")
    return value / below if below > 0 else float("nan")


def costs(result: "Result", strategy: str) -> dict[str, list[float]]:
    """Each of COSTS of a strategy, a value per replication; nan where it does not exist."""
    scenario, prices = result.scenario, result.scenario.prices
    assert prices is not None, "costs are of a scenario with prices"
    machines = scenario.hourly(scenario.strategy(strategy))
    speed = "examples_per_s" if scenario.failures is None else KEPT
    first = result.strategies.index(strategy) * result.replications
    runs = slice(first, first + result.replications)
    sent = (
        sent_per_second(scenario, *run)
        for run in zip(
            result.traces[runs],
            result.windows[runs],
            result.time_splits[runs],
            result.measured_splits[runs],
            strict=True,
        )
    )
    rates, times = result.values(strategy, speed), result.values(strategy, "time_to_target")
    rows = [prices.costs(machines, *run) for run in zip(sent, rates, times, strict=True)]
    return {name: [row[name] for row in rows] for name in COSTS}


def estimates(result: "Result", strategy: str) -> dict[str, Estimate]:
    """Each of COSTS over the replications; nothing without prices."""
    if result.scenario.prices is None:
        return {}
    return {
        name: interval(values, exact=result.exact(strategy, name))
        for name, values in costs(result, strategy).items()
    }


def simulate(
    scenario: S, jobs: int = 1, progress: Callable[[int, int], None] | None = None
) -> "Result[S]":
    """Run a scenario of any kind and return its Result, the same for any number of jobs.

    Where nothing is random there is one replication, whatever the scenario asks for.

    `jobs`: processes to use, at most one per run. `progress(done, total)` is called after each
    run. Where a strategy deadlocks, the result says so (`Result.deadlock`).
    """
    if getattr(scenario, "kind", None) not in ("training", "variables"):
        raise TypeError("simulate takes a Scenario; load one with varsim.load(path)")
    check_jobs(jobs)

    often: dict[int | None, int] = {
        index: runs_made(scenario, strategy) for index, strategy in enumerate(scenario.strategies)
    }
    if isinstance(scenario, Scenario):
        often[None] = runs_made(scenario, Single())
    fails = scenario.failures is not None and scenario.failures.is_random
    count = scenario.replications if fails else max(often.values())
    runs = [
        Run(scenario, strategy, replication)
        for strategy, made in often.items()
        for replication in range(made)
    ]
    traces, smaller = [], Smaller(run_alone)
    for done, (run, trace) in enumerate(
        zip(runs, mapped(_made, runs, min(jobs, len(runs))), strict=True), 1
    ):
        # Beside strategies that are random, one that is exact is the same in every replication.
        same = range(1, count if often[run.strategy] == 1 else 1)
        others = (replace(trace, replication=number) for number in same)
        if run.strategy is not None and isinstance(scenario, Scenario):
            others = (with_life(scenario, other, smaller) for other in others)
        traces += [trace, *others]
        if progress is not None:
            progress(done, len(runs))
    compared = len(scenario.strategies) * count
    return Result(scenario, traces[:compared], traces[compared:])


def _made(run: Run) -> Trace:
    """One run; of the yardstick, of which only the speed is of interest, without spans."""
    return run_one(run, record=run.strategy is not None)
