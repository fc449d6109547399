"""Validation errors of the models as faults of the file, each at its place."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ValidationError

from varsim.core.gone import instead
from varsim.core.refusal import RefusalError, RefusalsError, dotted
from varsim.scenario.document import MappingNode, Node, ScalarNode, SequenceNode, Unreadable
from varsim.scenario.fault import Fault, Mark, nearest, quoted
from varsim.scenario.shape import (
    Shape,
    described,
    field_names,
    hint,
    key_locations,
    kind_meant,
    kinds,
    known_as,
    listed,
    members,
    name_meant,
    nested,
    parameters,
)

_MOST_WORDED: Final = 1000
_LONGEST_MESSAGE: Final = 500
# Kind of refusal -> where it says how many, and how to say it.
_LENGTHS: Final = {
    "too_short": ("min_length", "at least", "entry"),
    "too_long": ("max_length", "at most", "entry"),
    "string_too_short": ("min_length", "at least", "character"),
    "string_too_long": ("max_length", "at most", "character"),
}
# Patterns mean nothing to most readers; what they say, in words.
PATTERNS: Final[Mapping[str, str]] = {
    r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$": "may have letters, digits, '_', '-' and '.' only, "
    "at most 64, and begins with a letter or digit",
    r"^[A-Za-z][A-Za-z0-9_]{0,39}$": "may have letters, digits and '_' only, at most 40, and "
    "begins with a letter",
    r"^[^\x00-\x1f]{1,60}$": "must have 1 to 60 characters on one line",
    r"^[A-Z]{3}$": "must be three capital letters, such as EUR",
    r"^[0-9]{1,7}-[0-9]{1,7}$": "must be a range such as 8-15 or a list such as [1, 3]",
}

_OWN: Final = "; one of your own has to be registered first (varsim.register, or --import FILE)"
# So begins a comment of a scenario that says what it needs besides varsim.
NEEDS: Final = "# needs "
_DEFINED: Final = re.compile(r", defined in (\S+) \((.+)\)$")


class Correction(NamedTuple):
    """Correction of a misspelt key (`old`) or kind of the mapping at a path."""

    path: tuple[str | int, ...]
    old: str
    meant: str


class Diagnosis(NamedTuple):
    """Faults of a file, the number left out, and corrections of misspelt names."""

    faults: list[Fault]
    left_out: int
    corrections: list[Correction]


# A key that is so like a known one (of 1) is taken for it misspelt.
_ALIKE: Final = 0.9
_UNLIKE: Final = 0.7  # below: rather the same key elsewhere
_DEEP: Final = 3  # steps down a path; nobody means a key there who wrote one like a key of here


def _each(detail: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """A detail, or one for each that a model refuses together, with the path `at` which it is."""
    error = detail.get("ctx", {}).get("error")
    if not isinstance(error, RefusalsError):
        return [detail]
    return [{**detail, "ctx": {"error": one}, "at": one.path} for one in error.each]


def apply_corrections(root: MappingNode, corrections: Iterable[Correction]) -> MappingNode:
    """Correct misspelt keys and kinds of a tree, in place."""
    for path, old, meant in corrections:
        node: Node | None = root
        for step in path:
            if isinstance(node, MappingNode):
                node = node.values.get(str(step))
            elif isinstance(node, SequenceNode):
                node = node.items[int(step)]
        if not isinstance(node, MappingNode) or old not in node.values:
            continue
        if old == "kind":
            mark = node.values[old].mark
            node.values[old] = ScalarNode(mark, meant, meant)
        else:
            node.keys[meant], node.values[meant] = node.keys.pop(old), node.values.pop(old)
    return root


def faults_of(
    error: ValidationError,
    root: Node,
    model: type[BaseModel],
    guessed: Collection[tuple[object, ...]] = (),
) -> Diagnosis:
    """Faults of the file `root` from the validation error of `model`.

    `guessed`: keys that stand for misspelt ones; where one needs a mapping and has none,
    another key was meant, and it is not complained of. At most a thousand details are looked
    at, to bound the cost of a hostile file.
    """
    told = error.errors(include_url=False, include_input=False)
    details = [one for detail in told for one in _each(detail)]
    left_out = max(0, len(details) - _MOST_WORDED)
    places = [(_Place.of(detail["loc"], root, model), detail) for detail in details[:_MOST_WORDED]]
    places.sort(key=lambda pair: pair[0].order)
    inside = {place.path[:depth] for place, _ in places for depth in range(len(place.path))}
    places = [pair for pair in places if not _of_another_type(*pair, inside)]
    worded: dict[tuple[object, ...], Fault] = {}
    renamed: set[tuple[object, ...]] = set()
    corrections: list[Correction] = []
    locations = key_locations(model)
    for place, detail in places:
        if place.broken or _redundant(place, detail):
            continue
        if detail["type"] == "extra_forbidden":
            fault, meant = _unknown_key(place, locations)
            worded[place.path] = fault
            if meant is not None:
                renamed.add((*place.path[:-1], meant))
                corrections.append(Correction(place.path[:-1], str(place.path[-1]), meant))
    for place, detail in places:
        # One fault to a place: the members of a union all complain of the same value. And a key
        # that is missing because it was misspelt is told of once.
        if place.broken or _redundant(place, detail):
            continue
        if place.path in guessed and detail["type"] == "model_attributes_type":
            continue
        at = (*place.path, *detail.get("at", ()))
        if at not in worded and place.path not in renamed:
            worded[at] = Fault.at(*_worded(place, detail))
            if detail["type"] == "union_tag_invalid" and (kind := _meant_kind(place)[0]):
                corrections.append(Correction(place.path, "kind", kind))
    return Diagnosis(list(worded.values()), left_out, corrections)


@dataclass(slots=True)
class _Place:
    """Place of a validation error in the file, with the shapes expected there."""

    path: tuple[str | int, ...]
    node: Node | None  # None where a key is missing
    mark: Mark  # of the key, where there is one
    shapes: list[Shape]
    owner: MappingNode | None
    owner_shapes: list[Shape]

    @classmethod
    def of(cls, loc: tuple[str | int, ...], root: Node, model: type[BaseModel]) -> "_Place":
        """Follow a location of pydantic's, which also holds kinds and names of types."""
        place = cls((), root, root.mark, [Shape(model)], None, [])
        for element in loc:
            tagged = kinds(place.shapes)
            if isinstance(element, str) and element in tagged:
                place.shapes = [tagged[element]]
            elif isinstance(place.node, MappingNode) and isinstance(element, str):
                place._enter_key(element)
            elif isinstance(place.node, SequenceNode) and isinstance(element, int):
                place._enter_index(element)
        return place

    def _enter_key(self, key: str) -> None:
        assert isinstance(self.node, MappingNode)
        if key not in self.node.keys and key not in field_names(self.shapes):
            return
        self.owner, self.owner_shapes = self.node, self.shapes
        self.path, self.shapes = (*self.path, key), members(self.shapes, key)
        self.mark = self.node.keys.get(key, self.mark)
        self.node = self.node.values.get(key)

    def _enter_index(self, index: int) -> None:
        assert isinstance(self.node, SequenceNode)
        if index < len(self.node.items):
            self.path, self.shapes = (*self.path, index), members(self.shapes, index)
            self.node = self.node.items[index]
            self.mark = self.node.mark

    @property
    def order(self) -> tuple[int, int, int]:
        return self.mark.source.order, self.mark.line, self.mark.column

    @property
    def broken(self) -> bool:
        return isinstance(self.node, ScalarNode) and isinstance(self.node.value, Unreadable)

    @property
    def value_mark(self) -> Mark:
        """The value itself if it is on one line, else its key."""
        return self.node.mark if isinstance(self.node, ScalarNode) else self.mark

    @property
    def name(self) -> str:
        """The path from the top of the file: `strategies[1].optimizer`."""
        return _dotted(self.path) or "the scenario"

    @property
    def within(self) -> str:
        """What a complaint about the last key begins with: `cluster.network: `."""
        above = _dotted(self.path[: -len(self._last)])
        return f"{above}: " if above else ""

    @property
    def last(self) -> str:
        """The last key, with the indexes behind it: `modes[2]`."""
        return _dotted(self._last)

    @property
    def _last(self) -> tuple[str | int, ...]:
        names = [index for index, step in enumerate(self.path) if isinstance(step, str)]
        return self.path[names[-1] :] if names else self.path


