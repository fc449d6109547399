"""Times only: what a problem without values does and refuses."""

import pytest
from pydantic import ValidationError

from tests.building import run, scenario

TIMED = {"problem": {"kind": "timing", "parts": 3}}


def test_its_parts_have_equal_shares_of_the_bytes() -> None:
    timed = scenario(
        {"kind": "none"}, **TIMED, workload={"model": "alexnet", "optimizer": None}
    ).workload
    sizes = [sum(part) for part in timed.tensor_sizes()]
    assert sum(sizes) == timed.size() == 4 * 61_100_840
    assert max(sizes) - min(sizes) <= 1


def test_a_size_of_its_own_is_shared_out_alike() -> None:
    timed = scenario(
        {"kind": "none"},
        problem={"kind": "timing", "parts": 3, "size": 1000.0},
        workload={"optimizer": None},
    ).workload
    assert timed.tensor_sizes() == [[333], [333], [334]]
    assert timed.size() == 1000


def test_a_size_takes_its_time_on_the_links() -> None:
    # 100 bytes at 1000 bytes/s: 100 ms to read, 100 to compute, 100 to push.
    network = {"bandwidth": 1e3, "latency": 0.0, "sharing": "first_come"}
    timed = run(
        {"kind": "none"},
        network=network,
        cluster={"workers": 1},
        problem={"kind": "timing", "size": 100.0},
        workload={"optimizer": None},
        stop={"global_steps": 2},
    )
    assert (timed.steps / 1e6).tolist() == [300, 600]


def test_its_times_are_those_of_a_problem_with_values() -> None:
    network = {"bandwidth": 1.25e9, "latency": 1e-5, "sharing": "fair"}
    model = {"model": "resnet50", "batch_size": 32}
    with_values = run({"kind": "none"}, network=network, workload=model)
    timed = run(
        {"kind": "none"},
        network=network,
        problem={"kind": "timing"},
        workload={**model, "optimizer": None},
    )
    assert timed.steps.tolist() == with_values.steps.tolist()
    assert timed.spans.tolist() == with_values.spans.tolist()


@pytest.mark.parametrize(
    "workload", [{"optimizer": None}, {"model": "resnet50"}], ids=["no model", "an optimizer"]
)
def test_what_makes_no_sense_is_refused(workload: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="timing"):
        scenario({"kind": "none"}, problem={"kind": "timing"}, workload=workload)
