"""Closed forms at other parameters than those of the bundled points: edges, and beyond them.

They stand in `tests/data/validation/other_points.json`: a family, its parameters, and what is
expected (`exact`: the formula, written out), or why it is refused or not run.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.validation.points import point, with_unit
from validation.finding import Finding, Verdict
from validation.points.findings import findings
from validation.points.point import PointFileError, read_points

CASES: dict[str, list[Any]] = json.loads(
    (Path(__file__).parents[1] / "data/validation/other_points.json").read_text(encoding="utf-8")
)


def of(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "case", CASES[kind], ids=lambda case: f"{case['family']} {case['parameters']}"
    )


def judged(folder: Path, family: str, parameters: Any, expected: Any = 1.0, **more: Any) -> Any:
    """The lines of one point; `quantity`, `unit` and `also` may be given."""
    path = with_unit(folder, point(family=family, parameters=parameters, expected=expected, **more))
    lines: list[Finding] = [one for one in findings(read_points(path)) if one.group == family]
    return lines


@of("exact")
def test_what_is_not_random_is_exact(tmp_path: Path, case: Any) -> None:
    (line,) = judged(tmp_path, case["family"], case["parameters"], case["expected"])

    kind = 1e-6 if line.group == "delay-rate" else 1e-9
    assert line.got == pytest.approx(case["expected"], rel=kind, abs=0)
    assert line.half_width is None


def test_the_fewest_servers_without_incast_may_be_more_than_workers(tmp_path: Path) -> None:
    parameters = {"w": 5, "k": 2, "M": 1e6, "b": 2e9, "B": 1e9}
    also = {"smallest_k_without_incast": 10}
    push, least = judged(tmp_path, "ps-incast", parameters, 5e6 / 2e9, also=also)

    assert push.verdict is Verdict.PASS
    assert least.got == 10


@of("no_formula")
def test_what_no_formula_is_for_is_not_run_and_says_why(tmp_path: Path, case: Any) -> None:
    (line,) = judged(tmp_path, case["family"], case["parameters"], unit="s")

    assert (line.verdict, line.got) == (Verdict.NOT_RUN, None)
    assert case["why"] in line.why


@of("no_sense")
def test_what_makes_no_sense_is_one_line(tmp_path: Path, case: Any) -> None:
    with pytest.raises(PointFileError) as raised:
        judged(tmp_path, case["family"], case["parameters"])

    (line,) = str(raised.value).splitlines()
    assert "point 1" in line
    assert case["why"] in line


@of("no_scenario")
def test_what_makes_no_scenario_is_not_run_and_says_why(tmp_path: Path, case: Any) -> None:
    (line,) = judged(tmp_path, case["family"], case["parameters"])

    assert line.verdict is Verdict.NOT_RUN
    assert line.why.startswith("cannot be simulated: ")
    assert case["why"] in line.why
    assert "pydantic" not in line.why
