"""A scenario from a YAML file, with changes from the command line; and back to YAML."""

import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from varsim.load.document import (
    LARGEST_TEXT,
    NOTHING,
    Broken,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    plain,
    read_document,
    resolve,
)
from varsim.load.fault import Fault, Mark, ScenarioError, Source, nearest, quoted
from varsim.load.shape import Shape, field_names, members
from varsim.load.wording import faults_of
from varsim.scenario import Scenario
from varsim.variables import VariablesScenario

__all__ = ["ScenarioError", "dump_scenario", "load_scenario", "load_text", "scenario_schema"]

_LINES: Final = "a scenario is made of lines 'key: value'"

AnyModel = TypeVar("AnyModel", bound=BaseModel)


def load_scenario(path: str | Path, sets: Sequence[str] = ()) -> Scenario | VariablesScenario:
    """The scenario of a file. Each of `sets` is `key.path=value`, as after `--set`.

    Raises ScenarioError with everything that is wrong with the file and the changes.
    """
    if isinstance(sets, str):
        raise TypeError(f"sets is a list of changes: load_scenario(path, [{sets!r}])")
    path = Path(path)
    return load_text(_read(path), str(path), path.parent, sets)


def load_text(
    text: str, name: str = "scenario", folder: Path = Path(), sets: Sequence[str] = ()
) -> Scenario | VariablesScenario:
    """The scenario of a YAML text; `name` is what errors call it, files are found in `folder`."""
    return validated(_model(text, name), text, name, folder, sets)


def _model(text: str, name: str) -> type[Scenario] | type[VariablesScenario]:
    """What a file is to become: a scenario of training, which has no kind, or one of variables.

    ScenarioError where its kind is none of these, or where it is left out of one of variables.
    """
    root, _ = read_document(text, Source(name, _lines(text)))
    if not isinstance(root, MappingNode):
        return Scenario
    kind = root.values.get("kind")
    if kind is None:
        own = [key for key in ("program", "variables") if key in root.keys]
        if own and "strategies" not in root.keys:
            mark = root.keys[own[0]]
            raise ScenarioError([Fault.at(mark, f"{own[0]} belongs to 'kind: variables': add it")])
        return Scenario
    if isinstance(kind, ScalarNode) and kind.text == "variables":
        return VariablesScenario
    said = quoted(kind.text) if isinstance(kind, ScalarNode) else "a list or mapping"
    message = f"unknown kind {said}; write 'kind: variables', or leave it out to train a model"
    raise ScenarioError([Fault.at(kind.mark, message)])


def validated(
    model: type[AnyModel], text: str, name: str, folder: Path, sets: Sequence[str] = ()
) -> AnyModel:
    """A model of any class from YAML text; see `load_scenario`."""
    source = Source(name, _lines(text))
    root, faults = read_document(text, source)
    if root is None and not faults:
        faults = [Fault(source, 0, 0, NOTHING)]
    for order, change in enumerate(sets, 1):
        faults += _changed(root, change, order, model)
    left_out = 0
    if isinstance(root, MappingNode):
        try:
            result = model.model_validate(plain(root), context={"text": True, "folder": folder})
        except ValidationError as error:
            refused, left_out = faults_of(error, root, model)
            faults += refused
        else:
            if not faults:
                return result
    elif isinstance(root, SequenceNode):
        faults.append(Fault.at(root.mark, f"{_LINES}; this is a list"))
    elif root is not None and not isinstance(root.value, Broken):
        faults.append(Fault.at(root.mark, f"{_LINES}; this is the text {quoted(root.text)}"))
    raise ScenarioError(faults, left_out)


def dump_scenario(scenario: Scenario | VariablesScenario) -> str:
    """The whole scenario as YAML, defaults written out; loading it gives an equal Scenario."""
    content = scenario.model_dump(mode="json", exclude_none=True)
    return "\n".join(_block(content)) + "\n"


def scenario_schema() -> dict[str, Any]:
    """The JSON Schema of a scenario file, of training or of variables, for editors."""
    kinds: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        (model, "validation") for model in (Scenario, VariablesScenario)
    ]
    places, schema = models_json_schema(kinds)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Scenario of varsim",
        "oneOf": [places[kind] for kind in kinds],
        "$defs": _tidied(schema["$defs"]),
    }


