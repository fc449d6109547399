"""What a run of training tells, as data: which notes hold for a result, and for which not."""

import math
from collections.abc import Sequence

import pytest

from tests.handmade import a_result, a_scenario, a_trace, result_of
from varsim.cluster.record.trace import Outcome, Trace
from varsim.report.told import Note, Number
from varsim.study.result import Result, simulate


def losing(label: str, losses: Sequence[float], replication: int = 0) -> Trace:
    rows = a_trace().evaluations
    changed = [row._replace(loss=loss) for row, loss in zip(rows, losses, strict=True)]
    return a_trace(label, replication, evaluations=changed)


def noted(result: Result, code: str) -> list[Note]:
    return [note for note in result.report.notes if note.code == code]


def codes(result: Result) -> list[str]:
    return [note.code for note in result.report.headline]


def test_how_much_of_sending_is_hidden_is_a_column() -> None:
    some = [
        a_trace("one", sending=8, hidden=5),
        a_trace("other"),
        a_trace("all", sending=2, hidden=2),
    ]
    shown = result_of(some).table()["sending hidden"]
    assert shown.to_dict() == {"one": "62.5 %", "other": "-", "all": "100 %"}
    assert "sending hidden" not in a_result().table()


def test_staleness_of_pairs_is_in_exchanges() -> None:
    pairs = {"kind": "gossip", "mode": "asynchronous"}
    kinds = ({"kind": "gossip"}, {**pairs, "name": "pairs"}, {"kind": "none"})
    result = simulate(a_scenario(strategies=kinds, stop={"global_steps": 2}))
    units = {row[0]: row[2] for row in result.summary_rows if row[1] == "staleness_mean"}
    assert units == {"gossip": "updates", "pairs": "exchanges", "none": "updates"}
    unit, about = result.metrics["staleness_max"][:2]
    assert unit == "updates or exchanges"
    assert about.startswith("updates between the read and the application of an applied gradient, ")
    assert about.endswith("read of it and its own step: largest of a replication")


def test_evaluations_are_as_often_as_is_said() -> None:
    kinds = ({"kind": "none"}, {"kind": "single"})
    result = simulate(
        a_scenario(strategies=kinds, stop={"global_steps": 60}, targets={"loss": 0.0})
    )
    # Ten batches of 10 examples of each worker.
    for label, every in (("none", 200), ("single", 100)):
        examples = [row.examples for row in result.trace(label).evaluations]
        assert examples[:3] == [0, every, 2 * every]


class TestHeadline:
    def test_the_fastest_its_price_and_the_target(self) -> None:
        result = a_result({"a": (2, 4), "b": (1, 2), "c": (3, 6)}, targets={"loss": 1.0})
        fastest, price, soonest = result.report.headline
        assert fastest.code == "fastest"
        assert fastest.values["best"] == "b"
        assert fastest.values["next"] == "a"
        times = fastest.values["times"]
        assert isinstance(times, Number)
        assert times.mean == pytest.approx(2.0)
        assert set(price.values) == {"stale", "ages", "behind", "wasted"}
        assert (soonest.code, soonest.values["best"]) == ("soonest", "b")
        assert result.report.table.rows == ("b", "a", "c")
        assert result.report.table.best == 1

    def test_the_same_is_a_tie(self) -> None:
        first, *_ = a_result({"a": (1, 2), "b": (1, 2), "c": (2, 4)}).report.headline
        assert (first.code, first.values["tied"], first.values["next"]) == ("tie", ("a", "b"), "c")

    def test_intervals_that_hold_one_are_too_close(self) -> None:
        result = a_result({"a": (3, 3, 3), "b": (2, 3, 4)}, targets={"loss": 1.0})
        assert codes(result) == ["close", "soonest-tie"]

    @pytest.mark.parametrize("paces", [{"a": (1,), "b": (2,)}, {"a": (1, 9), "b": (2, 4)}])
    def test_few_replications_of_what_is_random_name_no_winner(
        self, paces: dict[str, Sequence[int]]
    ) -> None:
        first, *_, last = a_result(paces, targets={"loss": 1.0}).report.headline
        assert (first.code, first.values["count"]) == ("too-few", len(paces["a"]))
        assert (last.code, last.values["count"]) == ("soonest-too-few", len(paces["a"]))

    def test_one_replication_of_what_is_not_random_is_exact(self) -> None:
        law = {"kind": "constant", "value": 2.0}
        network = {"kind": "star", "bandwidth": 100.0, "latency": 0.001}
        cluster = {"workers": 2, "compute": law, "network": network}
        result = a_result({"a": (1,), "b": (2,)}, cluster=cluster)
        assert result.report.headline[0].code == "fastest"
        found = result.estimate("b", "throughput_ratio")
        assert found[:3] == (0.5, 0.5, 0.5)
        assert found.note == "slower"


class TestGrowingLoss:
    def test_a_loss_that_explodes_but_stays_finite_is_said(self) -> None:
        runs = [losing("a", losses, n) for n, losses in enumerate(([2, 1, 0.5], [2, 9, 5e7]))]
        result = Result(a_scenario("a", replications=2), runs, [])
        (note,) = noted(result, "grew")
        assert note.values == {"who": "a", "rate": "0.1", "first": Number(2), "last": Number(5e7)}

    @pytest.mark.parametrize("losses", [[2, 9, 0.5], [2, 2, 2], [2, 1, math.inf]])
    def test_any_other_loss_is_not(self, losses: list[float]) -> None:
        assert noted(result_of([losing("a", losses)]), "grew") == []


class TestOneRateForAll:
    """Losses of updates of very different sizes are not ranked at one learning rate."""

    @staticmethod
    def applying(label: str, gradients: int) -> Trace:
        """Three updates of so many whole gradients together, by a worker each."""
        rows = a_trace().gradients[[0] * gradients].copy()
        rows[:, 9] = Outcome.APPLIED
        return a_trace(label, gradients=rows)

    def test_very_different_sizes_are_said(self) -> None:
        runs = [self.applying("many", 48), self.applying("one", 6)]
        result = result_of(runs, targets={"loss": 1.0})
        (note,) = noted(result, "shared-rate")
        assert note.values == {"low": Number(2.0), "high": Number(16.0)}
        assert codes(result)[-1] == "reached-unranked"

    def test_similar_ones_are_ranked(self) -> None:
        runs = [self.applying("four", 12), self.applying("three", 9)]
        result = result_of(runs, targets={"loss": 1.0})
        assert noted(result, "shared-rate") == []
        assert codes(result)[-1] == "soonest-tie"

    def test_without_values_there_is_no_loss_to_compare(self) -> None:
        timing = {"problem": {"kind": "timing"}, "model": "resnet50", "batch_size": 10}
        runs = [self.applying("many", 24), self.applying("one", 3)]
        assert noted(result_of(runs, workload=timing), "shared-rate") == []

    def test_rates_of_their_own_are_ranked(self) -> None:
        runs = [self.applying("many", 24), self.applying("one", 3)]
        own = tuple(
            {
                "kind": "none",
                "name": label,
                "optimizer": {"kind": "adam", "learning_rate": rate},
            }
            for label, rate in (("many", 0.5), ("one", 0.01))
        )
        workload = {"problem": {"kind": "quadratic"}, "batch_size": 10}
        made = a_scenario(strategies=own, workload=workload)
        result = Result(made, runs, [])
        assert noted(result, "shared-rate") == []
        assert result.table()["learning rate"].to_dict() == {
            "many": "0.5 (adam)",
            "one": "0.01 (adam)",
        }
