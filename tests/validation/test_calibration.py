"""Overheads that a cluster is known to have are found again."""

from pathlib import Path
from typing import Any

import pytest

from tests.validation.recording import asynchronous, collective, run_of, sync, table
from varsim.calibration.recorded.overheads import Calibration, calibrate
from varsim.calibration.recorded.runs import Replay
from varsim.cluster.description.servers import Overheads

TRUE = Overheads(
    first_iteration=0.05, pull=2e-3, push=1e-3, commit=1.5e-3, wake=0.6e-3, payload=5e8
)
LOADS = {0.0: 1.0, 1.0: 1.4}  # foreign cores: how much longer all takes


def of_servers(true: Overheads, loads: dict[float, float]) -> list[Any]:
    free = true.only(frozenset({"first_iteration", "pull", "push", "wake", "payload"}))
    files = []
    for number, (cores, factor) in enumerate(loads.items()):
        noise = {"cpu_busy_cores_all": cores, "cpu_busy_cores_cluster": 0.0}
        said = {"noise": noise}
        slower, free_slower = true.stretched(factor), free.stretched(factor)
        files += [
            sync(f"two{number}", table(2, 60), 2, slower, **said),
            sync(f"eight{number}", table(8, 60), 8, slower, **said),
            sync(f"backup{number}", table(6, 60), 4, slower, **said),
            sync(f"big{number}", table(4, 60), 4, slower, payload_bytes=2**20, **said),
            asynchronous(f"free{number}", table(4, 60), free_slower, **said),
        ]
    return files


def found(files: list[Any], folder: Path) -> Calibration:
    calibration = calibrate([run_of(file, folder) for file in files])
    assert calibration is not None
    return calibration


def test_overheads_of_servers_are_found_again(tmp_path: Path) -> None:
    calibration = found(of_servers(TRUE, {0.0: 1.0}), tmp_path)

    assert calibration.load == 0
    assert calibration.overheads.given == TRUE.given
    for name in TRUE.given:
        value, true = getattr(calibration.overheads, name), getattr(TRUE, name)
        assert value == pytest.approx(true, rel=0.15), name
    for fitted in calibration.residuals:
        assert fitted.fitted == pytest.approx(fitted.measured, rel=0.08, abs=2e-4), fitted
    assert {fitted.run for fitted in calibration.residuals} == set(calibration.runs)


@pytest.mark.slow
@pytest.mark.product
def test_foreign_load_is_found_again(tmp_path: Path) -> None:
    files = of_servers(TRUE, LOADS)
    calibration = found(files, tmp_path)

    assert calibration.load == pytest.approx(0.4, rel=0.15)
    assert calibration.overheads.pull == pytest.approx(TRUE.pull, rel=0.15)
    loaded = next(file for file in files if file["noise"]["cpu_busy_cores_all"] == 1.0)
    replay = Replay(run_of(loaded, tmp_path))
    stretched = calibration.applied_to(replay)
    assert stretched.pull == pytest.approx(calibration.overheads.pull * (1 + calibration.load))


def test_overheads_of_collectives_are_found_again(tmp_path: Path) -> None:
    true = Overheads(message=0.3e-3, payload=1e9)
    files = [
        collective("tiny", table(4, 30), true, payload_bytes=4),
        collective("small", table(8, 30), true, payload_bytes=2**16),
        collective("big", table(4, 30), true, payload_bytes=2**24),
    ]
    calibration = found(files, tmp_path)

    assert calibration.overheads.message == pytest.approx(true.message, rel=0.03)
    assert calibration.overheads.payload == pytest.approx(true.payload, rel=0.03)


def test_nothing_is_learnt_from_nothing(tmp_path: Path) -> None:
    killed = sync("dead", table(2, 30), 1, killed=[{"worker": 1, "at": 0.5}])

    assert calibrate([]) is None
    assert calibrate([run_of(killed, tmp_path)]) is None
