"""What goes with failures at random, and what does not: refusals, each with what to write."""

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

from varsim.cluster.description.cluster import Cluster, Stop
from varsim.cluster.description.failures import ProcessEvent
from varsim.cluster.description.recovery import Checkpoint, RandomFailures, Recovery, in_run
from varsim.core.measured_times import MeasuredTimes
from varsim.core.units import format_seconds


class Served(TypedDict):
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
        raise ValueError(
            "failures of a server strike inside the run, with all that it holds: leave out "
            "failures.horizon"
        )
    if failures.of_servers and not servers:
        raise ValueError(
            "failures of a server have no effect: none of the strategies uses parameter servers"
        )
    if events:
        raise ValueError(
            "events do not go with failures: either processes end at given times, or hosts fail at "
            "random"
        )
    if in_run(failures):
        if checkpoint is not None and not restores(failures, cluster, servers, chief):
            raise ValueError(
                "checkpoint has no effect: inside a run it is read back when servers fail, or when "
                "worker 0 fails where servers have the model; here nothing is read back (over "
                "failures.horizon workers save their copies)"
            )
        played = failures.recorded
        if played and stop.time is not None and (first := min(played.played)[0]) > stop.time:
            raise ValueError(
                "failures.recorded: no failure comes before stop.time: the first is at "
                f"{format_seconds(first)}"
            )
        return
    if any(slow.after or slow.until for slow in cluster.slow_workers):
        raise ValueError(
            "failures do not go with cluster.slow_workers that are slow for a part of the time: "
            "all steps of a job must take the same time"
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
        said = f"stop.{key} must be {max(least.values())} or more: from these steps{which} "
        if len(needs) == 1:
            raise ValueError(f"{said}the life of a job is made")
        short = ", ".join(f"{one!r} {need}" for one, need in least.items() if given < need)
        raise ValueError(f"{said}the lives of jobs are made (at least: {short})")


def check_life(
    failures: RandomFailures,
    checkpoint: Checkpoint | None,
    recovery: Recovery,
    cluster: Cluster,
    workers: int,
    servers: bool = True,
) -> None:
    """Raise ValueError where a job cannot fail or come back like that.

    `servers`: whether it has such, as in Served.
    """
    if not servers and not failures.without_servers().repairs:
        raise ValueError(
            "failures of servers alone do not meet a strategy that uses no parameter servers: let "
            "workers fail, too, or leave that strategy out"
        )
    for index, one in enumerate(failures.of):
        try:
            one.check(cluster, workers)
        except ValueError as error:
            raise ValueError(f"failures.of.{index}.{error}") from None
    if failures.recorded is not None:
        try:
            failures.recorded.check(failures.horizon, cluster, workers)
        except ValueError as error:
            raise ValueError(f"failures.recorded: {error}") from None
    if failures.horizon is not None:
        expected = failures.horizon * failures.rate(cluster, workers)
        if expected > _MOST:
            raise ValueError(
                f"failures.horizon: about {expected:.2g} failures would be met, at most {_MOST:,} "
                "are followed: shorten it"
            )
    else:
        _check_in_run(failures, recovery, cluster)
    spares = recovery.spares
    if spares is not None:
        hosts = cluster.network.machines(workers)
        if spares.hot + spares.cold > hosts:
            which = "" if spares.hot and spares.cold else f".{'hot' if spares.hot else 'cold'}"
            raise ValueError(
                f"recovery.spares{which}: {spares.hot + spares.cold} for {hosts} hosts that may "
                f"fail; at most {hosts}"
            )
        if not spares.model_fields_set:
            raise ValueError("recovery.spares has no effect: say how many are hot or cold")
        if all(repair is None for _, repair in failures.repairs):
            raise ValueError(
                "recovery.spares has no effect: a host that fails is back at once, as nothing in "
                f"failures.{'of' if failures.of else 'recorded'} says how long its repair takes"
            )
    if recovery.policy != "restart":
        _check_policy(failures, checkpoint, recovery, cluster, workers)
    if checkpoint is None:
        return
    if checkpoint.every == "optimal" and not failures.memoryless:
        raise ValueError(
            "checkpoint.every: optimal is known for exponential times between failures alone, "
            "none of them mistaken; give a time, or sweep over it"
        )
    if checkpoint.mode == "asynchronous" and failures.strike == "while_computing":
        raise ValueError(
            "failures.strike while_computing goes with blocking checkpoints: work goes on beside "
            "an asynchronous write"
        )


def _check_policy(
    failures: RandomFailures,
    checkpoint: Checkpoint | None,
    recovery: Recovery,
    cluster: Cluster,
    workers: int,
) -> None:
    """Raise ValueError where those who are left could not go on as a policy says."""
    policy, why = f"recovery.policy {recovery.policy}", ""
    if failures.strike == "while_computing":
        why = "failures.strike while_computing: write always or while_running"
    elif checkpoint is not None and checkpoint.mode == "asynchronous":
        why = "checkpoint.mode asynchronous: write blocking"
    elif checkpoint is not None and checkpoint.every == "optimal":
        why = (
            "checkpoint.every: optimal, which is known of policy restart: a failure loses no more "
            "than a step here, and a checkpoint is needed only when no host is left; give a time"
        )
    if why:
        raise ValueError(f"{policy} does not go with {why}")
    if recovery.policy == "wait":
        return
    hosts = cluster.network.machines(workers)
    if (recovery.fewest or 1) >= hosts:
        raise ValueError(
            f"recovery.fewest must be below the number of hosts ({hosts}), with which the policy "
            "is wait"
        )
    if all(repair is None for _, repair in failures.repairs):
        raise ValueError(
            f"{policy} has no effect: a host that fails is back at once, as nothing in failures "
            "says how long its repair takes"
        )
    network, law = cluster.network, cluster.compute
    unlike = {
        "cluster.slow_workers": bool(cluster.slow_workers),
        "cluster.network.slow_links": bool(network.slow_links),
        f"a network of kind {network.kind}": network.kind not in ("star", "full_mesh", "nodes"),
        "cluster.compute of kind trace": isinstance(law, MeasuredTimes) and len(law.seconds) > 1,
    }
    for what in (what for what, there in unlike.items() if there):
        raise ValueError(
            f"{policy} does not go with {what}: hosts are not alike, and how fast the others are "
            "would depend on which of them is missing"
        )


def _check_in_run(failures: RandomFailures, recovery: Recovery, cluster: Cluster) -> None:
    """Raise ValueError where failures cannot strike inside a run like that."""
    if any(domain == "link" for domain, _ in failures.repairs):
        raise ValueError(
            "failures of a link need failures.horizon: inside a run they would not end a worker; "
            "say domain: worker"
        )
    if failures.strike != "always":
        raise ValueError(
            f"failures.strike {failures.strike} needs failures.horizon: inside a run members age "
            "and fail always"
        )
    if recovery.policy != "restart":
        raise ValueError(
            "recovery.policy needs failures.horizon: inside a run the strategy says what the "
            "others do (on_death of those that have it)"
        )
    if cluster.servers_on == "workers":
        raise ValueError(
            "failures without a horizon need cluster.servers_on: dedicated: a host that fails "
            "inside a run would take a server with it"
        )
