"""Every stored scenario gives the trace that it gave when it was recorded."""

import math
from typing import Any

import pytest

from tests.differential.recorded import digests, entries

ENTRIES = entries()
OF = ("drawn", "servers", "struck", "life", "program")
FEW = [entry for entry in ENTRIES if entry["name"].startswith(OF)][::6]
CHUNK = 50


def check(entry: dict[str, Any]) -> None:
    for found, stored in zip(digests(entry["text"]), entry["digests"], strict=True):
        of = f"{entry['name']}, {stored['strategy']} (as of {entry['commit']}):\n{entry['text']}"
        for key, value in stored.items():
            if isinstance(value, float):
                same = found[key] == pytest.approx(value, rel=1e-9, abs=1e-12, nan_ok=True)
                assert same or (math.isinf(value) and found[key] == value), f"{key} of {of}"
            else:
                assert found[key] == value, f"{key} of {of}"


@pytest.mark.parametrize("entry", FEW, ids=lambda entry: entry["name"])
def test_a_sample(entry: dict[str, Any]) -> None:
    check(entry)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(ENTRIES), CHUNK))
def test_all(first: int) -> None:
    for entry in ENTRIES[first : first + CHUNK]:
        check(entry)
