"""The house rules that a reader relies on, read off the syntax trees of the package."""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.seams import STRATEGIES as KINDS

PACKAGE = Path(__file__).parent.parent / "varsim"
TESTS = Path(__file__).parent

# A file imports from its own layer or any above it in this list, never from one below.
LAYERS = (
    "core record version",
    "learning",
    "distribute",
    "cluster",
    "strategies",
    "scenario",
    "study",
    "calibration tf",
    "report",
    "cli",
)

# Who may import a library; those not named here may be imported anywhere.
LIBRARIES = {
    "simpy": {"cluster"},
    "ruamel": {"scenario"},
    "matplotlib": {"report"},
    "rich": {"report", "cli"},
    "typer": {"cli"},
    "multiprocessing": {"study"},
    "distributed": {"study"},
    "pandas": set(" ".join(LAYERS[6:]).split()),
    "random": set(),
    "sklearn": set(),
    "scipy.stats": {"calibration"},
}

# A file is an idea, not a ruler's length; beyond this it is two.
LONGEST_FILE = 700

MODULES = sorted(PACKAGE.rglob("*.py"))
STRATEGIES = [path for path in MODULES if "strategies" in path.parts]


def unit_of(path: Path) -> str:
    """The part of the house a file belongs to: the folder or file right under the package."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def layer_of(unit: str) -> int:
    found = [index for index, layer in enumerate(LAYERS) if unit in layer.split()]
    assert len(found) == 1, f"varsim/{unit} must stand in exactly one layer of {__file__}"
    return found[0]


def imports(tree: ast.AST) -> Iterator[str]:
    """Every imported module, dotted; `from a import b` as a.b, which covers modules and names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def wrong_layers(unit: str, tree: ast.AST) -> list[str]:
    """Imports that point at a later layer."""
    wrong = []
    for name in imports(tree):
        top, _, rest = name.partition(".")
        if top != "varsim" or not rest:  # the front door, which everybody has come in by
            continue
        if layer_of(rest.split(".")[0]) > layer_of(unit):
            wrong.append(name)
    return wrong


def files_imported(path: Path) -> set[Path]:
    """The files of the package that one imports, in functions and for types, too."""
    found = set()
    for name in imports(tree(path)):
        parts = name.split(".")
        while parts[0] == "varsim" and parts[1:]:
            module = PACKAGE.joinpath(*parts[1:])
            at = next(
                (
                    one
                    for one in (module.with_suffix(".py"), module / "__init__.py")
                    if one.exists()
                ),
                None,
            )
            if at is not None:
                found.add(at)
                break
            parts.pop()
    return found - {path}


def circles(arrows: Mapping[Path, set[Path]]) -> list[list[str]]:
    """Files that import one another, round and round; each circle once."""
    found = []
    reach = {one: set(others) for one, others in arrows.items()}
    changed = True
    while changed:
        changed = False
        for own in reach.values():
            more = set().union(*(reach.get(one, set()) for one in own)) - own
            own |= more
            changed |= bool(more)
    left = {one for one, own in reach.items() if one in own}
    while left:
        one = min(left)
        circle = {other for other in left if other in reach[one] and one in reach[other]}
        found.append(sorted(str(other.relative_to(PACKAGE)) for other in circle))
        left -= circle
    return found


def wrong_libraries(unit: str, tree: ast.AST) -> list[str]:
    """Imports of libraries that belong to other files."""
    return [
        name
        for name in imports(tree)
        for library, homes in LIBRARIES.items()
        if f"{name}.".startswith(f"{library}.") and unit not in homes
    ]


def is_activity(node: ast.AST) -> bool:
    """Is this a function that waits?"""
    if not isinstance(node, ast.FunctionDef) or node.returns is None:
        return False
    return any(isinstance(n, ast.Name) and n.id == "Activity" for n in ast.walk(node.returns))


