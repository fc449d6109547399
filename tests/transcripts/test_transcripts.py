"""What varsim says, word for word: every transcript is a session of commands and what they print.

A line `$ COMMAND` begins a command, what follows is its output (results and complaints as they
come) and, unless it is 0, the exit code in brackets. A session has the scenarios that lie beside
it and the bundled ones, starts in an empty folder and is 100 columns wide. Besides `varsim` there
are `words PAGE` (the text of a page, with what its figures show), `ls`, `cat`, and `| head -N`.
No other test quotes a sentence.
"""

import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from shutil import copy

import pytest
from typer.testing import CliRunner

from tests.seams import app as cli

HERE = Path(__file__).parent
BUNDLED = HERE.parent.parent / "scenarios"
ENGINE = r"(?m)^varsim: simulated by the fast engine .*\n(?:  .*\n)*"  # where numba is installed
# On a slow machine a command says how far it is.
PROGRESS = (
    r"(?m)^varsim: (?:\d+ of \d+ runs|no run)(?:, about .* left| done after \d+ s)?(?:; .*)?\n"
)


@pytest.mark.timeout(110)
@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_it_says_what_was_approved(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, approve: bool
) -> None:
    for file in (*HERE.glob("*.*"), *BUNDLED.glob("*.yaml")):
        copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    said = path.read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (.*)$", said, re.M)
    now = "\n".join(f"$ {command}\n{output(command)}" for command in commands)
    if approve:
        path.write_text(now, encoding="utf-8")
    else:
        assert now == said


def output(command: str) -> str:
    """What a command prints, `[exit N]` below it if that is not 0."""
    (name, *arguments), *rest = _piped(command)
    if name == "varsim":
        done = CliRunner().invoke(cli.app, arguments)
        printed, code = re.sub(PROGRESS, "", re.sub(ENGINE, "", done.output)), done.exit_code
    else:
        (given,), code = arguments, 0
        printed = {"words": words, "ls": listed, "cat": Path.read_text}[name](Path(given))
    if printed and not printed.endswith("\n"):
        printed += "\n"
    for head in rest:
        printed = "".join(printed.splitlines(keepends=True)[: int(head[1].removeprefix("-"))])
    printed = re.sub(r"\b[0-9a-f]{64}\b", "<sha256>", printed)  # another with every new key
    return printed + (f"[exit {code}]\n" if code else "")


def _piped(command: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in shlex.split(command, comments=True):
        if word == "|":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def listed(folder: Path) -> str:
    """The files of a folder, one a line."""
    return "".join(f"{path.name}\n" for path in sorted(folder.iterdir()))


def words(page: Path) -> str:
    """The text of a page, a line for each block, without what figures hold but their meaning."""
    reader = _Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    reader.close()
    return reader.text


class _Reader(HTMLParser):
    """Gathers what can be read on a page."""

    SILENT = frozenset({"script", "style", "head"})
    INLINE = frozenset({"a", "abbr", "b", "code", "em", "i", "small", "span", "strong", "td", "th"})

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = [""]
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.SILENT | {"svg"}:
            self._silent += 1
        if tag == "svg" and dict(attrs).get("aria-label"):
            self._lines += [f"[{dict(attrs)['aria-label']}]", ""]
        self._lines[-1] += {"td": " | ", "th": " | ", "small": ": "}.get(tag, "")
        self._between(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.SILENT | {"svg"}:
            self._silent -= 1
        self._between(tag)

    def _between(self, tag: str) -> None:
        if tag not in self.INLINE and not self._silent:
            self._lines.append("")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._lines[-1] += data

    @property
    def text(self) -> str:
        lines = (" ".join(line.split()).strip("| ") for line in self._lines)
        return "".join(f"{line}\n" for line in lines if line)
