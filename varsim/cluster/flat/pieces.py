"""Flat form of pieces of gradients that servers add up: links, and what is pushed and pulled."""

from typing import Any

import numpy as np

from varsim.cluster.clock import Clock
from varsim.cluster.description import Cluster
from varsim.cluster.flat import layout as at
from varsim.cluster.flat.building import Building, Ints, NotCoveredError
from varsim.cluster.flat.queues import UpdateDraws, update_laws
from varsim.cluster.flat.walks import FlatMessages
from varsim.cluster.link import Route
from varsim.cluster.network import network
from varsim.cluster.push_pull import Layout, laid_out
from varsim.cluster.slowdown import shares_of_compute
from varsim.cluster.updating import ServerUpdate
from varsim.values.workload import Workload


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


class FlatPieces(FlatMessages):
    """Pieces on their way to servers, and their sums back.

    `shares` of a computation after which some are ready.
    """

    def __init__(
        self, cluster: Cluster, workload: Workload, workers: int, *, overlap: bool
    ) -> None:
        used = network(Clock(), cluster.network)
        super().__init__(used, workers, fair=cluster.network.sharing == "fair")
        ranks = [used.routing.worker(rank) for rank in range(workers)]
        self.layout = layout = laid_out(cluster, workload, used.routing)
        moments = layout.moments(overlap=overlap)
        self.shares = shares_of_compute(cluster, [share for share, _ in moments])
        self._ready = [len(group) for _, group in moments]
        if self.shares[-1] != 1.0:
            raise NotCoveredError("the last of its gradient is ready before it is computed")
        self._pieces, self.servers = layout.pieces, len(layout.places)
        # Of connections, by worker and server, those to servers first; made in PushPull's order.
        self._routes = [used.route(rank, server) for rank in ranks for server in layout.places]
        down = [[used.route(server, rank) for rank in ranks] for server in layout.places]
        self._routes += [route for own in zip(*down, strict=True) for route in own]
        self._lines = 0  # the address of the first connection

    def lay_out(self, building: Building, reals: list[float], messages: int) -> None:
        """Lay out all, with room for so many messages at a time."""
        m, pieces = building.scalars, self._pieces
        most = [0.0] * self.servers  # the largest piece of each
        for server, size, _ in pieces:
            most[server] = max(most[server], size)
        self._lay_out_links(
            building,
            reals,
            messages,
            [(route, most[line % self.servers]) for line, route in enumerate(self._routes)],
        )
        m[at.PIECES], m[at.PIECE_COUNT] = building.room(len(pieces)), len(pieces)
        m[at.PIECES_BY] = building.add(np.cumsum([0, *self._ready]))
        self._lines = building.room(len(self._routes) * at.SENDER)
        sizes = len(reals)
        reals += [piece.size for piece in pieces]
        sends = self._records(building, reals, sizes)
        m[at.PUSHES] = building.add(sends)
        m[at.PULLS] = m[at.PUSHES] + sends.size // 2

    def _records(self, building: Building, reals: list[float], sizes: int) -> Ints:
        """What is pushed, by rank and piece, then pulled, by piece and rank; `sizes` are there."""
        both = np.mgrid[: self._workers, : len(self._pieces)]
        turned = both.transpose(0, 2, 1)
        ranks, numbers = np.concatenate((both.reshape(2, -1), turned.reshape(2, -1)), axis=1)
        pulled = np.repeat((0, 1), both[0].size)
        servers, piece_sizes, _ = (np.array(column) for column in zip(*self._pieces, strict=True))
        lines = (ranks + pulled * self._workers) * self.servers + servers[numbers]
        records: Ints = np.array([self._line(line) for line in range(len(self._routes))])[lines]
        records[:, at.PIECE], records[:, at.SEND_REALS] = numbers, sizes + numbers
        records[:, at.PULLER] = pulled * (ranks + 1)
        if self._fair:
            found = self._connections(building, reals, self._routes, lines, sizes + numbers)
            records[:, at.SEND] = found
            return records
        bandwidths = np.full((len(self._routes), self._hops), np.inf)
        for line, route in enumerate(self._routes):
            bandwidths[line, : len(route)] = [link.bandwidth for link in route]
        holds = np.rint(piece_sizes[numbers, np.newaxis] * 1e9 / bandwidths[lines])  # Link.hold
        records[:, at.SEND + 1 :: 2] = holds
        records[:, at.SEND + 1 : at.SEND + 2] += records[:, [at.AHEAD]]
        return records

    def _line(self, line: int) -> list[int]:
        """What messages of a connection have in common."""
        route = self._routes[line]
        links = [number for link in route for number in (self._links[link], 0)]
        return self._record([0, 0, 0, self._lines + line * at.SENDER, 0, 0, 0], route, 0, links)

    def _sent(self, m: Any, send: int) -> tuple[Route, float]:
        line = int(m[send + at.CONNECTION_OF_SEND]) - self._lines
        return self._routes[line // at.SENDER], self._pieces[int(m[send + at.PIECE])].size
