"""Writer of scenarios as YAML, of JSON, and of where results come from: hashes and versions."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, Self

from pydantic import BaseModel

from varsim.cluster.record.trace import Trace
from varsim.core.schema import Grown
from varsim.scenario.document import resolve
from varsim.scenario.extensions import needs
from varsim.scenario.wording import NEEDS
from varsim.version import ENGINE_VERSION, SCHEMA_VERSION, __version__

MADE_BY: Final = "varsim"  # the key by which a summary.json is recognised
_ROWS: Final = ("spans", "gradients", "steps", "copy_staleness")

_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class Asked:
    """A scenario, sweep or plan, which can be asked as by the commands of these names."""

    def replace(self, changes: Mapping[str, object] = _NOTHING, /, **named: object) -> Self:
        """Change values, and check the scenario again.

        Parameters
        ----------
        changes : dict, optional
            Values by their paths: `{"cluster.workers": 16}`. Numbers are SI, texts as in a file.
        **named : object
            Values of keys at the top: `seed=3`.

        Returns
        -------
        Scenario, Sweep or the like
            A new one; this one stays as it is.

        Raises
        ------
        ScenarioError
            With everything that is wrong with it now.

        Examples
        --------
        >>> import varsim
        >>> scenario = varsim.load("slow_worker")
        >>> larger = scenario.replace({"cluster.workers": 8}, seed=3)
        >>> larger.cluster.workers, larger.seed
        (8, 3)

        """
        import varsim

        changed: Self = varsim.load(self, {**changes, **named})
        return changed

    def run(self, *, jobs: int = 1, progress: Callable[[int, int], None] | None = None) -> Any:
        """Run it, as `varsim.run` does.

        Parameters
        ----------
        jobs : int, default 1
            Processes that make the runs.
        progress : callable, optional
            Called as `progress(done, total)` after each run.

        Returns
        -------
        Result, SweepTable or Plan
            What came of it.

        """
        import varsim

        return varsim.run(self, jobs=jobs, progress=progress)

    def check(self) -> Any:
        """Check what a step of each strategy takes, as `varsim.check` does.

        Returns
        -------
        Checked
            The beginning of each strategy, times alone.

        """
        import varsim

        return varsim.check(self)

    def explain(self, **how: Any) -> Any:
        """Explain why it is as slow as it is, as `varsim.explain` does.

        Parameters
        ----------
        **how : object
            `strategies`, `progress` and `steps` of `varsim.explain`.

        Returns
        -------
        Why or Story
            The share of each cause in a step; of variables what happens in their first steps.

        """
        import varsim

        return varsim.explain(self, **how)


class ShownAsFile(Asked, Grown):
    """A scenario, shown as the file that says the same."""

    def __repr__(self) -> str:
        return dump_scenario(self)

    __str__ = __repr__

    def __dir__(self) -> list[str]:
        return [*type(self).model_fields, "kind", "replace", "run", "check", "explain"]


def dump_scenario(scenario: BaseModel) -> str:
    """The whole scenario as YAML, defaults written out; loading it gives an equal Scenario.

    At its end stands what it needs that is not varsim's own.
    """
    content = scenario.model_dump(mode="json", exclude_none=True)
    return "\n".join(block(content)) + "\n" + needs_text(scenario)


def needs_text(*scenarios: BaseModel) -> str:
    """What scenarios need that is not varsim's own, as comments of a scenario file."""
    needed = dict.fromkeys(need for scenario in scenarios for need in needs(scenario))
    return "".join(f"{NEEDS}{need.said}\n" for need in needed)


def block(content: Mapping[str, object], indent: str = "") -> Iterator[str]:
    """The lines of a mapping, its kind first; short lists stay on one line."""
    for key, value in sorted(content.items(), key=lambda item: item[0] != "kind"):
        short = f"{indent}{key}: {flow(value)}"
        if not isinstance(value, dict | list) or not value:
            yield short
        elif isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from block(value, indent + "  ")
        elif all(isinstance(item, dict) for item in value):
            yield f"{indent}{key}:"
            for item in value:
                lines = list(block(item, indent + "    ")) or [f"{indent}    {{}}"]
                yield f"{indent}  - {lines[0].strip()}"
                yield from lines[1:]
        elif len(short) <= _LINE:
            yield short
        else:
            yield f"{indent}{key}:"
            for item in value:
                yield f"{indent}  - {flow(item)}"


