"""What goes with failures at random, and what does not: refusals, each with what to write."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypedDict

from varsim.cluster.description.cluster import Cluster, Stop
from varsim.cluster.description.failures import ProcessEvent
from varsim.cluster.description.recovery import Checkpoint, RandomFailures, Recovery, Spares, in_run
from varsim.core.measured_times import MeasuredTimes
from varsim.core.refusal import Refusal, RefusalError, refusals, refused
from varsim.core.units import format_seconds


class ServedBy(TypedDict):
    """What is known of strategies: whether any has servers, any of them the model and a chief."""

    servers: bool
    chief: bool


# So many failures are followed in less than a minute.
_MOST: Final = 1_000_000


def check_beside(
    failures: RandomFailures,
    checkpoint: Checkpoint | None,
    events: Sequence[ProcessEvent],
    cluster: Cluster,
    stop: Stop,
    *,
    servers: bool,
    chief: bool,
) -> None:
    """Raise ValueError where something does not go with failures at random; see Served."""
    if failures.of_servers and failures.horizon is not None:
        raise refused(
            "failures",
            "of a server strike inside the run, with all that it holds: leave out failures.horizon",
        )
    if failures.of_servers and not servers:
        raise refused(
            "failures", "of a server have no effect: none of the strategies uses parameter servers"
        )
    if events:
        raise refused(
            "events",
            "do not go with failures: either processes end at given times, or hosts fail at random",
        )
    if in_run(failures):
        if checkpoint is not None and not restores(failures, cluster, servers, chief):
            raise refused(
                "checkpoint",
                "has no effect: inside a run it is read back when servers fail, or when "
                "worker 0 fails where servers have the model; here nothing is read back (over "
                "failures.horizon workers save their copies)",
            )
        played = failures.recorded
        if played and stop.time is not None and (first := min(played.played)[0]) > stop.time:
            raise refused(
                "failures.recorded",
                f": no failure comes before stop.time: the first is at {format_seconds(first)}",
            )
        return
    if any(slow.after or slow.until for slow in cluster.stragglers):
        raise refused(
            "failures",
            "do not go with cluster.slow_workers that are slow for a part of the time: "
            "all steps of a job must take the same time",
        )


def restores(failures: RandomFailures, cluster: Cluster, servers: bool, chief: bool) -> bool:
    """Whether failures inside a run may take a model back to what was saved; as check_beside."""
    return (failures.of_servers and servers) or (chief and failures.of_chief(cluster))


def left_of(
    failures: RandomFailures | None,
    checkpoint: Checkpoint | None,
    recovery: Recovery | None,
    cluster: Cluster,
    *,
    servers: bool,
    chief: bool,
) -> dict[str, RandomFailures | Checkpoint | Recovery | None]:
    """What of them has an effect on such strategies as check_beside has, by key of a scenario."""
    for inside in in_run(failures):
        if not restores(inside, cluster, servers, chief):
            checkpoint = None
        failures = inside if servers else inside.without_servers()
        if recovery is not None and all(repair is None for _, repair in failures.repairs):
            recovery = recovery.model_copy(update={"spares": None})
    return {"failures": failures, "checkpoint": checkpoint, "recovery": recovery}


def check_steps(stop: Stop, needs: Mapping[str, tuple[int, int]], *, random: bool) -> None:
    """Raise ValueError where runs surely make fewer updates than lives can be made of.

    `needs`: of each strategy, by its label, the least global steps and the least examples;
    `random`: whether the steps of some are.
    """
    for place, key in enumerate(("global_steps", "examples")):
        given, least = getattr(stop, key), {one: need[place] for one, need in needs.items()}
        if given is None or given >= max(least.values()):
            continue
        which = ", which are random," if random else ""
        said = f"must be {max(least.values())} or more: from these steps{which} "
        if len(needs) == 1:
            raise refused(f"stop.{key}", f"{said}the life of a job is made")
        short = ", ".join(f"{one!r} {need}" for one, need in least.items() if given < need)
        raise refused(f"stop.{key}", f"{said}the lives of jobs are made (at least: {short})")


# What goes with no failures at random; what does not beside failures of a job that is followed.
_OF_POLICIES: Final = tuple(
    Refusal("recovery.policy: wait | continue_with_fewer", with_, because, write)
    for with_, because, write in (
        ("failures.strike: while_computing", "", "write always or while_running"),
        ("checkpoint.mode: asynchronous", "work goes on beside a write", "write blocking"),
        (
            "checkpoint.every: optimal",
            "that is known of policy restart: a failure loses no more than a step here, and a "
            "checkpoint is needed only when no host is left",
            "give a time",
        ),
    )
)
_UNLIKE: Final = (
    "hosts are not alike, and how fast the others are would depend on which of them is missing"
)
_OF_FEWER: Final = tuple(
    Refusal("recovery.policy: continue_with_fewer", with_, _UNLIKE)
    for with_ in (
        "cluster.slow_workers",
        "cluster.network.slow_links",
        "cluster.network: not star | full_mesh | nodes",
    )
)
_INSIDE: Final = (
    Refusal(
        "failures.strike: not always",
        "no failures.horizon",
        "inside a run members age and fail always",
        says="needs",
    ),
    Refusal(
        "recovery.policy: not restart",
        "no failures.horizon",
        "inside a run the strategy says what the others do (on_death of those that have it)",
        says="needs",
    ),
    Refusal(
        "cluster.servers_on: workers",
        "no failures.horizon",
        "a host that fails inside a run would take a server with it",
        "or servers_on: dedicated",
        says="needs",
    ),
)
_OF_CHECKPOINTS: Final = (
    Refusal(
        "checkpoint.mode: asynchronous",
        "failures.strike: while_computing",
        "work goes on beside an asynchronous write",
        "write blocking",
    ),
)


def _check(table: Iterable[Refusal], known: Mapping[str, object]) -> None:
    for error in refusals(table, known):
        raise error


def check_life(
    failures: RandomFailures,
    checkpoint: Checkpoint | None,
    recovery: Recovery,
    cluster: Cluster,
    workers: int,
    servers: bool = True,
) -> None:
    """Raise RefusalError where a job cannot fail or come back like that.

    `servers`: whether it has such, as in Served.
    """
    known: dict[str, object] = {
        "failures": failures,
        "checkpoint": checkpoint,
        "recovery": recovery,
        "cluster": cluster,
    }
    if not servers and not failures.without_servers().repairs:
        raise refused(
            "failures",
            "of servers alone do not meet a strategy that uses no parameter servers: let workers "
            "fail, too, or leave that strategy out",
        )
    _check_sources(failures, cluster, workers)
    if failures.horizon is None:
        if any(domain == "link" for domain, _ in failures.repairs):
            raise refused(
                "failures",
                "of a link need failures.horizon: inside a run they would not end a worker; say "
                "domain: worker",
            )
        _check(_INSIDE, known)
    comes_back = any(repair is not None for _, repair in failures.repairs)
    whole = (
        f"a host that fails is back at once, as nothing in failures."
        f"{'of' if failures.of else 'recorded'} says how long its repair takes"
    )
    if recovery.spares is not None:
        _check_spares(recovery.spares, cluster.network.machines(workers))
        if not comes_back:
            raise refused("recovery.spares", f"has no effect: {whole}")
    _check(_OF_POLICIES, known)
    if recovery.policy == "continue_with_fewer":
        hosts = cluster.network.machines(workers)
        if (recovery.fewest or 1) >= hosts:
            raise refused(
                "recovery.fewest",
                f"must be below the number of hosts ({hosts}), with which the policy is wait",
            )
        if not comes_back:
            raise refused("recovery.policy", f"{recovery.policy} has no effect: {whole}")
        _check(_OF_FEWER, known)
        if isinstance(cluster.compute, MeasuredTimes) and len(cluster.compute.seconds) > 1:
            says = f"{recovery.policy} does not go with cluster.compute of kind trace: {_UNLIKE}"
            raise refused("recovery.policy", says)
    if checkpoint is not None and checkpoint.every == "optimal" and not failures.memoryless:
        raise refused(
            "checkpoint.every",
            ": optimal is known for exponential times between failures alone, none of them "
            "mistaken; give a time, or sweep over it",
        )
    _check(_OF_CHECKPOINTS, known)


def _check_sources(failures: RandomFailures, cluster: Cluster, workers: int) -> None:
    """Raise RefusalError where something cannot fail that is not there, or too often."""
    for index, one in enumerate(failures.of):
        try:
            one.check(cluster, workers)
        except RefusalError as error:
            raise error.within("failures", "of", index) from None
    if failures.recorded is not None:
        try:
            failures.recorded.check(failures.horizon, cluster, workers)
        except ValueError as error:
            raise refused("failures.recorded", f": {error}") from None
    if failures.horizon is not None:
        expected = failures.horizon * failures.rate(cluster, workers)
        if expected > _MOST:
            raise refused(
                "failures.horizon",
                f": about {expected:.2g} failures would be met, at most {_MOST:,} are followed: "
                "shorten it",
            )


def _check_spares(spares: Spares, hosts: int) -> None:
    """Raise RefusalError where there are more than hosts, or none."""
    if spares.hot + spares.cold > hosts:
        which = "" if spares.hot and spares.cold else f".{'hot' if spares.hot else 'cold'}"
        raise refused(
            f"recovery.spares{which}",
            f": {spares.hot + spares.cold} for {hosts} hosts that may fail; at most {hosts}",
        )
    if not spares.model_fields_set:
        raise refused("recovery.spares", "has no effect: say how many are hot or cold")
