"""The commands of one scenario: run, check, explain; and by which engine runs are made."""

import gc
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from varsim.cli import options
from varsim.cli.console import (
    ERROR,
    OUT_OF_BOUNDS,
    USAGE,
    complain,
    of_file,
    refuse,
    show,
    write,
)
from varsim.cli.options import EngineName, question
from varsim.cluster.fast import ENGINE

if TYPE_CHECKING:
    from varsim.report.told import Report
    from varsim.scenario.space import Sweep
    from varsim.scenario.training import AnyScenario
    from varsim.study.grid import Grid


def run(
    file: options.File,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write; default: reports/<scenario name>."),
    ] = None,
    seed: options.Seed = None,
    replications: options.Replications = None,
    sets: options.Sets = [],  # noqa: B006  (typer reads it, nobody changes it)
    imports: options.Imports = [],  # noqa: B006
    strategy: options.Kinds = [],  # noqa: B006
    jobs: options.Jobs = "1",  # type: ignore[assignment]
    quiet: options.Quiet = False,
    format: options.Format = "table",
    all_rows: options.All = False,
    form: options.Form = "png",
    no_plots: options.NoPlots = False,
    rows: options.Rows = False,
    animate: options.Animate = False,
    yes: options.Yes = False,
    engine: options.Engine = "auto",
) -> None:
    """Simulate a scenario and write its report.

    Ends with 1 if a strategy deadlocked, with 3 if a target is missed or undecided.
    """
    from varsim.cli.console import Progress
    from varsim.report.files.directory import Origin, check_target, replaced
    from varsim.report.files.save import save

    options.check_all(all_rows, format)
    given = options.with_shorthands(sets, seed=seed, replications=replications)
    what = loaded(file, given, strategy)
    made_by = use_for(engine, what, file)
    asked = question(file, whole=not given and not strategy, changed=sets)
    refuse_excess(what, yes)
    if animate and what.kind != "training":
        refuse("--animate shows gradients, and variables have none: see varsim explain FILE")
    directory = out if out is not None else Path("reports") / what.name
    check_target(directory)
    other = replaced(directory, "run", Origin.of(what))
    with Progress(quiet) as progress:
        result = what.run(jobs=options.processes(jobs), progress=progress)
    told = of_file(result.report, file, asked)
    saved = save(
        result, directory, told, plots="" if no_plots else form, rows=rows, animated=animate
    )
    if animate and told.played is None:
        complain("varsim: no animation.svg: there is no step to show")
    if other:
        complain(f"varsim: {other}")
    closing = [*saved.notes, f"report: {saved.directory / 'report.html'}"]
    show(told, format, closing, every=all_rows)
    _end(result)
    if made_by and not quiet:
        complain(made_by)


def _end(result: Any) -> None:
    """End the command where a strategy deadlocked, or a target is not surely met by every one."""
    if getattr(result, "deadlock", None) is not None:
        raise result.deadlock
    if not all(judgement.met for judgement in getattr(result, "judgements", ())):
        raise typer.Exit(OUT_OF_BOUNDS)


def compare(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="A B [C ...]",
            help="Scenarios, as FILE of varsim run, or directories of runs; each is compared with "
            "the first.",
        ),
    ],
    metric: Annotated[
        str,
        typer.Option(metavar="NAME", help="Compare by this metric; default: the throughput."),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write; default: reports/<A>_vs_<B>."),
    ] = None,
    seed: options.Seed = None,
    replications: options.Replications = None,
    sets: options.Sets = [],  # noqa: B006
    imports: options.Imports = [],  # noqa: B006
    strategy: options.Kinds = [],  # noqa: B006
    jobs: options.Jobs = "1",  # type: ignore[assignment]
    quiet: options.Quiet = False,
    format: options.Format = "table",
    all_rows: options.All = False,
    yes: options.Yes = False,
    engine: options.Engine = "auto",
) -> None:
    """Compare scenarios, strategy by strategy, with the same seed.

    Those that are run get the seed and the replications of the first directory; without one the
    seed of the first scenario, and the most replications of any.
    """
    import varsim
    from varsim.cli.console import Progress
    from varsim.report.files.directory import Origin, check_target, replaced
    from varsim.report.files.save import put_report

    options.check_all(all_rows, format)
    if len(files) < 2:
        raise typer.BadParameter("give two scenarios or more", param_hint="A B [C ...]")
    given = options.with_shorthands(sets, seed=seed, replications=replications)
    scenarios = [loaded(one, given, strategy) for one in files if not one.is_dir()]
    if not scenarios:
        _no_effect("--set", given, "these runs were made before")
        _no_effect("--strategy", strategy, "these runs were made before")
    for one in scenarios:
        refuse_excess(one, yes)
    made_by = use(engine, scenarios)
    stems = (re.sub(r"\.ya?ml$", "", one.resolve().name) for one in files)
    directory = out if out is not None else Path("reports") / "_vs_".join(stems)
    check_target(directory, "compare")
    try:
        with Progress(quiet) as progress:
            found = varsim.compare(
                *files,
                metric=metric,
                sets=given,
                strategies=strategy,
                jobs=options.processes(jobs),
                progress=progress,
            )
    except ValueError as error:
        refuse(str(error))
    told = found.report
    if other := replaced(directory, "compare", Origin(told.name, found.sha256)):
        complain(f"varsim: {other}")
    put_report(told, directory)
    show(told, format, [f"report: {directory / 'report.html'}"], every=all_rows)
    if made_by and not quiet:
        complain(made_by)


