"""Pushing and pulling a second time, without any of its classes: the same times."""

import heapq
import random
from collections.abc import Callable

import pytest

from tests.building import slow
from tests.pushing import FIRST_COME, layers, pushed


def by_another(size: list[list[float]], ready: list[list[int]], rate: float) -> list[int]:
    """When every worker has all sums (ns): first come, first served, one step.

    `size`: bytes of every piece by server, in order of pushing; `ready`: ns, by worker and piece.
    """
    workers, servers = len(ready), len(size[0])
    free: dict[tuple[str, int, str], int] = {}
    heap: list[tuple[int, int, Callable[[], None]]] = []
    lines: dict[tuple[str, int, int], list[tuple[int, Callable[[], None]]]] = {}
    now, number = 0, 0
    summed: dict[tuple[int, int], int] = {}
    last = [0] * workers

    def later(time: int, what: Callable[[], None]) -> None:
        nonlocal number
        number += 1
        heapq.heappush(heap, (time, number, what))

    def hand_over(way: str, worker: int, server: int) -> None:
        hold, arrived = lines[way, worker, server][0]
        ends = [("worker", worker), ("ps", server)]
        start = end = now
        for kind, which in ends if way == "push" else ends[::-1]:
            key = (kind, which, "up" if (kind == "worker") == (way == "push") else "down")
            start = max(start, free.get(key, 0))
            free[key] = start + hold
            end = max(end, free[key])

        def passed() -> None:
            lines[way, worker, server].pop(0)
            if lines[way, worker, server]:
                hand_over(way, worker, server)

        later(end, passed)
        later(end, arrived)

    def send(way: str, worker: int, server: int, hold: int, arrived: Callable[[], None]) -> None:
        line = lines.setdefault((way, worker, server), [])
        line.append((hold, arrived))
        if len(line) == 1:
            hand_over(way, worker, server)

    def push(worker: int, piece: int) -> None:
        for server in range(servers):
            hold = round(size[piece][server] / rate * 1e9)

            def received(other: int) -> None:
                last[other] = now

            def there(server: int = server, hold: int = hold) -> None:
                summed[piece, server] = summed.get((piece, server), 0) + 1
                if summed[piece, server] == workers:
                    for other in range(workers):
                        send("pull", other, server, hold, lambda other=other: received(other))

            if size[piece][server]:
                send("push", worker, server, hold, there)

    for worker, moments in enumerate(ready):
        for piece, moment in enumerate(moments):
            later(moment, lambda worker=worker, piece=piece: push(worker, piece))
    while heap:
        now, _, what = heapq.heappop(heap)
        what()
    return last


@pytest.mark.parametrize("seed", range(30))
def test_a_second_time_without_any_of_its_classes(seed: int) -> None:
    chance = random.Random(seed)
    workers, servers, count = chance.randint(1, 5), chance.randint(1, 4), chance.randint(2, 7)
    sizes = [chance.randint(1_000, 9_000_000) for _ in range(count)]
    backward = [chance.randint(1, 30) / 1e3 for _ in range(count)]
    overlap, in_turn = chance.random() < 0.6, chance.random() < 0.7
    compute = 0.04 + sum(backward)
    factors = [1 + chance.random() for _ in range(workers)]
    trace = pushed(
        strategy={"overlap": overlap},
        network=FIRST_COME,
        cluster={
            "workers": workers,
            "parameter_servers": servers,
            "placement": "round_robin",
            "compute": {"kind": "phases", "forward": 0.04, "backward": sum(backward)},
            "slow_workers": tuple(slow(rank, factor) for rank, factor in enumerate(factors)),
            "partitioner": None if in_turn else {"kind": "fixed", "shards": servers + 1},
        },
        workload={"layers": layers(backward, [float(size) for size in sizes])},
        stop={"global_steps": 1},
    )
    parts, server = [], 0
    for layer, size in enumerate(sizes):
        number = 1 if in_turn else servers + 1
        for part in range(number):
            own = [0.0] * servers
            own[server % servers] = size // number + (part < size % number)
            parts.append((layer, own))
            server += 1
    parts.sort(key=lambda one: -one[0])
    ready = [
        [
            round(round((compute - (sum(backward[:layer]) if overlap else 0.0)) * 1e9) * factor)
            for layer, _ in parts
        ]
        for factor in factors
    ]
    expected = by_another([own for _, own in parts], ready, 1e9)
    assert trace.steps[0] == pytest.approx(max(expected), abs=3 * len(parts))
