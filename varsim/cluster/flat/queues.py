"""Flat form of the request queues of parameter servers, and of their updates."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from varsim.cluster.description import Cluster
from varsim.cluster.flat import layout as at
from varsim.cluster.flat.building import Building
from varsim.cluster.overheads import Overheads
from varsim.cluster.placement import traffic_per_port
from varsim.cluster.request_queue import hold, queue_columns
from varsim.cluster.updating import ServerUpdate
from varsim.values.stream import stream
from varsim.values.workload import Workload

UpdateLaws: TypeAlias = list[Iterator[float] | None]

_NONE = -1  # the hold of what a server has nothing of


class UpdateDraws:
    """Draws of server updates, for so many items at once: laid out in memory, and more of them."""

    def __init__(self, laws: Iterable[Iterator[float] | None], items: int) -> None:
        self._laws, self._items = [law for law in laws if law is not None], items

    def lay_out(self, building: Building, reals: list[float]) -> None:
        """Add the first draws of every queue."""
        if not self._laws:
            return
        number, m = len(self._laws), building.scalars
        m[at.MOST_DRAWN] = most = 2 * self._items + 256
        m[at.DRAWS_AT] = building.room(number)
        m[at.DRAWN_AT] = len(reals)
        reals += [drawn for law in self._laws for drawn in islice(law, int(most))]

    def refill(self, m: Any, reals: Any) -> None:
        """Draw more for the queues that have few draws left."""
        most = int(m[at.MOST_DRAWN])
        for number, law in enumerate(self._laws):
            used, first = int(m[m[at.DRAWS_AT] + number]), int(m[at.DRAWN_AT]) + number * most
            if used > most - self._items:
                left = list(reals[first + used : first + most])
                reals[first : first + most] = left + list(islice(law, used))
                m[m[at.DRAWS_AT] + number] = 0


def update_laws(update: ServerUpdate, seed: int, replication: int, number: int) -> UpdateLaws:
    """The times that so many queues take, as they are drawn; None: they are not."""
    name = partial(stream, seed, replication, "server update")
    return [update.draws(queue, partial(name, queue)) for queue in range(number)]


class FlatQueues:
    """Request queues of a run, laid out in memory, and what is drawn for server updates.

    `trained`: the variables that are pushed.
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        trained: Sequence[int],
        seed: int,
        replication: int,
    ) -> None:
        self._overheads = cluster.overheads or Overheads()
        self._update, self._trained = cluster.server_update, trained
        self._there = cluster.overheads is not None or cluster.server_update is not None
        laws: UpdateLaws = []
        self.draws = UpdateDraws(laws, len(trained))
        if not self._there:
            return
        sizes, ratios = traffic_per_port(workload, cluster), workload.gradient_ratios()
        self._columns, self._pushed = queue_columns(self._update, sizes, ratios)
        if self._update is not None:
            laws = update_laws(self._update, seed, replication, len(self._pushed))
        self.draws = UpdateDraws(laws, len(trained))

    def lay_out(self, building: Building, reals: list[float]) -> None:
        """The queues, what a row has more for them, and fixed times of updates (s)."""
        m = building.scalars
        if not self._there:
            return
        number, variables, said = len(self._columns), len(self._trained), self._overheads
        m[at.QUEUES], m[at.QUEUES_AT] = number, building.room(number)
        m[at.READ_HOLDS] = building.add([hold(said, said.pull, sum(own)) for own in self._columns])
        holds = np.array(
            [
                [hold(said, said.push, size) if size else _NONE for size in own]
                for own in self._pushed
            ]
        ).T
        m[at.PUSH_HOLDS] = building.add(holds[list(self._trained)])
        m[at.ANSWER], m[at.COMMIT] = hold(said, said.wake, 0.0), round(said.commit * 1e9)
        m[at.SENDING] = np.maximum(holds, 0).sum(axis=0).max()
        m[at.HANDLING] = m[at.ROW]
        m[at.ROW] += at.BUSY
        if self._update is None:
            return
        m[at.FIXED] = len(reals)
        m[at.THREADS] = threads = self._update.threads
        m[at.LINES_AT] = building.room(number * threads)
        m[at.BUSY_THREADS] = min(threads, variables)
        m[at.ROW] += number * min(threads, variables)
        reals += [
            self._update.fixed(own[variable]) for variable in self._trained for own in self._pushed
        ]
