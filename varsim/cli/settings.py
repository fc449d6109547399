"""How a run is to be made and shown, as the command line says."""

from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

Formats: TypeAlias = Literal["table", "json", "csv", "md"]


class Settings(NamedTuple):
    """What the options of `varsim run` say; `question` is the first line of the scenario."""

    question: str
    out: Path | None
    jobs: int
    quiet: bool
    format: Formats
    sure: bool = False  # whatever it takes

    def directory(self, name: str) -> Path:
        """Where the report of a scenario of this name goes."""
        return self.out if self.out is not None else Path("reports") / name


def question(file: Path) -> str:
    """What a scenario is to answer: its first line, if that is a comment."""
    from varsim.scenario.loading import STDIN, read_text

    if file == STDIN:
        first = read_text(file).partition("\n")[0].strip()
    else:
        with file.open(encoding="utf-8-sig") as lines:
            first = lines.readline(1000).strip()
    return first.lstrip("# ") if first.startswith("#") else ""
