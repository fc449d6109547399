"""Laws of compute times: distributions against theory, streams, replayed measurements."""

import math
import pickle
from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from scipy import special

from varsim.values.distributions import BLOCK, DISTRIBUTIONS, AnyDistribution, Distribution, Stream
from varsim.values.stream import stream

ADAPTER: TypeAdapter[Distribution] = TypeAdapter(AnyDistribution)
Numbers = NDArray[np.float64]

UNIT = {"kind": "uniform", "low": 0.0, "high": 1.0}
FAST = {"kind": "constant", "value": 1.0}
SLOW = {"kind": "constant", "value": 3.0}


def law(kind: str, **settings: Any) -> Distribution:
    return ADAPTER.validate_python({"kind": kind, **settings})


def streams(worker: int = 0, seed: int = 7) -> Stream:
    return lambda block: stream(seed, 0, "compute", worker, block)


def times(one: Distribution, blocks: int, worker: int = 0) -> Numbers:
    return np.concatenate(list(islice(one.blocks(worker, streams(worker)), blocks)))


def every_kind() -> list[Distribution]:
    return [
        law("constant", value=2.0),
        law("uniform", low=1.0, high=2.0),
        law("normal", mean=1.0, std=0.2),
        law("exponential", mean=2.0),
        law("shifted_exponential", minimum=1.0, mean=1.5),
        law("lognormal", mean=2.0, sigma=0.5),
        law("lognormal", mean=2.0, median=1.0),
        law("gamma", mean=2.0, shape=4.0),
        law("weibull", mean=2.0, shape=0.7),
        law("pareto", minimum=1.0, alpha=3.0),
        law("gumbel", location=1.0, scale=0.2),
        law(
            "mixture",
            components=(
                {"weight": 3.0, "law": {"kind": "exponential", "mean": 1.0}},
                {"weight": 1.0, "law": {"kind": "uniform", "low": 4.0, "high": 5.0}},
            ),
        ),
        law("stages", first=FAST, works=0.7, second={"kind": "exponential", "mean": 3.0}),
        law(
            "markov", fast=FAST, slow={"kind": "exponential", "mean": 3.0}, to_slow=0.1, to_fast=0.3
        ),
        law("trace", seconds=((1.0, 2.0, 3.0), (4.0, 5.0)), replay="cycle"),
        law("batch_curve", fixed=1.0, per_example=0.1, sigma=0.3),
        law("trace", seconds=((1.0, 2.0, 3.0), (4.0, 5.0)), replay="resample"),
        law("phases", forward=1.0, backward=2.0),
    ]


def drawn() -> list[Distribution]:
    """Of every kind one that can be drawn from: for a batch of 3."""
    return [one.for_batch(3) for one in every_kind()]


by_kind = pytest.mark.parametrize("one", drawn(), ids=repr)

