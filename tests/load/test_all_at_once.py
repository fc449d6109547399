"""All mistakes of a file in one go, each with its path: those behind a misspelt kind, too."""

import pytest

from tests.scenario_text import VALID, problems
from varsim.scenario.document import read_document
from varsim.scenario.fault import Source, nearest
from varsim.strategies import meant

SMALL = """\
name: t
cluster:
  workers: 4
  compute: {kind: constant, value: 100 ms}
  network: {kind: star, bandwidth: 10 Gbit/s, latency: 10 us}
workload:
  problem: {kind: quadratic}
  optimizer: {kind: sgd, learning_rate: 0.1}
strategies: [{kind: on_write}]
stop: {global_steps: 20}
"""


def messages(old: str, new: str) -> list[str]:
    assert old in SMALL
    return [message for _, _, message in problems(SMALL.replace(old, new))]


def test_a_misspelt_kind_does_not_hide_what_stands_beside_it() -> None:
    star = "kind: star, bandwidth: 10 Gbit/s, latency: 10 us"
    found = messages(star, "kind: strr, bandwith: 10 Gbit, latency: 10")

    assert [message.partition(";")[0].partition(": write")[0] for message in found] == [
        "cluster.network: unknown kind 'strr'",
        "cluster.network: unknown key 'bandwith'",
        "cluster.network.bandwidth: unknown unit 'Gbit'",
        "cluster.network.latency: 10 has no unit",
    ]


def test_a_misspelt_key_does_not_hide_that_its_value_is_wrong() -> None:
    assert messages("workers: 4", "worker: many") == [
        "cluster: unknown key 'worker'; did you mean 'workers'?",
        "cluster.workers must be a whole number above 0, not 'many'",
    ]


def test_nor_what_only_the_whole_can_tell() -> None:
    found = messages("workers: 4", "workrs: 4\n  slow_workers: [{rank: 4, factor: 2}]")

    assert found[0] == "cluster: unknown key 'workrs'; did you mean 'workers'?"
    assert found[1].startswith("rank 4 does not exist: ranks go from 0 to 3 (workers: 4)")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("learning_rate: 0.1", "lr: 0.1", "did you mean 'learning_rate'?"),
        (
            "compute: {kind: constant, value: 100 ms}",
            "compute: 100ms",
            "not '100ms'; write {kind: constant, value: 100 ms}",
        ),
        ("stop: {global_steps: 20}", "stop: 40 s", "not '40 s'; write {time: 40 s}"),
        (
            "global_steps: 20",
            "time: 40",
            "stop.time: 40 has no unit: write for example 40 ms or 40",
        ),
        ("stop: {global_steps: 20}", "stop.time: 40", "keys are nested: write stop: {time: ...}"),
        ("  network: {kind: star", "  netwrok: {kind: star", "cluster: unknown key 'netwrok'"),
    ],
)
def test_what_to_type_instead(old: str, new: str, said: str) -> None:
    assert any(said in message for message in messages(old, new))


def test_a_missing_key_is_named_with_its_path() -> None:
    network = "  network: {kind: star, bandwidth: 10 Gbit/s, latency: 10 us}\n"
    (message,) = messages(network, "")

    assert message.startswith("cluster.network is missing")


def test_initials_are_enough_where_only_one_name_has_them() -> None:
    assert nearest("lr", ["learning_rate", "kind"]) == "learning_rate"
    assert nearest("bs", ["batch_size", "bytes_sent"]) is None


def test_one_letter_is_the_initial_of_too_much() -> None:
    assert nearest("n", ["noise"]) is None


def test_the_name_of_a_file_may_be_too_long() -> None:
    found = messages("{kind: constant, value: 100 ms}", f"{{kind: trace, file: {'a' * 300}.csv}}")

    assert "File name too long" in found[0]


def test_a_document_is_read_once_and_every_reader_has_a_tree_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, _ = read_document(VALID, Source("once.yaml"))
    monkeypatch.setattr("varsim.scenario.document._Builder", None)
    second, _ = read_document(VALID, Source("once.yaml"))

    assert first == second
    assert first is not second


def test_a_name_goes_before_a_kind() -> None:
    from tests.seams import load_text

    text = SMALL.replace(
        "[{kind: on_write}]",
        "[{kind: on_write}, {kind: none, name: on_read}, {kind: on_read, name: r}]",
    )
    strategies = load_text(text).strategies  # type: ignore[union-attr]

    assert meant(strategies, ["on_read"]) == [False, True, False]
    assert meant(strategies, ["on_read", "on_write"]) == [True, True, False]
    assert meant(strategies, ()) == [True, True, True]
