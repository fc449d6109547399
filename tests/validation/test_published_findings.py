"""Published experiments: what is made of predictions, row by row and in sum."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pytest
from validation.published import ROWS, curve, rows_of, silent, write

from varsim.validation.finding import Finding, Verdict
from varsim.validation.published import findings
from varsim.validation.published.experiment import step_time
from varsim.validation.published.families import family_of
from varsim.validation.published.findings import calibrated
from varsim.validation.published.judging import Prediction, judged, summary, unknown
from varsim.validation.published.table import experiments

PREDICTED = "median of absolute errors"


class TestFindings:
    @pytest.mark.parametrize(
        "only", ["mxnet-1gpu-batch-k80", "vtrain-all*", "tf2017-dgx1-p100-synth"]
    )
    def test_small_experiments_keep_their_bounds(self, only: str) -> None:
        found = findings(None, only, silent)
        for group in {finding.group for finding in found}:
            own = [finding for finding in found if finding.group == group]
            (whole,) = [finding for finding in own if finding.quantity == PREDICTED]
            assert whole.verdict is Verdict.PASS
            # By hand, from the single rows.
            errors = [
                abs(finding.error)
                for finding in own
                if finding.quantity != PREDICTED and finding.verdict is not Verdict.CALIBRATED
            ]
            assert whole.name == f"{len(errors)} predicted rows"
            assert whole.got == pytest.approx(median(errors), rel=1e-12)
            assert "calibrated on" in whole.source
            assert "Fitted: " in whole.source

    def test_every_row_of_what_is_asked_for_is_there(self) -> None:
        found = findings(None, "mxnet-1gpu*", silent)
        rows = [row for row in ROWS if row.experiment.startswith("mxnet-1gpu")]
        single = [finding for finding in found if finding.quantity == "training throughput"]
        assert [finding.expected for finding in single] == [row.value for row in rows]
        assert [finding.source for finding in single] == [row.where for row in rows]
        assert "line 131" in single[0].source

    def test_what_has_no_scenario_is_listed_with_a_reason(self) -> None:
        (accuracy,) = findings(None, "mxnet2015*", silent)
        assert accuracy.verdict is Verdict.NOT_RUN
        assert accuracy.got is None
        assert "15 rows" in accuracy.name
        assert "accuracy" in accuracy.why

    def test_no_bundled_experiment_is_left_out_without_a_reason_of_its_own(self) -> None:
        for experiment, rows in experiments(ROWS):
            if family_of(experiment) is None:
                assert "no scenario" not in unknown(experiment, rows).why, experiment

    def test_an_experiment_of_somebody_else_is_listed(self, tmp_path: Path) -> None:
        path = write(tmp_path, curve(4, "30", experiment="my-cluster"))
        (finding,) = findings(path, None, silent)
        assert (finding.group, finding.verdict) == ("my-cluster", Verdict.NOT_RUN)
        assert finding.why == "no scenario describes this experiment"

    def test_another_file_is_calibrated_on_its_own_rows(self, tmp_path: Path) -> None:
        # 0.1 s and 0.01 s more per example.
        values = {1: 1 / 0.11, 4: 4 / 0.14, 32: 32 / 0.42}
        path = write(tmp_path, *(curve(batch, str(value)) for batch, value in values.items()))
        first, middle, last, whole, *overall = findings(path, None, silent)
        assert [one.verdict for one in (first, last)] == [Verdict.CALIBRATED] * 2
        assert middle.verdict is Verdict.PASS
        assert middle.got == pytest.approx(4 / 0.14, rel=1e-6)
        assert whole.got == pytest.approx(0, abs=1e-6)
        assert [one.group for one in overall] == ["all experiments"] * 2

    def test_rows_without_those_that_they_need_are_not_run(self, tmp_path: Path) -> None:
        path = write(tmp_path, curve(4, "30"), curve(8, "40"))
        found = findings(path, None, silent)
        assert [finding.verdict for finding in found] == [Verdict.NOT_RUN] * 2
        assert "no row to calibrate on tells" in found[0].why

    def test_a_curve_that_falls_makes_no_scenario(self, tmp_path: Path) -> None:
        path = write(tmp_path, curve(1, "1"), curve(32, "9999"))
        (whole, *_) = findings(path, None, silent)
        assert whole.verdict is Verdict.NOT_RUN
        assert whole.why.startswith("what was fitted makes no scenario: Input should be greater")

    def test_odd_rows_are_not_run_and_stop_nobody(self, tmp_path: Path) -> None:
        rows = [
            "hkbu2020-resnet50-25gbe,a,BSP-A2A,resnet50,ring,64,8,,t,9,image/s,,,seen",
            "hkbu2020-bert_base-10gbe,a,BSP-A2A,bert_base,ring,64,8,,t,9,image/s,,,seen",
            "hkbu2020-resnet50-10gbe,a,MINE,resnet50,ring,64,8,,t,9,image/s,,,seen",
            "hkbu2020-resnet50-10gbe,a,BSP-A2A,resnet50,ring,64,9,,t,9,image/s,,,seen",
            "mxnet-p2-scaling-mine,a,MXNet,mine,ps,32,,,t,9,image/s,,,seen",
            "mxnet-p2-scaling-mine,a,MXNet,mine,ps,,2,,t,9,image/s,,,seen",
            "mxnet-p2-scaling-mine,a,MXNet,mine,ps,32,2,,t,-1,image/s,,,seen",
            "mxnet-p2-scaling-mine,a,MXNet,mine,ps,32,17,,t,9,image/s,,,seen",
            "mxnet-p2-scaling-inception_v3,a,MXNet,inception_v3,ps,32,16,,t,9,image/s,,,seen",
            "vtrain-allreduce-a100,a,NCCL,message,all-reduce,,4,,t,1,ms,large,,seen",
        ]
        found = findings(write(tmp_path, *rows), None, silent)
        reasons = [
            "no such network",
            "no row to calibrate on tells",
            "no such method",
            "9 GPUs do not fill machines of 4",
            "on how many workers",
            "does not say its batch",
            "nothing was measured",
            "17 GPUs do not fill machines of 16",
            "no row to calibrate on tells",
            "number of bytes",
        ]
        by_line = {int(one.source.split("line ")[1].rstrip(")")): one for one in found}
        for line, reason in enumerate(reasons, start=2):
            assert by_line[line].verdict is Verdict.NOT_RUN
            assert reason in by_line[line].why

    @pytest.mark.parametrize(
        ("cells", "reason"),
        [
            ("2,1,,step time,9,ms,", "step time in ms, but image/s is predicted"),
            ("2,1,,top-1 accuracy,70,%,", "top-1 accuracy in %, but image/s is predicted"),
            ("2,1,,throughput,9,,", "throughput in no unit, but"),
            ("2,4,,throughput,99,image/s,", "more than the one GPU"),
        ],
    )
    def test_what_is_not_predicted_of_a_row_is_not_compared(
        self, tmp_path: Path, cells: str, reason: str
    ) -> None:
        row = f"mxnet-1gpu-batch-k80,somebody,MXNet,resnet50,single device,{cells},page 3,seen"
        found = findings(write(tmp_path, curve(1, "9"), curve(32, "76"), row), None, silent)
        (left_out,) = [one for one in found if one.verdict is Verdict.NOT_RUN]
        assert reason in left_out.why

    @pytest.mark.parametrize(
        ("strategy", "workers", "reason"),
        [
            ("replicated", 16, "16 GPUs, of which a machine has 8"),
            ("on the moon", 8, "on the moon: no such place of the variables"),
            ("", 8, "no strategy: no such place of the variables"),
        ],
    )
    def test_one_machine_has_eight_gpus_and_three_places(
        self, tmp_path: Path, strategy: str, workers: int, reason: str
    ) -> None:
        row = f"tf2017-dgx1-p100-synth,a,TF,vgg16,{strategy},64,{workers},,t,9,image/s,,,seen"
        (left_out,) = findings(write(tmp_path, row), None, silent)
        assert left_out.verdict is Verdict.NOT_RUN
        assert reason in left_out.why

    def test_what_was_only_remembered_is_no_target(self, tmp_path: Path) -> None:
        path = write(tmp_path, curve(1, "9"), curve(32, "76"), curve(4, "1", status="recalled"))
        (remembered,) = [
            one for one in findings(path, None, silent) if one.verdict is Verdict.NOT_RUN
        ]
        assert remembered.expected == 1
        assert "recalled" in remembered.why

    def test_a_miss_says_why(self) -> None:
        family = family_of("vtrain-allreduce-a100")
        assert family is not None
        row = rows_of(family)[0]
        missed = judged(family, Prediction(row, 2 * row.value, False))
        assert missed.verdict is Verdict.MISS
        assert missed.bound == "within 24%"
        assert missed.why == family.why
        kept = judged(family, Prediction(row, 1.2 * row.value, False))
        assert (kept.verdict, kept.why) == (Verdict.PASS, "")
        used = judged(family, Prediction(row, 2 * row.value, True))
        assert used.verdict is Verdict.CALIBRATED


class TestOrder:
    def orders(self, got: Sequence[float]) -> list[Finding]:
        """Of four methods on 32 GPUs, measured in this order, one nearly as fast as another."""
        family = family_of("hkbu2020-resnet50-10gbe")
        assert family is not None
        rows = [
            row
            for row in rows_of(family)
            if row.experiment == "hkbu2020-resnet50-10gbe" and row.workers == 32
        ]
        chosen = [
            next(row for row in rows if row.system == system)
            for system in ("MG-WFBP", "ByteScheduler-PS", "ByteScheduler-A2A", "BSP-PS")
        ]
        made = [Prediction(row, one, False) for row, one in zip(chosen, got, strict=True)]
        found = summary("hkbu2020-resnet50-10gbe", family, made, [])
        return [one for one in found if one.quantity == "share in the measured order"]

    def test_pairs_too_close_to_tell_do_not_count(self) -> None:
        # 6883.6 and 6889 are one pair; 6 - 1 are told apart.
        for whole in self.orders([7000, 6900, 4700, 4300]):
            assert (whole.name[:1], whole.got, whole.verdict) == ("5", 1.0, Verdict.PASS)
        for whole in self.orders([6900, 7000, 4700, 4300]):
            assert whole.got == 1.0

    def test_a_pair_in_the_wrong_order_is_named(self) -> None:
        for whole in self.orders([7000, 6900, 4300, 4700]):
            assert whole.got == pytest.approx(0.8)
            assert whole.verdict is Verdict.MISS
            assert "ByteScheduler-A2A above BSP-PS (32)" in whole.why


@pytest.fixture(scope="module")
def found() -> list[Finding]:
    return findings(None, None, silent)


@pytest.mark.slow
class TestEverything:
    def test_the_medians_of_errors_keep_their_bounds(self, found: list[Finding]) -> None:
        medians = [finding for finding in found if finding.quantity == PREDICTED]
        assert len({finding.group for finding in medians}) == 27
        assert [one.name for one in medians if one.verdict is not Verdict.PASS] == []
        (overall, _) = [one for one in medians if one.group == "all experiments"]
        assert overall.got is not None
        assert overall.got <= 0.08
        rings = [one for one in medians if "rings" in one.name]
        assert [one.group for one in rings] == [
            "hkbu2020-resnet50-10gbe",
            "hkbu2020-bert_large-10gbe",
        ]
        assert all(one.got is not None and one.got <= 0.04 for one in rings)

    @pytest.mark.parametrize("gpus", ["on 32 GPUs", "on as many GPUs"])
    def test_methods_come_out_in_the_measured_order(self, found: list[Finding], gpus: str) -> None:
        orders = [one for one in found if gpus in one.name]
        assert len(orders) == 5
        assert [one.group for one in orders if one.verdict is not Verdict.PASS] == []
        if gpus == "on 32 GPUs":
            assert all(one.got == 1.0 for one in orders)

    def test_no_experiment_and_no_miss_is_without_a_word(self, found: list[Finding]) -> None:
        groups = {finding.group for finding in found}
        assert {experiment for experiment, _ in experiments(ROWS)} <= groups
        for finding in found:
            if finding.verdict in (Verdict.MISS, Verdict.NOT_RUN):
                assert finding.why

    def test_calibrations_are_the_same_again(self) -> None:
        family = family_of("mxnet-p2-scaling-resnet152")
        assert family is not None
        once = calibrated(family, rows_of(family))
        step_time.cache_clear()
        assert calibrated(family, rows_of(family)) == once

    def test_spread_is_that_of_another_cluster_with_the_same_gpus(self) -> None:
        # Two independent measurements of K80 GPUs tell how different their times are.
        spreads = [
            calibrated(family, rows_of(family))["spread"]
            for family in map(family_of, ("mxnet-p2-scaling-resnet152", "cscs2017-p28xlarge-synth"))
            if family is not None
        ]
        assert spreads[0] == pytest.approx(spreads[1], rel=0.1)