def flow(value: object) -> str:
    """A value on one line of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and not _needs_quotes(value):
        return value
    if isinstance(value, str):
        return '"' + "".join(map(_escaped, value)) + '"'
    return "null" if value is None else repr(value)


def _needs_quotes(text: str) -> bool:
    if not _PLAIN.fullmatch(text):
        return True
    try:
        return resolve(text) != text
    except ValueError:
        return True


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    if letter.isprintable():
        return letter
    code = ord(letter)
    return (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )


_LINE: Final = 100
# Kept narrow: whatever is not sure to be read back as the same text is quoted.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_+./](?:[A-Za-z0-9_+./ -]*[A-Za-z0-9_+./-])?")


# Where results come from


def provenance(scenario: ShownAsFile) -> dict[str, str | int]:
    """Hash of the resolved scenario, seed, and versions of package, schema and engine.

    And, where there is any, what it needs that is not varsim's own.
    """
    content = scenario.model_dump(mode="json")
    resolved = json.dumps(content, sort_keys=True)
    return {
        "scenario_sha256": hashlib.sha256(resolved.encode()).hexdigest(),
        "seed": content["seed"],
        "varsim": __version__,
        "schema": SCHEMA_VERSION,
        "engine": ENGINE_VERSION,
        **_needed(scenario),
    }


def provenance_of_many(scenarios: Sequence[ShownAsFile]) -> dict[str, str | int]:
    """`provenance` of what comes of many scenarios, with what any of them needs."""
    made = provenance(scenarios[0]) | _needed(*scenarios)
    made.pop("scenario_sha256")
    return made


def _needed(*scenarios: ShownAsFile) -> dict[str, str]:
    said = dict.fromkeys(need.said for scenario in scenarios for need in needs(scenario))
    return {"needs": "; ".join(said)} if said else {}


def trace_sha256(trace: Trace) -> str:
    """SHA-256 of a trace: rows of integers, losses and bytes to the last bit.

    Statistics are left out, as their last digits depend on versions of libraries.
    """
    digest = hashlib.sha256()
    for name in _ROWS:
        rows = getattr(trace, name)
        digest.update(f"{name} {rows.shape}".encode())
        digest.update(rows.astype("<i8").tobytes())
    stuck = trace.standstill is not None
    losses = [tuple(map(float, row)) for row in trace.evaluations]
    links = [(link.name, float(link.bandwidth), float(link.moved)) for link in trace.links]
    rest = (trace.end, trace.global_step, trace.stopped_by, stuck, losses, links)
    digest.update(repr(rest).encode())
    if trace.model_lost:
        digest.update(b"model lost")
    if trace.life is not None:
        digest.update(trace.life.astype("<i8").tobytes())
    return digest.hexdigest()


def to_json(value: object) -> str:
    """JSON with a line per item, but lists of scalars on one line; nan is null, inf is text."""
    return _json(value, "") + "\n"


def _json(value: object, indent: str) -> str:
    deeper = indent + " "
    if isinstance(value, dict):
        items = [f"{deeper}{json.dumps(key)}: {_json(item, deeper)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}" if items else "{}"
    if isinstance(value, list | tuple):
        if any(isinstance(item, dict | list | tuple) or len(str(item)) > 40 for item in value):
            items = [deeper + _json(item, deeper) for item in value]
            return "[\n" + ",\n".join(items) + f"\n{indent}]"
        with suppress(ValueError):  # nan or inf inside: one by one
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
        return "[" + ", ".join(_json(item, deeper) for item in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return "null" if math.isnan(value) else json.dumps(str(value))
    return json.dumps(value, ensure_ascii=False)
