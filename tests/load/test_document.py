"""YAML 1.2 is read for what it says, and no text at all breaks or delays the reader."""

import re
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.scenario_text import JARGON, VALID, problems
from tests.seams import load_scenario, load_text
from varsim import ScenarioError

# A place for a value of each type: what stands there in VALID, and how it is read.
PLACES_OF = {
    "number": ("learning_rate: 0.1", "learning_rate: {}", "workload.optimizer.learning_rate"),
    "whole": ("workers: 8", "workers: {}", "cluster.workers"),
    "text": ("name: backup-worker", "name: {}", "name"),
    "label": ('name: "no: waiting"', "name: {}", "strategies.2.name"),
    "truth": ("read_every: 10", "read_every: 10, write_back: {}", "strategies.1.write_back"),
    "maybe": ("stop: {global_steps: 500}", "stop: {{global_steps: 500, time: {}}}", "stop.time"),
}


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("number", "1", 1.0),
        ("number", ".5", 0.5),
        ("number", "5.", 5.0),
        ("number", "1.5e-3", 1.5e-3),
        ("number", "+1e0", 1.0),
        ("whole", "010", 10),
        ("whole", "0o17", 15),
        ("whole", "0x1F", 31),
        ("whole", "+9", 9),
        ("text", "yes", "yes"),
        ("text", "off", "off"),
        ("text", "2024-01-01", "2024-01-01"),
        ("text", "1_000", "1_000"),
        ("text", "'8'", "8"),
        ("label", "12:30:45", "12:30:45"),
        ("label", '"\\u00e9"', "é"),
        ("label", "'a  b'", "a  b"),
        ("truth", "true", True),
        ("truth", "FALSE", False),
        ("maybe", "null", None),
        ("maybe", "~", None),
        ("maybe", "3 us", 3e-6),
    ],
)
def test_an_unquoted_value_means_what_yaml_1_2_says(type_: str, text: str, value: object) -> None:
    old, new, path = PLACES_OF[type_]
    found: Any = load_text(VALID.replace(old, new.format(text)))
    for step in path.split("."):
        found = found[int(step)] if step.isdecimal() else getattr(found, step)
    assert found == value
    assert type(found) is type(value)


def test_text_may_go_on_for_several_lines() -> None:
    text = VALID.replace(
        '{kind: none, name: "no: waiting"}', "kind: none\n    name: two\n      lines"
    )
    assert load_text(text).strategies[2].name == "two lines"
    assert load_text(VALID.replace("workers: 8", "? workers\n  : 8")) == load_text(VALID)


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_whole_number_has_at_most_40_characters(sign: str) -> None:
    longest = sign + "1" * (40 - len(sign))
    ((*_, too_large),) = problems(VALID.replace("seed: 7", f"seed: {longest}"))
    assert too_large.startswith("seed must be a whole number of at least 0 and below")
    ((*_, too_long),) = problems(VALID.replace("seed: 7", f"seed: {longest}1"))
    assert too_long == "a number of 41 digits"


# Hostile text


KIB = 256 * 1024
HOSTILE = {
    "brackets": "[" * 100_000,
    "braces": "{" * 100_000,
    "brackets with text": "[a, " * 60_000,
    "keys in braces": "{a: " * 60_000,
    "dashes": "- " * 130_000,
    "question marks": "? " * 130_000,
    "colons": "a:" * 130_000,
    "ever deeper": "".join(" " * depth + "a:\n" for depth in range(700)),
    "one long word": "a" * KIB,
    "one long value": "a: " + "b " * 130_000,
    "one long quoted value": 'a: "' + "\\n" * 130_000,
    "one long number": "a: " + "9" * 200_000,
    "one long fraction": "a: 0." + "9" * 200_000,
    "one huge exponent": "number: 1e999999999999",
    "hexadecimal": "a: 0x" + "f" * 200_000,
    "many keys": "".join(f"key{number}: 1\n" for number in range(9_900)),
    "many keys like a known one": "".join(f"cluster{number}: 1\n" for number in range(9_900)),
    "many values": "strategies: [" + "1, " * 19_000 + "]",
    "too many values": "a: [" + "1," * 130_000 + "]",
    "many strategies": "strategies:\n" + "- {kind: on_raed, x: 1}\n" * 3_900,
    "many repeated keys": "name: x\n" * 9_900,
    "many anchors": "&a " * 80_000,
    "billion laughs": "a: &a [x]\n" + "".join(f"b{n}: &b{n} [{'*a, ' * 9}]\n" for n in range(99)),
    "long tag": "a: !" + "b" * 200_000,
    "many directives": "%TAG ! x\n" * 20_000,
    "many documents": "---\na\n" * 20_000,
    "many blank lines": "\n" * KIB,
    "many tabs": "\t" * KIB,
    "one long comment": "#" * KIB,
    "nul": "name: \0",
    "escape": "name: \x1b]0;x\x07",
    "infinities": "a: [.inf, -.inf, .INF, +.Inf]",
    "nan": "a: [.nan, .NaN, .NAN]",
    "too large": "a" * (10 * 2**20),
    "lone surrogate": "a: \ud800",
    "right to left": "a: \u202eb",
    "long unit": "cluster: {network: {bandwidth: 1 " + "G" * 200_000 + "}}",
    "long quantity": "stop: {time: 0." + "0" * 200_000 + "1 s}",
    "long kind": "strategies: [{kind: " + "on_write" * 20_000 + "}]",
    "long preset": VALID.replace("resnet50", "r" * 200_000),
}


