"""The families of closed forms, by name: how each is measured, or why it is not."""

from collections.abc import Callable
from typing import Final, TypeAlias

from validation.points import (
    collectives,
    descent,
    goodput,
    order_statistics,
    overlap,
    servers,
    staleness,
)
from validation.points.estimate import Measured

# Called with the parameters of a point, by name.
Measure: TypeAlias = Callable[..., Measured]

FAMILIES: Final[dict[str, Measure]] = {
    "os-exp": order_statistics.exponential,
    "os-shiftexp": order_statistics.shifted_exponential,
    "os-pareto": order_statistics.pareto,
    "os-weibull": order_statistics.weibull,
    "os-uniform": order_statistics.uniform,
    "os-gumbel-max": order_statistics.gumbel,
    "os-normal": order_statistics.normal,
    "os-lognormal": order_statistics.lognormal,
    "os-twopoint": order_statistics.two_point,
    "os-exp-var": order_statistics.variance,
    "os-hetero-exp-max": order_statistics.unequal_workers,
    "sync-idle-fraction": order_statistics.idle_share,
    "best-k-shiftexp": order_statistics.best_number,
    "drop-compute": order_statistics.drop_compute,
    "rt-ksync": order_statistics.first_k,
    "rt-speedup-async-sync": order_statistics.speed_up,
    "rt-kbatchsync": staleness.k_batch_sync_step,
    "rt-kasync": staleness.k_async_interval,
    "rt-kbatchasync": staleness.k_batch_async_interval,
    "stale-async-mean": staleness.asynchronous,
    "stale-async-p0": staleness.distribution,
    "stale-hetero-worker": staleness.of_a_slow_worker,
    "stale-kasync": staleness.k_async,
    "stale-kbatchasync": staleness.k_batch_async,
    "stale-kbatchasync-p0": staleness.k_batch_async_fresh,
    "ssp-two-exp": staleness.two_workers,
    "ssp-n-exp": staleness.several,
    "ssp-det": staleness.constant,
    "ps-mm1n": servers.markov,
    "ps-md1n": servers.constant_service,
    "ps-mg1n-gamma4": servers.gamma_service,
    "ps-mmcn": servers.several_servers,
    "ps-det": servers.constant_times,
    "ps-stale-saturated": servers.saturated_staleness,
    "sync-serial-ps": servers.synchronous,
    "sync-serial-ps-det": servers.synchronous_constant,
    "coll-ring-allreduce": collectives.all_reduce("ring"),
    "coll-ring-reducescatter": collectives.reduce_scatter,
    "coll-recdoubling-allreduce": collectives.all_reduce(
        "recursive_doubling", "log2 p (alpha + n beta + n gamma)"
    ),
    "coll-rabenseifner-allreduce": collectives.all_reduce(
        "halving_doubling", "2 log2 p alpha + 2 (p-1)/p n beta"
    ),
    "coll-binomial-bcast": collectives.binomial_broadcast,
    "coll-tree-allreduce": collectives.all_reduce("binomial_tree"),
    "coll-vandegeijn-bcast": collectives.scatter_all_gather,
    "coll-chain-bcast": collectives.chain,
    "coll-chain-bcast-opt": collectives.best_chain,
    "coll-alltoall": collectives.all_to_all,
    "coll-hier-allreduce": collectives.two_levels,
    "coll-hier-leader-allreduce": collectives.leaders,
    "coll-crossover": collectives.crossover,
    "ps-colocated-sync": servers.colocated,
    "ps-dedicated-sync": servers.dedicated,
    "ps-incast": servers.incast,
    "ps-byteps-optimal": servers.byteps,
    "vol-bytes": collectives.volume,
    "overlap-wfbp": overlap.wait_free,
    "overlap-uniform": overlap.uniform_layers,
    "weak-scaling-eff": collectives.weak_scaling,
    "local-erlang": overlap.local_steps,
    "local-comm-saving": overlap.averaging_less,
    "slow-worker": overlap.one_slow_worker,
    "quad-sgd-moment": descent.second_moment,
    "quad-sgd-floor": descent.stationary_moment,
    "delay-stability": descent.stability,
    "delay-rate": descent.decay,
    "delay-noise-floor": descent.noise_floor,
    "async-quad-mean": descent.mean_iterate,
    "quad-time-to-target": descent.time_to_target,
    "local-quad-spread": descent.local_spread,
    "ddp-buckets": overlap.ddp_buckets,
    "ckpt-segment": goodput.segment,
    "ckpt-optimum": goodput.optimum,
    "checkpoint_any_time": goodput.blocking,
    "checkpoint_not_while_down": goodput.blocking,
    "checkpoint_compute_only": goodput.blocking,
    "checkpoint_nodes": goodput.nodes,
    "checkpoint_async": goodput.asynchronous,
    "optimal_interval": goodput.optimal_interval,
    "first_order": goodput.first_order,
    "spares_none": goodput.no_spare,
    "spares_pool": goodput.pool,
}

_OPEN: Final = (
    "an open queue, fed by a Poisson stream: the workers of varsim are a closed system, in which "
    "who waits sends nothing meanwhile; the closed queues are the families ps-"
)
_CHECKPOINT: Final = (
    "an approximation for checkpoints that cost little: `every: optimal` takes the interval that "
    "is exact (ckpt-optimum)"
)

# Families that are known, and of which no point is run, as they are out of scope: why.
OUT_OF_SCOPE: Final = {
    "ssp-regret-bound": (
        "a bound, which no run attains: nothing to compare a simulated number with"
    ),
    "ps-insensitive": (
        "one shared link is all that is queued for there; a worker of varsim also reads, over the "
        "link's other way, which is a second queue in series (that network of two is compared with "
        "mean value analysis in the tests)"
    ),
    "ps-sharded-random": (
        "each request goes to one shard at random there; a gradient of varsim has a part on every "
        "shard that holds a variable, always the same ones"
    ),
    "open-mg1-wait": _OPEN,
    "open-mmc-wait": _OPEN,
    "nccl-busbw": (
        "a unit of measurement: bytes over a measured time, times a factor; nothing to simulate"
    ),
    "nccl-latency": (
        "constants of NCCL's tuner added up; varsim takes latencies as given, or from measurements"
    ),
    "critical-batch": (
        "an assumption on how many steps a batch size needs; varsim trains real values instead"
    ),
    "ckpt-young": _CHECKPOINT,
    "ckpt-daly": _CHECKPOINT,
}
UNKNOWN: Final = "a family that is not known"