# Law, mean, variance, distribution function.
THEORY: list[tuple[Distribution, float, float, Callable[[Numbers], Numbers]]] = [
    (law("uniform", low=1.0, high=4.0), 2.5, 9 / 12, lambda t: (t - 1) / 3),
    # Cut at one deviation below the mean: phi(1) = 0.24197, Phi(1) = 0.84134, ratio 0.28760;
    # mean 2 + 2 * 0.28760, variance 4 (1 - 0.28760 - 0.28760^2).
    (
        law("normal", mean=2.0, std=2.0),
        2.575199942,
        2.518747106,
        lambda t: (special.ndtr((t - 2) / 2) - special.ndtr(-1)) / special.ndtr(1),
    ),
    (law("normal", mean=1.0, std=0.1), 1.0, 0.01, lambda t: special.ndtr((t - 1) / 0.1)),
    (law("exponential", mean=0.5), 0.5, 0.25, lambda t: -np.expm1(-t / 0.5)),
    (
        law("shifted_exponential", minimum=0.1, mean=0.3),
        0.3,
        0.04,
        lambda t: -np.expm1(-(t - 0.1) / 0.2),
    ),
    # Variance mean^2 (exp(sigma^2) - 1).
    (
        law("lognormal", mean=2.0, sigma=0.5),
        2.0,
        4 * math.expm1(0.25),
        lambda t: special.ndtr((np.log(t) - math.log(2) + 0.125) / 0.5),
    ),
    # Variance mean^2 ((mean / median)^2 - 1).
    (
        law("lognormal", mean=2.0, median=1.6),
        2.0,
        4 * (1.25**2 - 1),
        lambda t: special.ndtr(np.log(t / 1.6) / math.sqrt(2 * math.log(1.25))),
    ),
    # A stage of 0 to 1, and in a quarter of all cases another after it: mean 0.5 + 0.25 * 0.5.
    (
        law("stages", first=UNIT, works=0.75, second=UNIT),
        0.625,
        1 / 12 + 0.25 * (1 / 12 + 0.25) - 0.0625 * 0.25,
        lambda t: np.where(t < 1, 0.75 * t + t**2 / 8, 0.75 + (1 - (2 - t) ** 2 / 2) / 4),
    ),
    (law("gamma", mean=2.0, shape=4.0), 2.0, 1.0, lambda t: special.gammainc(4.0, 2 * t)),
    (law("gamma", mean=2.0, shape=0.5), 2.0, 8.0, lambda t: special.gammainc(0.5, t / 4)),
    # Shape 2 is Rayleigh: variance mean^2 (4 / pi - 1), scale mean / gamma(1.5).
    (
        law("weibull", mean=3.0, shape=2.0),
        3.0,
        9 * (4 / math.pi - 1),
        lambda t: -np.expm1(-((t * math.sqrt(math.pi) / 6) ** 2)),
    ),
    # Shape 1/2: scale mean / 2, second moment 24 scale^2.
    (law("weibull", mean=2.0, shape=0.5), 2.0, 20.0, lambda t: -np.expm1(-np.sqrt(t))),
    # Mean alpha / (alpha - 1), variance alpha / ((alpha - 1)^2 (alpha - 2)).
    (law("pareto", minimum=2.0, alpha=6.0), 2.4, 4 * 6 / (25 * 4), lambda t: 1 - (2 / t) ** 6),
    # Variance (pi * scale)^2 / 6, mean location + 0.57722 scale.
    (
        law("gumbel", location=2.0, scale=0.3),
        2.0 + 0.3 * 0.5772156649,
        (math.pi * 0.3) ** 2 / 6,
        lambda t: np.exp(-np.exp(-(t - 2) / 0.3)),
    ),
    # Second moments 1/4 * 2 * 1 + 3/4 * (4^2 + 1/12), mean 1/4 + 3/4 * 4.
    (
        law(
            "mixture",
            components=(
                {"weight": 1.0, "law": {"kind": "exponential", "mean": 1.0}},
                {"weight": 3.0, "law": {"kind": "uniform", "low": 3.5, "high": 4.5}},
            ),
        ),
        3.25,
        0.5 + 0.75 * (16 + 1 / 12) - 3.25**2,
        lambda t: -0.25 * np.expm1(-t) + 0.75 * np.clip(t - 3.5, 0, 1),
    ),
]


@pytest.mark.parametrize(
    ("one", "mean", "variance", "distribution"), THEORY, ids=[repr(row[0]) for row in THEORY]
)
def test_draws_follow_the_distribution(
    one: Distribution, mean: float, variance: float, distribution: Callable[[Numbers], Numbers]
) -> None:
    sample = times(one, 1000)
    n = sample.size
    assert one.expectation() == pytest.approx(mean, rel=1e-8)
    assert abs(sample.mean() - mean) < 4 * math.sqrt(variance / n)
    squares = (sample - mean) ** 2
    assert abs(squares.mean() - variance) < 4 * squares.std() / math.sqrt(n)
    # Kolmogorov-Smirnov: the largest gap exceeds 1.95 / sqrt(n) once in a thousand samples.
    levels = distribution(np.sort(sample))
    gap = max(np.max(np.arange(1, n + 1) / n - levels), np.max(levels - np.arange(n) / n))
    assert gap < 1.95 / math.sqrt(n)


def test_constant_is_constant() -> None:
    one = law("constant", value=0.25)
    assert set(times(one, 3)) == {0.25}
    assert one.expectation() == 0.25


def test_normal_times_are_above_zero_even_if_the_cut_takes_nearly_half() -> None:
    assert times(law("normal", mean=0.01, std=1.0), 200).min() > 0


def test_markov_spends_its_shares_and_spells_have_their_lengths() -> None:
    slow = times(law("markov", fast=FAST, slow=SLOW, to_slow=0.05, to_fast=0.2), 2000) == 3.0
    # Slow share 0.05 / 0.25 = 0.2; neighbours correlate with 1 - 0.25, which widens the error
    # of a share by (1 + 0.75) / (1 - 0.75) = 7.
    assert abs(slow.mean() - 0.2) < 4 * math.sqrt(0.2 * 0.8 * 7 / slow.size)
    # Of the slow steps, one in 5 is followed by a fast one; of the fast, one in 20 by a slow one.
    for state, leaves in ((slow, 0.2), (~slow, 0.05)):
        change = ~state[1:][state[:-1]]
        assert abs(change.mean() - leaves) < 4 * math.sqrt(leaves * (1 - leaves) / change.size)


