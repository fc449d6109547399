"""How long faults last, and whom they strike: ends that were recorded, lemons, mistakes, stages."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import run, scenario
from tests.cluster.test_life import NS, fails, lived
from tests.seams import Attempt, dump_scenario, load_text
from varsim.cluster.failing import FailureSource, RecordedFailures
from varsim.cluster.recovery import RandomFailures, Spares
from varsim.cluster.striking import Strike, Strikes
from varsim.report.words.failures import described

DAY = 86_400.0
SOURCE: dict[str, Any] = {"domain": "worker", "mtbf": 100.0, "repair": 5.0}
STEPS: dict[str, Any] = {"compute": {"kind": "constant", "value": 1.0}}


def read(text: str, folder: Path, **given: Any) -> RecordedFailures:
    (folder / "faults.csv").write_text(text)
    data = {"file": "faults.csv", **given}
    return RecordedFailures.model_validate(data, context={"folder": folder})


def strikes(workers: int = 3, **source: Any) -> Strikes:
    failures = RandomFailures.model_validate({"of": ({**SOURCE, **source},)})
    cluster = scenario({"kind": "on_write"}, cluster={"workers": workers}).cluster
    return Strikes(failures, Spares(), cluster, workers, seed=1, replication=0)


def test_a_recorded_fault_is_over_when_it_was() -> None:
    """Detection 1 s, restart 3 s, a checkpoint of 2 s after 10 s of work."""
    recorded = {
        "failures": (
            (30.0, "worker", 0, 50.0),
            (60.0, "worker", 1, 60.5),  # over before it is noticed
            (70.0, "worker", 0, None),  # not back
        )
    }
    first, second, last = lived({}, 2, failures={"of": (), "recorded": recorded})

    # Saved at 24; away 30-50, at work again at 53, and after the second fault at 64.
    assert (first["lost"], first["detection"], first["repair"]) == (6, 1, 19)
    assert (second["start"], second["lost"], second.get("repair", 0)) == (53, 7, 0)
    assert (last["start"], last["lost"], last["detection"], last["repair"]) == (64, 6, 1, 29)


def test_a_spare_takes_over_until_a_recorded_fault_is_over() -> None:
    recorded = {
        "failures": (
            (10.0, "worker", 0, 40.0),
            (20.0, "worker", 1, 95.0),  # waits until the first is back, at 40
        )
    }
    kept = lived(
        {},
        2,
        failures={"of": (), "recorded": recorded},
        recovery={"restart": 3.0, "spares": {"hot": 1}},
    )

    assert [row.get("start", 0) for row in kept] == [0, 14, 43]
    assert [row.get("repair", 0) for row in kept] == [0, 19, 0]


def test_recorded_faults_have_ends_inside_a_run() -> None:
    recorded = {"failures": ((10.0, "worker", 0, 25.0), (12.0, "worker", 1, 14.5))}
    trace = run(
        "none",
        cluster={"workers": 3, **STEPS},
        failures={"detection": 1.0, "recorded": recorded},
        recovery={"restart": 2.0},
        stop={"time": 50.0},
    )
    assert trace.life is not None
    rows = [dict(zip(Attempt._fields, row, strict=False)) for row in trace.life.tolist()]
    down = [(one["detection"] / NS, one["repair"] / NS) for one in rows if one["detection"]]

    assert sorted(down) == [(1.0, 1.5), (1.0, 14.0)]


STEPFUN = "node,start_day,end_day,level,class,description\n"


def test_a_table_of_servers_and_days_is_read_as_it_is(tmp_path: Path) -> None:
    lines = '0,1.5,2.25,Hardware,GPU,"DBE, too many"\n3,2,,Network,NIC,down\n'
    found = read(STEPFUN + lines, tmp_path)

    assert found.failures == (
        (1.5 * DAY, "worker", 0, 2.25 * DAY),
        (2 * DAY, "worker", 3, None),
    )
    assert RecordedFailures.model_validate_json(found.model_dump_json()) == found
    assert read(STEPFUN + lines, tmp_path, domain="node").domains == ("node",)
    later = read(STEPFUN + lines, tmp_path, since=1.75 * DAY)
    assert later.played == ((0.25 * DAY, "worker", 3, np.inf),)


def test_a_fault_that_is_not_over_is_written_as_it_is_read() -> None:
    recorded = {"failures": ((10.0, "worker", 0, 40.0), (20.0, "worker", 1, None))}
    made = scenario({"kind": "on_write"}, failures={"horizon": 100.0, "recorded": recorded})

    assert load_text(dump_scenario(made)) == made


def test_seconds_may_have_ends_too(tmp_path: Path) -> None:
    found = read("seconds,domain,member,until\n30,rack,1,50\n40,worker,0,\n", tmp_path)

    assert found.failures == ((30.0, "rack", 1, 50.0), (40.0, "worker", 0, None))


@pytest.mark.parametrize(
    ("text", "given", "why"),
    [
        ("node,day\n1,2\n", {}, "line 1: the header must be seconds,domain,member (and until"),
        (STEPFUN + "0,2,1,a,b,c\n", {}, "line 2: it ended at 86400 s, and began at 172800 s"),
        (STEPFUN + "0,2,3,a,b,c\n", {"repair": 5.0}, "repair has no effect: each failure says"),
        (STEPFUN + "0,2,3,a,b,c\n", {"since": 2 * DAY}, "since: no failure comes after 48"),
        ("seconds,domain,member\n1,rack,0\n", {"domain": "worker"}, "domain has no effect"),
    ],
)
def test_what_a_record_cannot_mean_is_refused(
    text: str, given: dict[str, Any], why: str, tmp_path: Path
) -> None:
    with pytest.raises(ValidationError, match=re.escape(why)):
        read(text, tmp_path, **given)


def test_ends_are_of_all_failures_or_of_none() -> None:
    mixed = {"failures": ((1.0, "worker", 0), (2.0, "worker", 0, 3.0))}
    with pytest.raises(ValidationError, match="either each has an end"):
        RecordedFailures.model_validate(mixed)
    with pytest.raises(ValidationError, match="domain has no effect: each of failures"):
        RecordedFailures.model_validate({"failures": ((1.0, "rack", 0),), "domain": "rack"})


def test_availability_is_what_renewal_theory_says() -> None:
    """Mean 20 s, median 10 s of repair after 100 s on average: away for 20 of 120 s."""
    repair = {"kind": "lognormal", "mean": 20.0, "median": 10.0}
    horizon = 3e6
    life = run(
        "on_write",
        cluster={"workers": 1, **STEPS},
        failures={"horizon": horizon, "of": ({**SOURCE, "repair": repair},)},
    ).life
    assert life is not None

    away = life[:, Attempt._fields.index("repair")].sum() / NS / horizon
    # Some 25,000 repairs, each sqrt(3) of their mean apart: within four standard errors.
    assert away == pytest.approx(20 / 120, rel=0.05)


def test_two_stages_of_repair_take_their_mean() -> None:
    """A restart of 2 s that is enough in 3 of 4 cases, else 40 s more: 12 s on average."""
    stages = {"kind": "stages", "works": 0.75}
    stages |= {"first": {"kind": "constant", "value": 2.0}}
    stages |= {"second": {"kind": "constant", "value": 40.0}}
    horizon = 1e6
    life = run(
        "on_write",
        cluster={"workers": 1, **STEPS},
        failures={"horizon": horizon, "of": ({**SOURCE, "repair": stages},)},
    ).life
    assert life is not None
    repairs = life[:, Attempt._fields.index("repair")]
    repairs = repairs[repairs > 0] / NS

    assert set(repairs[:-1].tolist()) == {2.0, 42.0}
    assert repairs.sum() / horizon == pytest.approx(12 / 112, rel=0.06)


def test_lemons_fail_so_many_times_as_often_and_others_as_before() -> None:
    number, horizon = 4000, 1000.0
    plain = strikes(number).until(horizon)
    mixed = strikes(number, lemons={"share": 0.1, "times": 5.0}).until(horizon)
    more = strikes(number, lemons={"share": 0.2, "times": 5.0}).until(horizon)

    def of(found: list[Strike]) -> list[list[int]]:
        times: list[list[int]] = [[] for _ in range(number)]
        for one in found:
            times[one.member].append(one.time)
        return times

    before, after, later = map(of, (plain, mixed, more))
    changed = [one for one in range(number) if before[one] != after[one]]
    further = [one for one in range(number) if before[one] != later[one]]
    assert len(changed) == pytest.approx(0.1 * number, abs=4 * np.sqrt(0.09 * number))
    assert set(changed) < set(further)
    for member in changed[:20]:  # at the same draws
        scaled = [time * 5 for time in after[member][: len(before[member])]]
        assert np.allclose(scaled, before[member], rtol=0, atol=100)  # ns
    # For 10 mean times; the mixture of 4,000 members is 1.4 times as often.
    source = FailureSource.model_validate({**SOURCE, "lemons": {"share": 0.1, "times": 5.0}})
    assert source.rate == pytest.approx(1.4 / 100.0)
    assert len(mixed) == pytest.approx(10 * (number + 4 * len(changed)), rel=0.02)


def test_a_fault_that_is_mistaken_stays() -> None:
    """Worker 0 fails at 30, worker 1 is taken away for it; and so again and again, 20 s later."""
    source = {**fails((30.0, 1000.0), (1000.0,), repair=5.0)}
    source["mistaken"] = {"share": 0.999, "again": 20.0}
    kept = lived(source, 2)

    assert [row.get("start", 0) for row in kept] == [0, 39, 59, 79, 99]
    assert [row.get("lost", 0) for row in kept[:2]] == [6, 11]
    assert [row.get("repair", 0) for row in kept] == [5, 5, 5, 5, 0]
    spared = lived(source, 2, recovery={"restart": 3.0, "spares": {"hot": 1}})
    assert [row.get("start", 0) for row in spared] == [0, 34, 54, 74, 94]


def test_a_fault_strikes_until_it_is_found() -> None:
    source = {"mistaken": {"share": 0.5, "again": 1.0}}
    found = strikes(50, **source).until(20_000.0)

    # 50 workers, 200 mean times; each failure strikes 1 / (1 - 0.5) times.
    assert FailureSource.model_validate({**SOURCE, **source}).rate == pytest.approx(2 / 100.0)
    assert len(found) == pytest.approx(20_000, rel=0.04)
    assert sum(one.taken != one.member for one in found) == pytest.approx(10_000, rel=0.04)
    # The same failures as without, and the same for any horizon.
    plain = [(one.time, one.member) for one in strikes(50).until(20_000.0)]
    assert [(one.time, one.member) for one in found if not one.again] == plain
    assert strikes(50, **source).until(500.0) == [one for one in found if one.time <= 500 * NS]


def test_who_is_repaired_by_mistake_is_without_a_fault_and_who_is_not_has_it() -> None:
    made = strikes(mistaken={"share": 0.5, "again": 20.0})
    first = Strike(30 * NS, 0, 0, 1, again=False, until=-1)
    second, third = (Strike(at * NS, 0, 0, 0, again=True, until=-1) for at in (50, 70))

    assert made.is_over(second)  # nothing has happened yet
    struck, hit = made.happen([first], 30 * NS)
    assert (struck.failures, struck.away, hit) == (1, {1}, {0, 1})
    assert made.takes(second) == {0}
    struck, hit = made.happen([second], 50 * NS)
    assert (struck.failures, struck.away, hit) == (1, {0}, {0})
    assert made.is_over(third)
    assert made.happen([third], 70 * NS)[0].failures == 0


def test_inside_a_run_the_wrong_worker_is_away() -> None:
    source = {**fails((10.0, 1000.0), (1000.0,), (1000.0,), repair=4.0)}
    source["mistaken"] = {"share": 0.999, "again": 500.0}
    trace = run(
        "none",
        cluster={"workers": 3, **STEPS},
        failures={"of": (source,)},
        stop={"time": 30.0},
    )
    assert trace.life is not None
    away = trace.life[:, Attempt._fields.index("repair")] / NS

    assert away.sum() == 4.0
    assert "another worker is taken away, and the fault strikes again" in "\n".join(
        described(scenario({"kind": "none"}, failures={"of": (source,)}, cluster={"workers": 3}))
    )


@pytest.mark.parametrize(
    ("source", "workers", "why"),
    [
        ({"repair": None}, 3, "mistaken has no effect without repair"),
        ({}, 1, "there is no other worker that could be taken for it"),
    ],
)
def test_what_cannot_be_mistaken_is_refused(source: dict[str, Any], workers: int, why: str) -> None:
    of = {**SOURCE, **source, "mistaken": {"share": 0.5, "again": 20.0}}
    with pytest.raises(ValidationError, match=why):
        scenario(
            {"kind": "on_write"},
            cluster={"workers": workers},
            failures={"horizon": 100.0, "of": (of,)},
        )
