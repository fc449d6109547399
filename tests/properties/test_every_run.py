"""What holds of any run of any scenario."""

from collections import Counter

from hypothesis import given

from tests.building import assert_same
from tests.properties.checking import problems
from tests.properties.drawing import drawn, scenarios
from tests.properties.settings import examples
from tests.seams import STRATEGIES, Phase, Run, dump_scenario, load_text, run_one
from varsim import Scenario


@examples(150)
@given(scenarios())
def test_all_that_is_counted_adds_up(scenario: Scenario) -> None:
    for number in range(len(scenario.strategies)):
        for replication in range(scenario.replications):
            trace = run_one(Run(scenario, number, replication))
            assert list(problems(scenario, number, trace)) == []


@examples(60)
@given(scenarios())
def test_a_run_is_a_function_of_its_scenario(scenario: Scenario) -> None:
    assert_same(run_one(Run(scenario, 0, 0)), run_one(Run(scenario, 0, 0)))


@examples(60)
@given(scenarios())
def test_a_scenario_that_is_written_and_read_is_equal(scenario: Scenario) -> None:
    assert load_text(dump_scenario(scenario)) == scenario


def features(scenario: Scenario) -> set[str]:
    """What a scenario has."""
    found = {f"problem {scenario.workload.problem.kind}"}
    found |= {f"at {next(iter(event.model_fields_set - {'at'}))}" for event in scenario.events}
    found |= {f"stop {key}" for key in scenario.stop.model_fields_set}
    if scenario.workload.optimizer is not None:
        found.add(f"optimizer {scenario.workload.optimizer.kind}")
    found |= {f"workload.{key}" for key in scenario.workload.model_fields_set}
    for strategy in scenario.strategies:
        cluster = scenario.cluster_of(strategy)
        network = cluster.network
        assert cluster.compute is not None
        found |= {f"law {cluster.compute.kind}", f"placement {cluster.placement}"}
        found |= {f"servers_on {cluster.servers_on}"}
        found |= {f"{network.kind} {network.sharing} {strategy.kind}"}
        found.add(f"{network.kind} {network.sharing}")
        found |= {f"cluster.{key}" for key in cluster.model_fields_set}
        found |= {f"network.{key}" for key in network.model_fields_set}
        found |= {f"{strategy.kind}.{key}" for key in strategy.model_fields_set}
        found.add(f"collective {getattr(strategy, 'collective', None)}")
    return found


def test_everything_is_drawn() -> None:
    met = Counter(feature for seed in range(4_000) for feature in features(drawn(seed)))
    kinds = ("star", "full_mesh", "racks", "nodes")
    training = [kind for kind in STRATEGIES if kind != "single"]
    wanted = [
        *(
            f"{kind} {sharing} {strategy}"
            for kind in kinds
            for sharing in ("fair", "first_come")
            for strategy in training
        ),
        "cluster.overlap_pace",
        *(f"collective {name}" for name in ("ring", "push_pull", "hierarchical", "binomial_tree")),
        *("at kill", "at restart", "at stop", "stop time", "stop examples", "stop global_steps"),
        *("servers_on workers", "placement round_robin", "placement by_bytes"),
        *(f"cluster.{key}" for key in ("server_update", "overheads", "partitioner")),
        *(f"cluster.{key}" for key in ("slow_workers", "optimizer_time", "backward_share")),
        *("network.flows", "network.message_overhead", "network.slow_links"),
        *("network.efficiency", "network.server_bandwidth", "network.protocols"),
        *("workload.gradient_precision", "workload.round_gradients", "workload.layers"),
        *(f"{kind}.overlap" for kind in ("on_write", "none", "sync_replicas", "backup_workers")),
        *("on_write.bucketing", "on_write.bucket_size", "none.use_locking", "on_read.write_back"),
        *("problem timing", "problem digits", "problem embedding", "law markov", "law trace"),
    ]
    assert [feature for feature in wanted if not met[feature]] == []


def test_everything_happens() -> None:
    met = Counter[str]()
    for seed in range(240):
        trace = run_one(Run(drawn(seed), 0, 0))
        met.update({trace.stopped_by} | {Phase(phase).name for phase in trace.spans[:, 1]})
        met.update(f"outcome {outcome}" for outcome in set(trace.gradients[:, 9].tolist()))
    wanted = [*(phase.name for phase in Phase), "deadlock", "time", "global_steps", "examples"]
    wanted += [f"outcome {outcome}" for outcome in (0, 1, 3, 4)]
    assert [what for what in wanted if not met[what]] == []