def test_markov_begins_as_it_goes_on() -> None:
    one = law("markov", fast=FAST, slow=SLOW, to_slow=0.01, to_fast=0.03)
    first = [next(one.blocks(worker, streams(worker)))[0] == 3.0 for worker in range(2000)]
    assert abs(np.mean(first) - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 2000)


def test_markov_carries_its_state_into_the_next_block() -> None:
    # With changes this rare a block that forgot its state would be slow in half of all cases.
    one = law("markov", fast=FAST, slow=SLOW, to_slow=1e-4, to_fast=1e-4)
    blocks = list(islice(one.blocks(0, streams()), 20))
    changed = [before[-1] != after[0] for before, after in pairwise(blocks)]
    assert sum(changed) <= 1


def test_markov_that_always_changes_alternates() -> None:
    one = law("markov", fast=FAST, slow=SLOW, to_slow=1.0, to_fast=1.0)
    assert np.all(np.abs(np.diff(times(one, 3))) == 2.0)
    assert one.expectation() == 2.0


def test_the_mean_of_a_nested_law() -> None:
    # Slow share 1/4, of which the mean is (1 * 2 + 3 * 6) / 4 = 5: 3/4 * 1 + 1/4 * 5 = 2
    mixture = {
        "kind": "mixture",
        "components": (
            {"weight": 1.0, "law": {"kind": "exponential", "mean": 2.0}},
            {"weight": 3.0, "law": {"kind": "exponential", "mean": 6.0}},
        ),
    }
    one = law("markov", fast=FAST, slow=mixture, to_slow=0.1, to_fast=0.3)
    assert one.expectation() == pytest.approx(2.0)


@by_kind
def test_blocks_are_endless_float64_and_never_negative(one: Distribution) -> None:
    for block in islice(one.blocks(0, streams()), 20):
        assert block.shape == (BLOCK,)
        assert block.dtype == np.float64
        assert np.all(block > 0)


@by_kind
def test_a_block_is_drawn_from_its_own_stream_only(one: Distribution) -> None:
    asked: list[int] = []

    def watched(block: int) -> np.random.Generator:
        asked.append(block)
        return streams()(block)

    for number, _ in enumerate(islice(one.blocks(0, watched), 5)):
        assert set(asked) <= {number}
        asked.clear()


@pytest.mark.parametrize("one", [one for one in drawn() if one.kind != "markov"], ids=repr)
def test_a_block_does_not_depend_on_earlier_blocks(one: Distribution) -> None:
    def other_start(block: int) -> np.random.Generator:
        return streams(seed=8)(block) if block < 3 else streams()(block)

    expected = list(islice(one.blocks(0, streams()), 5))
    found = list(islice(one.blocks(0, other_start), 5))
    np.testing.assert_array_equal(found[3:], expected[3:])


@by_kind
def test_the_same_streams_give_the_same_times_in_any_process(one: Distribution) -> None:
    again = pickle.loads(pickle.dumps(one))
    assert again == one
    np.testing.assert_array_equal(times(again, 3), times(one, 3))


@pytest.mark.parametrize(
    "one",
    [one for one in drawn() if one.kind not in ("constant", "phases") and "cycle" not in repr(one)],
    ids=repr,
)
def test_workers_and_blocks_differ(one: Distribution) -> None:
    blocks = [*islice(one.blocks(0, streams(0)), 2), *islice(one.blocks(1, streams(1)), 2)]
    assert len({block.tobytes() for block in blocks}) == 4


def test_components_of_one_kind_do_not_share_their_draws() -> None:
    same = {"weight": 1.0, "law": {"kind": "uniform", "low": 0.0, "high": 1.0}}
    far = {"weight": 1.0, "law": {"kind": "uniform", "low": 10.0, "high": 11.0}}
    block = next(law("mixture", components=(same, far)).blocks(0, streams()))
    alone = next(law("uniform", low=0.0, high=1.0).blocks(0, streams()))
    fraction = np.where(block > 5, block - 10, block)
    assert np.abs(np.corrcoef(fraction, alone)[0, 1]) < 4 / math.sqrt(BLOCK)
    assert np.abs(np.corrcoef(fraction, block > 5)[0, 1]) < 4 / math.sqrt(BLOCK)


@pytest.mark.parametrize("one", every_kind(), ids=repr)
def test_a_resolved_law_reads_back_as_itself(one: Distribution) -> None:
    text = ADAPTER.dump_json(one)
    assert ADAPTER.validate_json(text, context={"text": True}) == one


