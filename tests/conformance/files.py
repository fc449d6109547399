"""Files of recorded cases: found in a folder, read once, told apart by what is written in them."""

import gzip
import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

# The kinds of cases with {"schema": 1} that are replayed; {"format": 1} is of variables.
KINDS: Final = frozenset({"accumulator", "sync_replicas", "async_ps", "errors"})

# And those of strategies in between synchronous and asynchronous.
BETWEEN: Final[frozenset[str]] = frozenset(
    {
        "diloco",
        "diloco_recovery",
        "easgd",
        "drop_compute",
        "gossip",
        "sgp",
        "local_sgd",
        "post_local_sgd",
        "ssp",
        "async",
        "k_async",
        "k_batch_async",
        "k_batch_sync",
        "k_sync",
    }
)


def gone(case: Mapping[str, Any]) -> bool:
    """Whether a case is of settings that varsim has no more."""
    turns = case.get("mode") == "round_robin"
    return turns or bool(case.get("subgroups")) or case.get("check") == "preempt"


@cache
def files(folder: Path) -> dict[Path, Any]:
    """What all JSON files in a folder and below it contain, also those that are compressed."""
    if not folder.is_dir():
        raise pytest.UsageError(f"--cases: there is no folder {folder}")
    found = {}
    for path in sorted([*folder.rglob("*.json"), *folder.rglob("*.json.gz")]):
        content = path.read_bytes()
        try:
            found[path] = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
        except (ValueError, OSError) as error:
            raise pytest.UsageError(f"{path} cannot be read: {error}") from None
    return found


def of_variables(content: Any) -> bool:
    """Whether a file holds cases of distributed variables."""
    return isinstance(content, dict) and content.get("format") == 1 and "cases" in content


def of_training(content: Any) -> bool:
    """Whether a file holds cases of {"schema": 1}, of any kind."""
    return isinstance(content, dict) and content.get("schema") == 1 and "cases" in content


def of_between(content: Any) -> bool:
    """Whether a file holds cases of strategies in between."""
    return of_training(content) and str(content.get("family", "")).startswith("in_between")


def left_out(folder: Path) -> list[str]:
    """A line for each file with something that nothing here replays."""
    lines = []
    for path, content in files(folder).items():
        if of_variables(content):
            continue
        if not of_training(content):
            lines.append(f"{path.name}: no recorded cases in a format that is known; left out")
            continue
        known = BETWEEN if of_between(content) else KINDS
        unknown = Counter(
            case["kind"] for case in content["cases"] if case["kind"] not in known or gone(case)
        )
        if unknown:
            kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(unknown.items()))
            lines.append(f"{path.name}: cases of a topic that is not replayed, left out: {kinds}")
    return lines or ([] if files(folder) else [f"{folder}: no JSON file, so no recorded cases"])
