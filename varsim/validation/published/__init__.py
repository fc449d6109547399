"""Published measurements, predicted: a part of every experiment is calibrated on, the rest not."""

from varsim.validation.published.findings import findings
from varsim.validation.published.judging import lead
from varsim.validation.published.table import PublishedFileError

__all__ = ["PublishedFileError", "findings", "lead"]
