"""Tables of what scenarios can name, open to who registers more."""

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, get_args

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, SchemaValidator, core_schema

from varsim.core.schema import Model, one_of

T = TypeVar("T")


class Registry(ABC, Generic[T]):
    """Things by name: varsim's `own`, and those that were registered.

    `home`: the module that holds the table; `noun`: what one of the things is called. Beside a
    type in `Annotated`, it says which values the type has at the time they are looked at.
    """

    def __init__(self, what: str, noun: str, own: Mapping[str, T], home: str) -> None:
        self.what, self.noun, self.own, self.home = what, noun, own, home
        self.registered: dict[str, T] = {}
        _TABLES[home, what] = self

    def __reduce__(self) -> tuple[object, ...]:
        """In another process it is the table there: models that travel refer to it."""
        return _table, (self.home, self.what)

    @property
    def all(self) -> dict[str, T]:
        """Everything there is, varsim's own first."""
        return {**self.own, **self.registered}

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self.registered

    def __getitem__(self, name: str) -> T:
        return self.own[name] if name in self.own else self.registered[name]

    def register(self, thing: T) -> None:
        """Add one under its name; ValueError where that is taken, or where it is none.

        The same again, such as of a notebook's cell that is run again, takes the place of itself.
        """
        name = self.name_of(thing)
        if reason := self.unfit(thing, name):
            raise ValueError(f"{title(thing)} cannot be registered: {reason}")
        taken = ""
        if name in self.own:
            taken = "varsim has one of that name itself"
        elif name in self.registered and title(self.registered[name]) != title(thing):
            taken = f"{title(self.registered[name])} is registered under that name"
        if taken:
            raise ValueError(f"the {self.noun} {name!r} is taken: {taken}; choose another name")
        self.registered[name] = thing

    @abstractmethod
    def takes(self, thing: object) -> bool:
        """Whether it is a thing of such a table."""

    @abstractmethod
    def name_of(self, thing: T) -> str:
        """The name that it gives itself; empty where it gives none."""

    @abstractmethod
    def about(self, thing: T) -> str:
        """What it is, in a line."""

    def unfit(self, thing: T, name: str) -> str:
        """Why it cannot stand under a name; empty where it can."""
        return "" if name else f"it has no name: {self.noun}s are told apart by one"


