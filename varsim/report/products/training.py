"""What a run of training tells: the fastest strategy, its price, the target, a table, notes."""

import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from varsim.cluster.record.trace import Trace
from varsim.report.charts.timeline import content
from varsim.report.notes import plain
from varsim.report.products import failures
from varsim.report.products.cautions import Remarks, longer, rate, shared_rate
from varsim.report.products.figures import FILES, OF_FAILURES, OF_SENDS, charts, details, pictures
from varsim.report.told import (
    Cell,
    Column,
    Data,
    Note,
    Number,
    Report,
    Reproduction,
    Shares,
    Table,
    Value,
)
from varsim.report.wording import headline, names, shown, untold
from varsim.report.wording import target as target_said
from varsim.scenario.writing import MADE_BY
from varsim.study import metrics
from varsim.study.gradients import NANOSECONDS
from varsim.study.lives import KEPT
from varsim.study.metrics import ACTIVITIES, COSTS
from varsim.study.result import estimates
from varsim.study.tables import COLUMNS, ages_by, columns_of, of_sends
from varsim.study.verdict import CLOSE, EQUAL, SAME, Ranking, interval, ratio, verdict

if TYPE_CHECKING:
    from varsim.study.result import Result
    from varsim.study.verdict import Judgement


_NOTHING: Final = 0.0005  # a share that is told as none


def report(result: "Result") -> Report:
    """What there is to tell of a result."""
    from varsim.scenario.writing import dump_scenario

    found = _TellingTraining(result)
    scenario, table = result.scenario, found.table()
    played, curves = cache(partial(content, result)), tuple(charts(result, found.named))
    return Report(
        "run",
        scenario.name,
        tuple(found.headline()),
        table,
        tuple(Remarks(result, found.named, found.short).notes()),
        next="varsim explain FILE" if result.compared else "",
        source=Reproduction(dump_scenario(scenario), "varsim run scenario.yaml --out again"),
        provenance=result.provenance,
        families={found.named[one.label]: one.traits.family for one in scenario.strategies},
        files=FILES
        | (OF_FAILURES if scenario.failures is not None else {})
        | (OF_SENDS if of_sends(result.traces) else {}),
        data=Data(list(COLUMNS["summary"]), result.summary_rows),
        facts=partial(document, result),
        pictures=partial(pictures, result, found.named, table, played, curves),
        played=played,
        meanings={name: about.description for name, about in result.metrics.items()},
        charts=curves,
        appendix=tuple(details(result, found.named)),
    )