def test_times_in_a_file_need_units() -> None:
    text = '{"kind": "shifted_exponential", "minimum": "100 ms", "mean": 0.12}'
    with pytest.raises(ValidationError, match="no unit") as caught:
        ADAPTER.validate_json(text, context={"text": True})
    assert caught.value.errors()[0]["loc"] == ("shifted_exponential", "mean")
    found = ADAPTER.validate_json(text.replace("0.12", '"120 ms"'), context={"text": True})
    assert found == law("shifted_exponential", minimum=0.1, mean=0.12)


def test_the_table_is_complete() -> None:
    for kind, one in DISTRIBUTIONS.items():
        assert one.model_fields["kind"].default == kind
        assert one.about
    assert {one.kind for one in every_kind()} | {"correlated"} == set(DISTRIBUTIONS)


def test_a_json_schema_can_be_made() -> None:
    schema = ADAPTER.json_schema()
    assert set(schema["discriminator"]["mapping"]) == set(DISTRIBUTIONS)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "constant", "value": 0.0}, "greater than 0"),
        ({"kind": "constant", "value": -1.0}, "greater than 0"),
        ({"kind": "constant", "value": math.inf}, "infinity"),
        ({"kind": "constant"}, "required"),
        ({"kind": "constant", "value": 1.0, "std": 1.0}, "Extra"),
        ({"kind": "uniform", "low": 2.0, "high": 1.0}, "high must be above low"),
        ({"kind": "uniform", "low": 1.0, "high": 1.0}, "kind: constant"),
        ({"kind": "uniform", "low": -1.0, "high": 1.0}, "greater than or equal to 0"),
        ({"kind": "normal", "mean": 1.0, "std": 0.0}, "greater than 0"),
        ({"kind": "normal", "mean": 0.0, "std": 1.0}, "greater than 0"),
        ({"kind": "exponential", "mean": 0.0}, "greater than 0"),
        ({"kind": "shifted_exponential", "minimum": 1.0, "mean": 1.0}, "mean must be above"),
        ({"kind": "lognormal", "mean": 1.0, "sigma": 0.0}, "greater than 0"),
        ({"kind": "lognormal", "mean": 1.0, "sigma": 11.0}, "less than or equal to 10"),
        ({"kind": "lognormal", "mean": 1.0}, "either sigma or median"),
        ({"kind": "lognormal", "mean": 1.0, "sigma": 1.0, "median": 0.5}, "either sigma or median"),
        ({"kind": "lognormal", "mean": 1.0, "median": 1.0}, "below the mean"),
        ({"kind": "stages", "first": FAST, "works": 1.0, "second": FAST}, "less than 1"),
        ({"kind": "gamma", "mean": 1.0, "shape": 0.0}, "greater than or equal to 0.05"),
        ({"kind": "weibull", "mean": 1.0, "shape": 0.0}, "greater than or equal to 0.05"),
        ({"kind": "pareto", "minimum": 1.0, "alpha": 1.0}, "alpha must be above 1"),
        ({"kind": "pareto", "minimum": 0.0, "alpha": 2.0}, "greater than 0"),
        ({"kind": "gumbel", "location": 1.0, "scale": 0.3}, "at least 4 times scale"),
        ({"kind": "batch_curve", "fixed": -1.0, "per_example": 0.1}, "greater than or equal to 0"),
        ({"kind": "batch_curve", "fixed": 1.0, "per_example": 0.0}, "greater than 0"),
        ({"kind": "batch_curve", "fixed": 1.0, "per_example": 0.1, "sigma": 0.0}, "greater than 0"),
        ({"kind": "mixture", "components": ({"weight": 1.0, "law": FAST},)}, "at least 2"),
        (
            {"kind": "mixture", "components": ({"weight": 0.0, "law": FAST},) * 2},
            "greater than 0",
        ),
        ({"kind": "markov", "fast": FAST, "slow": SLOW, "to_slow": 0.0, "to_fast": 0.5}, "than 0"),
        ({"kind": "markov", "fast": FAST, "slow": SLOW, "to_slow": 0.5, "to_fast": 1.5}, "to 1"),
        ({"kind": "trace"}, "give file"),
        ({"kind": "trace", "file": 7}, "name of a CSV file"),
        ({"kind": "trace", "seconds": ()}, "at least 1"),
        ({"kind": "trace", "seconds": ((1.0,), ())}, "at least 1"),
        ({"kind": "trace", "seconds": ((1.0, 0.0),)}, "greater than 0"),
        ({"kind": "trace", "seconds": (("1.0",),)}, "valid number"),
        ({"kind": "trace", "seconds": ((1.0,),), "replay": "shuffle"}, "cycle"),
        ({"kind": "cauchy"}, "cauchy"),
    ],
    ids=repr,
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ADAPTER.validate_python(wrong)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "steps.csv").write_text("worker,seconds\n0,0.1\n1,0.5\n0,0.2\n\n0, 0.3\n1,0.6\n")
    return tmp_path


