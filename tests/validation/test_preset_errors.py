"""Answers from presets alone carry what published jobs were off by."""

from typing import Any

import pytest

from tests.building import scenario
from tests.seams import simulate
from validation.published import presets as measured
from varsim import Scenario
from varsim.core.presets import preset_errors
from varsim.report.products.cautions import presets_alone


def made(kind: str = "on_write", network: dict[str, Any] | None = None, **device: Any) -> Scenario:
    strategy = {"kind": kind}
    return scenario(
        strategy,
        cluster={"workers": 4, "compute": None, "device": {"preset": "p100_sxm2", **device}},
        network=network or {"preset": "25gbe", "latency": 1e-5},
        workload={"batch_size": 64, "model": "vgg16", "optimizer": None},
        problem={"kind": "timing"},
    )


def test_a_run_from_presets_alone_says_what_validation_found() -> None:
    (note,) = (note for note in simulate(made()).report.notes if note.code == "presets")
    errors = ("inception_v3 +6 %", "resnet101 +6 %", "vgg16 +16 %", "resnet50 +8 %")
    assert note.values == {"errors": errors}


def test_what_was_measured_or_is_of_another_kind_says_nothing() -> None:
    assert list(presets_alone(made()))
    other = made(network={"bandwidth": 1e9, "latency": 1e-5})
    for silent in (made("none"), made(efficiency=0.3), other):
        assert not list(presets_alone(silent))


@pytest.mark.slow
def test_rows_of_the_report_are_the_table_of_the_package() -> None:
    found = measured.scalings()
    lines = measured.findings()
    assert measured.TABLE.read_text(encoding="utf-8") == measured.table(found)
    assert [round(one.error or 0.0, 3) for one in lines] == [*preset_errors().values()]
