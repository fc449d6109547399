"""Presets: the tables load, add up, name their sources, and a wrong name gets the nearest ones."""

import csv
from pathlib import Path

import pytest

from varsim.core import presets

DATA = Path(presets.__file__).parent.parent / "data"


def test_a_peak_is_in_flops_per_second() -> None:
    assert presets.device_peak("a100_sxm_80gb", "bf16") == 312e12
    assert presets.device_peak("k80", "fp32") == 4.37e12


def test_a_precision_that_nobody_published_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"t4 has no peak in 'bf16'; it has: fp32, fp16"):
        presets.device_peak("t4", "bf16")


def test_a_matrix_product_is_what_somebody_measured() -> None:
    assert presets.device_matrix_product("a100_sxm_80gb", "bf16") == 271.2e12
    with pytest.raises(ValueError, match="a100_sxm_80gb was measured in fp32, only in bf16"):
        presets.device_matrix_product("a100_sxm_80gb", "fp32")
    with pytest.raises(ValueError, match="t4 was measured in fp16, in no precision"):
        presets.device_matrix_product("t4", "fp16")
    for device in presets.devices().values():
        for precision, rate in device.matrix_products.items():
            assert rate < device.peaks[precision]


@pytest.mark.parametrize(
    ("call", "wrong", "nearest", "plural"),
    [
        (presets.device, "a100", "a100_sxm_40gb", "devices"),
        (presets.device, "A100-SXM-80GB", "a100_sxm_80gb", "devices"),
        (presets.device, "v100_smx2", "v100_sxm2", "devices"),
        (presets.link, "nvlink", "nvlink_1", "links"),
        (presets.link, "nvlink3", "nvlink_3", "links"),
        (presets.link, "25gb", "25gbe", "links"),
        (presets.model, "resnet", "resnet50", "models"),
        (presets.model, "gpt2", "gpt2_small", "models"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(
    call: object, wrong: str, nearest: str, plural: str
) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match="unknown") as caught:
        call(wrong)
    assert nearest in str(caught.value)
    assert f"`varsim list {plural}` shows all" in str(caught.value)


def test_a_name_like_no_other_gets_no_suggestion() -> None:
    with pytest.raises(ValueError, match=r"unknown device 'zzz'; `varsim list devices` shows all"):
        presets.device("zzz")
    with pytest.raises(ValueError, match=r"unknown device ''; `varsim"):
        presets.device("")


def test_a_link_has_payload_bytes_per_second_and_seconds() -> None:
    hdr = presets.link("infiniband_hdr")
    assert (hdr.bandwidth, hdr.latency) == (25e9, 0.6e-6)
    # 1460 of the 1538 bytes of a frame are payload.
    assert presets.link("25gbe").bandwidth == pytest.approx(25e9 / 8 * 1460 / 1538, rel=1e-4)
    assert presets.link("nvlink_4").latency == 3.4e-6


def test_a_latency_that_was_only_recalled_is_missing() -> None:
    for name, link in presets.links().items():
        recalled = name.endswith("gbe") or name.startswith(("efa", "omni_path"))
        assert (link.latency is None) == (
            recalled or name in {"infiniband_ndr", "infiniband_xdr", "dgx_h100"}
        ), name


@pytest.mark.parametrize("name", presets.models())
def test_the_tensors_of_a_model_add_up_to_its_parameters(name: str) -> None:
    profile = presets.model(name)
    assert sum(profile.tensors) == profile.parameters
    assert min(profile.tensors) > 0
    assert profile.train_flops_per_example > 0


def test_resnet50_is_the_one_everybody_knows() -> None:
    profile = presets.model("resnet50")
    assert profile.parameters == 25_557_032
    assert len(profile.tensors) == 161
    assert profile.tensors[0] == 64 * 3 * 7 * 7
    # 4.1 GMAC forward, times 2 for multiply-add, times 3 for forward and backward.
    assert profile.train_flops_per_example == pytest.approx(3 * 2 * 4.09e9, rel=0.01)


@pytest.mark.parametrize("table", ["hardware.csv", "links.csv", "models.csv"])
def test_every_row_has_a_unique_name_and_a_source_and_nothing_recalled(table: str) -> None:
    rows = list(csv.DictReader((DATA / table).read_text(encoding="utf-8").splitlines()))
    names = [row["name"] for row in rows]
    assert len(set(names)) == len(names)
    for row in rows:
        assert row["source"].strip(), row["name"]
        assert "memory" not in row["source"].split(), row["name"]
        assert "recalled" not in row.get("status", ""), row["name"]
        for column, cell in row.items():
            if column.endswith(("_us", "_GBps", "tflops", "_dense", "_direction")) and cell:
                assert float(cell) > 0, (row["name"], column)


def test_measured_speeds_are_those_of_the_table_of_published_measurements() -> None:
    def rows(table: str) -> list[dict[str, str]]:
        return list(csv.DictReader((DATA / table).read_text(encoding="utf-8").splitlines()))

    published = {
        (row["where_read"], row["model"], row["hardware"].split("on ")[-1], float(row["value"]))
        for row in rows("../../validation/data/references/published.csv")
        if row["workers"] == "1" and row["status"] == "seen in stored material"
    }
    precisions = {"fp32", "tf32", "fp16", "bf16"}
    found = rows("measured_speeds.csv")
    for row in found:
        where = row["source"].split(": ", 1)[1]
        hardware = row["hardware"].split("on ")[-1]
        read = where, row["model"], hardware, float(row["examples_per_s"])
        assert read in published, row
        assert "recalled" not in row["status"] + row["hardware"], row
        assert row["precision"] in precisions & set(presets.device(row["device"]).peaks)
        assert presets.model(row["model"]).train_flops_per_example > 0
    keys = ("device", "model", "precision", "batch", "framework", "hardware")
    assert len({tuple(row[key] for key in keys) for row in found}) == len(found)
    assert sum(len(curve.speeds) for curve in presets.all_measured_speeds()) == len(found)


def test_shares_of_a_peak_that_were_measured_hold_the_default_in_their_middle() -> None:
    low, high = presets.measured_shares()
    # 909 images/s of 24.5 GFLOP at 156 TFLOP/s, 154 of 92.8 at 10.6 (with fewer operations).
    assert low == pytest.approx(909 * 24.535e9 / 156e12, rel=1e-4)
    assert high == pytest.approx(154 * 92.8216e9 / 10.6e12, rel=1e-4)
    assert low < 0.4 < high


def test_every_device_has_a_peak_and_every_file_of_tensors_a_model() -> None:
    assert all(device.peaks for device in presets.devices().values())
    files = {path.stem for path in (DATA / "model_tensors").glob("*.csv")}
    assert files == set(presets.models())


def test_the_tables_cannot_be_changed_by_a_caller() -> None:
    with pytest.raises(AttributeError):
        presets.link("25gbe").bandwidth = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        presets.links()["new"] = presets.link("25gbe")  # type: ignore[index]
    with pytest.raises(TypeError):
        presets.device("t4").peaks["fp32"] = 1.0  # type: ignore[index]