def _dotted(path: Iterable[str | int]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")


def _worded(place: _Place, detail: Mapping[str, Any]) -> tuple[Mark, str]:
    """The place to point at and what to say about one refusal."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing" and isinstance(detail["loc"][-1], int):
        least = _many(detail["loc"][-1] + 1, "entry")
        return place.value_mark, f"{place.name} must have at least {least}"
    if kind == "missing":
        return place.mark, f"{place.name} is missing: {described(place.shapes)}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _unknown_kind(place)
    if kind in ("value_error", "assertion_error"):
        return _refused(place, context.get("error", detail["msg"]))
    if kind == "literal_error" and isinstance(place.node, ScalarNode):
        return place.value_mark, _unknown_option(place)
    if kind in _LENGTHS:
        bound, words, unit = _LENGTHS[kind]
        return place.value_mark, f"{place.name} must have {words} {_many(context[bound], unit)}"
    if kind == "string_pattern_mismatch":
        form = PATTERNS.get(context["pattern"], f"must have the form {context['pattern']}")
        return place.value_mark, f"{place.name} {form}; not {_shown(place.node)}"
    if place.shapes:
        return place.value_mark, _wrong_type(place)
    words = re.sub(r"^Input should ", "must ", str(detail["msg"]))
    return place.value_mark, f"{place.name}: {words}"


def _many(count: int, unit: str) -> str:
    plural = unit.removesuffix("y") + "ies" if unit.endswith("y") else unit + "s"
    return f"{count} {unit if count == 1 else plural}"


def _redundant(place: _Place, detail: Mapping[str, Any]) -> bool:
    """Whether another error says better what is wrong."""
    return _counted_short(place, detail) or _is_no_word(place, detail)


def _is_no_word(place: _Place, detail: Mapping[str, Any]) -> bool:
    """Whether a literal refuses a mapping where a mapping is possible."""
    return (
        detail["type"] == "literal_error"
        and isinstance(place.node, MappingNode)
        and any(shape.model is not None for shape in place.shapes)
    )


def _counted_short(place: _Place, detail: Mapping[str, Any]) -> bool:
    """Whether a list is too short only because some of its entries are invalid."""
    return (
        detail["type"] == "too_short"
        and isinstance(place.node, SequenceNode)
        and len(place.node.items) >= detail["ctx"]["min_length"]
    )


def _of_another_type(
    place: _Place, detail: Mapping[str, Any], inside: Collection[tuple[str | int, ...]]
) -> bool:
    """Whether a union member refuses the type of a value that another member accepts."""
    return detail["type"].endswith("_type") and place.path in inside


def _wrong_type(place: _Place) -> str:
    text = f"{place.name} must be {described(place.shapes)}, not {_shown(place.node)}"
    said = hint(place.node, place.shapes)
    return f"{text}; {said}" if said else text


def _unknown_key(place: _Place, locations: Mapping[str, Sequence[str]]) -> tuple[Fault, str | None]:
    """Fault of an unknown key, and the missing key that was probably meant."""
    name, known = str(place.path[-1]), field_names(place.owner_shapes)
    elsewhere = locations.get(name, ())
    present = place.owner.keys if place.owner is not None else {}
    meant = nearest(name, known)
    alike = SequenceMatcher(None, name, meant).ratio() if meant else 0.0
    if meant is not None:
        elsewhere = [one for one in elsewhere if one.count(".") < _DEEP]
    text = f"{place.within}unknown key {quoted(name)}"
    if said := _instead(place.path[:-1], place.owner, name):
        return Fault.at(place.mark, place.within + said), None
    law = parameters(place.owner_shapes)
    missing = [key for key, needed in law.items() if needed and key not in present]
    # What complete compute times have too much may be a key of the cluster, indented too far.
    if law and (meant is None or meant in present) and (missing or "compute" not in place.path):
        text += f"; this distribution is given by {listed(list(law))}"
        return Fault.at(place.mark, text), missing[0] if missing else None
    if name == "<<":
        text += "; mappings cannot be merged: write the keys out"
    elif within := nested(name, place.owner_shapes):
        meant = None
        text += f"; keys are nested: write {within}"
    elif meant is not None and not (elsewhere and (meant in present or alike < _UNLIKE)):
        text += f"; did you mean '{meant}'?"
    elif elsewhere:
        key_locations = " or ".join(elsewhere[:3])
        either = alike > _ALIKE
        text += f"; did you mean '{meant}', or " if either else "; "
        text += (
            f"does it belong in {key_locations}?" if either else f"it belongs in {key_locations}"
        )
        meant = None
    else:
        meant = None
        text += f" (possible: {listed(known)})"
    return Fault.at(place.mark, text), meant if meant not in present else None


def _meant_kind(place: _Place) -> tuple[str | None, str]:
    """The kind that was probably meant by another name, and the setting with which it is that."""
    node = place.node.values.get("kind") if isinstance(place.node, MappingNode) else None
    if not isinstance(node, ScalarNode) or _needed(node):
        return None, ""
    return kind_meant(node.text, kinds(place.shapes))


def _unknown_kind(place: _Place) -> tuple[Mark, str]:
    options = list(kinds(place.shapes))
    node = place.node
    if isinstance(node, MappingNode) and "kind" in node.keys:
        value = node.values["kind"]
        if not isinstance(value, ScalarNode):
            return node.keys["kind"], f"kind must be one of {listed(options)}"
        if value.value is None:
            return value.mark, f"kind must be one of {listed(options)}, not {_shown(value)}"
        if needed := _needed(value) or _instead(place.path, node, "kind"):
            return value.mark, f"{_dotted(place.path)}: {needed}"
        tagged = kinds(place.shapes)
        meant, setting = known_as(value.text, tagged) or (name_meant(value.text, tagged), "")
        told = f"'{meant}'" + f" with '{setting}'" * bool(setting)
        guess = f"{_shown(value)}; did you mean {told}?" if meant else _shown(value)
        text = f"{_dotted(place.path)}: unknown kind {guess} (one of: {listed(options)})"
        return value.mark, text + _OWN * (not meant and any(one.open for one in place.shapes))
    if isinstance(node, MappingNode):
        for key, mark in node.keys.items():
            if key in options:
                return mark, f"{place.name}.kind is missing: write {{kind: {key}, ...}}"
            if key.lower() == "type" or nearest(key, ["kind"]):
                return mark, f"unknown key {quoted(key)}; did you mean 'kind'?"
    return place.mark, f"{place.name}.kind is missing: one of {listed(options)}"


def _needed(named: ScalarNode) -> str:
    """What to do where the file says that it needs what it names, and that is not there."""
    ending = takewhile(
        lambda line: not line or line.startswith(NEEDS), reversed(named.mark.source.lines)
    )
    for line in ending:
        kind, _, what = line.removeprefix(NEEDS).partition(": ")
        if not kind.endswith(f" {named.text!r}"):
            continue
        name = re.split(r"[. ]", what.partition(",")[0])[-1]
        do = f"first run what defines it, and varsim.register({name})"
        if where := _DEFINED.search(what):
            module, file = where.groups()
            own = module in ("__main__", file.removesuffix(".py"))
            do += f", or --import {file if own else module}"
        return f"{kind} is not known here: it is {what}; {do}"
    return ""


def _unknown_option(place: _Place) -> str:
    if isinstance(place.node, ScalarNode) and (needed := _needed(place.node)):
        return place.within + needed
    if said := _instead(place.path[:-1], place.owner, place.last):
        return place.within + said
    options = [
        str(option) for shape in place.shapes for option in getattr(shape.type, "__args__", ())
    ]
    given = place.node.text if isinstance(place.node, ScalarNode) else ""
    meant = nearest(given, options)
    guess = f"; did you mean '{meant}'?" if meant else ""
    text = f"{place.within}unknown {place.last} {_shown(place.node)}{guess}"
    return f"{text} (one of: {listed(options)})"


def _refused(place: _Place, error: object) -> tuple[Mark, str]:
    """A model's own message, at the path that it is about: see `RefusalError`."""
    message = str(error)
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]}..."
    if isinstance(place.node, ScalarNode) or place.node is None:
        shown = f", not {_shown(place.node)}" if message.startswith("must be ") else ""
        return place.value_mark, f"{place.name}: {message}{shown}"
    if message.startswith("must be "):
        return place.mark, f"{place.name}: {message}, not {_shown(place.node)}"
    whole = f"{dotted(place.path)}."
    own = message.removeprefix(whole)  # a message may name the whole path
    if isinstance(error, RefusalError):
        path = [str(step) for step in error.path]
    else:
        begun = re.match(r"(?:an? |the )?([A-Za-z_]\w*(?:\.\w+)*)", own)
        path = begun[1].split(".") if begun else []
    told = _there(place.node, path)
    named = dotted(path[: len(told)])
    text = own.replace(named, _dotted(step for step, *_ in told), 1)
    if own != message:
        text = f"{place.name}.{text}"
    if not told:
        return place.mark, text
    _, mark, value = told[-1]
    # What is wrong is the value, where that follows the path (`collective ring ...`), or where the
    # message begins with something else.
    before, _, after = own.partition(named)
    said = re.match(r" ([\w.+-]+)", after) if len(told) == 1 else None
    elsewhere = isinstance(error, RefusalError) and before.strip() not in ("", "a", "an", "the")
    owner = told[-2][2] if len(told) > 1 else place.node
    text += _set_by_kind(told[-1], owner)
    if isinstance(value, ScalarNode) and (elsewhere or (said and value.text == said[1])):
        mark = value.mark
    return mark, text


