"""A result of training in words."""

from varsim.report.words.answer import answer
from varsim.report.words.notes import notes
from varsim.report.words.table import table

__all__ = ["answer", "notes", "table"]