def takes_an_activity(node: ast.AST) -> bool:
    """Is this a function that is handed an activity, to run it as a process?"""
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(n, ast.Name) and n.id == "Activity"
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        if argument.annotation is not None
        for n in ast.walk(argument.annotation)
    )


def called(node: ast.Call) -> str:
    """The last name of what is called."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def forgotten(tree: ast.AST, activities: set[str], spawners: set[str]) -> list[str]:
    """Calls of activities that are neither waited for nor handed over as a process."""
    fine: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.YieldFrom):
            fine.add(node.value)
        elif isinstance(node, ast.Call) and called(node) in spawners:
            fine.update(node.args)
            # spawn(self.role(job, w) for w in workers)
            fine.update(a.elt for a in node.args if isinstance(a, ast.GeneratorExp | ast.ListComp))
    return [
        f"line {node.lineno}: {called(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and called(node) in activities and node not in fine
    ]


def bare_yields(tree: ast.AST) -> list[str]:
    """But for sentences that a description yields where it refuses something."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    refusals = {id(n) for f in functions if f.name == "refusals" for n in ast.walk(f)}
    yields = [node for node in ast.walk(tree) if isinstance(node, ast.Yield)]
    return [f"line {node.lineno}" for node in yields if id(node) not in refusals]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def waiting_names() -> tuple[set[str], set[str]]:
    """Names of all functions that wait, and of all that run such a function as a process."""
    sources = [p for p in MODULES if unit_of(p) in {"cluster", "strategies"}]
    nodes = [node for path in sources for node in ast.walk(tree(path))]
    activities = {n.name for n in nodes if isinstance(n, ast.FunctionDef) and is_activity(n)}
    spawners = {n.name for n in nodes if isinstance(n, ast.FunctionDef) and takes_an_activity(n)}
    return activities, spawners


def test_the_package_is_there() -> None:
    assert len(MODULES) > 20
    assert len(STRATEGIES) > 5


def broken_in(
    rule: Callable[[Path, ast.Module], object], paths: Sequence[Path] = MODULES
) -> dict[str, object]:
    """The files in which a rule finds something, with what it finds."""
    found = {path: rule(path, tree(path)) for path in paths}
    return {str(path.relative_to(PACKAGE.parent)): said for path, said in found.items() if said}


def test_no_module_imports_a_later_layer() -> None:
    # The package's front door leads everywhere, lazily: see the test below.
    front = {PACKAGE / "__init__.py", PACKAGE / "__main__.py"}
    inside = [path for path in MODULES if path not in front]
    assert broken_in(lambda path, tree: wrong_layers(unit_of(path), tree), inside) == {}


def test_every_module_imports_only_its_own_libraries() -> None:
    assert broken_in(lambda path, tree: wrong_libraries(unit_of(path), tree)) == {}


def test_random_numbers_are_drawn_only_from_named_streams() -> None:
    makers = {"default_rng", "RandomState", "SeedSequence", "PCG64", "MT19937"}

    def made(path: Path, tree: ast.Module) -> object:
        used = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)} & makers
        return used or "np.random.seed" in path.read_text(encoding="utf-8")

    assert broken_in(made, [path for path in MODULES if path.name != "stream.py"]) == {}


