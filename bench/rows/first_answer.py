"""How soon the command answers, in processes of their own, as users start them."""

import io
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.measuring import Row, Task, Turns, children, command, in_turn

ROOT = Path(__file__).parents[2]
# Before the first answer was made faster.
BEFORE = "9ec9342"
NOT_THERE = "that commit is not in this copy of the repository"
IMPORTS = "import numpy, simpy, typer, pydantic"
# Much of them is loaded only when it is used, as every run does; pictures need matplotlib, too.
USED = f"{IMPORTS}, ruamel.yaml; numpy.random; pydantic.create_model('A', x=(int, 0))()"
CANVAS = f"{USED}; import matplotlib.figure, matplotlib.backends.backend_agg"
TURNS = 7


def rows(long: bool) -> Iterator[Row]:
    """Commands beside the import of what they are made of, and beside what they took before."""
    with ExitStack() as folders:
        work = Path(folders.enter_context(TemporaryDirectory()))
        (work / "tiny.yaml").write_text((ROOT / "tests" / "small.yaml").read_text())
        (work / "quickstart.yaml").write_text((ROOT / "scenarios" / "quickstart.yaml").read_text())

        def varsim(arguments: str, tree: Path = ROOT) -> Task:
            return command("-m", "varsim", *arguments.split(), tree=tree, folder=work)

        tasks = {
            "imports": command("-c", IMPORTS, folder=work),
            "used": command("-c", USED, folder=work),
            "canvas": command("-c", CANVAS, folder=work),
            "version": varsim("--version"),
            "check": varsim("check tiny.yaml"),
            "no plots": varsim("run tiny.yaml --no-plots --out a"),
            "report": varsim("run tiny.yaml --out a"),
        }
        turns = in_turn(tasks, TURNS, children)
        yield ratio(turns, "a tiny run, --no-plots", "no plots", 2.5)
        yield ratio(turns, "a tiny run with its report and 5 pictures", "report", 4.5)
        yield ratio(turns, "the libraries a run uses, without varsim", "used", None)
        yield ratio(turns, "the same with those for pictures", "canvas", None)
        yield ratio(turns, "varsim check", "check", None)
        yield ratio(turns, "varsim --version", "version", None)
        name = f"the quickstart / that of commit {BEFORE}"
        before = Path(folders.enter_context(TemporaryDirectory()))
        if not unpacked(BEFORE, before):
            yield Row(name, 0.5, None, remark=NOT_THERE)
            return
        tasks = {
            "now": varsim("run quickstart.yaml --out b"),
            "before": varsim("run quickstart.yaml --out c", before),
        }
        command("-m", "compileall", "-q", str(before))()  # as ours is already
        turns = in_turn(tasks, 1, children, warm=True)
        yield Row(name, 0.5, turns.ratio("now", "before"))


def ratio(turns: Turns, name: str, task: str, goal: float | None) -> Row:
    """CPU seconds of a command beside those of the imports."""
    return Row(f"{name} / `{IMPORTS}`", goal, turns.ratio(task, "imports"))


def unpacked(commit: str, folder: Path) -> bool:
    """Put the package of a commit into a folder, if git has it."""
    made = subprocess.run(
        ["git", "archive", commit, "varsim"], cwd=ROOT, capture_output=True, check=False
    )
    if made.returncode == 0:
        with tarfile.open(fileobj=io.BytesIO(made.stdout)) as files:
            files.extractall(folder, filter="data")
    return made.returncode == 0
