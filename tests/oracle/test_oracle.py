"""varsim and the model tell the same story of every random scenario, to the last nanosecond.

More: pytest tests/oracle --scenarios 10000 --first 1000. One again: --scenarios 1 --first SEED.
"""

import ast
import dataclasses
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.agenda import DoubtfulError
from tests.oracle.drawing import DISTRIBUTIONS, MOST_WORKERS, Case, case
from tests.oracle.history import History, difference
from tests.oracle.observing import observed
from tests.oracle.replicas import expected
from tests.oracle.setting import Setting, setting
from tests.seams import file_schema

# Seeds whose cases are looked at as a whole: enough to have met everything.
SAMPLE = range(300)


def test_the_same_to_the_last_nanosecond(seeds: range) -> None:
    for seed in seeds:
        one = case(seed)
        wrong = difference(one.expected, observed(one.scenario, one.replication))
        assert not wrong, f"scenario {seed}:\n{wrong}\n{one.scenario.model_dump_json()}"


@pytest.fixture(scope="module")
def sample() -> list[Case]:
    return [case(seed) for seed in SAMPLE]


@pytest.mark.slow
class TestWhatIsDrawn:
    """The random scenarios reach what they are drawn for."""

    def test_every_law_has_a_way_to_be_drawn(self) -> None:
        laws = file_schema()["$defs"]["Cluster"]["properties"]["compute"]["discriminator"]
        assert set(DISTRIBUTIONS) == set(laws["mapping"])

    def test_settings(self, sample: list[Case]) -> None:
        met = Counter(feature for one in sample for feature in features(one))
        sides = [f"{pair} {side}" for pair in ("N T", "N K", "T K") for side in "<=>"]
        initial = [
            f"initial {kind}" for kind in ("default", "none", "negative", "below N", "above N")
        ]
        wanted = [
            *(f"workers {number}" for number in range(1, MOST_WORKERS + 1)),
            *(f"law {kind}" for kind in DISTRIBUTIONS),
            *(f"variables {number}" for number in (1, 2, 3, 4, 5, 6)),
            *(
                f"{kind} {sharing} {placement} {servers}"
                for kind in ("none", "sync_replicas")
                for sharing in ("first_come", "fair")
                for placement in ("partitioned", "round_robin", "by_bytes")
                for servers in ("one", "several")
            ),
            *(f"{sharing} latency {some}" for sharing in ("first_come", "fair") for some in (0, 1)),
            *("slow always", "slow for a while", "slow link", *sides, *initial),
            *(
                f"{kind} update {threads}"
                for kind in ("none", "locking", "sync_replicas")
                for threads in (0, 1, 2)
            ),
        ]

        assert [feature for feature in wanted if met[feature] < 2] == []

    def test_outcomes(self, sample: list[Case]) -> None:
        met = Counter(feature for one in sample for feature in happenings(one.expected))
        wanted = {
            **dict.fromkeys(["global_steps", "examples", "time"], 20),
            "deadlock": 2,
            **dict.fromkeys(["applied", "dropped", "pending", "stale", "token"], 20),
            "partly": 5,  # two variables of one update average different workers
            "old token": 20,
            "many at once": 20,
            "queue": 20,
            "lock": 10,
        }

        assert {name: met[name] for name, least in wanted.items() if met[name] < least} == {}

    def test_few_are_refused(self, sample: list[Case]) -> None:
        refused = [scenario for one in sample for scenario in one.refused]
        by_sharing = Counter(scenario.cluster.network.sharing for scenario in refused)

        assert by_sharing["first_come"] <= 2
        assert by_sharing["fair"] <= len(sample) / 4


def features(one: Case) -> list[str]:
    """What is special about a scenario."""
    scenario = one.scenario
    (strategy,) = scenario.strategies
    cluster = scenario.cluster_of(strategy)
    network, workers = cluster.network, cluster.workers
    several = "several" if cluster.parameter_servers > 1 else "one"
    found = [
        f"workers {workers}",
        f"law {cluster.compute.kind}",
        f"variables {len(scenario.workload.tensor_sizes())}",
        f"{strategy.kind} {network.sharing} {cluster.placement} {several}",
        f"{network.sharing} latency {int(network.delay > 0)}",
    ]
    update = cluster.server_update
    locking = "locking" if getattr(strategy, "use_locking", False) else strategy.kind
    found.append(f"{locking} update {0 if update is None else update.threads}")
    for slow in cluster.slow_workers:
        always = slow.after == 0 and slow.until is None
        found.append("slow always" if always else "slow for a while")
    if network.slow_links:
        found.append("slow link")
    if strategy.kind == "none":
        return found
    needed, first = strategy.replicas_to_aggregate, strategy.initial_tokens
    total = workers if strategy.total_num_replicas is None else strategy.total_num_replicas
    for name, a, b in (("N T", needed, total), ("N K", needed, workers), ("T K", total, workers)):
        found.append(f"{name} {'<=>'[(a > b) - (a < b) + 1]}")
    if first in (None, -1):
        return [*found, "initial default"]
    if first <= 0 and first != -1:
        return [*found, f"initial {'none' if first == 0 else 'negative'}"]
    return [*found, f"initial {'above' if first > needed else 'below'} N"]


