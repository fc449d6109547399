"""A result of training in words."""

from varsim.words.answer import answer
from varsim.words.notes import notes
from varsim.words.table import table

__all__ = ["answer", "notes", "table"]
