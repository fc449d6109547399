"""How a run is to be made and shown, as the command line says."""

from pathlib import Path
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias

import typer

from varsim.cli.console import USAGE, complain

IN_A_PIPE: Final = 80  # columns of a text to read on
NARROWEST: Final = 40

Formats: TypeAlias = Literal["table", "json", "csv", "md"]


class Settings(NamedTuple):
    """What the options of `varsim run` say; `question` is the first line of the scenario."""

    question: str
    out: Path | None
    jobs: int
    quiet: bool
    format: Formats
    sure: bool = False  # whatever it takes
    plots: bool = True
    strategies: tuple[str, ...] = ()  # the kinds or labels of those that are wanted
    all_rows: bool = False

    def directory(self, name: str) -> Path:
        """Where the report of a scenario of this name goes."""
        return self.out if self.out is not None else Path("reports") / name


class Asking(NamedTuple):
    """What the options of `varsim explain` say; some are of training, others of variables."""

    file: Path
    strategies: tuple[str, ...]
    modes: tuple[str, ...]
    steps: int | None
    format: Literal["table", "md", "json"]
    out: Path | None
    quiet: bool
    sure: bool

    def refuse_of_training(self) -> None:
        """End the command where options were given that are about training."""
        if self.format == "json":
            _refuse("--format json", "variables are told step by step, as a table or as Markdown")
        if self.out is not None:
            _refuse("--out", "of variables nothing is written; varsim run writes a report")

    def refuse_of_variables(self) -> None:
        """End the command where options were given that are about variables."""
        why = f"{self.file} trains; it has strategies (--strategy), and all of a run is looked at"
        if self.modes:
            _refuse("--mode", why)
        if self.steps is not None:
            _refuse("--steps", why)


def _refuse(option: str, why: str) -> NoReturn:
    complain(f"varsim: {option} has no effect: {why}")
    raise typer.Exit(USAGE)


def text_width() -> int:
    """The width of a text to read on: that of the terminal, within bounds."""
    from varsim.report.terminal import WIDEST, columns

    return max(NARROWEST, min(columns() or IN_A_PIPE, WIDEST))


def question(file: Path) -> str:
    """What a scenario is to answer: its first line, if that is a comment."""
    from varsim.scenario.loading import STDIN, read_text

    if file == STDIN:
        first = read_text(file).partition("\n")[0].strip()
    else:
        with file.open(encoding="utf-8-sig") as lines:
            first = lines.readline(1000).strip()
    return first.lstrip("# ") if first.startswith("#") else ""
