"""Step times of devices: measured ones first, estimates where there are none, a spread always."""

from typing import Any

import pytest

from tests.building import scenario
from tests.seams import dump_scenario, load_text
from varsim import Scenario

SIGMA = 0.01  # of a healthy GPU
GFLOP = 24_535_105_536  # ResNet-50, forward and backward pass of one example


def on(device: Any, **changes: Any) -> Scenario:
    workload = {"model": "resnet50", "batch_size": 256, **changes.pop("workload", {})}
    cluster = {"compute": None, "device": device, **changes.pop("cluster", {})}
    return scenario({"kind": "on_write"}, cluster=cluster, workload=workload, **changes)


def mean(made: Scenario) -> float:
    return made.cluster.compute_distribution(made.workload).expectation()


class TestMeasured:
    @pytest.mark.parametrize(
        ("device", "batch", "speed"),
        [
            ("a100_sxm_80gb", 256, 938),  # tf32 is its default
            ({"preset": "a100_sxm_80gb", "precision": "fp16"}, 256, 2470),
            ({"preset": "v100_sxm2", "precision": "fp16"}, 256, 1200),
            ("v100_sxm2", 32, 298.51),
            ("v100_sxm2", 48, 48 / ((32 / 298.51 + 64 / 343.19) / 2)),  # halfway from 32 to 64
            ("v100_sxm2", 128, 363.69),
            ("k80", 16, 46.69),
        ],
    )
    def test_a_step_takes_what_somebody_measured(
        self, device: Any, batch: int, speed: float
    ) -> None:
        made = on(device, workload={"batch_size": batch})
        assert mean(made) == pytest.approx(batch / speed, rel=1e-12)
        assert made.cluster.doubt(made.workload) == ""

    def test_beyond_the_batches_it_is_in_proportion_and_far_beyond_a_guess(self) -> None:
        near, far = (on("v100_sxm2", workload={"batch_size": batch}) for batch in (250, 260))
        for made in (near, far):
            assert mean(made) == pytest.approx(made.workload.batch_size / 363.69, rel=1e-12)
        assert near.cluster.doubt(near.workload) == ""
        assert far.cluster.doubt(far.workload) == (
            "resnet50 on v100_sxm2 in fp32 was measured at batch 1 to 128 only, and batch 260 is "
            "taken in proportion (small batches reach less)"
        )

    def test_the_measurement_with_the_nearest_batch_is_taken(self) -> None:
        made = on("v100_sxm2", workload={"model": "bert_large", "batch_size": 8})
        # That of batch 8 (39.43 sequences/s), not the first of the table, of batch 32.
        assert mean(made) == pytest.approx(8 / 39.43, rel=1e-12)

    def test_who_gives_an_efficiency_insists_on_the_estimate(self) -> None:
        made = on({"preset": "a100_sxm_80gb", "efficiency": 0.4})
        assert mean(made) == pytest.approx(256 * GFLOP / (0.4 * 156e12), rel=1e-12)
        assert made.cluster.doubt(made.workload) == ""

    def test_a_matrix_product_is_asked_for_by_name(self) -> None:
        device = {"preset": "a100_sxm_80gb", "precision": "bf16", "measured": True}
        made = on(device)
        assert mean(made) == pytest.approx(256 * GFLOP / (0.4 * 271.2e12), rel=1e-12)
        assert "40 % of the best matrix product;" in made.cluster.doubt(made.workload)


class TestEstimated:
    def test_what_nobody_measured_is_a_guess(self) -> None:
        made = on("h100_sxm")
        assert mean(made) == pytest.approx(256 * GFLOP / (0.4 * 494.5e12), rel=1e-12)
        assert made.cluster.doubt(made.workload) == (
            "the FLOPs of a step at 40 % of the peak, as no measurement of resnet50 on h100_sxm in "
            "tf32 is known; where steps were measured, they took 0.3 to 2.8 times what such an "
            "estimate says"
        )

    @pytest.mark.parametrize(
        "device", [{"peak": 1e13}, {"preset": "a100_sxm_80gb", "precision": "bf16"}]
    )
    def test_so_is_a_peak_and_a_precision_that_nobody_measured(self, device: Any) -> None:
        made = on(device)
        assert made.cluster.doubt(made.workload).startswith(
            "the FLOPs of a step at 40 % of the peak"
        )

    def test_given_compute_times_are_none(self) -> None:
        made = scenario({"kind": "on_write"})
        assert made.cluster.doubt(made.workload) == ""


@pytest.mark.parametrize(
    ("preset", "precision"),
    [("k80", "fp32"), ("v100_sxm2", "fp32"), ("t4", "fp32"), ("a100_pcie_80gb", "tf32"),
     ("h100_sxm", "tf32"), ("b200_sxm", "tf32")],
)  # fmt: skip
def test_the_default_precision_is_that_of_the_frameworks(preset: str, precision: str) -> None:
    for device in (preset, {"preset": preset}):
        assert f"precision: {precision}\n" in dump_scenario(on(device))
    assert "precision: fp32\n" in dump_scenario(on({"preset": preset, "precision": "fp32"}))


class TestSpread:
    def test_a_device_has_one_by_default(self) -> None:
        made = on("a100_sxm_80gb")
        law: Any = made.cluster.compute_distribution(made.workload)
        assert (law.kind, law.mean, law.sigma) == ("lognormal", 256 / 938, SIGMA)
        assert law.varies

    def test_sigma_changes_it_and_keeps_the_mean(self) -> None:
        made = on({"peak": 1e13, "efficiency": 0.5, "sigma": 0.2})
        law: Any = made.cluster.compute_distribution(made.workload)
        assert (law.kind, law.mean, law.sigma) == ("lognormal", 256 * GFLOP / 5e12, 0.2)

    def test_0_is_constant_on_purpose(self) -> None:
        made = on({"peak": 1e13, "efficiency": 0.5, "sigma": 0})
        law: Any = made.cluster.compute_distribution(made.workload)
        assert (law.kind, law.value) == ("constant", 256 * GFLOP / 5e12)
        assert not law.varies


def test_the_scenario_as_it_was_run_says_precision_and_spread_and_runs_the_same() -> None:
    made = on("a100_sxm_80gb")
    text = dump_scenario(made)
    assert "precision: tf32" in text
    assert f"sigma: {SIGMA}" in text
    assert text.count("efficiency") == 1, "the network's; a device's would insist on an estimate"
    again = load_text(text)
    assert isinstance(again, Scenario)
    assert again == made


def test_at_another_speed_only_the_mean_differs() -> None:
    made = on("a100_sxm_80gb")
    half = made.with_distribution_alone(0.5)
    assert half.cluster.device is None
    law: Any = half.cluster.compute_distribution(half.workload)
    assert (law.kind, law.sigma) == ("lognormal", SIGMA)
    assert law.mean == pytest.approx(512 / 938)
    given = scenario({"kind": "on_write"})
    assert given.with_distribution_alone(0.5) is given