class _TellingTraining:
    """A result with its ranking: by examples/s, of jobs whose lives are followed by those kept."""

    def __init__(self, result: "Result") -> None:
        self.result, self.scenario = result, result.scenario
        self.named = names(self.scenario)
        self.fitting = [
            one.label for one in self.scenario.strategies if not self.scenario.too_large(one)
        ]
        self.followed = failures.followed(self.scenario)
        self.speed = KEPT if self.followed else "examples_per_s"
        self.short = {
            name: one
            for name, one in result.short.items()
            if one.too_short and (len(result.compared) > 1 or one.gradients < one.period > 1)
        }
        values = {
            name: result.values(name, self.speed)
            for name in result.compared
            if name in self.fitting
        }
        values = {name: own for name, own in values.items() if min(own) > 0}
        self.ranking: Ranking[str] | None = result.ranking_of(
            values, "examples_per_s", highest=True
        )
        self.order = self._order()

    def _order(self) -> list[str]:
        """By rank; then what does not fit, then what deadlocked."""
        first = [] if self.ranking is None else [self.ranking.best]
        if self.ranking is not None:
            first += [rival.key for rival in self.ranking.rivals]
        left = [name for name in self.result.strategies if name not in first]
        return first + sorted(left, key=lambda name: name in self.result.standstills)

    def _estimate(self, name: str, metric: str, unit: str = "") -> Number:
        return Number.of(self.result.estimate(name, metric), unit)

    def _who(self, labels: Sequence[str]) -> tuple[str, ...]:
        return tuple(self.named[label] for label in labels)

    # --- the headline -----------------------------------------------------------------------------

    def headline(self) -> Iterator[Note]:
        """Which is fastest; its price; the target."""
        result = self.result
        if not result.compared:
            yield Note("none-compared", {"who": self._who(result.strategies)})
        elif not any(name in self.fitting for name in result.compared):
            yield Note("none-fits", {"who": self._who(result.compared)})
        elif self.short:
            yield self._too_short()
        else:
            unit = "examples/s kept" if self.followed else "examples/s"
            rates = {name: self._estimate(name, self.speed, unit) for name in result.compared}
            yield headline(self.ranking, self.named, rates, result.replications)
            if self.ranking is not None and len(self.ranking.tied) == 1:
                yield from self._price(self.ranking.best)
        if self.scenario.targets.bounds:
            yield self._targets()
        elif result.target_loss is not None and result.compared and not self.short:
            yield self._soonest(result.target_loss)

    def _too_short(self) -> Note:
        rules = {run.stopped_by for run in self.result.traces}
        fewest = min(one.gradients for one in self.short.values())
        more = longer(self.scenario, rules, list(self.short.values()))
        who = self._who(list(self.short))
        return Note("too-short", {"who": who, "count": Number(fewest), "more": more})

    def _price(self, best: str) -> Iterator[Note]:
        if self.followed:
            yield failures.sentence(self.result, best, self.fitting, self.named)
            return
        stale, behind, wasted = (
            self.result.estimate(best, metric).mean
            for metric in ("staleness_mean", "copy_staleness_mean", "wasted_compute")
        )
        of: dict[str, Value] = {}
        if stale > 0:
            of |= {"stale": Number(stale), "ages": ages_by(self.scenario, best)}
        if behind > 0:
            of["behind"] = Number(behind)
        if wasted > _NOTHING:
            of["wasted"] = Number(wasted, unit="share")
        if of:
            yield Note("price", of)

    def _targets(self) -> Note:
        """Who meets all targets, who misses one, of whom it is not known."""
        bounds = self.scenario.targets.bounds
        (name, bound), *more = bounds.items()
        what = "Both targets" if len(bounds) == 2 else f"All {len(bounds)} targets"
        if not more:
            what = f"Target {target_said(name, bound, self.result.target_loss)}"
        of: dict[str, Value] = {"target": what}
        by: dict[str, list[Judgement]] = {label: [] for label in self.order}
        for one in self.result.judgements:
            by[one.strategy].append(one)
        sides: dict[str, list[str]] = {"met": [], "missed": [], "unsure": []}
        for label, those in by.items():
            missed = any(one.missed for one in those)
            met = all(one.met for one in those)
            sides["missed" if missed else "met" if met else "unsure"].append(label)
        return Note("target", of | {side: self._who(who) for side, who in sides.items() if who})

    def _soonest(self, target: float) -> Note:
        ranking = self.result.ranking_of(
            {
                name: self.result.values(name, "time_to_target")
                for name in self.result.compared
                if name in self.fitting
            },
            "time_to_target",
        )
        if ranking is None:
            return Note("never", {"target": f"{target:g}"})
        every = [ranking.best, *(rival.key for rival in ranking.rivals)]
        times = [self.result.estimate(name, "time_to_target").mean for name in every]
        if len(every) > 1 and shared_rate(self.result) is not None:
            low, high = (Number(one, unit="s") for one in (min(times), max(times)))
            return Note("reached-unranked", {"target": f"{target:g}", "low": low, "high": high})
        of: dict[str, Value] = {"target": f"{target:g}", "time": Number(times[0], unit="s")}
        if len(ranking.tied) == 1:
            return Note("soonest", {"best": self.named[ranking.best], **of})
        last = max(self.result.estimate(name, "time_to_target").mean for name in ranking.tied)
        of["last"] = Number(last, unit="s")
        if untold(ranking, self.result.replications):
            of["count"] = self.result.replications
            return Note("soonest-too-few", {"tied": self._who(ranking.tied), **of})
        return Note("soonest-tie", {"tied": self._who(ranking.tied), **of})

    # --- the table --------------------------------------------------------------------------------

    def table(self) -> Table:
        """A row per strategy by rank; what no strategy has is left out."""
        found = [*self._columns()]
        there = [one for one in found if any(shown(cell) not in ("-", "") for cell in one.cells)]
        return Table(
            self._who(self.order),
            tuple(there),
            tuple(self.scenario.strategy(label).kind for label in self.order),
            best=len(self.ranking.tied) if self.ranking is not None and not self.short else 0,
        )

    def _columns(self) -> Iterator[Column]:
        result = self.result
        bounded = {one.target for one in result.judgements}

        def column(
            key: str, head: str, unit: str = "", *, detail: bool = False, bar: bool = False
        ) -> Column:
            cells = tuple(self._estimate(name, key, unit) for name in self.order)
            return Column(key, head, cells, bar=bar, detail=detail, about=key)

        yield Column("deadlocked", "deadlocked", tuple(map(self._deadlocked, self.order)))
        if self.followed:
            yield column(KEPT, "examples/s kept", bar=True)
        yield column("examples_per_s", "examples/s", detail=self.followed, bar=not self.followed)
        if len(self.fitting) < len(result.strategies):
            yield Column("memory", "memory", tuple(map(self._memory, self.order)))
        if len(result.strategies) > 1:
            cells = tuple(map(self._ratio, self.order))
            head = f"vs. {self.named[result.first]}"
            yield Column("throughput_ratio", head, cells, about="throughput_ratio")
        yield from failures.columns(result, self.order)
        yield column("staleness_mean", "stale")
        yield column("staleness_p99", "stale p99", detail="staleness_p99" not in bounded)
        yield column("wasted_compute", "wasted", "share")
        if self.scenario.workload.has_values:
            if result.target_loss is not None:
                yield column("time_to_target", f"to loss {result.target_loss:g}", "s")
            mark = "shared-rate" if shared_rate(self.result) is not None else ""
            yield column("final_loss", "final loss")._replace(note=mark)
        yield from self._costs()
        behind = tuple(map(self._behind, self.order))
        yield Column("copy_staleness_mean", "copies behind", behind, about="copy_staleness_mean")
        yield column("step_time_p99", "step p99", "s", detail="step_time_p99" not in bounded)
        if result.target_loss is not None:
            reads = tuple(self._first_read(name, result.target_loss) for name in self.order)
            yield Column("first_read", "first read that good", reads, detail=True)
        yield column("updates_per_s", "updates/s", detail=True)
        yield column("speedup", "vs. one worker", detail=True)
        yield column("step_time_p50", "step p50", "s", detail=True)
        stalest = tuple(self._largest(name, "staleness_max") for name in self.order)
        yield Column("staleness_max", "stale at most", stalest, detail=True, about="staleness_max")
        if self.scenario.workload.has_values:
            yield column("final_accuracy", "accuracy", "share", detail=True)
            apart = tuple(self._largest(name, "divergence_max") for name in self.order)
            yield Column("divergence_max", "copies apart", apart, detail=True)
            rates = tuple(rate(self.scenario, name) for name in self.order)
            yield Column("learning_rate", "learning rate", rates, detail=True)
        if any(run.sending for run in result.traces):
            hidden = tuple(map(self._hidden, self.order))
            yield Column("hidden", "sending hidden", hidden, detail=True)
        if any(one.round.varies for one in self.scenario.strategies):
            left = tuple(map(self._left_out, self.order))
            yield Column("micro_batches", "micro-batches left out", left, detail=True)
        yield Column("time", "workers' time", tuple(map(self._time, self.order)), detail=True)

    def _deadlocked(self, name: str) -> Cell:
        runs = self.result.standstills.get(name, [])
        times = [run.standstill.time for run in runs if run.standstill is not None]
        return Number(min(times) / NANOSECONDS, unit="s") if times else "-"

    def _ratio(self, name: str) -> Cell:
        if name == self.result.first:
            return Number(1.0, verdict="baseline")
        result = self.result
        found = result.against_first(name, "throughput_ratio")
        said = result.estimate(name, "throughput_ratio").note
        if self.followed:
            found = ratio(
                result.values(name, KEPT),
                result.values(result.first, KEPT),
                comparisons=max(len(result.strategies) - 1, 1),
            )
            said = verdict(found, "", "", self.scenario.report.equal_within)
        tie = said in (CLOSE, EQUAL, SAME)
        return Number.of(found)._replace(verdict="tie" if tie else "")

    def _memory(self, name: str) -> Cell:
        """What the fullest device keeps; of a strategy that does not fit also what there is."""
        strategy = self.scenario.strategy(name)
        for misfit in self.scenario.misfits(strategy):
            needs, has = (Number(one, unit="B") for one in (misfit.needs, misfit.has))
            return f"{shown(needs)} of {shown(has)}"
        return Number(self.scenario.memory_of(strategy).total, unit="B")

    def _behind(self, name: str) -> Cell:
        found = self._estimate(name, "copy_staleness_mean")
        return found if found.mean > 0 else "-"

    def _largest(self, name: str, metric: str) -> Cell:
        """The largest of all replications."""
        values = [one for one in self.result.values(name, metric) if not math.isnan(one)]
        return Number(max(values, default=math.nan))

    def _first_read(self, name: str, target: float) -> Cell:
        """When replicas that go on alone first met for a model as good as the target."""
        if self.scenario.strategy(name).round.of != "outer step":
            return "-"
        firsts = []
        for number in range(self.result.replications):
            run = self.result.trace(name, number)
            # The end of a run is measured as well, and that is no read.
            read = (row for row in run.evaluations if not row.off_grid and row.time < run.end)
            firsts.append(next((row.time for row in read if row.loss <= target), math.nan))
        return Number.of(interval([first / NANOSECONDS for first in firsts]), "s")

    def _hidden(self, name: str) -> Cell:
        runs = [run for run in self.result.traces if run.strategy == name]
        sending = sum(run.sending for run in runs)
        share = sum(run.hidden for run in runs) / sending if sending else math.nan
        return Number(share, unit="share")

    def _left_out(self, name: str) -> Cell:
        strategy = self.scenario.strategy(name)
        if not strategy.round.varies:
            return "-"
        most = strategy.gradients_per_update(self.scenario.cluster_of(strategy))
        pairs = zip(self.result.traces, self.result.gradients, strict=True)
        shares = [metrics.left_out(*one, most) for one in pairs if one[0].strategy == name]
        return Number(math.fsum(shares) / len(shares), unit="share")

    def _time(self, name: str) -> Cell:
        """Where the workers' time went; computing in vain on its own."""
        of = {a: self.result.estimate(name, f"share_{a}").mean for a in ACTIVITIES}
        pairs = zip(
            self.result.values(name, "wasted_compute"),
            self.result.values(name, "share_compute"),
            strict=True,
        )
        vain = math.fsum(part * share for part, share in pairs if part > 0)
        vain /= self.result.replications
        parts = {
            "compute": of["compute"] - vain,
            "vain": vain,
            "wait": of["barrier"] + of["token"] + of["lock"],
            "network": of["read"] + of["write"] + of["queue"],
            "down": of["down"],
        }
        return Shares(tuple((part, share) for part, share in parts.items() if share > 0))

    def _costs(self) -> Iterator[Column]:
        prices = self.scenario.prices
        if prices is None:
            return
        found = {name: estimates(self.result, name) for name in self.order}
        heads = {
            "cost_per_million_examples": f"{prices.currency} per million examples",
            "cost_per_hour": f"{prices.currency}/h",
        }
        if self.result.target_loss is not None:
            heads["cost_to_target"] = f"{prices.currency} to loss {self.result.target_loss:g}"
        for key, head in heads.items():
            cells = tuple(Number.of(found[name][key]) for name in self.order)
            detail = key == "cost_per_hour"
            yield Column(key, head, cells, detail=detail, about=COSTS[key].description)


