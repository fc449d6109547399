"""The command line: parses, calls, prints; results to stdout, progress and complaints to stderr."""

import atexit
import codecs
import gc
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from varsim.cli import campaigns, measurements, runs
from varsim.cli.console import (
    DONE,
    PLAIN,
    Command,
    CommandGroup,
    StoppedByUser,
    Stopper,
    flush,
    plain,
    refuse,
    write,
)
from varsim.cli.options import Imports
from varsim.core.gone import TABLES

__all__ = ["StoppedByUser", "app", "main"]

app = typer.Typer(
    cls=CommandGroup,
    name="varsim",
    help="Simulate how distributed training keeps its variables in sync, on real values.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

CATALOGUE: Final = (
    "scenarios",
    "strategies",
    "distributions",
    "networks",
    "collectives",
    "partitioners",
    "problems",
    "optimizers",
    "staleness_policies",
    "actions",
    "devices",
    "links",
    "failures",
    "models",
    "speeds",
    "objectives",
)


def table_name(text: str) -> str:
    """One of CATALOGUE."""
    if text in TABLES:
        raise typer.BadParameter(f"there is no table {text} any more: {TABLES[text]}")
    if text not in CATALOGUE:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(CATALOGUE)}")
    return text


@app.callback(invoke_without_command=True)
def options(
    wanted: Annotated[bool, typer.Option("--version", help="The same as varsim version.")] = False,
) -> None:
    """What may stand before the command, or alone."""
    if wanted:
        version()
        flush()
        raise typer.Exit(DONE)


COMMANDS: Final = (
    runs.run,
    runs.compare,
    campaigns.sweep,
    campaigns.explore,
    campaigns.merge,
    campaigns.plan,
    campaigns.tune,
    measurements.calibrate,
    measurements.stragglers,
    runs.check,
    runs.explain,
)
for each in COMMANDS:
    app.command(cls=Command)(each)


@app.command(cls=Command)
def schema(imports: Imports = []) -> None:  # noqa: B006
    """Print the JSON Schema of a scenario."""
    import json

    from varsim.scenario.load import file_schema

    write(json.dumps(file_schema(), indent=2, ensure_ascii=False))


@app.command(cls=Command)
def new(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write it; - prints it.")
    ] = Path("scenario.yaml"),
    like: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Begin with a bundled scenario: varsim list scenarios."),
    ] = None,
) -> None:
    """Write a short scenario with comments to begin with."""
    from varsim.cli.catalogue import beginning
    from varsim.scenario.loading import STDIN

    text = beginning(file, like)
    if file == STDIN:
        write(text.removesuffix("\n"))
        return
    try:
        with file.open("x", encoding="utf-8", newline="\n") as opened:
            opened.write(text)
    except FileExistsError:
        refuse(f"{file} is there and is not overwritten: give another name")
    except OSError as error:
        refuse(f"{file} cannot be written: {error.strerror}")
    write(f"written: {file}\nnext: varsim run {file}")


@app.command(name="list", cls=Command)
def list_(
    what: Annotated[
        str | None,
        typer.Argument(
            parser=table_name,
            metavar="TABLE",
            help=f"What to list; default: an overview. There are {', '.join(CATALOGUE)}.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One of them, with its keys.")
    ] = None,
    imports: Imports = [],  # noqa: B006
) -> None:
    """List what a scenario can name."""
    from varsim.cli.catalogue import printed

    printed(what, name)


app.command(cls=Command)(measurements.validate)


@app.command(cls=Command)
def version() -> None:
    """Print the versions that determine a result."""
    from varsim.version import ENGINE_VERSION, SCHEMA_VERSION, __version__

    write(f"varsim {__version__} (scenario schema {SCHEMA_VERSION}, engine {ENGINE_VERSION})")


def main() -> None:
    """Entry point of the command `varsim`."""
    # Collections look at everything that was imported, again and again, the last ones at the end.
    gc.set_threshold(200_000)
    atexit.register(gc.freeze)
    # More threads are never used (see one_blas_thread).
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # What is left of a pool whose parent was killed Python clears away; that is no news.
    quiet = "ignore:resource_tracker:UserWarning"
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [os.getenv("PYTHONWARNINGS"), quiet]))
    limit_memory()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us: `>&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        with suppress(AttributeError):
            getattr(sys, name).reconfigure(errors=PLAIN)
    codecs.register_error(PLAIN, plain)
    with Stopper() as stopper:
        app(obj=stopper)


def limit_memory() -> None:
    """What outgrows the memory of this machine, or container, fails and says so; on Linux."""
    if sys.platform != "linux":
        return
    import resource

    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no such limit, or "max"
        there = min(there, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft == resource.RLIM_INFINITY or soft > there:
        resource.setrlimit(resource.RLIMIT_DATA, (there, hard))
