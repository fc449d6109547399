"""What is kept in directories, runs and files by kind: what uses this names no internals."""

from varsim.report.files.directory import KINDS as KINDS
from varsim.study.case import Finished
from varsim.study.store import STORE as FILE
from varsim.study.store import Store as Store

__all__ = ["FILE", "KINDS", "Store", "a_run"]


def a_run(number: int) -> Finished:
    """A run that was made, unlike those of other numbers."""
    measured = {"examples_per_s": 1 / (3 + number), "final_loss": float("nan")}
    return Finished(f"{number % 8:064x}", number // 8, 0.1 * number, measured, "", f"{number:064x}")