def happenings(history: History) -> set[str]:
    """What came about in a run."""
    found = {history.ended_by} | {fate.outcome for fate in history.fates}
    found |= {doing.activity for doing in history.doings}
    if any(fate.read_step < fate.ended_step for fate in history.fates):
        found.add("stale")
    arrivals = Counter(fate.arrived for fate in history.fates if fate.arrived >= 0)
    if len(arrivals) < arrivals.total() / 1.5:
        found.add("many at once")
    newest = {put.step: put.time for put in history.put}
    if any(newest.get(taken.step + 1, taken.time) < taken.time for taken in history.taken):
        found.add("old token")
    return found


@pytest.fixture(scope="module")
def history(sample: list[Case]) -> History:
    """A run in which there is something of everything."""
    histories = (one.expected for one in sample)
    return next(h for h in histories if all(getattr(h, name) for name in History._fields))


class TestTheComparisonCanFail:
    @pytest.mark.parametrize("part", ["ended_by", "end"])
    def test_a_single_value(self, history: History, part: str) -> None:
        other = history._replace(**{part: another(getattr(history, part))})

        assert difference(history, other).startswith(f"{part}: expected")
        assert not difference(history, history._replace())

    @pytest.mark.parametrize("part", ["steps", "put", "taken", "fates", "doings", "measured"])
    def test_one_value_of_one_row(self, history: History, part: str) -> None:
        rows = getattr(history, part)
        place = len(rows) // 2
        row = rows[place]
        for field in getattr(row, "_fields", [""]):
            value = getattr(row, field, row)
            wrong = row._replace(**{field: another(value)}) if field else another(value)
            other = history._replace(**{part: [*rows[:place], wrong, *rows[place + 1 :]]})
            (line,) = difference(history, other).split("\n")

            assert line == (
                f"{part}: {len(rows)} expected, {len(rows)} seen; "
                f"at {place} expected {row!r}, seen {wrong!r}"
            )

    @pytest.mark.parametrize("part", ["steps", "put", "taken", "fates", "doings", "measured"])
    def test_a_row_too_few(self, history: History, part: str) -> None:
        other = history._replace(**{part: getattr(history, part)[:-1]})

        assert "seen nothing" in difference(history, other)
        assert "expected nothing" in difference(other, history)

    @pytest.mark.parametrize(
        ("knob", "change"),
        [
            ("latency", lambda s: s.latency + 1e-9),
            ("server_rate", lambda s: s.server_rate * (1 + 1e-6)),
            ("worker_rates", lambda s: [rate * 0.999 for rate in s.worker_rates]),
            ("slow", lambda s: s.slow[1:]),
            ("servers", lambda s: s.servers + 1),
            ("fair", lambda s: not s.fair),
            ("placement", lambda s: "round_robin"),
            ("shares", lambda s: [share * 0.999 for share in s.shares]),
            ("tensors", lambda s: [[size + 1 for size in sizes] for sizes in s.tensors]),
            ("batch_size", lambda s: s.batch_size + 1),
            ("required", lambda s: s.tokens and s.tokens._replace(required=s.tokens.required + 1)),
            ("total", lambda s: s.tokens and s.tokens._replace(total=s.tokens.required + 5)),
            ("locking", lambda s: s.tokens is None and not s.locking),
            (
                "update",
                lambda s: s.update and s.update._replace(threads=s.update.threads + 1),
            ),
            ("initial", lambda s: s.tokens and s.tokens._replace(initial=s.tokens.required + 1)),
        ],
    )
    def test_every_number_shows(self, sample: list[Case], knob: str, change: Any) -> None:
        """A model that had one of them wrong would tell another story."""
        name = knob if knob in Setting.__annotations__ else "tokens"
        for one in sample[:60]:
            right = setting(one.scenario, one.replication)
            wrong = dataclasses.replace(right, **{name: change(right)})
            with suppress(DoubtfulError):
                if wrong != right and difference(one.expected, expected(wrong)):
                    return
        pytest.fail(f"{knob} makes no difference")


def another(value: int | str) -> int | str:
    return value + "?" if isinstance(value, str) else value + 1


@pytest.mark.parametrize("name", ["agenda", "links", "fluid", "replicas", "updating", "history"])
def test_the_model_takes_nothing_from_varsim(name: str) -> None:
    tree = ast.parse(Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8"))
    froms = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    plain = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
    tops = {module.split(".")[0] for module in froms + plain}

    assert tops <= {
        *("abc", "collections", "dataclasses", "decimal", "fractions", "functools", "heapq"),
        *("itertools", "typing", "tests"),
    }
    assert all(module.startswith("tests.oracle.") for module in froms if module[:5] == "tests")
