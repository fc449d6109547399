"""What the commands do with a scenario of variables."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from varsim.cli.console import USAGE, complain, read_from, write
from varsim.cli.settings import Asking, Formats, Settings, question, text_width

if TYPE_CHECKING:
    from varsim.scenario.variables import VariablesScenario
    from varsim.study.experiment import Program
    from varsim.study.variables import VariablesResult
    from varsim.study.variables_estimate import Price

# A run has to do some ten thousand a second.
MANY_EVENTS, TOO_MANY_EVENTS = 1e6, 1e8
# Of more variables than these the values stand in the report alone.
MOST_VARIABLES = 8


def run(experiment: "Program", settings: Settings) -> None:
    """Simulate a scenario, write its report, print its tables and its answer."""
    from varsim.cli.progress import Progress
    from varsim.report.files.claim import RUN, Asked, check_target, replaced
    from varsim.report.files.program import save_variables
    from varsim.report.pages import variables as variables_report

    scenario = experiment.scenario
    refuse_strategies(scenario, settings.strategies)
    _weigh(scenario)
    directory = settings.directory(scenario.name)
    check_target(directory)
    other = replaced(directory, RUN, Asked.of(scenario))
    with Progress(settings.quiet) as progress:
        result = experiment.run(settings.jobs, progress)

    def extras(path: Path) -> None:
        variables_report.write(result, path, settings.question)

    saved = save_variables(result, directory, extras, settings.question)
    if other:
        complain(f"varsim: {other}")
    _show(result, settings.format, [f"report: {saved / 'report.html'}"])


def check(experiment: "Program", strategies: Sequence[str]) -> None:
    """Say what a scenario is, and what its reads and writes should cost in each mode."""
    from varsim.study.variables_estimate import describe, prices, steps
    from varsim.units import format_seconds

    scenario = experiment.scenario
    refuse_strategies(scenario, strategies)
    for line in describe(scenario):
        write(line)
    write("\nTime of one write or read, on the back of an envelope:")
    found = prices(scenario)
    rows = [
        (f"{one.mode}: {one.doing} {one.variable}", format_seconds(one.price.time), one.price.why)
        for one in found
    ]
    _aligned(rows)
    write("\nA step, one thing after another:")
    _aligned(
        (
            f"{mode}",
            format_seconds(price.time),
            _sent(price) + (f"; {price.why}" if price.why else ""),
        )
        for mode, price in steps(scenario).items()
    )
    _weigh(scenario)


def explain(experiment: "Program", asked: Asking) -> None:
    """Print what each copy holds, what is sent where, and when."""
    from varsim.report.explain.page import explanation

    scenario = experiment.scenario
    refuse_strategies(scenario, asked.strategies)
    asked.refuse_of_training()
    for line in explanation(
        scenario,
        str(asked.file),
        question(asked.file),
        modes=asked.modes,
        steps=asked.steps,
        form="md" if asked.format == "md" else "table",
        width=text_width(),
    ):
        write(line)


def redraw(directory: Path, question: Callable[[], str]) -> None:
    """Draw the plots of a saved run again."""
    from varsim.report.files.claim import put_into
    from varsim.report.files.program import load_variables
    from varsim.report.pages import variables as report

    result, asked = read_from(lambda path: (load_variables(path), question()), directory)
    put_into(directory, "variables", lambda path: report.write(result, path, asked, directory))


def refuse_strategies(scenario: "VariablesScenario", wanted: Sequence[str]) -> None:
    """End the command where strategies were asked for: there are modes instead."""
    if wanted:
        there = "every variable of this one has its own synchronization"
        if scenario.modes:
            chosen = next((mode for mode in wanted if mode in scenario.modes), scenario.modes[0])
            there = (
                f"modes ({', '.join(scenario.modes)}); to run one of them write --set "
                f"'modes=[{chosen}]'"
            )
        complain(
            "varsim: --strategy has no effect: a scenario of variables has no strategies, but "
            f"{there}"
        )
        raise typer.Exit(USAGE)


def _sent(price: "Price") -> str:
    """`16 B in 4 messages`, of an average step."""
    from varsim.units import format_bytes, format_count

    if not price.messages:
        return "nothing is sent"
    many = "message" if price.messages == 1 else "messages"
    return f"{format_bytes(price.size)} in {format_count(price.messages)} {many}"


def _aligned(rows: Iterable[tuple[str, str, str]]) -> None:
    """Print a name, a time and how it comes about, each below the other."""
    lines = list(rows)
    name_width, time_width = (max(len(line[column]) for line in lines) for column in (0, 1))
    for name, time, why in lines:
        write(f"  {name:<{name_width}}  {time:>{time_width}}  {why}".rstrip())


def _weigh(scenario: "VariablesScenario") -> None:
    """Warn of a scenario that takes very long; refuse one of which no end is to be seen."""
    from varsim.study.variables_estimate import expected_events
    from varsim.units import format_count

    count = expected_events(scenario)
    if count <= MANY_EVENTS:
        return
    knobs = ["program.steps", *["replications"] * (scenario.replications > 1), "cluster.workers"]
    advice = f"lower {', '.join(knobs[:-1])} or {knobs[-1]}"
    said = f"varsim: about {format_count(count)} reads, writes and messages to simulate"
    if count > TOO_MANY_EVENTS:
        complain(f"{said}, {format_count(TOO_MANY_EVENTS)} at most: {advice}")
        raise typer.Exit(USAGE)
    complain(f"{said}, which takes long; to avoid it {advice}")


def _show(result: "VariablesResult", format: Formats, closing: Iterable[str]) -> None:
    """Print a result: as tables with their answer, or as text for another program."""
    if format == "table":
        _show_tables(result)
        for line in (*result.notes, "", *result.answer().splitlines(), *closing):
            write(line)
        return
    from varsim.report.words.program.render import render

    write(render(result, format), end="")
    for line in closing:  # stdout stays what the format promises
        complain(line)


def _show_tables(result: "VariablesResult") -> None:
    from varsim.cli.progress import drawn
    from varsim.report.words.program.table import by_ratio, seen
    from varsim.study.program.values import described

    write(drawn(result.table()))
    variables = result.scenario.variables
    for variable in variables[:MOST_VARIABLES]:
        write(f"'{variable.name}' ({described(variable)}), as it was read last:")
        write(drawn(seen(result, variable.name), justify="left"))
    if len(variables) > MOST_VARIABLES:
        write(f"The report shows {len(variables) - MOST_VARIABLES} more variables.\n")
    if result.ratios:
        write("Time per step, over outside reads per write:")
        write(drawn(by_ratio(result)))