class Models(Registry[type[Model]]):
    """Classes of models, told apart by `kind`; without one, `default` is meant."""

    def __init__(
        self,
        what: str,
        noun: str,
        own: Mapping[str, type[Model]],
        home: str,
        base: type[Model],
        default: str | None = None,
    ) -> None:
        super().__init__(what, noun, own, home)
        self.base, self.default = base, default
        self._in_schema = False

    def takes(self, thing: object) -> bool:
        return isinstance(thing, type) and issubclass(thing, self.base)

    def name_of(self, thing: type[Model]) -> str:
        kinds = get_args(thing.model_fields["kind"].annotation)
        return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], str) else ""

    def about(self, thing: type[Model]) -> str:
        return thing.about

    def unfit(self, thing: type[Model], name: str) -> str:
        """It must say of what kind it is, and define all that the base leaves open."""
        if not name:
            return 'it does not say of what kind it is: kind: Literal["..."] = "..."'
        missing = sorted(getattr(thing, "__abstractmethods__", ()))
        return f"it does not define {', '.join(missing)}" if missing else ""

    def type(self) -> Any:
        """The type of a field that holds one of these models."""
        return Annotated[self.base, self]

    @cached_property
    def _every(self) -> TypeAdapter[Any]:
        """All of varsim's own at once: takes long to build, and most scenarios name a few."""
        return TypeAdapter(one_of(self.own, self.default))

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(
            self._validated, serialization=_AS_IT_IS
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        outermost, self._in_schema = not self._in_schema, True
        try:
            found = handler(self._every.core_schema if outermost else self._references)
            for name, model in self.registered.items():
                whole = TypeAdapter(model).core_schema
                reference = _reference(whole)
                defined = core_schema.definitions_schema(reference, [whole])
                one = handler(defined if outermost else reference)
                if "$ref" in one and "discriminator" in found:
                    found["discriminator"]["mapping"][name] = one["$ref"]
                found["oneOf"].append(one)
        finally:
            self._in_schema = not outermost
        return found

    @property
    def _references(self) -> CoreSchema:
        """All of varsim's own where one of them has others in it: only what they are called."""
        union: Any = self._every.core_schema
        union = union["schema"] if union["type"] == "definitions" else union
        return {**union, "choices": {name: _reference(it) for name, it in union["choices"].items()}}

    def _validated(self, value: Any, info: core_schema.ValidationInfo) -> Any:
        if isinstance(value, self.base):
            return value
        name = value.get("kind", self.default) if isinstance(value, dict) else None
        if isinstance(name, str) and name not in self:
            name = as_kind(name)
            if name in self:
                value = {**value, "kind": name}
        if not isinstance(name, str) or name not in self:
            return self._every.validate_python(value)  # whose error says what there is
        model = self[name]

        def whole(one: object) -> Model:
            if info.mode == "json":  # which is strict in another way than Python
                return model.model_validate_json(json.dumps(one), context=info.context)
            return model.model_validate(one, context=info.context)

        # As a union would have it, with the kind in the place of every error.
        union = core_schema.tagged_union_schema(
            {name: core_schema.no_info_plain_validator_function(whole)}, lambda _: name
        )
        return SchemaValidator(union).validate_python(value)


class Functions(Registry[Callable[..., Any]]):
    """Functions, by name; `also`: what may stand in place of such a name."""

    def __init__(
        self,
        what: str,
        noun: str,
        own: Mapping[str, Callable[..., Any]],
        home: str,
        also: tuple[str, ...] = (),
    ) -> None:
        super().__init__(what, noun, own, home)
        self.also = also

    def takes(self, thing: object) -> bool:
        return inspect.isfunction(thing)

    def name_of(self, thing: Callable[..., Any]) -> str:
        name = str(getattr(thing, "__name__", ""))
        return name if name.isidentifier() else ""

    def about(self, thing: Callable[..., Any]) -> str:
        return (inspect.getdoc(thing) or "").partition("\n")[0].rstrip(".")

    def unfit(self, thing: Callable[..., Any], name: str) -> str:
        """Its name must not be one that stands for something else."""
        if name in self.also:
            return f"{name!r} means something else there"
        return super().unfit(thing, name)

    @property
    def names(self) -> tuple[str, ...]:
        """All that can be written."""
        return (*self.own, *self.also, *self.registered)

    def type(self) -> Any:
        """The type of a field that holds one of the names."""
        return Annotated[str, self]

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        own = handler.generate_schema(Literal[(*self.own, *self.also)])
        return core_schema.no_info_wrap_validator_function(
            self._validated, own, serialization=_AS_IT_IS
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        found = handler(schema)
        return {**found, "enum": [*found["enum"], *self.registered]}

    def _validated(self, value: Any, own: Callable[[Any], Any]) -> Any:
        return value if isinstance(value, str) and value in self.registered else own(value)


def as_kind(name: str) -> str:
    """A kind written in any case, or as TensorFlow writes it: VariableSynchronization.ON_WRITE."""
    return name.rpartition(".")[2].lower().replace("-", "_")


def title(thing: object) -> str:
    """What a thing is called, with the module that it is of: `class my_module.Mine`."""
    noun = "class" if isinstance(thing, type) else "function"
    return f"{noun} {getattr(thing, '__module__', '?')}.{getattr(thing, '__qualname__', '?')}"


def _reference(model: Any) -> CoreSchema:
    return core_schema.definition_reference_schema(model.get("schema_ref") or model["ref"])


# A value is written as what it is, whether of varsim or not.
_AS_IT_IS: Final = core_schema.wrap_serializer_function_ser_schema(
    lambda value, write: write(value), schema=core_schema.any_schema()
)
_TABLES: Final[dict[tuple[str, str], Registry[Any]]] = {}


def _table(home: str, what: str) -> Registry[Any]:
    import_module(home)
    return _TABLES[home, what]
