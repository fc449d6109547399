"""The whole validation in pictures: got against expected, and the errors of every group."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from validation.finding import Finding, Verdict
from validation.index.section import Section
from varsim.report.charts.looks import Look, looks
from varsim.report.charts.style import FAINT, lay_out, panels, short, style, swatch, write

_MISSED: Final = "#bd1f01"
_JUDGED: Final = (Verdict.PASS, Verdict.MISS)
_MOST_GROUPS: Final = 80


def draw_all(sections: Sequence[Section], directory: Path) -> dict[str, str]:
    """Write every picture there is something to show in, as .png and .svg; what each shows."""
    drawn = {}
    if any(_positive(section) for section in sections):
        drawn["agreement"] = draw_agreement(sections, directory / "agreement")
    for section in sections:
        if _rows(section):
            name = f"errors_{section.key}"
            drawn[name] = draw_errors(section, directory / name)
    return drawn


def draw_agreement(sections: Sequence[Section], path: Path) -> str:
    """Got against expected, both logarithmic; on the line they are equal."""
    look = looks(dict.fromkeys((section.title for section in sections), ""))
    with style():
        figure, (axes,) = panels(1)
        for section in sections:
            _agreement(section, look[section.title], axes)
        axes.set_xscale("log")
        axes.set_yscale("log")
        low, high = axes.get_xlim()
        axes.plot([low, high], [low, high], color=FAINT, linewidth=0.8, zorder=1)
        axes.set_xlim(low, high)
        axes.set_xlabel("expected or measured (each in its own unit)")
        axes.set_ylabel("simulated")
        shown = [section for section in sections if _positive(section)]
        number = sum(len(_positive(section)) for section in shown)
        legend = [
            swatch(one.title, color, marker=marker, markersize=5.5, linestyle="none")
            for one in shown
            for color, marker, _ in [look[one.title]]
        ]
        lay_out(figure, [5.2], legend)
    _write(figure, path)
    return f"{number:,} numbers, expected and simulated"


def draw_errors(section: Section, path: Path) -> str:
    """A row per group, a mark per line: how far off it is."""
    rows = _rows(section)
    with style():
        figure, (axes,) = panels(1)
        draw_rows(section, axes)
        lay_out(figure, [0.7 + 0.2 * len(rows)], _legend())
    _write(figure, path)
    return _title(section, rows, _in_intervals(section))


def _write(figure: Figure, path: Path) -> None:
    for form in (".png", ".svg"):
        write(figure, path.with_suffix(form))


def draw_rows(section: Section, axes: Axes) -> Axes:
    """The rows of `draw_errors`: in percent, or in intervals."""
    rows, in_intervals = _rows(section), _in_intervals(section)
    for height, (_, lines) in enumerate(rows):
        for one in lines:
            missed = one.verdict is Verdict.MISS
            axes.plot(
                [_off(one, in_intervals)],
                [height],
                "X" if missed else "o",
                color=_MISSED if missed else "#3f90da",
                markersize=5,
                alpha=0.8,
                markeredgewidth=0,
            )
    _finish(axes, [name for name, _ in rows], in_intervals)
    return axes


def _agreement(section: Section, look: Look, axes: Axes) -> None:
    found = _positive(section)
    axes.plot(
        [one.expected for one in found],
        [one.got or 0.0 for one in found],
        look.mark,
        color=look.color,
        markersize=4,
        alpha=0.6,
        markeredgewidth=0,
        linestyle="none",
    )


def _finish(axes: Axes, labels: Sequence[str], in_intervals: bool) -> None:
    axes.set_yticks(
        range(len(labels)), [f"   {short(label, 44)}" for label in labels], fontsize=7.5
    )
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.axvline(0, color=FAINT, linewidth=0.8, zorder=1)
    if in_intervals:
        for edge in (-1, 1):
            axes.axvline(edge, color=_MISSED, linewidth=0.8, linestyle="--", zorder=1)
        axes.set_xlabel("error, as a share of half the 99 % interval (inside: from -1 to 1)")
    else:
        axes.set_xscale("symlog", linthresh=1.0)
        low, high = axes.get_xlim()
        axes.set_xlim(min(low, -1.0), max(high, 1.0))
        axes.set_xlabel("error (%; beyond 1 % logarithmic)")


def _rows(section: Section) -> list[tuple[str, list[Finding]]]:
    """Groups with lines to draw, at most so many: then those that are farthest off."""
    in_intervals = _in_intervals(section)
    groups: dict[str, list[Finding]] = {}
    for one in section.findings:
        judged = one.verdict in _JUDGED and one.expected != 0 and one.got is not None and one.unit
        if judged and (one.half_width or not in_intervals):
            groups.setdefault(one.group, []).append(one)
    if len(groups) > _MOST_GROUPS:
        far = sorted(groups, key=lambda name: -max(abs(one.error or 0) for one in groups[name]))
        groups = {name: lines for name, lines in groups.items() if name in far[:_MOST_GROUPS]}
    return list(groups.items())


def _in_intervals(section: Section) -> bool:
    """Whether errors are best told in intervals: where most that is not exact has one."""
    return sum(bool(one.half_width) for one in section.findings) > len(section.findings) / 4


def _off(one: Finding, in_intervals: bool) -> float:
    assert one.got is not None
    if in_intervals:
        assert one.half_width
        return (one.got - one.expected) / one.half_width
    return 100 * (one.error or 0.0)


def _positive(section: Section) -> list[Finding]:
    return [
        one
        for one in section.findings
        if one.verdict in _JUDGED and one.unit and one.expected > 0 and (one.got or 0) > 0
    ]


def _title(section: Section, rows: Sequence[tuple[str, list[Finding]]], in_intervals: bool) -> str:
    lines = [one for _, own in rows for one in own]
    missed = sum(one.verdict is Verdict.MISS for one in lines)
    what = "random lines" if in_intervals else "lines"
    return f"{section.title}: {len(lines):,} {what}, {missed} of them miss their bound"


def _legend() -> list[Artist]:
    return [
        swatch(said, color, marker=marker, markersize=5, linestyle="none")
        for said, color, marker in (
            ("keeps its bound", "#3f90da", "o"),
            ("misses it", _MISSED, "X"),
        )
    ]
