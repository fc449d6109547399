"""varsim does, step by step, what others were recorded to do (see data/SOURCES.md)."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from tests.conformance import accumulating, copies, training
from tests.conformance.records import (
    DATA,
    KINDS,
    LEFT_OUT,
    NO_COUNTERPART,
    NOT_REPRODUCED,
    VARIABLES,
    Case,
    calls_left_out,
    cases,
    files,
    has_counterpart,
    left_out,
)
from tests.conformance.variables import on_cluster as clusters
from tests.conformance.variables import replay as variables

REPLAY: Final[dict[str, Callable[[Case], None]]] = {
    "accumulator": accumulating.replay,
    "sync_replicas": training.replay,
    "async_ps": training.replay,
    "errors": training.replay_calls,
    "diloco_recovery": copies.diloco_recovery,
    **dict.fromkeys(copies.OBSERVE, copies.replay),
    VARIABLES: variables.replay,
}

# Why a case ends otherwise on a cluster where the last replica is the first to act. In
# TensorFlow replicas act in turn, so what is recorded is what the first of them do.
DEPENDS_ON_ORDER: Final = {
    "errors/shapes-differ-between-replicas-none": (
        "depends on the order of replicas: replica 0 writes its own copy, replica 1 fails; where "
        "replica 1 is ahead its error ends the run before replica 0 has written"
    ),
}


def check(case: Case, replay: Callable[[Case], None], known: str | None, *, tolerant: bool) -> None:
    """Fail unless a case is as recorded, or differs as it is `known` to.

    `tolerant`: what is not as recorded is listed, as it is a quirk.
    """
    try:
        replay(case)
    except Exception as error:
        if known or tolerant:
            pytest.xfail(known or f"{type(error).__name__}: {error}")
        raise
    assert not known, "it does agree: take it off the table"


def test_recorded_case(case: Case, ours: bool) -> None:
    tolerant = case.status == "quirk" and not ours
    check(case, REPLAY[case.kind], NOT_REPRODUCED.get(case.name), tolerant=tolerant)


@pytest.mark.parametrize("sharing", ["first_come", "fair"])
def test_recorded_case_on_a_cluster(
    on_cluster: Case, sharing: Literal["first_come", "fair"], ours: bool
) -> None:
    tolerant = on_cluster.status == "quirk" and not ours
    known = NOT_REPRODUCED.get(on_cluster.name)
    check(on_cluster, lambda case: clusters.check(case, sharing), known, tolerant=tolerant)


def test_recorded_case_with_the_last_replica_first(on_cluster: Case, ours: bool) -> None:
    # TensorFlow's order was recorded; where it is another, a difference is no error of ours.
    known = {**DEPENDS_ON_ORDER, **NOT_REPRODUCED}.get(on_cluster.name)
    check(
        on_cluster,
        lambda case: variables.replay(case, clusters.backwards),
        known,
        tolerant=not ours,
    )


class TestWhatIsNotReplayed:
    def test_all_cases_are_there(self) -> None:
        found = cases(DATA)
        assert REPLAY.keys() - {VARIABLES} == KINDS
        kinds = Counter(case.kind for case in found)
        assert kinds.pop(VARIABLES) == 629 + 12 + 619
        assert [kinds.pop(kind) for kind in ("accumulator", "sync_replicas", "async_ps")] == [
            *(51, 51, 10)
        ]
        assert (kinds.pop("errors"), kinds.total()) == (3, 331)

    def test_what_is_not_reproduced_is_no_contract_and_not_much(self) -> None:
        found = [case for case in cases(DATA) if case.name in NOT_REPRODUCED]
        assert {case.status for case in found} <= {"quirk", "detail"}
        assert len(found) == len(NOT_REPRODUCED) <= 15  # more would be another system

    @pytest.mark.parametrize("name", ["async_4w_adam", "async_random_53"])
    def test_the_quirk_that_is_left_out_is_all_that_differs_there(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        training.as_tensorflow_counts(monkeypatch)
        case = recorded(name)
        assert case.not_compared
        training.replay(case._replace(record={**case.record, "quirk": ""}))

    def test_only_these_are_left_out(self) -> None:
        found = [case.record["id"] for case in cases(DATA) if case.record.get("quirk") in LEFT_OUT]
        assert found == ["async_4w_adam", "async_random_53"]
        assert calls_left_out(cases(DATA)) == list(NO_COUNTERPART)


# Cases of which everything that is recorded, the last time that it is, is made wrong in turn.
WRONG: Final = """
backup_2of4_adam async_3w_slow dense_two_takes_fifo dense_cancelled_take dense_shape_mismatch
dense_stale_dropped sparse_sum_basic sparse_shape_mismatch sparse_adagrad sparse_adam
sparse_momentum async_sparse ema death_waiting_others_go_on chief_lost_and_back chief_stops
dense_int32 dense_bad_reduction errors_api errors_init_tokens errors_first_update
replica_assign/accumulate-then-mean extended/reduce-to-mirrored2 extended/properties-default
extended/reduce-to-bool-mirrored2 checkpoint/save-restore-mirrored2
optimizers/zero-gradients-mirrored2 cross_device/num-packs-2-2-3-2x2
cross_device/bytes-per-pack-single cross_device/communication-options
replica_assign/two-workers-on-write-sum"""


def recorded(name: str) -> Case:
    """A case, whose record may be changed."""
    (found,) = (case for case in cases(DATA) if name in (case.name, case.name.partition("-")[2]))
    return found._replace(record=deepcopy(dict(found.record)))


def leaves(inside: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Everything inside: its path without numbers, where it stands, and its key or number there."""
    for key in inside if isinstance(inside, dict) else range(len(inside)):
        own = f"{path} {key}" if isinstance(key, str) else path
        if isinstance(inside[key], dict | list) and inside[key]:
            yield from leaves(inside[key], own)
        else:
            yield own, inside, key


