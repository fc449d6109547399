"""Reading of a scenario from YAML, with changes from the command line."""

import stat
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ValidationError

from varsim.core.gone import RENAMED
from varsim.core.table import as_kind
from varsim.scenario.bundled import bundled, located
from varsim.scenario.change import changed
from varsim.scenario.document import (
    LARGEST_TEXT,
    NOTHING,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    Unreadable,
    copied,
    lines_of,
    plain,
    read_document,
    resolve,
)
from varsim.scenario.fault import Fault, ScenarioError, Source, nearest, quoted
from varsim.scenario.shape import kinds, known_as, members, shapes_of
from varsim.scenario.training import Scenario
from varsim.scenario.wording import apply_corrections, faults_of
from varsim.strategies import chosen

if TYPE_CHECKING:
    from varsim.scenario.variables import VariablesScenario

STDIN: Final = Path("-")
_MOST_ROUNDS: Final = 4
_LINES: Final = "a scenario is made of lines 'key: value'"

AnyModel = TypeVar("AnyModel", bound=BaseModel)


class LoadingContext(NamedTuple):
    """Validation context: the folder of a scenario's files, and the strategies that will run.

    `strategies`: kinds or labels, empty for all. The others need not be valid, but settings that
    only they use are accepted. `must_fit`: what does not fit into memory is refused, unless the
    scenario says otherwise; of many scenarios, some may.
    """

    folder: Path = Path()
    strategies: tuple[str, ...] = ()
    must_fit: bool = False


def load_scenario(
    path: str | Path, sets: Sequence[str] = (), strategies: Sequence[str] = ()
) -> "Scenario | VariablesScenario":
    """The scenario of a file. Each of `sets` is `key.path=value`, as after `--set`.

    `strategies`: only those of these kinds or labels, with what they use; by default all.
    Raises ScenarioError with everything that is wrong with the file and the changes.
    """
    if isinstance(sets, str):
        raise TypeError(f"sets is a list of changes: load_scenario(path, [{sets!r}])")
    path = Path(path)
    return load_text(read_text(path), str(path), path.parent, sets, strategies)


def load_text(
    text: str,
    name: str = "scenario",
    folder: Path = Path(),
    sets: Sequence[str] = (),
    strategies: Sequence[str] = (),
) -> "Scenario | VariablesScenario":
    """The scenario of a YAML text; `name` is what errors call it, files are found in `folder`."""
    source = Source(name)
    root, faults = read_document(text, source)
    if isinstance(root, MappingNode):
        _refuse_many(root, name)
    model = model_of(root)
    if root is None and not faults:
        faults = [Fault(source, 0, 0, NOTHING)]
    for order, change in enumerate(sets, 1):
        faults += changed(root, change, order, model)
    left_out = 0
    scenario: Scenario | VariablesScenario | None = None
    if isinstance(root, MappingNode):
        context = LoadingContext(folder, tuple(strategies), must_fit=True)
        scenario, refused, left_out = modelled(model, root, context)
        faults += refused
    elif isinstance(root, SequenceNode):
        faults.append(Fault.at(root.mark, f"{_LINES}; this is a list"))
    elif root is not None and not isinstance(root.value, Unreadable):
        faults.append(Fault.at(root.mark, f"{_LINES}; this is the text {quoted(root.text)}"))
    if scenario is None or faults:
        raise ScenarioError(faults, left_out)
    if not strategies:
        return scenario
    try:
        only = chosen(scenario.strategies, strategies)
    except ValueError as error:
        raise ScenarioError.of_file(name, str(error)) from None
    return scenario.with_only(only)


def _refuse_many(root: MappingNode, name: str) -> None:
    """ScenarioError of a file that is of many scenarios."""
    for key, said in (
        ("sweep", f"many scenarios in one file: run it with 'varsim sweep {name}'"),
        ("plan", f"a question about many scenarios: ask it with 'varsim plan {name}'"),
    ):
        if key in root.keys:
            raise ScenarioError([Fault.at(root.keys[key], said)])


def model_of(root: Node | None) -> "type[Scenario] | type[VariablesScenario]":
    """Model of a file: a scenario of training, which has no kind, or of variables.

    ScenarioError where its kind is none of these, or where it is left out of one of variables.
    """
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
        from varsim.scenario.variables import VariablesScenario

        return VariablesScenario
    said = quoted(kind.text) if isinstance(kind, ScalarNode) else "a list or mapping"
    message = f"unknown kind {said}; write 'kind: variables', or leave it out to train a model"
    raise ScenarioError([Fault.at(kind.mark, message)])


