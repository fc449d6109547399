"""Files of test points for tests."""

import json
from pathlib import Path
from typing import Any

POINT: dict[str, Any] = {
    "id": "slow-worker-02",
    "family": "slow-worker",
    "title": "one slow worker among n",
    "scenario": "",
    "formula": "",
    "citation": "a book",
    "formula_status": "",
    "parameters": {"mode": "async", "n": 8, "T": 1.0, "f": 4.0},
    "quantity": "used gradients per second",
    "unit": "1/s",
    "expected": 7.25,
    "tolerance_kind": "det",
    "tolerance_rationale": "",
    "check": None,
}


def point(**changes: Any) -> dict[str, Any]:
    """A point that passes, with changes; None leaves a key out."""
    return {key: value for key, value in {**POINT, **changes}.items() if value is not None}


def with_unit(folder: Path, *points: Any) -> Path:
    """A file of points."""
    path = folder / "points.json"
    path.write_text(json.dumps(list(points)))
    return path
