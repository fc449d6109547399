"""Published measurements, predicted: a part of every experiment is calibrated on, the rest not."""

from typing import Final

from validation.finding import Section
from validation.published.findings import findings, lead

__all__ = ["SECTION", "findings", "lead"]

SECTION: Final = Section(
    "published",
    "Published measurements",
    "Measurements that others published. What one worker does by itself is given, the smallest and "
    "the largest of the other rows tell the constants that they share (which, is said in each "
    "line), the rest is predicted. First come models and experiments on which no constant was "
    "fitted: each is predicted with constants that only others told.",
    "Median absolute error at most 8 % over models, and over experiments, without a constant of "
    "their own; of these at most 4 % for plain rings on 10 GbE, and 12 % on hybrid meshes. At most "
    "8 % over all predicted rows, 4 % for rings on 10 GbE and for batch curves; a single row at "
    "most three times the bound of its experiment.",
)
