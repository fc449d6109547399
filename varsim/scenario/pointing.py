"""Where in a file the key or value lies that a message names; `wording` makes the messages."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from varsim.scenario.document import MappingNode, Node, ScalarNode, SequenceNode
from varsim.scenario.fault import Mark


def pointed(message: str, node: Node) -> Mark | None:
    """Place of the value or key that a message names, or None."""
    entries = list(_entries(node))
    names = _named(message)
    steps = _steps(node, names)
    if len(steps) == len(names) > 1:
        return steps[-1].mark
    named = re.search(r"'([^']+)'", message)
    if named:
        same = [entry.value_mark for entry in entries if entry.text == named[1]]
        if same:
            return same[-1]
    for key, value in re.findall(r"(?=\b([A-Za-z_]\w*) ([\w.+-]+))", message):
        for entry in entries:
            if entry.key == key and entry.text == value.rstrip("."):
                return entry.value_mark
    for entry in entries:
        if names and entry.key == names[0]:
            return entry.key_mark
    # A message about a file names the whole path.
    for entry in entries:
        if entry.key != "kind" and len(entry.text) > 2 and entry.text in message.split(": ")[0]:
            return entry.value_mark
    return None


def with_indexes(message: str, node: Node) -> str:
    """The message with the path that it begins with as paths are told: `strategies[1].name`."""
    names = _named(message)
    steps = _steps(node, names)
    told = "".join(step.told for step in steps).removeprefix(".")
    return message.replace(".".join(names[: len(steps)]), told, 1)


def _named(message: str) -> list[str]:
    """The path that a message begins with: of `the strategies.1.name is ...` the three steps."""
    path = re.match(r"(?:an? |the )?([A-Za-z_]\w*(?:\.\w+)*)", message)
    return path[1].split(".") if path else []


@dataclass(frozen=True, slots=True)
class _Entry:
    key: str
    key_mark: Mark
    text: str
    value_mark: Mark


def _entries(node: Node) -> Iterator[_Entry]:
    """Every key of the tree, the outermost first."""
    level: Sequence[Node] = [node]
    while level:
        below: list[Node] = []
        for one in level:
            if isinstance(one, SequenceNode):
                below += one.items
            elif isinstance(one, MappingNode):
                for key, value in one.values.items():
                    text = value.text if isinstance(value, ScalarNode) else ""
                    yield _Entry(key, one.keys[key], text, value.mark)
                below += one.values.values()
        level = below


class _Step(NamedTuple):
    told: str
    mark: Mark


def _steps(node: Node, names: Iterable[str]) -> list[_Step]:
    """Steps of a path such as `program.outside.2.every`, as far as it leads: `.outside`, `[2]`."""
    steps: list[_Step] = []
    for name in names:
        if isinstance(node, MappingNode) and name in node.values:
            steps.append(_Step(f".{name}", node.keys[name]))
            node = node.values[name]
        elif isinstance(node, SequenceNode) and name.isdecimal() and int(name) < len(node.items):
            node = node.items[int(name)]
            steps.append(_Step(f"[{name}]", node.mark))
        else:
            break
    return steps
