"""Published experiments: what is made of predictions, row by row and in sum."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.validation.published import ROWS, curve, rows_of, setting_of, silent, write
from validation.finding import Finding, Verdict
from validation.published import findings
from validation.published.findings import LEAD, Prediction, judged, summary
from validation.published.hkbu import Hkbu

PREDICTED = "median of absolute errors"


class TestFindings:
    def test_a_family_is_what_the_rows_say(self, tmp_path: Path) -> None:
        # Other names of experiment, framework and place: the curve is one all the same.
        values = {2: 2 / 0.12, 8: 8 / 0.18, 64: 64 / 0.74}
        lines = [curve(batch, str(v), experiment="my-cluster") for batch, v in values.items()]
        path = write(tmp_path, *(line.replace("MXNet", "mine") for line in lines))
        by_name = {one.name: one for one in findings(path, None, silent)}
        middle = by_name["resnet50, single device, batch 8, 1 worker"]
        assert (middle.group, middle.verdict) == ("my-cluster", Verdict.PASS)
        assert middle.got == pytest.approx(8 / 0.18, rel=1e-6)

    def test_another_file_is_calibrated_on_its_own_rows(self, tmp_path: Path) -> None:
        # 0.1 s and 0.01 s more per example.
        values = {1: 1 / 0.11, 4: 4 / 0.14, 32: 32 / 0.42}
        path = write(tmp_path, *(curve(batch, str(value)) for batch, value in values.items()))
        found = findings(path, None, silent)
        first, middle, last = [one for one in found if one.unit]
        assert [one.verdict for one in (first, last)] == [Verdict.CALIBRATED] * 2
        assert middle.verdict is Verdict.PASS
        assert middle.got == pytest.approx(4 / 0.14, rel=1e-6)
        whole, *overall = [one for one in found if not one.unit]
        assert whole.got == pytest.approx(0, abs=1e-6)
        assert [one.group for one in overall] == ["all experiments"] * 2

    def test_a_curve_that_falls_makes_no_scenario(self, tmp_path: Path) -> None:
        path = write(tmp_path, curve(1, "1"), curve(32, "9999"))
        (whole, *_) = findings(path, None, silent)
        assert whole.verdict is Verdict.NOT_RUN
        assert whole.why.startswith("what was fitted makes no scenario: Input should be greater")

    def test_odd_rows_are_not_run_and_stop_nobody(self, tmp_path: Path) -> None:
        ring = "a,BSP-A2A,resnet50,ring,64,8,,throughput,9,image/s,,,seen"
        rows = {
            f"hkbu,{ring},,10GbE": "does not say how many GPUs a machine has",
            f'hkbu,{ring},"mine, 4 per node",a wire': "does not say how fast it is",
            f"hkbu,{ring.replace('resnet50', 'mine')},,": "mine: its size is not known",
            "d,a,DDP,resnet50,all-reduce,,8,,throughput,9,image/s,,,seen,,": "say its batch",
            f'hkbu,{ring},"mine, 4 per node",10GbE': "no row to calibrate on tells",
            f"hkbu,{ring.replace('BSP', 'OURS')},,": "no such method",
            f'hkbu,{ring.replace(",8,", ",9,")},"a, 4 per node",10GbE': "9 GPUs do not fill",
            "p2,a,MXNet,vgg16,single device,32,,,throughput,9,image/s,,,seen,,": "how many workers",
            "p2,a,MXNet,vgg16,single device,,1,,throughput,9,image/s,,,seen,,": "say its batch",
            "p2,a,MXNet,vgg16,single device,2,1,,throughput,-1,image/s,,,seen,,": "was measured",
            "v,a,NCCL,message,all-reduce,,4,,all-reduce time,1,ms,large,,seen,,": "number of bytes",
            "v,a,NCCL,message,all-reduce,,1,,all-reduce time,1,ms,9 bytes,,seen,,": "to reduce",
        }
        found = findings(write(tmp_path, *rows), None, silent)
        by_line = {int(one.source.split("line ")[1].rstrip(")")): one for one in found}
        for line, reason in enumerate(rows.values(), start=2):
            assert by_line[line].verdict is Verdict.NOT_RUN
            assert reason in by_line[line].why

    def test_what_was_only_remembered_is_no_target(self, tmp_path: Path) -> None:
        path = write(tmp_path, curve(1, "9"), curve(32, "76"), curve(4, "1", status="recalled"))
        (remembered,) = [
            one for one in findings(path, None, silent) if one.verdict is Verdict.NOT_RUN
        ]
        assert remembered.expected == 1
        assert "recalled" in remembered.why

    def test_a_miss_says_why(self) -> None:
        family = setting_of("vtrain-allreduce-a100").family
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
        family = setting_of("hkbu2020-resnet50-10gbe").family
        assert isinstance(family, Hkbu)
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

    def test_a_pair_in_the_wrong_order_is_named(self) -> None:
        for whole in self.orders([7000, 6900, 4300, 4700]):
            assert whole.got == pytest.approx(0.8)
            assert whole.verdict is Verdict.MISS
            assert "ByteScheduler-A2A above BSP-PS (32)" in whole.why


class TestLeftOut:
    def test_a_model_in_the_middle_is_predicted_by_the_others(self, tmp_path: Path) -> None:
        # Three networks on one machine; the one in the middle has 1 GPU given, and nothing else.
        rows = [row for row in ROWS if row.experiment == "tf2017-ec2-dist-k80-synth"]
        path = write(
            tmp_path,
            *(
                f'mine,a,{row.system},{row.model},"{row.strategy}",{row.batch},{row.workers},,'
                f'throughput,{row.value},image/s,synthetic data,,seen,"a GPU, 8 per host",10 GbE'
                for row in rows
                if row.workers <= 16
            ),
        )
        found = findings(path, None, silent)
        names = [one.name for one in found if one.group == LEAD]
        assert names[0].endswith("rows of 3 models")
        assert names[1:] == [
            f"2 rows of model {model}" for model in ("inception_v3", "resnet50", "resnet152")
        ]
        calibrating = {one.name for one in found if one.verdict is Verdict.CALIBRATED}
        assert "resnet50, 1 GPUs, synthetic data" in calibrating
        assert "resnet50, 16 GPUs, synthetic data" not in calibrating
        assert "0 placed" not in found[0].source
