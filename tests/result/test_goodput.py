"""Goodput of a result: its parts, its intervals, its words, its files, and sweeps over it."""

from typing import Any

import numpy as np
import pytest

from tests.building import DAY, HOUR, MORTAL, scenario
from tests.reports import noted
from tests.seams import Number, Result, simulate, why

DOWN = ("life_detection", "life_repair", "life_restart")
PARTS = ("goodput", "life_checkpoint", "life_lost", *DOWN)
OF_LIVES = {*PARTS, "availability", "kept_examples_per_s", "failures_per_day", "interruptions"}
OF_LIVES |= {"cost_per_interruption", "steps_discarded", "spares_used", "life_time_to_target"}


@pytest.fixture(scope="module")
def result() -> Result:
    return simulate(scenario({"kind": "on_write"}, **MORTAL))


def test_the_parts_are_the_whole(result: Result) -> None:
    parts = np.array([result.values("on_write", name) for name in PARTS])
    down = np.array([result.values("on_write", name) for name in DOWN])

    assert parts.sum(axis=0) == pytest.approx(1.0, abs=1e-12)
    assert result.values("on_write", "availability") == pytest.approx(1 - down.sum(axis=0))
    assert set(result.summary["metric"]) >= set(OF_LIVES)


def test_every_replication_has_failures_of_its_own(result: Result) -> None:
    found = result.estimate("on_write", "goodput")

    assert len(set(result.values("on_write", "goodput"))) == 3
    assert 0 < found.half_width < 0.1
    # What is not about failures is the same in all.
    assert result.estimate("on_write", "examples_per_s").half_width == 0


def test_goodput_is_what_is_kept_of_the_examples(result: Result) -> None:
    goodput, kept = (result.values("on_write", n) for n in ("goodput", "kept_examples_per_s"))
    each = result.values("on_write", "examples_per_s")

    # Up to the last step, of 0.1 s.
    assert kept == pytest.approx(np.array(goodput) * each, rel=1e-6)


def test_it_is_told(result: Result) -> None:
    (row,) = result.table().to_dict("records")
    of_life = {"goodput", "examples/s kept", "checkpoints", "lost work", "recovery"}
    assert of_life | {"interruptions", "cost per interruption"} <= set(row)
    assert [note.code for note in result.report.headline] == ["alone", "goodput"]
    assert set(result.report.headline[1].values) == {"kept", "checkpoint", "lost", "down"}
    (failing,) = noted(result.scenario, "failing")
    assert failing.values == {"domain": "worker", "every": Number(3 * DAY, unit="days")}


def test_the_optimal_interval_is_told() -> None:
    """Daly's first order is sqrt(2 C M) = 3,219 s, C 60 s and M a day: here a bit less."""
    saved = {**MORTAL, "checkpoint": {"every": "optimal", "write": 60.0}}
    (note,) = noted(scenario({"kind": "on_write"}, **saved), "optimal-interval")
    assert note.values == {"best": "53 min"}


def test_nothing_is_told_where_nothing_fails() -> None:
    plain = simulate(scenario({"kind": "on_write"}))

    assert not set(plain.summary["metric"]) & set(OF_LIVES)
    assert "goodput" not in plain.table()


def test_two_strategies_meet_the_same_failures() -> None:
    pair = (
        {"kind": "on_write"},
        {"kind": "on_write", "name": "halves", "collective": "halving_doubling"},
    )
    both = simulate(scenario({"kind": "on_write"}, **MORTAL, strategies=pair))

    assert both.values("on_write", "interruptions") == both.values("halves", "interruptions")


