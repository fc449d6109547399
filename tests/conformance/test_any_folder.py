"""`pytest tests/conformance --cases DIR` runs any folder: contract decides, quirks are listed."""

import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cases import DATA
from tests.conformance.files import files, left_out

HERE = Path(__file__).parent


def recorded(path: str, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A file of recorded cases without its cases, and one of them."""
    content = json.loads((DATA / path).read_text(encoding="utf-8"))
    (case,) = (case for case in content["cases"] if case["id"] == name)
    return {**content, "cases": []}, deepcopy(case)


def write(path: Path, content: dict[str, Any], *cases: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**content, "cases": list(cases)}), encoding="utf-8")


def run(folder: Path) -> tuple[int, str]:
    """Exit status and output of all recorded cases in a folder."""
    tests = [
        str(HERE / "test_conformance.py"),
        str(HERE / "variables" / "test_variables.py"),
    ]
    command = [sys.executable, "-m", "pytest", *tests, "--cases", str(folder)]
    options = ["-q", "-p", "no:cacheprovider", "-k", "test_recorded_case"]
    own = {key: value for key, value in os.environ.items() if key != "CI_NOTES"}
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, cwd=HERE.parent, env=own
    )
    return done.returncode, done.stdout


def test_quirks_that_are_not_followed_are_listed_and_unknown_topics_named(tmp_path: Path) -> None:
    head, quirk = recorded("variables/found.json", "found/int16-all-reduce")
    followed = {**quirk, "id": "other/followed"}
    wrong = {**deepcopy(quirk), "id": "other/not-followed"}
    wrong["steps"][0]["expect"] = {"result": {"container": "nothing"}}
    write(tmp_path / "deep" / "variables.json", head, followed, wrong)
    crashing = {**deepcopy(quirk), "id": "other/crashing", "steps": [{"op": "?", "expect": {}}]}
    write(tmp_path / "more.json", head, crashing)
    head, case = recorded("asynchronous.json", "async_random_53")
    case["events"][-1]["expect"]["global_step"] = -1
    write(tmp_path / "training.json", head, {**case, "id": "training_wrong"})
    later = {"id": "later_1", "kind": "later"}
    write(tmp_path / "schedules.json", {"schema": 1, "family": "in_between"}, later, later)
    (tmp_path / "facts.json").write_text("[1, 2]", encoding="utf-8")

    status, output = run(tmp_path)
    assert status == 0, output
    assert "recorded cases of variables: 3 (3 quirk)" in output
    assert "quirks among these cases of variables: 1 of 3 followed" in output
    assert "  not followed: other/crashing: variables: a defect: KeyError('?') at " in output
    assert "  not followed: other/not-followed: step 0 (assign_add): " in output
    assert "quirks among these cases: 0 of 1 followed" in output
    assert "  not followed: training-training_wrong: " in output
    assert "schedules.json: cases of a topic that is not replayed, left out: 2 later" in output
    assert "facts.json: no recorded cases in a format that is known; left out" in output


def test_a_contract_case_that_is_not_kept_fails(tmp_path: Path) -> None:
    head, case = recorded("variables/found.json", "found/assign-on-read-from-on-read-sum")
    case["steps"][1]["expect"]["after"]["v"][1]["data"] = [7.0]
    write(tmp_path / "variables.json", head, case)
    status, output = run(tmp_path)
    assert status == 1, output
    assert "test_variables.py::test_recorded_case[found/assign-on-read-from-on-read-sum]" in output


def test_a_folder_that_is_not_there_or_a_broken_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(pytest.UsageError, match="there is no folder"):
        files(tmp_path / "none")
    (tmp_path / "broken.json").write_bytes(b'{"format": 1, "cases"')
    with pytest.raises(pytest.UsageError, match=r"broken\.json cannot be read"):
        files(tmp_path)


def test_an_empty_folder_is_said(tmp_path: Path) -> None:
    assert left_out(tmp_path) == [f"{tmp_path}: no JSON file, so no recorded cases"]
