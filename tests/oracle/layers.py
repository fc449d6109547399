"""Steps whose layers wait for collectives of their own, once more: no events, but loops by hand.

Written from the rules: `n` layers take turns on one ring per worker, first in, first out; a ring's
reduce-scatter and all-gather have p - 1 rounds, in each of which a rank sends once it has entered,
its last message has left it, what it was sent has arrived and the next rank is free to receive.
With groups of `group` workers there is a ring in each, and one across them for each place in a
group, on links of its own, on which the sums of the groups are added up as they are there.
"""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

Drawn = dict[str, Any]
NS = 1_000_000  # a ms
STEPS = 4


class Layer(NamedTuple):
    """A layer's bytes, and its forward and backward pass (ns)."""

    size: int
    forward: int
    backward: int


def drawn(seed: int) -> Drawn:
    source = random.Random(seed)
    sharding = source.choice([None, "optimizer", "gradients", "parameters", "parameters"])
    overlap = source.choice([False, True] if sharding else ["forward"])
    if sharding in ("optimizer", "gradients") and source.random() < 0.4:
        overlap = "forward"
    workers = source.choice([1, 2, 2, 3, 4, 5])
    groups = [1, 2, 3, 4] if sharding and source.random() < 0.4 else []
    group = source.choice([2, 3]) if groups else None
    if group:
        workers = group * source.choice(groups)
    number = source.randint(2, 5)
    work = [source.randint(1, 9) for _ in range(number)]
    return {
        "sharding": sharding,
        "overlap": overlap,
        "workers": workers,
        "group": group,
        "micro_batches": source.choice([1, 1, 2, 3]),
        "work": work,  # ms; the forward pass takes half of the backward pass
        "sizes": [source.randint(1, 40) * 60 * 1000 for _ in range(number)],  # of all p blocks
        "latency_ms": source.choice([0, 0, 1, 3]),
        "slow": [source.choice([1, 1, 1, 2, 3]) for _ in range(12)],
        "optimizer_ms": source.choice([0, 0, 12]),
        "bandwidth": source.choice([1, 2, 4]) * 1e8,
        "inside": source.choice([1, 2, 8]) * 1e8,
        "sharing": source.choice(["first_come", "fair"]),
    }


class Ring:
    """Collectives of all workers, one after the other; when each worker is done with each."""

    def __init__(self, workers: int, latency: int, bandwidth: float) -> None:
        self.workers, self.latency, self.bandwidth = workers, latency, bandwidth
        self.ends: list[list[int]] = []
        self.busy = [0] * workers  # until when each receives what it was sent before

    def move(self, size: float, issued: Sequence[int], rounds: int = 1) -> None:
        """The next one, of so many bytes, handed over at these moments."""
        ranks = range(self.workers)
        before = self.ends[-1] if self.ends else [0] * self.workers
        free = [max(issued[rank], before[rank]) for rank in ranks]
        here = list(free)
        hold = round(size / self.workers / self.bandwidth * 1e9)
        for _ in range(rounds * (self.workers - 1)):
            begun = [
                max(free[rank], here[rank], self.busy[(rank + 1) % self.workers]) for rank in ranks
            ]
            for rank in ranks:
                target = (rank + 1) % self.workers
                free[rank] = self.busy[target] = begun[rank] + hold
                here[target] = max(here[target], free[rank] + self.latency)
        self.ends.append([max(free[rank], here[rank]) for rank in ranks])


class Rings:
    """Rings of ranks side by side, each with links of its own."""

    def __init__(self, groups: Sequence[Sequence[int]], latency: int, bandwidth: float) -> None:
        self.rings = [(ranks, Ring(len(ranks), latency, bandwidth)) for ranks in groups]
        self.ends: list[list[int]] = []

    def move(self, size: float, issued: Sequence[int], rounds: int = 1) -> list[int]:
        """The next one in each of them; `rounds`: times around."""
        ends = dict[int, int]()
        for ranks, ring in self.rings:
            ring.move(size, [issued[rank] for rank in ranks], rounds)
            ends.update(zip(ranks, ring.ends[-1], strict=True))
        self.ends.append([ends[rank] for rank in sorted(ends)])
        return self.ends[-1]


