"""Every message of a refusal in the package has a category, and says what to do instead."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import varsim.distribute
from varsim.distribute import program
from varsim.values import operation

# The reasons that the recorded cases of TensorFlow's variables know (their README, "Categories").
CATEGORIES = {
    *("synchronization_none", "mean_of_non_float", "invalid_synchronization"),
    *("invalid_aggregation", "aggregation_required", "no_reduce_op", "same_value_sum"),
    *("sum_cross_replica_add", "sum_cross_replica_sub", "shape_mismatch", "dtype_mismatch"),
    *("dtype_unsupported", "axis_range", "gather_rank", "wrong_context", "mixed_strategies"),
    *("merge_call_mismatch", "aggregate_read_unsupported", "scatter_unsupported", "batch_mixed"),
    *("colocate", "destination", "not_a_reduce_op", "args_not_a_sequence", "invalid_option"),
    *("devices_undefined", "not_implemented", "algorithm_needs_gpu", "assertion"),
    *("literal_attribute", "per_replica_operand"),
    # What they have no name for (UNKNOWN): what becomes no tensor.
    "not_a_tensor",
}

# Among the first words of an advice is one of these.
ADVICE = {
    *("use", "give", "make", "create", "call", "ask", "name", "reduce", "cast", "assign"),
    *("reshape", "convert", "leave", "let", "do", "take", "pad", "gather"),
}

# What a program's YAML may say is refused by its models, in words of the scenario.
SOURCES = sorted(set(Path(varsim.distribute.__path__[0]).glob("*.py")) - {Path(program.__file__)})
REFUSALS = {name for name in vars(operation) if name.endswith("Error")} | {"refuse_scatter"}


class Refusal(NamedTuple):
    """One place where something is refused; `{}` stands for what is only known when it happens."""

    place: str
    categories: list[str]
    message: str


def texts(node: ast.expr) -> list[str]:
    """What an expression may be, where it is made of texts."""
    if isinstance(node, ast.IfExp):
        return [*texts(node.body), *texts(node.orelse)]
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
        return ["".join(map(str, parts))]
    return [str(node.value)] if isinstance(node, ast.Constant) else []


def refusals() -> Iterator[Refusal]:
    """Every place in the package."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id not in REFUSALS:
                continue
            place = f"{path.name}:{node.lineno}"
            *first, message = node.args
            if node.func.id == "refuse_scatter":
                yield Refusal(place, ["scatter_unsupported"], texts(message)[0])
            elif isinstance(message, ast.Name):
                assert path.name == "variable.py", "only refuse_scatter hands on a message"
            else:
                yield Refusal(place, texts(first[0]), texts(message)[0])


FOUND = list(refusals())


def advises(message: str) -> bool:
    """Does it say behind a colon or semicolon what to do?"""
    behind = [message[place + 1 :] for place, letter in enumerate(message) if letter in ":;"]
    return any(ADVICE & set(rest.replace(",", " ").split()[:6]) for rest in behind)


def test_all_places_are_found() -> None:
    assert len(FOUND) > 45
    assert {category for one in FOUND for category in one.categories} == CATEGORIES
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and node.exc is not None:  # not one handed on
                assert isinstance(node.exc, ast.Call)
                assert isinstance(node.exc.func, ast.Name)
                # Two helpers of central.py make what is raised.
                assert node.exc.func.id in REFUSALS | {"_devices_undefined", "_missing"}


def test_the_categories_are_those_of_the_recorded_cases() -> None:
    cases = Path(__file__).parents[2] / "conformance" / "data" / "variables"
    recorded = {
        category
        for path in cases.glob("*.json")
        for category in re.findall(r'"category": ?"(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert recorded - {"UNKNOWN"} <= CATEGORIES
    assert CATEGORIES - recorded == {"not_a_tensor"}


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.place)
def test_every_message_says_what_to_do(found: Refusal) -> None:
    assert found.categories
    assert set(found.categories) <= CATEGORIES
    assert advises(found.message), found.message
    assert not found.message.endswith(".")
    assert "\n" not in found.message
