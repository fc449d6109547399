"""CSV files of measurements: what columns may be called, and what is refused."""

from pathlib import Path

import pytest

from varsim.calibration.forms import FormOptions as Options
from varsim.calibration.forms import read_files
from varsim.calibration.measurement import StepTable, TransferTable, UnreadableError
from varsim.calibration.tables import looks_like_table, read_steps, read_transfers


def transfers(text: str, unit: str | None = None) -> TransferTable:
    assert looks_like_table(text, "t.csv") == "csv"
    return read_transfers(text, "t.csv", unit)


def steps(text: str, unit: str | None = None) -> StepTable:
    assert looks_like_table(text, "t.csv") == "steps"
    return read_steps(text, "t.csv", unit)


def refusal(text: str, unit: str | None = None) -> list[str]:
    reading = read_transfers if looks_like_table(text, "t.csv") == "csv" else read_steps
    with pytest.raises(UnreadableError) as caught:
        reading(text, "t.csv", unit)
    return str(caught.value).splitlines()


class TestTransfers:
    @pytest.mark.parametrize(
        ("header", "size", "seconds"),
        [
            ("bytes,seconds", 2.0, 3.0),
            ("size,time_us", 2.0, 3e-6),
            ("Size (kB); Time (ms)", 2e3, 3e-3),
            ("message_size_MiB\tlatency_ns", 2 * 2.0**20, 3e-9),
            ("nbytes, t[us]", 2.0, 3e-6),
            ('"bytes","seconds"', 2.0, 3.0),
        ],
    )
    def test_units_of_the_header(self, header: str, size: float, seconds: float) -> None:
        separator = ";" if ";" in header else "\t" if "\t" in header else ","
        (found,) = transfers(f"{header}\n2{separator}3\n").transfers

        assert found.size == found.carried == pytest.approx(size)
        assert found.seconds == pytest.approx(seconds)
        assert found.messages == 1

    def test_other_columns_comments_and_empty_lines_are_skipped(self) -> None:
        text = "# from host a to b\n\nrun,bytes,time_us,note\n1,10,5,x\n\n2,20,6,y\n"

        assert [one.size for one in transfers(text).transfers] == [10, 20]

    def test_sizes_that_fall_and_come_again(self) -> None:
        found = transfers("bytes,seconds\n20,2\n10,1\n20,3\n")

        assert [one.size for one in found.transfers] == [20, 10, 20]
        assert found.notes == ("3 times of 2 sizes; every time counts",)

    def test_a_unit_that_only_the_caller_knows(self) -> None:
        assert transfers("bytes,time\n10,5\n", "us").transfers[0].seconds == pytest.approx(5e-6)
        assert refusal("bytes,time\n10,5\n") == [
            "t.csv, line 1, column 2: 'time' has no unit: name it time_ms, time_us or time_s, or "
            "give --unit"
        ]

    def test_many_wrong_lines_are_cut(self) -> None:
        said = refusal("bytes,seconds\n" + "x,1\n" * 100)

        assert len(said) == 21
        assert said[-1] == "and 80 more"


class TestSteps:
    def test_workers_and_steps_in_any_order(self) -> None:
        text = "worker,step,step_time_ms\n1,1,30\n0,1,20\n1,0,40\n0,0,10\n"

        assert steps(text).rows == {
            0: pytest.approx((0.01, 0.02)),
            1: pytest.approx((0.04, 0.03)),
        }

    def test_a_column_per_worker(self) -> None:
        text = "step,worker_0_ms,worker 1 (us)\n0,10,20000\n1,11,\n"

        assert steps(text).rows == {0: pytest.approx((0.01, 0.011)), 1: pytest.approx((0.02,))}
        assert steps("rank0,rank3\n1,2\n", "s").rows == {0: (1.0,), 3: (2.0,)}

    def test_one_column(self) -> None:
        assert steps("seconds\n1.5\n2.5\n").rows == {0: (1.5, 2.5)}
        assert steps("1.5\n2.5\n", "s").rows == {0: (1.5, 2.5)}
        assert refusal("1.5\n2.5\n")[0].startswith(
            "t.csv, line 1: no header says the unit; give --unit ms, or columns may be"
        )

    def test_nothing_of_this_is_a_table(self) -> None:
        assert looks_like_table("name,colour\na,red\n", "t.csv") is None
        assert looks_like_table("hello world\n", "t.csv") is None
        assert looks_like_table("\n# only words\n", "t.csv") is None


class TestFiles:
    def test_files_of_one_column_are_workers_in_turn(self, tmp_path: Path) -> None:
        paths = [tmp_path / name for name in ("a.csv", "b.csv")]
        for number, path in enumerate(paths, start=1):
            path.write_text(f"seconds\n{number}\n")
        found = read_files(paths, Options(), lambda line: None).steps

        assert found is not None
        assert (found.source, found.rows) == ("a.csv, b.csv", {0: (1.0,), 1: (2.0,)})

    def test_files_of_numbered_workers_are_joined(self, tmp_path: Path) -> None:
        paths = [tmp_path / name for name in ("a.csv", "b.csv")]
        paths[0].write_text("worker,seconds\n1,5\n")
        paths[1].write_text("worker,seconds\n0,6\n")
        found = read_files(paths, Options(), lambda line: None).steps
        assert found is not None
        assert found.rows == {0: (6.0,), 1: (5.0,)}

        paths[1].write_text("worker,seconds\n0,6\n1,7\n")
        with pytest.raises(UnreadableError, match=r"b\.csv: worker 1 stands in two files"):
            read_files(paths, Options(), lambda line: None)

    def test_a_file_that_the_law_trace_reads_is_known(self, tmp_path: Path) -> None:
        path = tmp_path / "steps.csv"

        def file() -> str | None:
            found = read_files([path], Options(), lambda line: None).steps
            assert found is not None
            return found.file

        path.write_text("worker,seconds\n0,1\n1,2\n0,3\n")
        assert file() == "steps.csv"
        path.write_text("worker,seconds\n0,1\n2,2\n")  # no worker 1
        assert file() is None
        path.write_text("worker;seconds\n0;1\n1;2\n")
        assert file() is None
