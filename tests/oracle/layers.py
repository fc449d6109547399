"""Steps whose layers wait for collectives of their own, once more: no events, but loops by hand.

Written from the rules: `n` layers take turns on one ring per worker, first in, first out; a ring's
reduce-scatter and all-gather have p - 1 rounds, in each of which a rank sends once it has entered,
its last message has left it, what it was sent has arrived and the next rank is free to receive.
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
    number = source.randint(2, 5)
    work = [source.randint(1, 9) for _ in range(number)]
    return {
        "sharding": sharding,
        "overlap": overlap,
        "workers": source.choice([1, 2, 2, 3, 4, 5]),
        "work": work,  # ms; the forward pass takes half of the backward pass
        "sizes": [source.randint(1, 40) * 60 * 1000 for _ in range(number)],  # of all p blocks
        "latency_ms": source.choice([0, 0, 1, 3]),
        "slow": [source.choice([1, 1, 1, 2, 3]) for _ in range(5)],
        "optimizer_ms": source.choice([0, 0, 12]),
        "bandwidth": source.choice([1, 2, 4]) * 1e8,
        "sharing": source.choice(["first_come", "fair"]),
    }


class Ring:
    """Collectives of all workers, one after the other; when each worker is done with each."""

    def __init__(self, workers: int, latency: int, bandwidth: float) -> None:
        self.workers, self.latency, self.bandwidth = workers, latency, bandwidth
        self.ends: list[list[int]] = []
        self.busy = [0] * workers  # until when each receives what it was sent before

    def move(self, size: int, issued: Sequence[int]) -> None:
        """The next one, of so many bytes, handed over at these moments."""
        ranks = range(self.workers)
        before = self.ends[-1] if self.ends else [0] * self.workers
        free = [max(issued[rank], before[rank]) for rank in ranks]
        here = list(free)
        hold = round(size / self.workers / self.bandwidth * 1e9)
        for _ in range(self.workers - 1):
            begun = [
                max(free[rank], here[rank], self.busy[(rank + 1) % self.workers]) for rank in ranks
            ]
            for rank in ranks:
                target = (rank + 1) % self.workers
                free[rank] = self.busy[target] = begun[rank] + hold
                here[target] = max(here[target], free[rank] + self.latency)
        self.ends.append([max(free[rank], here[rank]) for rank in ranks])


class Cluster:
    """The workers' own times, and what they have handed over."""

    def __init__(self, case: Drawn) -> None:
        self.case = case
        self.ranks = range(case["workers"])
        self.now = [0 for _ in self.ranks]
        self.ring = Ring(len(self.ranks), case["latency_ms"] * NS, case["bandwidth"])
        self.layers = [
            Layer(size, work * NS, 2 * work * NS)
            for size, work in zip(case["sizes"], case["work"], strict=True)
        ]
        self.updates: list[int] = []

    def hand_over(self, layer: Layer) -> int:
        self.ring.move(layer.size, self.now)
        return len(self.ring.ends) - 1

    def wait(self, number: int) -> None:
        self.now = [
            max(now, end) for now, end in zip(self.now, self.ring.ends[number], strict=True)
        ]

    def compute(self, duration: int) -> None:
        self.now = [now + duration * self.case["slow"][rank] for rank, now in enumerate(self.now)]

    def update(self, layers: Sequence[Layer], workers: int) -> None:
        """In proportion to bytes, and of a shard of them only a worker's part."""
        whole, part = sum(layer.size for layer in self.layers), sum(one.size for one in layers)
        for rank, now in enumerate(self.now):
            time = self.case["optimizer_ms"] * NS * self.case["slow"][rank]
            self.now[rank] = now + round(time * (part / whole) if workers == 1 else time / workers)

    def run(self) -> list[int]:
        """When the model has been updated 1, 2, ... times (ns)."""
        step = self.parameters if self.case["sharding"] == "parameters" else self.reduced
        for _ in range(STEPS + 1):
            step()
        return self.updates[:STEPS]

    def parameters(self) -> None:
        ahead, back = self.case["overlap"], self.layers[::-1]
        scattered = 0
        for order in (self.layers, back):
            gathered = self.hand_over(order[0])
            for index, layer in enumerate(order):
                self.wait(gathered)
                if ahead and index + 1 < len(order):
                    gathered = self.hand_over(order[index + 1])
                self.compute(layer.forward if order is self.layers else layer.backward)
                if order is back:
                    scattered = self.hand_over(layer)
                    if not ahead:
                        self.wait(scattered)
                if not ahead and index + 1 < len(order):
                    gathered = self.hand_over(order[index + 1])
        self.wait(scattered)
        self.update(self.layers, len(self.ranks))
        self.updates.append(max(self.now))

    gathers: Sequence[int] = ()  # of the step before, that the forward pass waits for

    def reduced(self) -> None:
        sharding, overlap = self.case["sharding"], self.case["overlap"]
        pays = self.case["optimizer_ms"] and sharding is None
        for index, layer in enumerate(self.layers):
            if self.gathers:
                self.wait(self.gathers[index])
                if pays:
                    self.update([layer], 1)
            if self.gathers and pays and layer is self.layers[-1]:
                self.updates.append(max(self.now))
            self.compute(layer.forward)
        scattered = 0
        for layer in reversed(self.layers):
            self.compute(layer.backward)
            if overlap:
                scattered = self.hand_over(layer)
        for layer in () if overlap else reversed(self.layers):
            scattered = self.hand_over(layer)
        if sharding is not None:
            self.wait(scattered)
            self.update(self.layers, len(self.ranks))
        gathers = [self.hand_over(layer) for layer in self.layers]
        if overlap == "forward":
            self.gathers = gathers
        else:
            self.wait(gathers[-1])
        if not (overlap == "forward" and pays):
            self.updates.append(max(self.ring.ends[gathers[-1]]))
