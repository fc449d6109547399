"""Numbers that other simulators publish: links, fair sharing, parameter servers, staleness."""

from collections.abc import Callable
from fnmatch import fnmatch

from validation.finding import Finding, Verdict
from validation.peers import bookkeeping, links, servers
from validation.peers.table import Measured, Row, rows

# By group, what varsim gets: (name, quantity) -> number.
GROUPS: dict[str, Callable[[], Measured]] = {
    "single messages": links.single_messages,
    "fair sharing": links.fair_sharing,
    "parameter server": servers.parameter_server,
    "ring all-reduce": servers.ring_all_reduce,
    "staleness": bookkeeping.staleness,
}


def findings(only: str | None = None) -> list[Finding]:
    """Every number of the table beside what varsim gets; `only`: a pattern for groups."""
    asked = [row for row in rows() if only is None or fnmatch(f"peers/{row.group}", only)]
    got = {group: GROUPS[group]() for group in dict.fromkeys(row.group for row in asked)}
    return [_finding(row, got[row.group]) for row in asked]


def _finding(row: Row, measured: Measured) -> Finding:
    one = measured[row.name, row.quantity]
    good = row.keeps(one.value, one.half_width)
    return Finding(
        group=row.group,
        name=row.name,
        quantity=row.quantity,
        unit=row.unit,
        expected=row.expected,
        got=one.value,
        half_width=one.half_width,
        bound=row.bound,
        verdict=Verdict.PASS if good else Verdict.MISS,
        source=row.source,
    )
