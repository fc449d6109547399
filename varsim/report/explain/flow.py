"""Text in lines of a given width, in which a formula or a quantity stays in one piece."""

import re
from textwrap import wrap
from typing import Final

# What is not torn apart at its spaces: `6 = 3 + 1 + 2`, `3 | 1 | 2`; `4 B`, `50.1 us`, `ps 0`.
_FORMULA: Final = re.compile(r"\S+(?: [|+/=] \S+)+")
_QUANTITY: Final = re.compile(r"(?<=[0-9]) (?=(?:[kMGT]?B|[num]?s|%)\b)|(?<=\b(?:ps|to)) (?=[0-9])")
_FIXED: Final = "\N{NO-BREAK SPACE}"


def flow(text: str, width: int, indent: str = "") -> list[str]:
    """The lines, all but the first indented; what is longer than a line is torn after all."""

    def whole(match: re.Match[str]) -> str:
        fits = len(match[0]) <= width - len(indent)
        return match[0].replace(" ", _FIXED) if fits else match[0]

    fixed = _QUANTITY.sub(_FIXED, _FORMULA.sub(whole, text))
    lines = wrap(fixed, width, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace(_FIXED, " ") for line in lines]
