"""How a page is written: for a terminal of some width, or in Markdown for slides."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, Protocol

from varsim.report.explain.flow import flow
from varsim.report.explain.table import Line

_GAP: Final = "  "
_LABEL: Final = 11
_LEAST_WHAT: Final = 30
_COPIES: Final = "copies"
_HEADINGS: Final = ("when", "who", "what happens", f"{_COPIES} after")


class Medium(Protocol):
    """What a page is made of."""

    def title(self, text: str) -> Iterator[str]:
        """The first line."""

    def heading(self, text: str) -> Iterator[str]:
        """The beginning of a part."""

    def entries(self, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
        """Labels, each with what it stands for; an empty one goes on with the last."""

    def paragraphs(self, texts: Sequence[str]) -> Iterator[str]:
        """Texts one below the other."""

    def table(self, lines: Sequence[Line]) -> Iterator[str]:
        """What happened, line by line."""


class Terminal:
    """Plain text of at most so many columns."""

    def __init__(self, width: int) -> None:
        self._width = width

    def title(self, text: str) -> Iterator[str]:
        """See Medium."""
        yield text

    def heading(self, text: str) -> Iterator[str]:
        """See Medium."""
        yield ""
        yield f"== {text} ".ljust(self._width, "=")

    def entries(self, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
        """See Medium."""
        yield ""
        for label, text in pairs:
            first, *rest = flow(text, self._width - _LABEL)
            yield f"{label:<{_LABEL}}{first}"
            yield from (" " * _LABEL + line for line in rest)

    def paragraphs(self, texts: Sequence[str]) -> Iterator[str]:
        """See Medium."""
        for text in texts:
            yield from flow(text, self._width)

    def table(self, lines: Sequence[Line]) -> Iterator[str]:
        """The copies have a column where that leaves enough room, else lines below."""
        when = max(len(line.when) for line in lines)
        name = max(len(line.who) for line in lines)
        left = self._width - when - name - 2 * len(_GAP)
        copies = max(len(_HEADINGS[-1]), *(len(text) for line in lines for text in line.copies))
        aside = left - len(_GAP) - copies >= max(_LEAST_WHAT, copies)
        widths = [when, name, *([left - len(_GAP) - copies, copies] if aside else [left])]
        yield ""
        yield from _row([[text] for text in _HEADINGS[: len(widths)]], widths)
        yield _GAP.join("-" * width for width in widths)
        for line in lines:
            if line.heading:
                yield line.heading
                continue
            what = flow(line.what, widths[2])
            if line.sent:
                what += flow(f"sent: {line.sent}", widths[2], "      ")
            if not aside:
                what += _below(line.copies, widths[2])
            cells = [[line.when.rjust(when)], [line.who], what, list(line.copies)]
            yield from _row(cells[: len(widths)], widths)
        yield ""


class Markdown:
    """Markdown, whose tables have a column for what is sent."""

    def title(self, text: str) -> Iterator[str]:
        """See Medium."""
        yield f"# {text}"
        yield ""

    def heading(self, text: str) -> Iterator[str]:
        """See Medium."""
        yield f"## {text}"
        yield ""

    def entries(self, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
        """See Medium."""
        for label, text in pairs:
            yield f"- {label}: {text}" if label else f"- {text}"
        yield ""

    def paragraphs(self, texts: Sequence[str]) -> Iterator[str]:
        """See Medium."""
        for text in texts:
            yield from (text, "")

    def table(self, lines: Sequence[Line]) -> Iterator[str]:
        """See Medium."""
        yield f"| {' | '.join((*_HEADINGS[:-1], 'sent', _HEADINGS[-1]))} |"
        yield "| ---: | --- | --- | --- | --- |"
        for line in lines:
            first = f"**{line.heading}**" if line.heading else line.when
            cells = (first, line.who, line.what, line.sent, "; ".join(line.copies))
            yield "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
        yield ""


def _below(copies: Sequence[str], width: int) -> list[str]:
    """The copies in lines of their own."""
    label = f"{_COPIES}: "
    lines = [line for text in copies for line in flow(text, width - len(label))]
    return [f"{' ' * len(label) if index else label}{line}" for index, line in enumerate(lines)]


def _row(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    """The lines of a row of cells, each of several lines."""
    for texts in zip_longest(*cells, fillvalue=""):
        padded = [f"{text:<{width}}" for text, width in zip(texts, widths, strict=True)]
        yield _GAP.join(padded).rstrip()
