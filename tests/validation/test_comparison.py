"""Every run is predicted from others: the halves, and what a run says of itself counts nowhere."""

from pathlib import Path
from typing import Any

import pytest

from tests.validation.recording import asynchronous, collective, run_of, sync, table
from varsim.calibration.recorded.comparison import (
    Comparison,
    compare,
    error,
    family_of,
    halves,
    spread,
)
from varsim.calibration.recorded.comparison import (
    ErrorSpread as Spread,
)
from varsim.calibration.recorded.runs import Run
from varsim.cluster.description.servers import Overheads

SYNCED = Overheads(pull=1e-3, push=0.8e-3, wake=0.3e-3, commit=0.5e-3)
MET = Overheads(message=0.3e-3)
SLEEPLESS = [[0.0] * 20] * 4


def files(first: Overheads = SYNCED) -> list[Any]:
    """Two runs of each family; `first` are the overheads of the first one."""
    return [
        sync("a", table(4, 60), 3, first),
        sync("b", table(5, 60), 5, SYNCED),
        collective("ring_a", table(4, 30), MET, payload_bytes=4096),
        collective("ring_b", table(2, 30), MET, payload_bytes=4096),
    ]


def read(described: list[Any], folder: Path) -> list[Run]:
    return [run_of(file, folder) for file in described]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return compare(read(files(), tmp_path_factory.mktemp("runs")))


def test_the_runs_of_a_kind_go_in_turn_to_the_halves(tmp_path: Path) -> None:
    described = [sync(name, table(2, 20), 2, updates=5) for name in "cab"]
    described += [asynchronous(name, table(2, 20), updates=5) for name in "ed"]
    described += [collective("alone", [[0.0] * 20] * 2, updates=5)]
    runs = read(described, tmp_path)

    assert halves(runs) == {
        **{"d": "first", "e": "second"},
        **{"a": "first", "b": "second", "c": "first"},
    }
    assert {run.id: family_of(run) for run in runs}["alone"] == "collectives"


def test_runs_of_known_overheads_are_predicted(comparison: Comparison) -> None:
    for one in comparison.predictions:
        assert one.calibrated is not None
        assert abs(error(one.calibrated.total, one.measured.total)) < 0.01
        assert abs(error(one.ideal.total, one.measured.total)) > 0.005
        assert one.best is one.calibrated
    assert [one.run for one in comparison.predictions] == ["ring_a", "ring_b", "a", "b"]


def test_a_run_is_never_predicted_from_itself(comparison: Comparison, tmp_path: Path) -> None:
    changed = compare(read(files(SYNCED.stretched(3.0)), tmp_path))
    before = {one.run: one.calibrated for one in comparison.predictions}
    after = {one.run: one.calibrated for one in changed.predictions}

    assert after["a"] == before["a"], "it changed itself, and is predicted from b"
    assert after["b"] != before["b"]
    assert after["ring_a"] == before["ring_a"]


def test_a_single_run_has_no_other_to_learn_from(tmp_path: Path) -> None:
    (one,) = (found := compare(read(files()[:1], tmp_path))).predictions

    assert (one.calibrated, one.best) == (None, one.ideal)
    assert found.worst is one


def test_errors_and_their_spread() -> None:
    assert error(1.1, 1.0) == pytest.approx(0.1)
    assert error(3, 0) == 3
    pairs = [(1.0, 1.0), (0.8, 1.0), (1.1, 1.0), (None, 1.0), (1.0, None)]
    assert spread(pairs) == Spread(3, pytest.approx(0.1), pytest.approx(0.2))
    assert spread([(None, 1.0)]) is None
