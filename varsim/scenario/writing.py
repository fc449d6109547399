"""Writer of scenarios as YAML: keys with their units, defaults written out."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import BaseModel

from varsim.scenario.document import resolve
from varsim.scenario.extensions import needs
from varsim.scenario.wording import NEEDS
from varsim.values.schema import Grown


class ShownAsFile(Grown):
    """A scenario, shown as the file that says the same."""

    def __repr__(self) -> str:
        return dump_scenario(self)

    __str__ = __repr__


def dump_scenario(scenario: BaseModel) -> str:
    """The whole scenario as YAML, defaults written out; loading it gives an equal Scenario.

    At its end stands what it needs that is not varsim's own.
    """
    content = scenario.model_dump(mode="json", exclude_none=True)
    return "\n".join(block(content)) + "\n" + needs_text(scenario)


def needs_text(*scenarios: BaseModel) -> str:
    """What scenarios need that is not varsim's own, as comments of a scenario file."""
    needed = dict.fromkeys(need for scenario in scenarios for need in needs(scenario))
    return "".join(f"{NEEDS}{need.said}\n" for need in needed)


def block(content: Mapping[str, object], indent: str = "") -> Iterator[str]:
    """The lines of a mapping, its kind first; short lists stay on one line."""
    for key, value in sorted(content.items(), key=lambda item: item[0] != "kind"):
        short = f"{indent}{key}: {flow(value)}"
        if not isinstance(value, dict | list) or not value:
            yield short
        elif isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from block(value, indent + "  ")
        elif all(isinstance(item, dict) for item in value):
            yield f"{indent}{key}:"
            for item in value:
                lines = list(block(item, indent + "    ")) or [f"{indent}    {{}}"]
                yield f"{indent}  - {lines[0].strip()}"
                yield from lines[1:]
        elif len(short) <= _LINE:
            yield short
        else:
            yield f"{indent}{key}:"
            for item in value:
                yield f"{indent}  - {flow(item)}"


def flow(value: object) -> str:
    """A value on one line of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and not _needs_quotes(value):
        return value
    if isinstance(value, str):
        return '"' + "".join(map(_escaped, value)) + '"'
    return "null" if value is None else repr(value)


def _needs_quotes(text: str) -> bool:
    if not _PLAIN.fullmatch(text):
        return True
    try:
        return resolve(text) != text
    except ValueError:
        return True


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    if letter.isprintable():
        return letter
    code = ord(letter)
    return (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )


_LINE: Final = 100
# Kept narrow: whatever is not sure to be read back as the same text is quoted.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_+./](?:[A-Za-z0-9_+./ -]*[A-Za-z0-9_+./-])?")
