"""A result of variables in words."""

from varsim.words.program.answer import answer, notes
from varsim.words.program.table import table

__all__ = ["answer", "notes", "table"]
