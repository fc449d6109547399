"""Parameter servers that differ in one setting, which must matter."""

from tests.knob_cases import CUT, FAST, SERVED, SLOW, Case, two

OF_SERVERS: dict[str, tuple[Case, ...]] = {
    "Cluster.partitioner": two(CUT, cluster__partitioner=(None, {"kind": "fixed", "shards": 2})),
    "FixedShards.shards": two(
        CUT,
        cluster__partitioner=({"kind": "fixed", "shards": 2}, {"kind": "fixed", "shards": 3}),
    ),
    "MinSize.size": two(
        CUT,
        cluster__partitioner=(
            {"kind": "min_size", "size": 10.0, "max_shards": 9},
            {"kind": "min_size", "size": 20.0, "max_shards": 9},
        ),
    ),
    "MinSize.max_shards": two(
        CUT,
        cluster__partitioner=(
            {"kind": "min_size", "size": 1.0, "max_shards": 2},
            {"kind": "min_size", "size": 1.0, "max_shards": 3},
        ),
    ),
    "MaxSize.size": two(
        CUT,
        cluster__partitioner=(
            {"kind": "max_size", "size": 20.0},
            {"kind": "max_size", "size": 10.0},
        ),
    ),
    "MaxSize.max_shards": two(
        CUT,
        cluster__partitioner=(
            {"kind": "max_size", "size": 10.0},
            {"kind": "max_size", "size": 10.0, "max_shards": 2},
        ),
    ),
    "Cluster.server_update": two(SERVED, cluster__server_update=(None, {"rate": 1e4})),
    "ServerUpdate.time": two(SERVED, cluster__server_update__time=(FAST, SLOW)),
    "ServerUpdate.rate": two(SERVED, cluster__server_update__rate=(1e2, 2e2)),
    "ServerUpdate.threads": two(
        SERVED,
        cluster__server_update=({"time": FAST}, {"time": FAST, "threads": 2}),
    ),
    "ClusterChange.partitioner": two(
        CUT,
        strategy=(
            {"kind": "none", "on": {"partitioner": {"kind": "fixed", "shards": 2}}},
            {"kind": "none", "on": {"partitioner": {"kind": "fixed", "shards": 3}}},
        ),
    ),
}  # fmt: skip
