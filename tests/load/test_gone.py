"""What scenarios could once say is refused in a line that says what to write instead."""

import pytest

import varsim as package
from tests.extending import SCENARIO

NONE = "STRATEGY", "{kind: none}"
# What is changed in a scenario, and what is said then.
OWN = "write nodes, star or full_mesh, or a network of your own (varsim.register)"
GONE: dict[str, tuple[list[tuple[str, str]], str]] = {
    "store and forward": (
        [NONE, ("latency: 50 us", "latency: 50 us, forwarding: store_and_forward")],
        "cluster.network: 'forwarding' is gone: leave it out, a message occupies all links on its "
        "route at once",
    ),
    "levels": (
        [("STRATEGY", "{kind: local_sgd, period: 2, levels: [[2, 2]]}")],
        "strategies[0]: 'levels' is gone: write period: all copies are averaged together",
    ),
    "a checkpoint on a host": (
        [NONE, ("stop:", "checkpoint: {every: 1 s, write: 0 s, keep_on: host}\nstop:")],
        "checkpoint: 'keep_on' is gone: leave it out: a checkpoint is kept where no failure "
        "reaches it",
    ),
    "preemption": (
        [
            (
                "STRATEGY",
                "{kind: on_write, drop_compute: {threshold: 1 s, check: preempt}}",
            )
        ],
        "strategies[0].drop_compute: 'check' is gone: leave it out: a worker looks at the clock "
        "between micro-batches",
    ),
    "leaders": (
        [("STRATEGY", "{kind: on_write, collective: hierarchical_leader, ranks_per_group: 2}")],
        "strategies[0]: 'collective: hierarchical_leader' is gone: write hierarchical, or a "
        "collective of your own (varsim.register)",
    ),
    "turns": (
        [("STRATEGY", "{kind: easgd, mode: round_robin}")],
        "strategies[0]: 'mode' is gone: leave it out: workers exchange when they come to it",
    ),
    "targets by other names than their metrics": (
        [NONE, ("stop:", "targets: {time_to_loss: 2 s, loss: 1}\nstop:")],
        "targets: 'time_to_loss' is gone: write time_to_target, as the metric is called",
    ),
    "a ring": (
        [NONE, ("kind: star", "kind: ring")],
        f"cluster.network: 'kind: ring' is gone: {OWN}",
    ),
    "NVLinks": (
        [NONE, ("kind: star", "kind: hybrid_mesh, joined: dgx1_v100")],
        f"cluster.network: 'kind: hybrid_mesh' is gone: {OWN}",
    ),
}


@pytest.mark.parametrize("case", GONE)
def test_it_is_said_what_to_write_instead(case: str) -> None:
    changes, said = GONE[case]
    text = SCENARIO
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(package.ScenarioError) as refused:
        package.load(text)
    (problem,) = refused.value.problems
    assert problem.message == said
