"""Reader of a `sweep` block, with changes from the command line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from varsim.core.measured_times import read_step_times
from varsim.core.schema import Model
from varsim.scenario.change import ChangeError, changed, put, remark, steps
from varsim.scenario.document import (
    NOTHING,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    Unreadable,
    copied,
    plain,
    read_document,
)
from varsim.scenario.fault import Fault, Mark, ScenarioError, Source, nearest, quoted
from varsim.scenario.loading import LoadingContext, model_of, modelled, read_text
from varsim.scenario.shape import Shape, field_names, members, read_from
from varsim.scenario.space import (
    MOST_REPLICATIONS,
    PRECISION,
    Axis,
    Quantity,
    SpaceError,
    Sweep,
    dimension_at,
    dimension_of,
    points_of,
    text_of,
    value_of,
    values_of,
)
from varsim.scenario.where import Constraint, ConstraintError, parse
from varsim.scenario.writing import block, flow

BLOCK: Final = "sweep"
# The keys of the block that are no paths of the scenario.
KEYS: Final = ("zip", "where", "precision", "most_replications")
# What a sweep cannot vary, and why.
_FIXED: Final = {
    "name": "the name says where results go",
    "replications": "how often a point is run follows from precision and most_replications",
    "sweep": "one sweep per file",
    "kind": "it says what kind of scenario this is",
}
_KEPT: Final = (
    "is not varied: its times are kept with the sweep; vary the whole distribution, "
    "[{kind: trace, file: a.csv}, {kind: trace, file: b.csv}]"
)
_PERCENT: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+) ?%")
_LIST: Final = "write a list of values after the path, for example cluster.workers: [4, 8, 16]"


def tree_of(text: str, source: Source) -> MappingNode:
    """The tree of a scenario; ScenarioError where there is none."""
    root, faults = read_document(text, source)
    if not isinstance(root, MappingNode) or faults:
        raise ScenarioError(faults or [Fault(source, 0, 0, NOTHING)])
    return root


def load_sweep(
    path: str | Path,
    sets: Sequence[str] = (),
    precision: float | None = None,
    most_replications: int | None = None,
    strategies: Sequence[str] = (),
) -> Sweep:
    """The sweep of a file. Each of `sets` is `path=value`, or `path=1,2,4` for another axis.

    `strategies`: the kinds or labels of those that will be run; the others need not fit.
    `precision` (a share) and `most_replications` are used instead of what the file says.
    Raises ScenarioError with everything that is wrong with the file and the changes.
    """
    path = Path(path)
    return sweep_of_text(
        read_text(path), str(path), path.parent, sets, precision, most_replications, strategies
    )


def sweep_of_text(
    text: str,
    name: str = "scenario",
    folder: Path = Path(),
    sets: Sequence[str] = (),
    precision: float | None = None,
    most_replications: int | None = None,
    strategies: Sequence[str] = (),
) -> Sweep:
    """The sweep of a YAML text; see `load_sweep`."""
    source = Source(name)
    root = tree_of(text, source)
    if "plan" in root.keys:
        message = f"this file asks for a plan: 'varsim plan {name}'; a sweep has a file of its own"
        raise ScenarioError([Fault.at(root.keys["plan"], message)])
    given = SweepBlock(root)
    mark = root.keys.pop(BLOCK, Mark(source, 0, 0))
    if BLOCK in root.values:
        given.read(mark, root.values.pop(BLOCK))
    for order, change in enumerate(sets, 1):
        given.change(change, order)
    if not given.axes and not given.faults:
        message = "nothing to sweep: add a block 'sweep:', or --set cluster.workers=4,8,16"
        given.faults.append(Fault.at(mark, message))
    if given.faults:
        raise ScenarioError(given.faults)
    context = LoadingContext(folder, tuple(strategies))
    points = tuple(points_of(root, given.axes, given.constraints, context).values())
    first = points[0].scenario.replications
    most = most_replications or given.settings.most_replications or max(MOST_REPLICATIONS, first)
    if most < first:
        where = Fault.at(given.most_mark, "") if given.most_mark else Fault(source, 0, 0, "")
        message = f"most_replications is {most}, but replications, the least, is {first}"
        raise ScenarioError([Fault(where.source, where.line, where.column, message)])
    known = {"precision": precision or given.settings.precision, "most_replications": most}
    given.settings = given.settings.model_copy(update=known)
    quantities = [
        quantity._replace(group=group)
        for group, axis in enumerate(given.axes)
        for quantity in axis.quantities
    ]
    return Sweep(
        points[0].scenario.name,
        tuple(quantities),
        points,
        first,
        most,
        given.settings.precision,
        given.yaml(folder),
        tuple(strategies),
    )


def percentage(given: object) -> float:
    """`2 %` as a share above 0 and below 1; ValueError otherwise."""
    found = _PERCENT.fullmatch(str(given).strip())
    if found is None or not 0 < float(found[1]) < 100:
        raise ValueError(f"{quoted(str(given))} is not a percentage above 0 (for example 2 %)")
    return float(found[1]) / 100


Percentage: TypeAlias = Annotated[
    float,
    BeforeValidator(percentage),
    WithJsonSchema({"type": "string", "examples": ["2 %"]}),
]


class Settings(Model):
    """How well a sweep is to be known: the keys of its block that say nothing of its points."""

    precision: Percentage = PRECISION
    most_replications: int | None = Field(None, ge=1, le=10_000)


@dataclass
class SweepBlock:
    """Sweep block; `root` is the tree of the scenario without it."""

    root: MappingNode
    axes: list[Axis] = field(default_factory=list)
    constraints: list[tuple[Mark, Constraint]] = field(default_factory=list)
    settings: Settings = field(default_factory=Settings)
    most_mark: Mark | None = None
    faults: list[Fault] = field(default_factory=list)

    def read(self, mark: Mark, node: Node) -> None:
        """Add the block of a file."""
        if not isinstance(node, MappingNode):
            if not (isinstance(node, ScalarNode) and isinstance(node.value, Unreadable)):
                self.faults.append(Fault.at(mark, _LIST))
            return
        own = [key for key in node.keys if key in Settings.model_fields]
        marks = {key: node.keys[key] for key in own}
        said = MappingNode(mark, marks, {key: node.values[key] for key in own})
        settings, faults, _ = modelled(Settings, said, LoadingContext())
        self.settings = settings or self.settings
        self.faults += faults
        if "most_replications" in own:
            self.most_mark = node.values["most_replications"].mark
        for key, value in node.values.items():
            if key in own:
                continue
            try:
                self._read_key(key, node.keys[key], value)
            except SpaceError as error:
                self.faults.append(Fault.at(error.mark, str(error)))

    def change(self, change: str, order: int) -> None:
        """Apply one --set: an axis where it has several values, else a change of all points."""
        path, _, text = change.partition("=")
        mark = Mark(Source(f"--set {change}", order=order), 1, 1)
        try:
            found = tuple(steps(path, self.root))
            if found[0] == BLOCK:
                raise ChangeError(
                    "the sweep's settings are given by --precision and --most-replications, "
                    "an axis by --set PATH=1,2,4"
                )
            values = _several(text, mark, self._shapes(found))
            quantity = self._quantity(path, mark) if values is not None else None
        except (ChangeError, SpaceError) as error:
            self.faults.append(Fault.at(mark, str(error)))
            return
        place = self._drop(found, mark)
        if any(_within(found, path) for axis in self.axes for path in axis.paths):
            message = f"{path.strip()} is part of what is swept: its values say what it is"
            self.faults.append(Fault.at(mark, message))
            return
        if values is None or quantity is None:
            self.faults += changed(self.root, change, order, model_of(self.root))
            return
        shapes = self._shapes(found)
        try:
            self._add([(quantity, values_of(values, shapes))], place)
        except SpaceError as error:
            self.faults.append(Fault.at(mark, str(error)))

    def yaml(self, folder: Path) -> str:
        """Scenario file with this block, the contents of files in `folder` written out."""
        scenario = _listed(plain(self.root), folder)
        assert isinstance(scenario, dict)
        lines = [*block(scenario), f"{BLOCK}:"]
        for axis in self.axes:
            indent = "  "
            if len(axis.paths) > 1 and "  zip:" not in lines:
                lines.append("  zip:")
            for index, quantity in enumerate(axis.quantities):
                values = [_listed(plain(chosen[index]), folder) for chosen in axis.values]
                if len(axis.paths) > 1:
                    indent = "    - " if index == 0 else "      "
                lines.append(f"{indent}{flow(quantity.path)}: {flow(values)}")
        if self.constraints:
            lines.append("  where:")
            lines += [f"    - {flow(constraint.text)}" for _, constraint in self.constraints]
        lines.append(f"  precision: {100 * self.settings.precision:.10g} %")
        lines.append(f"  most_replications: {self.settings.most_replications}")
        return "\n".join(lines) + "\n"

    def _read_key(self, key: str, mark: Mark, value: Node) -> None:
        if key == "zip":
            groups = value.items if isinstance(value, SequenceNode) else [value]
            for group in groups:
                self._zip(mark, group)
        elif key == "where":
            lines = value.items if isinstance(value, SequenceNode) else [value]
            self.constraints += [self._constraint(line) for line in lines]
        else:
            quantity = self._quantity(key, mark)
            self._add([(quantity, values_of(value, self._shapes(quantity.place)))])

    def _zip(self, mark: Mark, group: Node) -> None:
        if not isinstance(group, MappingNode) or len(group.values) < 2:
            raise SpaceError(mark, "zip takes a mapping of two or more paths to lists")
        made = []
        for key, value in group.values.items():
            quantity = self._quantity(key, group.keys[key])
            made.append((quantity, values_of(value, self._shapes(quantity.place))))
        if len({len(values) for _, values in made}) > 1:
            counts = ", ".join(f"{len(values)} of {one.path}" for one, values in made)
            raise SpaceError(mark, f"what is zipped must have as many values each: {counts}")
        self._add(made)

    def _add(self, made: list[tuple[Quantity, list[Node]]], place: int | None = None) -> None:
        taken = [path for axis in self.axes for path in axis.paths]
        for quantity, values in made:
            path = quantity.place
            for other in taken:
                if path == other:
                    raise SpaceError(values[0].mark, f"{quantity.path} is swept twice")
                if _within(path, other) or _within(other, path):
                    both = f"{'.'.join(other)} and {quantity.path}"
                    message = f"{both} are both swept, though one is part of the other"
                    raise SpaceError(values[0].mark, message)
            taken.append(path)
        chosen = list(zip(*(values for _, values in made), strict=True))
        seen: set[tuple[object, ...]] = set()
        for together in chosen:
            said = tuple(
                _identity(value, quantity.dimension)
                for value, (quantity, _) in zip(together, made, strict=True)
            )
            if said in seen:
                twice = ", ".join(map(text_of, together))
                raise SpaceError(together[0].mark, f"{quoted(twice)} is there twice")
            seen.add(said)
        axis = Axis(tuple(quantity for quantity, _ in made), tuple(chosen))
        self.axes.insert(len(self.axes) if place is None else place, axis)

    def _drop(self, path: tuple[str, ...], mark: Mark) -> int | None:
        """Remove the axis of a path that the command line overrides; return its index."""
        for place, axis in enumerate(self.axes):
            if path not in axis.paths:
                continue
            if len(axis.paths) > 1:
                message = "is zipped with others: change the file"
                self.faults.append(Fault.at(mark, f"{'.'.join(path)} {message}"))
                return None
            del self.axes[place]
            return place
        return None

    def _constraint(self, node: Node) -> tuple[Mark, Constraint]:
        if not isinstance(node, ScalarNode):
            raise SpaceError(node.mark, "where takes comparisons, one per line")
        try:
            constraint = parse(node.text)
            constraint.check(lambda path: dimension_at(path, self.root))
        except ConstraintError as error:
            line = node.mark.source.lines[node.mark.line - 1 : node.mark.line]
            there = bool(line) and line[0][node.mark.column - 1 :].startswith(node.text)
            column = node.mark.column + (error.start if there else 0)
            place = Mark(node.mark.source, node.mark.line, column)
            raise SpaceError(place, str(error)) from None
        except ValueError as error:
            raise SpaceError(node.mark, str(error)) from None
        return node.mark, constraint

    def _quantity(self, path: str, mark: Mark) -> Quantity:
        """Quantity at a path; SpaceError where a scenario has no such path."""
        try:
            found = steps(path, self.root)
            put(_copy_of(self.root), found, ScalarNode(mark, "", ""), model_of(self.root))
        except ChangeError as error:
            raise SpaceError(mark, str(error)) from None
        if found[0] in _FIXED:
            raise SpaceError(mark, f"{found[0]} is not varied: {_FIXED[found[0]]}")
        shapes = [Shape(model_of(self.root))]
        for depth, step in enumerate(found):
            inner = members(shapes, int(step) if step.isdecimal() else step)
            if not inner:
                raise SpaceError(mark, _no_such(step, found[:depth], shapes))
            if read_from(shapes, step):
                raise SpaceError(mark, f"{path.strip()} {_KEPT}")
            shapes = inner
        return Quantity(path.strip(), tuple(found), dimension_of(shapes), 0)

    def _shapes(self, path: Sequence[str]) -> list[Shape]:
        shapes = [Shape(model_of(self.root))]
        for step in path:
            shapes = members(shapes, int(step) if step.isdecimal() else step)
        return shapes


def _within(path: Sequence[str], other: Sequence[str]) -> bool:
    return len(path) > len(other) and tuple(path[: len(other)]) == tuple(other)


def _identity(value: Node, dimension: str) -> object:
    """Key by which values are equal: 1000 Mbit/s is 1 Gbit/s, but true is not 1."""
    number = value_of(value, dimension).number
    return number if type(number) in (int, float) else repr(plain(value))


def _no_such(step: str, above: Sequence[str], shapes: Sequence[Shape]) -> str:
    if step == "space" and not above:
        return "only a plan has a space: in a sweep write its paths right under 'sweep:'"
    known = [*field_names(shapes), *(() if above else KEYS)]
    meant = nearest(step, known)
    place = f"{'.'.join(above)} has" if above else "a scenario has"
    hint = f"; did you mean {quoted('.'.join([*above, meant]))}?" if meant else ""
    return f"{place} no {quoted(step)}{hint}"


def _copy_of(node: Node) -> MappingNode:
    """Copy of a tree, to try a change."""
    copy = copied(node)
    assert isinstance(copy, MappingNode)
    return copy


def _several(text: str, mark: Mark, shapes: Sequence[Shape]) -> Node | None:
    """The list or range behind a --set: `1,2,4` or `{from: 1, to: 8, step: 1}`; None for others.

    Also `[1,2,4]`, as in a file, where what is at the path is not itself a list. Raises ChangeError
    where a value is empty.
    """
    node, faults = read_document(f"[{text}]", Source(""))
    if faults and re.search(r"^\s*,|,\s*,", text):
        raise ChangeError(f"there is an empty value between the commas of {quoted(text)}")
    if faults or not isinstance(node, SequenceNode):
        return None
    remark(node, mark)
    if len(node.items) > 1:
        return node
    only = node.items[0] if node.items else None
    if isinstance(only, MappingNode) and {"from", "to"} <= only.keys.keys():
        return only
    if isinstance(only, SequenceNode) and only.items and not any(shape.is_list for shape in shapes):
        return only
    return None


def _listed(content: object, folder: Path) -> object:
    """Plain content with lists where there are tuples, and times where there is a file of them."""
    if not isinstance(content, dict):
        return [_listed(one, folder) for one in content] if isinstance(content, tuple) else content
    found = {key: _listed(value, folder) for key, value in content.items()}
    if found.get("kind") == "trace" and "file" in found and "seconds" not in found:
        times = read_step_times(folder / str(found["file"]))
        found["seconds"] = [list(row) for row in times]
    return found
