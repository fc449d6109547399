"""Changes of a scenario's tree: a value set at a path, by `--set` or by a sweep."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Final

from pydantic import BaseModel

from varsim.core.table import as_kind
from varsim.core.units import span
from varsim.scenario.document import MappingNode, Node, ScalarNode, SequenceNode, read_document
from varsim.scenario.fault import Fault, Mark, Source, nearest, printable, quoted
from varsim.scenario.shape import Shape, field_names, members, read_from

# `--set a.b=1`, once or again and again, as it stands in a sentence.
_TYPED: Final = re.compile(r"--set (?:'[^']*'|\S+?)(?: --set (?:'[^']*'|\S+?))*(?=[.;:,)]*(?: |$))")
_EACH: Final = re.compile(r"--set (?:'([^']*)'|(\S+))")


def in_python(text: str, call: str = "replace({})") -> str:
    """A text in which changes are given as in Python, not as typed after `--set`."""

    def given(found: re.Match[str]) -> str:
        changes = [held or bare for held, bare in _EACH.findall(found[0])]
        pairs = (f"{json.dumps(key)}: {_given(value)}" for key, _, value in map(_parted, changes))
        return call.format(f"{{{', '.join(pairs)}}}")

    return _TYPED.sub(given, text)


def _parted(change: str) -> tuple[str, str, str]:
    return change.partition("=")


def _given(value: str) -> str:
    """A value as Python has it: a number, a list of numbers, or text as in a file."""
    if all(part.isdecimal() for part in value.split(",")):
        return f"[{value.replace(',', ', ')}]" if "," in value else value
    return json.dumps(value, ensure_ascii=False)


class ChangeError(ValueError):
    """A change that cannot be made."""


def changed(root: Node | None, change: str, order: int, model: type[BaseModel]) -> list[Fault]:
    """Apply one `key.path=value` to the tree; return its faults."""
    path, equals, text = change.partition("=")
    source = Source(f"--set {change}", order=order)
    mark = Mark(source, 1, 1)
    if not equals or not path.strip():
        return [Fault.at(mark, "write --set key.path=value, for example --set cluster.workers=4")]
    value, faults = read_document(text, source)
    if faults:
        return [Fault.at(mark, fault.message) for fault in faults]
    if value is None:
        return [Fault.at(mark, "there is no value after '='")]
    remark(value, mark)
    if not isinstance(root, MappingNode):
        return []
    try:
        put(root, steps(path, root), value, model)
    except ChangeError as error:
        return [Fault.at(mark, str(error))]
    return []


def steps(path: str, root: Node | None = None) -> list[str]:
    """`strategies[0].on.network` -> its keys and indexes.

    A strategy may be named by its name, or its kind as a file may spell it,
    `strategies.sync_replicas.on`: that becomes its index in the list of `root`. Raises ChangeError
    where it is no path, or names none or several.
    """
    whole = re.sub(r"^( *strategies\.)(tf\.)?VariableSynchronization\.", r"\1", path)
    found = [step.strip() for step in re.sub(r"\[([^\]]*)\]", r".\1", whole).split(".")]
    if not all(found) or len(found) > 32:
        raise ChangeError(f"{quoted(path)} is not a path such as strategies.0.read_every")
    listed = root.values.get("strategies") if isinstance(root, MappingNode) else None
    if found[0] == "strategies" and len(found) > 1 and isinstance(listed, SequenceNode):
        named = found[1]
        found[1] = _strategy(named, listed)
        if len(found) > 2 and not re.fullmatch("-?[0-9]+", found[1]):
            there = _called(listed)
            meant = nearest(named, there)
            instead = f"; did you mean strategies.{meant}?" if meant else ""
            if there and not meant:
                instead = f"; there are: {', '.join(dict.fromkeys(map(printable, there)))}"
            raise ChangeError(f"no strategy has the name or kind {quoted(named)}{instead}")
    return found


def put(root: MappingNode, path: Sequence[str], value: Node, model: type[BaseModel]) -> None:
    """Set the value at a path of keys and indexes, creating mappings on the way.

    A value that was read from a file is dropped when the file is replaced.
    Raises ChangeError where there is no such path.
    """
    node: Node = root
    shapes = [Shape(model)]
    for depth, step in enumerate(path):
        so_far, last = ".".join(path[:depth]), depth == len(path) - 1
        if isinstance(node, SequenceNode):
            index = _index(step, node, so_far)
            if last:
                node.items[index] = value
            else:
                node = node.items[index]
        elif isinstance(node, MappingNode):
            if last and (outdated := read_from(shapes, step)) in node.values:
                del node.keys[outdated], node.values[outdated]
            if last or step not in node.values or _is_null(node.values[step]):
                node.keys[step] = value.mark
                node.values[step] = value if last else _begun(root, path[: depth + 1], value.mark)
            node = node.values[step]
        elif step in field_names(shapes):
            raise ChangeError(
                f"{so_far} is {quoted(node.text)}: write --set '{so_far}={{{step}: ...}}'"
            )
        else:
            raise ChangeError(f"{so_far} is {quoted(node.text)}: there is no {quoted(step)} in it")
        shapes = members(shapes, int(step) if step.isdecimal() else step)


def found_at(root: Node, path: Sequence[str]) -> Node | None:
    """The value at a path; None where there is none."""
    node: Node | None = root
    for step in path:
        if isinstance(node, MappingNode):
            node = node.values.get(step)
        elif isinstance(node, SequenceNode) and step.isdecimal() and int(step) < len(node.items):
            node = node.items[int(step)]
        else:
            return None
    return node


def remark(node: Node, mark: Mark) -> None:
    """Set the place of a whole tree, as all of a `--set` has one place."""
    node.mark = mark
    if isinstance(node, MappingNode):
        node.keys = dict.fromkeys(node.keys, mark)
        for value in node.values.values():
            remark(value, mark)
    elif isinstance(node, SequenceNode):
        for item in node.items:
            remark(item, mark)


def _begun(root: MappingNode, path: Sequence[str], mark: Mark) -> MappingNode:
    """New mapping at a path: empty, but a strategy's optimizer starts as the workload's."""
    if len(path) == 3 and (path[0], path[2]) == ("strategies", "optimizer"):
        shared = found_at(root, ("workload", "optimizer"))
        if isinstance(shared, MappingNode):
            return MappingNode(mark, dict(shared.keys), dict(shared.values))
    return MappingNode(mark)


def _strategy(step: str, listed: SequenceNode) -> str:
    """Index of a strategy that is given by index, name or kind."""
    if re.fullmatch("-?[0-9]+", step):
        return step
    ways: Sequence[tuple[str, Callable[[str], str]]]
    ways = (("name", str), ("kind", str), ("kind", as_kind))
    for key, spelt in ways:
        meant = [
            index
            for index, item in enumerate(listed.items)
            if isinstance(item, MappingNode)
            and isinstance(one := item.values.get(key), ScalarNode)
            and spelt(one.text) == spelt(step)
        ]
        if len(meant) > 1:
            indexes = " or ".join(f"strategies.{index}" for index in meant)
            raise ChangeError(f"several strategies have {key} {quoted(step)}: write {indexes}")
        if meant:
            return str(meant[0])
    return step


def _called(listed: SequenceNode) -> list[str]:
    items = [item.values for item in listed.items if isinstance(item, MappingNode)]
    nodes = [values.get(key) for values in items for key in ("name", "kind")]
    return [node.text for node in nodes if isinstance(node, ScalarNode)]


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value is None


def _index(step: str, node: SequenceNode, so_far: str) -> int:
    count = len(node.items)
    if not re.fullmatch("[0-9]{1,6}", step):
        raise ChangeError(f"{so_far} is a list: write {so_far}.0.{step}")
    if int(step) >= count:
        have = span(0, count - 1) or "none"
        raise ChangeError(f"{so_far} has no entry {int(step)}; entries: {have}")
    return int(step)
