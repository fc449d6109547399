"""Everything that is wrong with a scenario is told, at its place, with what to type.

`mistakes.yaml` is the table of them. Here is how they are shown, and what no table can hold.
"""

import pickle
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from tests.scenario_text import JARGON, VALID, problems
from tests.seams import load_scenario, load_text
from varsim import ScenarioError, load

TABLE: Final = Path(__file__).with_name("mistakes.yaml")
WRITTEN: Final = YAML(typ="safe", pure=True).load(TABLE.read_text(encoding="utf-8"))
# What a text file in UTF-8 cannot be, and what is said of it.
BYTES: Final = {
    "a mark of its order": (b"\xef\xbb\xbfnmae: x\n", "1:1: error: unknown key 'nmae'"),
    "Latin-1": (b"name: caf\xe9\n", "1:10: error: byte 0xe9 is not UTF-8: save the file as UTF-8"),
    "UTF-16": ("name: x\n".encode("utf-16"), "error: this is UTF-16: save it as UTF-8"),
    "line ends of Windows": (
        b"name: x\r\ncluster:\r\n  wrokers: 4\r\n",
        "3:3: error: cluster: unknown key 'wrokers'; did you mean 'workers'?",
    ),
}


def text_of(case: Mapping[str, Any]) -> str:
    if "text" in case:
        return f"{case['text'] or ''}\n"
    base = str(WRITTEN["bases"][case["in"]])
    old = case.get("instead_of", "")
    assert old in base
    return base.replace(old, case.get("write", ""), 1)


def name_of(case: Mapping[str, Any]) -> str:
    return " ".join([*case.get("set", ()), case.get("write") or case.get("in", "text")])[:40]


@pytest.mark.parametrize("case", WRITTEN["cases"], ids=name_of)
def test_it_is_told_at_its_place(case: Mapping[str, Any]) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(text_of(case), case.get("set", ()))
    found = [
        f"{'--set' if one.source.order else f'{one.line}:{one.column}'} {one.message}"
        for one in caught.value.problems
    ]
    said = [one.removesuffix("...") for one in case["says"]]
    assert [one[: len(core)] for one, core in zip(found, said, strict=True)] == said
    whole = [one for one in case["says"] if not one.endswith("...")]
    assert [one for one in found if one in whole] == whole
    assert not JARGON.search(str(caught.value))
    for fault in caught.value.problems:
        if fault.line and fault.source.lines:
            _shown_with_a_caret(str(fault), fault.source.lines[fault.line - 1 :], fault.column)


def _shown_with_a_caret(shown: str, rest: Sequence[str], column: int) -> None:
    """Of a plain line that is not too long, the caret is below its column, or right behind it."""
    _, line, caret = shown.split("\n")
    assert re.fullmatch(r"  +\^", caret)
    assert len(line) <= 110
    if rest and rest[0].isascii() and rest[0].isprintable() and len(rest[0]) < 90:
        assert line.rstrip() == f"  {rest[0]}".rstrip()
        assert len(caret) == 2 + min(column, len(rest[0].rstrip()) + 1)


@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_no_text_are_told(name: str, tmp_path: Path) -> None:
    content, said = BYTES[name]
    path = tmp_path / "file.yaml"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match=re.escape(said)):
        load_scenario(path)


def test_problems_of_yaml_and_of_the_model_are_told_together() -> None:
    text = VALID.replace("seed: 7", "seed: 7\nseed: 8").replace("workers: 8", "workers: !x 8")
    text = text.replace("learning_rate: 0.1", "learning_rate: -1")
    assert [place[:2] for place in problems(text)] == [(4, 1), (7, 12), (16, 41)]


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


@pytest.mark.parametrize(
    ("old", "today"),
    [
        (
            "failures: {of: [{domain: worker, law: {kind: exponential, mean: 1 d}}]}",
            "distribution",
        ),
        ("targets: {loss: 1, time_to_loss: 2 s}", "time_to_target"),
        ("targets: {wasted: 0.1}", "wasted_compute"),
    ],
)
def test_keys_of_older_files_are_read_and_written_as_of_today(old: str, today: str) -> None:
    key = next(word for word in ("law", "time_to_loss", "wasted") if f"{word}:" in old)
    base = str(WRITTEN["bases"]["gone"])
    found, now = load(f"{base}\n{old}"), load(f"{base}\n{old.replace(f'{key}:', f'{today}:')}")

    assert found == now
    assert f"{today}:" in repr(found)
    both = old.replace(f"{key}:", f"{today}: 1, {key}:")
    with pytest.raises(ScenarioError, match=f"unknown key '{key}'"):
        load(f"{base}\n{both}")
