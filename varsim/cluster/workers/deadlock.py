"""Report of a deadlocked run: since when, who waits for what, why, what frees it."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from varsim.cluster.workers.processes import Processes
from varsim.cluster.workers.worker import Worker

# What would free a run, in words, given the ranks of the workers that are dead.
Remedy: TypeAlias = Callable[[Sequence[int]], str]


def restart_all(dead: Sequence[int]) -> str:
    """The remedy where nothing goes on without everybody."""
    return f"restart {named(dead)}" if dead else ""


def restart_any(dead: Sequence[int]) -> str:
    """The remedy where any worker can go on alone."""
    return f"restart {'any of ' if len(dead) > 1 else ''}{named(dead)}" if dead else ""


def restart_enough(needed: int, workers: int, key: str) -> Remedy:
    """The remedy where so many of the workers are needed; `key` is the setting that says so."""

    def remedy(dead: Sequence[int]) -> str:
        alive = workers - len(dead)
        missing = needed - alive
        whom = named(dead) if missing >= len(dead) else f"{missing} of {named(dead)}"
        spare = f"; with {key}: {alive} it would have gone on" if alive else ""
        return f"restart {whom}{spare}"

    return remedy


def named(ranks: Iterable[int]) -> str:
    """`worker 3`, `workers 0, 1, 2`."""
    numbers = [str(rank) for rank in ranks]
    return f"worker{'s' * (len(numbers) > 1)} {', '.join(numbers)}"


def report(
    run: str,
    updates: int,
    time: int,
    workers: Sequence[Worker],
    processes: Processes,
    remedy: Remedy,
    fails: bool,
) -> str:
    """The whole report of a run in which nothing is left to happen since `time` (ns).

    `fails`: but for failures at random.
    """
    still = "nothing can happen any more."
    if fails:  # who is down comes back: then there was more to happen
        still = "no worker is down, and nothing but a failure can happen any more."
    count = f"{updates} update{'s' * (updates != 1)}"
    lines = [f"{run}: the run deadlocked at {time / 1e9:.9g} s, after {count}: {still}"]
    waits: dict[str, list[int]] = {}
    for worker in workers:
        if processes.running(worker.rank):
            what = "nothing" if worker.waits_for is None else str(worker.waits_for)
            waits.setdefault(what, []).append(worker.rank)
    lines += [f"  {named(ranks)}: waiting for {what}" for what, ranks in waits.items()]
    lines += [f"  {role}: waiting for {what}" for role, what in processes.roles()]
    lines += _causes(processes)
    dead = [rank for rank, end in processes.exits.items() if end.killed]
    if freed := remedy(sorted(dead)):
        lines.append(f"  to free it: {freed}")
    return "\n".join(lines)


def _causes(processes: Processes) -> list[str]:
    """The deaths behind it; one that left its token to others only where there is no other."""
    deaths: dict[tuple[int, str, bool], list[int]] = {}
    for rank, end in sorted(processes.exits.items()):
        if end.killed:
            at_peace = end.for_token and not end.roles
            deaths.setdefault((end.time, end.doing, at_peace), []).append(rank)
    lines = {}
    for (time, doing, at_peace), ranks in sorted(deaths.items()):
        roles = [f"the {role}" for rank in ranks for role in processes.exits[rank].roles]
        were = "were" if len(ranks) + len(roles) > 1 else "was"
        who = " and ".join([named(ranks), *roles])
        line = f"  because {who} {were} killed at {time / 1e9:.9g} s while {doing}"
        lines[line] = at_peace
    if all(lines.values()):
        return list(lines)
    return [line for line, at_peace in lines.items() if not at_peace]