def modelled(
    model: type[AnyModel], root: MappingNode, context: LoadingContext
) -> tuple[AnyModel | None, list[Fault], int]:
    """A model from a tree; or None, what is wrong with it, and how much of that was left out."""
    faults: list[Fault] = []
    left_out = 0
    guessed: set[tuple[object, ...]] = set()
    root = _by_kind(_renamed(root), model)
    for _ in range(_MOST_ROUNDS):
        try:
            content = plain(root)
            found = model.model_validate(content, context={"text": True, **context._asdict()})
        except ValidationError as error:
            told = faults_of(error, root, model, guessed)
        else:
            return (None if faults else found), faults, left_out
        known = {(fault.line, fault.column, fault.message) for fault in faults}
        faults += [f for f in told.faults if (f.line, f.column, f.message) not in known]
        left_out = max(left_out, told.left_out)
        if not told.corrections:
            break
        # What a misspelt kind or key hides is told of at once, as if it were spelt right.
        guessed |= {(*one.path, one.meant) for one in told.corrections if one.old != "kind"}
        fresh = copied(root)
        assert isinstance(fresh, MappingNode)
        root = apply_corrections(fresh, told.corrections)
    return None, faults, left_out


def _renamed(node: Node) -> Any:
    """The tree with keys of older files under the names that they have today."""
    if isinstance(node, SequenceNode):
        return SequenceNode(node.mark, [_renamed(one) for one in node.items])
    if not isinstance(node, MappingNode):
        return node
    today = {key: RENAMED.get(key, key) for key in node.keys}
    # Where both are given the older one is refused, as any other key that is unknown.
    today |= {key: key for key, name in today.items() if key != name and name in node.keys}
    return MappingNode(
        node.mark,
        {today[key]: mark for key, mark in node.keys.items()},
        {today[key]: _renamed(value) for key, value in node.values.items()},
    )


def _by_kind(root: MappingNode, model: type[BaseModel]) -> MappingNode:
    """The tree with strategies by their kinds that it calls by another name: `ddp`, `fsdp`.

    What the name says of a strategy is added where the file does not say it, and the name itself
    is what the strategy is called by. Nothing can overlap where no layer is before another.
    """
    tagged = kinds(members(members(list(shapes_of(model)), "strategies"), 0))
    if not tagged or not isinstance(root.values.get("strategies"), SequenceNode):
        return root
    root = cast(MappingNode, copied(root))
    workload = root.values.get("workload")
    in_turn = isinstance(workload, MappingNode) and {"model", "layers"} & workload.keys.keys()
    for node in cast(SequenceNode, root.values["strategies"]).items:
        given = node.values.get("kind") if isinstance(node, MappingNode) else None
        if not isinstance(node, MappingNode) or not isinstance(given, ScalarNode):
            continue
        meant = None if as_kind(given.text) in tagged else known_as(given.text, tagged)
        if meant is None:
            continue
        kind, settings = meant
        node.values["kind"] = ScalarNode(given.mark, given.text, kind)
        said = [setting.split(": ") for setting in settings.split(", ") if setting]
        for key, text in [["name", given.text], *said]:
            if key not in node.values and (key != "overlap" or in_turn):
                node.keys[key] = given.mark
                node.values[key] = ScalarNode(given.mark, text, resolve(text))
    return root


# Reading a file


def read_text(path: Path) -> str:
    """The text of a file, of standard input, or of the bundled scenario of this name.

    ScenarioError where there is none to be had.
    """
    source = Source(str(path))

    def refused(reason: str) -> ScenarioError:
        return ScenarioError([Fault(source, 0, 0, reason)])

    try:
        if path == STDIN:
            content = _piped()
        else:
            meant = located(path)
            status = meant.stat()
            if stat.S_ISDIR(status.st_mode):
                raise refused(f"this is a folder{_offers(path)}")
            if not stat.S_ISREG(status.st_mode):
                raise refused("this is not an ordinary file; what is piped in is read from -")
            with meant.open("rb") as opened:
                content = opened.read(LARGEST_TEXT + 1)
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
        lines = lines_of(content[: error.start].decode("utf-8"))
        source = Source(str(path), lines_of(content.decode("utf-8", "replace")))
        message = f"byte 0x{content[error.start]:02x} is not UTF-8: save the file as UTF-8"
        fault = Fault(source, len(lines), len(lines[-1]) + 1, message)
        raise ScenarioError([fault]) from None


@cache
def _piped() -> bytes:
    """Content of standard input, which can be read only once."""
    if sys.stdin is None:  # closed by whoever started us
        raise OSError("standard input is closed")
    return sys.stdin.buffer.read(LARGEST_TEXT + 1)


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
    near = nearest(path.name, names)
    near = stems.get(path.name) or near
    if near:
        return f"; did you mean {names[near]}?"
    own = bundled() if path.name == str(path) else {}
    near = nearest(path.stem, own)
    return f"; did you mean {near}, which comes with varsim?" if near else ""


_SUFFIXES: Final = (".yaml", ".yml")
