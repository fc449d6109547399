"""Names that are gone, each with what to write instead: whoever uses one is told so in one line."""

from collections.abc import Mapping
from typing import Final

COMMANDS: Final[Mapping[str, str]] = {
    "plot": "varsim run DIR/scenario.yaml makes a run again, with its plots; "
    "varsim sweep DIR/sweep.yaml --out DIR draws a sweep again, from the runs that are kept",
}
