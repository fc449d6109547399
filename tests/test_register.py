"""What a notebook or a script adds is usable at once, wherever its scenarios run."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

import varsim as package
from tests.extending import ALL, SCENARIO, python, varsim
from tests.seams import STRATEGIES
from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.collectives.algorithms import ring_all_reduce
from varsim.cluster.collectives.choice import COLLECTIVES, Choice
from varsim.cluster.collectives.schedule import Schedule, once
from varsim.cluster.collectives.schedule import ScheduledTransfer as Transfer
from varsim.cluster.workers.job import Job
from varsim.core.distribution import Constant
from varsim.core.distributions import ALL_DISTRIBUTIONS
from varsim.scenario.extensions import needs
from varsim.strategies import ALL_STRATEGIES, Strategy
from varsim.strategies.k_family import KBatchSync
from varsim.strategies.none import NoSynchronization
from varsim.study.case import case_of


class Waiting(NoSynchronization):
    """As none."""

    kind: Literal["waiting"] = "waiting"


class Even(Constant):
    """As constant."""

    kind: Literal["even"] = "even"


class Taken(Constant):
    """With a name that varsim has."""

    kind: Literal["gamma"] = "gamma"


class AlsoWaiting(NoSynchronization):
    """With a name that another has."""

    kind: Literal["waiting"] = "waiting"


class Nameless(NoSynchronization):
    """Of two kinds."""

    kind: Literal["one", "other"] = "one"


class WithAClerk(KBatchSync):
    """As K-batch-sync, with a second process on each worker."""

    kind: Literal["with_a_clerk"] = "with_a_clerk"

    def start(self, job: Job) -> None:
        super().start(job)
        for worker in job.workers:
            job.start_on(worker, job.clock.sleep_until, END_OF_TIME, role="clerk")


class Partial(Strategy):
    """Without what a strategy needs."""

    kind: Literal["partial"] = "partial"


def half(ranks: int, size: float) -> Schedule:
    """Nobody hears of the last rank."""
    return Schedule("half", ranks, 1, (once([Transfer(0, ranks - 1, range(1))]),))


def twice(ranks: int, size: float) -> Schedule:
    """Everything is added twice."""
    return Schedule("twice", ranks, 1, (once([Transfer(0, 1, range(1), adds=True)]),) * 2)


def crowd(ranks: int, size: float) -> Schedule:
    """All send to rank 0 at once."""
    return Schedule(
        "crowd", ranks, 1, (once([Transfer(r, 0, range(1), adds=True) for r in range(1, ranks)]),)
    )


def own_ring(ranks: int, size: float) -> Schedule:
    """Around."""
    if ranks == 3:
        raise RuntimeError("not of\n3")
    return ring_all_reduce(ranks)


@pytest.fixture
def _forgotten() -> Iterator[None]:
    """What a test registers is gone after it."""
    yield
    for one in (ALL_STRATEGIES, ALL_DISTRIBUTIONS, COLLECTIVES):
        one.registered.clear()


def text(strategy: str, **more: str) -> str:
    found = SCENARIO.replace("STRATEGY", strategy)
    for old, new in more.items():
        found = found.replace(old, new)
    return found


@pytest.mark.usefixtures("_forgotten")
class TestRegister:
    def test_it_is_usable_at_once_and_as_its_model(self) -> None:
        with pytest.raises(
            package.ScenarioError,
            match=r"has to be registered first \(varsim.register, or --import FILE\)",
        ):
            package.load(text("{kind: waiting}"))
        assert package.register(Waiting) is Waiting
        package.register(Even)
        loaded: Any = package.load(text("{kind: waiting}", constant="even"))
        assert type(loaded.strategies[0]) is Waiting
        assert loaded.run().table is not None
        with pytest.raises(package.ScenarioError, match="did you mean 'waiting'"):
            package.load(text("{kind: wating}"))

    @pytest.mark.parametrize(
        ("thing", "why"),
        [
            (Taken, "the distribution 'gamma' is taken: varsim has one of that name itself"),
            (AlsoWaiting, r"the strategy 'waiting' is taken: class \S+\.Waiting is registered"),
            (Nameless, r"class \S+\.Nameless cannot be registered: it does not say of what kind"),
            (Partial, "cannot be registered: it does not define start, traits"),
        ],
    )
    def test_a_clash_and_what_is_not_whole(self, thing: Any, why: str) -> None:
        package.register(Waiting)
        package.register(Waiting)  # such as a cell of a notebook that is run again
        with pytest.raises(ValueError, match=why):
            package.register(thing)

    def test_a_step_that_is_over_ends_the_work_and_not_the_clerk(self) -> None:
        package.register(WithAClerk)
        dropped = []
        for kind in ("with_a_clerk", "k_batch_sync"):
            given = text(f"{{kind: {kind}, k: 1}}", constant="exponential", value="mean")
            table = package.load(given).run().summary
            dropped.append(table.query("metric == 'gradients_dropped'")["mean"].item())
        assert dropped[0] == dropped[1] > 0

    def test_what_belongs_to_no_table(self) -> None:
        for thing in (3, Choice, "waiting"):
            with pytest.raises(TypeError, match="register takes a class of strategies"):
                package.register(thing)

    def test_another_definition_has_other_runs(self) -> None:
        def key(strategy: type[Strategy]) -> str:
            scenario: Any = package.load(text("{kind: none}"))
            return case_of(scenario, strategy()).key

        assert key(Waiting) == key(Waiting)
        assert key(Waiting) != key(AlsoWaiting)
        assert needs(STRATEGIES["none"]()) == []

    @pytest.mark.parametrize(
        ("function", "workers", "why"),
        [
            (half, 2, "rank 0 ends without what rank 1 has of block 0"),
            (half, 4, "rank 0 ends without what rank 1 has of block 0"),
            (twice, 2, "rank 1 adds twice what it has of block 0, round 1"),
            (crowd, 3, "a rank is the target of two messages in round 0"),
            (own_ring, 3, "RuntimeError: not of 3"),
            (own_ring, 4, ""),
        ],
    )
    def test_a_collective_must_be_an_all_reduce(
        self, function: Any, workers: int, why: str
    ) -> None:
        package.register(function)
        strategy = f"{{kind: on_write, collective: {function.__name__}}}"
        given = text(strategy, workers=f"workers: {workers}\n  #").replace(
            "  parameter_servers: 1\n", ""
        )
        if not why:
            plain = given.replace("own_ring", "ring")
            assert package.run(given).traces[0].end == package.run(plain).traces[0].end
            return
        with pytest.raises(package.ScenarioError, match=why):
            package.load(given)


SCRIPT = """\
import sys
from pathlib import Path
from typing import Literal
import varsim
from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.collectives.algorithms import ring_all_reduce
from varsim.report.files.save import save
from varsim.strategies.none import NoSynchronization
from varsim.core.distribution import Constant

