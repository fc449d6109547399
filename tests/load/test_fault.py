"""Everything that is wrong with a scenario file is told, at its place, with what to type."""

import pickle
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.scenario_text import JARGON, VALID, problems
from tests.seams import load_text
from varsim import ScenarioError, load_scenario

BROKEN = Path(__file__).parent / "broken"


def expectations() -> dict[str, list[tuple[int, int, str]]]:
    """From tests/load/broken/expected.txt: file -> its problems."""
    found = defaultdict(list)
    for row in (BROKEN / "expected.txt").read_text(encoding="utf-8").splitlines():
        if row and not row.startswith("#"):
            name, place, message = row.split(maxsplit=2)
            line, column = place.split(":")
            found[name].append((int(line), int(column), message))
    return found


EXPECTED = expectations()


def test_every_broken_file_is_expected() -> None:
    files = {path.stem for path in BROKEN.glob("*.yaml")}
    assert files == set(EXPECTED)
    assert len(files) >= 45


@pytest.mark.parametrize("name", EXPECTED)
def test_a_broken_file_is_explained(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BROKEN)
    with pytest.raises(ScenarioError) as caught:
        load_scenario(f"{name}.yaml")
    found = [(fault.line, fault.column) for fault in caught.value.problems]
    assert found == [(line, column) for line, column, _ in EXPECTED[name]]
    for fault, (_, _, message) in zip(caught.value.problems, EXPECTED[name], strict=True):
        pattern = ".*".join(re.escape(part) for part in message.split(" ... "))
        assert re.search(pattern, fault.message), fault.message
    assert not JARGON.search(str(caught.value))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_problem_is_shown_with_its_line_and_a_caret(name: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(BROKEN / f"{name}.yaml")
    shown = str(caught.value)
    for fault in caught.value.problems:
        if fault.line == 0:
            assert f"{name}.yaml: error: {fault.message}" in shown
            continue
        head, line, caret = str(fault).split("\n")
        assert head.endswith(f"{name}.yaml:{fault.line}:{fault.column}: error: {fault.message}")
        assert re.fullmatch(r"  +\^", caret)
        assert len(line) <= 110
        source = fault.source.lines[fault.line - 1]
        if source.isascii() and source.isprintable() and len(source) < 90:
            assert line == f"  {source}"
            assert len(caret) == 2 + fault.column
            # The caret stands under something, or right behind the line.
            assert fault.column <= len(source) + 1


def test_a_misspelt_key_is_not_also_missing() -> None:
    text = VALID.replace("workers: 8", "worker: 8")
    assert problems(text) == [(6, 3, "cluster: unknown key 'worker'; did you mean 'workers'?")]


def test_problems_of_yaml_and_of_the_model_are_told_together() -> None:
    text = VALID.replace("seed: 7", "seed: 7\nseed: 8").replace("workers: 8", "workers: !x 8")
    text = text.replace("learning_rate: 0.1", "learning_rate: -1")
    assert [place[:2] for place in problems(text)] == [(4, 1), (7, 12), (16, 41)]


def test_a_broken_value_hides_no_other_problem_and_makes_none() -> None:
    text = VALID.replace("factor: 2.0", "factor: .nan").replace("sharing: fair", "sharing: no")
    assert [place[:2] for place in problems(text)] == [(8, 36), (10, 72)]


def test_a_kind_written_as_a_key_is_explained() -> None:
    text = VALID.replace("- {kind: on_write}", "- on_write: {}")
    assert problems(text) == [(17, 5, "strategies[0].kind is missing: write {kind: on_write, ...}")]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # A section that slipped into the one above it.
        ("targets:", "  targets:", [(22, 3)]),
        # A dash too few, and one too many.
        ("  - {kind: on_read", "  -{kind: on_read", [(18, 3)]),
        ("  workers: 8", "  - workers: 8", [(7, 3)]),
        # A mark of version control.
        ("name: b", "<<<<<<< HEAD\nname: b", [(2, 1)]),
        # A comment without its sign.
        ("# Does", "Does", [(1, 1)]),
    ],
)
def test_a_slip_is_found_where_it_was_made(
    old: str, new: str, expected: list[tuple[int, int]]
) -> None:
    assert [place[:2] for place in problems(VALID.replace(old, new, 1))] == expected


def test_at_most_fifty_problems_are_shown() -> None:
    text = VALID + "".join(f"key{number}: 1\n" for number in range(60))
    with pytest.raises(ScenarioError) as caught:
        load_text(text)
    assert len(caught.value.problems) == 60
    assert str(caught.value).count("error:") == 50
    assert str(caught.value).endswith("... and 10 more problems")


def test_a_long_line_is_shown_around_its_caret() -> None:
    text = "{" + "a: 1, " * 40 + "b: .inf, " + "c: 1, " * 40 + "}"
    with pytest.raises(ScenarioError) as caught:
        load_text(text)
    fault = next(fault for fault in caught.value.problems if "infinity" in fault.message)
    _, line, caret = str(fault).split("\n")
    assert line.startswith("  ...")
    assert line.endswith("...")
    assert line[caret.index("^") :].startswith(".inf")


def test_a_caret_stands_right_behind_wide_characters() -> None:
    with pytest.raises(ScenarioError) as caught:
        load_text("名前: {a: 日本, b: .inf}")
    _, line, caret = str(caught.value.problems[-1]).split("\n")
    assert line == "  名前: {a: 日本, b: .inf}"
    assert len(caret) == 2 + line.strip().index(".inf") + 4 + 1  # four characters of two columns


def test_an_error_can_be_pickled() -> None:
    with pytest.raises(ScenarioError) as caught:
        load_text("a: b")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
