"""The life of a job among failures: attempts worked out by hand; times in s, a step of 1 s."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import run, scenario
from tests.seams import Attempt
from varsim import Scenario, simulate
from varsim.cluster.course import DrawnSteps, Pace, PaceError, Steps
from varsim.cluster.life import Life, Saving
from varsim.cluster.recovery import Spares
from varsim.cluster.striking import Hosts, Strike, Struck

NS = 10**9
DOWN = {"restart": 3.0}
SAVED = {"every": 10.0, "write": 2.0}


def fails(*gaps: tuple[float, ...], repair: float | None = None) -> dict[str, Any]:
    """Workers that fail after these times, one after the other."""
    found: dict[str, Any] = {"domain": "worker", "law": {"kind": "trace", "seconds": gaps}}
    return found if repair is None else {**found, "repair": repair}


def lived(source: dict[str, Any], workers: int = 1, **changes: Any) -> list[dict[str, float]]:
    """The attempts, without what is 0; times in s."""
    failures = {"horizon": 100.0, "detection": 1.0, "of": (source,), **changes.pop("failures", {})}
    life = run(
        changes.pop("strategy", "on_write"),
        **{
            "cluster": {"workers": workers, "compute": {"kind": "constant", "value": 1.0}},
            "failures": failures,
            "checkpoint": SAVED,
            "recovery": DOWN,
            **changes,
        },
    ).life
    assert life is not None
    assert life[:, 1:7].sum() == failures["horizon"] * NS
    rows = [dict(zip(Attempt._fields, row, strict=True)) for row in life.tolist()]
    times = Attempt._fields[:7]
    return [{k: v / NS if k in times else v for k, v in row.items() if v} for row in rows]


def test_what_was_not_saved_is_lost_and_made_again() -> None:
    # Saved at 12 and 24; of 24-30 the step that would end at 30 has not. Down until 34, then five
    # cycles of 12 s, and 6 s that nothing throws away.
    first, last = lived(fails((30.0, 1000.0)))

    assert first == {
        **{"productive": 20, "checkpoint": 4, "lost": 6, "detection": 1, "restart": 3},
        **{"steps": 20, "steps_lost": 5, "checkpoints": 2, "failures": 1},
    }
    assert last == {"start": 34, "productive": 56, "checkpoint": 10, "steps": 56, "checkpoints": 5}


@pytest.mark.parametrize(
    ("moment", "checkpoints", "lost"),
    [
        (11.0, 0, 11),  # in a write
        (12.0, 0, 12),  # at the instant of its end, which it does not reach
        (12.5, 1, 0.5),
        (10.0, 0, 10),
    ],
)
def test_a_checkpoint_counts_when_it_is_written(
    moment: float, checkpoints: int, lost: float
) -> None:
    first, _ = lived(fails((moment, 1000.0)))

    assert (first.get("checkpoints", 0), first["lost"]) == (checkpoints, lost)


def test_a_failure_while_down_begins_detection_and_restart_anew() -> None:
    # 30 and 32.5, in the restart, 34, in its detection... at 33.5 it is still being detected.
    struck = fails((30.0, 1000.0), (32.5, 1000.0), (33.0, 1000.0))
    first, last = lived(struck, 3)

    # Detection 30-31, restart 31-32.5; detection 32.5-33; detection 33-34, restart 34-37.
    assert (first["detection"], first["restart"]) == (2.5, 4.5)
    assert (first["failures"], last["start"]) == (3, 37)


def test_members_age_only_while_they_can_fail() -> None:
    # 30 s of work and writes in any case; the next 30 s come after the 4 s down, or within them.
    starts = {
        strike: [row.get("start", 0) for row in lived(fails((30.0,)), failures={"strike": strike})]
        for strike in ("always", "while_running", "while_computing")
    }

    assert starts["always"] == [0, 34, 64, 94]
    assert starts["while_running"] == [0, 34, 68]
    # 30 s of work, with two writes between: the third is not begun.
    assert starts["while_computing"] == [0, 38, 76]


def test_of_all_workers_at_one_instant() -> None:
    first, _ = lived(fails((30.0, 1000.0)), 3)

    assert (first["failures"], first["restart"]) == (3, 3)


def test_without_checkpoints_all_is_lost() -> None:
    first, last = lived(fails((30.0, 1000.0)), checkpoint=None)

    assert (first["lost"], "productive" in first) == (30, False)
    assert last["productive"] == 66


def test_an_asynchronous_checkpoint_may_be_one_interval_back() -> None:
    # 10 s of work; snapshot 10-11; write 11-15 beside work at half the pace (2 s of it); 8 s more
    # until 23; snapshot 23-24; write until 28. At 27 the first counts: its 10 s, its snapshot and
    # 2 s of slowness; 14 s are lost: 8 + 2 of work in full, half of 3 s, one snapshot.
    saved = {"mode": "asynchronous", "every": 10.0, "write": 4.0, "snapshot": 1.0, "slowdown": 1.0}
    first, _ = lived(fails((27.0, 1000.0)), checkpoint=saved)

    assert (first["productive"], first["checkpoint"], first["lost"]) == (10, 3, 14)
    # Work: 10, 2, 8, and 1.5 of the write until 27.
    assert (first["steps"], first["steps_lost"]) == (10, 11)


def test_spares_hot_then_cold_then_a_repair() -> None:
    # Three fail at 30, noticed at 31: one hot spare at once, one cold at 41, one repaired at 81.
    spares = {"hot": 1, "cold": 1, "swap": 10.0}
    first, last = lived(fails((30.0, 1000.0), repair=50.0), 3, recovery={**DOWN, "spares": spares})

    assert (first["repair"], first["spares"], last["start"]) == (50, 2, 84)


def test_a_host_that_is_missing_cannot_fail() -> None:
    # Fails at 30, is away until 51, would fail again at 40 and does at 60.
    first, second, _ = lived(fails((30.0, 10.0, 20.0, 1000.0), repair=20.0))

    assert (first["repair"], first["failures"], second["start"]) == (20, 1, 54)
    assert second["lost"] == 6


def test_a_rack_takes_all_its_hosts() -> None:
    network = {"bandwidth": 1e18, "latency": 0.0, "sharing": "first_come", "kind": "racks"}
    source = {**fails((30.0, 1000.0), (1000.0,), repair=5.0), "domain": "rack"}
    first, _ = lived(
        source,
        4,
        network={**network, "hosts_per_rack": 2, "oversubscription": 1.0},
        recovery={**DOWN, "spares": {"hot": 4}},
    )

    assert (first["failures"], first["spares"]) == (1, 2)


def test_recorded_failures_strike_when_they_did() -> None:
    """Beside what fails at random, in whatever order; a link that is down takes its host along."""
    recorded = {"failures": ((60.0, "link", 1), (30.0, "worker", 0)), "repair": 5.0}
    failures = {"of": (), "recorded": recorded}
    first, second, last = lived({}, 2, failures=failures)

    # Noticed at 31, repaired at 36, again at work at 39; then 21 s: 2 s into the second cycle 9 s.
    assert (first["lost"], first["repair"], second["start"]) == (6, 5, 39)
    assert (second["productive"], second["lost"], second["repair"], last["start"]) == (10, 9, 5, 69)
    beside = {
        "of": (fails((30.0, 1000.0), (1000.0,)),),
        "recorded": {"failures": ((60.0, "link", 1),)},
    }
    assert [row.get("start") for row in lived({}, 2, failures=beside)] == [None, 34, 64]


def test_what_is_not_random_is_lived_once() -> None:
    recorded = {"horizon": 100.0, "recorded": {"failures": ((30.0, "worker", 0),)}}
    made = scenario({"kind": "on_write"}, replications=4, failures=recorded)

    assert simulate(made).replications == 1
    at_random = {**recorded, "of": ({"domain": "link", "mtbf": 50.0},)}
    made = scenario({"kind": "on_write"}, replications=4, failures=at_random)
    assert simulate(made).replications == 4


@pytest.mark.parametrize(
    ("moment", "kept", "lost", "steps", "steps_lost"),
    [
        (5.5, 0, 5.5, 0, 3),  # in the second average, without which the fourth step is not over
        (7.0, 0, 7, 0, 4),  # in the write
        (9.5, 6, 1.5, 4, 1),
    ],
)
def test_local_steps_are_saved_when_they_have_been_averaged(
    moment: float, kept: float, lost: float, steps: int, steps_lost: int
) -> None:
    # Two steps of 1 s, and 1 s to average them: 4 s of work are over with the second round, at 6.
    first, _ = lived(
        fails((moment, 1000.0)),
        2,
        strategy={"kind": "local_sgd", "period": 2},
        network={"bandwidth": 100.0, "latency": 0.0, "sharing": "first_come"},
        problem={"kind": "timing", "size": 100.0},
        workload={"optimizer": None},
        stop={"global_steps": 7},
        checkpoint={"every": 4.0, "write": 2.0},
    )

    found = [first.get(name, 0) for name in ("productive", "lost", "steps", "steps_lost")]
    assert found == [kept, lost, steps, steps_lost]


@pytest.mark.parametrize(
    ("mtbf", "strike", "random"), [(300.0, "always", False), (3000.0, "while_computing", True)]
)
def test_the_optimal_interval_is_of_whole_rounds(mtbf: float, strike: str, random: bool) -> None:
    # Rounds of 20 s; the optimum, of single steps, is 24 or 73 s: in whole rounds 1 or 4 of them.
    law: dict[str, Any] = {"kind": "constant", "value": 1.0}
    if random:
        law = {"kind": "trace", "seconds": (tuple([0.5, 1.5] * 10 + [1.0] * 20),)}

    def goodput(every: float | str) -> tuple[float, float]:
        life = run(
            {"kind": "local_sgd", "period": 20},
            cluster={"workers": 1, "compute": law},
            failures={
                "horizon": 2e6,
                "strike": strike,
                "of": ({"domain": "worker", "mtbf": mtbf},),
            },
            checkpoint={"every": every, "write": 1.0},
            recovery={"restart": 5.0},
            stop={"global_steps": 401},
        ).life
        assert life is not None
        kept, saved = life[:, 1].sum(), life[:, Attempt._fields.index("checkpoints")].sum()
        return kept / (2e6 * NS), kept / saved / 20 / NS

    (best, rounds), *others = [goodput(every) for every in ("optimal", 20, 40, 60, 80, 100)]
    assert rounds == pytest.approx(1 if strike == "always" else 4, rel=0.1)
    assert best == max(found for found, _ in others)


def test_a_start_takes_its_time_at_first_and_again() -> None:
    slow = {"workers": 1, "compute": {"kind": "constant", "value": 1.0}}
    first, second, last = lived(
        fails((30.0, 1000.0)), cluster={**slow, "overheads": {"first_iteration": 5.0}}
    )

    assert first == {"restart": 5}
    # 25 s of an attempt: two cycles and 1 s; then 1 + 3 + 5 s down.
    assert (second["lost"], second["restart"], last["start"]) == (1, 8, 39)


LAYERWISE: dict[str, Any] = {
    "strategy": {"kind": "on_write", "bucketing": "layers", "overlap": "forward"},
    "cluster": {"workers": 2, "compute": {"kind": "phases", "forward": 1.0, "backward": 1.0}},
    "network": {"bandwidth": 1000.0, "latency": 0.0, "sharing": "first_come"},
    "problem": {"kind": "timing"},
    "workload": {"layers": ({"backward": 0.5, "size": 400.0},) * 2, "optimizer": None},
}


@pytest.mark.parametrize(("moment", "lost", "steps_lost"), [(16.0, 2, 0), (17.0, 3, 1)])
def test_beside_the_next_forward_pass_a_step_is_over_when_all_is_gathered(
    moment: float, lost: float, steps_lost: int
) -> None:
    # Halves of all-reduces take 0.2 s a layer. Forward 0-1, backward of the last layer 1-1.5, of
    # the first 1.5-2; reduce-scatters until 1.7 and 2.2, all-gathers until 2.4 and 2.6: the end of
    # the step. The next one's forward pass begins at 2.4; it ends at 5, and is saved until 7. From
    # there all is as at the start, with no forward pass that had begun before.
    first, last = lived(
        fails((moment, 1000.0)),
        2,
        **LAYERWISE,
        checkpoint={"every": 4.0, "write": 2.0},
        stop={"global_steps": 8},
    )

    assert (first["productive"], first["checkpoint"], first["lost"]) == (10, 4, lost)
    assert (first["steps"], first.get("steps_lost", 0)) == (4, steps_lost)
    assert last["start"] == moment + 4


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        ("updated in the next forward pass", {"cluster": {"optimizer_time": 0.1}}),
        ("those who are left may have some layers", {"recovery": {"policy": "wait"}}),
    ],
)
def test_layers_of_two_versions_are_no_model(why: str, changes: dict[str, Any]) -> None:
    cluster = {**LAYERWISE["cluster"], **changes.get("cluster", {})}
    with pytest.raises(ValidationError, match=why):
        lived(fails((5.0,)), 2, **{**LAYERWISE, **changes, "cluster": cluster})


def test_the_same_failures_whatever_the_checkpoint() -> None:
    def moments(every: float) -> list[int]:
        source = {"domain": "worker", "mtbf": 20.0}
        rows = lived(source, 2, checkpoint={"every": every, "write": 1.0}, recovery=None)
        return [round(row.get("start", 0) * 1e6) for row in rows]

    assert moments(5.0) == moments(10.0)
    assert len(moments(5.0)) > 5


class TestPace:
    def test_a_rhythm_goes_on(self) -> None:
        pace = Pace.of(np.array([3, 5, 6, 8, 9]))

        # 3, then 2, 1, 2, 1: ends at 11, 12, 14 and so on.
        assert [pace.end_of(step) for step in range(1, 10)] == [3, 5, 6, 8, 9, 11, 12, 14, 15]
        assert [pace.by(time) for time in (0, 2, 3, 9, 10, 11, 15)] == [0, 0, 1, 5, 5, 6, 9]

    def test_a_rhythm_of_rounds_is_not_shorter_than_they_are(self) -> None:
        equal = Pace.of(np.arange(1, 7), 3)

        assert (equal.end_of(8), equal.by(8)) == (8, 8)
        with pytest.raises(PaceError, match="the 5 that were simulated show no rhythm"):
            Pace.of(np.arange(1, 6), 3)

    @pytest.mark.parametrize("steps", [[3], [3, 7], [4, 8, 12, 13, 17]])
    def test_none_that_repeats(self, steps: list[int]) -> None:
        with pytest.raises(PaceError, match="let the run make more updates"):
            Pace.of(np.array(steps))


SAVINGS = (
    Saving(every=30, stops=7),
    Saving(every=30, stops=7, exposed=False),
    Saving(every=25, stops=3, beside=20, slowed=10),
    Saving(every=30, beside=30),
    Saving(),
)


class Once:
    """A failure of the only host after so much time in which it can fail (ns)."""

    def __init__(self, exposure: int) -> None:
        self.hosts, self.time = Hosts(Spares()), exposure

    def until(self, _: float) -> list[Strike]:
        return [Strike(self.time, 0, 0, 0, False, -1)]

    def takes(self, _: Strike) -> set[int]:
        return {0}

    def happen(self, strikes: list[Strike], _: int) -> tuple[Struck, set[int]]:
        return Struck(len(strikes)), {0}


def struck_once(saving: Saving, steps: Steps, each: int, exposure: int, left: int) -> Any:
    never = {"detection": 0, "restart": 0, "read": 0, "start_up": 0, "always": False}
    only: dict[str, Any] = {"number": 1, "fewest": 1, "restarts": True, **never}
    failing: Any = Once(exposure)
    return Life(failing, saving, lambda _: steps, each, horizon=left / NS, **only).attempts()


@pytest.mark.parametrize("saving", SAVINGS)
@pytest.mark.parametrize("round_of", [(10,), (8, 15)])
def test_steps_that_are_all_drawn_alike_are_those_of_a_rhythm(
    saving: Saving, round_of: tuple[int, ...]
) -> None:
    """Cycle by cycle, and all at once: the same to the nanosecond, wherever it is cut."""
    steps = np.tile(round_of, 20)
    rounds = steps.reshape(20, -1)
    for left in (*range(1, 130), 500):
        for exposure in (10**6, *range(0, 140, 1 if left == 500 else 7)):
            one, other = (
                struck_once(saving, made, len(round_of), exposure, left)
                for made in (
                    Pace.of(np.cumsum(steps), len(round_of)),
                    DrawnSteps(rounds, np.random.default_rng),
                )
            )
            assert (one == other).all(), (left, exposure)


def test_random_steps_need_some_to_draw_from() -> None:
    for each, needed in ((1, 20), (3, 60)):
        with pytest.raises(PaceError, match=f"let the run make {needed} updates or more"):
            DrawnSteps(np.full((19, each), 10), np.random.default_rng)


def test_a_scenario_of_days_takes_no_longer() -> None:
    """Billions of steps are as many divisions as there are failures."""
    (only,) = lived(fails((9e8,)), failures={"horizon": 8.64e7})

    assert only["steps"] > 7e7


def test_nothing_new_in_a_dump_without_failures() -> None:
    plain: Scenario = scenario({"kind": "on_write"})
    assert not {"failures", "checkpoint", "recovery"} & set(plain.model_dump(mode="json"))
