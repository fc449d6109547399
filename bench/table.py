"""Measures what varsim is to reach, and writes it to reports/benchmarks.md.

    .venv/bin/python -m bench.table [--long] [--only GROUP ... [--merge]]

CPU time, of tasks done in turn: a ratio is the median of the ratios of the turns, and beside it
stand the least and the largest.

To be run on a machine that does nothing else; under two minutes, with --long what takes more. With
--only these parts are printed, and with --merge put into the report; parts that are not measured
stay there, each with the commit that was measured.
"""

import os

# Before numpy is imported anywhere.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.measuring import Row, Spread
from bench.rows import GROUPS, Group
from varsim.version import ENGINE_VERSION, __version__

PLACE = Path(__file__).parents[1] / "reports" / "benchmarks.md"
PACKAGES = ("numpy", "simpy", "pandas", "matplotlib", "pydantic", "typer", "numba")


def main() -> None:
    """Measure the groups that are asked for, and tell each as it is there."""
    parser = argparse.ArgumentParser(prog="python -m bench.table")
    parser.add_argument("--long", action="store_true", help="what takes long, too")
    names = [group.name for group in GROUPS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="GROUP", help=", ".join(names))
    parser.add_argument("--merge", action="store_true", help="put them into the report")
    asked = parser.parse_args()
    begin = "\n".join(head())
    before, parts = kept(PLACE.read_text(encoding="utf-8"))
    if before != begin:
        if asked.merge:
            parser.error("the report is of another machine or other versions: measure all of it")
        parts = {}
    print(begin, flush=True)
    for group in GROUPS:
        if group.name in asked.only if asked.only else asked.long or not group.long:
            lines = []
            for line in told(group, asked.long):
                print(line, flush=True)
                lines.append(line)
            parts[group.title] = "\n".join(lines)
    if asked.merge or asked.only is None:
        wanted = [parts[group.title] for group in GROUPS if group.title in parts]
        PLACE.write_text("\n".join([begin, *wanted]) + "\n", encoding="utf-8")
        print(f"written: {PLACE}", file=sys.stderr)


def kept(report: str) -> tuple[str, dict[str, str]]:
    """How a report begins, and its parts by their titles."""
    begin, *parts = report.rstrip("\n").split("\n\n## ")
    return begin, {part.partition("\n")[0]: f"\n## {part}" for part in parts}


def head() -> Iterator[str]:
    """What this is, where it was measured, and of what."""
    yield "# Benchmarks\n"
    yield "Written by `python -m bench.table`. " + " ".join(__doc__.split("\n\n")[2].split())
    yield (
        f"\n{processor()}, {os.cpu_count()} cores; {platform.system()}, "
        f"Python {platform.python_version()}; varsim {__version__} (engine {ENGINE_VERSION}), "
        + ", ".join(f"{name} {installed(name)}" for name in PACKAGES)
        + "."
    )


def told(group: Group, long: bool) -> Iterator[str]:
    """One part of the table, line by line as it is measured; then how that was."""
    start = time.perf_counter()
    where = f"Commit {commit()}"
    if hasattr(os, "getloadavg"):
        where += f", load {os.getloadavg()[0]:.1f} at the beginning"
    yield f"\n## {group.title}\n"
    yield f"{group.about}\n"
    yield "| | goal | median | least to largest | |"
    yield "|---|---:|---:|---:|---|"
    for row in group.rows(long):
        yield line(row)
    yield f"\n{where}, {time.perf_counter() - start:.0f} s."


def line(row: Row) -> str:
    """A row in Markdown."""
    goal = "" if row.goal is None else f"{number(row.goal)}{row.unit}"
    verdict = "; ".join(filter(None, [row.verdict, row.remark]))
    return f"| {row.name} | {goal} | {measured(row.measured, row.unit)} | {verdict} |"


def measured(spread: Spread | None, unit: str) -> str:
    """The median, and the least and the largest, as two cells."""
    if spread is None:
        return " | "
    around = "" if spread.low == spread.high else f"{number(spread.low)} to {number(spread.high)}"
    return f"{number(spread.median)}{unit} | {around}"


def number(value: float) -> str:
    """With three digits, or all in front of the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def processor() -> str:
    """What the processor is called, as far as the system says."""
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for text in facts.read_text().splitlines():
            if text.startswith("model name"):
                return text.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """What was measured, as far as git knows."""
    asked = ("git", "describe", "--always", "--exclude=*", "--dirty= with changes")
    done = subprocess.run(asked, cwd=PLACE.parent, capture_output=True, check=False, text=True)
    return done.stdout.strip() or "unknown"


def installed(package: str) -> str:
    """Its version, or that it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    main()
