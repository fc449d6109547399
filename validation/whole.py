"""Everything there is to validate, in a few processes at once."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import Final, NamedTuple

from validation import (
    between_nodes,
    faults,
    identities,
    interruptions,
    measured,
    outer,
    peers,
    published,
    sharded,
)
from validation.finding import Finding, matches
from validation.points import findings as points
from validation.points.point import Point
from validation.published import presets
from validation.section import Section
from varsim.calibration.recorded.comparison import Comparison
from varsim.scenario.training import Scenario
from varsim.study.simulation import mapped

Said = Callable[[str], None]


class Asked(NamedTuple):
    """What to validate. `runs`: measured runs, compared by this; None leaves a section out.

    `identities`: the scenario on which they are tried; `others`: all that is neither.
    """

    points: Sequence[Point] = ()
    published: Callable[[], list[Finding]] | None = None
    others: bool = False
    runs: Callable[[], Comparison] | None = None
    identities: Scenario | None = None
    only: str | None = None


class Whole(NamedTuple):
    """All sections that have lines, and the measured runs in full, for a page of their own."""

    sections: list[Section]
    comparison: Comparison | None


class _Part(NamedTuple):
    """A section that is made by a module: of its ABOUT, BOUND and findings.

    `known`: it has GROUPS, by one of which, or by its `name`, it is chosen; else by any line.
    """

    key: str
    title: str
    module: ModuleType
    known: bool = True
    name: str = ""


_PEERS: Final = _Part("peers", "Other simulators", peers, False, "peers")
_PARTS: Final = (
    _Part("presets", "Presets alone", presets),
    _Part("slow_links", "Training across slow links", outer, name="slow links"),
    _Part("between_nodes", "All-reduces between nodes", between_nodes),
    _Part("sharded", "Sharded training on many nodes", sharded),
    _Part("interruptions", "Interruptions of large jobs", interruptions),
    _Part("faults", "Recorded faults", faults),
)


def validated(asked: Asked, said: Said, jobs: int) -> Whole:
    """Do everything that is asked for. The order of what is done changes no number."""
    lines, published_lines, comparison = _at_once(asked, said, jobs)
    sections = [
        Section("closed_forms", "Closed forms", points.ABOUT, points.BOUND, lines),
        *_made([_PEERS] * asked.others, asked.only, said),
        Section(
            "published",
            "Published measurements",
            published.ABOUT,
            published.BOUND,
            published_lines,
            lead=published.lead(published_lines),
        ),
        *_made(_PARTS if asked.others else (), asked.only, said),
    ]
    if comparison is not None:
        found = _chosen(measured.findings(comparison), asked.only, "measured")
        texts = (measured.ABOUT, measured.BOUND)
        sections.append(
            Section("measured_runs", "Measured runs", *texts, found, link="measured.md")
        )
    if asked.identities is not None:
        said("identities")
        found = _chosen(identities.findings(asked.identities), asked.only, "identities")
        texts = (identities.ABOUT, identities.BOUND)
        sections.append(Section("identities", "Identities", *texts, found, scaled=False))
    return Whole([section for section in sections if section.findings], comparison)


def _at_once(
    asked: Asked, said: Said, jobs: int
) -> tuple[list[Finding], list[Finding], Comparison | None]:
    """Lines of closed forms and of published measurements, and measured runs, side by side."""
    wanted = points.chosen(asked.points, asked.only)
    known = points.to_run(wanted)
    # What takes longest begins first.
    aside: dict[str, Callable[[], object]] = {}
    if asked.published is not None:
        aside["published measurements"] = asked.published
    if asked.runs is not None:
        aside["recorded runs"] = asked.runs
    work: list[Callable[[], object]] = [
        *aside.values(),
        *(partial(points.run_point, point) for point in known),
    ]
    names = [*aside, *[f"{len(known)} points of closed forms"] * bool(known)]
    if names:
        said(", ".join(names))
    done: list[object] = []
    for one in mapped(_called, work, max(1, min(jobs, len(work)))):
        done.append(one)
        if len(done) > len(aside):
            points.said_now_and_then(said, len(done) - len(aside), len(known))
        else:
            said(f"{names[len(done) - 1]}: done")
    found = dict(zip(aside, done, strict=False))
    lines, comparison = found.get("published measurements", []), found.get("recorded runs")
    assert isinstance(lines, list)
    assert comparison is None or isinstance(comparison, Comparison)
    ran = [one for one in done[len(aside) :] if isinstance(one, points.Ran)]
    return points.told(wanted, known, ran), lines, comparison


def _called(work: Callable[[], object]) -> object:
    return work()


def _made(parts: Sequence[_Part], only: str | None, said: Said) -> Iterator[Section]:
    """The sections of parts that fit a pattern."""
    for part in parts:
        module = part.module
        if part.known and not matches(only, part.name, *module.GROUPS):
            continue
        said(part.title.lower())
        found = _chosen(module.findings(), only, part.name)
        lead = module.lead() if module is presets else ""
        texts = (module.ABOUT, module.BOUND)
        yield Section(part.key, part.title, *texts, found, lead=lead)


def _chosen(found: Sequence[Finding], only: str | None, name: str) -> list[Finding]:
    """Those that are meant by a pattern: all by the name of their section."""
    return [one for one in found if matches(only, name, one.group, one.name)]
