"""Tables of published measurements: what is read, and what is refused how."""

from pathlib import Path

import pytest

from tests.validation.published import HEADER, ROWS, curve, silent, write
from validation.published import findings
from validation.published.table import PublishedFileError, read_rows


class TestFiles:
    def test_the_bundled_tables_are_read_whole(self) -> None:
        numbers: dict[str, int] = {}
        for row in ROWS:
            numbers[row.file] = numbers.get(row.file, 0) + 1
        assert numbers == {
            "published.csv": 1405,
            "published_adaptdl_t4.csv": 3384,
            "published_dl2_ps.csv": 402,
        }

    def test_every_problem_has_a_line_of_its_own(self, tmp_path: Path) -> None:
        path = write(
            tmp_path,
            curve(4, "many"),
            curve(4, "30"),
            curve(4, "nan"),
            "too,few",
            curve(4, "30").replace(",4,1,", ",4.5,1,"),
            curve(4, "30").replace("mxnet-1gpu-batch-k80", ""),
        )
        with pytest.raises(PublishedFileError) as refusal:
            read_rows(path)
        assert str(refusal.value).splitlines() == [
            f"{path}:2: column 'value': 'many' is not a number",
            f"{path}:4: column 'value': 'nan' is not a number",
            f"{path}:5: 2 columns where the header has 16",
            f"{path}:6: column 'batch_per_worker': '4.5' is not a whole number from 1 to 1,000,000",
            f"{path}:7: column 'experiment': is empty",
        ]

    @pytest.mark.parametrize(
        ("content", "complaint"),
        [
            (b"", "1: the header lacks "),
            (b"a,b\n1,2\n", "1: the header lacks "),
            (b"model,mode,global_batch,servers\n", "1: the header lacks samples_per_s_total, work"),
            (HEADER.encode(), " no measurement there"),
            (b"\xff\xfe\x00", " not UTF-8 text"),
            (HEADER.encode() + b'a,"b\n', "2: "),
        ],
    )
    def test_what_is_no_such_table_is_refused(
        self, tmp_path: Path, content: bytes, complaint: str
    ) -> None:
        path = tmp_path / "some.csv"
        path.write_bytes(content)
        with pytest.raises(PublishedFileError) as refusal:
            findings(path, None, silent)
        (line,) = str(refusal.value).splitlines()
        assert line.startswith(f"{path}:{complaint}")

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(PublishedFileError, match="No such file"):
            findings(tmp_path / "none.csv", None, silent)
