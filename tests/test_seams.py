"""How many tests name what is inside of varsim: fewer and fewer, so that it can be rebuilt.

`python -m tests.test_seams` prints the files of each folder that do, and counts their cases;
`python -m tests.test_seams outside` the files that do not.
"""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import varsim

TESTS = Path(__file__).parent

# Who may name internals so that others need not: the data of a run, and how scenarios are made.
# And those of TensorFlow's recorded cases, which drive variables as its own tests do.
ADAPTERS = {
    TESTS / "seams.py",
    TESTS / "building.py",
    TESTS / "engines.py",
    TESTS / "storing.py",
    *(path for path in (TESTS / "conformance").rglob("*.py") if "test_" not in path.name),
}

# What `varsim` offers: its names, and two modules that pages of the documentation are about.
OFFERED = {*varsim.__all__, "record", "tf"}

# How many files of each folder name internals, by themselves or through a helper: only ever fewer.
MOST = {
    ".": 20,
    "calibration": 10,
    "cluster": 2,
    "commands": 2,
    "explain": 1,
    "files": 4,
    "load": 1,
    "oracle": 1,
    "plan": 9,
    "plots": 6,
    "report": 8,
    "result": 13,
    "strategies": 1,
    "sweep": 10,
    "tune": 2,
    "validation": 8,
    "values": 7,
    "why": 4,
}

# The share of all cases that stand in such files, in %: only ever less.
MOST_CASES = 19


def opened(path: Path) -> Iterator[str]:
    """Modules and names of the package that a file names, but for what `varsim` itself offers."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                dotted = [f"{module}.{alias.name}" for alias in names]
            case ast.Import(names=names):
                dotted = [alias.name for alias in names]
            case (
                ast.Attribute(value=ast.Name(id="varsim"), attr=name)
                | ast.Constant(value=str(name))
            ):
                dotted = [name if isinstance(node, ast.Constant) else f"varsim.{name}"]
            case _:
                continue
        for name in dotted:
            first, *rest = name.split(".")
            if first != "varsim" or not rest or " " in name:
                continue
            if rest[0] not in OFFERED and is_inside(rest[0]):
                yield name


def is_inside(name: str) -> bool:
    """Whether the package has a folder or file of that name."""
    home = TESTS.parent / "varsim"
    return (home / name).is_dir() or (home / f"{name}.py").is_file()


def helpers(path: Path) -> Iterator[Path]:
    """The files of tests that one imports, and those with its fixtures."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "tests":
            parts = str(node.module).split(".")[1:]
            for module in (parts, *([*parts, alias.name] for alias in node.names)):
                file = TESTS.joinpath(*module).with_suffix(".py")
                if module and file.is_file():
                    yield file
    for folder in path.parents:
        if folder.is_relative_to(TESTS) and (folder / "conftest.py").is_file():
            yield folder / "conftest.py"


@cache
def names_internals(path: Path) -> bool:
    """Whether a file names internals, by itself or through a helper that is no adapter."""
    seen, left = set(), [path]
    while left:
        one = left.pop()
        if one in seen or one in ADAPTERS:
            continue
        seen.add(one)
        if any(opened(one)):
            return True
        left.extend(helpers(one))
    return False


def insiders() -> Counter[str]:
    """How many files of each folder of tests name internals; the adapters are not counted."""
    return Counter(
        folder_of(path)
        for path in TESTS.rglob("*.py")
        if path not in ADAPTERS and names_internals(path)
    )


def folder_of(path: Path) -> str:
    """The folder right under `tests` that a file is in."""
    parts = path.relative_to(TESTS).parts
    return parts[0] if len(parts) > 1 else "."


def cases() -> dict[Path, int]:
    """How many cases each file makes, slow ones, too."""
    made = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-q", "-m", "", str(TESTS)],
        capture_output=True,
        text=True,
        cwd=TESTS.parent,
        check=True,
    )
    lines = [line.rpartition(": ") for line in made.stdout.splitlines()]
    return {
        TESTS.parent / file: int(number)
        for file, _, number in lines
        if file.endswith(".py") and number.isdigit()
    }


def share(of: dict[Path, int]) -> float:
    """Of all cases, the share (%) that stands in files that name internals."""
    return 100 * sum(n for path, n in of.items() if names_internals(path)) / sum(of.values())


def test_fewer_and_fewer_files_name_internals() -> None:
    found = insiders()
    assert {folder: n for folder, n in found.items() if n > MOST.get(folder, 0)} == {}


@pytest.mark.slow
def test_fewer_and_fewer_cases_name_internals() -> None:
    found = cases()
    assert len(found) > 100
    assert share(found) <= MOST_CASES


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("import varsim", []),
        ("from varsim import run, Result", []),
        ("import varsim\nvarsim.load('a.yaml')", []),
        ("from varsim import tf", []),
        ("import varsim.cluster.clock", ["varsim.cluster.clock"]),
        ("from varsim.core import units", ["varsim.core.units"]),
        ("def f():\n    from varsim.cluster import clock", ["varsim.cluster.clock"]),
        ("patch('varsim.study.simulation.can')", ["varsim.study.simulation.can"]),
        ("'varsim.yaml is what run writes'", []),
    ],
)
def test_what_names_internals(text: str, named: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(text, encoding="utf-8")
    assert [*opened(tmp_path / "test_one.py")] == named


if __name__ == "__main__":
    if "outside" in sys.argv:
        outside = (path for path in TESTS.rglob("test_*.py") if not names_internals(path))
        print("\n".join(sorted(str(path.relative_to(TESTS.parent)) for path in outside)))
        sys.exit()
    counted = cases()
    for folder, files in sorted(insiders().items()):
        print(f'    "{folder}": {files},')
    inside = sum(n for path, n in counted.items() if names_internals(path))
    print(f"{inside} of {sum(counted.values())} cases ({share(counted):.1f} %)")
