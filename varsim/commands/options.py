"""What several commands take."""

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Argument(metavar="FILE", help="A scenario, in YAML.")]
Seed = Annotated[int | None, typer.Option(metavar="N", help="The same as --set seed=N.")]
Kinds = Annotated[
    list[str],
    typer.Option(
        "--strategy", metavar="KIND", help="Run only this kind (or name) of strategy; repeatable."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
