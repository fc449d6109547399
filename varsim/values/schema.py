"""Base of all models of a scenario: frozen, strict, found by `kind` in a table."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Union

from pydantic import BaseModel, ConfigDict, Field


class Model(BaseModel):
    """A frozen description; unknown keys and silent conversions are refused."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    # One line for `varsim list`; every class that stands in a table has its own.
    about: ClassVar[str] = ""


def one_of(table: Mapping[str, type[Model]]) -> Any:
    """The type of a field that holds one of the table's models, told apart by `kind`."""
    return Annotated[Union[tuple(table.values())], Field(discriminator="kind")]  # noqa: UP007
