"""The yardsticks simulate what varsim does: runs end at the same time."""

import pytest

from tests.benchmarks.cases import SETTINGS, leaner, one, scenario, textbook

# Where two arrive at one moment, these let another one go on first.
ROUGHLY = {"k_async": 1e-3, "k_batch_sync": 1e-4, "backup_workers": 1e-4}


@pytest.mark.parametrize("kind", SETTINGS)
def test_they_end_when_a_run_does(kind: str) -> None:
    what = scenario(kind, 16, 10, "timing")
    trace = one(what)()
    assert leaner(what)() == pytest.approx(trace.end, rel=ROUGHLY.get(kind, 0.0), abs=0.0)
    if kind in ("sync_replicas", "none", "on_write"):
        assert textbook(what) == trace.end


@pytest.mark.parametrize("kind", SETTINGS)
def test_every_full_run_has_a_scenario(kind: str) -> None:
    assert scenario(kind, 64, 10, "softmax").strategies[0].kind == kind