def test_no_file_is_too_long() -> None:
    lengths = {
        str(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in (*MODULES, *TESTS.rglob("*.py"))
    }
    assert {path: length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def test_public_methods_are_documented_where_they_are_first_defined() -> None:
    classes: dict[str, list[ast.ClassDef]] = {}
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(node)

    def inherited(owner: ast.ClassDef) -> set[str]:
        names = {n.id for base in owner.bases for n in ast.walk(base) if isinstance(n, ast.Name)}
        parents = [one for name in names - {owner.name} for one in classes.get(name, ())]
        methods = {m.name for one in parents for m in one.body if isinstance(m, ast.FunctionDef)}
        return methods.union(*map(inherited, parents))

    def bare(path: Path, tree: ast.Module) -> list[str]:
        return [
            f"{owner.name}.{method.name}"
            for owner in ast.walk(tree)
            if isinstance(owner, ast.ClassDef) and not owner.name.startswith("_")
            for method in owner.body
            if isinstance(method, ast.FunctionDef)
            and not method.name.startswith("_")
            and ast.get_docstring(method) is None
            and method.name not in inherited(owner)
        ]

    assert broken_in(bare) == {}


def test_no_strategy_imports_another() -> None:
    def others(path: Path, tree: ast.Module) -> object:
        return used(tree) & known - {path.stem}

    def used(tree: ast.Module) -> set[str]:
        return {n.split(".")[2] for n in imports(tree) if n.startswith("varsim.strat")}

    table = PACKAGE / "strategies" / "__init__.py"
    known = used(tree(table)) - {"base", "traits"}
    assert broken_in(others, [path for path in STRATEGIES if path != table]) == {}


def test_strategies_begin_with_their_loops() -> None:
    """What a paper has as its algorithm comes before checks, traits and aliases."""

    def late(path: Path, tree: ast.Module) -> list[str]:
        found = []
        for owner in (node for node in tree.body if isinstance(node, ast.ClassDef)):
            methods = [node for node in owner.body if isinstance(node, ast.FunctionDef)]
            loops = [is_activity(method) for method in methods]
            if loops != sorted(loops, reverse=True):
                found.append(owner.name)
        return found

    assert broken_in(late, STRATEGIES) == {}


def test_nobody_asks_of_what_kind_a_strategy_is() -> None:
    """But for `single`, the yardstick; all else follows from what a strategy declares."""
    kinds = KINDS.keys() - {"single"}

    def asked(path: Path, tree: ast.Module) -> object:
        compared = [n for n in ast.walk(tree) if isinstance(n, ast.Compare)]
        sides = [(ast.unparse(n.left), [*n.comparators, n.left]) for n in compared]
        return {
            one.value
            for left, values in sides
            if left.split(".")[-1] == "kind"
            for value in values
            for one in ast.walk(value)
            if isinstance(one, ast.Constant) and one.value in kinds
        }

    assert broken_in(asked) == {}


def test_two_places_ask_which_engine_it_will_be() -> None:
    """Who makes a run, and the command, which tells of it."""
    asking = {
        str(path.relative_to(PACKAGE)) for path in MODULES if "engine_of(" in path.read_text()
    }
    assert asking == {"study/simulation.py", "cli/runs.py"}


def test_modules_are_not_named_in_strings() -> None:
    """But at the front door, which leads everywhere: who imports whom is read off the imports."""
    places = (path.relative_to(PACKAGE.parent).with_suffix("") for path in MODULES)
    named = {".".join(place.parts) for place in places}

    def strings(path: Path, found: ast.Module) -> set[str]:
        texts = (one.value for one in ast.walk(found) if isinstance(one, ast.Constant))
        return named & {text for text in texts if isinstance(text, str)}

    inside = [path for path in MODULES if path != PACKAGE / "__init__.py"]
    assert {path: own for path in inside if (own := strings(path, tree(path)))} == {}


def test_strategies_wait_only_through_yield_from() -> None:
    assert broken_in(lambda path, tree: bare_yields(tree), STRATEGIES) == {}


def test_strategies_forget_no_activity() -> None:
    names = waiting_names()
    assert broken_in(lambda path, tree: forgotten(tree, *names), STRATEGIES) == {}


def test_activities_outside_the_cluster_only_delegate() -> None:
    for path in MODULES:
        if unit_of(path) == "cluster":
            continue
        for node in ast.walk(tree(path)):
            assert not is_activity(node) or bare_yields(node) == [], path


def test_no_files_import_one_another() -> None:
    """Not in functions, and not for types either; the front door leads everywhere, lazily."""
    inside = [path for path in MODULES if path != PACKAGE / "__init__.py"]
    assert circles({path: files_imported(path) for path in inside}) == []


def closure(path: Path) -> set[Path]:
    """All files of the package that one needs, itself included."""
    found, ahead = {path}, [path]
    while ahead:
        new = files_imported(ahead.pop()) - found
        found |= new
        ahead += new
    return found


def test_the_simplest_strategy_needs_little_of_the_cluster() -> None:
    """No copies, failures, checkpoints or evaluations: a job knows none of them."""
    needed = closure(PACKAGE / "strategies" / "none.py")
    of_cluster = [path for path in needed if unit_of(path) == "cluster"]
    assert len(of_cluster) <= 25


def test_every_unit_of_the_list_exists() -> None:
    units = {unit_of(path) for path in MODULES}
    assert set(" ".join(LAYERS).split()) <= units


def test_importing_the_package_imports_nothing_of_it() -> None:
    """Only names for the type checker stand at the top of `varsim/__init__.py`."""
    at_run_time = [
        node for node in tree(PACKAGE / "__init__.py").body if not isinstance(node, ast.If)
    ]
    assert not [name for node in at_run_time for name in imports(node) if "varsim" in name]


class TestTheRulesThemselves:
    """Each rule catches what it is there to catch."""

    def test_a_later_layer(self) -> None:
        assert wrong_layers("learning", ast.parse("from varsim.cluster.clock import Clock"))
        assert wrong_layers("scenario", ast.parse("from varsim import study"))
        assert wrong_layers("cluster", ast.parse("import varsim.strategies.none"))
        assert not wrong_layers("cluster", ast.parse("from varsim.core import presets"))

    def test_a_circle(self) -> None:
        one, other, apart = (PACKAGE / name for name in ("one.py", "other.py", "apart.py"))
        arrows = {one: {other}, other: {one, apart}, apart: set()}
        assert circles(arrows) == [["one.py", "other.py"]]

    def test_a_library_in_the_wrong_place(self) -> None:
        assert wrong_libraries("strategies", ast.parse("import simpy.events"))
        assert wrong_libraries("study", ast.parse("from scipy import stats"))
        assert not wrong_libraries("cluster", ast.parse("from simpy.events import Event"))
        assert not wrong_libraries("learning", ast.parse("from scipy.special import gamma"))

    @pytest.mark.parametrize(
        ("line", "caught"),
        [
            ("worker.fetch()", True),
            ("x = worker.fetch()", True),
            ("x = [worker.fetch()]", True),
            ("x = yield from worker.fetch()", False),
            ("job.spawn(worker.fetch())", False),
            ("job.spawn(worker.fetch() for worker in job.workers)", False),
            ("worker.count()", False),
        ],
    )
    def test_a_forgotten_activity(self, line: str, caught: bool) -> None:
        tree = ast.parse(f"def role(job, worker):\n    {line}")
        assert bool(forgotten(tree, {"fetch"}, {"spawn"})) is caught

    def test_what_waits_is_found_by_its_annotation(self) -> None:
        waits, runs, other = ast.parse(
            "def a() -> Activity[None]: ...\n"
            "def b(process: Activity[None]) -> None: ...\n"
            "def c() -> int: ..."
        ).body
        assert [is_activity(node) for node in (waits, runs, other)] == [True, False, False]
        assert [takes_an_activity(node) for node in (waits, runs, other)] == [False, True, False]

    def test_a_bare_yield(self) -> None:
        assert bare_yields(ast.parse("def f():\n    yield event"))
        assert not bare_yields(ast.parse("def f():\n    yield from event()"))


def test_no_class_name_means_two_things() -> None:
    """But for `varsim.tf`, whose names are TensorFlow's."""
    homes: dict[str, list[str]] = {}
    for path in MODULES:
        if unit_of(path) != "tf":
            for node in tree(path).body:
                if isinstance(node, ast.ClassDef):
                    homes.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
