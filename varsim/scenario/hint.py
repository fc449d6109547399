"""What to type instead of a value or key that does not fit, where that is plain to see."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from varsim.scenario.document import Node, ScalarNode, resolve
from varsim.scenario.fault import nearest
from varsim.scenario.shape import Shape, field_names, kinds, listed, members
from varsim.units import DIMENSIONS, parse, to_text

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
        meant = nearest(node.text, tagged)
        if not meant and (whole := _of_one_quantity(node.text, tagged)):
            return f"write {whole}"
        return f"write {{kind: {meant}}}" if meant else f"kinds: {listed(list(tagged))}"
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
    """How a key such as `stop.time`, a path to where it would stand, is written; else nothing."""
    keys = name.split(".")
    if len(keys) < 2:
        return ""
    for key in keys:
        if key not in field_names(shapes):
            return ""
        shapes = members(shapes, key)
    return ": {".join(keys) + ": ..." + "}" * (len(keys) - 1)


def _of_one_quantity(text: str, tagged: Mapping[str, Shape]) -> str:
    """The first kind that needs one quantity and no more, with this text as that; else nothing."""
    for kind, shape in tagged.items():
        assert shape.model is not None
        needed = [name for name, info in shape.model.model_fields.items() if info.is_required()]
        if len(needed) == 1 and (value := _as_quantity(text, members([shape], needed[0]))):
            return f"{{kind: {kind}, {needed[0]}: {value}}}"
    return ""


def _with_one_quantity(text: str, shapes: Sequence[Shape]) -> str:
    """A mapping with this text as its only quantity of such a unit, if there is one to be so."""
    found = {
        name: value
        for name in field_names(shapes)
        if (value := _as_quantity(text, members(shapes, name)))
    }
    return ", ".join(f"{{{name}: {value}}}" for name, value in found.items() if len(found) == 1)


def _as_quantity(text: str, shapes: Sequence[Shape]) -> str:
    """A text as it would be written where a quantity is expected; nothing if it is none."""
    for shape in shapes:
        for name, dimension in DIMENSIONS.items():
            if shape.dimension is dimension:
                with suppress(ValueError):
                    return to_text(parse(text, name), name)
    return ""


def _number_hint(text: str) -> str:
    """How to write a number that was taken for text."""
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
