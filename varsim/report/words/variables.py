"""A result of variables in words."""

from varsim.report.words.program.answer import answer, notes
from varsim.report.words.program.table import table

__all__ = ["answer", "notes", "table"]
