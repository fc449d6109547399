"""Books of a run at its end."""

import numpy as np

from tests.seams import GradientRow, Outcome
from varsim.cluster.ledger import Ledger
from varsim.cluster.trace import Recorder
from varsim.cluster.worker import Read
from varsim.values.gradient import Gradient


def test_what_arrives_after_a_run_came_to_stand_still_has_not_arrived() -> None:
    """Its last message may outlast the moment since which nobody does anything."""
    ledger = Ledger(Recorder(spans=True), variables=1, batch_size=1)
    for iteration, arrived in enumerate((150, 250)):
        gradient = Gradient(0, iteration, Read((), 0, 0), np.zeros(1), 0, 100)
        gradient.arrived = arrived
        ledger.in_flight[gradient] = None
    assert ledger.close(200) == 0
    rows = [GradientRow(*row) for row in ledger.recorder.gradient_rows().array().tolist()]
    assert [row.arrived for row in rows] == [150, -1]
    assert {row.outcome for row in rows} == {Outcome.PENDING}
