"""Messages between workers and servers over links that are shared max-min fairly, exactly.

Flows are a fluid. Whenever one starts or ends, all rates are set anew by progressive filling: all
rise together until a link is full; its flows keep that rate, and the others rise on. Numbers have
50 digits, so that only the last step, to the nearest ns, rounds. What a host sends to another in
one go is one flow, and no shard knows of the others. Reads and pushes never share a link.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Final

from tests.oracle.agenda import NEVER, Agenda, DoubtfulError
from tests.oracle.links import Wires
from tests.oracle.setting import Setting

DIGITS: Final = Context(prec=50, rounding=ROUND_HALF_EVEN)
HALF: Final = Decimal("0.5")
# Nearer than this to half a ns, a simulation in floats may round to the other side (ns).
NEAR_HALF: Final = Decimal("0.00002")
SAME: Final = Decimal("1e-12")  # ns; between times that are equal but for the fiftieth digit

Link = tuple[str, int]


@dataclass(eq=False)
class Flow:
    """What one host sends to another in one go: `marks` are bytes at which something is there."""

    number: int
    route: tuple[Link, Link]
    marks: list[Decimal]
    reached: Callable[[int], None]
    passed: Decimal = Decimal(0)
    rate: Decimal = Decimal(0)  # bytes/ns
    told: int = 0  # marks

    def left(self) -> Decimal:
        """How long until the next mark, at this rate (ns)."""
        return (self.marks[self.told] - self.passed) / self.rate


class Way:
    """All flows in one direction; times in ns."""

    def __init__(self, rates: dict[Link, Decimal]) -> None:
        self.rates = rates  # bytes/ns, of every link
        self.flows: list[Flow] = []
        self.time = Decimal(0)  # of the latest change
        self._filled = True
        self._due: Decimal | None = Decimal(NEVER)  # the next mark, if it is known

    def start(self, flow: Flow, now: int) -> None:
        """A flow starts. A change of the others that is still to come in this ns is a doubt."""
        if self.flows:
            if self.time > now:
                raise DoubtfulError
            self._advance(Decimal(now))
        else:
            self.time = Decimal(now)
        self.flows.append(flow)
        self._filled, self._due = False, None

    def due(self) -> int:
        """The nearest ns at which the next mark is reached."""
        if self._due is None:
            self._fill()
            left = min((flow.left() for flow in self.flows), default=Decimal(NEVER))
            self._due = self.time + left
        nearest = self._due.to_integral_value()
        if abs(abs(self._due - nearest) - HALF) < NEAR_HALF:
            raise DoubtfulError
        return int(nearest)

    def pass_marks(self, now: int) -> tuple[list[tuple[int, int, Flow]], list[Decimal]]:
        """(number, mark, flow) of all that is reached in this ns, and the exact times of ends."""
        told, ends = [], []
        while self.due() <= now:
            assert self._due is not None
            self._advance(self._due)
            for flow in [flow for flow in self.flows if flow.left() < SAME]:
                told.append((flow.number, flow.told, flow))
                flow.told += 1
                if flow.told == len(flow.marks):
                    self.flows.remove(flow)
                    ends.append(self.time)
                    self._filled = False
            self._due = None
        return told, ends

    def _advance(self, time: Decimal) -> None:
        if time > self.time:
            self._fill()
            for flow in self.flows:
                flow.passed += flow.rate * (time - self.time)
            self.time = time

    def _fill(self) -> None:
        """Set all rates, if flows have come or gone."""
        if self._filled:
            return
        self._filled = True
        left = {link: self.rates[link] for flow in self.flows for link in flow.route}
        waiting = self.flows
        while waiting:
            users = dict.fromkeys(left, 0)
            for flow in waiting:
                for link in flow.route:
                    users[link] += 1
            share, full = min((left[link] / count, link) for link, count in users.items() if count)
            rest = []
            for flow in waiting:
                if full in flow.route:
                    flow.rate = share
                    for link in flow.route:
                        left[link] -= share
                else:
                    rest.append(flow)
            waiting = rest


class Fair(Wires):
    """Links that are shared by the hosts that use them at the same time."""

    def __init__(self, setting: Setting, agenda: Agenda) -> None:
        super().__init__(setting, agenda)
        self.flows = self
        rates: dict[Link, Decimal] = {}
        for server in self.loads:
            rates["server", server] = _decimal(self.server_rate / 10**9)
        for worker, rate in enumerate(self.worker_rates):
            rates["worker", worker] = _decimal(rate / 10**9)
        self._reads, self._pushes = Way(rates), Way(rates)
        self._started = 0
        # Ports between which everything is cut evenly are as good as one.
        self._many = len(self.loads) > 1 and setting.placement != "partitioned"

    def read(self, rank: int, told: Callable[[int], None], there: Callable[[], None]) -> None:
        """From every server a flow; the last to end counts."""
        missing = len(self.loads)

        def here() -> None:
            self.agenda.at(self.agenda.now, end)

        def end() -> None:
            told(self.agenda.now)
            there()

        def reached(_: int) -> None:
            nonlocal missing
            missing -= 1
            if missing == 0:
                self._a_latency_later(here)

        for server, load in self.loads.items():
            self._start(self._reads, server, rank, [load], reached)

    def push(
        self,
        rank: int,
        told: Callable[[int], None],
        arrived: Callable[[int], None],
        handed_over: Callable[[], None],
    ) -> None:
        """To every server a flow, the variables in order; one is there with its last part."""
        missing = [len(parts) for parts in self.parts]
        to_come = len(self.parts)

        def here(variable: int) -> None:
            nonlocal to_come
            arrived(variable)
            to_come -= 1
            if to_come == 0:
                self.agenda.at(self.agenda.now, end)

        def end() -> None:
            told(self.agenda.now)
            handed_over()

        def reached(variables: list[int], mark: int) -> None:
            variable = variables[mark]
            missing[variable] -= 1
            if missing[variable] == 0:
                self._a_latency_later(partial(here, variable))

        loads: dict[int, list[tuple[int, Fraction]]] = {}  # in the order in which flows start
        for variable, parts in enumerate(self.parts):
            for server, size in parts:
                loads.setdefault(server, []).append((variable, size))
        for server, load in loads.items():
            marks = list(accumulate(size for _, size in load))
            variables = [variable for variable, _ in load]
            self._start(self._pushes, server, rank, marks, partial(reached, variables))

    def due(self) -> int:
        """See Flows."""
        with localcontext(DIGITS):
            return min(self._reads.due(), self._pushes.due())

    def tell(self) -> None:
        """See Flows; in the order in which the flows were started."""
        with localcontext(DIGITS):
            read, ends = self._reads.pass_marks(self.agenda.now)
            pushed, others = self._pushes.pass_marks(self.agenda.now)
        ends += others
        # varsim makes such changes of a mesh of links together, at the last of their times.
        if self._many and ends and max(ends) - min(ends) > SAME:
            raise DoubtfulError
        for _, mark, flow in sorted(read + pushed, key=lambda told: told[:2]):
            flow.reached(mark)

    def _start(
        self,
        way: Way,
        server: int,
        worker: int,
        marks: list[Fraction],
        reached: Callable[[int], None],
    ) -> None:
        now = self.agenda.now
        # Links of a mesh have one clock in varsim, whichever way.
        if self._many and max(self._reads.time, self._pushes.time) > now:
            raise DoubtfulError
        self._started += 1
        with localcontext(DIGITS):
            sizes = [_decimal(mark) for mark in marks]
            route = ("server", server), ("worker", worker)
            way.start(Flow(self._started, route, sizes, reached), now)

    def _a_latency_later(self, action: Callable[[], None]) -> None:
        self.agenda.at(self.agenda.now + self.latency, action)


def _decimal(number: Fraction) -> Decimal:
    with localcontext(DIGITS):
        return Decimal(number.numerator) / Decimal(number.denominator)