def wrong(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool | None):
        return not value
    if isinstance(value, dict | list):  # an empty one
        return {"x": 1} if value == {} else ["x"]
    return f"not {value}" if isinstance(value, str) else value + 1


def unnoticed(case: Case, unseen: Collection[str] = ("match",)) -> list[str]:
    """What may be recorded otherwise without a difference."""
    ends = ("final", "pending_at_end", "create_error")
    last = {}
    for path, inside, key in leaves(case.record):
        names = path.split()
        if ("expect" in names or names[0] in ends) and not {*unseen} & {*names}:
            last[path] = inside, key
    assert last
    passed = []
    for path, (inside, key) in last.items():
        kept = inside[key]
        inside[key] = wrong(kept)
        try:
            REPLAY[case.kind](case)
            passed.append(path)
        except (AssertionError, ValueError, TypeError, KeyError):
            inside[key] = kept
        inside[key] = kept
    return passed


class TestAWrongRecordIsNoticed:
    """The replay would be worth nothing if it compared nothing."""

    @pytest.mark.parametrize("name", WRONG.split())
    def test_of_tensorflow(self, name: str) -> None:
        case = recorded(name)
        calls = [call for call in case.record.get("calls", ()) if has_counterpart(call)]
        if calls:
            case = case._replace(record={"calls": calls})
        assert unnoticed(case) == []

    @pytest.mark.parametrize("kind", copies.OBSERVE)
    def test_of_what_is_in_between(self, kind: str) -> None:
        found = [case for case in cases(DATA) if case.kind == kind]
        for case in (found[0], found[-1]):  # of schedules, and of values
            _, unseen = copies.OBSERVE[kind]
            assert unnoticed(recorded(case.name), unseen.split()) == []

    def test_an_error_that_does_not_come_or_should_not(self) -> None:
        error = {"type": "ValueError", "match": "", "category": "colocate"}
        for name, expected in (("", {"error": error}), ("bool-", {})):
            case = recorded(f"extended/reduce-to-{name}mirrored2")
            case.record["steps"][0]["expect"] = expected
            with pytest.raises(AssertionError):
                variables.replay(case)

    @pytest.mark.parametrize("entry", ["accepted", "returned", "read"])
    def test_one_that_is_missing(self, entry: str) -> None:
        case = recorded("backup_2of4_adam")
        expected = [event["expect"] for event in case.record["events"]]
        del [one for one in expected if entry in one][-1][entry]
        with pytest.raises(AssertionError, match="instead of"):
            training.replay(case)


