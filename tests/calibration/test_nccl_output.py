"""Output of nccl-tests: read, and refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.calibration.nccl_output import HEADER, SIZES, devices, table
from varsim.calibration.measurement import TransferTable, UnreadableError
from varsim.calibration.nccl import (
    looks_like_nccl_text,
    read_nccl_json,
    read_nccl_text,
    transfers_of,
)

DATA = Path(__file__).parent.parent / "data" / "calibration"
ROW = "1024 256 float sum -1 50.00 0.02 0.03 0 50.00 0.02 0.03 0\n"


def read(
    text: str, source: str = "out.txt", collective: str | None = None, ranks: int | None = None
) -> list[TransferTable]:
    return [transfers_of(one, collective, ranks) for one in read_nccl_text(text, source)]


def refusal(
    text: str, source: str = "out.txt", collective: str | None = None, ranks: int | None = None
) -> str:
    with pytest.raises(UnreadableError) as caught:
        read(text, source, collective, ranks)
    return str(caught.value)


def json_data() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DATA / "all_gather_8.json").read_text())
    return loaded


class TestText:
    def test_a_whole_output(self) -> None:
        (found,) = read((DATA / "all_reduce_16.txt").read_text())

        assert found.what == "all_reduce of 16 ranks, out-of-place times of nccl-tests"
        assert len(found.transfers) == 19
        first = found.transfers[0]
        assert (first.size, first.messages, first.carried) == (1024, 30, 1920)
        assert first.seconds == pytest.approx(149e-6, rel=0.02)

    def test_the_name_stands_in_the_command_line_or_is_given(self) -> None:
        text = devices(4) + table(4, 1e-5, 1e9, redop="none", messages=3, bus=0.75)

        assert read("$ ./all_gather_perf -b 1K\n" + text)[0].what.startswith("all_gather of 4 ")
        assert read("$ ./alltoall_perf_mpi -b 1K\n" + text)[0].what.startswith("alltoall of 4 ")
        assert read(text, collective="alltoall")[0].what.startswith("alltoall of 4 ")

    def test_collective_and_ranks_that_no_line_says_are_asked_for(self) -> None:
        rows = table(12, 1e-6, 20e9)

        assert refusal(devices(12) + rows, "all_reduce.log") == (
            "all_reduce.log: which collective was measured? No line says it; give --collective"
        )
        assert refusal("all_reduce_perf\n" + rows) == (
            "out.txt: how many ranks took part? No line says it; give --ranks"
        )
        given = read(rows, collective="all_reduce", ranks=12)
        assert given[0].what.startswith("all_reduce of 12 ranks")

    def test_ranks_of_a_split_communicator_are_those_of_a_group(self) -> None:
        text = "all_reduce_perf\n" + devices(8, groups=2) + table(4, 1e-6, 20e9)

        assert read(text)[0].what.startswith("all_reduce of 4 ranks")

    def test_several_tests_in_one_file(self) -> None:
        gather = table(4, 1e-5, 1e9, redop="none", messages=3, bus=0.75)
        end = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.2\n"
        concluded = "# Collective test concluded: all_reduce_perf\n"
        text = "./all_reduce_perf\n" + devices(4) + table(4, 1e-5, 2e9) + end + concluded
        first, second = read(text + "./all_gather_perf\n" + devices(4) + gather + end)

        assert first.what.startswith("all_reduce of 4 ranks")
        assert second.what.startswith("all_gather of 4 ranks")

    def test_an_old_version_without_root_and_redop(self) -> None:
        text = (
            "all_gather_perf\n#   Rank  0 Pid   1320 on a device  0 [0x00] Tesla V100\n"
            "#   Rank  1 Pid   2066 on b device  0 [0x00] Tesla V100\n"
            "#       size         count      type     time   algbw   busbw  error     time   algbw "
            "  busbw  error\n   2097152  524288  float  900.0  2.33  1.17  0e+00  901  2.33  1.16  "
            "5e-07\n"
        )
        (found,) = read(text)

        assert found.what.startswith("all_gather of 2 ranks")
        assert found.transfers[0].seconds == pytest.approx(900e-6)

    def test_timestamps(self) -> None:
        stamped = HEADER.replace("#wrong\n", "#wrong timestamp\n")
        line = ROW.replace("\n", "  2025-01-02 03:04:05\n")
        (found,) = read(devices(4) + stamped + line, collective="all_reduce")

        assert [one.seconds for one in found.transfers] == [pytest.approx(50e-6)]

    def test_other_output_between_the_rows_does_not_matter(self) -> None:
        noise = "node-1:23:45 [0] NCCL INFO Connected all rings\n0fed:5:5 [1] NCCL INFO x y z\n"
        (found,) = read(devices(4) + HEADER + ROW + noise + ROW, collective="all_reduce")

        assert len(found.transfers) == 2
        assert "1 sizes occur more than once; every row counts" in found.notes

    def test_empty_and_wrong_rows_are_left_out_and_told_of(self) -> None:
        empty = "0 0 float sum -1 0.00 0.00 0.00 0 0.00 0.00 0.00 0\n"
        wrong = "4096 1024 float sum -1 50.00 0.02 0.03 17 50.00 0.02 0.03 0\n"
        unchecked = "8192 2048 float sum -1 50.00 0.02 0.03 N/A 50.00 0.02 0.03 N/A\n"
        text = devices(4) + HEADER + empty + wrong + unchecked + ROW
        (found,) = read(text, collective="all_reduce")

        assert [one.size for one in found.transfers] == [8192, 1024]
        assert found.notes == (
            "left out: 1 rows of 0 bytes",
            "left out: 1 rows whose data were found wrong (#wrong)",
        )

    def test_what_is_recognised(self) -> None:
        assert looks_like_nccl_text(HEADER)
        assert looks_like_nccl_text(devices(2))
        assert not looks_like_nccl_text("size,count\n1,2\n")


class TestJson:
    def test_a_whole_output(self) -> None:
        (one,) = read_nccl_json(json_data(), "out.json")
        found = transfers_of(one, None, None)

        # Of each process only the first of its 4 ranks is listed.
        assert found.what == "all_gather of 8 ranks, out-of-place times of nccl-tests"
        first = found.transfers[0]
        assert (first.size, first.messages, first.carried) == (16384, 7, 14336)
        assert first.seconds == pytest.approx(7 * 8e-6 + 14336 / 12e9, rel=0.02)

    def test_all_ranks_listed(self) -> None:
        data = json_data()
        data["config"]["devices"] = [{"rank": rank, "group": 0} for rank in range(8)]

        assert read_nccl_json(data, "out.json")[0].ranks == 8

    def test_nothing_listed(self) -> None:
        data = json_data() | {"config": {}, "args": []}
        (one,) = read_nccl_json(data, "all_gather.json")

        assert (one.ranks, one.program) == (None, "")
        assert transfers_of(one, "all_gather", 8).what.startswith("all_gather of 8 ranks")

    def test_in_place_where_that_is_all_there_is(self) -> None:
        data = json_data()
        for result in data["results"]:
            result["out_of_place"] = None

        assert all(row.in_place for row in read_nccl_json(data, "out.json")[0].rows)


def test_the_sizes_here_are_those_of_a_usual_run() -> None:
    (found,) = read(devices(4) + table(4, 1e-5, 1e9), collective="all_reduce")

    assert len(found.transfers) == len(SIZES)