def check(
    file: options.File,
    sets: options.Sets = [],  # noqa: B006
    imports: options.Imports = [],  # noqa: B006
    strategy: options.Kinds = [],  # noqa: B006
    format: options.Prose = "table",
    all_rows: options.All = False,
    engine: options.Engine = "auto",
) -> None:
    """Validate a scenario and simulate its first iterations.

    Shows what a step of each strategy takes and waits for. For a sweep or plan: its axes, and how
    many runs they take.
    """
    options.check_all(all_rows, format)
    what = loaded(file, sets, strategy, every_kind=True)
    made_by = use_for(engine, what, file, times=True)
    if what.kind == "training":
        from varsim.study.beginning import impossible

        if why := impossible(what):
            refuse(why)
    checked = what.check()
    show(of_file(checked.report, file, ""), format, [], every=all_rows)
    if made_by and engine != "auto":
        complain(made_by)
    if checked.deadlock is not None:
        raise checked.deadlock


def explain(
    file: options.File,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="For variables: the first N steps; default: as many as fit in 20 rows.",
        ),
    ] = None,
    strategy: options.Kinds = [],  # noqa: B006
    sets: options.Sets = [],  # noqa: B006
    imports: options.Imports = [],  # noqa: B006
    format: options.Prose = "table",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="For training: write a page and a figure there, too."),
    ] = None,
    all_rows: options.All = False,
    quiet: options.Quiet = False,
    yes: options.Yes = False,
    engine: options.Engine = "auto",
) -> None:
    """Explain why training is slow, or what happens to variables.

    For training: the share of each cause in a step of each strategy, and what would help most; with
    --strategy or --all also what a step waits for, what is busiest, and every what-if. For
    variables: what each copy holds, what is sent where, and when, step by step.
    """
    options.check_all(all_rows, format)
    what = loaded(file, sets, strategy)
    made_by = use_for(engine, what, file, times=True)
    if what.kind == "variables":
        _no_effect("--all", all_rows, "variables are shown whole; --steps says how many steps")
        _no_effect("--out", out, "nothing is written for variables; varsim run writes a report")
        told, every = _story(what, file, steps), True
    else:
        why = f"{file} trains a model: choose among its strategies (--strategy)"
        _no_effect("--steps", steps, why)
        told, every = _why(what, out, quiet, yes), all_rows or bool(strategy)
    told = of_file(told, file, question(file, changed=sets))
    show(told, format, [], every=every)
    if out is not None:
        _write_why(told, out, format)
    if told.headline[0].code == "nothing-explained":
        complain("varsim: nothing to explain: no strategy kept making updates until the end")
        raise typer.Exit(ERROR)
    if made_by and engine != "auto":
        complain(made_by)


def _no_effect(option: str, given: object, why: str) -> None:
    if given:
        refuse(f"{option} has no effect: {why}")


def _story(what: Any, file: Path, steps: int | None) -> "Report":
    """What each copy holds, what is sent where, and when."""
    try:
        report: Report = what.explain(steps=steps).report
    except ValueError as error:
        complain(f"{file}: error: {error}: lower program.steps, or cluster.workers")
        raise typer.Exit(USAGE) from None
    return report


def _why(what: Any, out: Path | None, quiet: bool, sure: bool) -> "Report":
    """Why each strategy is as slow as it is."""
    from varsim.cli.console import Progress

    if out is not None:
        from varsim.report.files.directory import Origin, check_target, replaced

        check_target(out, "why")
        if other := replaced(out, "why", Origin.of(what)):
            complain(f"varsim: {other}")
    refuse_excess(what, sure, yardstick=False)
    with Progress(quiet) as progress:
        report: Report = what.explain(progress=progress).report
    return report


