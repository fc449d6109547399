"""The yardstick: the same clusters as a textbook SimPy program would have them.

A process per worker, a Resource per port, a Store per server. It keeps time only and records
nothing. Messages to several shards go out together, each as a process of its own.
"""

from collections.abc import Generator, Iterator
from typing import Any

import simpy

Process = Generator[simpy.Event, Any, None]


class Textbook:
    """Parameter servers with first-come ports; runs until a number of updates."""

    def __init__(
        self, draws: list[Iterator[int]], shards: int, hold: int, latency: int, updates: int
    ) -> None:
        self.env = simpy.Environment()
        self.draws = draws
        self.hold, self.latency = hold, latency
        self.out = [simpy.Resource(self.env) for _ in range(shards)]
        self.into = [simpy.Resource(self.env) for _ in range(shards)]
        self.inbox = simpy.Store(self.env)
        self.left = updates
        self.done = self.env.event()

    def message(self, port: simpy.Resource) -> Process:
        with port.request() as turn:
            yield turn
            yield self.env.timeout(self.hold)
        yield self.env.timeout(self.latency)

    def messages(self, ports: list[simpy.Resource]) -> Process:
        if len(ports) == 1:
            yield from self.message(ports[0])
        else:
            yield self.env.all_of([self.env.process(self.message(port)) for port in ports])

    def count(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.done.succeed()

    def run(self) -> int:
        self.env.run(until=self.done)
        return int(self.env.now)


class TextbookSync(Textbook):
    """Synchronous replicas with backup workers, by accumulator and token Store."""

    def __init__(self, required: int, **cluster: Any) -> None:
        super().__init__(**cluster)
        self.required = required
        self.step = 0
        self.tokens = simpy.Store(self.env)
        self.tokens.items.extend([0] * required)
        for draws in self.draws:
            self.env.process(self.worker(draws))
        self.env.process(self.server())

    def worker(self, draws: Iterator[int]) -> Process:
        step = 0
        while True:
            yield from self.messages(self.out)
            yield self.env.timeout(next(draws))
            yield from self.messages(self.into)
            yield self.inbox.put(step)
            step = yield self.tokens.get()

    def server(self) -> Process:
        while True:
            fresh = 0
            while fresh < self.required:
                step = yield self.inbox.get()
                fresh += step >= self.step
            self.step += 1
            self.count()
            for _ in self.draws:
                yield self.tokens.put(self.step)


class TextbookAsync(Textbook):
    """Asynchronous server: every gradient is an update."""

    def __init__(self, **cluster: Any) -> None:
        super().__init__(**cluster)
        for draws in self.draws:
            self.env.process(self.worker(draws))
        self.env.process(self.server())

    def worker(self, draws: Iterator[int]) -> Process:
        while True:
            yield from self.messages(self.out)
            yield self.env.timeout(next(draws))
            yield from self.messages(self.into)
            yield self.inbox.put(1)

    def server(self) -> Process:
        while True:
            yield self.inbox.get()
            self.count()


class TextbookAllReduce(Textbook):
    """A barrier of two Stores, and the formula's time for the ring."""

    def __init__(self, ring: int, **cluster: Any) -> None:
        super().__init__(**cluster)
        self.ring = ring
        self.tokens = simpy.Store(self.env)
        for draws in self.draws:
            self.env.process(self.worker(draws))
        self.env.process(self.coordinator())

    def worker(self, draws: Iterator[int]) -> Process:
        while True:
            yield self.env.timeout(next(draws))
            yield self.inbox.put(1)
            yield self.tokens.get()

    def coordinator(self) -> Process:
        while True:
            for _ in self.draws:
                yield self.inbox.get()
            yield self.env.timeout(self.ring)
            self.count()
            for _ in self.draws:
                yield self.tokens.put(1)
