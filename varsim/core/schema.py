"""Base of all models of a scenario: frozen, strict, found by `kind` in a table."""

import ast
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import Annotated, Any, ClassVar, NamedTuple, Self, Union

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

from varsim.core.refusal import Refusal, RefusalError, refusals


class Model(BaseModel):
    """A frozen description; unknown keys and silent conversions are refused."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        defer_build=True,  # its validator is built when it is first used
    )

    # One line for `varsim list`; every class that stands in a table has its own.
    about: ClassVar[str] = ""
    # What others call it; a strategy may be given by such a name.
    also_known_as: ClassVar[tuple[str, ...]] = ()
    # What others call it with a setting, and that setting as it is written: `key: value`.
    known_with: ClassVar[Mapping[str, str]] = {}
    # What of it does not go together, or not with what it is checked against.
    conflicts: ClassVar[Sequence[Refusal]] = ()
    # What is meant by a key that is None.
    left_out: ClassVar[Mapping[str, object]] = {}

    def refusals(self) -> Iterable[RefusalError | str]:
        """What else is wrong with it, and what to write instead; the first is what is said.

        A text is about all of it, or about the path that it begins with.
        """
        return ()

    @model_validator(mode="after")
    def _refused(self) -> Self:
        for why in chain(self.refusals(), refusals(self.conflicts, {"": self})):
            raise why if isinstance(why, RefusalError) else ValueError(why)
        return self


class InWords(NamedTuple):
    """What to write for a value, in words: stands in the annotation of a field."""

    text: str


class Grown(Model):
    """A model that was given keys later than results of it were kept.

    At their defaults these `later` keys are not written, so that a scenario without them is the
    same scenario as before, with the same hash.
    """

    later: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _written(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = whole(self)
        for key in self.later:
            if getattr(self, key) == type(self).model_fields[key].default:
                written.pop(key, None)
        return written


@cache
def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The text in quotes under each field, in one line; of bases, too.

    Read from the source, and empty where there is none. Pydantic can do so when a class is made
    (`use_attribute_docstrings`), which every start would pay for.
    """
    texts: dict[str, str] = {}
    for base in reversed(model.__mro__):
        for field, after in pairwise(_class_bodies(base.__module__).get(base.__name__, ())):
            match field, after:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    texts[name] = " ".join(text.split())
    return texts


@cache
def _class_bodies(module: str) -> dict[str, list[ast.stmt]]:
    """The statements of each class of a module."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError):  # made without a file
        return {}
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}


def one_of(table: Mapping[str, type[Model]], default: str | None = None) -> Any:
    """The type of a field that holds one of the table's models, told apart by `kind`.

    One that does not say its kind is of the `default`, if there is one.
    """
    if default is None:
        return Annotated[Union[tuple(table.values())], Field(discriminator="kind")]  # noqa: UP007

    def kind(value: object) -> object:
        given = value.get("kind", default) if isinstance(value, dict) else default
        return getattr(value, "kind", given)

    tagged = tuple(Annotated[model, Tag(kind)] for kind, model in table.items())
    return Annotated[Union[tagged], Discriminator(kind)]  # noqa: UP007
