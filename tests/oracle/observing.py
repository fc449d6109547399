"""What a run of varsim left behind, in the form of `history`."""

from tests.oracle.history import Doing, Fate, History, Measured, Put, Taken
from tests.seams import HandOver, Outcome, Phase, Run, run_one
from varsim import Scenario


def observed(scenario: Scenario, replication: int) -> History:
    """The first strategy of a scenario, in one replication, as `varsim run` runs it."""
    trace = run_one(Run(scenario, 0, replication))
    assert trace.hand_overs is not None
    tokens = [HandOver(*row) for row in trace.hand_overs.tolist()]
    return History(
        trace.stopped_by,
        trace.end,
        trace.steps.tolist(),
        [Put(row.time, row.step, row.copies) for row in tokens if row.target < 0],
        [Taken(row.time, row.target, row.step) for row in tokens if row.target >= 0],
        [Fate(*row[:9], Outcome(row[9]).name.lower(), row[10]) for row in trace.gradients.tolist()],
        [
            Doing(worker, Phase(phase).name.lower(), start, end, iteration)
            for worker, phase, start, end, iteration in trace.spans.tolist()
        ],
        [Measured(*row[:3]) for row in trace.evaluations],
    )
