"""A scenario held against recorded runs that it was not made from.

Of a run its prediction takes what the recording states: how many ranks, what they send, which of
them are slow, and for how many steps. How long anything takes is the scenario's. Beside it stands
the same with the compute times that were recorded: what is left of the error then is of
communication.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from varsim.calibration.recorded.comparison import (
    Totals,
    error,
    measured_totals,
    predicted_totals,
)
from varsim.calibration.recorded.runs import (
    Run,
    RunFileError,
    compute_tables,
    computes,
    description,
    first_fault,
)
from varsim.scenario.training import Scenario
from varsim.study import simulation
from varsim.study.verdict import Estimate, interval

_ALIKE = 0.01  # of the bytes: a model's own, beside those that were recorded
_SHORTEST = 1e-9  # s; times of a trace are above 0


class Forecast(NamedTuple):
    """A run as it was recorded and as a scenario predicts it, one Totals for each replication.

    `predicted` is empty where the run is of another workload, whose compute times the scenario does
    not know. `replayed`: predicted with the compute times that were recorded.
    """

    run: str
    kind: str
    ranks: int
    planned_updates: int
    measured: Totals
    predicted: tuple[Totals, ...]
    replayed: Totals

    def estimate(self, key: str) -> Estimate:
        """A number of the prediction, over its replications."""
        return interval([getattr(one, key) for one in self.predicted])

    @property
    def off(self) -> float:
        """Relative error of the total time; of the replayed one where there is no other."""
        found = self.estimate("total").mean if self.predicted else self.replayed.total
        return error(found, self.measured.total)


def forecasts(scenario: Scenario, runs: Sequence[Run]) -> list[Forecast]:
    """Predict each run in which anything is computed.

    Raises RunFileError where the scenario cannot be that of a run.
    """
    return [_forecast(scenario, run) for run in runs if computes(run)]


def worst(found: Sequence[Forecast]) -> Forecast:
    """The one whose total time is farthest off, of those of the scenario's workload if any are."""
    return max(of_its_workload(found), key=lambda one: abs(one.off))


def of_its_workload(found: Sequence[Forecast]) -> Sequence[Forecast]:
    """Those that the scenario predicts alone; where there is none, all."""
    return [one for one in found if one.predicted] or found


def _forecast(scenario: Scenario, run: Run) -> Forecast:
    told = description(run)
    (settings,) = told["strategies"]
    kinds = [one.kind for one in scenario.strategies]
    if kinds != [settings["kind"]]:
        raise RunFileError(
            f"run {run.id} is of {settings['kind']}, and the scenario of {', '.join(kinds)}: it "
            "needs just this one"
        )
    whole: dict[str, Any] = scenario.model_dump(exclude_unset=True)
    (own,) = whole["strategies"]
    whole |= {
        "strategies": (own | settings,),
        "events": told["events"],
        "stop": told["stop"],
    }
    ranks = told["cluster"]["workers"]
    slow = (one.model_dump() for one in scenario.cluster.slow_workers if one.rank < ranks)
    cluster = whole["cluster"] | {"slow_workers": tuple(slow)} | told["cluster"]
    size = told["workload"]["problem"]["size"]
    known = abs(size / scenario.workload.gradient_size() - 1) <= _ALIKE
    predicted = _made(run, {**whole, "cluster": cluster}) if known else ()
    times = tuple(tuple(max(time, _SHORTEST) for time in row) for row in compute_tables(run))
    cluster = {key: value for key, value in cluster.items() if key not in ("device", "compute")}
    cluster |= {"compute": {"kind": "trace", "seconds": times}, "slow_workers": ()}
    replay = {**whole, "cluster": cluster, "workload": told["workload"], "replications": 1}
    (replayed,) = _made(run, replay)
    seen = measured_totals(run)
    return Forecast(run.id, run.kind, ranks, run.steps, seen, predicted, replayed)


def _made(run: Run, content: dict[str, Any]) -> tuple[Totals, ...]:
    """Run a scenario given as plain data: the totals of each replication."""
    try:
        scenario = Scenario.model_validate(content)
    except ValidationError as error:
        raise RunFileError(f"run {run.id} is none of the scenario: {first_fault(error)}") from None
    return tuple(
        predicted_totals(run, simulation.run_one(simulation.Run(scenario, 0, number), record=False))
        for number in range(scenario.replications)
    )
