"""HKBU's seven methods: what their scenarios say of machines, copies and lines."""

from dataclasses import replace

import pytest

from tests.validation.published import ROWS
from validation.published.experiment import Calibrated, step_time
from validation.published.hkbu import Hkbu
from validation.published.table import Row
from varsim import Scenario

FAMILY = Hkbu()
# A GPU takes 0.5 s, a machine with 4 of them 1 s.
LINES = ("10 Gbit/s TCP", "100 Gbit/s RDMA", "100 Gbit/s TCP")
FITTED = Calibrated(
    {
        "resnet50 with batch 64": 0.5,
        "bert_large with batch 8": 0.5,
        "bus": 4e9,
        "servers of 10 Gbit/s TCP": 0.5,
        "servers of 100 Gbit/s RDMA": 1.0,
        "servers of 100 Gbit/s TCP": 0.04,
        **{
            f"{model} by {system} on {line}": 1.0
            for model in ("resnet50", "bert_large")
            for line in LINES
            for system in ("BSP-PS", "WFBP-PS", "ByteScheduler-PS")
        },
    }
)


def row_of(experiment: str, system: str, gpus: int) -> Row:
    (one,) = [
        row
        for row in ROWS
        if (row.experiment, row.system, row.workers) == (f"hkbu2020-{experiment}", system, gpus)
    ]
    return one


def scenario_of(experiment: str, system: str, gpus: int) -> Scenario:
    return FAMILY.scenario(row_of(experiment, system, gpus), FITTED)


def alone_of(scenario: Scenario) -> float:
    """Seconds of a machine by itself."""
    return scenario.cluster.compute_distribution(scenario.workload).expectation()


def test_a_connection_bounds_what_few_servers_get() -> None:
    # On 8 and 32 GPUs a machine has two and eight connections, of 0.5 GB/s each.
    few, many = (scenario_of("bert_large-100gbe", "ByteScheduler-PS", gpus) for gpus in (8, 32))
    size = 4 * 336_226_108
    assert step_time(few) > size / 5e8 / 2
    assert size / 5e8 / 8 < alone_of(many)
    assert alone_of(many) < step_time(many) < 1.1 * alone_of(many)


def test_copies_lengthen_what_the_backward_pass_does_not_hide() -> None:
    # Half of the gradients at the rate of the bus, as all ways together go in and out at once.
    for model, size in (("resnet50", 4 * 25_557_032), ("bert_large", 4 * 336_226_108)):
        after_all = scenario_of(f"{model}-100gbib", "BSP-PS", 8)
        assert alone_of(after_all) == pytest.approx(1.0 + size / 4e9 / 2)
    # ResNet-50: sums and copies take 51 ms of a backward pass of 333 ms.
    assert alone_of(scenario_of("resnet50-100gbib", "WFBP-PS", 8)) == pytest.approx(1.0)
    # BERT: 504 ms of sums are there anyway, 168 ms come on top of them.
    size = 4 * 336_226_108
    assert alone_of(scenario_of("bert_large-100gbib", "WFBP-PS", 8)) == pytest.approx(
        1.0 + size / 4e9 / 2
    )


def test_what_tells_is_the_smallest_and_the_largest_that_is_there() -> None:
    rows = [row for row in ROWS if row.experiment.startswith("hkbu2020-") and row.workers > 1]

    def told(rows: list[Row]) -> set[tuple[str, str, int]]:
        used = FAMILY.told_by([row for row in rows if not FAMILY.is_given(row)])
        return {(row.model, row.system, row.workers) for row in used if "10gbe" in row.experiment}

    assert ("resnet50", "WFBP-A2A", 8) in told(rows)
    left = [row for row in rows if row.workers < 32 and (row.model, row.workers) != ("resnet50", 8)]
    assert {("resnet50", "WFBP-A2A", 16), ("bert_large", "BSP-A2A", 16)} <= told(left)
    middle = [replace(row, model="bert_base") for row in rows if row.model == "bert_large"]
    assert not {one for one in told([*rows, *middle]) if one[:2] == ("bert_base", "WFBP-A2A")}


def test_a_schedule_is_told_by_the_models_own_row_and_else_by_those_of_others() -> None:
    (row,) = [
        row
        for row in ROWS
        if (row.experiment, row.system, row.workers)
        == ("hkbu2020-resnet50-10gbe", "ByteScheduler-A2A", 4)
    ]
    known = Calibrated({**FITTED, "hop": 1e-6, "pace": 1.0, "scheduling": 1e-3})
    own = Calibrated({**known, "scheduling of resnet50": 2e-3})
    by_others, by_itself = (step_time(FAMILY.scenario(row, fitted)) for fitted in (known, own))
    assert by_itself - by_others == pytest.approx(161 * 1e-3, rel=0.01)
