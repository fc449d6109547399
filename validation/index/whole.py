"""Everything there is to validate, in a few processes at once."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from validation import between_nodes, faults, interruptions, outer, sharded
from validation.finding import Finding, matches
from validation.index.section import Section
from validation.points.findings import (
    BOUND,
    Ran,
    chosen,
    run_point,
    said_now_and_then,
    to_run,
    told,
)
from validation.points.point import Point
from validation.published import lead, presets
from varsim.calibration.recorded.comparison import Comparison
from varsim.scenario.training import Scenario
from varsim.study.simulation import mapped

Said = Callable[[str], None]

_POINTS: Final = (
    "Formulas of queueing theory, order statistics, collectives, overlap and linear recursions, "
    "with test points. Each describes a system; that system is put together as a scenario, "
    "simulated by the code that varsim run uses, and measured. No formula is evaluated."
)
_PEERS: Final = (
    "Numbers that other simulators and papers print for small systems: single messages, "
    "all-to-all, fair sharing, a parameter server, a ring, staleness."
)
_PEERS_BOUND: Final = (
    "Whole nanoseconds exactly; numbers of fluid models to all digits that are printed; averages "
    "of random runs inside their interval."
)
_PUBLISHED: Final = (
    "Measurements that others published. What one worker does by itself is given, the smallest and "
    "the largest of the other rows tell the constants that they share (which, is said in each "
    "line), the rest is predicted. First come models and experiments on which no constant was "
    "fitted: each is predicted with constants that only others told."
)
_PUBLISHED_BOUND: Final = (
    "Median absolute error at most 8 % over models, and over experiments, without a constant of "
    "their own; of these at most 4 % for plain rings on 10 GbE, and 12 % on hybrid meshes. At most "
    "8 % over all predicted rows, 4 % for rings on 10 GbE and for batch curves; a single row at "
    "most three times the bound of its experiment."
)
_MEASURED: Final = (
    "Runs of real clusters, recorded for this project and replayed; each half is predicted from "
    "overheads that were calibrated on the other half."
)
_MEASURED_BOUND: Final = (
    "Parameter servers: total time off by 1 % in the median, 4 % at most; 90th percentile of the "
    "step time 3 % in the median; gradients dropped 1 % and staleness 3 % at most. All-reduce: "
    "total time 2 % in the median, 10 % at most. Without any overheads: 7 % in the median."
)
_IDENTITIES: Final = (
    "Equalities between runs of one scenario: between strategies that must train alike, between "
    "a run and what is worked out without a clock, between a run and the same in slow motion."
)
_IDENTITIES_BOUND: Final = (
    "Bit for bit where the same sums are made in the same order; else to 1e-12 of the largest "
    "parameter, after 20 updates."
)


class Asked(NamedTuple):
    """What to validate. `runs`: measured runs, compared by this; None leaves a section out.

    `identities`: the scenario on which they are tried.
    """

    points: Sequence[Point] | None = None
    published: Callable[[], list[Finding]] | None = None
    presets: bool = False
    peers: bool = False
    outer: bool = False
    between_nodes: bool = False
    sharded: bool = False
    interruptions: bool = False
    runs: Callable[[], Comparison] | None = None
    identities: Scenario | None = None
    only: str | None = None


class Whole(NamedTuple):
    """All sections that have lines, and the measured runs in full, for a page of their own.

    `presets`: how jobs scale that are simulated from presets alone, for the table of their errors.
    """

    sections: list[Section]
    comparison: Comparison | None
    presets: Sequence[presets.Scaling]


def validated(asked: Asked, said: Said, jobs: int) -> Whole:
    """Do everything that is asked for. The order of what is done changes no number."""
    wanted = chosen(asked.points or (), asked.only)
    known = to_run(wanted)
    aside = [one for one in (asked.published, asked.runs) if one is not None]
    names = [
        name
        for name, there in (
            ("published measurements", asked.published),
            ("recorded runs", asked.runs),
            (f"{len(known)} points of closed forms", known),
        )
        if there
    ]
    if names:
        said(", ".join(names))
    # What takes longest begins first.
    work: list[Callable[[], object]] = [*aside, *(partial(run_point, point) for point in known)]
    done: list[object] = []
    for one in mapped(_called, work, max(1, min(jobs, len(work)))):
        done.append(one)
        if len(done) > len(aside):
            said_now_and_then(said, len(done) - len(aside), len(known))
        else:
            said(f"{names[len(done) - 1]}: done")
    results = iter(done)
    published = next(results) if asked.published is not None else []
    comparison = next(results) if asked.runs is not None else None
    assert isinstance(published, list)
    assert comparison is None or isinstance(comparison, Comparison)
    ran = [one for one in results if isinstance(one, Ran)]
    scalings = _presets(asked, said)
    sections = [
        Section("closed_forms", "Closed forms", _POINTS, BOUND, told(wanted, known, ran)),
        Section("peers", "Other simulators", _PEERS, _PEERS_BOUND, _peers(asked, said)),
        Section(
            "published",
            "Published measurements",
            _PUBLISHED,
            _PUBLISHED_BOUND,
            published,
            lead=lead(published),
        ),
        Section(
            "presets",
            "Presets alone",
            presets.ABOUT,
            presets.BOUND,
            presets.findings(scalings),
            lead=presets.lead(scalings),
        ),
        Section(
            "slow_links",
            "Training across slow links",
            outer.ABOUT,
            outer.BOUND,
            _outer(asked, said),
        ),
        Section(
            "between_nodes",
            "All-reduces between nodes",
            between_nodes.ABOUT,
            between_nodes.BOUND,
            _between_nodes(asked, said),
        ),
        Section(
            "sharded",
            "Sharded training on many nodes",
            sharded.ABOUT,
            sharded.BOUND,
            _sharded(asked, said),
        ),
        Section(
            "interruptions",
            "Interruptions of large jobs",
            interruptions.ABOUT,
            interruptions.BOUND,
            _interruptions(asked, said),
        ),
        Section("faults", "Recorded faults", faults.ABOUT, faults.BOUND, _faults(asked, said)),
        Section(
            "measured_runs",
            "Measured runs",
            _MEASURED,
            _MEASURED_BOUND,
            _measured(comparison, asked.only),
            link="measured.md",
        ),
        Section(
            "identities",
            "Identities",
            _IDENTITIES,
            _IDENTITIES_BOUND,
            _identities(asked, said),
            scaled=False,
        ),
    ]
    return Whole([section for section in sections if section.findings], comparison, scalings)


def _called(work: Callable[[], object]) -> object:
    return work()


def _peers(asked: Asked, said: Said) -> list[Finding]:
    if not asked.peers:
        return []
    from validation import peers

    said("other simulators")
    found = peers.findings()
    return [one for one in found if matches(asked.only, "peers", one.group, one.name)]


def _presets(asked: Asked, said: Said) -> list[presets.Scaling]:
    if not asked.presets or not matches(asked.only, presets.GROUP):
        return []
    said("published jobs from presets alone")
    return presets.scalings()


def _outer(asked: Asked, said: Said) -> list[Finding]:
    if not asked.outer or not matches(asked.only, "slow links", *outer.GROUPS):
        return []
    said("training across slow links")
    found = outer.findings()
    return [one for one in found if matches(asked.only, "slow links", one.group, one.name)]


def _between_nodes(asked: Asked, said: Said) -> list[Finding]:
    if not asked.between_nodes or not matches(asked.only, between_nodes.GROUP):
        return []
    said(between_nodes.GROUP)
    return between_nodes.findings()


def _sharded(asked: Asked, said: Said) -> list[Finding]:
    if not asked.sharded or not matches(asked.only, sharded.GROUP):
        return []
    said("sharded training on many nodes")
    return sharded.findings()


def _interruptions(asked: Asked, said: Said) -> list[Finding]:
    if not asked.interruptions or not matches(asked.only, *interruptions.GROUPS):
        return []
    said("interruptions of large jobs")
    found = interruptions.findings()
    return [one for one in found if matches(asked.only, one.group, one.name)]


def _faults(asked: Asked, said: Said) -> list[Finding]:
    if not asked.interruptions or not matches(asked.only, faults.GROUP):
        return []
    said("recorded faults")
    return faults.findings()


def _measured(comparison: Comparison | None, only: str | None) -> list[Finding]:
    if comparison is None:
        return []
    from validation import measured

    found = measured.findings(comparison)
    return [one for one in found if matches(only, "measured", one.group, one.name)]


def _identities(asked: Asked, said: Said) -> list[Finding]:
    if asked.identities is None:
        return []
    from validation.identities import findings

    said("identities")
    found = findings(asked.identities)
    return [one for one in found if matches(asked.only, "identities", one.group, one.name)]


def published(path: Path | None, only: str | None) -> list[Finding]:
    """The section of published measurements, of a file or of those that come with varsim."""
    from validation import published as section

    return section.findings(path, only, lambda _: None)
