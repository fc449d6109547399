"""Scenario files: every broken one is explained, no text at all breaks the loader."""

import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from varsim.fault import Source
from varsim.load import (
    ScenarioError,
    dump_scenario,
    load_scenario,
    load_text,
    scenario_schema,
    validated,
)
from varsim.scenario import Scenario
from varsim.schema import Model
from varsim.shape import Shape, members
from varsim.units import Seconds
from varsim.wording import PATTERNS

BROKEN = Path(__file__).parent / "broken"
VALID = """\
# Does a backup worker pay when one machine in eight is slow?
name: backup-worker
seed: 7
replications: 10
cluster:
  workers: 8
  compute: {kind: shifted_exponential, minimum: 100 ms, mean: 120 ms}
  slow_workers: [{rank: 7, factor: 2.0, after: 1 s, until: 1 min}]
  parameter_servers: 2
  network: {kind: star, bandwidth: 25 Gbit/s, latency: 20 us, sharing: fair}
workload:
  problem: {kind: digits, model: softmax}
  model: resnet50
  batch_size: 32
  optimizer: {kind: sgd, learning_rate: 0.1}
strategies:
  - {kind: on_write}
  - {kind: on_read, read_every: 10}
  - {kind: none, name: "no: waiting"}
  - {kind: sync_replicas, replicas_to_aggregate: 7}
stop: {global_steps: 500}
targets: {loss: 1e-05}
"""
# Words of the libraries underneath, which mean nothing to whoever writes a scenario.
JARGON = re.compile(
    r"Input should|value_error|Value error|pydantic|ruamel|https?://|dictionary|tuple|NoneType|"
    r"str_type|Traceback|Broken|<class|Field required|Extra inputs|block end|simple key|instance"
)


def problems(text: str, *sets: str) -> list[tuple[int, int, str]]:
    """Line, column and message of everything that is wrong with a text."""
    with pytest.raises(ScenarioError) as caught:
        load_text(text, "file.yaml", sets=sets)
    return [(fault.line, fault.column, fault.message) for fault in caught.value.problems]


def expectations() -> dict[str, list[tuple[int, int, str]]]:
    """From tests/broken/expected.txt: file -> its problems."""
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


def test_the_valid_scenario_loads() -> None:
    scenario = load_text(VALID)
    assert scenario.cluster.workers == 8
    assert scenario.cluster.network.bandwidth == 25e9 / 8
    assert scenario.cluster.slow_workers[0].until == 60.0
    assert [strategy.label for strategy in scenario.strategies] == [
        "on_write",
        "on_read",
        "no: waiting",
        "sync_replicas",
    ]
    assert scenario.targets.loss == 1e-5


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_line_ends_of_other_systems_make_no_difference(newline: str) -> None:
    assert load_text(VALID.replace("\n", newline)) == load_text(VALID)


def test_a_byte_order_mark_makes_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "marked.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + VALID.encode())
    assert load_scenario(path) == load_text(VALID)


def test_json_is_yaml() -> None:
    import json

    content = load_text(VALID).model_dump(mode="json", exclude_none=True)
    assert load_text(json.dumps(content, indent=2)) == load_text(VALID)


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
    found = getattr(validated(Everything, text, "x", Path()), key)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("number: high", "number must be a number, not 'high'"),
        ("number: 1,000", "number must be a number, not '1,000'; write 1000"),
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
        validated(Everything, text, "x", Path())
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].message.startswith(message)
    assert not JARGON.search(str(caught.value))


def test_a_misspelt_key_is_not_also_missing() -> None:
    text = VALID.replace("workers: 8", "worker: 8")
    assert problems(text) == [(6, 3, "unknown key 'worker'; did you mean 'workers'?")]


def test_problems_of_yaml_and_of_the_model_are_told_together() -> None:
    text = VALID.replace("seed: 7", "seed: 7\nseed: 8").replace("workers: 8", "workers: !x 8")
    text = text.replace("learning_rate: 0.1", "learning_rate: -1")
    assert [place[:2] for place in problems(text)] == [(4, 1), (7, 12), (16, 41)]


def test_a_broken_value_hides_no_other_problem_and_makes_none() -> None:
    text = VALID.replace("factor: 2.0", "factor: .nan").replace("sharing: fair", "sharing: no")
    assert [place[:2] for place in problems(text)] == [(8, 36), (10, 72)]


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
        validated(Everything, text, "x", Path())
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
    import pickle

    with pytest.raises(ScenarioError) as caught:
        load_text("a: b")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


# --set


