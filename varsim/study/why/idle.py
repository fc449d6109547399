"""Fields of a scenario that change nothing: each is reset to its default, and runs are compared."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from pydantic_core import PydanticUndefined

from varsim.cluster.course import PaceError
from varsim.cluster.recovery import in_run
from varsim.cluster.trace import Trace
from varsim.scenario.training import Scenario
from varsim.study.amount import gradients
from varsim.study.simulation import Run, run_one
from varsim.study.why.levers import times_only
from varsim.values.schema import Model

MOST_FIELDS: Final = 60
# A difference is looked for in so many rounds of all workers, then in so many gradients.
ROUNDS: Final = (12, 120)
MOST_GRADIENTS: Final = 20_000

# What has to be given, and what it is where it holds nobody up.
_FREE: Final = {"oversubscription": 1e-9, "uplink_bandwidth": 1e18}

# What a scenario is called, how often it is run, and what is only reported.
_NOT_PART_OF_A_RUN: Final = {"name", "seed", "replications", "targets", "report"}

Place = tuple[str | int, ...]
# A field that is set: where, its value, its default.
_Set = tuple[Place, object, object]


class Idle(NamedTuple):
    """What was found: fields that changed nothing, by their path in the scenario.

    `tried`: how many fields were reset; `left`: how many there were beyond MOST_FIELDS; `whole`:
    whether runs were compared to their end, or only MOST_GRADIENTS of each.
    """

    fields: tuple[str, ...]
    tried: int
    left: int
    whole: bool


def number_of_fields(scenario: Scenario) -> int:
    """How many fields are looked at."""
    return min(MOST_FIELDS, len(list(_places(scenario, ()))))


def idle_fields(scenario: Scenario, looked_at: Callable[[], None] = lambda: None) -> Idle:
    """Every optional field that is set, and without which the first replication is the same.

    It is reset to its default, or to what holds nobody up where something has to be given (a
    latency to 0), or together with another one that needs it. Runs are compared bit for bit: of
    every strategy, or of the one whose field it is. `looked_at` is called after each field.
    """
    places = list(_places(scenario, ()))
    whole = _all_looked_at(scenario)
    sizes = [rounds * scenario.cluster.workers for rounds in ROUNDS]
    runs = [_Runs(scenario, size) for size in (*sizes, MOST_GRADIENTS)]
    found, tried = [], 0
    for number, (place, value, default) in enumerate(places[:MOST_FIELDS]):
        if number:
            looked_at()
        reset = _without(scenario, place, value, default)
        if reset is None:
            reset = _without_both(scenario, (place, value, default), places)
        stops = place[0] == "stop"  # which few rounds cannot tell of
        # Among failures a run may never come to another end than that of its time.
        endless = place == ("stop", "time") and bool(in_run(scenario.failures))
        if reset is None or (stops and not whole) or endless:
            continue
        tried += 1
        if all(some.same(reset, place) for some in (runs[-1:] if stops else runs)):
            found.append(".".join(map(str, place)))
    return Idle(tuple(found), tried, max(0, len(places) - MOST_FIELDS), whole)


class _Runs:
    """The first replication of every strategy, up to so many gradients, made when asked for."""

    def __init__(self, scenario: Scenario, gradients: int) -> None:
        self._scenario, self._gradients = scenario, gradients
        self._known: dict[tuple[int, bool], list[object]] = {}

    def same(self, other: Scenario, place: Place) -> bool:
        """Whether all runs are the same in another scenario, which differs in this place."""
        # What is not about values changes them only by changing times.
        values = place[0] in ("workload", "strategies", "stop")
        count = range(len(self._scenario.strategies))
        only = [int(place[1])] if place[0] == "strategies" else list(count)
        return all(
            self._as_it_is(strategy, values) == self._run(other, strategy, values)
            for strategy in only
        )

    def _as_it_is(self, strategy: int, values: bool) -> list[object]:
        key = strategy, values
        if key not in self._known:
            self._known[key] = self._run(self._scenario, strategy, values)
        return self._known[key]

    def _run(self, scenario: Scenario, strategy: int, values: bool) -> list[object]:
        stop = scenario.stop
        examples = self._gradients * scenario.workload.batch_size
        if stop.examples is None or stop.examples > examples:
            stop = stop.model_copy(update={"examples": examples})
        limited = scenario.model_copy(update={"stop": stop})
        for one in (limited, scenario):
            try:
                return _content(run_one(Run(one if values else times_only(one), strategy, 0)))
            except PaceError as error:  # of so few steps no life is made
                told = str(error)
        return [told]


def _content(trace: Trace) -> list[object]:
    """All that a result is made of, comparable."""
    life = () if trace.life is None else (trace.life,)
    arrays = (trace.spans, trace.gradients, trace.steps, trace.copy_staleness, *life)
    facts = (trace.end, trace.stopped_by, trace.evaluations, trace.links, trace.standstill)
    return [*(array.tobytes() for array in arrays), *map(repr, facts)]


def _all_looked_at(scenario: Scenario) -> bool:
    """Whether a run of no strategy computes more gradients than are looked at."""
    once = scenario.model_copy(update={"replications": 1})
    alone = (once.with_only((each,)).undisturbed for each in once.strategies)
    return all(gradients(one) <= MOST_GRADIENTS for one in alone)


def _without(scenario: Scenario, place: Place, value: object, default: object) -> Scenario | None:
    """The scenario with the default there, or with what holds nobody up.

    None where that is refused, or says the same.
    """
    for instead in (default, _FREE.get(str(place[-1]), 0.0)):
        if instead is default or (isinstance(value, float) and value != 0):
            try:
                reset: Scenario = _reset(scenario, place, instead)
            except ValueError:
                continue
            return None if reset == scenario else reset
    return None


def _without_both(scenario: Scenario, one: _Set, places: Sequence[_Set]) -> Scenario | None:
    """The scenario without a field and another one beside it, where each needs the other."""
    place, _, default = one
    *parent, name = place
    for (*beside, other), _, its_default in places:
        if beside == parent and other != name and isinstance(name, str):
            try:
                return _reset(scenario, parent, {name: default, other: its_default})  # type: ignore[no-any-return]
            except ValueError:
                continue
    return None


def _places(value: object, at: Place) -> Iterator[tuple[Place, object, object]]:
    """Every optional field below that differs from its default: where, its value, the default.

    So does every entry of a list; its default is that it is not there.
    """
    if isinstance(value, Model):
        for name, info in type(value).model_fields.items():
            if name in ("kind", "name") or (not at and name in _NOT_PART_OF_A_RUN):
                continue
            inner = getattr(value, name)
            if not info.is_required():
                default = info.get_default(call_default_factory=True)
                if default is not PydanticUndefined and inner != default:
                    yield (*at, name), inner, default
            if name != "on":
                yield from _places(inner, (*at, name))
    elif isinstance(value, tuple):
        for index, entry in enumerate(value):
            # Where there is but one, resetting the list has already been tried.
            if at != ("strategies",) and len(value) > 1 and isinstance(entry, Model):
                yield (*at, index), entry, _GONE
            yield from _places(entry, (*at, index))


class _Gone:
    """What stands for an entry of a list that is not there."""


_GONE: Final = _Gone()


def _reset(value: Any, place: Sequence[str | int], default: object) -> Any:
    """The same with the default in this place, checked again on the way up.

    `default`: or several, by name, of fields in this place.
    """
    if not place and isinstance(default, dict):
        return type(value).model_validate({**dict(value), **default})
    if not place:
        return default
    first, *rest = place
    if isinstance(value, tuple):
        index = int(first)
        inner = _reset(value[index], rest, default)
        kept = () if inner is _GONE else (inner,)
        return (*value[:index], *kept, *value[index + 1 :])
    inner = _reset(getattr(value, str(first)), rest, default)
    return type(value).model_validate({**dict(value), str(first): inner})
