"""The search finds what looking at everything finds, with fewer runs, and is not fooled by luck."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.plan.planning import BASE, BLOCK, codes, note, question, searched
from tests.seams import Note, simulate
from varsim.report.products.plan_cells import document
from varsim.scenario.plan import OBJECTIVES, Question
from varsim.study import cheapest as searching
from varsim.study.candidate import Candidate, Places, distinct, value
from varsim.study.case import Finished
from varsim.study.cheapest import FRESH
from varsim.study.judged import Judged, every_candidate, floor, known, margin, may_be_lower
from varsim.study.metrics import SENT
from varsim.study.plan import Plan, busy, trade
from varsim.study.pool import Pool
from varsim.study.verdict import Judgement


def brute_force(found: Plan) -> Judged:
    """The best of all cells that meet the targets."""
    return min((one for one in found.outcomes.values() if one.feasible), key=lambda one: one.order)


class TestTheAnswer:
    def test_is_that_of_looking_at_everything(self, tmp_path: Path) -> None:
        asked = question()
        found, runs = searched(asked, tmp_path / "some")
        everything, all_runs = searched(asked, tmp_path / "all", exhaustive=True)
        assert found.best is not None
        assert found.best.candidate.number == brute_force(everything).candidate.number
        assert len(found.outcomes) < len(everything.outcomes) == found.distinct == 18
        assert runs.status.done < all_runs.status.done

    def test_by_hand(self, tmp_path: Path) -> None:
        """A worker does 4 examples in 100 ms, and 32 ms or more of sending on_write at 10 Gbit/s.

        So on_write needs more than 150 / 40 = 3.75 workers, and its ring takes about 2 x 16 ms
        besides: 5 x 4 / 0.14 s = 140 are too few, 6 do. None: 16 ms each way, 150 / 4 x 0.132 s
        = 5 on average, but is not sure with 5; a server costs 0.7.
        """
        found, _ = searched(question(), tmp_path)
        assert found.best is not None
        assert found.best.strategy == "on_write"
        assert found.best.candidate.machines.workers == 6
        assert found.best.objective.mean == 12.0
        assert found.best.replications >= 2
        assert found.runner_up is not None
        assert found.runner_up.objective.mean >= 12.0

    def test_what_is_as_cheap_is_not_outcomes_again(self, tmp_path: Path) -> None:
        """With 5 workers and a server, none is 11 % cheaper, and too close to the target to say."""
        exact, many = searched(question(BLOCK + "tolerance: 1 %"), tmp_path / "one")
        rough, few = searched(question(BLOCK + "tolerance: 30 %"), tmp_path / "two")
        assert exact.best is not None
        assert rough.best is not None
        assert few.status.done < many.status.done
        assert rough.best.objective.mean <= exact.best.objective.mean / 0.7

    def test_is_the_same_in_two_processes(self, tmp_path: Path) -> None:
        one, some = searched(question(), tmp_path / "one")
        two, other = searched(question(), tmp_path / "two", Pool(2))
        assert one.outcomes.keys() == two.outcomes.keys()
        for number, stands in one.outcomes.items():
            assert stands.minimized == two.outcomes[number].minimized
        assert str(one) == str(two)
        assert some.status.done == other.status.done

    def test_uses_the_runs_that_are_kept(self, tmp_path: Path) -> None:
        first, made = searched(question(), tmp_path)
        again, runs = searched(question(), tmp_path)
        assert again.sha256 == first.sha256
        assert runs.status.resumed == runs.status.done == made.status.done
        # Prices make no difference to runs.
        dearer, runs = searched(question(sets=["prices.server_hour=5"]), tmp_path)
        assert runs.status.resumed > 0
        assert dearer.best is not None

    def test_of_equal_price_the_faster_one(self, tmp_path: Path) -> None:
        block = BLOCK.replace(
            "cluster.parameter_servers: [1, 2]", "cluster.network.bandwidth: [9 Gbit/s, 40 Gbit/s]"
        )
        found, _ = searched(question(block), tmp_path)
        assert found.best is not None
        assert found.best.candidate.point.values[1].text == "40 Gbit/s"

    def test_the_scenario_of_it_gives_the_same_numbers(self, tmp_path: Path) -> None:
        from varsim.study.plan import answer_scenario

        found, _ = searched(question(), tmp_path)
        best = found.best
        assert best is not None
        scenario = answer_scenario("tiny", best)
        assert scenario.name == "tiny-plan"
        result = simulate(scenario)
        assert result.estimate(best.strategy, "examples_per_s") == best.speed
        assert all(judgement.met for judgement in result.judgements)
        assert [j.confidence_bound for j in result.judgements] == [
            j.confidence_bound for j in best.judgements
        ]

    @pytest.mark.parametrize(
        "objective", [name for name, about in OBJECTIVES.items() if not about.needs_loss]
    )
    def test_of_every_objective(self, objective: str, tmp_path: Path) -> None:
        block = BLOCK.replace("cost_per_hour", objective)
        found, _ = searched(question(block), tmp_path / "some")
        everything, _ = searched(question(block), tmp_path / "all", exhaustive=True)
        best, least = found.best, brute_force(everything)
        assert best is not None
        assert best.objective.mean <= least.objective.mean * 1.02

    def test_of_those_that_need_values(self, tmp_path: Path) -> None:
        base = BASE.replace(
            "{kind: timing, size: 20 MB}", "{kind: quadratic, dimension: 4, noise: 0.1}"
        ).replace("batch_size: 4", "batch_size: 4\n  optimizer: {kind: sgd, learning_rate: 0.1}")
        base = base.replace("{throughput: 150 examples/s}", "{loss: 0.05, time_to_target: 2 s}")
        block = "minimize: cost_to_target\nspace: {cluster.workers: [1, 2, 4]}"
        found, _ = searched(question(block, base=base), tmp_path)
        best = found.best
        assert best is not None
        hourly = best.candidate.machines.hourly
        times = [judgement.mean for judgement in best.judgements]
        assert best.objective.mean == pytest.approx(hourly * times[0] / 3600)
        soonest, _ = searched(
            question(block.replace("cost_to_target", "time_to_target"), base=base), tmp_path
        )
        assert soonest.best is not None
        assert soonest.best.objective.mean == soonest.best.judgements[0].mean <= times[0]

    def test_of_those_that_need_values_the_rates_are_told(self, tmp_path: Path) -> None:
        base = BASE.replace(
            "{kind: timing, size: 20 MB}", "{kind: quadratic, dimension: 4, noise: 0.1}"
        ).replace("batch_size: 4", "batch_size: 4\n  optimizer: {kind: sgd, learning_rate: 0.1}")
        base = base.replace(
            "{kind: none}", "{kind: none, optimizer: {kind: sgd, learning_rate: 0.02}}"
        )
        base = base.replace("{throughput: 150 examples/s}", "{loss: 0.05}")
        block = "minimize: time_to_target\nspace: {cluster.workers: [2, 4]}"

        def told(block: str) -> Plan:
            found, _ = searched(question(block, base=base), tmp_path)
            return found

        assert note(told(block), "file-rates").values == {
            "target": "0.05",
            "rates": ("all-reduce 0.1", "async PS 0.02"),
        }
        varied = block.replace("cluster.workers: [2, 4]", "workload.optimizer.learning_rate: [0.1]")
        assert "file-rates" not in codes(told(varied))

    def test_bytes_that_are_sent_have_a_price(self, tmp_path: Path) -> None:
        base = BASE.replace("server_hour: 0.7", "gigabyte: 0.5")
        found, runs = searched(question(base=base), tmp_path)
        best = found.best
        assert best is not None
        sent = [run.measured[SENT] for run in runs.of(best.candidate.case, best.replications)]
        per_hour = [2.0 * best.candidate.machines.workers + 0.5 * one * 3600 / 1e9 for one in sent]
        assert list(best.minimized) == pytest.approx(per_hour)
        assert not known("cost_per_hour", best.candidate)
        assert floor("cost_per_hour", best.candidate) == 2.0 * best.candidate.machines.workers


class TestNothingWillDo:
    def test_the_closest_is_told(self, tmp_path: Path) -> None:
        found, _ = searched(question(sets=["targets.throughput=9000 examples/s"]), tmp_path)
        assert found.best is None
        near = found.closest()
        assert near is not None
        assert near.candidate.machines.workers == 8
        assert near.verdict == "infeasible"
        assert margin(near.judgements[0]) < -0.9

    def test_a_strategy_that_stands_still_fails_at_its_cells_only(self, tmp_path: Path) -> None:
        base = BASE.replace(
            "- {kind: none}", "- {kind: sync_replicas, replicas_to_aggregate: 3}"
        ) + ("events:\n  - {at: 500 ms, kill: {worker: 0}}\n")
        block = "minimize: workers\nspace: {cluster.workers: [3, 4]}\n"
        asked = question(block, ["targets.throughput=10 examples/s"], base)
        found, _ = searched(asked, tmp_path)
        failed = [one for one in found.outcomes.values() if one.failure]
        assert "deadlocked" in failed[0].failure
        assert failed[0].verdict == "infeasible"
        assert failed[0].shortfall == math.inf


class TestLuck:
    def test_who_fails_with_fresh_seeds_is_no_answer(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        honest, _ = searched(question(), tmp_path / "honest")
        assert honest.best is not None
        lucky = honest.best.candidate.number

        def unlucky(one: Candidate, runs: Any, asked: Question) -> Judged:
            found = Judged(one, runs, asked)
            if one.number == lucky and one.point.scenario.seed != asked.base.seed:
                vars(found)["verdict"] = "open"
            return found

        monkeypatch.setattr(searching, "Judged", unlucky)
        found, _ = searched(question(), tmp_path / "other")
        assert [one.candidate.number for one, _ in found.rejected] == [lucky]
        assert found.best is not None
        assert found.best.candidate.number != lucky
        assert found.check is not None
        assert found.check.feasible

    def test_fresh_seeds_are_other_draws_and_enough_of_them(self, tmp_path: Path) -> None:
        asked = question(BLOCK.replace("most_replications: 8", "most_replications: 20"))
        found, _ = searched(asked, tmp_path)
        assert found.best is not None
        assert found.check is not None
        assert found.check.replications >= FRESH
        assert found.check.candidate.point.scenario.seed == 4
        assert found.check.speed.mean != found.best.speed.mean


def run_of(number: int, speed: float) -> Finished:
    """One run that only measured a speed."""
    measured = {"examples_per_s": speed, "step_time_mean": 1 / speed, SENT: 0.0}
    return Finished("key", number, 0.1, {**measured, "time_to_target": math.nan})


def judged(one: Candidate, asked: Question, *speeds: float) -> Judged:
    """A candidate whose runs had these speeds."""
    runs = tuple(run_of(number, speed) for number, speed in enumerate(speeds))
    return Judged(one, runs, asked)


class TestJudged:
    """One-sided Student t by hand: with 2 values a +- h the half-width is 6.314 h."""

    @pytest.mark.parametrize(
        ("speeds", "verdict"),
        [
            ([160.0, 160.0], "feasible"),
            ([152.0, 154.0], "open"),  # 153 - 6.3
            ([158.0, 160.0], "feasible"),  # 159 - 6.3 = 152.7
            ([147.0, 149.0], "open"),  # 148 + 6.3
            ([140.0, 142.0], "infeasible"),  # 141 + 6.3 = 147.3
        ],
    )
    def test_a_cell_is_decided_with_95_percent_certainty(
        self, speeds: list[float], verdict: str
    ) -> None:
        asked = question(BLOCK.replace("cost_per_hour", "step_time_mean"))
        cell = every_candidate(asked)[0]
        found = judged(cell, asked, *speeds)
        assert found.verdict == verdict
        assert found.minimized == tuple(1 / speed for speed in speeds)

    def test_margins_are_shares_of_the_bound(self) -> None:
        assert margin(Judgement("throughput", "a", 200.0, 230.0, 210.0, True)) == 0.05
        assert margin(Judgement("throughput", "a", 200.0, 190.0, 180.0, False)) == -0.1
        assert margin(Judgement("staleness_p99", "a", 4.0, 2.0, 3.0, True)) == 0.25
        assert margin(Judgement("staleness_p99", "a", 0.0, 2.0, 3.0, False)) == -3.0

    def test_what_may_yet_be_lower(self) -> None:
        asked = question(BLOCK.replace("cost_per_hour", "step_time_mean"))
        cell = every_candidate(asked)[0]
        best, twin = (judged(cell, asked, 200.0, 210.0) for _ in range(2))
        slower, noisy = judged(cell, asked, 190.0, 199.5), judged(cell, asked, 170.0, 220.0)
        assert not may_be_lower(twin, best, 0.02)
        assert not may_be_lower(slower, best, 0.02)
        assert may_be_lower(noisy, best, 0.02)


class TestCells:
    def test_what_makes_no_difference_is_one_cell(self) -> None:
        cells = every_candidate(question())
        assert len(cells) == 24
        own = distinct(cells)
        assert sum(cell.label == "on_write" for cell in own) == 6
        assert sum(cell.label == "none" for cell in own) == 12

    def test_a_price_makes_a_difference(self) -> None:
        block = "minimize: workers\nspace: {prices.device_hour: [1.0, 2.0]}"
        own = distinct(every_candidate(question(block)))
        assert len(own) == 4
        assert len({cell.case.key for cell in own}) == 2

    def test_where_they_lie_is_told_shortly(self) -> None:
        block = (
            "minimize: cost_per_hour\nspace:\n  cluster.workers: [4, 6]\n"
            "  cluster.parameter_servers: [1, 2]\n  zip:\n"
            "    cluster.network.bandwidth: [10 Gbit/s, 25 Gbit/s]\n"
            "    prices.device_hour: [2.0, 2.2]\n"
        )
        asked = question(block)
        cells = every_candidate(asked)
        places = Places(asked.quantities, cells)
        assert places.full(cells[0]) == "all-reduce with workers = 4, bandwidth = 10 Gbit/s"
        assert places.told(cells[-1]) == (
            "workers = 6, parameter_servers = 2, bandwidth = 25 Gbit/s"
        )

    def test_values_of_objectives_by_hand(self) -> None:
        cell = every_candidate(question())[-1]  # none, 8 workers, 2 servers
        measured = {"examples_per_s": 100.0, "time_to_target": math.nan, SENT: 1e6}
        assert value("cost_per_hour", cell.machines, measured) == pytest.approx(17.4)
        assert value("cost_per_million_examples", cell.machines, measured) == pytest.approx(
            17.4 * 1e6 / 100 / 3600
        )
        assert value("workers", cell.machines, measured) == 8
        assert value("parameter_servers", cell.machines, measured) == 2


def test_what_binds(tmp_path: Path) -> None:
    found, _ = searched(question(), tmp_path)
    best = found.best
    assert best is not None
    assert found.nearest is not None
    assert found.nearest.candidate.machines.workers == 5
    assert [one.target for one in found.nearest.missed] == ["throughput"]
    assert sum(share for _, share in found.shares) == pytest.approx(1)
    assert found.busy[0].kind == "compute"
    # Both are of all its runs.
    assert found.busy[0].share >= dict(found.shares)["compute"]
    assert found.busy == busy(best.candidate, best.replications) != busy(best.candidate, 2)


def test_the_front_is_of_what_meets_the_other_targets(tmp_path: Path) -> None:
    asked = question(sets=["targets.staleness_p99=0"])
    found, _ = searched(asked, tmp_path, exhaustive=True)
    every, front, by_means = trade(found)
    assert {one.strategy for one in by_means} == {"on_write"}
    assert {one.strategy for one in every} == {"on_write", "none"}
    assert {one.strategy for one in front} == {"on_write"}
    speeds = [one.speed.mean for one in front]
    assert speeds == sorted(speeds)
    assert len(front) > 3


def test_runs_below_two_rounds_of_each_worker_answer_nothing(tmp_path: Path) -> None:
    asked = question(sets=["stop.time=0.15 s", "targets.throughput=1 examples/s"])
    found, _ = searched(asked, tmp_path)
    assert found.best is None
    assert {one.verdict for one in found.outcomes.values()} == {"short"}
    assert found.report.headline == (Note("runs-too-short"),)
    short = note(found, "short-configurations").values
    assert short["out"] == short["of"] == len(found.outcomes)
    assert "--set 'stop.time=" in str(short["more"])
    assert not found.report.table.rows
    assert not found.report.details


def test_a_short_run_is_told_of_a_plan_with_an_answer(tmp_path: Path) -> None:
    asked = question(sets=["stop.time=0.8 s"])
    found, _ = searched(asked, tmp_path)
    assert found.best is not None
    assert "out" not in note(found, "short-configurations").values


def test_the_front_has_what_is_surely_faster_and_the_answer(tmp_path: Path) -> None:
    asked = question(sets=["report.equal_within=0.3"])
    found, _ = searched(asked, tmp_path, exhaustive=True)
    traded = trade(found)
    every, front, unsure = traded.every, traded.front, traded.unsure
    assert len(unsure) > 1
    assert set(unsure) <= set(traded.by_means)
    for one in unsure:
        others = [other for other in every if other.hourly <= one.hourly and other is not one]
        assert all(other.speed.mean < one.speed.mean for other in others)
        assert one not in front
    (shown,) = found.report.details
    (verdicts,) = (one.cells for one in shown.columns if one.key == "verdict")
    assert verdicts.count("the answer") == 1
    assert len(document(found)["pareto_by_means_alone"]) == len(unsure)
