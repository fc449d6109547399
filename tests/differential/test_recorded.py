"""Every stored scenario gives the trace that it gave when it was recorded."""

from typing import Any

import pytest

from tests.differential.recorded import changed, entries

ENTRIES = entries()
OF = ("drawn", "servers", "struck", "life", "program")
FEW = [entry for entry in ENTRIES if entry["name"].startswith(OF)][::6]
CHUNK = 50


def check(entry: dict[str, Any]) -> None:
    found = "\n".join(changed(entry))
    assert not found, f"{entry['name']} (as of {entry['commit']}):\n{found}\n{entry['text']}"


@pytest.mark.parametrize("entry", FEW, ids=lambda entry: entry["name"])
def test_a_sample(entry: dict[str, Any]) -> None:
    check(entry)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(ENTRIES), CHUNK))
def test_all(first: int) -> None:
    for entry in ENTRIES[first : first + CHUNK]:
        check(entry)
