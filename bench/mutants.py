"""Mutation testing of a sample: what a selection of tests notices of small changes to the package.

`python -m bench.mutants --seed 1 --number 60 tests/differential "tests/properties tests/oracle"`,
or `--only varsim/cluster/network/fair.py`, to see whether what is about one file is held elsewhere.

Each argument is one run of pytest, cheapest first; a mutant that a run notices is not shown to
the next. A file of `ROOMS` is drawn with a weight of its lines, then one of its places, all alike:
a comparison, a + or -, a constant (plus 1), a `not`, an `and` or `or`, a statement (dropped). A
mutant is killed by a test that fails, and by one that takes three times the CPU time of the
package as it is. Docstrings, annotations, assertions and what is raised are left alone.

Where tests are many, `bench/forks.py` shows a mutant to those alone that run its line.
"""

import argparse
import ast
import math
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
ROOMS: Final = ("cluster", "strategies", "core", "learning", "distribute", "study")
PARTS: Final = "varsim tests scenarios docs validation bench reports README.md pyproject.toml"

_OPPOSITE: Final[dict[type, type]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_DROPPED: Final = (ast.Assign, ast.AugAssign, ast.Expr, ast.Return, ast.Continue, ast.Break)


class Mutant(NamedTuple):
    """A file of the package with one change: its text, the lines, and the change in words."""

    file: str
    line: int
    last: int
    change: str
    text: str


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its syntax tree."""
    tree = ast.parse(text)
    lines = text.splitlines()
    for node in [*_places(tree)]:
        before = ast.unparse(node)
        kept = dict(vars(node))
        if isinstance(node, ast.Compare):
            node.ops = [_OPPOSITE[type(node.ops[0])](), *node.ops[1:]]
        elif (
            isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in _OPPOSITE
        ):
            node.op = _OPPOSITE[type(node.op)]()
        elif isinstance(node, ast.Constant):
            node.value = node.value + 1  # type: ignore[operator]
        elif isinstance(node, ast.UnaryOp):
            node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
        after = ast.unparse(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            after = ast.unparse(node.operand)
        if isinstance(node, ast.expr) or after != before:
            changed = _put(lines, node, after if isinstance(node, ast.stmt) else f"({after})")
            yield Mutant(file, *_span(node), f"{before} -> {after}", changed)
        vars(node).update(kept)
        if isinstance(node, ast.stmt):
            yield Mutant(file, *_span(node), f"{before} -> pass", _put(lines, node, "pass"))


def _places(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """What can be changed, without docstrings, annotations, assertions and what is raised."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for one in value if isinstance(value, list) else [value]:
            if not isinstance(one, ast.AST) or isinstance(
                one, ast.Assert | ast.Raise | ast.JoinedStr
            ):
                continue
            if isinstance(one, ast.Import | ast.ImportFrom | ast.AnnAssign) or _is_text(one):
                continue
            if _is_place(one):
                yield one  # type: ignore[misc]
            yield from _places(one)


def _is_place(node: ast.AST) -> bool:
    match node:
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not() | ast.USub()):
            return True
        case ast.BinOp(op=op):
            return type(op) in _OPPOSITE
        case ast.Constant(value=value):
            return type(value) in (int, float)
    return isinstance(node, _DROPPED)


def _is_text(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _span(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.end_lineno or node.lineno


def _put(lines: Sequence[str], node: ast.expr | ast.stmt, text: str) -> str:
    """The file with one node written anew; columns of syntax trees count bytes."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    first = lines[node.lineno - 1].encode()[: node.col_offset].decode()
    last = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
    whole = [*lines[: node.lineno - 1], first + text + last, *lines[node.end_lineno :]]
    return "\n".join(whole) + "\n"


def drawn(seed: int, number: int, only: Sequence[str] = ()) -> list[Mutant]:
    """So many mutants of the rooms, or of some files only, no two alike."""
    source = random.Random(seed)
    rooms = (sorted((ROOT / "varsim" / room).rglob("*.py")) for room in ROOMS)
    paths = [ROOT / name for name in only] or [path for room in rooms for path in room]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    weights = [text.count("\n") for text in texts]
    found: dict[Mutant, None] = {}
    while len(found) < number:
        [at] = source.choices(range(len(paths)), weights)
        made = [*mutants(str(paths[at].relative_to(ROOT)), texts[at])]
        if made:
            found[source.choice(made)] = None
    return [*found]


def tried(tests: Sequence[str], home: Path, limit: float) -> tuple[str, float]:
    """What a run of pytest says ("" if all pass), and the CPU time it took (s), at most `limit`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    most = (math.ceil(limit),) * 2
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(home), "XDG_CACHE_HOME": str(home / "cache")},
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, most),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode == 0:
        return "", took
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0][:120] if failed else f"exit code {done.returncode}", took


def interval(killed: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % confidence interval of a share (%)."""
    z, share = 1.96, killed / of
    centre = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * math.sqrt(share * (1 - share) / of + (z / (2 * of)) ** 2) / (1 + z * z / of)
    return 100 * (centre - half), 100 * (centre + half)


def shown(tests: Sequence[str], chosen: Sequence[Mutant]) -> Iterator[str]:
    """What the runs of pytest say of each mutant in turn ("" if all pass), in a copy of it all."""
    with tempfile.TemporaryDirectory() as folder:
        home = copied(Path(folder))
        limits = {}
        for one in tests:
            said, took = tried(one.split(), home, 3600)
            assert not said, f"{one} fails without any mutant: {said}"
            limits[one] = 3 * took + 10
            print(f"{took:.0f} s of CPU: {one}", flush=True)
        for mutant in chosen:
            with written(mutant, home):
                runs = (tried(one.split(), home, limits[one])[0] for one in tests)
                said = next(filter(None, runs), "")
            yield said


def copied(home: Path) -> Path:
    """The repository's files, to be changed at will."""
    for part in PARTS.split():
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, home / part)
    return home


@contextmanager
def written(mutant: Mutant, home: Path) -> Iterator[None]:
    """The mutant in place of its file, for as long as it is looked at."""
    place = home / mutant.file
    kept, text = place.stat(), place.read_bytes()
    place.write_text(mutant.text, encoding="utf-8")
    try:
        yield
    finally:
        place.write_bytes(text)
        os.utime(place, ns=(kept.st_atime_ns, kept.st_mtime_ns))


def arguments() -> argparse.ArgumentParser:
    """What says which mutants are drawn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--only", action="append", default=[], metavar="FILE")
    return parser


def tell(chosen: Sequence[Mutant], told: Iterator[str]) -> None:
    """Prints of each mutant whether it is killed, and of each room how many are."""
    killed: dict[str, list[bool]] = defaultdict(list)
    for mutant, said in zip(chosen, told, strict=True):
        for room in (mutant.file.split("/")[1], "all"):
            killed[room].append(bool(said))
        place = f"{mutant.file}:{mutant.line}: {mutant.change}"
        print(f"{'killed' if said else 'SURVIVED'} {place} [{said}]", flush=True)
    for room, ones in sorted(killed.items()):
        low, high = interval(sum(ones), len(ones))
        share = f"{100 * sum(ones) / len(ones):.0f} % (95 % confidence: {low:.0f} to {high:.0f} %)"
        print(f"{room}: {sum(ones)} of {len(ones)} killed: {share}")


if __name__ == "__main__":
    parser = arguments()
    parser.add_argument("tests", nargs="+")
    given = parser.parse_args()
    sample = drawn(given.seed, given.number, given.only)
    tell(sample, shown(given.tests, sample))
