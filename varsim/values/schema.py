"""Base of all models of a scenario: frozen, strict, found by `kind` in a table."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Union

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag


class Model(BaseModel):
    """A frozen description; unknown keys and silent conversions are refused."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    # One line for `varsim list`; every class that stands in a table has its own.
    about: ClassVar[str] = ""


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
