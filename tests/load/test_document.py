"""YAML 1.2 is read for what it says, and no text at all breaks or delays the reader."""

import re
import time
from typing import Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import Field

from tests.scenario_text import JARGON, VALID
from tests.seams import load_text
from varsim import ScenarioError, load_scenario
from varsim.scenario.document import resolve
from varsim.scenario.loading import Context, validated
from varsim.units import Seconds
from varsim.values.schema import Model


class Everything(Model):
    """One field of each type that a scenario could have."""

    number: float = 0.0
    whole: int = 0
    text: str = "x"
    truth: bool = False
    maybe: int | None = 3
    pair: tuple[int, float] = (1, 1.0)
    many: tuple[str, ...] = ()
    auto: Seconds | Literal["auto"] = "auto"
    share: float = Field(0.5, ge=0, lt=1)
    level: Literal[1, 2] = 1
    code: str = Field("ab", pattern="^[ab]+$", min_length=2)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("number: 1", "number", 1.0),
        ("number: .5", "number", 0.5),
        ("number: 5.", "number", 5.0),
        ("number: -1.5e-3", "number", -1.5e-3),
        ("number: 0e0", "number", 0.0),
        ("whole: 010", "whole", 10),
        ("whole: 0o17", "whole", 15),
        ("whole: 0x1F", "whole", 31),
        ("whole: +3", "whole", 3),
        ("text: yes", "text", "yes"),
        ("text: off", "text", "off"),
        ("text: 12:30:45", "text", "12:30:45"),
        ("text: 2024-01-01", "text", "2024-01-01"),
        ("text: 1_000", "text", "1_000"),
        ("text: '8'", "text", "8"),
        ("text: ''", "text", ""),
        ("text: |\n  two\n  lines", "text", "two\nlines"),
        ("text: two\n  lines", "text", "two lines"),
        ('text: "\\u00e9"', "text", "é"),
        ("truth: true", "truth", True),
        ("truth: FALSE", "truth", False),
        ("maybe: null", "maybe", None),
        ("maybe: ~", "maybe", None),
        ("pair: [2, 3]", "pair", (2, 3.0)),
        ("many:\n- a\n- b", "many", ("a", "b")),
        ("auto: auto", "auto", "auto"),
        ("auto: 3 us", "auto", 3e-6),
        ("auto: 0", "auto", 0.0),
        ("level: 2", "level", 2),
        ("? whole\n: 4", "whole", 4),
    ],
)
def test_an_unquoted_value_means_what_yaml_1_2_says(text: str, key: str, value: object) -> None:
    found = getattr(validated(Everything, text, "x", Context()), key)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("number: high", "number must be a number, not 'high'"),
        ("number: 1,000", "number must be a number, not '1,000'; write 1000"),
        ("number: 5,", "number must be a number, not '5,'; write 5"),
        ("many: '[a, b]'", "many must be a list, not '[a, b]'; leave out the quotation marks"),
        ("number: 0,5", "number must be a number, not '0,5'; write 0.5"),
        ("number: 5 ms", "number must be a number, not '5 ms'; it has no unit"),
        ("number: 1e-999", "'1e-999' is closer to 0 than any number"),
        ("number: 1e999", "'1e999' is larger than any number"),
        ("whole: 2.0", "whole must be a whole number, not '2.0'; write 2"),
        ("whole: true", "whole must be a whole number, not 'true'"),
        ("whole: {}", "whole must be a whole number, not a mapping"),
        ("text: yes\ntruth: n", "truth must be true or false, not 'n'; write false"),
        ("truth: 1", "truth must be true or false, not '1'; write true"),
        ("text: true", "text must be text, not 'true'"),
        ("pair: [1]", "pair must have at least 2 entries"),
        ("pair: [1, x]", "pair[1] must be a number, not 'x'"),
        ("pair: [1, 2, 3]", "pair must have at most 2 entries"),
        ("many: [a, 2]", "many[1] must be text, not '2'"),
        ("many: a", "many must be a list, not 'a'"),
        ("auto: 3", "auto: 3 has no unit: write for example 3 ms"),
        ("auto: aut", "auto: 'aut' is not a time"),
        ("share: 1", "share must be a number of at least 0 and below 1, not '1'"),
        ("level: 3", "unknown level '3' (one of: 1, 2)"),
        ("code: abc", "code must have the form ^[ab]+$; not 'abc'"),
        ("code: a", "code must have at least 2 characters"),
        ("code: [", "the text ends here, with a '[' or '{' still open"),
        ("code: [a", "this '[' is never closed"),
    ],
)
def test_a_value_of_the_wrong_type_is_explained(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        validated(Everything, text, "x", Context())
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].message.startswith(message)
    assert not JARGON.search(str(caught.value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("truth: perhaps", "truth must be true or false, not 'perhaps'"),
        ("whole: yes", "whole must be a whole number, not 'yes'"),
    ],
)
def test_what_is_meant_is_not_guessed_at_where_it_is_not_plain(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        validated(Everything, text, "x", Context())
    assert [fault.message for fault in caught.value.problems] == [message]


def test_a_member_of_a_union_that_does_not_fit_says_nothing_beside_one_that_does() -> None:
    class Either(Model):
        one: float | tuple[float, ...]

    with pytest.raises(ScenarioError) as caught:
        validated(Either, "one: [1, x]", "x", Context())
    assert [fault.message for fault in caught.value.problems] == [
        "one[1] must be a number, not 'x'"
    ]


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_whole_number_has_at_most_40_characters(sign: str) -> None:
    longest = sign + "1" * (40 - len(sign))
    assert resolve(longest) == int(longest)
    with pytest.raises(ValueError, match="a number of 41 digits"):
        resolve(longest + "1")


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


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_at_once(name: str) -> None:
    start = time.process_time()
    with pytest.raises(ScenarioError) as caught:
        load_text(HOSTILE[name])
    shown = str(caught.value)
    assert time.process_time() - start < 2
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
