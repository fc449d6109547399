"""The textbook's backup workers: by hand, against formulas, and against the draws themselves."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import (
    APPLIED,
    DROPPED,
    PENDING,
    Model,
    computed_until,
    gradient_rows,
    mean,
    run,
    scenario,
)
from tests.seams import Run, load_scenario, run_one, simulate, stream
from tests.statistical import assert_mean, harmonic, step_times


def backups(needed: int) -> dict[str, Any]:
    return {"kind": "backup_workers", "replicas_to_aggregate": needed}


class TestByHand:
    def test_more_needed_than_there_are_is_refused(self) -> None:
        with pytest.raises(ValidationError, match="replicas_to_aggregate 4 is more than there are"):
            scenario(backups(4))


class TestTheory:
    @pytest.mark.parametrize(("workers", "needed"), [(4, 1), (4, 3), (10, 8), (10, 10), (16, 12)])
    def test_a_step_lasts_for_the_nth_of_all_exponential_times(
        self, workers: int, needed: int
    ) -> None:
        # The mean of the n-th smallest of w exponential times: mean x (H_w - H_{w-n}). All begin
        # anew together, so steps are independent.
        law = {"kind": "exponential", "mean": 0.1}
        trace = run(
            backups(needed),
            cluster={"workers": workers, "compute": law},
            stop={"global_steps": 3000},
        )
        assert_mean(step_times(trace), 0.1 * (harmonic(workers) - harmonic(workers - needed)))

    @pytest.mark.parametrize("law", [{"kind": "pareto", "minimum": 0.05, "alpha": 2.5},
                                     {"kind": "lognormal", "mean": 0.1, "sigma": 0.6}])  # fmt: skip
    def test_it_is_the_nth_of_the_very_draws(self, law: dict[str, Any]) -> None:
        # Whoever is called off takes the next draw, as does everybody else.
        workers, needed, steps = 7, 5, 100
        made = scenario(
            backups(needed),
            cluster={"workers": workers, "compute": law},
            stop={"global_steps": steps},
        )
        drawn = []
        for rank in range(workers):
            blocks = made.cluster.compute_distribution(made.workload).blocks(
                rank, lambda block, rank=rank: stream(made.seed, 0, "compute", rank, block)
            )
            times: list[int] = []
            while len(times) < steps:
                times += np.rint(next(blocks) * 1e9).astype(np.int64).tolist()
            drawn.append(times[:steps])
        nth = np.sort(np.array(drawn), axis=0)[needed - 1]

        assert run_one(Run(made, 0, 0)).steps.tolist() == np.cumsum(nth).tolist()

    def test_of_all_workers_it_is_the_barrier(self) -> None:
        law = {"kind": "exponential", "mean": 0.1}
        settings: dict[str, Any] = {
            "cluster": {"workers": 5, "compute": law},
            "problem": {"noise": 1.0},
            "stop": {"global_steps": 50},
        }
        all_of_them = run(backups(5), **settings)
        mirrored = run("on_write", **settings)

        assert all_of_them.steps.tolist() == mirrored.steps.tolist()
        assert (all_of_them.gradients[:, 9] != DROPPED).all()
        # The mean is taken in the order of arrival here, by rank there.
        losses = [[row.loss for row in trace.evaluations] for trace in (all_of_them, mirrored)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-9)

    def test_what_is_wasted_is_what_the_abandoned_computed(self) -> None:
        # Exponential, N of W: when the step is over, each of the W - N others has computed for the
        # whole step.
        trace = run(
            backups(6),
            cluster={"workers": 8, "compute": {"kind": "exponential", "mean": 0.1}},
            stop={"global_steps": 400},
        )
        dropped = [row for row in gradient_rows(trace) if row.outcome == DROPPED]
        assert len(dropped) in (2 * 399, 2 * 400)
        wasted = sum(computed_until(row) - row.compute_start for row in dropped)
        assert wasted == sum(2 * step for step in np.diff(trace.steps, prepend=0).tolist())


def test_the_scenario_says_what_comes_out() -> None:
    # scenarios/tokens_or_textbook.yaml: 50 ms + 50 ms (H_16 - H_{16-N}), and at least 100 ms.
    path = Path(__file__).parents[2] / "scenarios" / "tokens_or_textbook.yaml"
    result = simulate(load_scenario(path, ["replications=2"]))
    mean_step = {
        name: 1 / result.estimate(name, "updates_per_s").mean for name in result.strategies
    }
    for needed, said in ((14, 0.144), (12, 0.115), (8, 0.083)):
        expected = 0.05 + 0.05 * (harmonic(16) - harmonic(16 - needed))
        assert expected == pytest.approx(said, abs=0.001)
        assert mean_step[f"textbook, N = {needed}"] == pytest.approx(expected, rel=0.03)
        assert mean_step[f"tokens, N = {needed}"] > mean_step[f"textbook, N = {needed}"]
        assert mean_step[f"tokens, N = {needed}"] > 0.1
    assert mean_step["no backup"] == pytest.approx(0.219, rel=0.03)
    assert mean_step["textbook, N = 8"] < 0.1


def test_the_values_are_those_of_the_means_of_the_first() -> None:
    made = scenario(
        backups(2),
        cluster={"workers": 4, "compute": {"kind": "exponential", "mean": 0.1}},
        problem={"kind": "linear_regression", "features": 5},
        optimizer={"kind": "momentum", "learning_rate": 0.05},
        stop={"global_steps": 20},
    )
    trace = run_one(Run(made, 0, 0))
    model = Model(made)
    values = model.start
    used = [row for row in gradient_rows(trace) if row.outcome == APPLIED]
    for step in range(20):
        pair = sorted(used[2 * step : 2 * step + 2], key=lambda row: row.arrived)
        parts = [model.gradient(values, row.worker, row.iteration) for row in pair]
        values = model.step(values, [mean(part) for part in zip(*parts, strict=True)])

    assert trace.evaluations[-1].loss == model.loss(values)
    assert all(row.read_step == row.applied_step for row in used)
    assert all(row.outcome in (APPLIED, DROPPED, PENDING) for row in gradient_rows(trace))
