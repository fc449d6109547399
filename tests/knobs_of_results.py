"""Pairs of scenarios that differ in one field that only the result shows, not a single trace."""

from tests.knob_cases import MIRRORED, SERVED, Case, two
from tests.knobs_of_lives import MORTAL

# Two strategies of which one is half as fast again.
TWO_OF_THEM: Case = {
    **MIRRORED,
    "strategies": ({"kind": "on_write"}, {"kind": "backup_workers", "replicas_to_aggregate": 2}),
    "replications": 2,
}

RANDOM: Case = {
    **MIRRORED,
    "cluster": {
        **MIRRORED.get("cluster", {}),
        "compute": {"kind": "uniform", "low": 0.08, "high": 0.12},
    },
}

IN_THE_RESULT: dict[str, tuple[Case, Case]] = {
    "Scenario.replications": two(RANDOM, replications=(1, 2)),
    "Scenario.targets": two(MIRRORED, targets=({}, {"loss": 0.2})),
    "Targets.loss": two(MIRRORED, targets=({"loss": 0.2}, {"loss": 0.25})),
    "Targets.throughput": two(MIRRORED, targets=({"throughput": 1.0}, {"throughput": 1e6})),
    "Targets.staleness_p99": two(MIRRORED, targets=({}, {"staleness_p99": 0.0})),
    "Targets.wasted": two(MIRRORED, targets=({}, {"wasted": 0.0})),
    "Targets.step_time_p99": two(
        MIRRORED, targets=({"step_time_p99": 0.01}, {"step_time_p99": 10.0})
    ),
    "Targets.time_to_loss": two(
        MIRRORED, targets=({"loss": 0.2}, {"loss": 0.2, "time_to_loss": 1.0})
    ),
    "Targets.goodput": two(MORTAL, targets=({"goodput": 0.01}, {"goodput": 1.0})),
    "Scenario.report": two(TWO_OF_THEM, report=({}, {"equal_within": 0.9})),
    "Reporting.measure_after": two(TWO_OF_THEM, report=({}, {"measure_after": 0.25})),
    "Reporting.equal_within": two(
        TWO_OF_THEM, report=({"equal_within": 0.1}, {"equal_within": 0.9})
    ),
    "Scenario.prices": two(SERVED, prices=(None, {"device_hour": 1.0})),
    "Prices.device_hour": two(SERVED, prices=({"device_hour": 1.0}, {"device_hour": 2.0})),
    "Prices.server_hour": two(SERVED, prices=({"server_hour": 1.0}, {"server_hour": 2.0})),
    "Prices.gigabyte": two(SERVED, prices=({"gigabyte": 1.0}, {"gigabyte": 2.0})),
    "Prices.currency": two(
        SERVED,
        prices=({"device_hour": 1.0}, {"device_hour": 1.0, "currency": "EUR"}),
    ),
}

# And only what is said of it.
IN_THE_NOTES: dict[str, tuple[Case, Case]] = {
    "Scenario.memory": two(MIRRORED, memory=({}, {"device": 1e9})),
    "MemoryLimits.device": two(MIRRORED, memory=({"device": 1e9}, {"device": 1.0})),
    "MemoryLimits.server": two(SERVED, memory=({"server": 1e9}, {"server": 1.0})),
    "MemoryLimits.activations": two(
        MIRRORED, memory=({"device": 1e9}, {"device": 1e9, "activations": 1e8})
    ),
}
