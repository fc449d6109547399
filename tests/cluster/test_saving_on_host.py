"""Checkpoints on the disk of the chief's host, which goes to repair; by hand, times in s."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import assert_same, scenario
from tests.cluster.test_interruptions import NEVER, NS, lived
from tests.cluster.test_saving import CHECKPOINT, CHIEF, fail, losses, struck
from varsim.cluster.trace import Phase


def test_a_checkpoint_on_the_chiefs_host_goes_to_repair_with_it() -> None:
    # As where it is remote, but there is nothing to restore: back at 9, and all is as at the start.
    trace = struck("none", {}, failures=CHIEF, checkpoint={**CHECKPOINT, "keep_on": "host"})
    chief, chief_again, other = lived(trace)

    assert (chief["restart"], chief["lost"], chief["checkpoint"]) == (0.5, 5, 0.5)
    assert chief_again == {
        **{"start": 9, "productive": 2.75, "checkpoint": 0.25, "steps": 2, "checkpoints": 1},
    }
    # Eight of the other one's gradients are undone, and four of the chief's; that of 9 is not.
    assert other == {"productive": 4, "lost": 8, "steps": 4, "steps_lost": 8}
    found = losses(trace)
    assert (9.0, 0, found[0][2]) in found


def test_with_its_host_the_chief_takes_what_servers_wait_for() -> None:
    # The server failed at 5.5, and all are to go on from 4.25; but the chief's host, with what was
    # saved then, goes at 5.75: from the start, without a restore, when it is there, at 9.25.
    server = {"domain": "server", "law": {"kind": "trace", "seconds": ((5.5, NEVER),)}}
    chief = {"kind": "trace", "seconds": ((5.75, NEVER), (NEVER,) * 2)}
    trace = struck(
        "none",
        {},
        failures={
            "detection": 1.0,
            "of": (
                {"domain": "worker", "law": chief, "repair": 2.0},
                {**server, "repair": 0.5},
            ),
        },
        checkpoint={**CHECKPOINT, "keep_on": "host"},
    )
    first, chief_again, other, other_again = lived(trace)

    assert (chief_again["start"], other_again["start"]) == (9.25, 9.25)
    assert (first["lost"], first["checkpoint"], first.get("productive", 0)) == (5, 0.5, 0)
    assert (other["lost"], other.get("productive", 0)) == (5.5, 0)
    found = losses(trace)
    assert (9.25, 0, found[0][2]) in found


def test_a_disk_of_the_host_is_not_reached_over_its_link() -> None:
    # 4 bytes: over a link of 8 bytes/s half a second, to a disk of 16 bytes/s a quarter.
    alone = {"workers": 1, "compute": {"kind": "constant", "value": 1.0}}
    times = []
    for keep_on in ("remote", "host"):
        trace = struck(
            "none",
            fail((NEVER, NEVER)),
            cluster=alone,
            workload={"bytes_per_parameter": 4},
            problem={"kind": "quadratic", "dimension": 1},
            network={"bandwidth": 8.0, "latency": 0.0, "sharing": "fair"},
            checkpoint={"every": 2.0, "storage": 16.0, "keep_on": keep_on},
        )
        writes = trace.spans[trace.spans[:, 1] == Phase.WRITE]
        times.append(sorted(set((writes[:, 3] - writes[:, 2]).tolist())))

    assert times == [[0.5 * NS], [0.25 * NS, 0.5 * NS]]  # gradients take half a second, too


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"failures": {"of": (fail((5.5, NEVER)),)}}, "keep_on: host has no effect: no failure"),
        (
            {"failures": {"of": ({"domain": "worker", "mtbf": 9.0},)}},
            "keep_on: host has no effect: no failure sends the host of worker 0",
        ),
        (
            {"failures": {"horizon": 1e3, "of": ({"domain": "worker", "mtbf": 9.0},)}},
            "keep_on: host needs failures that strike inside the run",
        ),
        (
            {"checkpoint": {"every": "optimal", "write": 0.1, "keep_on": "host"}},
            "optimal is known of checkpoints that outlive every failure",
        ),
    ],
)
def test_where_a_checkpoint_cannot_be_on_the_host(changes: dict[str, Any], said: str) -> None:
    kind = "on_write" if "horizon" in changes.get("failures", {}) else "none"
    checkpoint = {**CHECKPOINT, "keep_on": "host"}
    with pytest.raises(ValidationError, match=said):
        scenario({"kind": kind}, **{"failures": CHIEF, "checkpoint": checkpoint, **changes})


def test_where_a_checkpoint_is_kept_is_not_written_by_default() -> None:
    kept = [
        scenario({"kind": "none"}, failures=CHIEF, checkpoint={**CHECKPOINT, **more}).model_dump()
        for more in ({}, {"keep_on": "remote"}, {"keep_on": "host"})
    ]

    assert kept[0] == kept[1]
    assert "keep_on" not in kept[0]["checkpoint"]
    assert kept[2]["checkpoint"]["keep_on"] == "host"


def test_on_a_host_that_is_back_at_once_it_is_kept() -> None:
    law = {"kind": "trace", "seconds": ((5.5, NEVER), (6.0, NEVER))}
    of = ({"domain": "worker", "law": law}, {**fail((NEVER, NEVER)), "domain": "worker"})
    kept, remote = (
        struck("none", {}, failures={"detection": 1.0, "of": of}, checkpoint=checkpoint)
        for checkpoint in ({**CHECKPOINT, "keep_on": "host"}, CHECKPOINT)
    )

    assert_same(kept, remote)


@pytest.mark.parametrize("key", ["write", "storage"])
@pytest.mark.parametrize(
    ("kind", "domain"), [("on_write", "worker"), ("none", "server"), ("local_sgd", "worker")]
)
def test_a_write_longer_than_its_interval_is_refused_inside_a_run(
    kind: str, domain: str, key: str
) -> None:
    """40 bytes of parameters at 5 B/s: 8 s and the latency, as without `storage`."""
    copies = {} if kind == "none" else {"on_death": "continue_with_fewer"}
    strategy = {"kind": kind, **copies, **({"period": 2} if kind == "local_sgd" else {})}
    case: dict[str, Any] = {
        "network": {"bandwidth": 1e4, "latency": 1e-3},
        "problem": {"kind": "quadratic", "dimension": 10},
        "failures": {"of": ({"domain": domain, "mtbf": 50.0, "repair": 2.0},)},
        "stop": {"time": 20.0},
    }
    taken = {"write": 8.0, "storage": 5.0}[key]
    said = r"every is shorter than a write \(8(\.001)? s\): the next checkpoint would be due"
    with pytest.raises(ValidationError, match=said):
        scenario(strategy, **case, checkpoint={"every": 7.9, key: taken})
    scenario(strategy, **case, checkpoint={"every": 8.1, key: taken})


def test_on_a_disk_of_the_host_a_write_is_not_as_long_as_over_its_link() -> None:
    """40 bytes take 8 s over a link of 5 B/s, and 1 s to a disk of 40 B/s."""
    case: dict[str, Any] = {
        "network": {"bandwidth": 5.0, "latency": 0.0},
        "problem": {"kind": "quadratic", "dimension": 10},
        "failures": {"of": ({"domain": "worker", "mtbf": 50.0, "repair": 2.0},)},
        "stop": {"time": 20.0},
    }
    strategy = {"kind": "on_write", "on_death": "continue_with_fewer"}
    saved = {"every": 2.0, "storage": 40.0}
    with pytest.raises(ValidationError, match="every is shorter than a write"):
        scenario(strategy, **case, checkpoint=saved)
    scenario(strategy, **case, checkpoint={**saved, "keep_on": "host"})
    with pytest.raises(ValidationError, match="every is shorter than a write"):
        scenario(strategy, **case, checkpoint={**saved, "every": 0.9, "keep_on": "host"})