def document(result: "Result[Any]", remarks: Sequence[str] = ()) -> dict[str, Any]:
    """Everything but the long tables, as plain data; `remarks`: on files that were left out."""
    told = result.report
    summary = [
        {
            **dict(zip(COLUMNS["summary"], row[:-1], strict=False)),  # all but the description
            "values": result.values(str(row[0]), str(row[1])),
        }
        for row in result.summary_rows
    ]
    return {
        "made_by": MADE_BY,
        "name": result.scenario.name,
        "provenance": result.provenance,
        "headline": [plain(note) for note in told.headline],
        "notes": [plain(note) for note in told.notes],
        "remarks": list(remarks),
        "strategies": list(result.strategies),
        "target_loss": result.target_loss,
        "targets": [judgement._asdict() for judgement in result.judgements],
        "costs": _costs(result),
        "summary": summary,
        "metrics": {name: metric._asdict() for name, metric in result.metrics.items()},
        "columns": columns_of(result.scenario) | of_sends(result.traces),
        "activities": list(ACTIVITIES),
        "runs": [
            _facts(trace)
            | {"worker_time_ns": split.tolist(), "share_of_applied": shares.tolist()}
            | ({"measured_time_ns": later.tolist()} if result.windowed else {})
            for trace, split, later, shares in zip(
                result.traces,
                result.time_splits,
                result.measured_splits,
                result.shares_of_applied,
                strict=True,
            )
        ],
        "reference": [
            _facts(trace) | {"examples_per_s": speed}
            for trace, speed in zip(result.reference, result.speeds_alone, strict=True)
        ],
        "scenario": result.scenario.model_dump(mode="json"),
    }