def _set_by_kind(setting: tuple[str | int, Mark, Node], owner: Node) -> str:
    """What sets it, where the file does not: a name of a kind that says more, such as `ddp`."""
    key, mark, value = setting
    kind = owner.values.get("kind") if isinstance(owner, MappingNode) else None
    if not isinstance(kind, ScalarNode) or not isinstance(value, ScalarNode):
        return ""
    if mark is not kind.mark or key in ("kind", "name"):
        return ""
    instead = f"; write {key}: false" if value.value is True else ""
    return f" ({kind.text} sets {key}: {value.text}{instead})"


def _there(node: Node, path: Iterable[str]) -> list[tuple[str | int, Mark, Node]]:
    """The steps of a path as far as it leads, each with its place and what is there."""
    found: list[tuple[str | int, Mark, Node]] = []
    for step in path:
        if isinstance(node, MappingNode) and step in node.values:
            mark, node = node.keys[step], node.values[step]
            found.append((step, mark, node))
        elif isinstance(node, SequenceNode) and step.isdecimal() and int(step) < len(node.items):
            node = node.items[int(step)]
            found.append((int(step), node.mark, node))
        else:
            break
    return found


def _shown(node: Node | None) -> str:
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    return quoted(node.text) if isinstance(node, ScalarNode) else "nothing"


def _instead(path: Sequence[str | int], owner: MappingNode | None, key: str) -> str:
    """What to write instead of a setting that is gone, of a mapping; empty if it is not there."""
    if owner is None:
        return ""
    value, kind = owner.values.get(key), owner.values.get("kind")
    owners = [step for step in path if isinstance(step, str)][-1:]
    if isinstance(kind, ScalarNode):
        owners.append(str(kind.value))
    return instead(owners, key, value.text if isinstance(value, ScalarNode) else "")
