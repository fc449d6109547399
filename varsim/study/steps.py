"""What happened in a run of variables, as rows: one for all who did the same at the same moment.

How many steps of it are told, too.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from varsim.cluster.programs import ProgramTrace, Sent
from varsim.distribute.program import Action, VariableDescription, Writing
from varsim.distribute.program_run import (
    CROSS_REPLICA,
    MOST_COPIES,
    ActionRecord,
    Mode,
    ValueSummary,
)
from varsim.scenario.variables import VariablesScenario
from varsim.study.shown import Shown

# What a row is: a variable that comes to be, something done, a wait for the slowest replica, or
# what is left of many equal things: further repetitions, further replicas.
Doing: TypeAlias = Literal["start", "act", "wait", "again", "others"]
# So often an action is shown time by time, so many moments at which replicas do the same; of more
# than that the rest becomes one row.
MOST_REPETITIONS: Final = 3
MOST_MOMENTS: Final = 5
Copies: TypeAlias = tuple[ValueSummary, ...]
# Rounds of transfers, each with what was sent side by side.
Rounds: TypeAlias = tuple[tuple[Sent, ...], ...]


@dataclass(frozen=True, slots=True)
class StepRow:
    """One line of the story; times in ns.

    `actors`: ranks of replicas, or CROSS_REPLICA. `acts`: one per actor and repetition, in the
    order in which they ended. `together`: they met, to write what comes of all. `copies`: those of
    the variable when the row ends, `old`: before what ends then. `waits_for`: ranks of those who
    came last.
    """

    doing: Doing
    step: int  # 0: before the first
    begin: int
    end: int
    actors: tuple[int, ...]
    variable: str  # empty for compute
    action: Action | None = None
    acts: tuple[ActionRecord, ...] = ()
    old: Copies = ()
    copies: Copies = ()
    sent: Rounds = ()
    together: bool = False
    waits_for: tuple[int, ...] = ()

    @property
    def outside(self) -> bool:
        """Whether no replica acted."""
        return self.actors == (CROSS_REPLICA,)


def rows_of(scenario: VariablesScenario, trace: ProgramTrace) -> list[StepRow]:
    """The whole run, in the order in which things ended; the creation of the variables first."""
    return _Story(scenario, trace).rows()


def merges(description: VariableDescription, mode: Mode) -> bool:
    """Whether a write in a replica waits for all others, to write their aggregate."""
    synchronization = description.synchronization or mode
    return synchronization == "on_write" and description.aggregation != "none"


class _Story:
    """The rows of one run in the making."""

    def __init__(self, scenario: VariablesScenario, trace: ProgramTrace) -> None:
        self._scenario, self._trace = scenario, trace
        self._there = {one.name: one for one in scenario.variables}
        self._actions = dict(scenario.program.actions())
        self._sent: dict[int, list[Sent]] = defaultdict(list)
        for row in trace.sent_rows:
            self._sent[row.movement].append(row)

    def rows(self) -> list[StepRow]:
        """All of them."""
        created = list(self._creation())
        place = {id(act): place for place, act in enumerate(self._trace.acts)}

        def order(row: StepRow) -> tuple[int, int, bool]:
            """In time; at one moment as the acts came, a wait before what was waited for."""
            return (row.end, max(place[id(act)] for act in row.acts), row.doing != "wait")

        rows = sorted((row for acts in self._events() for row in self._told(acts)), key=order)
        history = _History(self._trace.acts, {row.variable: row.copies for row in created})
        return [*created, *map(history.seen_by, rows)]

    def _creation(self) -> Iterator[StepRow]:
        """A row per variable; if they have copies, one movement each, in their order."""
        moved = [number for number, sent in sorted(self._sent.items()) if sent[0].what == _CREATION]
        begin = 0
        for index, description in enumerate(self._scenario.variables):
            sent = self._rounds(moved[index : index + 1])
            end = max((row.end for some in sent for row in some), default=begin)
            copies = self._initial(description)
            name = description.name
            yield StepRow("start", 0, begin, end, (CROSS_REPLICA,), name, copies=copies, sent=sent)
            begin = end

    def _initial(self, description: VariableDescription) -> Copies:
        """The copies of a new variable."""
        number = 1 if self._trace.mode == "none" else self._scenario.cluster.workers
        value = np.asarray(description.initial, description.dtype).item()
        return (ValueSummary.filled(description.shape, value),) * min(number, MOST_COPIES)

    def _events(self) -> list[list[ActionRecord]]:
        """The acts, those together that are the same thing done by all replicas.

        Where it is repeated often, all repetitions but the first are one event.
        """
        events: dict[tuple[int, str, int, str, int], list[ActionRecord]] = defaultdict(list)
        for act in self._trace.acts:
            number = min(act.repetition, 1) if self._often(act) else act.repetition
            events[act.step, act.part, act.number, act.variable, number].append(act)
        return list(events.values())

    def _often(self, act: ActionRecord) -> bool:
        return self._action(act).times > MOST_REPETITIONS

    def _action(self, act: ActionRecord) -> Action:
        return self._actions[f"{act.part}.{act.number}"]

    def _told(self, acts: list[ActionRecord]) -> Iterator[StepRow]:
        """The rows of one event."""
        first = acts[0]
        together = (
            first.part == "replicas"
            and isinstance(self._action(first), Writing)
            and merges(self._there[first.variable], self._trace.mode)
        )
        if self._often(first) and first.repetition:
            yield self._row("again", acts, together)
        elif together:
            met = max(act.begin for act in acts)
            last = tuple(sorted(act.replica for act in acts if act.begin == met))
            early = [act for act in acts if act.begin < met]
            moments = _by_moment(early)
            for some in [early] if len(moments) > MOST_MOMENTS else moments:
                yield replace(self._row("wait", some), end=met, sent=(), waits_for=last)
            yield replace(self._row("act", acts, together), begin=met)
        else:
            moments = _by_moment(acts)
            left = moments[MOST_MOMENTS - 2 : -1] if len(moments) > MOST_MOMENTS else []
            for some in moments:
                if some not in left:
                    yield self._row("act", some)
            if left:
                yield self._row("others", [act for some in left for act in some])

    def _row(self, doing: Doing, acts: Sequence[ActionRecord], together: bool = False) -> StepRow:
        first = acts[0]
        return StepRow(
            doing,
            first.step,
            min(act.begin for act in acts),
            max(act.end for act in acts),
            tuple(sorted({act.replica for act in acts})),
            first.variable,
            self._action(first),
            tuple(acts),
            sent=self._sent_for(acts, together),
            together=together,
        )

    def _sent_for(self, acts: Sequence[ActionRecord], together: bool) -> Rounds:
        """Round by round; where each acted alone, what each sent first is one round, and so on."""
        if together:
            return self._rounds(sorted({number for act in acts for number in act.moved}))
        apart = [self._rounds(act.moved) for act in acts]
        most = max(map(len, apart))
        return tuple(
            tuple(row for rounds in apart for some in rounds[place : place + 1] for row in some)
            for place in range(most)
        )

    def _rounds(self, movements: Sequence[int]) -> Rounds:
        """The rounds of movements that followed one another."""
        return tuple(
            tuple(some)
            for number in movements
            for _, some in groupby(self._sent.get(number, ()), lambda row: row.round)
        )


# What the cluster calls the movement by which copies get their first value.
_CREATION: Final = "initial value"


def _by_moment(acts: Sequence[ActionRecord]) -> list[list[ActionRecord]]:
    """Those that began and ended together, the first to end first."""

    def when(act: ActionRecord) -> tuple[int, int]:
        return (act.end, act.begin)

    return [list(some) for _, some in groupby(sorted(acts, key=when), when)]


class _History:
    """The copies of all variables, as time goes on.

    What several do at one moment has no order in time. It is told row by row: a replica that acts
    alone changes its own copy, and what other rows do at that moment is not seen yet.
    """

    def __init__(self, acts: Sequence[ActionRecord], copies: Mapping[str, Copies]) -> None:
        self._acts = sorted(enumerate(acts), key=lambda pair: (pair[1].end, pair[0]))
        self._place = {id(act): place for place, act in self._acts}
        self._next = 0
        self._copies = {name: list(held) for name, held in copies.items()}
        # The place of the last act that changed a copy.
        self._last = {name: [-1] * len(held) for name, held in copies.items()}

    def seen_by(self, row: StepRow) -> StepRow:
        """The row with the copies; rows come in the order of their ends."""
        while self._next < len(self._acts) and self._acts[self._next][1].end < row.end:
            place, act = self._acts[self._next]
            self._happens(place, act)
            self._next += 1
        if not row.variable or row.doing == "wait":
            return row
        old = tuple(self._copies[row.variable])
        for act in row.acts:
            self._happens(self._place[id(act)], act)
        return replace(row, old=old, copies=tuple(self._copies[row.variable]))

    def _happens(self, place: int, act: ActionRecord) -> None:
        """One act changes one copy, or all."""
        if not act.variable:
            return
        held, last = self._copies[act.variable], self._last[act.variable]
        alone = act.replica != CROSS_REPLICA and len(held) > 1 and not act.moved
        changed = [act.replica] if alone else range(len(held))
        for copy in changed:
            if copy < len(held) and place > last[copy]:
                held[copy], last[copy] = act.copies[copy], place


# As many steps as fit in so many rows are told, at least one.
MOST_ROWS: Final = 20
# Longer runs are not told.
MOST_ACTS: Final = 300_000


class Telling(NamedTuple):
    """The rows of the first steps of one run, in the order in which they ended."""

    mode: Mode
    rows: list[StepRow]
    steps: int
    began: int  # ns; when the variables were there

    def first(self, steps: int) -> "Telling":
        """Only so many steps of it."""
        return self._replace(rows=[row for row in self.rows if row.step <= steps], steps=steps)


class Story(Shown, list[Telling]):
    """Result of `varsim.explain` for variables: a list of what happens in each mode."""

    offers = (*Shown.offers, "scenario")
    product: ClassVar = "story"
    scenario: VariablesScenario

    def __init__(self, scenario: VariablesScenario, tellings: Iterable[Telling]) -> None:
        super().__init__(tellings)
        self.scenario = scenario


def told(scenario: VariablesScenario, steps: int | None = None) -> Story:
    """The first steps under each mode, for all equally many.

    `steps` None: as many as fit in MOST_ROWS rows. ValueError if that is too much to be told.
    """
    tellings = [
        _fitting(scenario, mode) if steps is None else _run(scenario, mode, steps)
        for mode in scenario.all_modes
    ]
    shown = min(one.steps for one in tellings) if steps is None else min(steps, tellings[0].steps)
    return Story(scenario, [one.first(shown) for one in tellings])


def _fitting(scenario: VariablesScenario, mode: Mode) -> Telling:
    """So many steps that the table is not too long."""
    steps = 1
    while True:
        telling = _run(scenario, mode, steps)
        rows = Counter(row.step for row in telling.rows)
        steps = 2 * telling.steps
        if rows.total() > MOST_ROWS or telling.steps == scenario.program.steps:
            break
        if scenario.acts(_last(scenario, steps)) > MOST_ACTS:
            break
    fitting = [
        last
        for last in range(1, telling.steps + 1)
        if sum(rows[step] for step in range(last + 1)) <= MOST_ROWS
    ]
    return telling.first(max(fitting, default=1))


def _run(scenario: VariablesScenario, mode: Mode, steps: int) -> Telling:
    """So many steps and those after them, until all replicas wait for each other.

    Before that somebody may be ahead, and what he does there has to be seen.
    """
    last = _last(scenario, steps)
    if (acts := scenario.acts(last)) > MOST_ACTS:
        raise ValueError(f"{acts:,} reads and writes are too many to be told one by one")
    trace = scenario.run_of(scenario.all_modes.index(mode), steps=last, whole=True)
    return Telling(mode, rows_of(scenario, trace), last, trace.began)


def _last(scenario: VariablesScenario, steps: int) -> int:
    """The first step, from this one on, at whose end all wait for each other."""
    blocks = scenario.program.blocks()
    return next((block[-1] for block in blocks if block[-1] >= steps), scenario.program.steps)
