"""Roughly how long it takes to push all gradients to servers and to pull their sums."""

from collections.abc import Iterable
from typing import NamedTuple

from varsim.cluster.description import Cluster
from varsim.cluster.link import Link, Route
from varsim.cluster.pieces import Layout, Piece, laid_out
from varsim.values.workload import Workload


class RoughPushPull(NamedTuple):
    """Seconds if all workers push everything at one moment; and of the last piece by itself."""

    whole: float
    last: float


class _Load(NamedTuple):
    """So many messages on a route, with so many bytes in all."""

    route: Route
    size: float
    messages: int = 1


def rough_push_pull(cluster: Cluster, workload: Workload) -> RoughPushPull:
    """What keeps the busiest link, or server, busy; and what cannot be done side by side.

    All links carry what is pushed and what is pulled; but the first piece is pushed before any is
    pulled, and the last is pulled after all are pushed.
    """
    routing = cluster.network.routing()
    workers = [routing.worker(rank) for rank in range(cluster.workers)]
    layout = laid_out(routing, cluster, workload)
    ups = [[routing.route(worker, place) for place in layout.places] for worker in workers]
    downs = [[routing.route(place, worker) for place in layout.places] for worker in workers]
    stored = cluster.network.forwarding == "store_and_forward"

    def all_pieces(routes: list[list[Route]]) -> list[_Load]:
        totals = _totals(layout)
        return [_Load(own[server], *total) for own in routes for server, total in totals.items()]

    def one_piece(routes: list[list[Route]], piece: Piece) -> float:
        own = [row[piece.server] for row in routes]
        passing = _busiest(_Load(route, piece.size) for route in own)
        return passing + max(_besides(route, piece.size, stored) for route in own)

    first, last = layout.pieces[0], layout.pieces[-1]
    pushing, pulling = all_pieces(ups), all_pieces(downs)
    adding = _adding(cluster, layout, layout.pieces)
    adding_last = _adding(cluster, layout, [last]) / cluster.workers
    trip = one_piece(ups, last) + adding_last + one_piece(downs, last)
    whole = max(
        _busiest([*pushing, *pulling]),
        _busiest(pushing) + adding_last + one_piece(downs, last),
        one_piece(ups, first) + _busiest(pulling),
        one_piece(ups, first) + adding + one_piece(downs, last),
        trip,
    )
    return RoughPushPull(whole, trip)


def _totals(layout: Layout) -> dict[int, tuple[float, int]]:
    """What one worker pushes to every server: bytes, and how many messages."""
    totals: dict[int, tuple[float, int]] = {}
    for server, size, _ in layout.pieces:
        bytes_there, messages = totals.get(server, (0.0, 0))
        totals[server] = bytes_there + size, messages + 1
    return totals


def _busiest(loads: Iterable[_Load]) -> float:
    """How long (s) the busiest link is busy."""
    busy: dict[Link, float] = {}
    for route, size, messages in loads:
        for hop, link in enumerate(route):
            overhead = 0.0 if hop else messages * link.overhead / 1e9
            busy[link] = busy.get(link, 0.0) + size / link.bandwidth + overhead
    return max(busy.values(), default=0.0)


def _besides(route: Route, size: float, stored: bool) -> float:
    """Seconds that a message needs besides its slowest link."""
    latency = sum(link.latency for link in route) / 1e9
    passing = [size / link.bandwidth for link in route]
    return latency + (sum(passing) - max(passing) if stored and passing else 0.0)


def _adding(cluster: Cluster, layout: Layout, pieces: Iterable[Piece]) -> float:
    """How long (s) the busiest server adds pieces of all workers to their sums."""
    update = cluster.server_update
    if update is None:
        return 0.0
    at = [0.0] * len(layout.places)
    for server, size, _ in pieces:
        at[server] += update.expectation(size / layout.counts[server])
    return cluster.workers * max(at) / update.threads