def test_random_steps_are_drawn_from_those_that_were_simulated() -> None:
    """Against a walk through steps that were all simulated: goodput agrees within its error."""
    compute = {"kind": "exponential", "mean": 10.0}
    source = {"domain": "worker", "mtbf": DAY}
    failures = {**MORTAL["failures"], "of": (source,)}
    mortal = {**MORTAL, "failures": failures, "recovery": {"restart": 180.0}}
    cluster = {"workers": 4, "compute": compute}
    job = scenario(
        {"kind": "on_write"},
        **{**mortal, "replications": 8, "cluster": cluster, "stop": {"global_steps": 400}},
    )
    lived = simulate(job)
    found = lived.estimate("on_write", "goodput")
    assert "approximate-goodput" in [note.code for note in lived.report.notes]

    long = scenario({"kind": "on_write"}, cluster=cluster, stop={"global_steps": 8_000}, seed=5)
    steps = np.diff(simulate(long).traces[0].steps, prepend=0) / 1e9
    draw = np.random.default_rng(1)
    shares = [_walked(steps, draw) for _ in range(25)]
    error = np.std(shares, ddof=1) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - found.mean) < 3 * np.hypot(error, found.half_width / 2.36)
    assert error < 0.01


def _walked(steps: Any, draw: np.random.Generator) -> float:
    """Goodput over 10 days of a job of four workers, step by step."""
    now = kept = since = 0.0
    fails = draw.exponential(DAY / 4)
    at = int(draw.integers(len(steps)))
    while now < 10 * DAY:
        at = (at + 1) % len(steps)
        lasts = steps[at] + (60.0 if since + steps[at] >= 1800 else 0.0)
        if now + lasts > fails:
            now, since = fails + 210.0, 0.0
            while (fails := fails + draw.exponential(DAY / 4)) < now:
                now = fails + 210.0
            continue
        now, since = now + lasts, since + steps[at]
        if since >= 1800:
            kept, since = kept + since, 0.0
    return kept / now


@pytest.mark.parametrize("policy", ["wait", "continue_with_fewer"])
def test_random_steps_of_those_who_are_left_are_drawn_from_theirs(policy: str) -> None:
    """Against a walk whose every step is drawn, of two days: they agree within their error.

    Eight hosts, each away for an hour every 12 h; a step is the longest of as many exponential
    times of 10 s as there are hosts.
    """
    source = {"domain": "worker", "mtbf": 12 * HOUR, "repair": HOUR}
    job = scenario(
        {"kind": "on_write"},
        replications=16,
        cluster={"workers": 8, "compute": {"kind": "exponential", "mean": 10.0}},
        failures={"horizon": 2 * DAY, "detection": 30.0, "of": (source,)},
        recovery={"policy": policy, "restart": 180.0},
        stop={"global_steps": 400},
    )
    result = simulate(job)
    found = result.estimate("on_write", "goodput")
    assert "approximate-goodput" in [note.code for note in result.report.notes]

    draw = np.random.default_rng(2)
    shares = [_regrouped(8 if policy == "wait" else 1, draw) for _ in range(30)]
    error = np.std(shares, ddof=1) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - found.mean) < 3 * np.hypot(error, found.half_width / 2.13)
    assert error < 0.02
    assert found.half_width < 0.05


def _regrouped(fewest: int, draw: np.random.Generator) -> float:
    """What eight hosts keep of two days if so many must be there, step by step."""
    now = kept = 0.0
    fails, back = draw.exponential(12 * HOUR, size=8), np.zeros(8)

    def strike() -> float:
        host, at = int(fails.argmin()), float(fails.min())
        back[host] = at + 30.0 + HOUR
        fails[host] = back[host] + draw.exponential(12 * HOUR)
        return at

    def works(begun: float, detection: float) -> float:
        ready = max(begun + detection, np.sort(back)[fewest - 1])
        return works(strike(), 30.0) if fails.min() < ready + 180.0 else ready + 180.0

    while now < 2 * DAY:
        there = back <= now
        lasts = draw.exponential(10.0, size=int(there.sum())).max()
        if fails.min() < now + lasts:
            now = works(strike(), 30.0)
            continue
        now += lasts
        kept += lasts * there.sum() / 8
        if there.sum() < (back <= now).sum():
            now = works(now, 0.0)
    return kept / now


@pytest.mark.parametrize(("goodput", "met"), [("80 %", True), (0.999, False)])
def test_goodput_may_be_a_target(goodput: Any, met: bool) -> None:
    result = simulate(scenario({"kind": "on_write"}, **MORTAL, targets={"goodput": goodput}))

    (one,) = result.judgements
    assert (one.met, one.missed) == (met, not met)
    assert result.report.headline[-1].code == "target"


