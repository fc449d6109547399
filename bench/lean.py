"""A leaner yardstick, and one for every strategy: textbook programs that waste less.

As `textbook`, but nobody waits for a latency of zero, and compute times are drawn before. They are
about what each strategy has its workers wait for; messages to servers go through first-come ports.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import simpy

from bench.textbook import (
    Process,
    Textbook,
    TextbookAllReduce,
    TextbookAsync,
    TextbookSync,
)


class Lean(Textbook):
    """Ports without a wait for a latency of zero."""

    def message(self, port: simpy.Resource) -> Process:
        with port.request() as turn:
            yield turn
            yield self.env.timeout(self.hold)
        if self.latency:
            yield self.env.timeout(self.latency)


class LeanSync(Lean, TextbookSync):
    """See TextbookSync."""


class LeanAsync(Lean, TextbookAsync):
    """See TextbookAsync."""


class LeanAllReduce(Lean, TextbookAllReduce):
    """See TextbookAllReduce."""


class LeanKBatchAsync(Lean, TextbookAsync):
    """Asynchronous server: every K gradients are an update."""

    def __init__(self, k: int, **cluster: Any) -> None:
        self.k = k
        super().__init__(**cluster)

    def server(self) -> Process:
        while True:
            for _ in range(self.k):
                yield self.inbox.get()
            self.count()


class LeanKAsync(Lean):
    """Asynchronous server: every K gradients are an update, which their workers wait for."""

    def __init__(self, k: int, **cluster: Any) -> None:
        super().__init__(**cluster)
        self.k, self.come, self.update = k, 0, self.env.event()
        for draws in self.draws:
            self.env.process(self.worker(draws))

    def worker(self, draws: Iterator[int]) -> Process:
        while True:
            yield from self.messages(self.out)
            yield self.env.timeout(next(draws))
            yield from self.messages(self.into)
            self.come += 1
            if self.come < self.k:
                yield self.update
            else:
                self.count()
                update, self.come, self.update = self.update, 0, self.env.event()
                update.succeed()


class LeanSsp(Lean):
    """Asynchronous server; a worker waits while it is `bound` ahead of the slowest."""

    def __init__(self, bound: int, **cluster: Any) -> None:
        super().__init__(**cluster)
        self.bound, self.clocks = bound, [0] * len(self.draws)
        self.moved = self.env.event()
        for rank, draws in enumerate(self.draws):
            self.env.process(self.worker(rank, draws))

    def worker(self, rank: int, draws: Iterator[int]) -> Process:
        clocks = self.clocks
        while True:
            yield from self.messages(self.out)
            yield self.env.timeout(next(draws))
            yield from self.messages(self.into)
            self.count()
            slowest = min(clocks)
            clocks[rank] += 1
            if min(clocks) > slowest:
                self.moved.succeed()
                self.moved = self.env.event()
            while clocks[rank] > min(clocks) + self.bound:
                yield self.moved


class LeanCutoff(Lean):
    """First K gradients make an update and end the step; all others give up what they are at.

    `again`: who has come begins with another gradient of this step.
    """

    def __init__(self, k: int, again: bool = False, **cluster: Any) -> None:
        super().__init__(**cluster)
        self.k, self.again = k, again
        self.come: list[int] = []
        self.over = self.env.event()
        self.processes = [
            self.env.process(self.worker(rank, draws)) for rank, draws in enumerate(self.draws)
        ]

    def worker(self, rank: int, draws: Iterator[int]) -> Process:
        while True:
            try:
                yield from self.messages(self.out)
                while True:
                    yield self.env.timeout(next(draws))
                    yield from self.messages(self.into)
                    self.come.append(rank)
                    if len(self.come) == self.k:
                        self.end_step(rank)
                        break
                    if not self.again:
                        yield self.over
                        break
            except simpy.Interrupt:
                pass

    def end_step(self, rank: int) -> None:
        come, self.come = self.come, []
        self.count()
        over, self.over = self.over, self.env.event()
        over.succeed()
        for other, process in enumerate(self.processes):
            if other != rank and (self.again or other not in come):
                process.interrupt()


class LeanPeriodic(Lean, TextbookAllReduce):
    """Local steps, with a barrier and an all-reduce after every so many."""

    def __init__(self, period: int, **cluster: Any) -> None:
        self.period = period
        super().__init__(**cluster)

    def worker(self, draws: Iterator[int]) -> Process:
        while True:
            for _ in range(self.period):
                yield self.env.timeout(next(draws))
            yield self.inbox.put(1)
            yield self.tokens.get()

    def coordinator(self) -> Process:
        while True:
            for _ in self.draws:
                yield self.inbox.get()
            for _ in range(self.period):
                self.count()
            yield self.env.timeout(self.ring)
            for _ in self.draws:
                yield self.tokens.put(1)


class LeanElastic(Lean):
    """Local steps; after every so many an exchange with the centre on the servers."""

    def __init__(self, period: int, **cluster: Any) -> None:
        super().__init__(**cluster)
        self.period = period
        for draws in self.draws:
            self.env.process(self.worker(draws))

    def worker(self, draws: Iterator[int]) -> Process:
        for step in count():
            yield self.env.timeout(next(draws))
            if step % self.period == 0:
                yield from self.messages(self.out)
                yield from self.messages(self.into)
            self.count()


class LeanGossip(Lean):
    """A step, meanwhile a copy to each neighbour on a ring; then wait for theirs."""

    def __init__(self, **cluster: Any) -> None:
        super().__init__(**cluster)
        self.boxes = [simpy.Store(self.env) for _ in self.draws]
        self.ports = [simpy.Resource(self.env) for _ in self.draws]
        self.steps = Counter[int]()
        for rank, draws in enumerate(self.draws):
            self.env.process(self.worker(rank, draws))

    def worker(self, rank: int, draws: Iterator[int]) -> Process:
        for step in count():
            self.env.process(self.send(rank))
            yield self.env.timeout(next(draws))
            for _ in range(2):
                yield self.boxes[rank].get()
            self.steps[step] += 1
            if self.steps[step] == len(self.draws):
                self.count()

    def send(self, rank: int) -> Process:
        for neighbour in (rank - 1, (rank + 1) % len(self.boxes)):
            yield from self.message(self.ports[rank])
            yield self.boxes[neighbour].put(1)


class LeanSingle(Lean):
    """One worker that waits for nobody."""

    def __init__(self, **cluster: Any) -> None:
        super().__init__(**cluster)
        self.env.process(self.worker(self.draws[0]))

    def worker(self, draws: Iterator[int]) -> Process:
        while True:
            yield self.env.timeout(next(draws))
            self.count()
