"""The choice of candidates from a space that is too large to look at all of it.

A tree-structured Parzen estimator (Bergstra et al., 2011, in optuna) proposes a batch of points;
all of them are run before it is told, so that it proposes the same whatever runs them. Targets
are its constraints. Then the neighbours of the best candidate of every strategy are looked at, one
step along each axis, as long as that helps.
"""

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from varsim.scenario.plan import Question
from varsim.scenario.space import Number
from varsim.study.candidate import Candidate
from varsim.study.judged import Judged, candidate_at, margin
from varsim.study.runs import Runs

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import Trial


PROPOSED: Final = 16
_STARTUP: Final = 64  # points at random before anything is concluded
_MOST_CLIMBS: Final = 50
# Of asking for points that the constraints of the space leave out, so often as for others.
_PATIENCE: Final = 5
# The index of a value on each axis, and the strategy's.
Place: TypeAlias = tuple[int, ...]


def explore(
    question: Question, runs: Runs, known: dict[int, Candidate], too_large: list[Candidate]
) -> list[Candidate]:
    """About `question.trials` candidates, all of them run a few times; `known` is told of each.

    `too_large` is told of those that were proposed, but do not fit into memory: they are not run.
    Raises OSError where optuna is not installed.
    """
    explorer = _Explorer(question, runs, known, too_large)
    explorer.propose()
    explorer.climb()
    return [known[number] for number in sorted(known)]


class _Explorer:
    """What was tried so far, and what to try next."""

    def __init__(
        self,
        question: Question,
        runs: Runs,
        known: dict[int, Candidate],
        too_large: list[Candidate],
    ) -> None:
        self._question, self._runs, self._known = question, runs, known
        self._too_large = too_large
        self._tried: dict[Place, Judged | None] = {}  # None: the constraints leave it out
        self._ordered = _ordered(question)

    def propose(self) -> None:
        """Try what TPE proposes, batch by batch."""
        study = self._study()
        asked, most = 0, self._question.trials
        while self._count() < most and asked < _PATIENCE * most:
            trials = [self._ask(study) for _ in range(PROPOSED)]
            asked += len(trials)
            self._try(place for _, place in trials)
            for trial, place in trials:
                self._tell(study, trial, self._tried[place])

    def climb(self) -> None:
        """Try the neighbours of every strategy's best candidate, until none is better."""
        seen: set[Place] = set()
        for _ in range(_MOST_CLIMBS):
            tops = {place for place in self._tops() if place not in seen}
            if not tops:
                return
            seen |= tops
            self._try(near for top in sorted(tops) for near in self._neighbours(top))

    def _count(self) -> int:
        return sum(one is not None for one in self._tried.values())

    def _try(self, places: Iterable[Place]) -> None:
        """Run the candidates of these places that were not tried before."""
        some: dict[Place, Candidate] = {}
        for place in dict.fromkeys(places):
            if place in self._tried:
                continue
            self._tried[place] = None
            one = candidate_at(self._question, place[:-1], place[-1])
            if one is not None and one.fits:
                self._known[one.number] = some[place] = one
            elif one is not None:
                self._too_large.append(one)
        count = self._question.first_replications
        self._runs.make((one.case, count) for one in some.values())
        for place, one in some.items():
            self._tried[place] = Judged(one, tuple(self._runs.of(one.case)), self._question)
        top = min((one for one in self._tried.values() if one), key=_order, default=None)
        if top is not None and top.feasible:
            self._runs.best = (str(top.candidate.number), top.objective.mean)

    def _tops(self) -> list[Place]:
        """The place of the best candidate of each strategy; where none is feasible, the closest."""
        tops: dict[int, tuple[tuple[float, ...], Place]] = {}
        for place, one in self._tried.items():
            if one is None:
                continue
            rank = (*_order(one), *map(float, place))
            if place[-1] not in tops or rank < tops[place[-1]][0]:
                tops[place[-1]] = (rank, place)
        return [place for _, place in tops.values()]

    def _neighbours(self, place: Place) -> list[Place]:
        """A step to either side on an axis of numbers; all other values of any other axis."""
        found = []
        for axis, size in enumerate(self._question.sizes):
            here = place[axis]
            steps = (here - 1, here + 1) if self._ordered[axis] else range(size)
            found += [
                (*place[:axis], index, *place[axis + 1 :])
                for index in steps
                if 0 <= index < size and index != here
            ]
        return found

    def _study(self) -> "Study":
        try:
            import optuna
        except ImportError:
            raise OSError(
                f"{self._question.combinations:,} combinations are too many to look at all of "
                "them; install optuna, which chooses some: pip install 'varsim[plan]'"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(
            seed=self._question.base.seed % 2**32,
            n_startup_trials=min(_STARTUP, self._question.trials // 4),
            multivariate=True,
        )
        return optuna.create_study(sampler=sampler)

    def _ask(self, study: "Study") -> "tuple[Trial, Place]":
        from optuna.distributions import (
            BaseDistribution,
            CategoricalDistribution,
            IntDistribution,
        )

        fixed: dict[str, BaseDistribution] = {}
        for axis, size in enumerate(self._question.sizes):
            fixed[str(axis)] = (
                IntDistribution(0, size - 1)
                if self._ordered[axis]
                else CategoricalDistribution(tuple(range(size)))
            )
        fixed["strategy"] = CategoricalDistribution(tuple(range(len(self._question.strategies))))
        with _silently():
            trial = study.ask(fixed)
        return trial, tuple(int(trial.params[name]) for name in fixed)

    def _tell(self, study: "Study", trial: "Trial", one: Judged | None) -> None:
        """What came of a trial: how far it is from every target, and the objective."""
        lost = one is None or bool(one.failure) or math.isnan(one.objective.mean)
        with _silently():
            trial.set_constraint("space", 1.0 if lost else 0.0)
            for judgement in () if one is None else one.judgements:
                gap = -margin(judgement)
                trial.set_constraint(judgement.target, 1.0 if math.isnan(gap) else gap)
            study.tell(trial, 0.0 if one is None or lost else one.objective.mean)


def _order(one: Judged) -> tuple[float, float, float]:
    """The best first: feasible by objective, then the others by how far they are off."""
    if one.feasible:
        return 0.0, one.objective.mean, -one.speed.mean
    return 1.0, one.shortfall, math.inf if one.failure else one.objective.mean


def _ordered(question: Question) -> list[bool]:
    """Of each axis, whether its values are numbers that rise or fall."""
    found = []
    for group in range(len(question.sizes)):
        index = next(i for i, one in enumerate(question.quantities) if one.group == group)
        found.append(_monotone(question.numbers[index]))
    return found


def _monotone(values: Sequence[Number]) -> bool:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    return len(numbers) == len(values) and numbers in (sorted(numbers), sorted(numbers)[::-1])


@contextmanager
def _silently() -> Iterator[None]:
    """What optuna says of its own features is nothing to a planner."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
