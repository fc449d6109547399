"""How many steps of a run are told, and their rows."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from varsim.cluster.program import run_program
from varsim.distribute.program_run import Mode
from varsim.scenario.variables import VariablesScenario
from varsim.study.program.rows import Row, rows_of

# As many steps as fit in so many rows are told, at least one.
MOST_ROWS: Final = 20
# Longer runs are not told.
MOST_ACTS: Final = 300_000


class Telling(NamedTuple):
    """The rows of the first steps of one run, in the order in which they ended."""

    mode: Mode
    rows: list[Row]
    steps: int
    began: int  # ns; when the variables were there

    def first(self, steps: int) -> "Telling":
        """Only so many steps of it."""
        return self._replace(rows=[row for row in self.rows if row.step <= steps], steps=steps)


def told(
    scenario: VariablesScenario, modes: Sequence[Mode], steps: int | None = None
) -> list[Telling]:
    """The first steps under each of these modes, for all equally many.

    `steps` None: as many as fit in MOST_ROWS rows. ValueError if that is too much to be told.
    """
    tellings = [
        _fitting(scenario, mode) if steps is None else _run(scenario, mode, steps) for mode in modes
    ]
    shown = min(one.steps for one in tellings) if steps is None else min(steps, tellings[0].steps)
    return [one.first(shown) for one in tellings]


def _fitting(scenario: VariablesScenario, mode: Mode) -> Telling:
    """So many steps that the table is not too long."""
    steps = 1
    while True:
        telling = _run(scenario, mode, steps)
        rows = Counter(row.step for row in telling.rows)
        steps = 2 * telling.steps
        if rows.total() > MOST_ROWS or telling.steps == scenario.program.steps:
            break
        if _acts(scenario, _last(scenario, steps)) > MOST_ACTS:
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
    if (acts := _acts(scenario, last)) > MOST_ACTS:
        raise ValueError(f"{acts:,} reads and writes are too many to be told one by one")
    trace = run_program(
        scenario.cluster,
        scenario.program.model_copy(update={"steps": last}),
        scenario.variables,
        mode,
        seed=scenario.seed,
        replication=0,
        algorithm=scenario.cross_device_ops,
    )
    return Telling(mode, rows_of(scenario, trace), last, trace.began)


def _last(scenario: VariablesScenario, steps: int) -> int:
    """The first step, from this one on, at whose end all wait for each other."""
    blocks = scenario.program.blocks()
    return next((block[-1] for block in blocks if block[-1] >= steps), scenario.program.steps)


def _acts(scenario: VariablesScenario, steps: int) -> int:
    """How much is done in so many steps, by all."""
    program, workers = scenario.program, scenario.cluster.workers
    names = {one.name: one for one in scenario.variables}
    return sum(
        action.times
        * (steps // action.every)
        * len(action.on(names))
        * (workers if place.startswith("replicas") else 1)
        for place, action in program.actions()
    )