def test_a_trace_is_read_beside_the_scenario_and_cycled(folder: Path) -> None:
    one = ADAPTER.validate_python(
        {"kind": "trace", "file": "steps.csv"}, context={"folder": folder}
    )
    # Worker 0 has three steps, worker 1 two; worker 3 is the second of the second pair.
    assert times(one, 1, worker=0)[:5].tolist() == [0.1, 0.2, 0.3, 0.1, 0.2]
    assert times(one, 1, worker=1)[:3].tolist() == [0.5, 0.6, 0.5]
    assert times(one, 1, worker=3)[:3].tolist() == [0.5, 0.6, 0.5]
    # The second block goes on where the first ended: 128 = 42 * 3 + 2.
    assert times(one, 2, worker=0)[BLOCK : BLOCK + 2].tolist() == [0.3, 0.1]
    # (0.2 + 0.55) / 2
    assert one.expectation() == pytest.approx(0.375)


def test_a_trace_is_resampled_evenly_from_the_workers_own_row(folder: Path) -> None:
    one = law("trace", file=str(folder / "steps.csv"), replay="resample")
    sample = times(one, 300, worker=2)
    for value in (0.1, 0.2, 0.3):
        share = np.mean(sample == value)
        assert abs(share - 1 / 3) < 4 * math.sqrt(2 / 9 / sample.size)
    assert set(times(one, 10, worker=1)) == {0.5, 0.6}


def test_a_relative_trace_without_a_folder_is_in_the_current_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert law("trace", file="steps.csv").expectation() == pytest.approx(0.375)


def test_a_resolved_trace_needs_no_file(folder: Path) -> None:
    one = law("trace", file=str(folder / "steps.csv"))
    text = ADAPTER.dump_json(one)
    (folder / "steps.csv").unlink()
    assert ADAPTER.validate_json(text, context={"text": True}) == one


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: the header must be worker,seconds"),
        ("0,0.1\n", "line 1: the header must be worker,seconds"),
        ("worker,seconds\n", "line 2: no times"),
        ("worker,seconds\n0,0.1\n0,fast\n", "line 3: 'fast' is not a number"),
        ("worker,seconds\n0,\n", "line 2: '' is not a number"),
        ("worker,seconds\n0,0.1\n\n0,-0.1\n", "line 4: seconds must be above 0"),
        ("worker,seconds\n0,0\n", "line 2: seconds must be above 0"),
        ("worker,seconds\n0,nan\n", "line 2: seconds must be above 0 and finite"),
        ("worker,seconds\n0,1e999\n", "line 2: seconds must be above 0 and finite"),
        ("worker,seconds\nzero,0.1\n", "line 2: worker must be a number from 0 up"),
        ("worker,seconds\n-1,0.1\n", "line 2: worker must be a number from 0 up"),
        ("worker,seconds\n0,0.1,0.2\n", "line 2: 3 values where worker,seconds are two"),
        ("worker,seconds\n0\n", "line 2: 1 values where worker,seconds are two"),
        ("worker,seconds\n0,0.1\n2,0.1\n", "worker 2 has times but worker 1 has none"),
        ("worker,seconds\n1,0.1\n", "worker 1 has times but worker 0 has none"),
    ],
)
def test_a_broken_trace_is_refused_with_file_and_line(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "broken.csv"
    path.write_text(content)
    with pytest.raises(ValidationError) as caught:
        law("trace", file=str(path))
    text = str(caught.value)
    assert str(path) in text
    assert message in text


def test_a_trace_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"missing\.csv: there is no such file"):
        law("trace", file=str(tmp_path / "missing.csv"))
    with pytest.raises(ValidationError, match="this is a folder"):
        law("trace", file=str(tmp_path))
    with pytest.raises(ValidationError, match="there is no such file"):
        law("trace", file="/dev/zero")
    (tmp_path / "binary.csv").write_bytes(b"worker,seconds\n0,\xff\n")
    with pytest.raises(ValidationError, match="cannot be read as UTF-8"):
        law("trace", file=str(tmp_path / "binary.csv"))
    with (tmp_path / "huge.csv").open("wb") as file:
        file.truncate(2**27)
    with pytest.raises(ValidationError, match="larger than 1 MiB"):
        law("trace", file=str(tmp_path / "huge.csv"))
