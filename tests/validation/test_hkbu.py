"""HKBU's seven methods: what their scenarios say of machines, copies and lines."""

from collections.abc import Mapping

import pytest
from validation.published import ROWS

from varsim.scenario import Scenario
from varsim.validation.published.experiment import step_time
from varsim.validation.published.hkbu import Hkbu
from varsim.validation.published.table import Row

FAMILY = Hkbu()
# A GPU takes 0.5 s, a machine with 4 of them 1 s.
FITTED: Mapping[str, float] = {
    "resnet50 1": 0.5,
    "bert_large 1": 0.5,
    "bus resnet50": 4e9,
    "bus bert_large": 4e9,
    "servers 10gbe": 0.5,
    "servers 100gbib": 1.0,
    "servers 100gbe": 5e8,
    **{
        f"hkbu2020-{model}-{line} {system} 4": 1.0
        for model in ("resnet50", "bert_large")
        for line in ("10gbe", "100gbib", "100gbe")
        for system in ("BSP-PS", "WFBP-PS", "ByteScheduler-PS")
    },
}


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
    return scenario.cluster.law(scenario.workload).expectation()


@pytest.mark.parametrize("system", ["BSP-PS", "WFBP-PS"])
def test_rows_of_100gbe_that_are_of_10gbe_are_predicted_by_it(system: str) -> None:
    on_both = [
        scenario_of(f"bert_large-{line}", system, 16).cluster.network
        for line in ("10gbe", "100gbe")
    ]
    assert on_both[0] == on_both[1]
    assert not FAMILY.is_calibrated_on(row_of("bert_large-100gbe", system, 8))
    assert FAMILY.is_calibrated_on(row_of("bert_large-100gbe", "ByteScheduler-PS", 8))


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
