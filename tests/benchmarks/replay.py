"""An eager run in plain numpy, along the schedule that a trace recorded.

No simulator, no laziness, no stacks: for each update the gradients that the trace says were
applied, each worked out by itself from the parameters that the trace says were read, added in
order of arrival. For problems with one variable, where a read sees one version.
"""

from itertools import groupby

import numpy as np

from varsim.cluster.trace import GradientRow, Outcome, Trace
from varsim.scenario.training import Scenario
from varsim.values.gradient import Array
from varsim.values.task import BLOCK


def replay(scenario: Scenario, trace: Trace) -> Array:
    """The final value of the only variable."""
    workload = scenario.workload
    task = workload.problem.task(scenario.seed, trace.replication)
    optimizer = workload.update_rule()
    (value,) = task.initial()
    state = optimizer.init(value)
    versions = [value]
    rows = [GradientRow(*row) for row in trace.gradients.tolist()]
    applied = [row for row in rows if row.outcome == Outcome.APPLIED]
    for step, group in groupby(applied, key=lambda row: row.applied_step):
        assert step == len(versions) - 1, "the trace skips an update"
        together = list(group)
        total = np.zeros(0)
        for index, row in enumerate(together):
            batches = task.batches(row.worker, row.iteration // BLOCK, workload.batch_size)
            batch = batches[row.iteration % BLOCK]
            (stack,) = task.gradients((versions[row.read_step],), batch[None])
            total = stack[0] if index == 0 else total + stack[0]
        mean = total / len(together)
        value, state = optimizer.update(mean, state, value)
        versions.append(value)
    return versions[-1]
