"""Pages with sliders, made beside the site by `varsim explore`; one for each file of `explore/`."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def made(app: Any, failure: Exception | None) -> None:
    """Make them when the site has been built."""
    if failure is not None or app.builder.name not in ("html", "dirhtml"):
        return
    folder = Path(app.outdir) / "explore"
    folder.mkdir(exist_ok=True)
    bundled = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])}
    for file in sorted((HERE / "explore").glob("*.yaml")):
        page = folder / f"{file.stem}.html"
        command = ["-m", "varsim", "explore", str(file), "--bet", "-q", "--out", str(page)]
        subprocess.run(
            [sys.executable, *command], check=True, env=bundled, stdout=subprocess.DEVNULL
        )


def setup(app: Any) -> dict[str, bool]:
    """Know when the site has been built."""
    app.connect("build-finished", made)
    return {"parallel_read_safe": True}
