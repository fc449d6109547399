"""What is said of a run that stands still: since when, who waits for what, why, what frees it."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from varsim.cluster.waiting import TokenQueue

if TYPE_CHECKING:
    from varsim.cluster.job import Job

# What would free a run, in words, given the ranks of the workers that are dead.
Remedy: TypeAlias = Callable[[Sequence[int]], str]


def restart_all(dead: Sequence[int]) -> str:
    """The remedy where nothing goes on without everybody."""
    return f"restart {named(dead)}" if dead else ""


def restart_any(dead: Sequence[int]) -> str:
    """The remedy where any worker can go on alone."""
    return f"restart {'any of ' if len(dead) > 1 else ''}{named(dead)}" if dead else ""


def named(ranks: Iterable[int]) -> str:
    """`worker 3`, `workers 0, 1, 2`."""
    numbers = [str(rank) for rank in ranks]
    return f"worker{'s' * (len(numbers) > 1)} {', '.join(numbers)}"


def report(job: "Job", label: str, remedy: Remedy) -> str:
    """The whole report, for a run in which nothing is left to happen."""
    lines = [
        f"{label}: the run stands still at {job.clock.time / 1e9:.9g} s, after "
        f"{job.global_step} updates: nothing can happen any more."
    ]
    waits: dict[str, list[int]] = {}
    for worker in job.workers:
        if job.lives.running(worker.rank):
            what = "nothing" if worker.waits_for is None else str(worker.waits_for)
            waits.setdefault(what, []).append(worker.rank)
    lines += [f"  {named(ranks)}: waiting for {what}" for what, ranks in waits.items()]
    lines += [f"  {role}: waiting for {what}" for role, what in job.lives.roles()]
    lines += _causes(job)
    dead = [rank for rank, end in job.lives.ends.items() if end.killed]
    if freed := remedy(sorted(dead)):
        lines.append(f"  to free it: {freed}")
    return "\n".join(lines)


def _causes(job: "Job") -> list[str]:
    """The deaths behind it; one that left its token to others only where there is no other."""
    deaths: dict[tuple[int, str, bool], list[int]] = {}
    for rank, end in sorted(job.lives.ends.items()):
        if end.killed:
            at_peace = end.doing.startswith(f"waiting for {TokenQueue.what}") and not end.roles
            deaths.setdefault((end.time, end.doing, at_peace), []).append(rank)
    lines = {}
    for (time, doing, at_peace), ranks in sorted(deaths.items()):
        roles = [f"the {role}" for rank in ranks for role in job.lives.ends[rank].roles]
        were = "were" if len(ranks) + len(roles) > 1 else "was"
        who = " and ".join([named(ranks), *roles])
        line = f"  because {who} {were} killed at {time / 1e9:.9g} s while {doing}"
        lines[line] = at_peace
    if all(lines.values()):
        return list(lines)
    return [line for line, at_peace in lines.items() if not at_peace]