@varsim.register
class Mine(NoSynchronization):
    kind: Literal["mine"] = "mine"

@varsim.register
class Steady(Constant):
    kind: Literal["steady"] = "steady"

@varsim.register
def circle(ranks, size):
    return ring_all_reduce(ranks)

folder = Path(sys.argv[1])
text = (folder / "given.yaml").read_text()
result = varsim.run(text, jobs=2)
save(result, folder / "out")
assert varsim.load(folder / "out/scenario.yaml") == result.scenario
table = varsim.sweep(text + "sweep: {cluster.workers: [2, 4]}\\n", jobs=2)
assert not any(row.failure for row in table.rows), [row.failure for row in table.rows]
asked = text + "targets: {throughput: 1 examples/s}\\nplan: {minimize: workers, "
plan = varsim.plan(asked + "space: {cluster.workers: [2, 4]}}\\n", jobs=2)
assert plan.scenario.cluster.workers == 2
print("needs", result.provenance["needs"])
"""


TYPED = """\
import sys
from typing import Literal
sys.ps1 = ">>> "
import varsim
from varsim.scenario.extensions import needs
from varsim.strategies.none import NoSynchronization

def cell(varsim=varsim):
    class Mine(NoSynchronization):
        kind: Literal["mine"] = "mine"
    Mine.__qualname__ = "Mine"
    return varsim.register(Mine)

(first,), (again,), (other,) = needs(cell()()), needs((one := cell())()), needs(one())
assert first.said == again.said == "strategy 'mine': class Mine, defined in __main__"
assert first.identity != again.identity == other.identity
"""


def test_what_is_typed_in_is_another_definition_each_time() -> None:
    done = subprocess.run(
        [sys.executable, "-"], input=TYPED, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.product
def test_what_a_script_defines_runs_in_other_processes(tmp_path: Path) -> None:
    given = (
        ALL.replace("kind: hub", "kind: star")
        .replace("bowl", "quadratic, noise: 1.0")
        .replace("[{", "[{kind: mine, on: {parameter_servers: 2}}, {")
        .replace("cluster:", "replications: 2\ncluster:")
    )
    (tmp_path / "given.yaml").write_text(given)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = python(tmp_path, str(script), str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (
        "needs distribution 'steady': class Steady, defined in __main__ (script.py); "
        "strategy 'mine': class Mine, defined in __main__ (script.py); "
        "collective 'circle': function circle, defined in __main__ (script.py)" in done.stdout
    )
    refused = varsim(tmp_path, "check", str(tmp_path / "out/scenario.yaml"))
    assert refused.returncode == 2
    assert (
        "strategy 'mine' is not known here: it is class Mine, defined in __main__ (script.py); "
        "first run what defines it, and varsim.register(Mine), or --import script.py\n"
        in refused.stderr
    )
    assert "varsim.register(circle), or --import script.py\n" in refused.stderr