def _costs(result: "Result[Any]") -> list[dict[str, Any]]:
    """What each strategy costs, one row each; none without prices."""
    return [
        {"strategy": strategy, "cost": name, "unit": _unit(result, name), **found._asdict()}
        for strategy in result.strategies
        for name, found in estimates(result, strategy).items()
    ]


def _unit(result: "Result[Any]", cost: str) -> str:
    prices = result.scenario.prices
    return "" if prices is None else prices.currency + COSTS[cost].unit


def _facts(trace: Trace) -> dict[str, Any]:
    """A trace without its long rows, but enough to make the summary again."""
    values, counts = np.unique(trace.copy_staleness, return_counts=True)
    return {
        "strategy": trace.strategy,
        "replication": trace.replication,
        "workers": trace.workers,
        "variables": trace.variables,
        "batch_size": trace.batch_size,
        "end_ns": trace.end,
        "stopped_by": trace.stopped_by,
        "standstill": trace.standstill and trace.standstill._asdict(),
        "global_step": trace.global_step,
        "sent_bytes": trace.sent,
        **({} if trace.rolled_back is None else {"rolled_back": trace.rolled_back.tolist()}),
        **({} if trace.in_vain is None else {"in_vain": trace.in_vain.tolist()}),
        **({"model_lost": True} if trace.model_lost else {}),
        **({"sending_ns": trace.sending, "hidden_ns": trace.hidden} if trace.sending else {}),
        "gradients_aggregated": trace.gradients_aggregated,
        "copy_staleness": {"values": values.tolist(), "counts": counts.tolist()},
        "links": {
            "name": [link.name for link in trace.links],
            "bandwidth_bytes_per_s": [link.bandwidth for link in trace.links],
            "moved_bytes": [link.moved for link in trace.links],
        },
    }
