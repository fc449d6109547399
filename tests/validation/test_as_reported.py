"""`python -m validation` gives what `reports/validation` says: what it checks is checked there."""

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from validation.command import app

REPORTED = Path(__file__).parents[2] / "reports" / "validation"


def lines(folder: Path) -> dict[tuple[str, ...], dict[str, str]]:
    """What was found, by section, group, name and quantity."""
    with (folder / "lines.csv").open(encoding="utf-8", newline="") as table:
        return {
            (row["section"], row["group"], row["name"], row["quantity"]): row
            for row in csv.DictReader(table)
        }


def number(text: str) -> float | None:
    return float(text) if text else None


@pytest.mark.parametrize(
    "only",
    [
        *("coll-ring-*", "coll-tree-*", "os-normal-01", "os-gumbel-max-01", "stale-async-mean-05"),
        *("delay-rate-01", "drop-compute-03", "async-quad-mean-01", "s_async_write_02"),
        *("slow-worker*", "vol-bytes*", "overlap-wfbp*", "mxnet-1gpu-batch-k80", "vtrain-all*"),
        pytest.param(None, marks=pytest.mark.slow),
    ],
)
def test_every_line_is_that_of_the_report(only: str | None, tmp_path: Path) -> None:
    options = ["--quiet", "--jobs", "1" if only else "2", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*options, *(["--only", only] if only else [])])
    assert done.exit_code in (0, 3), done.stderr
    found, reported = lines(tmp_path / "out"), lines(REPORTED)
    # Sums over a section are over other lines where only some were asked for.
    found = {key: row for key, row in found.items() if not key[1].startswith("all ")}
    assert found
    if only is None:
        assert {key for key in reported if not key[1].startswith("all ")} == found.keys()
    for key, row in found.items():
        if key in reported:
            assert row["verdict"] == reported[key]["verdict"], key
            assert number(row["got"]) == pytest.approx(number(reported[key]["got"]), rel=2e-3), key
    assert len(found.keys() & reported.keys()) >= 0.8 * len(found)
