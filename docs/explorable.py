"""Pages with sliders, made beside the site by `varsim explore`; one for each file of `explore/`."""

import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ASIDE = ThreadPoolExecutor(1)
begun: list[Future[None]] = []


def begin(app: Any) -> None:
    """Begin to make them, one by one, while the site is built."""
    if app.builder.name in ("html", "dirhtml"):
        folder = Path(app.outdir) / "explore"
        begun.append(ASIDE.submit(make, folder))


def make(folder: Path) -> None:
    """Make all of them in a folder."""
    folder.mkdir(exist_ok=True)
    bundled = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])}
    for file in sorted((HERE / "explore").glob("*.yaml")):
        page = folder / f"{file.stem}.html"
        command = ["-m", "varsim", "explore", str(file), "--bet", "-q", "--out", str(page)]
        subprocess.run(
            [sys.executable, *command], check=True, env=bundled, stdout=subprocess.DEVNULL
        )


def finish(*_: object) -> None:
    """Wait for them; one that could not be made is an error of the build."""
    while begun:
        begun.pop().result()


def setup(app: Any) -> dict[str, bool]:
    """Know when the site begins to be built, and when it has been."""
    app.connect("builder-inited", begin)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True}
