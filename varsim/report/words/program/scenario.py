"""A scenario of variables in plain words, one statement per line, and what its beginning shows."""

from collections.abc import Sequence
from typing import Final

from varsim.distribute.program import Action
from varsim.distribute.program_run import Mode
from varsim.report.words.scenario import about_machines, described
from varsim.scenario.variables import VariablesScenario
from varsim.study.program.beginning import ProgramBeginning, size_of
from varsim.units import counted, format_bytes, format_count, format_rate, format_seconds


def describe(scenario: VariablesScenario) -> list[str]:
    """The resolved scenario, one statement per line."""
    cluster, network, program = scenario.cluster, scenario.cluster.network, scenario.program
    lines = [
        f"{scenario.name}: {counted(len(scenario.variables), 'variable')}, "
        f"{counted(len(scenario.labels), 'mode')}, "
        f"{counted(scenario.replications, 'replication')} of each, seed {scenario.seed}",
        f"  replicas     {cluster.workers}, one on each worker",
    ]
    if cluster.compute is not None:
        mean = format_seconds(cluster.compute.expectation())
        lines.append(f"  compute      {mean} on average, law {described(cluster.compute)}")
    lines += about_machines(cluster.slow_workers, network)
    if "none" in scenario.all_modes:
        lines.append(
            f"  servers      {cluster.parameter_servers} at {format_rate(network.server_rate)}, "
            "whole variables in turn"
        )
    for variable in scenario.variables:
        shape = f", shape [{', '.join(map(str, variable.shape))}]" if variable.shape else ""
        fixed = f", always {variable.synchronization}" if variable.synchronization else ""
        lines.append(
            f"  variable     {variable.name}: {variable.dtype}{shape}, "
            f"{format_bytes(size_of(variable))}, starts as {variable.initial:g}, aggregation "
            f"{variable.aggregation}{fixed}"
        )
    lines += [f"  mode         {mode} - {MODES[mode]}" for mode in scenario.modes]
    if scenario.cross_device_ops != "ring":
        lines.append(f"  reduced by   {scenario.cross_device_ops}")
    lines.append(f"  steps        {program.steps}")
    lines += [f"  replicas do  {_told(action)}" for action in program.replicas]
    lines += [f"  then outside {_told(action)}" for action in program.outside]
    if scenario.vary is not None:
        ratios = ", ".join(f"{ratio:g}" for ratio in scenario.vary.reads_per_write)
        lines.append(f"  varied       outside reads per write: {ratios}")
    return lines


MODES: Final[dict[Mode, str]] = {
    "on_write": "mirrored copies, aggregated when replicas write",
    "on_read": "a copy per replica, aggregated when read from outside",
    "none": "one copy on a parameter server, nobody waits",
}


def _told(action: Action) -> str:
    """`assign_add correct [3, 1, 2], 8 times, every 2 steps`."""
    values = action.model_dump(mode="json", exclude_none=True)
    kind, times, every = values.pop("kind"), values.pop("times"), values.pop("every")
    parts = [kind, *([values.pop("variable")] if "variable" in values else [])]
    parts += [f"{key} {_plain(value)}" for key, value in values.items()]
    often = [f"{times} times"] if times > 1 else []
    often += [f"every {every} steps"] if every > 1 else []
    return ", ".join([" ".join(parts), *often])


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_plain(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        shown = ", ".join(map(_plain, value[:8]))
        return f"[{shown}, ...]" if len(value) > 8 else f"[{shown}]"
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def beginnings(begun: Sequence[ProgramBeginning], longest: int) -> list[str]:
    """What a step takes and sends under each mode, a row each; see `ProgramBeginning`."""
    width = max(len(one.mode) for one in begun)
    return [f"  {one.mode:<{width}}  {_beginning(one, longest)}" for one in begun]


def _beginning(one: ProgramBeginning, longest: int) -> str:
    if not one.steps:
        return "not begun: one step does more than check has time for"
    messages = one.measured["messages_per_step"]
    sent = "nothing is sent"
    if messages:
        many = "message" if messages == 1 else "messages"
        size = format_bytes(one.measured["bytes_per_step"])
        sent = f"{size} in {format_count(messages)} {many}"
    beyond = f"; what happens every {longest:,} steps lies beyond them" if one.beyond else ""
    time = format_seconds(one.measured["time_per_step"])
    return f"{time} a step (mean of {counted(one.steps, 'step')}): {sent}{beyond}"
