"""How long all runs take on this machine, foreseen by the difference of two short runs."""

import pytest
from building import scenario

from varsim.study import beginning
from varsim.study.beginning import begin, seconds_per_gradient
from varsim.study.effort import seconds_here


def ticking(monkeypatch: pytest.MonkeyPatch, *readings: float) -> None:
    """A machine whose processor time is read off these, then stands still."""
    times = iter(readings)
    monkeypatch.setattr(beginning.time, "process_time", lambda: next(times))


def test_what_is_made_once_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    # 3 workers, 20 iterations: 60 gradients take 7 s, a third of them, in whole updates 21, take 3.
    made = scenario({"kind": "on_write"}, stop={"global_steps": 1000})
    (one,) = begin(made)
    assert one.gradients == 60
    ticking(monkeypatch, 10.0, 13.0, 20.0, 27.0)
    assert seconds_per_gradient(made, one, most=1000) == pytest.approx(4 / 39)
    # Of at most 30 a third are 12 in whole updates.
    ticking(monkeypatch, 0.0, 1.0, 2.0, 5.0)
    assert seconds_per_gradient(made, one, most=30) == pytest.approx(2 / 18)
    assert seconds_per_gradient(made, one, most=6) is None


def test_until_a_loss_is_reached_it_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scenario({"kind": "on_write"}, stop={"global_steps": 1000}, targets={"loss": 0.0001})
    begun = begin(made)
    # With the loss to be looked for 39 gradients take 4 s, without 1; and 3,000 are computed.
    ticking(monkeypatch, 0.0, 3.0, 0.0, 7.0, 0.0, 3.0, 0.0, 4.0)
    assert seconds_here(made, begun) == pytest.approx((3000 / 39, 12000 / 39))
    free = scenario({"kind": "on_write"}, stop={"global_steps": 1000})
    ticking(monkeypatch, 0.0, 3.0, 0.0, 7.0)
    assert seconds_here(free, begun) == pytest.approx((12000 / 39, 12000 / 39))
