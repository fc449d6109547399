"""How long all runs take on this machine, foreseen by short runs that are timed."""

from itertools import count

import pytest
from building import scenario

from varsim.scenario.loading import load_text
from varsim.study import timing
from varsim.study.beginning import begin
from varsim.study.simulation import simulate
from varsim.study.timing import Foreseen, Pace, pace, seconds_here, timed_effort

LARGE = """\
name: large
replications: 1
cluster:
  workers: 64
  compute: {kind: shifted_exponential, minimum: 100 ms, mean: 120 ms}
  network:
    kind: nodes
    workers_per_node: 4
    bandwidth: 10 Gbit/s
    latency: 1 us
    inside: {bandwidth: 100 Gbit/s, latency: 1 us}
workload: {problem: {kind: timing}, model: resnet50, batch_size: 4}
strategies: [{kind: on_write, collective: hierarchical, ranks_per_group: 4}]
stop: {examples: 1024}
"""
VALUES = "{problem: {kind: digits, model: softmax}, optimizer: {kind: sgd, learning_rate: 0.1}"


def seen(
    monkeypatch: pytest.MonkeyPatch, *paces: Pace, look: float = 0.0, looking: float = 0.0
) -> None:
    """A machine of which this is measured, in turn."""
    found = iter(paces)
    monkeypatch.setattr(timing, "pace", lambda *_: next(found))
    monkeypatch.setattr(timing, "seconds_of_a_look", lambda _: look)
    monkeypatch.setattr(timing, "_seconds_of_looking", lambda _: looking)
    monkeypatch.setattr(timing, "seconds_of_values", lambda _: 0.0)
    monkeypatch.setattr(timing, "_ALONE", 0.0)


def test_runs_are_begun_and_then_take_as_long_as_their_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 3 workers, 1,000 updates, 2 replications; the loss is looked at after every 30 gradients.
    law = {"compute": {"kind": "uniform", "low": 0.1, "high": 0.2}}
    made = scenario({"kind": "on_write"}, cluster=law, stop={"global_steps": 1000}, replications=2)
    seen(monkeypatch, Pace(5.0, 0.2, 0.1), look=7.0)
    found = seconds_here(made, begin(made))
    assert found.least == found.most == pytest.approx(2 * (5 + 3000 * 0.3 + 100 * 7))


def test_until_a_loss_is_reached_it_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scenario({"kind": "on_write"}, stop={"global_steps": 1000}, targets={"loss": 0.0001})
    seen(monkeypatch, Pace(5.0, 0.2, 0.1), looking=0.5)
    found = seconds_here(made, begin(made))
    assert found.least == pytest.approx(5 + 3000 * 0.3)
    assert found.most - found.least == pytest.approx(1000 * 0.5)


def test_what_was_not_seen_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scenario({"kind": "on_write"}, stop={"global_steps": 1000})
    seen(monkeypatch, Pace(0.0, 0.2, 0.0, sure=False))
    assert seconds_here(made, begin(made)) == Foreseen(600.0, 600.0, ("on_write",))


@pytest.mark.parametrize(
    "sets",
    [
        # Of the messages of a step all but the first few hundred meet on network cards.
        (),
        ("strategies=[{kind: none}]", "cluster.parameter_servers=1"),
        ("strategies=[{kind: on_write}]", f"workload={VALUES}, batch_size: 4}}"),
    ],
    ids=["hierarchical", "servers", "values"],
)
def test_it_is_about_what_the_runs_take(sets: tuple[str, ...]) -> None:
    made = load_text(LARGE, sets=sets)
    foreseen = min(seconds_here(made, begin(made)).most for _ in range(3))
    taken = min(timing._timed(lambda: simulate(made)) for _ in range(2))
    assert 1 / 3 < foreseen / taken < 3  # on a machine that does other things, too


def test_a_step_of_which_only_a_part_was_seen_is_foreseen_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = load_text(LARGE)
    (one,) = begin(made, 3_000)
    assert (one.limit is not None, one.updates) == (True, 0)
    monkeypatch.setattr(timing, "_EVENTS", 3_000)
    ticks = count(0.0, 1.0)  # each timed run takes a second, the second one of 3,000 events 2 s
    monkeypatch.setattr(timing, "_timed", lambda call: (call(), next(ticks))[1])
    found = pace(made, one)
    assert found.sure
    # After 1,000 events (1 s) a part of the messages, after 3,000 (2 s) some more, far from all.
    assert found.times * 64 > 2 * 2.0


def test_little_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scenario({"kind": "on_write"}, stop={"global_steps": 10})
    monkeypatch.setattr(timing, "pace", None)
    assert timed_effort(made, lambda found: found.seconds < 120).gradients == 30