def test_no_goodput_where_nothing_fails() -> None:
    with pytest.raises(ValueError, match=r"targets\.goodput needs failures"):
        scenario({"kind": "on_write"}, targets={"goodput": 0.9})


def test_spares_are_paid_and_only_what_is_kept_counts() -> None:
    paid = {**MORTAL, "prices": {"device_hour": 2.0}}
    without = {**paid, "recovery": {"restart": 180.0}}
    costs = {}
    for spares, case in ((1, paid), (0, without)):
        result = simulate(scenario({"kind": "on_write"}, **case))
        found = {row["cost"]: row["mean"] for row in result.report.facts()["costs"]}
        kept = result.estimate("on_write", "kept_examples_per_s").mean
        costs[spares] = found["cost_per_hour"]
        million = found["cost_per_million_examples"]
        assert million == pytest.approx(costs[spares] * 1e6 / 3600 / kept, rel=1e-3)
    assert costs == {1: 8.0, 0: 6.0}


def test_explain_says_what_would_leave_more_of_the_time() -> None:
    job = scenario({"kind": "on_write"}, **MORTAL, stop={"global_steps": 12})
    found = why(job)
    (account,) = found.accounts
    base, *changes = account.helps

    assert base.goodput.mean == simulate(job).estimate("on_write", "goodput").mean
    assert {one.key for one in changes} == {
        *("interval", "write", "asynchronous", "detection", "restart", "policy", "spare")
    }
    by_key = {one.key: one.gain.mean for one in changes}
    assert by_key["asynchronous"] > by_key["write"] > 0
    best = max(changes, key=lambda one: one.gain.mean)
    assert best.key == "asynchronous"
    (column,) = (one for one in found.report.table.columns if one.key == "among_failures")
    assert str(column.cells[0]).startswith(f"{best.title} +")


def _offered(strategy: dict[str, Any], **changes: Any) -> dict[str, float]:
    job = scenario(strategy, **{**MORTAL, "stop": {"global_steps": 12}, **changes})
    return {one.key: one.gain.mean for account in why(job).accounts for one in account.helps}


def test_explain_tries_writes_beside_the_work_at_the_optimal_interval_too() -> None:
    saved = {"every": "optimal", "write": 60.0}
    gains = _offered({"kind": "on_write"}, checkpoint=saved)

    assert "interval" not in gains
    assert gains["asynchronous"] > gains["write"] > 0


def test_where_no_interval_is_known_to_be_best_explain_tries_others() -> None:
    law = {"kind": "weibull", "shape": 0.7, "mean": 3 * DAY}
    failures = {**MORTAL["failures"], "of": ({"domain": "worker", "distribution": law},)}
    gains = _offered(
        {"kind": "on_write"}, failures=failures, recovery=None, checkpoint=MORTAL["checkpoint"]
    )

    assert gains["interval"] < 0 < gains["rarer"]


def test_a_checkpoint_that_is_never_read_back_is_not_offered_otherwise() -> None:
    both = {"strategies": ({"kind": "easgd"}, {"kind": "none"})}
    failures = {"of": ({"domain": "worker", "mtbf": 5.0},)}
    job = scenario(
        {"kind": "easgd"},
        **both,
        failures=failures,
        checkpoint={"every": 1.0, "write": 0.1},
        stop={"time": 9.0},
    )
    easgd, other = ({one.key for one in each.helps} for each in why(job).accounts)

    assert not {"interval", "rarer", "asynchronous"} & easgd
    assert {"interval", "rarer", "asynchronous"} <= other


