"""Published measurements, predicted: a part of every experiment is calibrated on, the rest not."""

from validation.published.findings import findings, lead
from validation.published.table import PublishedFileError

__all__ = ["PublishedFileError", "findings", "lead"]