@pytest.fixture(scope="module")
def small() -> float:
    """The CPU time (s) of reading a small scenario on this machine."""
    taken = []
    for _ in range(20):
        start = time.process_time()
        load_text(VALID)
        taken.append(time.process_time() - start)
    return min(taken)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_in_the_time_of_2000_small_scenarios(
    name: str, small: float
) -> None:
    start = time.process_time()
    with pytest.raises(ScenarioError) as caught:
        load_text(HOSTILE[name])
    shown = str(caught.value)
    assert time.process_time() - start < 2_000 * small
    assert len(shown) < 30_000
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)
    assert not JARGON.search(shown)


words = st.sampled_from(
    [
        *"[]{}:,-?&*!|>'\"%@`#~\t\n\0\\=<. ",
        "\n  ",
        "\n- ",
        ": ",
        "---\n",
        "...\n",
        "a",
        "name",
        "kind",
        "8",
        "1e5",
        "20 ms",
        "null",
        "!!str ",
        "<<",
        "\u00a0",
        "\ufeff",
        "\u2028",
        "é",
        "\U0001d4b3",
        "\ud800",
    ]
)
texts = st.one_of(st.text(max_size=60), st.lists(words, max_size=60).map("".join))
quick = settings(deadline=2000, max_examples=150)


def complaint(text: str, *sets: str) -> ScenarioError | None:
    """What is said about a text; any other exception is a failure."""
    try:
        load_text(text, sets=sets)
    except ScenarioError as error:
        return error
    return None


def loads_or_complains(text: str) -> None:
    """Either a scenario or a ScenarioError that can be shown."""
    error = complaint(text)
    if error is not None:
        assert error.problems
        assert str(error)
        for fault in error.problems:
            assert fault.line <= len(fault.source.lines)


@quick
@given(texts)
def test_any_text_is_a_scenario_or_a_scenario_error(text: str) -> None:
    loads_or_complains(text)


@quick
@given(st.binary(max_size=80))
def test_any_bytes_are_a_scenario_or_a_scenario_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.yaml"
    path.write_bytes(content)
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    assert str(caught.value).startswith(str(path))


@quick
@given(st.integers(0, len(VALID)), st.integers(0, 12), words | st.text(max_size=4))
def test_a_valid_file_with_one_slip_loads_or_complains(at: int, cut: int, slip: str) -> None:
    loads_or_complains(VALID[:at] + slip + VALID[at + cut :])


PLACES = [place.span() for place in re.finditer(r"(?<=: )[\w.]+( [\w/]+)?", VALID)]


@quick
@given(st.sampled_from(PLACES), texts)
def test_any_value_loads_or_complains(place: tuple[int, int], value: str) -> None:
    loads_or_complains(VALID[: place[0]] + value + VALID[place[1] :])


@quick
@given(st.sampled_from(["", "seed", "cluster.workers", "strategies.0", "a[0].b", "name"]), texts)
@example("cluster.workers", "1")
def test_any_set_changes_or_complains(path: str, value: str) -> None:
    """Of `--set`, or of what it takes away the ground from: rank 7 where there is one worker."""
    error = complaint(VALID, f"{path}={value}")
    if (path, value) == ("cluster.workers", "1"):
        assert "rank 7 does not exist: ranks go from 0 to 0 (workers: 1)" in str(error)
    assert error is None or str(error).startswith(("--set ", "scenario:8:25: error: rank 7 does"))
