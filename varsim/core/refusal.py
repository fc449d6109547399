"""Refusals: settings that do not go together, as data that are walked, and shown in the reference.

And the error by which any model refuses something, with the path that it is about.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Self


class RefusalError(ValueError):
    """A refusal with the path below the refusing model that it is about, where it is shown.

    Any other ValueError of a model is about the path that its message begins with (`stop.time has
    no effect: ...`), or else about the whole model.
    """

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.path = path

    def within(self, *path: str | int) -> "RefusalError":
        """The same, said of a model that has the refusing one at a path."""
        message = str(self)
        if message.startswith(dotted(self.path)):  # else the place is enough
            message = f"{dotted(path)}{'.' if self.path else ': '}{message}"
        return RefusalError(message, *path, *self.path)


class RefusalsError(ValueError):
    """Several refusals of one model, each with its path."""

    def __init__(self, each: Sequence[RefusalError]) -> None:
        super().__init__("\n".join(map(str, each)))
        self.each = each


def refused(path: str, says: str) -> RefusalError:
    """The refusal of what is at a path, which is what the sentence begins with.

    What it `says` follows that: `has no effect`, or `: there is none`.
    """
    return RefusalError(f"{path}{'' if says[:1] == ':' else ' '}{says}", *path.split("."))


def dotted(path: Iterable[str | int]) -> str:
    """A path as a message begins with it."""
    return ".".join(map(str, path))


class Refusal(NamedTuple):
    """Two settings that are refused together.

    `if_` is refused, beside `with_`. Each is a key (`overlap`), where it is given; `no` and a key,
    where it is left out; or a key with values (`overlap: true | forward`, `collective: not ring`).
    A key of what the model is checked against begins with the name of that (`events`,
    `cluster.overlap_pace`). `because`: why; `write`: what to write instead; `where`: a third
    setting, without which both may be there.
    """

    if_: str
    with_: str
    because: str = ""
    write: str = ""
    says: Literal["does not go with", "has no effect with", "needs"] = "does not go with"
    where: str = ""

    def needs(self) -> set[str]:
        """The names of the settings, or of what they are settings of."""
        return {_Setting.of(text).key.partition(".")[0] for text in (self.if_, self.with_)}

    def of(self, known: Mapping[str, object]) -> RefusalError | None:
        """The refusal of what is `known`, by name; the model's own keys are of the name "".

        Of settings of something else nothing is said.
        """
        one, other = _Setting.of(self.if_), _Setting.of(self.with_)
        subject, beside = one.found(known), other.found(known)
        if not (subject and beside) or (self.where and not _Setting.of(self.where).found(known)):
            return None
        return RefusalError(self.sentence(subject, beside), *one.key.split("."))

    def sentence(self, subject: str, beside: str) -> str:
        """What is said, with these words for the two settings."""
        says = self.says
        if beside.startswith("no "):
            beside = beside.removeprefix("no ")
            says = says.replace(" with", " without")  # type: ignore[assignment]
        because = f": {self.because}" if self.because else ""
        write = f" ({self.write})" if self.write else ""
        return f"{subject} {says} {beside}{because}{write}"


def no_effect(if_: str, with_: str, because: str = "", write: str = "") -> Refusal:
    """The refusal of a setting that has no effect beside another."""
    return Refusal(if_, with_, because, write, "has no effect with")


def refusals(table: Iterable[Refusal], known: Mapping[str, object]) -> Iterator[RefusalError]:
    """What of a table is said of what is known; see `Refusal.of`."""
    for one in table:
        if (found := one.of(known)) is not None:
            yield found


class _Setting(NamedTuple):
    """One of the two, taken apart: a key, and when it counts."""

    key: str
    values: Sequence[str]
    others: bool  # than these count
    absent: bool

    @classmethod
    def of(cls, text: str) -> Self:
        key, _, values = text.removeprefix("no ").partition(": ")
        named = values.removeprefix("not ").split(" | ") if values else []
        return cls(key, named, values.startswith("not "), text.startswith("no "))

    def found(self, known: Mapping[str, object]) -> str:
        """How the setting is called in a sentence, if it is what is known; else nothing."""
        first, *rest = self.key.split(".")
        if first in known and not rest:  # said in words, where it is there at all
            said = str(known[first] or "")
            return said if not self.absent else "" if said else f"no {first}"
        owner = known.get(first if first in known else "")
        *above, key = rest if first in known else [self.key]
        for step in above:
            owner = getattr(owner, step, None)
        fields = getattr(type(owner), "model_fields", {})
        if key not in fields:
            return ""
        value = getattr(owner, key)
        if not self.values:
            given = value != fields[key].default
            return "" if given == self.absent else f"{'no ' if self.absent else ''}{self.key}"
        if value is None:
            value = getattr(owner, "left_out", {}).get(key)
        words = _words(value)
        return "" if (words in self.values) == self.others else f"{self.key} {words}"


def _words(value: object) -> str:
    """A value as it is written: of a model its kind."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    return str(getattr(value, "kind", value))
