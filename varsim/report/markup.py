"""HTML: elements whose text is escaped once, and in which nothing acts unseen."""

import json
from collections.abc import Iterable
from html import escape

from varsim.core.inert import visible


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(tag: str, *inside: str, **attributes: str | None) -> Html:
    """An element; of its attributes, `class_` is the class, None is none, `_` stands for `-`."""
    said = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{joined([value])}"'
        for name, value in attributes.items()
        if value is not None
    )
    end = "" if tag == "meta" else f"{joined(inside)}</{tag}>"
    return Html(f"<{tag}{said}>{end}")


def joined(parts: Iterable[str], between: str = "") -> Html:
    """Elements and text one after the other."""
    texts = (one if isinstance(one, Html) else escape(visible(one)) for one in parts)
    return Html(between.join(texts))


def data(content: object) -> Html:
    """Data for a script: nothing in it can end its element."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Html(text.replace("<", "\\u003c"))
