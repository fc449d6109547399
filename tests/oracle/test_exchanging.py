"""Strategies that exchange copies do what the rules of the recorded cases make of them."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from tests.conformance.in_between.elastic import easgd
from tests.conformance.in_between.gossiping import gossip, rounds
from tests.conformance.in_between.recorded import Record
from tests.oracle import exchanging
from tests.oracle.periodic import Drawn
from varsim.strategies.gossip import Gossip

SAMPLE = range(300)


def mixed(record: Record) -> None:
    settings = {key: record[key] for key in ("mode", "graph") if record[key]}
    if record["matrices"]:
        settings["matrices"] = tuple(tuple(map(tuple, one)) for one in record["matrices"])
    rounds(record, Gossip.model_validate(settings))


KINDS: dict[str, tuple[Callable[[int], Drawn], Callable[[Record], None]]] = {
    "easgd": (exchanging.easgd, easgd),
    "gossip": (exchanging.gossip, gossip),
    "mixing": (exchanging.mixing, mixed),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def compare(kind: str, seeds: Sequence[int]) -> None:
    draw, replay = KINDS[kind]
    for seed in seeds:
        record = draw(seed)
        try:
            replay(record)
        except AssertionError as error:
            pytest.fail(f"case {seed}: {error}\n{record}")


@every_kind
def test_to_the_last_bit(kind: str) -> None:
    compare(kind, SAMPLE[:30])


@pytest.mark.slow
@every_kind
def test_many_to_the_last_bit(kind: str) -> None:
    compare(kind, SAMPLE[30:])


def test_what_is_drawn_of_easgd() -> None:
    met: Counter[str] = Counter()
    for seed in SAMPLE[:100]:
        case = exchanging.easgd(seed)
        met["alone"] += case["moving_rate"] == 0
        times = Counter((one["t"]) for one in case["expect"]["exchanges"])
        met["ties"] += max(times.values(), default=0) > 1
    assert min(met.values()) >= 10, met
    assert len(met) == 2


def test_what_is_drawn_of_gossip() -> None:
    met: Counter[str] = Counter()
    for seed in SAMPLE[:100]:
        case = exchanging.mixing(seed)
        met[f"{case['mode']} {case['graph']}"] += 1
        met["waits"] += any(case["expect"]["blocked"])
        met["weights"] += any(w != 1.0 for row in case["expect"]["rounds"] for w in row["w"])
        pairs = exchanging.gossip(seed)["expect"]["averages"]
        met["stale"] += any(one["staleness"] for one in pairs)
        met["ties"] += max(Counter(one["t"] for one in pairs).values()) > 1
    assert min(met.values()) >= 8, met
    assert len(met) == 10
