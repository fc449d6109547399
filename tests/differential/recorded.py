"""Traces of many scenarios as an earlier commit made them, one hash per kind of row.

`python -m tests.differential.recorded` adds what is not there of the bundled scenarios and of what
is drawn. `anew NAME...` makes the digests of stored ones anew, of their stored texts: only where
numbers change on purpose, and in a commit of its own that says which and why. Rows are compared in
the order of worker and iteration, so the order in which an engine writes them does not matter;
losses and bytes are compared within 1e-9, as floating-point sums differ from processor to
processor.
"""

import gzip
import hashlib
import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.building import gradient_rows, scenario
from tests.seams import ProgramTrace, Run, Trace, load_text, run_of_program, run_one
from varsim import Scenario

STORED: Final = Path(__file__).parent / "recorded.jsonl.gz"
# Of anything, of servers with many ties, of runs that are struck, of jobs that outlive that, and of
# programs of variables.
DRAWN: Final = 400, 200, 84, 60, 90
ON_WRITE: Final = {"kind": "on_write"}
LASTING: Final = {"stop": {"global_steps": 2}}
# What was written down although it is the default, and is refused today.
_GONE: Final = re.compile(r"^ +(forwarding: cut_through|check: between)\n", re.MULTILINE)
_MODE: Final = re.compile(r"(?<=  - kind: easgd\n)((?:    .*\n)*?)    mode: .*\n")


def entries() -> list[dict[str, Any]]:
    """What is stored: a scenario's text, and the digests of its strategies' traces."""
    with gzip.open(STORED, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def digests(text: str) -> list[dict[str, Any]]:
    """The digests of replication 0 of each strategy of a scenario."""
    read = load_text(_MODE.sub(r"\1", _GONE.sub("", text)).replace(" law:", " distribution:"))
    if not isinstance(read, Scenario):
        return [digest_of_program(run_of_program(read, mode)) for mode in read.all_modes]
    return [digest(run_one(Run(read, at, 0))) for at in range(len(read.strategies))]


def changed(entry: dict[str, Any]) -> Iterator[str]:
    """What of a stored scenario's digests is not what it is today; floats within 1e-9."""
    for found, stored in zip(digests(entry["text"]), entry["digests"], strict=True):
        for key, value in stored.items():
            if isinstance(value, float) and math.isfinite(value):
                same = math.isclose(found[key], value, rel_tol=1e-9, abs_tol=1e-12)
            else:  # nan as nan
                same = found[key] == value or str(found[key]) == str(value) == "nan"
            if not same:
                yield f"{stored['strategy']}: {key} {value} is now {found[key]}"


def digest(trace: Trace) -> dict[str, Any]:
    """One hash per kind of row (times in ns), and the floats."""
    last = trace.evaluations[-1] if trace.evaluations else None
    return {
        "strategy": trace.strategy,
        "end": trace.end,
        "stopped_by": trace.stopped_by,
        "gradients": _hash(np.array(gradient_rows(trace), dtype=np.int64).reshape(-1, 11)),
        "spans": _hash(trace.spans),
        "sends": _hash(trace.send_rows.array()),
        "steps": _hash(trace.steps.reshape(-1, 1)),
        "evaluations": _hash(np.array([row[:3] for row in trace.evaluations]).reshape(-1, 3)),
        "copy_staleness": _hash(np.sort(trace.copy_staleness).reshape(-1, 1)),
        "life": None if trace.life is None else _hash(trace.life),
        "loss": None if last is None else float(last.loss),
        "bytes": float(sum(link.moved for link in trace.links)),
    }


def digest_of_program(trace: ProgramTrace) -> dict[str, Any]:
    """What a program of variables did and sent, and what its variables hold."""
    rows: dict[str, list[Any]] = {
        "acts": trace.acts,
        "sent": trace.sent_rows,
        "links": trace.links,
        "views": trace.views,
    }
    values = {name: repr([_values(row) for row in held]) for name, held in rows.items()}
    return {
        "strategy": trace.mode,
        "end": trace.end,
        **{name: getattr(trace, name) for name in ("began", "moved", "messages")},
        **{name: hashlib.sha256(text.encode()).hexdigest()[:12] for name, text in values.items()},
    }


def _values(row: Any) -> Any:
    """What a row holds, whatever its fields are called."""
    if isinstance(row, tuple):
        return [_values(one) for one in row]
    return str(row)


def _hash(rows: NDArray[Any]) -> str:
    """Of rows of integers, in an order that depends on nothing but them."""
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    ordered = rows[np.lexsort(rows.T[::-1])] if rows.size else rows
    return f"{len(rows)} {hashlib.sha256(ordered.tobytes()).hexdigest()[:12]}"


def _texts() -> Iterator[tuple[str, str]]:
    """Names and texts of scenarios to record."""
    from tests.oracle.drawing import drawn as of_servers
    from tests.oracle.lives import described
    from tests.oracle.lives import drawn as life
    from tests.properties.drawing import drawn as anything
    from tests.properties.programs import drawn_program
    from tests.properties.test_interruptions import random_scenario
    from tests.seams import dump_scenario

    for path in sorted(Path("scenarios").glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        yield path.stem, re.split(r"\n(?:sweep|plan):\n", text)[0] + "\n"
    for make, many, name in (
        (anything, DRAWN[0], "drawn"),
        (lambda seed: of_servers(f"{seed}/0"), DRAWN[1], "servers"),
        (lambda seed: scenario(**random_scenario(seed)), DRAWN[2], "struck"),
        (lambda seed: scenario(ON_WRITE, **LASTING, **described(life(seed))), DRAWN[3], "life"),
        (drawn_program, DRAWN[4], "program"),
    ):
        for seed in range(many):
            text = dump_scenario(make(seed))
            yield f"{name} {seed}", text


def main() -> None:
    """Add what is not there; of those whose names are given after "anew", make the digests anew."""
    kept = {entry["name"]: entry for entry in entries()}
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()
    match sys.argv[1:]:
        case ["anew", *names]:
            for name in names:
                for difference in changed(kept[name]):
                    print(f"{name}: {difference}")
                kept[name] |= {"commit": commit, "digests": digests(kept[name]["text"])}
        case _:
            for name, text in _texts():
                if name not in kept:
                    made = {"name": name, "commit": commit, "text": text, "digests": digests(text)}
                    kept[name] = made
                    print(name, len(made["digests"]))
    with gzip.GzipFile(STORED, "wb", mtime=0) as file:
        for entry in kept.values():
            file.write((json.dumps(entry) + "\n").encode())


if __name__ == "__main__":
    main()
