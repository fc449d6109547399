"""Heavy tails and spells: which rounds count, and what intervals are worth."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.building import scenario
from tests.plan import planning
from tests.seams import Number, Run, run_one, simulate
from tests.sweep import sweeping
from varsim import Scenario
from varsim.study.runs import replications
from varsim.study.verdict import CORRELATION_TIMES, interval, tail_of_step

BOTH = ("Heavy tail", "Short for spells")
HEAVY = "{kind: pareto, minimum: 100 ms, alpha: 1.2}"
SLOW = (
    "{kind: markov, fast: {kind: constant, value: 100 ms}, slow: {kind: constant, value: 400 ms}, "
    "to_slow: 0.04, to_fast: 0.06}"
)
PLAN = "minimize: cost_per_hour\nspace: {cluster.workers: [4, 8]}\nmost_replications: 2"
PARETO = {"kind": "pareto", "minimum": 0.1, "alpha": 1.2}
NOTHING = {"kind": "constant", "value": 0.1}


def of_times(
    law: dict[str, Any], strategy: dict[str, Any] | None = None, **changes: Any
) -> Scenario:
    return scenario(
        strategy or {"kind": "on_write"},
        cluster={"workers": 4, "compute": law, **changes.pop("cluster", {})},
        problem={"kind": "timing", "size": 8000.0},
        workload={"optimizer": None, "batch_size": 8},
        report={},
        **changes,
    )


def mixed(law: dict[str, Any]) -> dict[str, Any]:
    parts = ({"weight": 1.0, "distribution": NOTHING}, {"weight": 0.01, "distribution": law})
    return {"kind": "mixture", "components": parts}


def in_spells(to_slow: float, to_fast: float) -> dict[str, Any]:
    slow = {"kind": "constant", "value": 0.4}
    return {"kind": "markov", "fast": NOTHING, "slow": slow, "to_slow": to_slow, "to_fast": to_fast}


class TestARoundUnderWay:
    @pytest.mark.parametrize(("stop", "measured"), [(7.5, 6.0), (8.0, 6.0), (8.2, 4 / 6.2 * 6.0)])
    def test_counts_where_it_lasts_twice_as_long_as_the_others(
        self, stop: float, measured: float
    ) -> None:
        """Six steps of 1 s, of which the last four are measured, and one of 10 s."""
        times = {"kind": "trace", "seconds": ((1.0,) * 6 + (10.0,),)}
        result = simulate(of_times(times, cluster={"workers": 3}, stop={"time": stop}))
        (rate,) = result.values("on_write", "gradients_per_s")
        assert rate == pytest.approx(measured / 2, rel=1e-9)

    def test_makes_the_rate_of_heavy_tails_that_of_whole_runs(self) -> None:
        """Without it the mean of these runs is 10 % too high."""
        described = of_times(PARETO, stop={"time": 60.0}, replications=200)
        result = simulate(described)
        measured = np.mean(result.values("on_write", "updates_per_s"))
        whole = np.mean([run.global_step / (run.end / 1e9) for run in result.traces])
        assert measured == pytest.approx(whole, rel=0.03)


class TestVariance:
    @pytest.mark.parametrize(
        ("law", "infinite"),
        [
            (PARETO, True),
            ({**PARETO, "alpha": 2.0}, True),
            ({**PARETO, "alpha": 2.1}, False),
            (mixed(PARETO), True),
            (mixed(mixed(PARETO)), True),
            (mixed({**PARETO, "alpha": 3.0}), False),
            ({**in_spells(0.3, 0.3), "slow": PARETO}, True),
            ({"kind": "lognormal", "mean": 0.1, "sigma": 2.0}, False),
            ({"kind": "weibull", "mean": 0.1, "shape": 0.3}, False),
        ],
    )
    def test_of_a_law_that_is_infinite_is_told_once(
        self, law: dict[str, Any], infinite: bool
    ) -> None:
        result = simulate(of_times(law, stop={"global_steps": 20}, replications=2))
        codes = [note.code for note in result.report.notes]
        assert codes.count("heavy-tail") == infinite

    @pytest.mark.parametrize(
        ("strategy", "index"),
        [
            ({"kind": "on_write"}, 1.2),  # the largest of four
            ({"kind": "none"}, 1.2),
            ({"kind": "local_sgd", "period": 4}, 1.2),
            ({"kind": "backup_workers", "replicas_to_aggregate": 4}, 1.2),
            ({"kind": "backup_workers", "replicas_to_aggregate": 3}, 2.4),
            ({"kind": "backup_workers", "replicas_to_aggregate": 1}, 4.8),  # the smallest
            ({"kind": "k_batch_sync", "k": 4}, 4.8),
            ({"kind": "sync_replicas", "replicas_to_aggregate": 3}, 1.4),
        ],
    )
    def test_of_a_step_depends_on_who_is_waited_for(
        self, strategy: dict[str, Any], index: float
    ) -> None:
        described = of_times(PARETO, strategy, cluster={"workers": 4, "parameter_servers": 1})
        assert tail_of_step(described, described.strategies[0]) == pytest.approx(index)

    def test_whose_steps_have_a_finite_one_is_told(self) -> None:
        backup = {"kind": "backup_workers", "replicas_to_aggregate": 2}
        described = of_times(
            PARETO,
            cluster={"workers": 4, "parameter_servers": 1},
            strategies=({"kind": "on_write"}, backup),
        )
        (told,) = (n for n in simulate(described).report.notes if n.code == "heavy-tail")
        index = told.values["index"]
        assert isinstance(index, Number)
        assert index.mean == pytest.approx(1.2)


class TestSpells:
    @pytest.mark.parametrize(("steps", "short"), [(900, True), (1100, False)])
    def test_of_which_a_run_holds_too_few_are_told(self, steps: int, short: bool) -> None:
        """To change after 0.1 of the steps leaves 0.8 from step to step: (1 + .9) / (1 - .9)."""
        law = in_spells(0.04, 0.06)
        result = simulate(of_times(law, stop={"global_steps": steps}, replications=2))
        codes = [note.code for note in result.report.notes]
        assert codes.count("few-spells") == short
        needed = CORRELATION_TIMES * 19
        assert (steps < needed) == short

    def test_that_do_not_last_are_none(self) -> None:
        result = simulate(of_times(in_spells(0.5, 0.5), stop={"global_steps": 30}))
        assert "few-spells" not in [note.code for note in result.report.notes]


class TestManyScenarios:
    """Plans and sweeps say it once, and of how many."""

    @pytest.mark.parametrize("spells", [False, True])
    def test_of_a_plan(self, tmp_path: Path, spells: bool) -> None:
        asked = planning.question(PLAN, [f"cluster.compute={SLOW if spells else HEAVY}"])
        found, _ = planning.searched(asked, tmp_path, exhaustive=True)
        told = planning.codes(found)
        # Each of the runs holds some 10 steps, 0.5 correlation times.
        assert ("few-spells" in told, "heavy-tail" in told) == (spells, not spells)

    @pytest.mark.parametrize("spells", [False, True])
    def test_of_a_sweep(self, tmp_path: Path, spells: bool) -> None:
        swept = sweeping.sweep(sets=[f"cluster.compute={SLOW if spells else HEAVY}"])
        table = sweeping.carried_out(swept, tmp_path)
        codes = [note.code for note in table.report.notes]
        assert ("few-spells" in codes, "heavy-tail" in codes) == (spells, not spells)


def least(share: float, trials: int) -> float:
    """What a binomial share is above in all but one of 1,000 experiments."""
    return share - 3.1 * math.sqrt(share * (1 - share) / trials)


@pytest.mark.slow
class TestCoverage:
    def test_after_stopping_at_a_precision_is_ninety_percent(self) -> None:
        generator, trials, held = np.random.default_rng(5), 2000, 0
        for _ in range(trials):
            drawn = generator.normal(1.0, 0.05, 200).tolist()
            count, _ = replications(drawn, 3, 200, 0.02)
            found = interval(drawn[:count])
            held += found.low <= 1.0 <= found.high
        assert held / trials > least(0.9, trials)

    def test_of_runs_with_spells_enough(self) -> None:
        """One worker's rate in the long run is a step in 0.4 s and 0.1 s by their shares."""
        trials, count, held = 100, 5, 0
        described = of_times(
            in_spells(0.08, 0.12), cluster={"workers": 1}, stop={"global_steps": 500}
        )
        rates = []
        for number in range(trials * count):
            trace = run_one(Run(described, 0, number), record=False)
            rates.append(trace.global_step / trace.end * 1e9)
        for trial in range(trials):
            found = interval(rates[trial * count : (trial + 1) * count])
            held += found.low <= 1 / (0.6 * 0.1 + 0.4 * 0.4) <= found.high
        assert held / trials > least(0.93, trials)
