"""Directives that make the reference from the program itself: its models, tables and commands."""

import re
from collections.abc import Callable, Iterator, Mapping

import typer.main
from docutils import nodes
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from varsim.cli.app import app
from varsim.cli.catalogue import TABLES
from varsim.core.refusal import Refusal
from varsim.core.schema import field_docstrings
from varsim.scenario.shape import Shape, described, kinds, members
from varsim.scenario.training import Scenario
from varsim.scenario.variables import VariablesScenario
from varsim.strategies import STRATEGIES
from varsim.study.metrics import TABLE
from varsim.study.tables import COLUMNS, OF_ACTS

# Pages that begin with an example, and the blocks that they are about.
_EXAMPLES: Mapping[str, str] = {
    "workers": "cluster device compute slow_workers overheads",
    "servers": "partitioner server_update",
    "network": "network protocols inside slow_links",
    "workload": "workload problem optimizer layers",
    "strategies": "strategies on staleness_policy variable_averages",
    "all_reduce": "on_write drop_compute",
    "stop": "stop targets report",
    "failures": "events kill restart failures of recorded lemons mistaken checkpoint recovery "
    "spares",
    "memory_and_prices": "memory prices",
}


def keys_of(scenario: type[BaseModel]) -> Iterator[str]:
    """A section for every block of a scenario, and for every kind of what has kinds."""
    seen: set[type[BaseModel]] = set()
    waiting = [("The top level", Shape(scenario))]
    while waiting:
        title, shape = waiting.pop(0)
        model = shape.model
        if model is None or model in seen:
            continue
        seen.add(model)
        if rows := list(_rows(model)):
            yield f"## {title}\n\n{_summary(model)}{_example(title)}\n\n" + _table(
                ("key", "what it says", "what to write", "default"), rows
            )
        for key in model.model_fields:
            below = _models(members([shape], key))
            tagged = {one.model: kind for kind, one in kinds(below).items()}
            for one in below:
                kind = tagged.get(one.model)
                waiting.append((f"`{key}`" + (f", kind `{kind}`" if kind else ""), one))


def _example(title: str) -> str:
    """A link to the page that shows a block."""
    named = [*re.findall("`(.*?)`", title)[::-1], title]
    pages = (page for one in named for page, blocks in _EXAMPLES.items() if one in blocks.split())
    found = next(pages, "index" if title == "The top level" else "")
    return f" [An example](../scenario/{found}.md)." if found else ""


def _models(shapes: list[Shape]) -> list[Shape]:
    """The models among shapes, those in lists, too."""
    found = []
    for shape in shapes:
        if shape.model is not None:
            found.append(shape)
        elif inner := members([shape], 0):
            found += _models(inner)
    return found


def _rows(model: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    docstrings = field_docstrings(model)
    for key, field in model.model_fields.items():
        if key != "kind":
            said = docstrings.get(key) or _sentence(field.description or "")
            yield f"`{key}`", said, _written(members([Shape(model)], key)), _default(field)


def _written(shapes: list[Shape]) -> str:
    """What to write, but for the keys of a mapping: these have a table of their own."""
    if kinds(shapes) or not _models(shapes):
        return described(shapes)
    forms = ["a mapping" if one.model else described([one]) for one in shapes]
    return " or ".join(dict.fromkeys(forms)) + " (below)"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    default = field.default
    if default is None or default == () or isinstance(default, BaseModel):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _sentence(text: str) -> str:
    return text and text[0].upper() + text[1:].removesuffix(".") + "."


def _summary(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").partition("\n\n")[0].replace("\n", " ").strip()


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n"


def keys() -> Iterator[str]:
    """Every key of a scenario of training."""
    yield from keys_of(Scenario)


def keys_of_variables() -> Iterator[str]:
    """Every key of a scenario of variables."""
    yield from keys_of(VariablesScenario)


def strategies() -> Iterator[str]:
    """What each strategy does, step by step, what it is made of, and what does not go together."""
    for kind, model in STRATEGIES.items():
        yield f"## `{kind}`\n\n{_paragraphs(model)}\n"
        for part in model.made_of:
            yield f"### {part.__name__}\n\n{_paragraphs(part)}\n"
        if model.conflicts:
            yield "Refused together:\n"
            yield "\n".join(f"- {_whole(conflict)}" for conflict in model.conflicts) + "\n"


def _paragraphs(described: type) -> str:
    """A docstring in paragraphs."""
    first, _, rest = (described.__doc__ or "").partition("\n\n")
    lines = [line.strip() for line in rest.strip().splitlines()]
    # Sentences that end with their line end a paragraph: else each would be one long block.
    said = "".join(f"{line}\n\n" if line.endswith(".") else f"{line} " for line in lines)
    return f"{first}\n\n{said.strip()}"


def _whole(conflict: Refusal) -> str:
    """A sentence with its settings as they are written."""
    without = conflict.with_.startswith("no ")
    beside = f"{'no ' if without else ''}`{conflict.with_.removeprefix('no ')}`"
    where = f", where `{conflict.where}` is given" if conflict.where else ""
    return conflict.sentence(f"`{conflict.if_}`", beside) + where


def commands() -> Iterator[str]:
    """Every command with its arguments and options."""
    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        rows = [
            (
                ", ".join(f"`{word}`" for word in parameter.opts)
                if parameter.param_type_name == "option"
                else f"`{parameter.name.upper()}`",
                " ".join((getattr(parameter, "help", None) or "").split()),
            )
            for parameter in command.params
            if not getattr(parameter, "hidden", False)
        ]
        said = " ".join((command.help or "").split())
        yield f"## `varsim {name}`\n\n{said}\n\n" + _table(
            ("argument or option", "what it does"), rows
        )


def named() -> Iterator[str]:
    """Everything that a scenario can name."""
    for name, table in TABLES.items():
        rows = [(f"`{one}`", entry.about) for one, entry in table().items()]
        title = name.replace("_", " ").capitalize()
        yield f"## {title}\n\n" + _table(("name", "what it is"), rows)


def metrics() -> Iterator[str]:
    """Every number that runs have, of a sweep or plan, too."""
    rows = [(f"`{name}`", one.unit, one.description) for name, one in TABLE.items()]
    yield _table(("metric", "unit", "what it means"), rows)


def columns() -> Iterator[str]:
    """Every column of every table."""
    for name, table in (COLUMNS | OF_ACTS).items():
        rows = [(f"`{column}`", said) for column, said in table.items()]
        yield f"## `{name}`\n\n" + _table(("column", "what it means"), rows)


def directive(make: Callable[[], Iterator[str]]) -> type[SphinxDirective]:
    """The directive that puts the Markdown of a function into a page."""

    class Generated(SphinxDirective):
        def run(self) -> list[nodes.Node]:
            text = "\n".join(make())
            return self.parse_text_to_nodes(text, allow_section_headings=True)

    return Generated


DIRECTIVES: Mapping[str, Callable[[], Iterator[str]]] = {
    "varsim-keys": keys,
    "varsim-keys-of-variables": keys_of_variables,
    "varsim-strategies": strategies,
    "varsim-commands": commands,
    "varsim-named": named,
    "varsim-metrics": metrics,
    "varsim-columns": columns,
}


def setup(sphinx: Sphinx) -> dict[str, bool]:
    """Make the directives known to Sphinx."""
    for name, make in DIRECTIVES.items():
        sphinx.add_directive(name, directive(make))
    return {"parallel_read_safe": True}
