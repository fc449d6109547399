"""SSP, the K family and staleness policies do what the rules of the recorded cases make of them."""

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.conformance.in_between.test_in_between import REPLAY
from tests.oracle.serving import DRAWN

SAMPLE = range(300)
every_kind = pytest.mark.parametrize("kind", DRAWN)


def compare(kind: str, seeds: Sequence[int]) -> None:
    for seed in seeds:
        record = DRAWN[kind](seed)
        try:
            REPLAY[kind](record)
        except (AssertionError, ValueError) as error:
            pytest.fail(f"case {seed}: {error}\n{record}")


@every_kind
def test_to_the_last_bit(kind: str) -> None:
    compare(kind, SAMPLE[:30])


@pytest.mark.slow
@every_kind
def test_many_to_the_last_bit(kind: str) -> None:
    compare(kind, SAMPLE[30:])


@every_kind
def test_what_is_drawn(kind: str) -> None:
    met: Counter[str] = Counter()
    for seed in SAMPLE[:100]:
        case = DRAWN[kind](seed)
        expect, policy = case["expect"], case.get("staleness_policy", {}).get("kind", "")
        met[policy] += 1
        met[case["optimizer"]["name"]] += 1
        if kind == "ssp":
            met[case["refresh"]] += 1
            met["stale"] += any(not one["used"] for one in expect["pushes"])
            times = [one["t"] for one in expect["pushes"]]
        else:
            met["stale"] += bool(expect.get("stale"))
            met["several of one"] += any(
                len(one["used"]) > len(set(one["used"])) for one in expect["updates"]
            )
            met["dropped"] += any(one.get("dropped") for one in expect["updates"])
            met["cancelled"] += any(one.get("cancelled") for one in expect["updates"])
            times = [one["t"] for one in expect["updates"]]
        met["many at once"] += len(times) > len(set(times))
        met["waits"] += any(expect["blocked"])
    expected = {"sgd", "momentum", ""}
    if kind == "ssp":
        expected |= {"always", "when_stale", "waits", "many at once"}
    if kind == "ssp" or kind.endswith("_async"):
        expected |= {"none", "inverse", "delay_compensated", "drop_above", "stale", "many at once"}
    if kind in ("k_sync", "k_async"):
        expected.add("waits")
    if "batch" in kind:
        expected.add("several of one")
    if kind.endswith("_sync"):
        expected.add("cancelled")
    if kind.endswith("_sync"):
        expected.add("dropped")
    assert {name for name, number in met.items() if number >= 5} == expected, met
