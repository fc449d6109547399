"""Which parameters closed forms are for: what makes no sense, and where a formula does not hold."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from validation.points.staleness import rounds_of_start_up

Parameters: TypeAlias = Mapping[str, Any]

# Names of parameters that may be 0, by family or for all; all other counts are 1 or more, all other
# numbers above 0.
_MAY_BE_0: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset({"alpha", "alpha1", "alpha2", "beta", "beta1", "beta2", "gamma"})
    | {"delta", "shift", "sigma2", "tau"}
    | {"write_s", "detect_s", "restart_s", "snapshot_s", "slowdown", "spares"},
    "os-uniform": frozenset({"a"}),
    "ssp-two-exp": frozenset({"s"}),
    "ssp-n-exp": frozenset({"s"}),
    "ssp-det": frozenset({"s"}),
    "os-twopoint": frozenset({"p"}),
    "overlap-wfbp": frozenset({"tf", "tb", "tc"}),
    "overlap-uniform": frozenset({"tf", "c"}),
    "local-comm-saving": frozenset({"tm"}),
    "ps-byteps-optimal": frozenset({"k"}),
    "quad-sgd-moment": frozenset({"t"}),
    "async-quad-mean": frozenset({"t"}),
}
_ANY_NUMBER: Final = frozenset({"loc", "x0"})


class Rule(NamedTuple):
    """What parameters have to be, and what is said of those that are not."""

    holds: Callable[[Parameters], bool]
    otherwise: str


def senseless(family: str, parameters: Parameters) -> Iterator[str]:
    """What of the parameters of a point describes nothing; each by itself, then together."""
    zeros = _MAY_BE_0[""] | _MAY_BE_0.get(family, frozenset())
    found = False
    for name, value in parameters.items():
        for one in value if isinstance(value, list) else [value]:
            least = _least(name, one, zeros)
            if least:
                found = True
                yield f"parameters.{name} must be {least}, not {one:g}"
                break
    if not found:
        yield from (rule.otherwise for rule in _SENSE.get(family, ()) if not rule.holds(parameters))


def outside(family: str, parameters: Parameters) -> str:
    """Why a point is not run, as its formula is not for it or it takes too long; else nothing."""
    rules = (*_VALID.get(family, ()), _LONG_ENOUGH)
    return next((rule.otherwise for rule in rules if not rule.holds(parameters)), "")


def _least(name: str, value: Any, zeros: frozenset[str]) -> str:
    """What a number has to be that it is not."""
    if isinstance(value, str) or name in _ANY_NUMBER:
        return ""
    if name in zeros:
        return "0 or more" if value < 0 else ""
    return "above 0" if value <= 0 else ""


def _at_most(small: str, large: str) -> Rule:
    return Rule(
        lambda given: bool(given[small] <= given[large]),
        f"parameters.{small} must be at most parameters.{large}",
    )


def _one_of(name: str, *words: str) -> Rule:
    said = f"parameters.{name} must be one of {', '.join(words)}"
    return Rule(lambda given: given[name] in words, said)


_LAW: Final = _one_of(
    "law", "exponential", "shifted_exponential", "uniform", "lognormal1", "deterministic"
)
_K_OF_N: Final = (_at_most("k", "n"),)
_K_OF_P: Final = (_LAW, _at_most("K", "P"))
_SENSE: Final[Mapping[str, tuple[Rule, ...]]] = {
    "os-exp": _K_OF_N,
    "os-shiftexp": _K_OF_N,
    "os-pareto": _K_OF_N,
    "os-weibull": _K_OF_N,
    "os-uniform": (
        *_K_OF_N,
        Rule(lambda given: given["a"] < given["b"], "parameters.a must be below parameters.b"),
    ),
    "os-gumbel-max": _K_OF_N,
    "os-normal": _K_OF_N,
    "os-lognormal": _K_OF_N,
    "os-twopoint": (
        *_K_OF_N,
        Rule(lambda given: given["p"] <= 1, "parameters.p must be a probability, at most 1"),
    ),
    "os-exp-var": _K_OF_N,
    "rt-ksync": _K_OF_P,
    "rt-kasync": _K_OF_P,
    "rt-kbatchasync": (_LAW,),
    "rt-kbatchsync": (_LAW,),
    "stale-async-mean": (_LAW,),
    "stale-kasync": _K_OF_P,
    "stale-kbatchasync": (_LAW,),
    "drop-compute": (_one_of("check", "between"),),
    "vol-bytes": (_one_of("kind", "ring", "ps", "ring-local"),),
    "overlap-wfbp": (
        Rule(
            lambda given: len(given["tb"]) == len(given["tc"]),
            "parameters.tb and parameters.tc must have a number for each layer",
        ),
        Rule(lambda given: sum(given["tb"]) > 0, "parameters.tb must not all be 0"),
    ),
    "slow-worker": (
        _one_of("mode", "sync", "async", "backup1"),
        Rule(
            lambda given: given["mode"] != "backup1" or given["n"] > 1,
            "parameters.n must be above 1: one worker has no backup",
        ),
    ),
    "quad-time-to-target": _K_OF_N,
}


def _power_of_two(formula: str) -> Rule:
    return Rule(
        lambda given: given["p"] & (given["p"] - 1) == 0,
        f"{formula} is for p a power of two",
    )


_BETA: Final = Rule(lambda given: given["beta"] > 0, "without beta sizes do not count")


def _at_work(steps: Callable[[Parameters], float]) -> Rule:
    """A point of so many steps of workers, or messages, must be one of minutes, not of hours."""
    return Rule(
        lambda given: steps(given) <= _MOST_STEPS,
        f"more than {_MOST_STEPS:,} steps or messages to simulate, which takes too long",
    )


_MOST_STEPS: Final = 2_000_000


def _tail(given: Parameters) -> float:
    """The moments below this one of the k-th of n Pareto times are finite, the others are not."""
    return float(given["alpha"] * (given["n"] - given["k"] + 1))


def _shortest(given: Parameters) -> float:
    """The least of the random times that parameters name; they do not go in slow motion."""
    times = [given[name] for name in ("xm", "median", "base", "mean") if name in given]
    times += [1 / given["mu"]] if "mu" in given else []
    times += [1 / max(given["rates"])] if "rates" in given else []
    times += [1 / given["rate"]] if "rate" in given else []
    times += given.get("times", [])
    return min(times, default=math.inf)


_LONG_ENOUGH: Final = Rule(
    lambda given: _shortest(given) >= 1e-6, "times so short that rounding them to whole ns counts"
)


def _best_segments(given: Parameters) -> float:
    return math.sqrt((given["p"] - 2) * given["n"] * given["beta"] / given["alpha"])


def _below_0(given: Parameters) -> float:
    """How many of n normal times are below 0, on average."""
    return float(given["n"] * 0.5 * math.erfc(given["mean"] / given["sd"] / math.sqrt(2)))


def _iterations_of_start_up(given: Parameters) -> float:
    times: Sequence[float] = given["times"]
    return rounds_of_start_up(times, given["s"]) * max(times) * sum(1 / time for time in times)


_NO_TIES: Final = Rule(
    lambda given: given["law"] != "deterministic",
    "all workers finish at the same instants, where all updates come before the next read",
)
_VALID: Final[Mapping[str, tuple[Rule, ...]]] = {
    "ssp-det": (_at_work(_iterations_of_start_up),),
    "stale-kasync": (_NO_TIES,),
    "stale-kbatchasync": (_NO_TIES,),
    "os-pareto": (
        Rule(
            lambda given: _tail(given) > 1,
            "alpha is not above 1/(n-k+1): the mean is infinite",
        ),
        Rule(
            lambda given: given["alpha"] > 1,
            "alpha is not above 1: varsim has no law of step times without a mean",
        ),
        Rule(
            lambda given: _tail(given) > 2,
            "alpha is not above 2/(n-k+1): the variance is infinite, so that no number of runs "
            "has a 99 % interval",
        ),
    ),
    "os-gumbel-max": (
        Rule(lambda given: given["k"] == given["n"], "the formula is that of the maximum, k = n"),
        Rule(
            lambda given: given["loc"] >= 4 * given["scale"],
            "loc is below 4 scale: some times would be below 0, which no step takes",
        ),
    ),
    "os-normal": (
        Rule(
            lambda given: _below_0(given) < 1e-3,
            "mean is so few sd above 0 that some times would be below 0, which no step takes",
        ),
    ),
    "os-twopoint": (
        Rule(
            lambda given: given["slow"] >= 1,
            "slow is below 1: the k-th of n is a slow one if n-k+1 are fast then, not slow",
        ),
    ),
    "coll-recdoubling-allreduce": (_power_of_two("log2 p (alpha + n beta + n gamma)"),),
    "coll-rabenseifner-allreduce": (_power_of_two("2 log2 p alpha + 2 (p-1)/p n beta"),),
    "coll-vandegeijn-bcast": (
        _power_of_two("log2 p + p - 1 rounds (for any p, the simulation has ceil(log2 p) + p - 1)"),
    ),
    "coll-chain-bcast": (
        Rule(lambda given: given["p"] > 1, "one rank alone has nobody to send to"),
        _at_work(lambda given: given["p"] * given["m"]),
    ),
    "coll-chain-bcast-opt": (
        Rule(
            lambda given: given["p"] > 2,
            "with p = 2 every further segment costs alpha: one is best, and no m* minimises",
        ),
        Rule(
            lambda given: given["alpha"] > 0,
            "without alpha every further segment gains: there is no m* that minimises",
        ),
        _BETA,
        _at_work(lambda given: 8 * given["p"] * _best_segments(given)),
    ),
    "coll-crossover": (
        _power_of_two("log2 p alpha / (beta (log2 p - 2(p-1)/p))"),
        Rule(
            lambda given: given["p"] > 2,
            "with p = 2 both send n bytes, and the doubling has one latency less at any n",
        ),
        Rule(lambda given: given["alpha"] > 0, "without alpha they meet at 0 bytes"),
        _BETA,
    ),
    "slow-worker": (
        Rule(
            lambda given: given["mode"] == "async" or given["f"] >= 1,
            "with f below 1 all wait for the others, not for this worker: the formula is another",
        ),
        _at_work(lambda given: given["n"] * max(given["f"], 1.0)),
    ),
    "stale-hetero-worker": (_at_work(lambda given: 150 * sum(given["rates"]) / given["rates"][0]),),
    "stale-async-mean": (_at_work(lambda given: 100 * given["P"]),),
    "stale-async-p0": (_at_work(lambda given: 100 * given["P"]),),
    "quad-sgd-moment": (_at_work(lambda given: 100 * given["t"] * given["n"]),),
    "async-quad-mean": (
        Rule(lambda given: given["x0"] != 0, "x0 is 0, where nothing moves"),
        _at_work(lambda given: 10 * given["t"]),
    ),
    "delay-stability": (_at_work(lambda given: 100 * (given["tau"] + 1) ** 2),),
    "delay-rate": (_at_work(lambda given: 4 * (given["tau"] + 1) ** 2),),
    "delay-noise-floor": (
        Rule(
            lambda given: given["a"] < 2 * math.sin(math.pi / (4 * given["tau"] + 2)),
            "so large a step diverges with this delay: there is no stationary variance",
        ),
    ),
    "quad-sgd-floor": (
        Rule(
            lambda given: given["eta"] * given["lam"] < 2,
            "eta lam is not below 2: descent diverges, and there is no stationary moment",
        ),
    ),
}
