"""Mutants that are put into a fork of a session of pytest: each costs no start and no collection.

    python -m bench.forks --learn MAP --seconds 5 tests/differential tests/cluster
    python -m bench.forks --by MAP --seed 1 --number 200

Tests are run once by coverage to know which of them runs which line. Then a session collects them,
and forks for each mutant: the fork puts the changed code into the functions that are there, and
runs the tests of its lines, the cheapest first, until one fails. What runs while a module is
imported is tried in a process of its own. A test that starts varsim as another process does not see
the mutant, so it may be noticed less often than it is, never more.
`python -m tests.test_seams outside` prints the files of tests that name no internals.
"""

import gc
import json
import os
import random
import resource
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, NoReturn

import pytest

from bench.mutants import ROOMS, ROOT, Mutant, arguments, copied, drawn, tell, tried, written

Living = dict[tuple[str, str, int], list[FunctionType]]  # by file, name and line

OPTIONS: Final = ("-q", "-p", "no:cacheprovider", "--capture", "sys", "--timeout", "100")


def learn(place: Path, tests: Sequence[str], seconds: float) -> None:
    """Adds to a map which tests run which lines of the rooms, and how long each takes (s of CPU).

    Of the cases of a function some at random, for so many seconds.
    """
    learning = _Learning(place, seconds)
    pytest.main([*OPTIONS, *tests], plugins=[learning])
    learning.save()


def _function(test: str) -> str:
    return test.partition("[")[0]


def _cpu() -> float:
    return sum(os.times()[:4])