class TestAnyFolder:
    """`pytest tests/conformance --cases DIR`: contract decides, quirks are listed."""

    def run(self, folder: Path) -> tuple[int, str]:
        """Exit status and output of all recorded cases in a folder."""
        command = [sys.executable, "-m", "pytest", __file__, "--cases", str(folder)]
        options = ["-q", "-p", "no:cacheprovider", "-k", "test_recorded_case"]
        own = {key: value for key, value in os.environ.items() if key != "CI_NOTES"}
        done = subprocess.run(
            [*command, *options], capture_output=True, text=True, cwd=DATA.parent, env=own
        )
        return done.returncode, done.stdout

    def write(self, path: Path, like: str, *cases: dict[str, Any]) -> None:
        path.parent.mkdir(exist_ok=True)
        content = json.loads((DATA / like).read_text(encoding="utf-8"))
        path.write_text(json.dumps({**content, "cases": cases}), encoding="utf-8")

    def test_quirks_that_are_not_followed_are_listed_and_unknown_topics_named(
        self, tmp_path: Path
    ) -> None:
        like, quirk = "variables/found.json", recorded("found/int16-all-reduce").record
        wrong, crashing = ({**deepcopy(quirk), "id": f"other/{name}"} for name in ("not", "?"))
        wrong["steps"][0]["expect"] = {"result": {"container": "nothing"}}
        crashing["steps"] = [{"op": "?", "expect": {}}]
        self.write(tmp_path / "deep" / "one.json", like, {**quirk, "id": "other/followed"}, wrong)
        self.write(tmp_path / "more.json", like, crashing)
        case = dict(recorded("async_random_53").record)
        case["events"][-1]["expect"]["global_step"] = -1
        self.write(tmp_path / "training.json", "asynchronous.json", {**case, "id": "wrong"})
        later = {"id": "later_1", "kind": "later"}
        self.write(tmp_path / "schedules.json", "in_between/schedules.json", later, later)
        (tmp_path / "facts.json").write_text("[1, 2]", encoding="utf-8")

        status, output = self.run(tmp_path)
        assert status == 0, output
        for line in (
            "recorded cases: 4 (4 quirk)",
            "quirks among these cases: 1 of 4 followed",
            "  test_recorded_case[other/?]: AssertionError: step 0 (?): a defect: KeyError('?')",
            "  test_recorded_case[other/not]: AssertionError: step 0 (assign_add): ",
            "  test_recorded_case[training-wrong]: ",
            "schedules.json: cases of a topic that is not replayed, left out: 2 later",
            "facts.json: no recorded cases in a format that is known; left out",
        ):
            assert line in output

    def test_a_contract_case_that_is_not_kept_fails(self, tmp_path: Path) -> None:
        case = dict(recorded("found/assign-on-read-from-on-read-sum").record)
        case["steps"][1]["expect"]["after"]["v"][1]["data"] = [7.0]
        self.write(tmp_path / "variables.json", "variables/found.json", case)
        status, output = self.run(tmp_path)
        assert status == 1, output
        assert "test_recorded_case[found/assign-on-read-from-on-read-sum]" in output

    def test_a_folder_without_cases_or_a_broken_file_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(pytest.UsageError, match="there is no folder"):
            files(tmp_path / "none")
        (tmp_path / "empty").mkdir()
        empty = tmp_path / "empty"
        assert left_out(empty) == [f"{empty}: no JSON file, so no recorded cases"]
        (tmp_path / "broken.json").write_bytes(b'{"format": 1, "cases"')
        with pytest.raises(pytest.UsageError, match=r"broken\.json cannot be read"):
            files(tmp_path)
