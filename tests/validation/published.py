"""Rows, families and files of published measurements for tests."""

from pathlib import Path

from varsim.validation.published.experiment import Family
from varsim.validation.published.findings import refused
from varsim.validation.published.table import Row, bundled_rows

ROWS = bundled_rows()
HEADER = (
    "experiment,source,system,model,strategy,batch_per_worker,workers,servers,metric,value,unit,"
    "detail,where_read,status\n"
)


def silent(_: str) -> None:
    """Nobody listens."""


def rows_of(family: Family) -> list[Row]:
    return [row for row in ROWS if family.knows(row.experiment) and not refused(family, row)]


def write(folder: Path, *lines: str) -> Path:
    path = folder / "some.csv"
    path.write_text(HEADER + "".join(f"{line}\n" for line in lines))
    return path


def curve(
    batch: int, value: str, experiment: str = "mxnet-1gpu-batch-k80", status: str = ""
) -> str:
    return (
        f"{experiment},somebody,MXNet,resnet50,single device,{batch},1,,throughput,{value},"
        f"image/s,,page 3,{status or 'seen'}"
    )
