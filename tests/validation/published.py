"""Rows, families and files of published measurements for tests."""

from pathlib import Path

from validation.published.experiment import Calibrated, Family
from validation.published.findings import Setting, known, refused
from validation.published.table import Row, bundled_rows

ROWS = bundled_rows()
HEADER = (
    "experiment,source,system,model,strategy,batch_per_worker,workers,servers,metric,value,unit,"
    "detail,where_read,status,hardware,interconnect\n"
)


def silent(_: str) -> None:
    """Nobody listens."""


def rows_of(family: Family) -> list[Row]:
    return [row for row in ROWS if family.knows(row) and not refused(family, row)]


def settings_of(family: Family) -> list[Setting]:
    return [one for one in known(ROWS, False) if one.family is family]


def told(setting: Setting) -> list[Row]:
    """The rows that tell constants."""
    return setting.told(setting.rows)


def used(setting: Setting) -> list[Row]:
    """The rows that are calibrated on."""
    family = setting.family
    given = [r for r in setting.rows if not refused(family, r) and family.is_given(r)]
    return given + told(setting)


def setting_of(experiment: str) -> Setting:
    """The one that an experiment belongs to."""
    return next(one for one in known(ROWS, False) if one.rows[0].experiment == experiment)


def calibrated(experiment: str) -> Calibrated:
    return setting_of(experiment).calibrated()


def write(folder: Path, *lines: str) -> Path:
    path = folder / "some.csv"
    path.write_text(HEADER + "".join(f"{line}\n" for line in lines))
    return path


def curve(
    batch: int, value: str, experiment: str = "mxnet-1gpu-batch-k80", status: str = ""
) -> str:
    return (
        f"{experiment},somebody,MXNet,resnet50,single device,{batch},1,,throughput,{value},"
        f"image/s,,page 3,{status or 'seen'},my GPU,none"
    )
