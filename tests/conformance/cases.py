"""Recorded cases: how they are read, and what of them varsim does not follow."""

from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.conformance.files import BETWEEN, KINDS, files, gone, of_between, of_training

DATA: Final = (Path(__file__).parent / "data").resolve()

# One JSON object of a case file, as written there.
Record = Mapping[str, Any]


class Case(NamedTuple):
    """One recorded case and the file it stands in."""

    file: str
    record: Record

    @property
    def name(self) -> str:
        """What the case is called in a test report."""
        return f"{self.file}-{self.record['id']}"

    @property
    def kind(self) -> str:
        """Which replay it needs."""
        kind: str = self.record["kind"]
        return kind


def cases(folder: Path, between: bool = False) -> list[Case]:
    """All cases of the kinds that are replayed in a folder and below it; others: `left_out`.

    Those of strategies in `between`, or of TensorFlow's own.
    """
    return [
        Case(path.stem, record)
        for path, content in files(folder).items()
        if of_training(content) and of_between(content) == between
        for record in content["cases"]
        if record["kind"] in (BETWEEN if between else KINDS) and not (between and gone(record))
    ]


# Quirks that varsim leaves out, each with what is therefore not compared; all else is.
# varsim's Adam counts the updates when it applies one, TensorFlow's when the worker reads.
LEFT_OUT: Final[dict[str, frozenset[str]]] = {
    "adam_powers_read_at_start": frozenset({"variables"}),
}

LEFT_OUT_WHY: Final = "the values of variables are not compared"

_AT_ONCE: Final = "start() makes the accumulators, the tokens and the chief; none is there before"

# Calls of TensorFlow's Python interface, by name and case, to which nothing in varsim corresponds.
NO_COUNTERPART: Final[Mapping[tuple[str, str], str]] = {
    ("apply_gradients", "no global step"): "every job counts its own steps",
    ("get_chief_queue_runner", "before apply_gradients"): _AT_ONCE,
    ("hook", "before apply_gradients"): _AT_ONCE,
    ("get_init_tokens_op", "before apply_gradients"): _AT_ONCE,
}


def not_compared(case: Record) -> frozenset[str]:
    """What is not compared because varsim leaves out a quirk of the case."""
    return LEFT_OUT.get(case.get("quirk", ""), frozenset())


def is_quirk(case: Record) -> bool:
    """Whether a case records what follows from a detail of TensorFlow's implementation."""
    return "quirk" in case


def has_counterpart(call: Record) -> bool:
    """Whether a call of TensorFlow's Python interface corresponds to something in varsim."""
    return (call["call"], call.get("case")) not in NO_COUNTERPART


def calls_left_out(all_cases: Iterable[Case]) -> list[tuple[str, str]]:
    """The calls that are not made, by name and case."""
    calls = (call for case in all_cases for call in case.record.get("calls", ()))
    return [(call["call"], call["case"]) for call in calls if not has_counterpart(call)]


def quirks(found: Iterable[Case], passed: Set[str], differing: Mapping[str, str]) -> list[str]:
    """Lines about the cases that record a quirk: how many are followed, and which are not."""
    names = [case.name for case in found if is_quirk(case.record)]
    partly = {case.name for case in found if not_compared(case.record)}
    return told(
        "cases",
        names,
        passed - partly,
        dict.fromkeys(partly & passed, LEFT_OUT_WHY)
        | {name: why for name, why in differing.items() if name in names},
    )


def told(
    what: str, names: Sequence[str], followed: Set[str], differing: Mapping[str, str]
) -> list[str]:
    """Lines about the recorded quirks that were replayed, apart from the contract."""
    names = [name for name in names if name in followed or name in differing]
    if not names:
        return []
    number = sum(name in followed for name in names)
    lines = [f"quirks among these {what}: {number} of {len(names)} followed"]
    lines += [f"  not followed: {name}: {differing[name]}" for name in names if name in differing]
    return lines


def summary(all_cases: Iterable[Case]) -> str:
    """How many cases there are, and what of them is not compared, in one line."""
    listed = list(all_cases)
    partly = sum(bool(not_compared(case.record)) for case in listed)
    return (
        f"recorded cases: {len(listed)} ({partly} without the values of variables, "
        f"{len(calls_left_out(listed))} calls have no counterpart)"
    )
