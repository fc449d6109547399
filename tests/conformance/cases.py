"""Recorded cases: how they are read, and which of them varsim cannot replay yet."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

DATA: Final = Path(__file__).parent / "data"

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


def cases(folder: Path) -> list[Case]:
    """All cases of all files of this kind in a folder."""
    found = []
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if "format" in content:
            continue  # cases of distributed variables: see variables/
        assert content["schema"] == 1, f"{path}: unknown schema"
        found += [Case(path.stem, record) for record in content["cases"]]
    return found


def _is_an_accumulator(case: Record) -> bool:
    return bool(case["kind"] == "accumulator")


def _has_sparse_gradients(case: Record) -> bool:
    if _is_an_accumulator(case):
        return bool(case["accumulator"]["type"] == "sparse")
    return any(variable.get("sparse") for variable in case.get("variables", ()))


def _adds_up(case: Record) -> bool:
    return _is_an_accumulator(case) and case["accumulator"]["reduction"] == "SUM"


def _checks_shapes(case: Record) -> bool:
    if not _is_an_accumulator(case):
        return False
    shape = case["accumulator"]["shape"]
    if shape is None or None in shape:
        return True
    return any("accepted" in c["expect"] and "error" in c["expect"] for c in case["program"])


def _calls(operation: str) -> Callable[[Record], bool]:
    return lambda case: any(call["op"] == operation for call in case.get("program", ()))


def _happens(*events: str) -> Callable[[Record], bool]:
    return lambda case: any(event["do"] in events for event in case.get("events", ()))


# What varsim cannot express yet. A case is counted under the first reason that holds.
NOT_YET: Final[dict[str, Callable[[Record], bool]]] = {
    "calls of the Python interface": lambda case: case["kind"] == "errors",
    "sparse gradients": _has_sparse_gradients,
    "accumulators that cannot be made": lambda case: "create_error" in case,
    "sums instead of means": _adds_up,
    "takes that are cancelled": _calls("cancel_take"),
    "shapes and dtypes that are checked": _checks_shapes,
    "an accumulator's step set from outside": _calls("set_global_step"),
    "moving averages": lambda case: bool(case.get("config", {}).get("ema")),
    "processes lost, restarted or stopped": _happens("kill", "restart", "stop"),
    "variables without a gradient": lambda case: any(
        variable.get("no_gradient") for variable in case.get("variables", ())
    ),
}

# Quirks that varsim leaves out, each with what is therefore not compared; all else is.
# varsim's Adam counts the updates when it applies one, TensorFlow's when the worker reads.
LEFT_OUT: Final[dict[str, frozenset[str]]] = {
    "adam_powers_read_at_start": frozenset({"variables"}),
}


def why_not(case: Case) -> str | None:
    """The reason why a case cannot be replayed yet; None if it can."""
    return next((reason for reason, holds in NOT_YET.items() if holds(case.record)), None)


def not_yet(all_cases: Iterable[Case]) -> dict[str, int]:
    """How many cases cannot be replayed yet, by reason."""
    return dict(Counter(reason for case in all_cases if (reason := why_not(case)) is not None))


def not_compared(case: Record) -> frozenset[str]:
    """What is not compared because varsim leaves out a quirk of the case."""
    return LEFT_OUT.get(case.get("quirk", ""), frozenset())


def summary(all_cases: Iterable[Case]) -> str:
    """What is replayed and what is not, in one line."""
    listed = list(all_cases)
    missing = not_yet(listed)
    left = sum(missing.values())
    partly = sum(why_not(case) is None and bool(not_compared(case.record)) for case in listed)
    reasons = ", ".join(f"{reason} {missing[reason]}" for reason in NOT_YET if reason in missing)
    return (
        f"recorded cases: {len(listed) - left} of {len(listed)} can be replayed "
        f"({partly} without the values of variables); not yet replayed: {left}"
        + (f" ({reasons})" if reasons else "")
    )
