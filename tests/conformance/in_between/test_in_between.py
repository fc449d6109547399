"""Strategies in between do what was recorded, or worked out twice: schedules and values."""

from collections.abc import Callable
from typing import Final

from tests.conformance.cases import Case, Record
from tests.conformance.files import BETWEEN
from tests.conformance.in_between.averaged import local_sgd
from tests.conformance.in_between.bounded import ssp
from tests.conformance.in_between.dropped import drop_compute
from tests.conformance.in_between.elastic import easgd
from tests.conformance.in_between.first_k import asynchronous, k_family
from tests.conformance.in_between.gossiping import gossip, sgp
from tests.conformance.in_between.outer import diloco, diloco_recovery

# By kind, how a case is run and compared; it raises AssertionError where something differs.
REPLAY: Final[dict[str, Callable[[Record], None]]] = {
    "async": asynchronous,
    "diloco": diloco,
    "diloco_recovery": diloco_recovery,
    "easgd": easgd,
    "drop_compute": drop_compute,
    "gossip": gossip,
    "sgp": sgp,
    "local_sgd": local_sgd,
    "post_local_sgd": local_sgd,
    "ssp": ssp,
    "k_sync": k_family,
    "k_async": k_family,
    "k_batch_async": k_family,
    "k_batch_sync": k_family,
}


def test_recorded_case(between: Case) -> None:
    REPLAY[between.record["kind"]](between.record)


def test_every_kind_that_is_told_to_be_replayed_is() -> None:
    assert REPLAY.keys() == BETWEEN