def _write_why(told: "Report", out: Path, format: str) -> None:
    """Write its page and figures, and where they are."""
    from varsim.report.files.save import put_report

    put_report(told, out)
    (write if format == "table" else complain)(f"report: {out / 'why.html'}")


def loaded(
    file: Path, sets: Iterable[str], strategies: Iterable[str], *, every_kind: bool = False
) -> Any:
    """What a file asks for; ScenarioError of a sweep or plan, unless `every_kind` is meant."""
    with _uncollected():
        from varsim.scenario.load import load

        try:
            if every_kind:
                what: Any = load(file, tuple(sets), tuple(strategies))
            else:
                from varsim.scenario.loading import load_scenario

                what = load_scenario(file, tuple(sets), tuple(strategies))
        except ValueError as error:
            if not every_kind:
                raise
            from varsim.scenario.fault import ScenarioError

            raise ScenarioError.of_file(str(file), str(error)) from None
    return what


@contextmanager
def _uncollected() -> Iterator[None]:
    """Nothing that is imported or made meanwhile is looked at by the garbage collector, ever."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def refuse_excess(what: Any, sure: bool, *, yardstick: bool = True) -> None:
    """End the command where a run would not end, or is too much unless somebody is sure.

    `yardstick`: whether one worker alone is run as well.
    """
    if what.kind == "variables":
        from varsim.study.program import excess as excess_of_messages

        said = "" if sure else excess_of_messages(what)
    else:
        from varsim.study import beginning
        from varsim.study.beginning import begin, rates

        scenario = what
        said, number = beginning.impossible(scenario), 0.0
        if not said and not sure:
            number = beginning.gradients(scenario)
            if number > beginning.MOST_GRADIENTS and scenario.stop.time is not None:
                number = beginning.gradients(scenario, rates(begin(scenario)))
            if yardstick:
                number += beginning.gradients_of_yardstick(scenario)
            said = beginning.excessive(number, beginning.hosts(scenario))
    if said:
        refuse(said)


def use(engine: EngineName, scenarios: "Iterable[AnyScenario]", among: float = 0.0) -> str:
    """Make the runs of these scenarios by an engine; refuse where it cannot. What to tell of it.

    `among`: gradients of all runs that one process makes, if it makes several.
    """
    from varsim.cluster.fast.choice import can_compile
    from varsim.study.simulation import engine_of

    if engine == "fast" and not can_compile():
        refuse("--engine fast needs numba: pip install 'varsim[fast]'")
    os.environ[ENGINE] = engine  # for the processes that are started, too
    if engine == "simpy":
        return ""
    against: dict[str, str] = {}
    picked: dict[str, bool] = {}
    for scenario in scenarios:
        for strategy in scenario.strategies:
            label = strategy.label
            found = engine_of(scenario, strategy, among)
            against[label] = against.get(label) or found.against
            picked[label] = picked.get(label, True) and found.fast
    slow = {label: reason for label, reason in against.items() if reason}
    if engine == "fast" and slow:
        label, reason = next(iter(slow.items()))
        refuse(f"--engine fast does not cover {label}: {reason}")
    fast = ", ".join(label for label, is_fast in picked.items() if is_fast)
    return f"varsim: simulated by the fast engine (times only): {fast}" if fast else ""


def use_for(engine: EngineName, what: Any, file: Path, *, times: bool = False) -> str:
    """The same for what a file asks for; `times`: whether only its times are looked at."""
    from varsim.scenario.training import Scenario
    from varsim.study.gradients import times_only

    if what.kind == "variables":
        _no_effect("--engine", engine != "auto", "programs of variables are run on SimPy")
        return ""
    if what.kind == "sweep":
        scenarios = [case.scenario for case in swept_of(what, file).cases]
    else:
        scenarios = [what.base if what.kind == "plan" else what]
    if times:
        scenarios = [times_only(one) if isinstance(one, Scenario) else one for one in scenarios]
    return use(engine, scenarios)


def swept_of(sweep: "Sweep", file: Path, part: tuple[int, int] = (1, 1)) -> "Grid":
    """What is run of a sweep; ScenarioError where it names a strategy that is not in the file."""
    from varsim.scenario.fault import ScenarioError
    from varsim.study.grid import Grid

    try:
        return Grid(sweep, part)
    except ValueError as error:
        raise ScenarioError.of_file(str(file), str(error)) from None
