"""Flat form of pieces of gradients that servers add up: links, and what is pushed and pulled."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from varsim.cluster.clock import Clock
from varsim.cluster.description import Cluster
from varsim.cluster.flat import layout as at
from varsim.cluster.flat.building import Building, NotCoveredError
from varsim.cluster.flat.queues import UpdateDraws, update_laws
from varsim.cluster.flat.walks import FlatMessages
from varsim.cluster.link import Route
from varsim.cluster.network import network
from varsim.cluster.push_pull import Layout, laid_out
from varsim.cluster.slowdown import shares_of_compute
from varsim.cluster.updating import ServerUpdate
from varsim.values.workload import Workload


class _Sent(NamedTuple):
    route: Route
    size: float
    piece: int
    line: int  # the number of its connection
    rank: int  # who pulls it; -1: it is pushed


class FlatSums:
    """Times that servers take for sums; equal servers with equal times are one queue."""

    def __init__(self, update: ServerUpdate, layout: Layout, seed: int, replication: int) -> None:
        self._update, self._layout = update, layout
        each = [equal if update.is_random else 1 for equal in layout.counts]
        self._firsts = np.cumsum([0, *each]).tolist()
        laws = update_laws(update, seed, replication, self._firsts[-1])
        self.draws = UpdateDraws(laws, 1)  # of an item at once

    def lay_out(self, building: Building, reals: list[float]) -> None:
        """The queues of all servers, the fixed times of pieces (s), and what is drawn at first."""
        m, firsts, layout, number = building.scalars, self._firsts, self._layout, self._firsts[-1]
        m[at.QUEUES], m[at.THREADS] = number, self._update.threads
        m[at.LINES_AT] = building.room(number * self._update.threads)
        servers = [piece.server for piece in layout.pieces]
        m[at.PIECE_QUEUES] = building.add(
            [firsts[place] for server in servers for place in (server, server + 1)]
        )
        m[at.FIXED] = len(reals)
        for server, size, _ in layout.pieces:
            reals += [self._update.fixed(size / layout.counts[server])] * number
        self.draws.lay_out(building, reals)


class FlatPieces(FlatMessages[_Sent]):
    """Pieces on their way to servers, and their sums back.

    `shares` of a computation after which some are ready.
    """

    def __init__(
        self, cluster: Cluster, workload: Workload, workers: int, *, overlap: bool
    ) -> None:
        used = network(Clock(), cluster.network)
        super().__init__(used, workers, fair=cluster.network.sharing == "fair")
        places = [used.routing.worker(rank) for rank in range(workers)]
        self.layout = layout = laid_out(cluster, workload, used.routing)
        moments = layout.moments(overlap=overlap)
        self.shares = shares_of_compute(cluster, [share for share, _ in moments])
        self._ready = [len(group) for _, group in moments]
        if self.shares[-1] != 1.0:
            raise NotCoveredError("the last of its gradient is ready before it is computed")
        self._pieces, self.servers = layout.pieces, len(layout.places)
        up = [[used.route(one, place) for place in layout.places] for one in places]
        down = [[used.route(place, one) for one in places] for place in layout.places]
        self._pushes = [
            _Sent(up[rank][server], size, piece, rank * self.servers + server, -1)
            for rank in range(workers)
            for piece, (server, size, _) in enumerate(layout.pieces)
        ]
        self._pulls = [
            _Sent(down[server][rank], size, piece, (workers + rank) * self.servers + server, rank)
            for piece, (server, size, _) in enumerate(layout.pieces)
            for rank in range(workers)
        ]

    def lay_out(self, building: Building, reals: list[float], messages: int) -> None:
        """Lay out all, with room for so many messages at a time."""
        m, number = building.scalars, len(self._pieces)
        self._lay_out_links(building, reals, messages)
        m[at.PIECES], m[at.PIECE_COUNT] = building.room(number), number
        m[at.PIECES_BY] = building.add(np.cumsum([0, *self._ready]))
        lines = building.room(2 * self._workers * self.servers * at.SENDER)
        sizes = len(reals)
        reals += [piece.size for piece in self._pieces]
        connections = list[int]()
        first = building.size
        crossed = [self._crossed(first, connections, send, reals) for send in self._all]
        building.add(connections)
        records = np.array(
            [
                self._record(
                    [0, send.piece, send.rank + 1, lines + send.line * at.SENDER, 0, 0, 0],
                    send.route,
                    sizes + send.piece,
                    hops,
                )
                for send, hops in zip(self._all, crossed, strict=True)
            ]
        )
        m[at.PUSHES] = building.add(records)
        m[at.PULLS] = m[at.PUSHES] + len(self._pushes) * int(m[at.SEND_SIZE])
        places = range(m[at.PUSHES], building.size, m[at.SEND_SIZE])
        self._sends = dict(zip(places, self._all, strict=True))

    @cached_property
    def _all(self) -> list[_Sent]:
        return self._pushes + self._pulls
