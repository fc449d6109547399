"""What is said where the changes that `on` makes for one strategy do not fit."""

import pytest

from tests.scenario_text import VALID, problems

LINE = 1 + VALID.splitlines().index("  - {kind: on_write}")
NODES = "kind: nodes, workers_per_node: 4, inside: {preset: nvlink_3}, preset: 100gbe"
CASES = {
    "more servers than machines": (
        "none",
        "{servers_on: workers, parameter_servers: 9}",
        "parameter_servers",
        "strategies[0].on.parameter_servers 9: servers_on workers puts one on each machine of "
        "workers, and there are 8",
    ),
    "more servers than nodes": (
        "none",
        f"{{servers_on: workers, parameter_servers: 3, network: {{{NODES}, latency: 1 us}}}}",
        "parameter_servers",
        "strategies[0].on.parameter_servers 3: servers_on workers puts one on each machine of "
        "workers, and there are 2",
    ),
    "parts of tensors that are cut anyway": (
        "none",
        "{partitioner: {kind: fixed, shards: 2}}",
        "partitioner",
        "strategies[0].on.partitioner has no effect: placement partitioned cuts every tensor over "
        "all servers; choose round_robin or by_bytes",
    ),
    "a rank that no worker has": (
        "none",
        "{network: {bandwidth: 1 Gbit/s, latency: 1 us, slow_links: [{rank: 8, factor: 2}]}}",
        "on",
        "strategies[0].on: rank 8 does not exist: ranks go from 0 to 7 (workers: 8)",
    ),
    "servers of a strategy without": (
        "on_write",
        "{servers_on: workers}",
        "servers_on",
        "strategies[0].on.servers_on has no effect: the strategy uses no parameter servers; on can "
        "change its network",
    ),
    "links to servers of a strategy without": (
        "on_write",
        "{network: {bandwidth: 1 Gbit/s, latency: 1 us, server_bandwidth: 2 Gbit/s}}",
        "server_bandwidth",
        "strategies[0].on.network.server_bandwidth has no effect: the strategy uses no parameter "
        "servers; on can change its network",
    ),
}


@pytest.mark.parametrize(("kind", "change", "at", "message"), CASES.values(), ids=CASES.keys())
def test_one_line_says_what_and_where(kind: str, change: str, at: str, message: str) -> None:
    line = f"  - {{kind: {kind}, name: changed, on: {change}}}"
    (found,) = problems(VALID.replace("  - {kind: on_write}", line))
    assert found == (LINE, found[1], message)
    assert line[found[1] - 1 :].startswith(at)