class Cluster:
    """The workers' own times, and what they have handed over."""

    def __init__(self, case: Drawn) -> None:
        self.case = case
        self.ranks = range(case["workers"])
        self.now = [0 for _ in self.ranks]
        self.group = group = case["group"] or case["workers"]
        latency, bandwidth = case["latency_ms"] * NS, case["bandwidth"]
        together = [range(first, first + group) for first in self.ranks[::group]]
        rate = case["inside"] if case["group"] else bandwidth
        self.ring = Rings(together, latency, rate)
        self.between = Rings(
            [self.ranks[place::group] for place in range(group)], latency, bandwidth
        )
        self.summed: list[int] = []
        self.layers = [
            Layer(size, work * NS, 2 * work * NS)
            for size, work in zip(case["sizes"], case["work"], strict=True)
        ]
        self.updates: list[int] = []

    def hand_over(self, layer: Layer) -> int:
        self.ring.move(layer.size, self.now)
        return len(self.ring.ends) - 1

    def scatter(self, layer: Layer) -> None:
        """And add up what groups have, twice around the rings between them."""
        self.ring.move(layer.size, self.now)
        self.summed = self.between.move(layer.size / self.group, self.ring.ends[-1], 2)

    def wait_for_sums(self) -> None:
        self.now = [max(now, end) for now, end in zip(self.now, self.summed, strict=True)]

    def wait(self, number: int) -> None:
        self.now = [
            max(now, end) for now, end in zip(self.now, self.ring.ends[number], strict=True)
        ]

    def compute(self, duration: int) -> None:
        self.now = [now + duration * self.case["slow"][rank] for rank, now in enumerate(self.now)]

    def update(self, layers: Sequence[Layer], shards: int) -> None:
        """In proportion to bytes, and of a shard of them only a worker's part."""
        whole, part = sum(layer.size for layer in self.layers), sum(one.size for one in layers)
        for rank, now in enumerate(self.now):
            time = self.case["optimizer_ms"] * NS * self.case["slow"][rank]
            self.now[rank] = now + round(time * (part / whole) if shards == 1 else time / shards)

    def run(self) -> list[int]:
        """When the model has been updated 1, 2, ... times (ns)."""
        step = self.parameters if self.case["sharding"] == "parameters" else self.reduced
        for _ in range(STEPS + 1):
            step()
        return self.updates[:STEPS]

    def parameters(self) -> None:
        ahead, back = self.case["overlap"], self.layers[::-1]
        for _ in range(self.case["micro_batches"]):
            for order in (self.layers, back):
                gathered = self.hand_over(order[0])
                for index, layer in enumerate(order):
                    self.wait(gathered)
                    if ahead and index + 1 < len(order):
                        gathered = self.hand_over(order[index + 1])
                    self.compute(layer.forward if order is self.layers else layer.backward)
                    if order is back:
                        self.scatter(layer)
                        if not ahead:
                            self.wait_for_sums()
                    if not ahead and index + 1 < len(order):
                        gathered = self.hand_over(order[index + 1])
            self.wait_for_sums()
        self.update(self.layers, self.group)
        self.updates.append(max(self.now))

    gathers: Sequence[int] = ()  # of the step before, that the forward pass waits for

    def reduced(self) -> None:
        sharding, overlap = self.case["sharding"], self.case["overlap"]
        pays = self.case["optimizer_ms"] and sharding is None
        for left in range(self.case["micro_batches"] - 1, -1, -1):
            for index, layer in enumerate(self.layers):
                if self.gathers:
                    self.wait(self.gathers[index])
                    if pays:
                        self.update([layer], 1)
                if self.gathers and pays and layer is self.layers[-1]:
                    self.updates.append(max(self.now))
                self.compute(layer.forward)
            self.gathers = ()
            sends = left == 0 or sharding == "gradients"
            for layer in reversed(self.layers):
                self.compute(layer.backward)
                if overlap and sends:
                    self.scatter(layer)
            for layer in () if overlap or not sends else reversed(self.layers):
                self.scatter(layer)
            if sends and left:
                self.wait_for_sums()
        if sharding is not None:
            self.wait_for_sums()
            self.update(self.layers, self.group)
        gathers = [self.hand_over(layer) for layer in self.layers]
        if overlap == "forward":
            self.gathers = gathers
        else:
            self.wait(gathers[-1])
        if not (overlap == "forward" and pays):
            self.updates.append(max(self.ring.ends[gathers[-1]]))