def test_what_does_not_help_is_not_offered() -> None:
    """Saved at the end of a round only: of whole rounds the interval is the optimal one already."""
    outer = {"kind": "diloco", "inner_steps": 100}
    source = {"domain": "worker", "mtbf": 3 * DAY}
    changes = {
        **MORTAL,
        "cluster": {"workers": 3, "compute": {"kind": "constant", "value": 30.0}},
        "failures": {**MORTAL["failures"], "horizon": 60 * DAY, "of": (source,)},
        "recovery": {"restart": 180.0},
        "stop": {"global_steps": 201},
    }
    found = why(scenario(outer, **changes))
    (account,) = found.accounts
    (interval,) = (one for one in account.helps if one.key == "interval")
    assert interval.gain.mean == 0

    assert not any(interval.title in line for line in repr(found).splitlines())


def test_a_loss_is_reached_later_where_hosts_fail() -> None:
    """Steps of 0.1 s: update 15 is due at 1.5 s, but for what happens before."""
    law = {"kind": "trace", "seconds": ((1.0, 100.0),)}
    changes: dict[str, Any] = {"stop": {"global_steps": 20}, "targets": {"loss": 0.05}}
    failures = {
        "horizon": 10.0,
        "detection": 0.5,
        "of": ({"domain": "worker", "distribution": law},),
    }
    checkpoint = {"every": 0.4, "write": 0.05}
    result = simulate(
        scenario({"kind": "on_write"}, failures=failures, checkpoint=checkpoint, **changes)
    )
    (which,) = result.values("on_write", "updates_to_target")
    (undisturbed,) = result.values("on_write", "time_to_target")
    (later,) = result.values("on_write", "life_time_to_target")

    # Checkpoints at 0.45 and 0.9; down from 1.0 to 1.5; then four steps, a checkpoint, three steps.
    assert (which, undisturbed) == (15, pytest.approx(1.5))
    assert later == pytest.approx(1.5 + 0.4 + 0.05 + 0.3)
    assert "among failures, to loss 0.05" in result.table()


def test_the_steps_of_a_life_are_enough_once_they_repeat() -> None:
    """Four steps of 2 s: their rates are those of any number of them."""
    few = scenario({"kind": "on_write"}, **MORTAL, stop={"global_steps": 4})
    assert "short-run" not in [note.code for note in simulate(few).report.notes]
    few = few.model_copy(update={"failures": None, "checkpoint": None, "recovery": None})
    assert "short-run" in [note.code for note in simulate(few).report.notes]


INSIDE: dict[str, Any] = {
    "replications": 3,
    "failures": {
        "detection": 0.5,
        "of": (
            {"domain": "worker", "mtbf": 20.0, "repair": 2.0},
            {"domain": "server", "mtbf": 40.0, "repair": 1.0},
        ),
    },
    "checkpoint": {"every": 2.0, "write": 0.1},
    "recovery": {"restart": 0.5},
    "stop": {"time": 40.0},
}


@pytest.fixture(scope="module")
def inside() -> Result:
    return simulate(scenario({"kind": "none"}, **INSIDE))


def test_failures_inside_a_run_are_told(inside: Result) -> None:
    assert "goodput" in inside.table()
    meant = {name: metric.description for name, metric in inside.metrics.items()}
    for name in ("updates", "gradients_applied", "gradients_dropped", "wasted_compute"):
        assert "undone" in meant[name]
    assert set(inside.attempts["worker"]) == {0, 1, 2}
    assert inside.attempts.iloc[:, 3:9].sum().sum() == pytest.approx(3 * 3 * 40.0)


def test_explain_runs_again_among_the_same_failures(inside: Result) -> None:
    (account,) = why(inside.scenario).accounts
    base, *changes = account.helps

    assert base.goodput.mean == pytest.approx(inside.estimate("none", "goodput").mean)
    gains = {one.key: one.gain.mean for one in changes}
    assert set(gains) == {*("interval", "rarer", "asynchronous", "detection", "restart", "spare")}
    assert gains["detection"] > 0


def test_what_helps_inside_a_run_is_data_too(inside: Result) -> None:
    data = why(inside.scenario).report.facts()
    rows = data["strategies"][0]["among_failures"]

    assert [row["change"] for row in rows] == [
        *("", "interval", "rarer", "asynchronous", "detection", "restart", "spare")
    ]
    assert rows[0]["goodput"]["mean"] == pytest.approx(inside.estimate("none", "goodput").mean)
