"""Types that the models accept at a place of a scenario, in words, with hints for wrong values."""

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from varsim.core.distribution import Distribution
from varsim.core.schema import InWords
from varsim.core.table import Functions, Models, Registry, as_kind
from varsim.core.units import DIMENSIONS, Dimension, parse, to_text
from varsim.scenario.document import Node, ScalarNode, resolve
from varsim.scenario.fault import nearest

_BOUNDS: Final = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
_MOST_LISTED: Final = 30


@dataclass(frozen=True, slots=True)
class Shape:
    """Type that a value may have, with the constraints of its field.

    `open`: whether it stands in a table to which users can add.
    """

    type: Any
    constraints: tuple[Any, ...] = ()
    open: bool = False

    @property
    def model(self) -> type[BaseModel] | None:
        """The model, if it is one."""
        return (
            self.type if isinstance(self.type, type) and issubclass(self.type, BaseModel) else None
        )

    @property
    def is_list(self) -> bool:
        """Whether it is a list, or a tuple."""
        return get_origin(self.type) in (tuple, list)

    @property
    def dimension(self) -> Dimension | None:
        """The dimension, if it is a quantity with a unit."""
        return next((one for one in self.constraints if isinstance(one, Dimension)), None)


def shapes_of(annotation: Any, constraints: Sequence[Any] = ()) -> Iterator[Shape]:
    """The types an annotation allows; unions are taken apart, None is left out."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        flat = [
            one
            for extra in more
            for one in (extra.metadata if isinstance(extra, FieldInfo) else [extra])
        ]
        yield from shapes_of(inner, [*constraints, *flat])
    elif origin in (Union, types.UnionType):
        for option in get_args(annotation):
            yield from shapes_of(option, constraints)
    elif annotation is not types.NoneType:
        table = next((one for one in constraints if isinstance(one, Registry)), None)
        if isinstance(table, Models):
            yield from (Shape(model, open=True) for model in table.all.values())
            return
        names = Literal[table.names] if isinstance(table, Functions) else annotation
        yield Shape(names, tuple(constraints))


def members(shapes: Sequence[Shape], key: str | int) -> list[Shape]:
    """What is expected at a key of a mapping or an index of a list."""
    found: list[Shape] = []
    for shape in shapes:
        if isinstance(key, int):
            options = get_args(shape.type) if shape.is_list else ()
            if options:
                repeated = len(options) == 2 and options[1] is Ellipsis
                found += shapes_of(options[0 if repeated else min(key, len(options) - 1)])
        elif shape.model is not None and key in shape.model.model_fields:
            info = shape.model.model_fields[key]
            found += shapes_of(info.annotation, info.metadata)
    return found


def read_from(shapes: Sequence[Shape], key: str) -> str | None:
    """The key whose value is read from the file that `key` names, if it names one."""
    for shape in shapes:
        if found := getattr(shape.model, "read_from", {}).get(key):
            return str(found)
    return None


def kinds(shapes: Sequence[Shape]) -> dict[str, Shape]:
    """The models that are told apart by `kind`; empty where there is nothing to tell apart."""
    found: dict[str, Shape] = {}
    for shape in shapes:
        if shape.model is not None and "kind" in shape.model.model_fields:
            annotation = shape.model.model_fields["kind"].annotation
            found |= {str(kind): shape for kind in get_args(annotation)}
    return found if len(found) > 1 else {}


def other_names(model: object) -> dict[str, str]:
    """What others call a kind -> with which `key: value` it is that."""
    names = dict.fromkeys(getattr(model, "also_known_as", ()), "")
    return names | dict(getattr(model, "known_with", {}))


def known_as(text: str, tagged: Mapping[str, Shape]) -> tuple[str, str] | None:
    """The kind that others call so, and with which `key: value`; None where nobody does."""
    called = as_kind(text).replace(" ", "_")
    for kind, shape in tagged.items():
        names = other_names(shape.model)
        if called in names:
            return kind, names[called]
    return None


def name_meant(text: str, tagged: Mapping[str, Shape]) -> str | None:
    """The nearest in letters of all kinds, and of what others call them."""
    others = [name for shape in tagged.values() for name in other_names(shape.model)]
    return nearest(text, [*tagged, *others])


def kind_meant(text: str, tagged: Mapping[str, Shape]) -> tuple[str | None, str]:
    """As `known_as`, or else that of the nearest name."""
    name = name_meant(text, tagged) or ""
    return known_as(text, tagged) or known_as(name, tagged) or (name or None, "")


def field_names(shapes: Sequence[Shape]) -> list[str]:
    """The keys that a mapping may have."""
    return list(
        dict.fromkeys(name for shape in shapes if shape.model for name in shape.model.model_fields)
    )


def parameters(shapes: Sequence[Shape]) -> dict[str, bool]:
    """The parameters of a distribution, and whether each must be given; empty of other mappings."""
    for model in (shape.model for shape in shapes):
        if model is not None and issubclass(model, Distribution):
            found = model.model_fields.items()
            return {name: info.is_required() for name, info in found if name != "kind"}
    return {}


def described(shapes: Sequence[Shape]) -> str:
    """What to write, in words: `a whole number above 0`."""
    tagged = kinds(shapes)
    if tagged:
        return f"a mapping such as {{kind: {next(iter(tagged))}, ...}}"
    words = list(dict.fromkeys(map(_described, shapes)))
    if len(words) > 1:  # `true, false or forward`
        words = [part for word in words for part in word.split(" or ")]
        words = [", ".join(words[:-1]), words[-1]]
    return " or ".join(words) or "something else"


def listed(names: Sequence[str]) -> str:
    """Names to choose from."""
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def key_locations(root: type[BaseModel]) -> dict[str, list[str]]:
    """Every key of a model and of the models in it -> where it belongs: `cluster.network`."""
    found: dict[str, list[str]] = {}
    _collect([Shape(root)], "", found, set())
    return found


def _collect(
    shapes: Sequence[Shape], path: str, found: dict[str, list[str]], seen: set[Any]
) -> None:
    tagged = {id(shape.model): kind for kind, shape in kinds(shapes).items()}
    for shape in shapes:
        if shape.model is None:
            if shape.is_list:
                _collect(members([shape], 0), path, found, seen)
            continue
        # Distributions may hold distributions: each model is told of once.
        if shape.model in seen:
            continue
        seen.add(shape.model)
        kind = tagged.get(id(shape.model))
        place = path + (f" (kind: {kind})" if kind else "")
        for name in shape.model.model_fields:
            found.setdefault(name, []).append(place or "the top level")
            _collect(members([shape], name), f"{path}.{name}" if path else name, found, seen)


def _described(shape: Shape) -> str:
    kind = shape.type
    if written := [one.text for one in shape.constraints if isinstance(one, InWords)]:
        return written[0]
    if get_origin(kind) is Literal:
        options = [str(option) for option in get_args(kind)]
        return f"one of {listed(options)}" if len(options) > 1 else options[0]
    if shape.dimension is not None:
        return f"{shape.dimension.noun}{_bounds(shape)}, such as {shape.dimension.example}"
    if kind in _SIMPLE:
        return _SIMPLE[kind] + _bounds(shape)
    if shape.is_list:
        return "a list"
    if shape.model is not None:
        return f"a mapping with {listed(field_names([shape]))}"
    return "something else"


def _bounds(shape: Shape) -> str:
    units = shape.dimension.units.items() if shape.dimension is not None else ()
    unit = next((f" {unit}" for unit, size in units if size == 1), "")
    said = [
        f"{words} {bound:,}".removesuffix(".0") + (unit if bound else "")
        for name, words in _BOUNDS.items()
        for constraint in shape.constraints
        if (bound := getattr(constraint, name, None)) is not None
    ]
    if not said:
        return ""
    return (" of " if said[0].startswith("at") else " ") + " and ".join(said)


_SIMPLE: Final[Mapping[Any, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}


_FALSE_WORDS: Final = ("no", "off", "n", "f", "0")
_TRUE_WORDS: Final = ("yes", "on", "y", "t", "1")


def hint(node: Node | None, shapes: Sequence[Shape]) -> str:
    """What to type instead of a value of the wrong type, where that is plain to see."""
    types = {shape.type for shape in shapes}
    if not isinstance(node, ScalarNode):
        return ""
    if node.text[:1] in ("{", "["):
        return "leave out the quotation marks"
    tagged = kinds(shapes)
    if tagged:
        meant, setting = kind_meant(node.text, tagged)
        if not meant and (whole := _of_one_quantity(node.text, tagged)):
            return f"write {whole}"
        whole = f"kind: {meant}" + f", {setting}" * bool(setting)
        return f"write {{{whole}}}" if meant else f"kinds: {listed(list(tagged))}"
    if whole := _with_one_quantity(node.text, shapes):
        return f"write {whole}"
    word = node.text.lower()
    if bool in types and word in _TRUE_WORDS + _FALSE_WORDS:
        return f"write {'true' if word in _TRUE_WORDS else 'false'}"
    if not types & {int, float} or any(shape.dimension for shape in shapes):
        return ""
    if isinstance(node.value, float) and int in types and node.value == int(node.value):
        return f"write {int(node.value)}"
    if isinstance(node.value, str):
        return _number_hint(node.value)
    return ""


def nested(name: str, shapes: Sequence[Shape]) -> str:
    """Nested form of a dotted key such as `stop.time`; empty where it is no path."""
    keys = name.split(".")
    if len(keys) < 2:
        return ""
    for key in keys:
        if key not in field_names(shapes):
            return ""
        shapes = members(shapes, key)
    return ": {".join(keys) + ": ..." + "}" * (len(keys) - 1)


def _of_one_quantity(text: str, tagged: Mapping[str, Shape]) -> str:
    """Mapping of the first kind whose only required field takes this quantity; else empty."""
    for kind, shape in tagged.items():
        fields = shape.model.model_fields if shape.model is not None else {}
        needed = [name for name, info in fields.items() if info.is_required()]
        if len(needed) == 1 and (value := _as_quantity(text, members([shape], needed[0]))):
            return f"{{kind: {kind}, {needed[0]}: {value}}}"
    return ""


def _with_one_quantity(text: str, shapes: Sequence[Shape]) -> str:
    """Mapping with this text as its only field of such a unit; else empty."""
    found = {
        name: value
        for name in field_names(shapes)
        if (value := _as_quantity(text, members(shapes, name)))
    }
    return ", ".join(f"{{{name}: {value}}}" for name, value in found.items() if len(found) == 1)


def _as_quantity(text: str, shapes: Sequence[Shape]) -> str:
    """Text as a quantity of these shapes; empty if it is none."""
    for shape in shapes:
        for name, dimension in DIMENSIONS.items():
            if shape.dimension is dimension:
                with suppress(ValueError):
                    return to_text(parse(text, name), name)
    return ""


def _number_hint(text: str) -> str:
    if isinstance(resolve(text) if len(text) < 40 else text, int | float):
        return "leave out the quotation marks"
    if re.fullmatch(r"[+-]?[0-9.]+[,;]", text):
        return f"write {text[:-1]}"
    if re.fullmatch(r"[+-]?[0-9]{1,3}([,_ ][0-9]{3})+", text):
        return f"write {re.sub('[,_ ]', '', text)}"
    if re.fullmatch(r"[+-]?[0-9]+,[0-9]+", text):
        return f"write {text.replace(',', '.')}"
    if re.fullmatch(r"[+-]?[0-9.]+ ?%", text):
        return "write the fraction: 50 % is 0.5"
    if re.fullmatch(r"[+-]?[0-9.]+ ?[^\W\d][\w/]*", text):
        return "it has no unit"
    return ""