def test_a_set_changes_one_value() -> None:
    assert load_text(VALID, sets=["cluster.workers=9"]).cluster.workers == 9
    assert load_text(VALID, sets=["stop.time=3 min"]).stop.time == 180.0
    for path in ("strategies.1.read_every", "strategies[1].read_every", " strategies[1] . name"):
        value = "other" if "name" in path else "99"
        changed = load_text(VALID, sets=[f"{path}={value}"])
        assert changed.strategies[1] != load_text(VALID).strategies[1]
        assert changed.strategies[0] == load_text(VALID).strategies[0]


def test_a_set_replaces_a_mapping_a_list_or_takes_a_key_away() -> None:
    changed = load_text(
        VALID,
        sets=[
            "cluster.compute=null",
            "cluster.device={preset: a100_sxm_80gb}",
            "strategies=[{kind: none}]",
            "targets=null",
            "targets.loss=0.5",
        ],
    )
    assert changed.cluster.compute is None
    assert changed.cluster.device is not None
    assert len(changed.strategies) == 1
    assert changed.targets.loss == 0.5


def test_the_last_set_of_a_key_wins() -> None:
    assert load_text(VALID, sets=["seed=1", "seed=2"]).seed == 2


def test_a_set_mends_a_broken_value() -> None:
    text = VALID.replace("workers: 8", "workers: eight")
    assert load_text(text, sets=["cluster.workers=8"]) == load_text(VALID)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("cluster.workers=x", "workers must be a whole number above 0, not 'x'"),
        ("clutser.workers=3", "unknown key 'clutser'; did you mean 'cluster'?"),
        ("cluster.wrokers=3", "unknown key 'wrokers'; did you mean 'workers'?"),
        ("a.b.c=3", "unknown key 'a' (possible: name, "),
        ("cluster.workers", "write --set key.path=value"),
        ("=3", "write --set key.path=value"),
        ("cluster.workers=", "there is no value behind '='"),
        ("cluster.workers=''", "workers must be a whole number above 0, not ''"),
        ("cluster..workers=3", "'cluster..workers' is not a path"),
        (".".join("a" * 40) + "=3", "'a.a.a"),
        ("strategies[9].read_every=5", "strategies has no entry 9; entries: 0 to 3"),
        ("cluster.slow_workers[1].rank=5", "cluster.slow_workers has no entry 1; entries: 0"),
        ("strategies.kind=none", "strategies is a list: write strategies.0.kind"),
        ("strategies[-1]=3", "strategies is a list: write strategies.0"),
        ("cluster.workers.x=3", "cluster.workers is '8': there is no 'x' in it"),
        ("seed.name=3", "seed is '7': there is no 'name' in it"),
        ("strategies.1.read_every=0", "read_every must be a whole number above 0, not '0'"),
        ("stop.time=3 sec", "time: unknown unit 'sec': write s"),
        ("cluster.compute={kind: constant", "this '{' is never closed"),
        ("seed=&x 3", "anchors are not allowed"),
        ("seed=.inf", "infinity and nan are not possible"),
        ("cluster.slow_workers.0.rank=8", "rank 8 does not exist"),
        ("name=a\0b", "control character U+0000"),
    ],
)
def test_a_set_that_cannot_be_made_is_explained(change: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_text(VALID, sets=[change])
    (fault,) = caught.value.problems
    assert fault.message.startswith(message)
    shown = change.replace("\0", "\\x00")
    assert str(caught.value) == f"--set {shown}: error: {fault.message}"


def test_a_set_into_a_preset_says_how_to_write_it() -> None:
    text = VALID.replace("{kind: shifted_exponential, minimum: 100 ms, mean: 120 ms}", "x")
    text = text.replace("compute: x", "device: a100_sxm_80gb")
    ((_, _, message),) = problems(text, "cluster.device.efficiency=0.5")
    assert message == (
        "cluster.device is 'a100_sxm_80gb': write --set 'cluster.device={efficiency: ...}'"
    )


def test_problems_of_the_file_come_before_those_of_the_sets() -> None:
    text = VALID.replace("seed: 7", "seed: x")
    with pytest.raises(ScenarioError) as caught:
        load_text(text, "file.yaml", sets=["replications=0", "cluster.workers=0"])
    heads = [str(fault).split(": error")[0] for fault in caught.value.problems]
    assert heads == ["file.yaml:3:7", "--set replications=0", "--set cluster.workers=0"]


# Files


@pytest.fixture
def no_files(tmp_path: Path) -> Path:
    """A folder of things that are no scenario."""
    (tmp_path / "quickstart.yaml").write_text(VALID, encoding="utf-8")
    (tmp_path / "ten_megabytes.yaml").write_bytes(b"a: 1\n" * 2 * 2**20)
    (tmp_path / "folder").mkdir()
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "slow.yaml").write_text(VALID, encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "itself").symlink_to("itself")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("quikstart.yaml", "no such file; did you mean {folder}/quickstart.yaml?"),
        ("quickstart", "no such file; did you mean {folder}/quickstart.yaml?"),
        ("nothing/like/it.yaml", "no such file"),
        ("folder", "this is a folder; give a file in it"),
        ("scenarios", "this is a folder; give a file in it, such as {folder}/scenarios/slow.yaml"),
        ("pipe", "this is not an ordinary file"),
        ("/dev/zero", "this is not an ordinary file"),
        ("itself", "cannot be read: Too many levels of symbolic links"),
        ("quickstart.yaml/x", "cannot be read: Not a directory"),
        ("a" * 5000, "cannot be read: File name too long"),
        ("a\0b", "cannot be read: embedded null byte"),
        ("ten_megabytes.yaml", "larger than 256 KiB: this is not a scenario"),
    ],
)
def test_a_file_that_is_no_scenario_gets_one_line(no_files: Path, name: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(no_files / name)
    text = str(caught.value)
    assert text.endswith(f": error: {message.format(folder=no_files)}")
    assert "\n" not in text
    assert "\0" not in text


def test_a_file_without_permission_gets_one_line(
    no_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ScenarioError, match=r"quickstart.yaml: error: cannot be read: Permission"):
        load_scenario(no_files / "quickstart.yaml")


def test_a_trace_is_found_beside_its_scenario(tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text("worker,seconds\n0,0.5\n0,0.25\n", encoding="utf-8")
    law = "{kind: shifted_exponential, minimum: 100 ms, mean: 120 ms}"
    text = VALID.replace(law, "{kind: trace, file: times.csv}")
    (tmp_path / "scenario.yaml").write_text(text, encoding="utf-8")
    scenario = load_scenario(tmp_path / "scenario.yaml")
    # What was dumped needs the file no more.
    assert load_text(dump_scenario(scenario)) == scenario


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
def test_any_set_changes_or_complains(path: str, value: str) -> None:
    error = complaint(VALID, f"{path}={value}")
    assert error is None or str(error).startswith("--set ")


# Writing


def test_a_dumped_scenario_is_the_same_scenario() -> None:
    scenario = load_text(VALID)
    text = dump_scenario(scenario)
    assert load_text(text) == scenario
    assert dump_scenario(load_text(text)) == text
    assert "read_every: 10" in text
    assert "bandwidth: 25 Gbit/s" in text
    assert "placement: partitioned" in text  # a default, written out
    assert "null" not in text
    assert "- kind: on_write" in text


@pytest.mark.parametrize("path", sorted(Path(__file__).parents[1].glob("scenarios/*.yaml")))
def test_every_scenario_survives_a_dump(path: Path) -> None:
    scenario = load_scenario(path)
    assert load_text(dump_scenario(scenario)) == scenario


@quick
@given(
    st.text(
        st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")),
        min_size=1,
        max_size=20,
    ).filter(lambda text: not re.search("[\ufeff\ufffe\uffff]", text))
    | st.sampled_from(["true", "null", "~", "1e5", "0x1f", ".5", "yes", "- a", "a: b", "#", " a "])
)
def test_any_name_survives_a_dump(name: str) -> None:
    scenario = load_text(VALID)
    first, *others = scenario.strategies
    strategies = (first.model_copy(update={"name": name}), *others)
    renamed = scenario.model_copy(update={"strategies": strategies})
    assert load_text(dump_scenario(renamed)).strategies[0].name == name


def test_the_schema_describes_a_scenario() -> None:
    schema = scenario_schema()
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert set(schema["required"]) == {"name", "cluster", "workload", "strategies", "stop"}
    assert schema["properties"]["seed"]["minimum"] == 0


def test_every_pattern_of_the_schema_has_words() -> None:
    def patterns(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            # Quantities have words of their own.
            if "pattern" in value and "examples" not in value:
                yield value["pattern"]
            for item in value.values():
                yield from patterns(item)
        elif isinstance(value, list):
            for item in value:
                yield from patterns(item)

    assert set(patterns(scenario_schema())) <= set(PATTERNS)


def test_what_is_expected_at_a_place_is_read_from_the_model() -> None:
    shapes = [Shape(Scenario)]
    for key in ("strategies", 0, "on", "network", "latency"):
        shapes = members(shapes, key)
    assert {shape.dimension and shape.dimension.noun for shape in shapes} == {"a time"}
    assert members([Shape(BaseModel)], "nothing") == []


def test_a_place_beyond_the_source_is_shown_without_a_line() -> None:
    from varsim.fault import Fault

    assert str(Fault(Source("x", ("a",)), 2, 1, "m")) == "x:2:1: error: m"
