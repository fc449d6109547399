"""The public API reads in `help()`: parameters, what is returned and raised, examples that run."""

import doctest
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

import varsim

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "api.md"
# What the reference says: functions, and of classes the names that are offered.
FUNCTIONS = re.findall(r"^.. autofunction:: varsim\.(\w+)$", PAGE.read_text("utf-8"), re.M)
CLASSES = {
    one: names.split(", ") if names else []
    for path, names in re.findall(
        r"^.. auto(?:class|exception):: ([\w.]+)(?:\n   :members: ?(.*))?$",
        PAGE.read_text("utf-8"),
        re.M,
    )
    for one in [resolve_name(path)]
}
SHOWN, *RESULTS = [one for one in CLASSES if hasattr(one, "offers")]


def offered() -> Iterator[tuple[str, Any]]:
    """Every public function, and every method or property of what they return, by its name."""
    yield from ((name, getattr(varsim, name)) for name in FUNCTIONS)
    for kind, names in CLASSES.items():
        yield kind.__name__, kind
        for name in names or [name for name in vars(kind) if not name.startswith("_")]:
            yield f"{kind.__name__}.{name}", inspect.getattr_static(kind, name, None)


OFFERED = dict(offered())


def sections(text: str) -> dict[str, str]:
    """The parts of a docstring, by their headings; what is before them by the empty text."""
    parts = re.split(r"^(\w+)\n-+\n", inspect.cleandoc(text), flags=re.M)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", OFFERED)
def test_every_public_name_says_what_it_is(name: str) -> None:
    thing = OFFERED[name]
    if not callable(thing) and not hasattr(thing, "__get__"):
        return  # a field: its class says what it is
    first = (thing.__doc__ or "").partition("\n")[0]
    assert re.match(r"[A-Z`].{15,}\.$", first), first
    if not inspect.isfunction(thing):
        return
    parts = sections(thing.__doc__ or "")
    signature = inspect.signature(thing)
    taken = [one for one in signature.parameters.values() if one.name != "self"]
    told = re.findall(r"^(\*{0,2}\w+(?:, \*?\w+)*) : \S", parts.get("Parameters", ""), re.M)
    told = [one for line in told for one in line.split(", ")]
    assert told == [str(one).partition(":")[0].partition("=")[0] for one in taken]
    assert "Returns" in parts
    if thing in map(OFFERED.get, FUNCTIONS):
        assert ">>> import varsim" in parts["Examples"] or "varsim" in parts["Examples"]
        assert "Raises" in parts or name == "tell"


def test_the_reference_has_what_there_is() -> None:
    assert {*FUNCTIONS, "Scenario", "ScenarioError", "__version__"} == {*varsim.__all__}
    for kind in RESULTS:
        assert [*SHOWN.offers, *CLASSES[kind]] == [*dict.fromkeys((*SHOWN.offers, *kind.offers))]


def test_results_list_what_they_offer_and_nothing_else() -> None:
    result = varsim.run("slow_worker", {"stop.time": 2}, strategies=["single"])
    assert sorted(dir(result)) == sorted(type(result).offers)
    of_programs = {"acts", "sent"}
    assert all(hasattr(result, name) for name in {*dir(result)} - of_programs)
    for name in of_programs:
        with pytest.raises(ValueError, match="acts and sent are of programs of variables"):
            getattr(result, name)
    assert {"name", "cluster", "kind", "replace", "run"} < {*dir(result.scenario)}
    assert "parse_obj" not in dir(result.scenario)


def test_their_examples_run() -> None:
    """In a process of its own, from elsewhere: an example registers things, and needs no file."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(Path(__file__))],
        capture_output=True, text=True, cwd="/", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) >= 15


if __name__ == "__main__":
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    things = {id(one): (name, one) for name, one in OFFERED.items() if callable(one)}
    for name, one in things.values():
        for test in finder.find(one, name, globs={}):
            runner.run(test)
    print(runner.summarize(verbose=False).attempted)
    sys.exit(runner.failures)
