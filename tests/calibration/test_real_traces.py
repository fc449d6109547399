"""Traces that people recorded: numbers as a plain reading gives them, and what is said of them."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from varsim.calibration.forms import combine_ranks
from varsim.calibration.kineto import KinetoTrace as Trace
from varsim.calibration.kineto import read_kineto
from varsim.calibration.measurement import UnreadableError

DATA = Path(__file__).parent.parent / "data" / "kineto"
FACTS: dict[str, dict[str, Any]] = json.loads((DATA / "facts.json").read_text())
US = 1e6


@cache
def trace(name: str) -> Trace:
    (path,) = DATA.glob(f"{name}*.gz")
    return read_kineto(json.loads(gzip.decompress(path.read_bytes())), path.name)


def said(*names: str) -> str:
    return "\n".join(
        combine_ranks([trace(name) for name in names]).recorded
        + combine_ranks([trace(name) for name in names]).notes
    )


@pytest.mark.parametrize("name", FACTS)
def test_ranks_and_whole_steps_are_those_of_the_file(name: str) -> None:
    found, facts = trace(name.split("__")[0]), FACTS[name]

    assert (found.rank, found.ranks) == (facts["rank"], facts["world_size"])
    cut = [int(s["name"].split("#")[1]) for s in facts["steps"] if s["cut_by_window"]]
    assert list(found.cut) == cut


@pytest.mark.parametrize("name", [n for n in FACTS if not n.startswith(("negative", "cpu_only"))])
def test_busy_and_exposed_times_agree_with_a_plain_reading(name: str) -> None:
    steps = {int(s["name"].split("#")[1]): s for s in FACTS[name]["steps"]}
    found = trace(name.split("__")[0]).steps

    assert found
    for one in found:
        facts = steps[one.number]
        assert one.whole * US == pytest.approx(facts["dur_us"], abs=1)
        assert (one.computing + one.exposed) * US == pytest.approx(facts["gpu_busy_us"], abs=1)
        assert one.communicating * US == pytest.approx(facts["nccl_us"], abs=1)
        assert one.exposed * US == pytest.approx(facts["nccl_exposed_us"], abs=1)


def test_where_the_gpu_is_behind_the_host_steps_are_those_of_the_gpu() -> None:
    name = "negative_queue_length_values_check__rank0.json.gz"
    found = trace("negative")
    expected = [s["gpu_step_us"] for s in FACTS[name]["steps"]][1:]

    assert [one.whole * US for one in found.steps] == pytest.approx(expected, abs=1)
    assert "the GPU ends a step 161 ms after the host: steps are taken on the GPU" in said("neg")


def test_one_rank_does_not_pass_as_the_whole_job() -> None:
    assert said("timeline").startswith("1 of 128 ranks: how much slower others are cannot be seen")
    assert "does not say of how many ranks" in said("mi300")
    assert "ranks" not in said("gloo_rank0", "gloo_rank1")


def test_steps_cut_by_the_recording_are_left_out() -> None:
    found = combine_ranks([trace("amd")])

    assert found.steps.numbers == {0: (1,)}
    assert "left out, as the recording cuts it: step 2" in said("amd")


def test_an_idle_gpu_is_told_apart_from_computing() -> None:
    assert "the GPU idles for 341 ms of a step (55 %)" in said("timeline")
    kept = combine_ranks([trace("timeline")]).steps.rows[0]
    dropped = combine_ranks([trace("timeline")], "drop").steps.rows[0]
    busy = [one.computing for one in trace("timeline").steps]

    assert kept == pytest.approx([0.435532, 0.458675], abs=1e-6)
    assert dropped == pytest.approx(busy)


def test_idle_time_of_a_cpu_cannot_be_dropped() -> None:
    with pytest.raises(UnreadableError, match="--idle has no effect"):
        combine_ranks([trace("cpu_only")], "drop")


def test_collectives_of_gloo_are_no_computation() -> None:
    (alone,) = combine_ranks([trace("cpu_only")]).steps.rows.values()
    # Two all-reduces at a time, of 171 to 179 ms, in a step of 210 ms.
    assert alone == pytest.approx([0.210109 - 0.178777], abs=1e-6)

    for rank in (0, 1):
        for one in trace(f"gloo_rank{rank}").steps:
            assert 0 < one.exposed < one.communicating
            assert one.computing + one.exposed <= one.whole
    assert "gloo's 13.7 ms, of which 4.76 ms beside others" in said("gloo_rank0", "gloo_rank1")
