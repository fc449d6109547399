"""Hybrid meshes: rings over NVLinks by the formula, what goes through the host, what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import run, scenario
from tests.seams import forget
from validation.networks import HybridMesh, most_rings
from varsim import register

LINK, HOST = 25e9, 10e9  # bytes/s
MESH: dict[str, Any] = {
    "kind": "hybrid_mesh",
    "joined": "dgx1_v100",
    "bandwidth": LINK,
    "latency": 2e-6,
    "host": {"bandwidth": HOST, "latency": 8e-6},
}
SIZE = 840e6


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    register(HybridMesh)
    yield
    forget()


def reduced(workers: int, collective: str = "ring", **changes: Any) -> float:
    """Seconds of an all-reduce of 840 MB."""
    trace = run(
        {"kind": "on_write", "collective": collective},
        network={**MESH, **changes},
        cluster={"workers": workers, "compute": {"kind": "constant", "value": 1.0}},
        problem={"kind": "timing", "size": SIZE},
        workload={"optimizer": None},
        stop={"global_steps": 1},
    )
    return float(trace.steps[0]) / 1e9 - 1.0


@pytest.mark.parametrize(
    ("preset", "rings"),
    [("dgx1_v100", [1, 2, 4, 0, 2, 4, 6]), ("dgx1_p100", [1, 2, 2, 0, 2, 2, 4])],
)
def test_the_rings_of_2_to_8_gpus_of_a_dgx1(preset: str, rings: list[int]) -> None:
    # NCCL prints 6 rings (12 channels) for the 8 V100, 4 for the 8 P100; of 5 GPUs the fifth has
    # links to one of the others only.
    table = HybridMesh.model_validate({**MESH, "joined": preset}).table
    assert [most_rings(table, gpus) for gpus in range(2, 9)] == rings


@pytest.mark.parametrize(("gpus", "rings"), [(2, 1), (3, 2), (4, 4), (6, 2), (7, 4), (8, 6)])
def test_a_ring_all_reduce_takes_what_its_rings_carry(gpus: int, rings: int) -> None:
    # 2(p - 1) rounds; each ring has its share of n/p bytes.
    expected = 2 * (gpus - 1) * (2e-6 + SIZE / gpus / (rings * LINK))
    assert reduced(gpus) == pytest.approx(expected, rel=1e-6)


def test_where_no_ring_fits_it_goes_through_the_host() -> None:
    assert reduced(5) == pytest.approx(8 * (8e-6 + SIZE / 5 / HOST), rel=1e-6)


def test_other_collectives_use_the_links_of_pairs() -> None:
    # 0 to 1 is one link, 2 to 3 two; 0 to 2 and 1 to 3 one. Doubling: each round over the slowest.
    assert reduced(4, "recursive_doubling") == pytest.approx(2 * (2e-6 + SIZE / LINK), rel=1e-6)
    # Third round: 0 and 4, 1 and 5 two links, 2 and 6, 3 and 7 one.
    assert reduced(8, "recursive_doubling") == pytest.approx(3 * (2e-6 + SIZE / LINK), rel=1e-6)


@pytest.mark.parametrize(
    ("workers", "joined", "message"),
    [
        (9, "dgx1_v100", "at most 8 workers, not 9"),
        (2, ({"ranks": (0, 2)},), "network.joined: rank 2 does not exist: ranks go from 0 to 1"),
        (2, ({"ranks": (0, 0)},), "a pair must be two different ranks"),
        (2, ({"ranks": (0, 1)}, {"ranks": (1, 0)}), "a pair is given twice"),
        (2, "dgx2", "dgx1_p100"),
    ],
)
def test_what_is_no_mesh_is_refused(workers: int, joined: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        scenario(
            {"kind": "on_write"},
            cluster={"workers": workers},
            network={**MESH, "joined": joined},
        )