def _tidied(schema: object) -> object:
    """Without the bounds that pydantic leaves beside a quantity, where no one reads them."""
    if isinstance(schema, list):
        return [_tidied(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    strays = ("gt", "ge", "lt", "le") if "anyOf" in schema else ()
    return {key: _tidied(item) for key, item in schema.items() if key not in strays}


# Reading a file


def _read(path: Path) -> str:
    """The text of a file; ScenarioError with one line where there is none to be had."""
    source = Source(str(path))

    def refused(reason: str) -> ScenarioError:
        return ScenarioError([Fault(source, 0, 0, reason)])

    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise refused(f"this is a folder{_offers(path)}")
        if not stat.S_ISREG(status.st_mode):
            raise refused("this is not an ordinary file")
        with path.open("rb") as file:
            content = file.read(LARGEST_TEXT + 1)
    except FileNotFoundError:
        raise refused(f"no such file{_similar(path)}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise refused(f"cannot be read: {reason}") from None
    if len(content) > LARGEST_TEXT:
        raise refused(f"larger than {LARGEST_TEXT // 1024} KiB: this is not a scenario")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise refused("this is UTF-16: save it as UTF-8")
    # Editors on Windows begin a UTF-8 file with a mark of their own.
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        lines = _lines(content[: error.start].decode("utf-8"))
        source = Source(str(path), _lines(content.decode("utf-8", "replace")))
        message = f"byte 0x{content[error.start]:02x} is not UTF-8: save the file as UTF-8"
        fault = Fault(source, len(lines), len(lines[-1]) + 1, message)
        raise ScenarioError([fault]) from None


def _lines(text: str) -> list[str]:
    return re.split("\r\n|\r|\n", text)


def _offers(folder: Path) -> str:
    """A scenario in the folder that may have been meant."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.suffix in _SUFFIXES)
    except OSError:
        return ""
    return f"; give a file in it, such as {folder / names[0]}" if names else "; give a file in it"


def _similar(path: Path) -> str:
    try:
        names = {entry.name: entry for entry in path.parent.iterdir() if entry.is_file()}
    except OSError:
        return ""
    stems = {name.removesuffix(suffix): name for name in names for suffix in _SUFFIXES}
    meant = nearest(path.name, names)
    meant = stems.get(path.name) or meant
    return f"; did you mean {names[meant]}?" if meant else ""


_SUFFIXES: Final = (".yaml", ".yml")


# Changes from the command line


class _ChangeError(ValueError):
    """A change that cannot be made."""


def _changed(root: Node | None, change: str, order: int, model: type[BaseModel]) -> list[Fault]:
    """Make one `key.path=value` in the tree; what is wrong with it."""
    path, equals, text = change.partition("=")
    source = Source(f"--set {change}", order=order)
    mark = Mark(source, 1, 1)
    if not equals or not path.strip():
        return [Fault.at(mark, "write --set key.path=value, for example --set cluster.workers=4")]
    value, faults = read_document(text, source)
    if faults:
        return [Fault.at(mark, fault.message) for fault in faults]
    if value is None:
        return [Fault.at(mark, "there is no value behind '='")]
    _remark(value, mark)
    if not isinstance(root, MappingNode):
        return []
    try:
        _put(root, _steps(path), value, model)
    except _ChangeError as error:
        return [Fault.at(mark, str(error))]
    return []


def _steps(path: str) -> list[str]:
    """`strategies[0].on.network` -> its keys and indexes."""
    steps = [step.strip() for step in re.sub(r"\[([^\]]*)\]", r".\1", path).split(".")]
    if not all(steps) or len(steps) > 32:
        raise _ChangeError(f"{quoted(path)} is not a path such as strategies.0.read_every")
    return steps


def _put(root: MappingNode, steps: Sequence[str], value: Node, model: type[BaseModel]) -> None:
    node: Node = root
    shapes = [Shape(model)]
    for depth, step in enumerate(steps):
        so_far, last = ".".join(steps[:depth]), depth == len(steps) - 1
        if isinstance(node, SequenceNode):
            index = _index(step, node, so_far)
            if last:
                node.items[index] = value
            else:
                node = node.items[index]
        elif isinstance(node, MappingNode):
            if last or step not in node.values or _is_null(node.values[step]):
                node.keys[step] = value.mark
                node.values[step] = value if last else MappingNode(value.mark)
            node = node.values[step]
        elif step in field_names(shapes):
            raise _ChangeError(
                f"{so_far} is {quoted(node.text)}: write --set '{so_far}={{{step}: ...}}'"
            )
        else:
            raise _ChangeError(f"{so_far} is {quoted(node.text)}: there is no {quoted(step)} in it")
        shapes = members(shapes, int(step) if step.isdecimal() else step)


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value is None


def _index(step: str, node: SequenceNode, so_far: str) -> int:
    count = len(node.items)
    if not re.fullmatch("[0-9]{1,6}", step):
        raise _ChangeError(f"{so_far} is a list: write {so_far}.0.{step}")
    if int(step) >= count:
        have = f"0 to {count - 1}" if count > 1 else "0" if count else "none"
        raise _ChangeError(f"{so_far} has no entry {int(step)}; entries: {have}")
    return int(step)


def _remark(node: Node, mark: Mark) -> None:
    """A value from the command line has one place only: its `--set`."""
    node.mark = mark
    if isinstance(node, MappingNode):
        node.keys = dict.fromkeys(node.keys, mark)
        for value in node.values.values():
            _remark(value, mark)
    elif isinstance(node, SequenceNode):
        for item in node.items:
            _remark(item, mark)


# Writing


def _block(content: Mapping[str, object], indent: str = "") -> Iterator[str]:
    """The lines of a mapping, its kind first; short lists stay on one line."""
    for key, value in sorted(content.items(), key=lambda item: item[0] != "kind"):
        short = f"{indent}{key}: {_flow(value)}"
        if not isinstance(value, dict | list) or not value:
            yield short
        elif isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _block(value, indent + "  ")
        elif all(isinstance(item, dict) for item in value):
            yield f"{indent}{key}:"
            for item in value:
                lines = list(_block(item, indent + "    ")) or [f"{indent}    {{}}"]
                yield f"{indent}  - {lines[0].strip()}"
                yield from lines[1:]
        elif len(short) <= _LINE:
            yield short
        else:
            yield f"{indent}{key}:"
            for item in value:
                yield f"{indent}  - {_flow(item)}"


def _flow(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and not _needs_quotes(value):
        return value
    if isinstance(value, str):
        return '"' + "".join(map(_escaped, value)) + '"'
    return repr(value)


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
