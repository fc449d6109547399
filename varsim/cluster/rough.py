"""Rough times on any network: what the busiest link of a route needs, nobody else being on it.

For a plain star there are formulas; here the routes themselves are gone through. Of a collective,
every round lasts as long as its slowest message, which shares its links with all others of that
round: an upper bound where rounds overlap. Of a double binary tree, whose many rounds overlap all
the time, as long as on links of its own, or as the busiest link needs. Of parameter servers, what
one worker reads or sends alone, and how long all workers together keep the busiest link.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from varsim.cluster.batch import Message, MessageBatch
from varsim.cluster.collectives.choice import Choice, Hop
from varsim.cluster.collectives.schedule import Round
from varsim.cluster.description import Cluster
from varsim.cluster.link import Link, Route
from varsim.cluster.placement import server_places
from varsim.cluster.topology import Place

_MOST_ROUNDS: Final = 64  # in the middle, that are looked at where rounds overlap
_MOST_WORKERS: Final = 32  # that are looked at besides those with slow links


class RoughTimes:
    """Seconds on the network of a cluster; one of workers alone, and one with its servers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stored = cluster.network.forwarding == "store_and_forward"

    def all_reduce(self, choice: Choice, size: float, adding: float) -> float:
        """All enter at once; `adding`: seconds per byte that is added."""
        routing = self._cluster.network.routing()
        places = [routing.worker(rank) for rank in range(self._cluster.workers)]
        schedule = choice.schedule(len(places), size)
        crossed = routing.around if schedule.around else routing.route

        def longest(transfers: Round) -> float:
            """Seconds of the round's slowest message."""
            routes = [crossed(places[one.source], places[one.target]) for one in transfers]
            sizes = [size * len(one.blocks) / schedule.cut for one in transfers]
            busy, found = _busy(routes, sizes), 0.0
            for one, route, own in zip(transfers, routes, sizes, strict=True):
                latency = sum(link.latency for link in route) / 1e9
                moving = [busy[link] for link in route] or [0.0]
                passing = sum(moving) if self._stored else max(moving)
                found = max(found, latency + passing + (own * adding if one.adds else 0.0))
            return found

        patterns = [(rounds, transfers) for rounds, transfers in schedule.patterns if transfers]
        if choice.collective != "double_binary_tree":
            return sum(rounds * longest(transfers) for rounds, transfers in patterns)
        begin = max(0, (len(patterns) - _MOST_ROUNDS) // 2)
        looked_at = [
            (routing.route(places[one.source], places[one.target]), size * len(one.blocks))
            for _, transfers in patterns[begin : begin + _MOST_ROUNDS]
            for one in transfers
        ]
        if not looked_at:
            return 0.0
        sizes = [total / schedule.cut for _, total in looked_at]
        routes = [route for route, _ in looked_at]
        hop = self._hop(routes, sizes, adding)
        share = len(patterns) / min(len(patterns), _MOST_ROUNDS)
        busiest = max(_busy(routes, sizes).values(), default=0.0) * share
        return max(choice.duration(len(places), size, hop), busiest)

    def _hop(self, routes: Sequence[Route], sizes: Sequence[float], adding: float) -> Hop:
        """The longest of messages that have their links for themselves."""
        latency = per_byte = 0.0
        for route, size in zip(routes, sizes, strict=True):
            moving = list(_busy([route], [size]).values()) or [0.0]
            passing = sum(moving) if self._stored else max(moving)
            latency = max(latency, sum(link.latency for link in route) / 1e9)
            per_byte = max(per_byte, passing / size)
        return Hop(latency, per_byte, adding)

    def to_servers(self, sizes: list[list[float]], *, reads: bool) -> tuple[list[float], float]:
        """For every worker alone, and how long one keeps the link that several keep busiest.

        sizes: for everything that is sent by itself the bytes on each server.
        """
        cluster = self._cluster
        routing = cluster.network.routing()
        workers = [routing.worker(rank) for rank in range(cluster.workers)]
        servers = server_places(routing, cluster, sizes)

        def messages(worker: Place) -> list[Message]:
            if reads:
                return [
                    Message(0, routing.route(place, worker), sum(column))
                    for place, column in servers
                ]
            return [
                Message(item, routing.route(worker, place), column[item])
                for item in range(len(sizes))
                for place, column in servers
                if column[item]
            ]

        sent = [messages(worker) for worker in workers]
        everything = [message for own in sent for message in own]
        busy = _busy(
            [message.route for message in everything], [message.size for message in everything]
        )
        users = Counter(
            link for own in sent for link in {link for message in own for link in message.route}
        )
        shared = [time for link, time in busy.items() if users[link] > 1]
        return self._alone(sent), max(shared, default=0.0) / len(workers)

    def _alone(self, sent: Sequence[Sequence[Message]]) -> list[float]:
        """For every worker's messages, nobody else being there; of many, some stand for others."""
        step = -(-len(sent) // _MOST_WORKERS)
        slow = {link.rank for link in self._cluster.network.slow_links}
        found: list[float] = []
        usual = 0.0
        for rank, own in enumerate(sent):
            if rank % step == 0 or rank in slow:
                alone = MessageBatch(own, stored=self._stored).alone / 1e9
                found.append(alone)
                usual = usual if rank in slow and found[:-1] else alone
            else:
                found.append(usual)
        return found


def _busy(routes: Sequence[Route], sizes: Sequence[float]) -> dict[Link, float]:
    """How long (s) messages keep each link busy."""
    busy: dict[Link, float] = {}
    for route, size in zip(routes, sizes, strict=True):
        for hop, link in enumerate(route):
            overhead = 0.0 if hop else link.overhead / 1e9
            busy[link] = busy.get(link, 0.0) + size / link.bandwidth + overhead
    return busy
