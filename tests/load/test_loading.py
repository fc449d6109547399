"""A scenario is loaded from a file, changed by --set, and written so that it loads again."""

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.scenario_text import VALID
from tests.seams import dump_scenario, file_schema, load_scenario, load_text
from varsim import ScenarioError

quick = settings(deadline=2000, max_examples=150)


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
    content = load_text(VALID).model_dump(mode="json", exclude_none=True)
    assert load_text(json.dumps(content, indent=2)) == load_text(VALID)


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
        ("pipe", "this is not an ordinary file; what is piped in is read from -"),
        ("/dev/zero", "this is not an ordinary file; what is piped in is read from -"),
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


@pytest.mark.parametrize("path", sorted(Path(__file__).parents[2].glob("scenarios/*.yaml")))
def test_every_scenario_survives_a_dump(path: Path) -> None:
    # Of a file that asks of many scenarios, the one that they are made of.
    text = re.split(r"^(?:sweep|plan):", path.read_text(), maxsplit=1, flags=re.M)[0]
    scenario = load_text(text, folder=path.parent)
    assert load_text(dump_scenario(scenario)) == scenario


@quick
@given(
    st.text(
        st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")),
        min_size=1,
        max_size=20,
    ).filter(lambda text: not re.search("[\ufeff\ufffe\uffff]", text))
    | st.sampled_from(
        ["true", "null", "~", "1e5", "0x1f", ".5", ".inf", "yes", "- a", "a: b", "#", " a "]
    )
)
def test_any_name_survives_a_dump(name: str) -> None:
    scenario = load_text(VALID)
    first, *others = scenario.strategies
    assume(name not in [strategy.label for strategy in others])
    strategies = (first.model_copy(update={"name": name}), *others)
    renamed = scenario.model_copy(update={"strategies": strategies})
    assert load_text(dump_scenario(renamed)).strategies[0].name == name


def test_the_schema_describes_a_scenario_of_either_kind() -> None:
    schema = file_schema()
    assert schema["$schema"].startswith("https://json-schema.org/")
    kinds = {
        "Scenario": {"name", "cluster", "workload", "strategies", "stop"},
        "VariablesScenario": {"kind", "name", "cluster", "variables", "program"},
    }
    assert schema["oneOf"] == [{"$ref": f"#/$defs/{kind}"} for kind in kinds]
    for kind, required in kinds.items():
        described = schema["$defs"][kind]
        assert set(described["required"]) == required
        assert described["properties"]["seed"]["minimum"] == 0
    assert not re.search(r'"(ge|gt|le|lt)":', json.dumps(schema))