class _Learning:
    """A plugin: coverage with the test as its context."""

    def __init__(self, place: Path, seconds: float) -> None:
        from coverage import Coverage

        include = [f"{ROOT}/varsim/{room}/*" for room in ROOMS]
        self._coverage = Coverage(str(place), include=include, config_file=False)
        self._costs = place.with_suffix(".json")
        self._seconds = seconds
        self._cost: dict[str, float] = {}
        self._spent: dict[str, float] = defaultdict(float)
        self._not_passed: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        files: dict[Path, list[pytest.Item]] = defaultdict(list)
        for item in items:
            files[item.path].append(item)
        for ones in files.values():
            random.Random(1).shuffle(ones)
        items[:] = [item for ones in files.values() for item in ones]
        self._coverage.load()
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begun = _cpu()
        self._coverage.switch_context(item.nodeid)
        result = yield
        self._cost[item.nodeid] = _cpu() - begun
        self._spent[_function(item.nodeid)] += _cpu() - begun
        return result

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self._spent[_function(item.nodeid)] > self._seconds:
            pytest.skip("there are enough of these")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self._not_passed.add(report.nodeid)

    def save(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        kept = json.loads(self._costs.read_text("utf-8")) if self._costs.exists() else {}
        kept |= {test: s for test, s in self._cost.items() if test not in self._not_passed}
        self._costs.write_text(json.dumps(kept), encoding="utf-8")


def show(place: Path, mutants: Sequence[Mutant], seconds: float) -> None:
    """Prints of each mutant which test fails, if one does in about so many seconds."""
    showing = _Showing(place, mutants, seconds)
    with tempfile.TemporaryDirectory() as folder:
        names = Path(folder, "names")
        names.write_text("\n".join(showing.cost), encoding="utf-8")
        pytest.main([*OPTIONS, f"@{names}"], plugins=[showing])


class _Showing:
    """A plugin: in place of the loop over all tests, one over all mutants."""

    def __init__(self, place: Path, mutants: Sequence[Mutant], seconds: float) -> None:
        self.cost: dict[str, float] = json.loads(place.with_suffix(".json").read_text("utf-8"))
        from coverage import CoverageData

        self._lines = CoverageData(str(place))
        self._lines.read()
        self._mutants = mutants
        self._seconds = seconds
        self._failed: Callable[[str], None] = print

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        live = living()
        gc.collect()
        gc.freeze()
        with tempfile.TemporaryDirectory() as folder:
            home = copied(Path(folder))
            tell(self._mutants, (self._said(one, items, live, home) for one in self._mutants))
        return True

    def _said(self, mutant: Mutant, items: dict[str, pytest.Item], live: Living, home: Path) -> str:
        tests = [test for test in self.tests(mutant) if test in items]
        limit = 3 * sum(self.cost[test] for test in tests) + 30
        if not tests:
            return ""
        if changed := changed_by(mutant, live):
            return self._forked([items[test] for test in tests], changed, limit)
        return _apart(tests, mutant, home, limit)

    def tests(self, mutant: Mutant) -> list[str]:
        """Those that run its lines, first two of each function; then some that run its file.

        What runs while a module is imported, or is kept, is run by one test and matters to others.
        """
        lines = self._lines.contexts_by_lineno(str(ROOT / mutant.file))
        exact = {one for at in range(mutant.line, mutant.last + 1) for one in lines.get(at, ())}
        near = {one for ones in lines.values() for one in ones} - exact
        first = self._cheapest(exact, 2, self._seconds / 10)
        return [
            *first,
            *self._cheapest(exact - {*first}, 10**6, self._seconds),
            *self._cheapest(near, 2, self._seconds / 3),
        ]

    def _cheapest(self, tests: Iterable[str], each: int, seconds: float) -> list[str]:
        """The cheapest tests, at most so many of each function, as long as the time suffices."""
        chosen: list[str] = []
        taken: dict[str, int] = defaultdict(int)
        for test in sorted(self.cost.keys() & {*tests}, key=lambda one: (self.cost[one], one)):
            function = _function(test)
            if taken[function] < each and self.cost[test] <= seconds:
                chosen.append(test)
                taken[function] += 1
                seconds -= self.cost[test]
        return chosen

    def _forked(
        self, items: Sequence[pytest.Item], changed: dict[FunctionType, CodeType], limit: float
    ) -> str:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            self._fork(items, changed, limit, writer)
        os.close(writer)
        with os.fdopen(reader) as told:
            said = told.read()
        status = os.waitpid(child, 0)[1]
        return said or (f"ended by signal {status}" if status else "")

    def _fork(
        self,
        items: Sequence[pytest.Item],
        changed: dict[FunctionType, CodeType],
        limit: float,
        writer: int,
    ) -> NoReturn:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit)))
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

        def failed(test: str) -> NoReturn:
            os.write(writer, test.encode())
            os._exit(0)

        self._failed = failed
        for function, code in changed.items():
            function.__code__ = code
        try:
            for item, after in zip(items, (*items[1:], None), strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        except BaseException as error:
            failed(repr(error))
        os._exit(0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed(report.nodeid)


def _apart(tests: Sequence[str], mutant: Mutant, home: Path, limit: float) -> str:
    """What a process of its own says, which imports the mutant."""
    names = home / "names-of-tests"
    names.write_text("\n".join(tests), encoding="utf-8")
    with written(mutant, home):
        return tried([f"@{names}", "--timeout", "100"], home, limit)[0]


def living() -> Living:
    found: Living = defaultdict(list)
    for one in gc.get_objects():
        if isinstance(one, FunctionType):
            code = one.__code__
            found[code.co_filename, code.co_qualname, code.co_firstlineno].append(one)
    return found


def changed_by(mutant: Mutant, live: Living) -> dict[FunctionType, CodeType]:
    """The functions that a mutant changes, and their code; none if it changes what is imported."""
    path = str(ROOT / mutant.file)
    before = [*_codes(compile(Path(path).read_bytes(), path, "exec"))]
    after = [*_codes(compile(mutant.text, path, "exec"))]
    if [code.co_qualname for code in before] != [code.co_qualname for code in after]:
        return {}
    found: dict[FunctionType, CodeType] = {}
    for old, new in zip(before, after, strict=True):
        if _own(old) != _own(new) and not old.co_flags & 1:  # a module, or the body of a class
            return {}
        if _signature(old) != _signature(new):
            for function in live.get((path, old.co_qualname, old.co_firstlineno), ()):
                found[function] = new
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _own(code: CodeType) -> tuple[Any, ...]:
    """What a code does itself; lines are not in it."""
    constants = [repr(one) for one in code.co_consts if not isinstance(one, CodeType)]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants


def _signature(code: CodeType) -> list[tuple[Any, ...]]:
    return [_own(one) for one in _codes(code)]


if __name__ == "__main__":
    parser = arguments()
    parser.add_argument("tests", nargs="*")
    parser.add_argument("--learn", type=Path, metavar="MAP")
    parser.add_argument("--seconds", type=float, default=60, help="for a function, or a mutant")
    parser.add_argument("--by", type=Path, metavar="MAP")
    given = parser.parse_args()
    if given.learn:
        learn(given.learn.absolute(), given.tests, given.seconds)
    if given.by:
        show(given.by.absolute(), drawn(given.seed, given.number, given.only), given.seconds)
