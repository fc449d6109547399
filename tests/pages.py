"""Pages of the documentation, and what is fenced in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def page(name: str) -> str:
    """The text of a page of the documentation."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def fenced(text: str) -> list[tuple[str, str]]:
    """(language, content) of every fenced block of a text."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def blocks(language: str, text: str) -> list[str]:
    return [content for label, content in fenced(text) if label == language]
