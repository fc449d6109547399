"""Text of others made harmless: for a terminal, a page, Markdown, and spreadsheets that open CSV.

Names in a scenario may be anything. None of it is to act: no control sequence, no reordering of
what is read, no markup, no formula.
"""

import csv
import io
import math
import re
from collections.abc import Iterable
from typing import Any, Final

# Of the characters that show nothing but change how others are shown, those that do no good:
# controls (C0, C1), marks and overrides of direction, invisible ones, surrogates, tags.
_UNSEEN: Final = (
    *((0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F), (0x061C, 0x061C), (0x180E, 0x180E)),
    *((0x200B, 0x200B), (0x200E, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0xD800, 0xDFFF)),
    *((0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB), (0xE0000, 0xE007F)),
)
_VISIBLE: Final = re.compile(
    "[" + "".join(f"{re.escape(chr(low))}-{re.escape(chr(high))}" for low, high in _UNSEEN) + "]"
)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "'")
# Inline markup of Markdown, the brackets of links and images, and the beginning of a character
# reference; other signs (_ between words, braces, a lone bracket) do nothing.
_MARKUP: Final = re.compile(r"[\\`*<|~]|(?<=\])[(\[:]|&(?=#?\w+;)|__+|(?<!\w)_|_(?!\w)")

# Signs of tables, and what stands for them where an encoding lacks them.
SIGNS: Final = {"±": "+-", "─": "-", "·": "-"}


class Drawn(str):
    """Text that was made for a terminal out of harmless parts: its control sequences are ours."""

    __slots__ = ()


def visible(text: str) -> str:
    r"""The text with every character that would act unseen as its escape, such as \u202e."""
    return _VISIBLE.sub(lambda found: _escape(ord(found[0])), text)


def markdown(text: str) -> str:
    """Text as part of a line of Markdown: shown as it is, and nothing in it is markup."""

    def shown(found: re.Match[str]) -> str:
        return {"<": "&lt;", "&": "&amp;"}.get(found[0]) or "\\" + "\\".join(found[0])

    return _MARKUP.sub(shown, visible(text).replace("\n", " "))


def cell(text: str) -> str:
    """Text as a cell of CSV: behind a ' where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def number_or_cell(text: str) -> str:
    """`cell`, but for text that is a number: that stays as it is."""
    try:
        return text if math.isfinite(float(text)) else cell(text)
    except ValueError:
        return cell(text)


def row(cells: Iterable[Any]) -> list[Any]:
    """A row of CSV: `cell` of every text; numbers stay as they are."""
    return [cell(one) if isinstance(one, str) else one for one in cells]


def field(text: str) -> str:
    """Text as a cell of CSV, quoted where it has to be."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([cell(text)])
    return line.getvalue()


def _escape(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
